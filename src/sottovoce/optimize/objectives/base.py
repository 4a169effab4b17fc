"""What is minimised: a convex differentiable function that can be followed block by block."""

from typing import Protocol, runtime_checkable

from sottovoce.optimize._arrays import Array, Indices

__all__ = ["HasUpperHessian", "Line", "Objective", "Position"]


class Line(Protocol):
    """The segment from a position along a direction in some coordinates."""

    def best_step(self) -> float:
        """Return the step in [0, 1] with the least value."""
        ...


class Position(Protocol):
    """A point x, with whatever makes the next partial gradient cheap (margins, residuals, Qx)."""

    x: Array

    def value(self) -> float:
        """Return f(x)."""
        ...

    def gradient(self, coordinates: Indices | slice) -> Array:
        """Return the partial derivatives of f at x in these coordinates."""
        ...

    def line(self, coordinates: Indices | slice, direction: Array) -> Line:
        """Return the segment from x to x + direction."""
        ...

    def move(self, line: Line, step: float) -> None:
        """Go to x + step * direction."""
        ...

    def refresh(self) -> None:
        """Compute again from x what is kept, so that the rounding of single steps does not add up."""
        ...


class Objective(Protocol):
    """A convex differentiable function of ``n_coordinates`` coordinates."""

    @property
    def n_coordinates(self) -> int:
        """Length of x."""
        ...

    def at(self, x: Array) -> Position:
        """Return a position at (a copy of) x."""
        ...


@runtime_checkable
class HasUpperHessian(Protocol):
    """An objective with f(y) <= f(x) + <y - x, f'(x)> + (y - x)'Q(y - x) / 2 everywhere (Assumption 2)."""

    @property
    def is_quadratic(self) -> bool:
        """True where that is an equality."""
        ...

    def upper_hessian(self) -> Array:
        """Return Q, positive semidefinite."""
        ...
