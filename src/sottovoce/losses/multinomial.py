"""Multinomial logistic loss l(y, m) = log sum_k exp(m_k) - m_y of K scores, one a class."""

from typing import NamedTuple

import numpy as np
from scipy.special import log_softmax, softmax, xlogy

from sottovoce.losses.base import Array


class Multinomial(NamedTuple):
    """log sum_k exp(m_k) - m_y for a label y in 0, ..., K - 1 and K scores m, the last axis of an array.

    The dual variable of a record is a vector, e_y - p at the optimum with p = softmax(m): its entries add up to 0. With
    p = e_y - a the conjugate is l*(-a) = sum_k p_k log p_k where p is a probability vector.

    Parameters
    ----------
    n_classes : int
    """

    n_classes: int

    @property
    def name(self) -> str:
        """Name for receipts."""
        return f"multinomial logistic ({self.n_classes} classes)"

    @property
    def lipschitz(self) -> float:
        """Bound on the norm of the gradient, ``|p - e_y| <= sqrt 2``."""
        return float(np.sqrt(2.0))

    @property
    def smoothness(self) -> float:
        """Bound on the eigenvalues of the second derivative diag(p) - pp': 1 / 2, reached by two classes at p = 1/2."""
        return 0.5

    @property
    def is_classification(self) -> bool:
        """Labels are classes."""
        return True

    def value(self, y: Array, m: Array) -> Array:
        """Return the loss of each record, without overflow."""
        taken: Array = np.take_along_axis(log_softmax(m, axis=-1), _places(y), axis=-1)
        return -taken[..., 0]

    def derivative(self, y: Array, m: Array) -> Array:
        """Return p - e_y of each record."""
        return np.asarray(softmax(m, axis=-1)) - self._one_hot(y)

    def curvature(self, y: Array, m: Array) -> Array:
        """Return p_k (1 - p_k), the diagonal of the second derivative."""
        p = np.asarray(softmax(m, axis=-1))
        return p * (1.0 - p)

    def conjugate(self, y: Array, a: Array) -> Array:
        """Return sum_k p_k log p_k, p = e_y - a, on its domain (to the rounding of p)."""
        p = self._one_hot(y) - a
        inside = (p >= 0.0).all(axis=-1) & (np.abs(p.sum(axis=-1) - 1.0) <= 1e-12 * self.n_classes)
        return np.where(inside, xlogy(np.maximum(p, 0.0), np.maximum(p, 0.0)).sum(axis=-1), np.inf)

    def nearest_feasible(self, y: Array, a: Array) -> Array:
        """Project e_y - a onto the probability vectors (Held, Wolfe, Crowder 1974)."""
        hot = self._one_hot(y)
        p = hot - a
        falling = -np.sort(-p, axis=-1)
        shift = (np.cumsum(falling, axis=-1) - 1.0) / np.arange(1, self.n_classes + 1)
        count = np.count_nonzero(falling > shift, axis=-1)
        return hot - np.maximum(p - np.take_along_axis(shift, count[..., None] - 1, axis=-1), 0.0)

    def _one_hot(self, y: Array) -> Array:
        return np.eye(self.n_classes)[np.asarray(y).astype(np.intp)]


def _places(y: Array) -> "np.ndarray[tuple[int, ...], np.dtype[np.intp]]":
    return np.asarray(y).astype(np.intp)[..., None]
