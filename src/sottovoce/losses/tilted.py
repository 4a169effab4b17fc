"""Logistic loss corrected for labels that went through randomised response: log(1 + exp(-y m)) - t y m."""

from typing import NamedTuple

import numpy as np
from numba import njit

from sottovoce._validation import number
from sottovoce.losses.base import Array, dual_step, provides_dual_step, provides_slope, slope
from sottovoce.losses.logistic import Logistic

_PLAIN = Logistic()


class TiltedLogistic(NamedTuple):
    r"""l(y, m) = log(1 + exp(-y m)) - t y m for a released label y, with t = ``tilt`` >= 0.

    If y is the true label flipped with probability p and t = p / (1 - 2p), the expectation of l over the flip is the
    logistic loss of the true label: flipping y adds y m to the logistic loss, so the expectation is
    log(1 + exp(-y m)) + p y m - t (1 - 2p) y m at the true y [1]_. The loss is convex, and not bounded below.

    All is that of `Logistic` after a shift: l*(-a) is the logistic conjugate at a - t y, finite for t <= a y <= 1 + t.

    Parameters
    ----------
    tilt : float, >= 0
        `sottovoce.privacy.mechanisms.randomized_response.RandomizedResponse.tilt`; 0 is the logistic loss.

    References
    ----------
    .. [1] Natarajan, Dhillon, Ravikumar, Tewari (2013). Learning with Noisy Labels. NeurIPS 26; Lemma 1.
    """

    tilt: float

    @property
    def name(self) -> str:
        """Name for receipts."""
        return f"logistic, for labels by randomised response (tilt {self.tilt:g})"

    @property
    def lipschitz(self) -> float:
        """Bound on ``|l'|``."""
        return 1.0 + number("tilt", self.tilt, at_least=0.0)

    @property
    def smoothness(self) -> float:
        """Bound on l''."""
        return _PLAIN.smoothness

    @property
    def is_classification(self) -> bool:
        """Labels are -1 and +1."""
        return True

    def value(self, y: Array, m: Array) -> Array:
        """Return log(1 + exp(-y m)) - t y m."""
        return _PLAIN.value(y, m) - self.tilt * y * m

    def derivative(self, y: Array, m: Array) -> Array:
        """Return -y (1 / (1 + exp(y m)) + t)."""
        return _PLAIN.derivative(y, m) - self.tilt * y

    def curvature(self, y: Array, m: Array) -> Array:
        """Return that of the logistic loss."""
        return _PLAIN.curvature(y, m)

    def conjugate(self, y: Array, a: Array) -> Array:
        """Return c log c + (1 - c) log(1 - c), c = a y - t, on its domain t <= a y <= 1 + t."""
        b = np.asarray(a * y)
        inside = (b >= self.tilt) & (b <= 1.0 + self.tilt)
        return np.where(inside, _PLAIN.conjugate(np.ones_like(b), np.clip(b - self.tilt, 0.0, 1.0)), np.inf)

    def nearest_feasible(self, y: Array, a: Array) -> Array:
        """Clip a y to [t, 1 + t]."""
        return y * np.clip(a * y, self.tilt, 1.0 + self.tilt)


@provides_dual_step(TiltedLogistic)
@njit()
def _step(loss: TiltedLogistic, a: float, y: float, m: float, r: float) -> float:
    return dual_step(_PLAIN, a - loss.tilt * y, y, m, r)


@provides_slope(TiltedLogistic)
@njit(inline="always")
def _slope(loss: TiltedLogistic, y: float, m: float) -> float:
    return slope(_PLAIN, y, m) - loss.tilt * y
