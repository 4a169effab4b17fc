"""Sigmoid loss l(y, m) = 1 / (1 + exp(y m)): a smooth count of errors, bounded and not convex."""

import math
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from sottovoce.losses.base import Array

__all__ = ["SigmoidLoss"]


class SigmoidLoss(NamedTuple):
    """1 / (1 + exp(y m)): near 1 for an error, near 0 for a safe success, so that outliers cannot dominate.

    Not convex: it has no conjugate and no dual step. It is there for the non-convex setting of ADMM sharing.
    """

    @property
    def name(self) -> str:
        """Name for receipts."""
        return "sigmoid"

    @property
    def lipschitz(self) -> float:
        """Bound on ``|l'|``."""
        return 0.25

    @property
    def smoothness(self) -> float:
        """Bound on ``|l''|``, reached at p = (3 +- sqrt(3)) / 6."""
        return 1.0 / (6.0 * math.sqrt(3.0))

    @property
    def is_classification(self) -> bool:
        """Labels are -1 and +1."""
        return True

    def value(self, y: Array, m: Array) -> Array:
        """Return the probability that a logistic model with score y m gives to the other class."""
        return expit(-y * m)

    def derivative(self, y: Array, m: Array) -> Array:
        """Return -y p (1 - p), p = 1 / (1 + exp(y m))."""
        # rounding could take the product one unit beyond its bound
        return -y * np.minimum(expit(-y * m) * expit(y * m), self.lipschitz)

    def curvature(self, y: Array, m: Array) -> Array:
        """Return p (1 - p) (1 - 2 p), negative on the side of errors."""
        p = expit(-y * m)
        return p * (1.0 - p) * (1.0 - 2.0 * p)
