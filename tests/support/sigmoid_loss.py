"""Sigmoid loss l(y, m) = 1 / (1 + exp(y m)): a smooth count of errors, bounded and not convex."""

import math

import numpy as np
from scipy.special import expit

from sottovoce.losses.base import Array, NoParameters


class SigmoidLoss(NoParameters):
    """1 / (1 + exp(y m)): near 1 for an error, near 0 for a safe success, so that outliers cannot dominate.

    Not convex: it has no conjugate and no dual step. It is there for the non-convex setting of the theorems of ADMM.
    """

    __slots__ = ()
    name = "sigmoid"
    lipschitz = 0.25
    smoothness = 1.0 / (6.0 * math.sqrt(3.0))  # reached at p = (3 +- sqrt(3)) / 6
    is_classification = True

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
