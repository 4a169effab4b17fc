"""Functions of margins: f(x) = mean_r l(y_r, a_r x) + l2 / 2 |x|^2, with the margins Ax kept from step to step."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sottovoce._validation import number
from sottovoce.exceptions import ParameterError
from sottovoce.losses.base import Loss
from sottovoce.losses.squared import Squared
from sottovoce.optimize._arrays import Array, Indices, vector
from sottovoce.optimize._columns import Columns
from sottovoce.optimize.objectives._lines import convex_step, quadratic_step

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
        self.y: Array = vector("y", y)
        if len(self.y) != self.columns.shape[0]:
            raise ParameterError(
                f"y must have one entry a row of A; got {len(self.y)} for {self.columns.shape[0]} rows."
            )
        if loss.is_classification and not np.isin(self.y, (-1.0, 1.0)).all():
            raise ParameterError("y must hold -1 and +1 for a loss of classification; recode the labels.")
        self.loss = loss
        self.l2 = number("l2", l2, at_least=0.0)

    @property
    def n_coordinates(self) -> int:
        """Number of columns."""
        return self.columns.shape[1]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.columns.shape[0]

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
        return LinearPosition(self, vector("x", x, size=self.n_coordinates))


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


@dataclass
class LinearLine:
    """A direction, and what it adds to the margins."""

    position: "LinearPosition"
    coordinates: Indices | slice
    direction: Array
    margins: Array

    def best_step(self) -> float:
        """Return the best step: exact for squared loss, by bracketing the zero of the derivative for the others."""
        at, problem = self.position, self.position.problem
        own = problem.l2 * float(self.direction @ at.x[self.coordinates])
        bent = problem.l2 * float(self.direction @ self.direction)
        loss, y, n = problem.loss, problem.y, problem.n_rows
        if problem.is_quadratic:
            slope = float(loss.derivative(y, at.margins) @ self.margins) / n + own
            return quadratic_step(slope, loss.smoothness * float(self.margins @ self.margins) / n + bent)

        def slope_at(step: float) -> float:
            slopes = loss.derivative(y, at.margins + step * self.margins)
            return float(slopes @ self.margins) / n + own + step * bent

        return convex_step(slope_at)


class LinearPosition:
    """A point and its margins; see `Position`."""

    def __init__(self, problem: GeneralizedLinear, x: Array) -> None:
        self.problem = problem
        self.x = x
        self.margins: Array = problem.columns.times(x, slice(None))

    def value(self) -> float:
        """Return f(x)."""
        losses = self.problem.loss.value(self.problem.y, self.margins)
        return float(losses.mean()) + 0.5 * self.problem.l2 * float(self.x @ self.x)

    def gradient(self, coordinates: Indices | slice) -> Array:
        """Return the partial derivatives."""
        slopes = self.problem.loss.derivative(self.problem.y, self.margins)
        out: Array = self.problem.columns.transposed_times(slopes, coordinates) / self.problem.n_rows
        return out + self.problem.l2 * self.x[coordinates] if self.problem.l2 else out

    def line(self, coordinates: Indices | slice, direction: Array) -> LinearLine:
        """Return the segment to x + direction."""
        return LinearLine(self, coordinates, direction, self.problem.columns.times(direction, coordinates))

    def move(self, line: LinearLine, step: float) -> None:
        """Go to x + step * direction."""
        self.x[line.coordinates] += step * line.direction
        self.margins += step * line.margins

    def refresh(self) -> None:
        """Compute the margins anew."""
        self.margins = self.problem.columns.times(self.x, slice(None))
