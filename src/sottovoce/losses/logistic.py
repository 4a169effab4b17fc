"""Logistic loss l(y, m) = log(1 + exp(-y m))."""

import math

import numpy as np
from scipy.special import expit, xlogy

from sottovoce.losses.base import Array, NoParameters, provides_dual_step, provides_slope, sigmoid

_MAX_NEWTON = 100  # twice what bisection alone would need; two or three are usual


class Logistic(NoParameters):
    """log(1 + exp(-y m)); with b = a y the conjugate is l*(-a) = b log b + (1 - b) log(1 - b) on 0 <= b <= 1."""

    __slots__ = ()
    name = "logistic"
    lipschitz = 1.0
    smoothness = 0.25
    is_classification = True

    def value(self, y: Array, m: Array) -> Array:
        """Return log(1 + exp(-y m)), without overflow."""
        return np.logaddexp(0.0, -y * m)

    def derivative(self, y: Array, m: Array) -> Array:
        """Return -y / (1 + exp(y m))."""
        return -y * expit(-y * m)

    def curvature(self, y: Array, m: Array) -> Array:
        """Return p (1 - p), p = 1 / (1 + exp(y m))."""
        return expit(-y * m) * expit(y * m)

    def conjugate(self, y: Array, a: Array) -> Array:
        """Return b log b + (1 - b) log(1 - b), b = a y, on its domain."""
        b = a * y
        inside = (b >= 0.0) & (b <= 1.0)
        kept = np.where(inside, b, 0.5)
        return np.where(inside, xlogy(kept, kept) + xlogy(1.0 - kept, 1.0 - kept), np.inf)

    def nearest_feasible(self, y: Array, a: Array) -> Array:
        """Clip a y to [0, 1]."""
        return y * np.clip(a * y, 0.0, 1.0)


@provides_dual_step(Logistic, inline="never")
def _step(loss: Logistic, a: float, y: float, m: float, r: float) -> float:
    b = a * y
    ym = y * m
    # Find u = logit(p), p the new b: f(u) = u + ym + r (p - b) = 0. f is increasing with slope >= 1, and p in (0, 1)
    # brackets u. Newton from the present dual variable: it moves little from pass to pass, so two or three steps do.
    low = -ym - r * (1.0 - b)
    high = -ym + r * b
    if b > 1e-12 and b < 1.0 - 1e-12:
        u = min(max(math.log(b / (1.0 - b)), low), high)
    elif b <= 0.5:
        u = low if low > -40.0 else max(low, min(high, -30.0))
    else:
        u = high if high < 40.0 else min(high, max(low, 30.0))
    p = sigmoid(u)
    change = 2.0 * (high - low)
    for _ in range(_MAX_NEWTON):
        f = u + ym + r * (p - b)
        if f > 0.0:
            high = u
        else:
            low = u
        step = -f / (1.0 + r * p * (1.0 - p))
        if abs(step) < 1e-5 * (1.0 + abs(u)):  # Newton squares the error: the next change would be below 1e-9
            p = sigmoid(u + step)
            break
        if not (low < u + step < high and abs(step) < 0.5 * change):  # bisect where Newton leaves, creeps or cycles
            step = 0.5 * (low + high) - u
        change = abs(step)
        u += step
        p = sigmoid(u)
    return y * (p - b)


@provides_slope(Logistic)
def _slope(loss: Logistic, y: float, m: float) -> float:
    return -y * sigmoid(-y * m)
