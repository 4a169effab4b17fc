"""Rows of each label at the nodes of a grid of predictions, and the public matrix that their counts are released by."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from sottovoce._numerics import PIECE, ROUNDING_SLACK, Vector
from sottovoce.central.data.operation import Columns, RowSum, Ticks
from sottovoce.central.data.row_memory import TARGET
from sottovoce.central.kernels.calls import ScaledRows, passes
from sottovoce.privacy.adjacency import Adjacency, Neighbours
from sottovoce.privacy.mechanisms.gaussian import GridGaussian, power_of_two_below, rounding_norm, shared

_HALF: Final = (0.5, 1.0, 1.5, 2.0, 3.0, 4.5, 7.0, 12.0)
NODES: Final = np.array([*(-node for node in reversed(_HALF)), 0.0, *_HALF])
# what each half is to the right of, at which all nodes are, and how far the next one is
_LEFT: Final = np.searchsorted(NODES[1:-1], np.arange(NODES[0], NODES[-1] + 0.5, 0.5), side="right")
_GAPS: Final = np.diff(NODES)
PARTS: Final = 2**10  # that a row is shared in
_FINE: Final = 2**14  # of the columns of A: together with the parts a row has 2^24 ticks, and 2^37 rows fit in 63 bits
_TICK: Final = 1.0 / (PARTS * _FINE)
CUT: Final = 1.5  # of phi where noise matters
_SLOPES, _SHIFTS = 25, 31  # of the grid on which means are taken
LIMIT: Final = 3.0  # standard deviations of the prior that the grid covers


class Prior(NamedTuple):
    """What is known of slope and shift beforehand; a spread of 0 for the shift leaves it at 0."""

    slope: float
    slope_spread: float  # of its logarithm
    shift_spread: float
    cut: float = CUT


@dataclass(frozen=True, eq=False)
class BinnedMargins(RowSum):
    """How many parts of rows of each label are at the nodes beside their predictions; NaN counts as 0."""

    w: NDArray[Any]  # of shape (n_weights,); released, in the precision of the matrix
    prior: Prior | None = None  # A follows from it; None where the counts are not protected

    reads = (TARGET,)
    counted = PARTS

    def shape(self, columns: Columns) -> tuple[int, ...]:
        return (2, len(NODES))

    def add(self, rows: ScaledRows, views: Sequence[NDArray[Any]], lo: int, hi: int, total: Ticks) -> None:
        for first in range(lo, hi, PIECE):
            last = min(hi, first + PIECE)
            out = np.empty(last - first)
            passes.predictions(rows, self.w, first, last, out)
            at = np.minimum(np.maximum(np.nan_to_num(out), NODES[0]), NODES[-1])
            left = _LEFT[np.floor(2.0 * at).astype(np.int64) - int(2.0 * NODES[0])]
            share = (PARTS * (at - NODES[left]) / _GAPS[left]).astype(np.int64)
            cell = left + len(NODES) * (views[0][first:last] > 0.0)
            # whole numbers below 2^53, which doubles add up exactly
            parts = np.bincount(cell, PARTS - share, total.size) + np.bincount(cell + 1, share, total.size)
            total += parts.astype(np.int64).reshape(total.shape)

    def protected(self, exact: Ticks, mechanism: GridGaussian) -> Ticks:
        assert self.prior is not None
        # by so many binary digits ticks are coarser than the finest ones
        bits = round(math.log2(mechanism.tick / _TICK))
        ticks: Ticks = (design_for(self.prior).matrix @ exact.ravel()) >> bits
        return ticks


@shared
def shared_counts(prior: Prior, noise_multiplier: float, neighbours: Neighbours) -> GridGaussian:
    """Return the mechanism that releases A times the counts; all sums are of whole numbers, so they are exact."""
    design = design_for(prior)
    # a replaced person may have fewer rows than before: then some columns come, and none goes
    replaced = neighbours.adjacency is Adjacency.REPLACE_ONE
    gap = neighbours.rows * (max(design.widest_gap, design.longest) if replaced else design.longest)
    tick = max(_TICK, power_of_two_below(noise_multiplier) * 2.0**-40)  # not absurdly finer than the noise
    coarse = rounding_norm(len(design.matrix), tick) if tick > _TICK else 0.0
    return GridGaussian(gap * ROUNDING_SLACK + coarse, noise_multiplier, tick)


@dataclass(frozen=True)
class Design:
    """The public matrix for a prior."""

    prior: Prior
    matrix: NDArray[np.int64]  # of shape (cells, cells); A in units of 1 / _FINE: a column for each label and node
    inverse: Vector  # of shape (cells, cells)
    # The longest column, and the widest distance of two.
    longest: float
    widest_gap: float


@lru_cache(maxsize=256)
def design_for(prior: Prior) -> Design:
    slopes, shifts, log_prior = grid_around(prior, math.log(prior.slope), prior.slope_spread, 0.0, prior.shift_spread)
    cells = scores_of_cells(np.exp(slopes), shifts, prior.cut)
    cells = cells / np.sqrt((cells**2).sum(axis=(0, 1, 3), keepdims=True))  # each equation counts alike
    likely = np.exp(log_prior)[..., None, None] * cells
    matrix = np.trunc(_FINE * _strategy(np.einsum("abik,abil->kl", likely, cells))).astype(np.int64)
    columns = matrix.T.astype(np.float64)
    apart = math.sqrt(float(((columns[:, None] - columns) ** 2).sum(axis=2).max())) / _FINE
    longest = math.sqrt(float((columns**2).sum(axis=1).max())) / _FINE
    return Design(prior, matrix, np.asarray(np.linalg.inv(matrix / _FINE), np.float64), longest, apart)


def grid_around(
    prior: Prior, centre: float, spread: float, middle: float, width: float
) -> tuple[Vector, Vector, Vector]:
    """Return logarithms of slopes and shifts around a point, and the logarithm of the prior there."""
    slopes = centre + LIMIT * spread * np.linspace(-1.0, 1.0, _SLOPES)
    away = (slopes[:, None] - math.log(prior.slope)) / prior.slope_spread
    if prior.shift_spread == 0.0:
        return slopes, np.zeros(1), -0.5 * away**2
    shifts = middle + LIMIT * width * np.linspace(-1.0, 1.0, _SHIFTS)
    return slopes, shifts, -0.5 * (away**2 + (shifts / prior.shift_spread) ** 2)


def scores_of_cells(slopes: Vector, shifts: Vector, cut: float) -> Vector:
    """Return the terms of a row in each cell in the equations, for each slope and shift."""
    z = slopes[:, None, None] * NODES + shifts[:, None]
    rest = np.concatenate([expit(z), -expit(-z)], axis=-1)  # prediction minus label
    phi = np.clip(slopes[:, None] * NODES, -cut, cut)
    terms = [rest * np.concatenate([phi, phi], axis=-1)[:, None], *([rest] if len(shifts) > 1 else [])]
    return np.stack(terms, axis=-2)


def equations_at(slopes: Vector, shifts: Vector, design: Design) -> Vector:
    """Return what the released sums are multiplied by in the equations: the scores of the cells times A^-1.

    A row of label +1 adds what one of label -1 adds, less phi: so one product over the nodes is enough for both.
    """
    phi = np.clip(slopes[:, None] * NODES, -design.prior.cut, design.prior.cut)
    factors = np.stack([phi, np.ones_like(phi)][: 1 + (len(shifts) > 1)])  # of each equation and slope
    predicted = 0.5 + 0.5 * np.tanh(0.5 * (slopes[:, None, None] * NODES + shifts[:, None]))
    scores = predicted * factors[:, :, None]
    below, above = design.inverse[: len(NODES)], design.inverse[len(NODES) :]
    both: Vector = (scores.reshape(-1, len(NODES)) @ (below + above)).reshape(*scores.shape[:-1], -1)
    both -= (factors @ above)[:, :, None]
    return both


def _strategy(workload: Vector) -> Vector:
    """Return A, no column longer than 1, with about the least trace(workload (A'A)^-1).

    Where all columns have length 1, the optimal X = A'A satisfies X diag(l) X = workload for some l > 0, the
    multipliers of the lengths, which are found by repeated scaling.
    """
    size = len(workload)
    workload = workload / np.trace(workload) + 1e-4 / size * np.eye(size)
    multipliers = np.full(size, 1.0 / size)
    for _ in range(20):
        root = np.sqrt(multipliers)
        values, vectors = np.linalg.eigh(root[:, None] * workload * root)
        product = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T / root[:, None] / root
        multipliers = multipliers * product.diagonal()
        multipliers /= multipliers.sum()
    # a square root whose rows are all of a like size: no tick is lost on small rows
    values, vectors = np.linalg.eigh(product / product.diagonal().max())
    return np.asarray((vectors * np.sqrt(np.maximum(values, 1e-6))) @ vectors.T)
