"""The unit in which solvers see rows: divided by a public bound, with the intercept's column, at most 1 long."""

import math
from dataclasses import dataclass

import numpy as np

from sottovoce._numerics import Vector

__all__ = ["RowUnit"]


@dataclass(frozen=True)
class RowUnit:
    """A user's row x of norm at most ``data_norm`` is seen as (x / data_norm, constant) / whole."""

    data_norm: float  # > 0; public bound on the norm of a row
    constant: float  # >= 0; value of the intercept's column in units of ``data_norm``; 0 for none

    @property
    def square(self) -> float:
        """Square of `whole`: a penalty on the user's weights is this many times smaller on those of the solver."""
        return 1.0 + self.constant**2

    @property
    def whole(self) -> float:
        """Length of the longest row with its constant, in units of ``data_norm``."""
        return math.sqrt(self.square)

    @property
    def scale(self) -> float:
        """Factor of a row of norm ``data_norm``."""
        return 1.0 / self.data_norm / self.whole

    @property
    def entry(self) -> float:
        """Value of the intercept's column as the solver sees it."""
        return self.constant / self.whole

    def to_user(self, weights: Vector) -> tuple[Vector, Vector]:
        """Turn the weights of models, one a line, into coefficients and intercepts for the user's rows."""
        if self.constant == 0.0:
            return weights / (self.data_norm * self.whole), np.zeros(len(weights))
        return weights[:, :-1] / (self.data_norm * self.whole), weights[:, -1] * self.entry
