"""Absolute loss l(y, m) = |y - m|, for the median of a label given its features."""

import math

import numpy as np
from numba import njit

from sottovoce.losses.base import Array, NoParameters, provides_dual_step, provides_slope


class Absolute(NoParameters):
    """``|y - m|``; the conjugate is ``l*(-a) = -a y`` on ``|a| <= 1``. The limit of `Huber` over its threshold."""

    __slots__ = ()
    name = "absolute"
    lipschitz = 1.0
    smoothness = math.inf  # the derivative jumps at m = y
    is_classification = False

    def value(self, y: Array, m: Array) -> Array:
        """Return ``|y - m|``."""
        return np.abs(y - m)

    def derivative(self, y: Array, m: Array) -> Array:
        """Return the sign of m - y, 0 at the corner."""
        return np.sign(m - y)

    def curvature(self, y: Array, m: Array) -> Array:
        """Return 0."""
        return np.zeros(np.broadcast_shapes(np.shape(y), np.shape(m)))

    def conjugate(self, y: Array, a: Array) -> Array:
        """Return -a y on its domain, ``|a| <= 1``."""
        return np.where(np.abs(a) <= 1.0, -a * y, math.inf)

    def nearest_feasible(self, y: Array, a: Array) -> Array:
        """Clip a to [-1, 1]."""
        return np.clip(np.asarray(a, dtype=np.float64), -1.0, 1.0)


@provides_dual_step(Absolute)
@njit(inline="always")
def _step(loss: Absolute, a: float, y: float, m: float, r: float) -> float:
    gap = y - m
    # r = 0 is a row of zeros: a full step toward the label
    moved = a + (gap / r if r > 0.0 else math.copysign(math.inf, gap) if gap != 0.0 else 0.0)
    return min(max(moved, -1.0), 1.0) - a


@provides_slope(Absolute)
@njit(inline="always")
def _slope(loss: Absolute, y: float, m: float) -> float:
    return 1.0 if m > y else -1.0 if m < y else 0.0
