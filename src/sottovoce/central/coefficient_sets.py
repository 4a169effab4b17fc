"""Sets that Frank-Wolfe steps in: corners, which of them a step chooses from, and the nearest point.

A set is known by its corners, +-R e_j or some of them: an exponential mechanism chooses one, and the model is a mean of
corners. The intercept's column is the last one, if there is one.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from sottovoce._numerics import Vector
from sottovoce._validation import choice


@dataclass(frozen=True)
class CoefficientSet(ABC):
    """A set of coefficients."""

    name: ClassVar[str]
    words: ClassVar[str]
    candidates: ClassVar[str]
    """What a step chooses from, in words."""

    radius: float  # > 0
    n_weights: int
    has_intercept: bool  # whether the last weight is that of the intercept's column

    @abstractmethod
    def scores(self, sums: NDArray[Any]) -> NDArray[Any]:
        """Return how fast the loss falls toward each corner, where ``sums`` is how fast it rises along each column."""

    @abstractmethod
    def corner(self, place: int) -> tuple[int, int]:
        """Return the column and the sign of a corner; the sign 0 is for the corner 0."""

    @abstractmethod
    def project(self, w: Vector) -> Vector: ...

    def steepest(self, gradient: Vector) -> float:
        """Return the most that the loss falls toward a corner from 0, to first order."""
        return self.radius * float(self.scores(gradient).max())


class L1Ball(CoefficientSet):
    """The sum of absolute coefficients, the intercept's among them, is at most the radius."""

    name = "l1"
    words = "the l1 ball"
    candidates = "the signed columns"

    def scores(self, sums: NDArray[Any]) -> NDArray[Any]:
        return np.concatenate([-sums, sums])

    def corner(self, place: int) -> tuple[int, int]:
        return place % self.n_weights, 1 if place < self.n_weights else -1

    def project(self, w: Vector) -> Vector:
        return project_on_ball(w, self.radius)


class NonnegativeBall(CoefficientSet):
    """The same with coefficients of at least 0; the intercept may have either sign."""

    name = "nonnegative"
    words = "the non-negative part of the l1 ball"
    candidates = "no step, the columns upward and both signs of the intercept"

    def scores(self, sums: NDArray[Any]) -> NDArray[Any]:
        """Return every column upward, the intercept downward, and no step, which moves nothing."""
        return np.concatenate([-sums, sums[-1:] if self.has_intercept else sums[:0], np.zeros(1, sums.dtype)])

    def corner(self, place: int) -> tuple[int, int]:
        if place < self.n_weights:
            return place, 1
        return (self.n_weights - 1, -1) if self.has_intercept and place == self.n_weights else (0, 0)

    def project(self, w: Vector) -> Vector:
        """Return the nearest point: the negative ones are cut first, then it is that of the ball."""
        cut = np.maximum(w, 0.0)
        if self.has_intercept:
            cut[-1] = w[-1]
        return project_on_ball(cut, self.radius)


class Simplex(CoefficientSet):
    """Coefficients of at least 0 whose sum is the radius; there is no intercept."""

    name = "simplex"
    words = "the simplex"
    candidates = "the columns"

    def scores(self, sums: NDArray[Any]) -> NDArray[Any]:
        return -sums

    def corner(self, place: int) -> tuple[int, int]:
        return place, 1

    def project(self, w: Vector) -> Vector:
        return _project_on_simplex(w, self.radius)


_KINDS: Final = {kind.name: kind for kind in (L1Ball, NonnegativeBall, Simplex)}
SETS: Final = tuple(_KINDS)


def coefficient_set(name: str, radius: float, n_weights: int, *, has_intercept: bool) -> CoefficientSet:
    choice("constraint", name, SETS)
    return _KINDS[name](radius, n_weights, has_intercept)


def project_on_ball(w: Vector, radius: float) -> Vector:
    """Return the nearest point (Euclidean) with l1 norm at most ``radius``."""
    size = np.abs(w)
    if float(size.sum()) <= radius:
        return w
    return np.asarray(np.sign(w) * _project_on_simplex(size, radius))


def _project_on_simplex(w: Vector, radius: float) -> Vector:
    """Return the nearest point with entries of at least 0 whose sum is ``radius`` (Duchi et al. 2008)."""
    falling = np.sort(w)[::-1]
    excess = np.cumsum(falling) - radius
    kept = int(np.flatnonzero(falling * np.arange(1, len(w) + 1) > excess)[-1])
    return np.asarray(np.maximum(w - excess[kept] / (kept + 1), 0.0))
