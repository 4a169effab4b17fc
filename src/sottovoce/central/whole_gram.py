"""X'X in whole numbers: the same, bit by bit, for every number of threads, and released without rounding to count.

Entries of the scaled rows are cut toward zero to whole multiples of 2^-16. Their products are whole multiples of 2^-32,
at most 1 in size, so the product of a piece of 8,192 rows is exact in double precision in whatever order a library
adds it up. Pieces are added one after the other; that is exact up to 2^21 rows and errs by an ulp a piece beyond.
Cutting can only shorten a row, so the bounds on its norm hold for what is summed.

Privacy: ``docs/privacy/newton.md``.
"""

import math
from typing import Final

import numpy as np
import scipy.sparse as sp

from sottovoce._numerics import PIECE, ROUNDING_SLACK, Vector
from sottovoce.central.plan import most_rows
from sottovoce.central.rows import Rows
from sottovoce.privacy.events import GaussianEvent
from sottovoce.privacy.mechanisms.gaussian import GridGaussian, power_of_two_below, rounding_norm, to_ticks
from sottovoce.privacy.neighbours import Neighbours

__all__ = ["gram_mechanism", "release_gram", "whole_gram"]

_GRID: Final = 2.0**16  # steps in 1 of an entry; PIECE products of two are below 2^53
_USEFUL_BITS: Final = 30  # ticks to a standard deviation of the noise
_MOST_BITS: Final = 58  # of the largest entry in ticks


def whole_gram(rows: Rows) -> Vector:
    """Return X'X of the scaled rows, entries cut to multiples of 2^-16."""
    width, features = rows.n_weights, rows.raw.shape[1]
    total = np.zeros((width, width))
    constant = math.trunc(rows.constant * _GRID)
    for piece in rows.scaled_pieces():
        if isinstance(piece, np.ndarray):
            np.multiply(piece, _GRID, out=piece)
            np.trunc(piece, out=piece)
            total[:features, :features] += piece.T @ piece
        else:
            piece = sp.csr_array(piece)
            piece.data = np.trunc(piece.data * _GRID)
            total[:features, :features] += (piece.T @ piece).toarray()
        if constant:
            total[-1, :features] += constant * np.asarray(piece.sum(axis=0)).ravel()
            total[-1, -1] += constant**2 * piece.shape[0]
    total[:features, features:] = total[features:, :features].T
    return total / _GRID**2


def gram_mechanism(n_weights: int, n_public: int, neighbours: Neighbours, mu: float) -> GridGaussian:
    """Return the mechanism that releases (G_jj, sqrt(2) G_jk), j < k, of `whole_gram` in ticks, from public facts."""
    n_rows = most_rows(n_public, neighbours.adjacency)
    # what adding the pieces beyond 2^53, and the factor sqrt(2), err by, in Frobenius norm
    rounding = (n_rows / PIECE + 8.0) * 2.0**-53 * n_rows
    exact = neighbours.square_factor * ROUNDING_SLACK + 2.0 * rounding  # a replaced row: |xx' - zz'| <= sqrt(2)
    tick = max(power_of_two_below(exact / mu) * 2.0**-_USEFUL_BITS, power_of_two_below(n_rows) * 2.0**-_MOST_BITS)
    return GridGaussian(exact + rounding_norm(n_weights * (n_weights + 1) // 2, tick), 1.0 / mu, tick)


def release_gram(rows: Rows, mechanism: GridGaussian, noise: np.random.Generator) -> tuple[Vector, GaussianEvent]:
    """Release X'X by its upper triangle, entries beside the diagonal times sqrt(2).

    Returns
    -------
    ndarray of shape (n_weights, n_weights)
        Symmetric, with noise of variance s^2 on the diagonal and s^2 / 2 beside it.
    GaussianEvent
        What it cost.
    """
    matrix = whole_gram(rows)
    upper = np.triu_indices(len(matrix))
    factor = np.where(upper[0] == upper[1], 1.0, math.sqrt(2.0))
    noisy, event = mechanism.release(to_ticks(matrix[upper] * factor, mechanism.tick), noise)
    matrix[upper] = noisy / factor
    matrix.T[upper] = matrix[upper]
    return matrix, event
