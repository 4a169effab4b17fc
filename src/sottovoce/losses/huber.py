"""Huber loss: the squared loss up to a threshold, a straight line beyond, so that no label pulls without bound."""

from typing import NamedTuple

import numpy as np
from numba import njit

from sottovoce._validation import number
from sottovoce.losses.base import Array, provides_dual_step, provides_slope


class Huber(NamedTuple):
    r"""r^2 / 2 for a residual r = y - m of at most t = ``threshold`` > 0, else ``t |r| - t^2 / 2``.

    The conjugate is that of the squared loss, l*(-a) = a^2 / 2 - a y, on ``|a| <= t``. With a large t it is the squared
    loss; divided by t, with a small t, it tends to \|r\|. Introduced in [1]_.

    Parameters
    ----------
    threshold : float, > 0
        In units of the labels (scikit-learn's ``HuberRegressor`` calls it ``epsilon``, in units of a scale that it
        fits).

    References
    ----------
    .. [1] Huber (1964). Robust Estimation of a Location Parameter. The Annals of Mathematical Statistics 35.
    """

    threshold: float = 1.0

    @property
    def name(self) -> str:
        """Name for receipts."""
        return f"Huber (threshold {self.threshold:g})"

    @property
    def lipschitz(self) -> float:
        """Bound on ``|l'|``."""
        return number("threshold", self.threshold, above=0.0)

    @property
    def smoothness(self) -> float:
        """Bound on l''."""
        return 1.0

    @property
    def is_classification(self) -> bool:
        """Labels are numbers."""
        return False

    def value(self, y: Array, m: Array) -> Array:
        """Return the loss of each record, without overflow."""
        size = np.abs(y - m)
        pull = np.minimum(size, self.threshold)
        return np.asarray(pull * (size - 0.5 * pull))

    def derivative(self, y: Array, m: Array) -> Array:
        """Return m - y, clipped to the threshold."""
        return np.clip(m - y, -self.threshold, self.threshold)

    def curvature(self, y: Array, m: Array) -> Array:
        """Return 1 within the threshold, else 0."""
        return np.where(np.abs(y - m) < self.threshold, 1.0, 0.0)

    def conjugate(self, y: Array, a: Array) -> Array:
        """Return a^2 / 2 - a y on its domain, ``|a| <= t``."""
        return np.where(np.abs(a) <= self.threshold, 0.5 * np.square(a) - a * y, np.inf)

    def nearest_feasible(self, y: Array, a: Array) -> Array:
        """Clip a to [-t, t]."""
        return np.clip(np.asarray(a, dtype=np.float64), -self.threshold, self.threshold)


@provides_dual_step(Huber)
@njit(inline="always")
def _step(loss: Huber, a: float, y: float, m: float, r: float) -> float:
    # as for the squared loss, whose conjugate this is on a smaller domain
    moved = a + (y - a - m) / (1.0 + r)
    return min(max(moved, -loss.threshold), loss.threshold) - a


@provides_slope(Huber)
@njit(inline="always")
def _slope(loss: Huber, y: float, m: float) -> float:
    return min(max(m - y, -loss.threshold), loss.threshold)
