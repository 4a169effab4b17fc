"""Smoothed hinge loss: the hinge with its corner replaced by a parabola of a chosen width."""

from typing import NamedTuple

import numpy as np

from sottovoce._validation import number
from sottovoce.losses.base import Array, provides_dual_step, provides_slope


class SmoothedHinge(NamedTuple):
    r"""Hinge loss smoothed over a width g = ``smoothing`` > 0.

    With z = y m: 0 for z >= 1; 1 - z - g/2 for z <= 1 - g; (1 - z)^2 / (2 g) between. With b = a y the conjugate is
    l*(-a) = -b + g b^2 / 2 on 0 <= b <= 1 (Shalev-Shwartz and Zhang 2013, Section 2).
    """

    smoothing: float = 0.5

    @property
    def name(self) -> str:
        """Name for receipts."""
        return f"smoothed hinge (smoothing {self.smoothing:g})"

    @property
    def lipschitz(self) -> float:
        """Bound on ``|l'|``."""
        return 1.0

    @property
    def smoothness(self) -> float:
        """Bound on l''."""
        return 1.0 / number("smoothing", self.smoothing, above=0.0)

    @property
    def is_classification(self) -> bool:
        """Labels are -1 and +1."""
        return True

    def value(self, y: Array, m: Array) -> Array:
        """Return the loss of each record."""
        gap = np.maximum(0.0, 1.0 - y * m)
        return np.where(gap >= self.smoothing, gap - 0.5 * self.smoothing, gap**2 / (2.0 * self.smoothing))

    def derivative(self, y: Array, m: Array) -> Array:
        """Return -y times the clipped slope."""
        return -y * np.clip((1.0 - y * m) / self.smoothing, 0.0, 1.0)

    def curvature(self, y: Array, m: Array) -> Array:
        """Return 1 / g on the parabola, else 0."""
        gap = 1.0 - y * m
        return np.where((gap > 0.0) & (gap < self.smoothing), 1.0 / self.smoothing, 0.0)

    def conjugate(self, y: Array, a: Array) -> Array:
        """Return -b + g b^2 / 2, b = a y, on its domain."""
        b = a * y
        return np.where((b >= 0.0) & (b <= 1.0), -b + 0.5 * self.smoothing * b**2, np.inf)

    def nearest_feasible(self, y: Array, a: Array) -> Array:
        """Clip a y to [0, 1]."""
        return y * np.clip(a * y, 0.0, 1.0)


@provides_dual_step(SmoothedHinge)
def _step(loss: SmoothedHinge, a: float, y: float, m: float, r: float) -> float:
    b = a * y
    moved = b + (1.0 - y * m - loss.smoothing * b) / (loss.smoothing + r)
    return y * (min(max(moved, 0.0), 1.0) - b)


@provides_slope(SmoothedHinge)
def _slope(loss: SmoothedHinge, y: float, m: float) -> float:
    return -y * min(max((1.0 - y * m) / loss.smoothing, 0.0), 1.0)
