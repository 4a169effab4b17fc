"""What the objectives share: positions that keep a linear image of x, and the least value of a function on [0, 1]."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from scipy.optimize import brentq

from sottovoce.optimize._arrays import Array, Indices, vector

__all__ = ["KeptPosition", "Segment", "convex_step", "quadratic_step"]

_ACCURACY: Final = 1e-12


class KeptPosition(ABC):
    """A point x and a linear image of it, such as margins or Qx, kept from step to step; see `Position`."""

    problem: Any

    def __init__(self, problem: Any, x: object) -> None:
        self.problem = problem
        self.x: Array = vector("x", x, size=problem.n_coordinates)
        self.refresh()

    @abstractmethod
    def image_of(self, part: Array, coordinates: Indices | slice) -> Array:
        """Return the image of a vector that is 0 outside ``coordinates``, where it is ``part``."""

    @abstractmethod
    def best_step(self, segment: "Segment") -> float:
        """Return the step in [0, 1] along a segment from here with the least value."""

    def line(self, coordinates: Indices | slice, direction: Array) -> "Segment":
        """Return the segment to x + direction."""
        return Segment(self, coordinates, direction, self.image_of(direction, coordinates))

    def move(self, line: "Segment", step: float) -> None:
        """Go to x + step * direction."""
        self.x[line.coordinates] += step * line.direction
        self.image += step * line.image

    def refresh(self) -> None:
        """Compute the image again."""
        self.image = self.image_of(self.x, slice(None))


@dataclass
class Segment:
    """A direction, and its image."""

    position: KeptPosition
    coordinates: Indices | slice
    direction: Array
    image: Array

    def best_step(self) -> float:
        """Return the step in [0, 1] with the least value."""
        return self.position.best_step(self)


def quadratic_step(slope: float, curvature: float) -> float:
    """Return the minimiser on [0, 1] of slope * g + curvature * g^2 / 2, curvature >= 0."""
    if not slope < 0.0:
        return 0.0
    return 1.0 if -slope >= curvature else -slope / curvature


def convex_step(slope: Callable[[float], float]) -> float:
    """Return the minimiser on [0, 1] of a convex function with this derivative."""
    if not slope(0.0) < 0.0:
        return 0.0
    if not slope(1.0) > 0.0:
        return 1.0
    return float(brentq(slope, 0.0, 1.0, xtol=_ACCURACY))
