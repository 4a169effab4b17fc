"""Hinge loss l(y, m) = max(0, 1 - y m), for the linear support vector machine."""

import math

import numpy as np

from sottovoce.losses.base import Array, NoParameters, provides_dual_step, provides_slope


class Hinge(NoParameters):
    """max(0, 1 - y m); with b = a y the conjugate is l*(-a) = -b on 0 <= b <= 1."""

    __slots__ = ()
    name = "hinge"
    lipschitz = 1.0
    smoothness = math.inf  # the derivative jumps at y m = 1
    is_classification = True

    def value(self, y: Array, m: Array) -> Array:
        """Return max(0, 1 - y m)."""
        return np.maximum(0.0, 1.0 - y * m)

    def derivative(self, y: Array, m: Array) -> Array:
        """Return -y where y m < 1, else 0."""
        return np.where(y * m < 1.0, -y, 0.0)

    def curvature(self, y: Array, m: Array) -> Array:
        """Return 0."""
        return np.zeros(np.broadcast_shapes(np.shape(y), np.shape(m)))

    def conjugate(self, y: Array, a: Array) -> Array:
        """Return -a y on its domain, 0 <= a y <= 1."""
        b = a * y
        return np.where((b >= 0.0) & (b <= 1.0), -b, math.inf)

    def nearest_feasible(self, y: Array, a: Array) -> Array:
        """Clip a y to [0, 1]."""
        return y * np.clip(a * y, 0.0, 1.0)


@provides_dual_step(Hinge)
def _step(loss: Hinge, a: float, y: float, m: float, r: float) -> float:
    b = a * y
    gap = 1.0 - y * m
    # r = 0 is a row of zeros: a full step toward the side that its margin asks for
    moved = b + (gap / r if r > 0.0 else math.copysign(math.inf, gap) if gap != 0.0 else 0.0)
    return y * (min(max(moved, 0.0), 1.0) - b)


@provides_slope(Hinge)
def _slope(loss: Hinge, y: float, m: float) -> float:
    return -y if y * m < 1.0 else 0.0
