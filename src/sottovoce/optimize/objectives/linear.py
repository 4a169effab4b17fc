"""Functions of margins: f(x) = mean_r l(y_r, a_r x) + l2 / 2 |x|^2, with the margins Ax kept from step to step."""

from typing import Any

import numpy as np

from sottovoce._validation import number
from sottovoce.exceptions import ParameterError
from sottovoce.losses.base import Loss
from sottovoce.losses.squared import Squared
from sottovoce.optimize._arrays import Array, Indices, vector
from sottovoce.optimize._columns import Columns
from sottovoce.optimize.objectives._kept import KeptPosition, Segment, convex_step, quadratic_step

__all__ = ["GeneralizedLinear", "LeastSquares"]


class GeneralizedLinear:
    r"""f(x) = (1/n) sum_r l(y_r, a_r x) + (l2 / 2) \|x\|^2 for a smooth convex loss l.

    The margins Ax are kept: a step costs the columns of the sampled blocks, n numbers each.

    Parameters
    ----------
    A : array-like or sparse matrix of shape (n_rows, n_coordinates)
    y : array-like of shape (n_rows,)
        Labels; -1 and +1 where the loss is one of classification.
    loss : Loss
        From `sottovoce.losses`; with a finite second derivative.
    l2 : float, >= 0
    """

    def __init__(self, A: Any, y: object, loss: Loss, *, l2: float = 0.0) -> None:
        if not isinstance(loss, Loss) or not np.isfinite(loss.smoothness):
            raise ParameterError(
                f"loss must be a smooth convex loss of sottovoce.losses, such as Logistic(); got {loss!r}."
            )
        self.columns = Columns(A)
        self.n_rows, self.n_coordinates = self.columns.shape
        self.y: Array = vector("y", y)
        if len(self.y) != self.n_rows:
            raise ParameterError(f"y must have one entry a row of A; got {len(self.y)} for {self.n_rows} rows.")
        if loss.is_classification and not np.isin(self.y, (-1.0, 1.0)).all():
            raise ParameterError("y must hold -1 and +1 for a loss of classification; recode the labels.")
        self.loss = loss
        self.l2 = number("l2", l2, at_least=0.0)

    @property
    def is_quadratic(self) -> bool:
        """True for squared loss."""
        return isinstance(self.loss, Squared)

    def upper_hessian(self) -> Array:
        """Return (b / n) A'A + l2 I, b the largest second derivative of the loss."""
        out = self.columns.gram() * (self.loss.smoothness / self.n_rows)
        out[np.diag_indices_from(out)] += self.l2
        return out

    def at(self, x: Array) -> "LinearPosition":
        """Return a position at x."""
        return LinearPosition(self, x)


class LeastSquares(GeneralizedLinear):
    r"""f(x) = \|Ax - y\|^2 / (2 n) + (l2 / 2) \|x\|^2, with exact line search.

    Parameters
    ----------
    A : array-like or sparse matrix of shape (n_rows, n_coordinates)
    y : array-like of shape (n_rows,)
    l2 : float, >= 0
    """

    def __init__(self, A: Any, y: object, *, l2: float = 0.0) -> None:
        super().__init__(A, y, Squared(), l2=l2)


class LinearPosition(KeptPosition):
    """A point and its margins."""

    problem: GeneralizedLinear

    def image_of(self, part: Array, coordinates: Indices | slice) -> Array:
        """Return the margins."""
        return self.problem.columns.times(part, coordinates)

    def value(self) -> float:
        """Return f(x)."""
        losses = self.problem.loss.value(self.problem.y, self.image)
        return float(losses.mean()) + 0.5 * self.problem.l2 * float(self.x @ self.x)

    def gradient(self, coordinates: Indices | slice) -> Array:
        """Return the partial derivatives."""
        slopes = self.problem.loss.derivative(self.problem.y, self.image)
        out: Array = self.problem.columns.transposed_times(slopes, coordinates) / self.problem.n_rows
        return out + self.problem.l2 * self.x[coordinates] if self.problem.l2 else out

    def best_step(self, segment: Segment) -> float:
        """Return the best step: exact for squared loss, by bracketing the zero of the derivative for the others."""
        problem, direction, margins = self.problem, segment.direction, segment.image
        own = problem.l2 * float(direction @ self.x[segment.coordinates])
        bent = problem.l2 * float(direction @ direction)
        loss, y, n = problem.loss, problem.y, problem.n_rows
        if problem.is_quadratic:
            slope = float(loss.derivative(y, self.image) @ margins) / n + own
            return quadratic_step(slope, loss.smoothness * float(margins @ margins) / n + bent)

        def slope_at(step: float) -> float:
            slopes = loss.derivative(y, self.image + step * margins)
            return float(slopes @ margins) / n + own + step * bent

        return convex_step(slope_at)
