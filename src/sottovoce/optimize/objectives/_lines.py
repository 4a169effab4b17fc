"""The least value of a convex function on [0, 1]."""

from collections.abc import Callable
from typing import Final

from scipy.optimize import brentq

__all__ = ["convex_step", "quadratic_step"]

_ACCURACY: Final = 1e-12


def quadratic_step(slope: float, curvature: float) -> float:
    """Return the minimiser on [0, 1] of slope * g + curvature * g^2 / 2, curvature >= 0."""
    if not slope < 0.0:
        return 0.0
    return 1.0 if -slope >= curvature else -slope / curvature


def convex_step(slope: Callable[[float], float]) -> float:
    """Return the minimiser on [0, 1] of a convex function with this derivative."""
    if not slope(0.0) < 0.0:
        return 0.0
    if not slope(1.0) > 0.0:
        return 1.0
    return float(brentq(slope, 0.0, 1.0, xtol=_ACCURACY))
