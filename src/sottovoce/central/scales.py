r"""Two scales of the data that the solvers need, each released with a small share of the budget.

*Largest eigenvalue.* With rows |x_i| <= 1, lambda_max(X'X)/n moves by at most 1/n when a row is added, removed, zeroed
or replaced (Weyl's inequality: X'X moves by a positive semidefinite matrix of norm at most 1 in each direction, and for
a replacement both tables lie within [lambda, lambda + 1] of the table without the row).

*Scale of the labels.* A histogram of |y| on a public geometric grid moves by one count in one bin (two bins when a row
is replaced), so sensitivity 1 (sqrt 2).

Proofs: ``docs/privacy/dp_scd.md``.
"""

from typing import Any, Final

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import eigh

from sottovoce.central.rows import Rows
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.privacy.events import GaussianEvent
from sottovoce.privacy.mechanisms.gaussian import GridGaussian, power_of_two_below, rounding_norm, to_ticks

__all__ = ["MAX_GRAM", "release_label_scale", "release_largest_eigenvalue"]

# Above this width the Gram matrix costs more than the training; the bound 1, which needs no data, is used instead.
MAX_GRAM: Final = 2048
_BLOCK: Final = 8192
_INFLATION: Final = 2.0  # standard deviations added to the noisy eigenvalue: too small a value would diverge
_GRID: Final = 2.0 ** (-np.arange(24, -1, -1) / 2.0)  # edges from bound / 4096 to the bound, two a factor of 2
_QUANTILE: Final = 0.9


def release_largest_eigenvalue(
    rows: Rows, *, n_public: int, mu: float, noise: np.random.Generator
) -> tuple[float, GaussianEvent]:
    """Release an upper estimate of lambda_max(X'X)/n in (0, 1] with a Gaussian of mean shift ``mu``.

    Parameters
    ----------
    rows : Rows
    n_public : int
        Public number of rows.
    mu : float, > 0
        Gaussian-DP parameter to spend.
    noise : numpy.random.Generator

    Returns
    -------
    float
        Noisy eigenvalue plus two standard deviations, within the public bounds.
    GaussianEvent
        What it cost.
    """
    gram = _gram(rows)
    width = gram.shape[0]
    exact = float(eigh(gram, eigvals_only=True, subset_by_index=(width - 1, width - 1))[0])
    # In the unit of X'X. Double rounding of the sums and of the eigenvalue is within this bound (Higham 2002, section
    # 3.5).
    rounding = 4.0 * (_BLOCK + rows.n_samples / _BLOCK + width) * 2.0**-53 * rows.n_samples
    tick = power_of_two_below((1.0 + rounding) / mu / 2**20)
    sensitivity = 1.0 + 2.0 * rounding + rounding_norm(1, tick)
    mechanism = GridGaussian(sensitivity, 1.0 / mu, tick)
    noisy, event = mechanism.release(to_ticks(np.array([exact]), tick), noise)
    estimate = (float(noisy[0]) + _INFLATION * mechanism.noise_std) / n_public
    # the column of the intercept alone has the eigenvalue constant^2
    lowest = max(1.0 / rows.n_weights, rows.constant**2)
    return min(1.0, max(lowest, estimate)), event


def _gram(rows: Rows) -> NDArray[np.float64]:
    """Return X'X of the scaled rows in double precision, block by block."""
    width = rows.n_weights
    features = rows.raw.shape[1]
    gram = np.zeros((width, width))
    for lo in range(0, rows.n_samples, _BLOCK):
        factor = rows.scale[lo : lo + _BLOCK]
        block: Any = rows.raw[lo : lo + _BLOCK].astype(np.float64)
        if isinstance(block, np.ndarray):
            scaled = block * factor[:, None]
            gram[:features, :features] += scaled.T @ scaled
            sums = scaled.sum(axis=0)
        else:
            scaled = sp.diags_array(factor) @ block
            gram[:features, :features] += (scaled.T @ scaled).toarray()
            sums = np.asarray(scaled.sum(axis=0)).ravel()
        if rows.constant > 0.0:
            gram[-1, :features] += rows.constant * sums
            gram[-1, -1] += rows.constant**2 * len(factor)
    if rows.constant > 0.0:
        gram[:features, -1] = gram[-1, :features]
    return gram


def release_label_scale(
    y: NDArray[np.float64], *, bound: float, mu: float, adjacency: Adjacency, noise: np.random.Generator
) -> tuple[float, GaussianEvent]:
    """Release a 90 % quantile of |y| on a public geometric grid, with a Gaussian of mean shift ``mu``.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Centred labels, each within ``bound``.
    bound : float, > 0
        Public bound on |y|.
    mu : float, > 0
        Gaussian-DP parameter to spend.
    adjacency : Adjacency
    noise : numpy.random.Generator

    Returns
    -------
    float
        A grid value in [bound / 4096, bound].
    GaussianEvent
        What it cost.
    """
    edges = bound * _GRID
    counts = np.histogram(np.minimum(np.abs(y), bound), np.concatenate(([0.0], edges)))[0]
    sensitivity = adjacency.histogram_factor
    tick = min(1.0, power_of_two_below(sensitivity / mu / 2**20))
    noisy, event = GridGaussian(sensitivity, 1.0 / mu, tick).release(to_ticks(counts.astype(np.float64), tick), noise)
    cumulative = np.cumsum(np.maximum(noisy, 0.0))
    place = int(np.searchsorted(cumulative, _QUANTILE * cumulative[-1]))
    return float(edges[min(place, len(edges) - 1)]), event
