"""What is minimised: functions of margins and quadratics, followed block by block."""

from abc import ABC, abstractmethod
from typing import Any, Final

import numpy as np
import scipy.sparse as sp
from scipy.optimize import brentq

from sottovoce.exceptions import ParameterError
from sottovoce.losses.base import Loss
from sottovoce.losses.squared import Squared
from sottovoce.papers.frank_wolfe._arrays import Array, Indices, matrix, vector

_ACCURACY: Final = 1e-12
_ROUNDING: Final = 1e-10


class Objective(ABC):
    """A convex differentiable function f, computed from x and a linear image of x that is kept from step to step."""

    n_coordinates: int  # length of x
    is_quadratic: bool  # whether Assumption 2 holds with equality, see `upper_hessian`

    def at(self, x: object) -> "Position":
        """Return a position at (a copy of) x."""
        return Position(self, x)

    @abstractmethod
    def image(self, part: Array, coordinates: Indices | slice) -> Array:
        """Return the image of a vector that is 0 outside ``coordinates``, where it is ``part``."""

    @abstractmethod
    def value(self, at: "Position") -> float:
        """Return f(x)."""

    @abstractmethod
    def gradient(self, at: "Position", coordinates: Indices | slice) -> Array:
        """Return the partial derivatives of f at x in these coordinates."""

    @abstractmethod
    def best_step(self, at: "Position", coordinates: Indices | slice, direction: Array, image: Array) -> float:
        """Return the step in [0, 1] with the least value along a direction, which has this image."""

    @abstractmethod
    def upper_hessian(self) -> Array:
        """Return Q, positive semidefinite, with f(y) <= f(x) + <y - x, f'(x)> + (y - x)'Q(y - x) / 2 (Assumption 2)."""


class Position:
    """A point x of an objective, and the image of x."""

    def __init__(self, objective: Objective, x: object) -> None:
        self.objective = objective
        self.x: Array = vector("x", x, size=objective.n_coordinates)
        self.refresh()

    def value(self) -> float:
        """Return f(x)."""
        return self.objective.value(self)

    def gradient(self, coordinates: Indices | slice) -> Array:
        """Return the partial derivatives of f at x in these coordinates."""
        return self.objective.gradient(self, coordinates)

    def move(self, coordinates: Indices | slice, direction: Array, step: float | None) -> float:
        """Go to x + step * direction and return the step; None takes the best one of [0, 1]."""
        image = self.objective.image(direction, coordinates)
        if step is None:
            step = self.objective.best_step(self, coordinates, direction, image)
        self.x[coordinates] += step * direction
        self.image += step * image
        return step

    def refresh(self) -> None:
        """Compute the image again, so that the rounding of single steps does not add up."""
        self.image = self.objective.image(self.x, slice(None))


def _quadratic_step(slope: float, curvature: float) -> float:
    """Return the minimiser on [0, 1] of slope * g + curvature * g^2 / 2, curvature >= 0."""
    if not slope < 0.0:
        return 0.0
    return 1.0 if -slope >= curvature else -slope / curvature


class GeneralizedLinear(Objective):
    r"""f(x) = (1/n) sum_r l(y_r, a_r x) for a smooth convex loss l.

    The margins Ax are kept: a step costs the columns of the sampled blocks, n numbers each.

    Parameters
    ----------
    A : array-like or sparse matrix of shape (n_rows, n_coordinates)
    y : array-like of shape (n_rows,)
        Labels; -1 and +1 where the loss is one of classification.
    loss : Loss
        From `sottovoce.losses`; with a finite second derivative.
    """

    def __init__(self, A: Any, y: object, loss: Loss) -> None:
        if not isinstance(loss, Loss) or not np.isfinite(loss.smoothness):
            raise ParameterError(f"loss must be a smooth convex loss of sottovoce.losses, as Logistic(); got {loss!r}.")
        self._columns: Any  # the transposed table, so that the columns of a block lie together
        if sp.issparse(A):
            self._columns = sp.csr_array(A.T.astype(np.float64))  # type: ignore[attr-defined]
            self._columns.sum_duplicates()
            vector("A", self._columns.data)  # refuses NaN and infinite entries
        else:
            self._columns = np.ascontiguousarray(matrix("A", A).T)
        self.n_coordinates, self.n_rows = map(int, self._columns.shape)
        self.y: Array = vector("y", y)
        if len(self.y) != self.n_rows:
            raise ParameterError(f"y must have one entry a row of A; got {len(self.y)} for {self.n_rows} rows.")
        if loss.is_classification and not np.isin(self.y, (-1.0, 1.0)).all():
            raise ParameterError("y must hold -1 and +1 for a loss of classification; recode the labels.")
        self.loss = loss
        self.is_quadratic = isinstance(loss, Squared)

    def image(self, part: Array, coordinates: Indices | slice) -> Array:
        return np.asarray(self._of(coordinates).T @ part)

    def value(self, at: Position) -> float:
        return float(np.mean(self.loss.value(self.y, at.image)))

    def gradient(self, at: Position, coordinates: Indices | slice) -> Array:
        slopes = self.loss.derivative(self.y, at.image)
        return np.asarray(self._of(coordinates) @ slopes / self.n_rows)

    def best_step(self, at: Position, coordinates: Indices | slice, direction: Array, image: Array) -> float:
        loss, y, n = self.loss, self.y, self.n_rows
        if self.is_quadratic:
            slope = float(loss.derivative(y, at.image) @ image) / n
            return _quadratic_step(slope, loss.smoothness * float(image @ image) / n)

        def slope_at(step: float) -> float:
            slopes = loss.derivative(y, at.image + step * image)
            return float(slopes @ image) / n

        if not slope_at(0.0) < 0.0:
            return 0.0
        if not slope_at(1.0) > 0.0:
            return 1.0
        return float(brentq(slope_at, 0.0, 1.0, xtol=_ACCURACY))

    def upper_hessian(self) -> Array:
        """Return (b / n) A'A, b the largest second derivative of the loss."""
        gram: Any = self._columns @ self._columns.T
        return np.asarray((gram.toarray() if hasattr(gram, "toarray") else gram) * (self.loss.smoothness / self.n_rows))

    def _of(self, coordinates: Indices | slice) -> Any:
        """Return the columns of these coordinates as rows; no copy where they are all."""
        everything = isinstance(coordinates, slice) and coordinates == slice(None)
        return self._columns if everything else self._columns[coordinates]


class LeastSquares(GeneralizedLinear):
    r"""f(x) = \|Ax - y\|^2 / (2 n), with exact line search."""

    def __init__(self, A: Any, y: object) -> None:
        super().__init__(A, y, Squared())


class Quadratic(Objective):
    """f(x) = x'Qx / 2 + b'x, Q symmetric and positive semidefinite, with exact line search.

    Qx is kept, so a partial gradient costs nothing.
    """

    is_quadratic = True

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

    def image(self, part: Array, coordinates: Indices | slice) -> Array:
        return np.asarray(self.Q[:, coordinates] @ part)

    def value(self, at: Position) -> float:
        return float(at.x @ (0.5 * at.image + self.b))

    def gradient(self, at: Position, coordinates: Indices | slice) -> Array:
        return at.image[coordinates] + self.b[coordinates]

    def best_step(self, at: Position, coordinates: Indices | slice, direction: Array, image: Array) -> float:
        slope = float(self.gradient(at, coordinates) @ direction)
        return _quadratic_step(slope, float(image[coordinates] @ direction))

    def upper_hessian(self) -> Array:
        return self.Q.copy()
