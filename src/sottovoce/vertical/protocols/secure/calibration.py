r"""Slope and shift of a finished logistic model, from what was opened anyway: they cost no budget.

A cubic in place of sigma - 1/2 is flatter at 0, so where predictions are short the weights come out up to 1.6 times too
long. A penalty and steps that have not arrived make them too short, and noise too long again. What was opened tells all
three. Let z = x.w be the predictions, taken as normal, with their mean and variance from the noisy second moments; q
the cubic; g the pull that is left at w, g_0 its entry for the constant 1, and s the standard deviation of the noise in
it, to which w answers by B^-1. The model that predicts sigma(a z + b) has the a and b that solve

.. math::

    E[(\sigma(az + b) - \tfrac12) \, (z, 1)]
    = E[q(z) \, (z, 1)] + (w \cdot g - s^2 \, \mathrm{tr} \, B^{-1}, \; g_0) / n.

Weights are shortened alone, and where a would be 1 or more the intercept, too, stays what it is: where predictions have
long tails, as rare large entries give them, a normal law says nothing of what is too short, and moves rates the wrong
way. Where the noise of the second moments hides the variance, nothing is moved.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import expit

from sottovoce._numerics import Vector

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(61)
_SHARES: Final = _WEIGHTS / _WEIGHTS.sum()
_MOST_SHIFT: Final = 30.0
_CLEAR: Final = 0.2  # largest standard deviation of the variance of z, as a share of it
_HALVINGS: Final = 50
_LEAST_RATE: Final = 1e-3  # of a class


@dataclass(frozen=True)
class Opened:
    """What a training knows at its end; the constant's entry is the last of each."""

    matrix: Vector  # noisy sum of x x'
    matrix_noise: float  # standard deviation of an entry of its diagonal
    constant: float  # value of the intercept's column
    n_samples: int
    left: Vector  # g: the pull that is left at the weights
    noise: float  # standard deviation of what noise adds to g
    answer: Vector  # B^-1, of shape (n_weights, n_weights)


def calibrated(weights: Vector, opened: Opened, slope: Callable[[Vector], Vector]) -> Vector:
    """Return the weights times a, with b in the intercept; ``slope``: q, of an array of predictions."""
    n, w, constant = opened.n_samples, weights[:-1], opened.constant
    means = opened.matrix[:-1, -1] / (n * constant)
    without = float(w @ means)  # the mean of what the columns say
    variance = float(w @ opened.matrix[:-1, :-1] @ w) / n - without**2
    if not opened.matrix_noise * float(w @ w) / n <= _CLEAR * variance:
        return weights
    spread = math.sqrt(variance) * _NODES
    wanted = _SHARES * slope(without + constant * weights[-1] + spread)
    at_constant = opened.left[-1] / (n * constant)
    inflated = opened.noise**2 * np.trace(opened.answer[:-1, :-1]) / n
    along = float(wanted @ spread + w @ opened.left[:-1] / n - without * at_constant - inflated)
    rate = min(max(float(wanted.sum() + at_constant), _LEAST_RATE - 0.5), 0.5 - _LEAST_RATE)

    def shift(a: float) -> float:
        return _root(lambda b: float(_SHARES @ (expit(a * spread + b) - 0.5)) - rate, -_MOST_SHIFT, _MOST_SHIFT)

    def excess(a: float) -> float:
        return float((_SHARES * spread) @ (expit(a * spread + shift(a)) - 0.5)) - along

    if excess(1.0) <= 0.0:
        return weights
    return np.append((a := _root(excess, 0.0, 1.0)) * w, (shift(a) - a * without) / constant)


def _root(grows: Callable[[float], float], low: float, high: float) -> float:
    """Return where a growing function is 0, or the end that is nearer."""
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if grows(middle) < 0.0 else (low, middle)
    return 0.5 * (low + high)
