r"""Separable convex penalties of a party's coefficients: L2, L1, elastic net, box, and all of them together.

.. math:: R(x) = \sum_j \tfrac12 l_2 x_j^2 + l_1 |x_j| \quad\text{on}\quad low \le x_j \le high.

Penalties here belong to the *sum* of losses; estimators multiply their ``alpha`` by the number of rows.
"""

from typing import NamedTuple

import numpy as np

from sottovoce._numerics import Vector

__all__ = ["Penalty"]


class Penalty(NamedTuple):
    """R(x) above, for the sum of losses.

    Parameters
    ----------
    l2, l1 : float, >= 0
    low, high : float
        Bounds of every coefficient, low <= 0 <= high; infinite for none.
    """

    l2: float = 0.0
    l1: float = 0.0
    low: float = -np.inf
    high: float = np.inf

    @property
    def is_quadratic(self) -> bool:
        """True for plain L2."""
        return self.l1 == 0.0 and self.low == -np.inf and self.high == np.inf

    def value(self, x: Vector) -> float:
        """Return R(x); the bounds are taken to hold."""
        return float(0.5 * self.l2 * (x @ x) + self.l1 * np.abs(x).sum())

    def prox(self, v: Vector) -> Vector:
        """Return argmin_x R(x) + |x - v|^2 / 2: shrink, scale and clip, each coefficient by itself."""
        shrunk = np.sign(v) * np.maximum(np.abs(v) - self.l1, 0.0) / (1.0 + self.l2)
        return np.clip(shrunk, self.low, self.high)
