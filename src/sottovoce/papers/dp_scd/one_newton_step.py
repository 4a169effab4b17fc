"""The logistic loss whose coordinate step is one Newton step, as the authors of DP-SCD take it."""

import math

from numba import njit

from sottovoce.losses import Logistic
from sottovoce.losses.base import provides_dual_step, provides_slope, slope

__all__ = ["OneNewtonStep"]

_BOX = 1e-4  # the paper keeps b inside [1e-4, 1 - 1e-4]


class OneNewtonStep(Logistic):
    """Logistic loss; a single Newton step from the clipped dual variable takes the place of the exact one."""

    __slots__ = ()


@provides_dual_step(OneNewtonStep)
@njit()
def _step(loss: OneNewtonStep, a: float, y: float, m: float, r: float) -> float:
    b = min(max(a * y, _BOX), 1.0 - _BOX)
    gradient = math.log(b / (1.0 - b)) + y * m
    curvature = 1.0 / (b * (1.0 - b)) + r
    return y * (min(max(b - gradient / curvature, _BOX), 1.0 - _BOX) - b)


@provides_slope(OneNewtonStep)
@njit(inline="always")
def _slope(loss: OneNewtonStep, y: float, m: float) -> float:
    return slope(Logistic(), y, m)
