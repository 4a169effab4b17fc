"""Squared loss l(y, m) = (y - m)^2 / 2, for ridge regression."""

import math

import numpy as np

from sottovoce.losses.base import Array, NoParameters, provides_dual_step, provides_slope


class Squared(NoParameters):
    """(y - m)^2 / 2; conjugate l*(-a) = a^2 / 2 - a y; the dual variable is the residual y - m."""

    __slots__ = ()
    name = "squared"
    lipschitz = math.inf
    smoothness = 1.0
    is_classification = False

    def value(self, y: Array, m: Array) -> Array:
        """Return (y - m)^2 / 2."""
        return 0.5 * (y - m) ** 2

    def derivative(self, y: Array, m: Array) -> Array:
        """Negative residual m - y."""
        return m - y

    def curvature(self, y: Array, m: Array) -> Array:
        """Return 1."""
        return np.ones(np.broadcast_shapes(np.shape(y), np.shape(m)))

    def conjugate(self, y: Array, a: Array) -> Array:
        """Return a^2 / 2 - a y."""
        return 0.5 * a**2 - a * y

    def nearest_feasible(self, y: Array, a: Array) -> Array:
        """Every dual variable is feasible."""
        return np.asarray(a, dtype=np.float64)


@provides_dual_step(Squared)
def _step(loss: Squared, a: float, y: float, m: float, r: float) -> float:
    # stationarity: a + zeta = y - (m + r zeta)
    return (y - a - m) / (1.0 + r)


@provides_slope(Squared)
def _slope(loss: Squared, y: float, m: float) -> float:
    return m - y
