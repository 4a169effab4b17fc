"""Quadratic functions given by their matrix, such as the duals of (structural) support vector machines."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from sottovoce.exceptions import ParameterError
from sottovoce.optimize._arrays import Array, Indices, matrix, vector
from sottovoce.optimize.objectives._lines import quadratic_step

__all__ = ["Quadratic"]

_ROUNDING: Final = 1e-10


class Quadratic:
    """f(x) = x'Qx / 2 + b'x, with exact line search; Qx is kept, so a partial gradient costs nothing.

    Parameters
    ----------
    Q : array-like of shape (n_coordinates, n_coordinates)
        Symmetric and positive semidefinite.
    b : array-like of shape (n_coordinates,), default 0
    """

    def __init__(self, Q: object, b: object = 0.0) -> None:
        self.Q: Array = matrix("Q", Q)
        n = len(self.Q)
        scale = float(np.abs(self.Q).max())
        if self.Q.shape != (n, n) or not np.allclose(self.Q, self.Q.T, rtol=0.0, atol=_ROUNDING * scale):
            raise ParameterError(f"Q must be square and symmetric; got shape {self.Q.shape}. Give (Q + Q') / 2.")
        least = float(np.linalg.eigvalsh(self.Q)[0])
        if not least >= -_ROUNDING * n * scale:
            raise ParameterError(f"Q must be positive semidefinite; its least eigenvalue is {least:.3g}.")
        self.b: Array = vector("b", b, size=n)

    @property
    def n_coordinates(self) -> int:
        """Length of x."""
        return len(self.Q)

    @property
    def is_quadratic(self) -> bool:
        """Always."""
        return True

    def upper_hessian(self) -> Array:
        """Return Q."""
        return self.Q.copy()

    def at(self, x: Array) -> "QuadraticPosition":
        """Return a position at x."""
        return QuadraticPosition(self, vector("x", x, size=self.n_coordinates))


@dataclass
class QuadraticLine:
    """A direction, and what it adds to Qx."""

    position: "QuadraticPosition"
    coordinates: Indices | slice
    direction: Array
    image: Array

    def best_step(self) -> float:
        """Return the exact best step."""
        slope = float(self.position.gradient(self.coordinates) @ self.direction)
        return quadratic_step(slope, float(self.image[self.coordinates] @ self.direction))


class QuadraticPosition:
    """A point and Qx; see `Position`."""

    def __init__(self, problem: Quadratic, x: Array) -> None:
        self.problem = problem
        self.x = x
        self.image: Array = problem.Q @ x

    def value(self) -> float:
        """Return f(x)."""
        return float(self.x @ (0.5 * self.image + self.problem.b))

    def gradient(self, coordinates: Indices | slice) -> Array:
        """Return the partial derivatives."""
        return self.image[coordinates] + self.problem.b[coordinates]

    def line(self, coordinates: Indices | slice, direction: Array) -> QuadraticLine:
        """Return the segment to x + direction."""
        return QuadraticLine(self, coordinates, direction, self.problem.Q[:, coordinates] @ direction)

    def move(self, line: QuadraticLine, step: float) -> None:
        """Go to x + step * direction."""
        self.x[line.coordinates] += step * line.direction
        self.image += step * line.image

    def refresh(self) -> None:
        """Compute Qx anew."""
        self.image = self.problem.Q @ self.x
