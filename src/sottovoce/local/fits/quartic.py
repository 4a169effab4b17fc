r"""Minimise a surrogate of fourth degree over a ball, from the reports themselves.

With x = <g, w> and r = |w|, the Hermite polynomials of one report are unbiased for powers of the margin u = <w, z>: E
r^k He_k(x/r) = A_k u^k. The mean over reports of sum_k (c_k / A_k) r^k He_k(x/r) is therefore unbiased for the mean of
the surrogate c_0 + ... + c_4 u^4, at every w; it is a polynomial in w that needs the reports (d^4 sums otherwise), and
may not be convex. Projected gradient descent with backtracking, from a given start, finds a local minimum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sottovoce.exceptions import ParameterError
from sottovoce.local.fits.kernels import fill

__all__ = ["ReportVectors", "minimise_quartic", "quartic_objective"]

Array = NDArray[np.float64]

_BLOCK_ENTRIES: Final = 1 << 20
_CACHED_ENTRIES: Final = 1 << 26  # 256 MB in single precision
_TOLERANCE: Final = 1e-6


class ReportVectors:
    """The candidates of kept reports, in blocks: kept in single precision where they fit in 256 MB, else made again.

    Parameters
    ----------
    seeds, indices : arrays of shape (n,)
    d : int
    used : int
        The first ``used`` coordinates are given.
    """

    def __init__(self, seeds: NDArray[np.uint64], indices: NDArray[np.uint16], d: int, used: int) -> None:
        self.seeds, self.indices = np.asarray(seeds, np.uint64), np.asarray(indices, np.uint64)
        self.d, self.used = d, used
        fits = len(self.seeds) * used <= _CACHED_ENTRIES
        self._cache = list(self._made()) if fits else None

    def __len__(self) -> int:
        return len(self.seeds)

    def blocks(self) -> Iterator[NDArray[np.float32]]:
        """Yield the vectors of all reports, some at a time."""
        return iter(self._cache) if self._cache is not None else self._made()

    def _made(self) -> Iterator[NDArray[np.float32]]:
        rows = max(1, _BLOCK_ENTRIES // self.d)
        for start in range(0, len(self.seeds), rows):
            seeds = self.seeds[start : start + rows]
            block = np.empty((len(seeds), self.d))
            fill(seeds, self.indices[start : start + rows], block)
            yield block[:, : self.used].astype(np.float32)


def quartic_objective(
    vectors: ReportVectors, coefficients: Array, A: tuple[float, float, float, float]
) -> Callable[[Array], tuple[float, Array]]:
    """Return the function that gives value and gradient of the estimated surrogate at w."""
    c = np.asarray(coefficients, dtype=np.float64)
    if c.shape != (5,) or not np.isfinite(c).all():
        raise ParameterError(f"coefficients must be five finite numbers (c0, ..., c4); got {coefficients!r}.")
    a1, a2, a3, a4 = (float(c[k] / A[k - 1]) for k in range(1, 5))
    n = len(vectors)

    def evaluate(w: Array) -> tuple[float, Array]:
        q = float(w @ w)
        single = w.astype(np.float32)
        value, slope, along = 0.0, np.zeros(len(w)), 0.0
        for G in vectors.blocks():
            x = (G @ single).astype(np.float64)
            x2 = x * x
            value += float(
                (a1 * x + a2 * (x2 - q) + a3 * x * (x2 - 3 * q) + a4 * (x2 * x2 - 6 * q * x2 + 3 * q * q)).sum()
            )
            dx = a1 + 2 * a2 * x + 3 * a3 * (x2 - q) + a4 * x * (4 * x2 - 12 * q)
            slope += (dx.astype(np.float32) @ G).astype(np.float64)
            along += float((-a2 - 3 * a3 * x + a4 * (6 * q - 6 * x2)).sum())
        return float(c[0]) + value / n, (slope + 2.0 * along * w) / n

    return evaluate


def minimise_quartic(
    objective: Callable[[Array], tuple[float, Array]], start: Array, radius: float, max_iter: int = 200
) -> Array:
    """Return a local minimum over |w| <= radius that is no worse than ``start``."""
    w = _inside(np.asarray(start, dtype=np.float64), radius)
    value, slope = objective(w)
    steepness = 4.0
    for _ in range(max_iter):
        while True:
            after = _inside(w - slope / steepness, radius)
            step = after - w
            value_after, slope_after = objective(after)
            if value_after <= value + slope @ step + 0.5 * steepness * step @ step + 1e-12 or steepness > 1e6:
                break
            steepness *= 2.0
        if not value_after < value or np.linalg.norm(step) < _TOLERANCE * radius:
            break
        w, value, slope = after, value_after, slope_after
        steepness = max(steepness / 1.5, 0.5)
    return w


def _inside(w: Array, radius: float) -> Array:
    return np.asarray(w * min(1.0, radius / max(float(np.linalg.norm(w)), 1e-300)))
