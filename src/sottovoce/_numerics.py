"""Numbers that computations of every trust model share."""

import math
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

PIECE: Final = 8192  # rows that are in double precision at a time

# Sensitivities are multiplied by this: it covers the rounding of norms, factors and products, each below 2^-22
# relative.
ROUNDING_SLACK: Final = 1.0 + 2.0**-20


def least_root(curve: Callable[[float], float], delta: float, high: float) -> float:
    """Return the least epsilon with ``curve(epsilon) <= delta``, rounded up; ``high`` is a guess that is enough."""
    from scipy.optimize import brentq  # not needed where nothing is accounted, such as on a device

    if curve(0.0) <= delta:
        return 0.0
    if high == math.inf:
        return math.inf
    while curve(high) > delta:
        high *= 2.0
    if curve(high) == delta == 0.0:  # no root but an end: the largest loss
        return high
    epsilon = float(brentq(lambda value: curve(value) - delta, 0.0, high, xtol=1e-30, rtol=1e-14, maxiter=1000))
    return min(high, nudge(epsilon, lambda value: curve(value) <= delta, up=True))


def nudge(value: float, good: Callable[[float], bool], *, up: bool) -> float:
    """Move ``value`` in tiny relative steps until ``good(value)``: a solver's last digit never favours us."""
    step = 1e-14
    while not good(value):
        value = value * (1 + step) + 1e-300 if up else value * (1 - step)
        step *= 2.0
    return value
