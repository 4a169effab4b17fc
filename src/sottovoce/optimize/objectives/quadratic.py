"""Quadratic functions given by their matrix, such as the duals of (structural) support vector machines."""

from typing import ClassVar, Final

import numpy as np

from sottovoce.exceptions import ParameterError
from sottovoce.optimize._arrays import Array, Indices, matrix, vector
from sottovoce.optimize.objectives._kept import KeptPosition, Segment, quadratic_step

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

    is_quadratic: ClassVar[bool] = True

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
        self.n_coordinates = n

    def upper_hessian(self) -> Array:
        """Return Q."""
        return self.Q.copy()

    def at(self, x: Array) -> "QuadraticPosition":
        """Return a position at x."""
        return QuadraticPosition(self, x)


class QuadraticPosition(KeptPosition):
    """A point and Qx."""

    problem: Quadratic

    def image_of(self, part: Array, coordinates: Indices | slice) -> Array:
        """Return the product with Q."""
        out: Array = self.problem.Q[:, coordinates] @ part
        return out

    def value(self) -> float:
        """Return f(x)."""
        return float(self.x @ (0.5 * self.image + self.problem.b))

    def gradient(self, coordinates: Indices | slice) -> Array:
        """Return the partial derivatives."""
        return self.image[coordinates] + self.problem.b[coordinates]

    def best_step(self, segment: Segment) -> float:
        """Return the exact best step."""
        slope = float(self.gradient(segment.coordinates) @ segment.direction)
        return quadratic_step(slope, float(segment.image[segment.coordinates] @ segment.direction))
