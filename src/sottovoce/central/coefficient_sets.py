"""Sets that Frank-Wolfe steps in: corners, which of them a step chooses from, and the nearest point.

A set is known by its corners, +-R e_j or some of them: an exponential mechanism chooses one, and the model is a mean of
corners. The intercept's column is the last one, if there is one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sottovoce._numerics import Vector
from sottovoce._validation import choice

L1, SIMPLEX = "l1", "simplex"


@dataclass(frozen=True)
class CoefficientSet:
    """A set of coefficients."""

    words: str
    candidates: str  # what a step chooses from, in words
    radius: float  # > 0
    # of the corners, in the order of the candidates: columns, and signs; the sign 0 is for the corner 0
    columns: NDArray[np.intp]
    signs: NDArray[np.int64]
    nearest: Callable[[Vector, float], Vector]  # of the set without bounds on single coefficients
    nonnegative: slice  # coefficients that are at least 0

    def scores(self, sums: NDArray[Any]) -> NDArray[Any]:
        """Return how fast the loss falls toward each corner, where ``sums`` is how fast it rises along each column."""
        scores: NDArray[Any] = -self.signs * sums[self.columns]
        return scores

    def corner(self, place: int) -> tuple[int, int]:
        return int(self.columns[place]), int(self.signs[place])

    def steepest(self, gradient: Vector) -> float:
        """Return the most that the loss falls toward a corner from 0, to first order."""
        return self.radius * float(self.scores(gradient).max())

    def project(self, w: Vector) -> Vector:
        """Return the nearest point: negative coefficients are cut first."""
        cut = w.copy()
        cut[self.nonnegative] = np.maximum(w[self.nonnegative], 0.0)
        return self.nearest(cut, self.radius)


_KINDS: Final = {  # the words for each set, and for what a step chooses from
    # the sum of absolute coefficients, the intercept's among them, is at most the radius
    L1: ("the l1 ball", "the signed columns"),
    # the same with coefficients of at least 0; the intercept may have either sign
    "nonnegative": (
        "the non-negative part of the l1 ball",
        "no step, the columns upward and both signs of the intercept",
    ),
    # coefficients of at least 0 whose sum is the radius; there is no intercept
    SIMPLEX: ("the simplex", "the columns"),
}
SETS: Final = tuple(_KINDS)


def coefficient_set(name: str, radius: float, n_weights: int, *, has_intercept: bool) -> CoefficientSet:
    choice("constraint", name, SETS)
    columns = np.arange(n_weights)
    ends = columns[n_weights - has_intercept :]
    downward, none, positive = {
        L1: (columns, 0, slice(0)), "nonnegative": (ends, 1, slice(n_weights - has_intercept)),
        SIMPLEX: (columns[:0], 0, slice(0)),
    }[name]  # fmt: skip
    places = np.concatenate([columns, downward, columns[:none]])
    signs = np.repeat([1, -1, 0], [n_weights, len(downward), none])
    nearest = project_on_simplex if name == SIMPLEX else project_on_ball
    return CoefficientSet(*_KINDS[name], radius, places, signs, nearest, positive)


def project_on_ball(w: Vector, radius: float) -> Vector:
    """Return the nearest point (Euclidean) with l1 norm at most ``radius``."""
    size = np.abs(w)
    if float(size.sum()) <= radius:
        return w
    return np.asarray(np.sign(w) * project_on_simplex(size, radius))


def project_on_simplex(w: Vector, radius: float) -> Vector:
    """Return the nearest point with entries of at least 0 whose sum is ``radius`` (Duchi et al. 2008)."""
    falling = np.sort(w)[::-1]
    excess = np.cumsum(falling) - radius
    kept = int(np.flatnonzero(falling * np.arange(1, len(w) + 1) > excess)[-1])
    return np.asarray(np.maximum(w - excess[kept] / (kept + 1), 0.0))
