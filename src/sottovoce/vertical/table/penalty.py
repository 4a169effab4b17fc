r"""Convex penalties of a party's coefficients, and sets in which they stay.

.. math:: R(x) = \sum_j \tfrac12 l_2 x_j^2 + l_1 \sum_g \sqrt{p_g} \, |x_g|_2 \quad\text{for } x \text{ in a set } X.

The groups g are runs of columns, p_g of them each. Without groups each column is one by itself, and the second term is
the L1 norm; with them it is that of the group LASSO [1]_: the coefficients of a group are 0 all or not. The set is a
box around 0, an L1 ball or an L2 ball around 0, or everything: a penalty that is infinite outside.

Penalties here belong to the *sum* of losses; estimators multiply their ``alpha`` by the number of rows.

References
----------
.. [1] Yuan, Lin (2006). Model Selection and Estimation in Regression with Grouped Variables. JRSS B 68.
"""

from typing import Final, NamedTuple

import numpy as np

from sottovoce._numerics import Vector

__all__ = ["BALLS", "Penalty"]

BALLS: Final = ("l1", "l2")


class Penalty(NamedTuple):
    """R(x) above, for the sum of losses.

    Parameters
    ----------
    l2, l1 : float, >= 0
    low, high : float
        Bounds of every coefficient, low <= 0 <= high; infinite for none.
    groups : tuple of int
        Sizes of the groups, in the order of the columns; they add up to all. Empty for none; only without bounds.
    ball : {"", "l1", "l2"}
        Norm of the ball; only without bounds, and ``"l1"`` only without groups.
    radius : float, > 0
        Of the ball.
    """

    l2: float = 0.0
    l1: float = 0.0
    low: float = -np.inf
    high: float = np.inf
    groups: tuple[int, ...] = ()
    ball: str = ""
    radius: float = np.inf

    @property
    def is_structured(self) -> bool:
        """True with groups or a ball, which tie coefficients to each other."""
        return bool(self.groups or self.ball)

    @property
    def is_quadratic(self) -> bool:
        """True for plain L2."""
        return self.l1 == 0.0 and self.low == -np.inf and self.high == np.inf and not self.is_structured

    @property
    def weights(self) -> Vector:
        """What each group's norm is multiplied by."""
        return self.l1 * np.sqrt(np.array(self.groups, dtype=np.float64))

    def value(self, x: Vector) -> float:
        """Return R(x); that x is in the set is taken to hold."""
        if self.groups:
            return float(0.5 * self.l2 * (x @ x) + self.weights @ self._group_norms(x))
        return float(0.5 * self.l2 * (x @ x) + self.l1 * np.abs(x).sum())

    def norm(self, x: Vector) -> float:
        """Return the norm that the ball bounds."""
        return float(np.abs(x).sum() if self.ball == "l1" else np.linalg.norm(x))

    def prox(self, v: Vector) -> Vector:
        """Return argmin_x R(x) + |x - v|^2 / 2 over the set.

        Shrink (each group as a whole), scale, and go to the nearest point of the set: for the three sets these steps
        one after the other are exact, because the set's own step shrinks further or scales further.
        """
        shrunk: Vector
        if self.groups:
            norms = self._group_norms(v)
            kept = np.maximum(1.0 - self.weights / np.maximum(norms, np.finfo(np.float64).tiny), 0.0)
            shrunk = v * np.repeat(kept, self.groups) / (1.0 + self.l2)
        else:
            shrunk = np.sign(v) * np.maximum(np.abs(v) - self.l1, 0.0) / (1.0 + self.l2)
        if self.ball == "l1":
            return _nearest_in_l1_ball(shrunk, self.radius)
        if self.ball == "l2":
            return shrunk * min(1.0, self.radius / max(float(np.linalg.norm(shrunk)), np.finfo(np.float64).tiny))
        return np.clip(shrunk, self.low, self.high)

    def _group_norms(self, x: Vector) -> Vector:
        starts = np.cumsum((0, *self.groups[:-1]))
        return np.asarray(np.sqrt(np.add.reduceat(x * x, starts)))


def _nearest_in_l1_ball(v: Vector, radius: float) -> Vector:
    """Return the projection: all entries shrunk by the one number that makes the norm fit (Held, Wolfe, Crowder)."""
    if np.abs(v).sum() <= radius:
        return v
    falling = -np.sort(-np.abs(v))
    shift = (np.cumsum(falling) - radius) / np.arange(1, len(v) + 1)
    last = int(np.count_nonzero(falling > shift)) - 1
    return np.asarray(np.sign(v) * np.maximum(np.abs(v) - shift[last], 0.0))
