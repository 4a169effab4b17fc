"""Balls of the Euclidean norm."""

import numpy as np

from sottovoce.exceptions import ParameterError
from sottovoce.optimize._arrays import Array
from sottovoce.optimize.domains._ball import Ball

__all__ = ["L2Ball"]


class L2Ball(Ball):
    r"""{x : \|x - centre\|_2 <= radius}.

    Parameters
    ----------
    size : int, >= 1
        Number of coordinates.
    radius : float, > 0
    centre : float or array-like of shape (size,), default 0

    Examples
    --------
    >>> import numpy as np
    >>> L2Ball(2, radius=5).oracle(np.array([3.0, 4.0]))
    array([-3., -4.])
    """

    _norm = "l2"

    @property
    def n_extreme_differences(self) -> int | None:
        """Two for an interval, else None: the ball has no corners."""
        return 2 if self.size == 1 else None

    def oracle(self, gradient: Array) -> Array:
        """Return the point of the sphere against the gradient (the centre where the gradient is 0)."""
        largest = np.abs(gradient).max(axis=-1, keepdims=True)  # first, so that squares neither over- nor underflow
        scaled = gradient / np.where(largest > 0.0, largest, 1.0)
        length = np.linalg.norm(scaled, axis=-1, keepdims=True)
        return self.centre - self.radius * scaled / np.where(length > 0.0, length, 1.0)

    def contains(self, x: Array, tolerance: float = 1e-9) -> bool:
        """Tell whether x is in the ball."""
        return bool(np.linalg.norm(x - self.centre) <= self.radius + tolerance)

    def _corners(self) -> Array:
        if self.size > 1:
            raise ParameterError(f"an l2 ball of {self.size} coordinates has no vertices; use a bound in their place.")
        return np.array([[-self.radius], [self.radius]])
