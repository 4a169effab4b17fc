"""Balls of the l1 norm."""

import numpy as np

from sottovoce.optimize._arrays import Array
from sottovoce.optimize.domains._ball import Ball

__all__ = ["L1Ball"]


class L1Ball(Ball):
    r"""{x : \|x - centre\|_1 <= radius}.

    Parameters
    ----------
    size : int, >= 1
        Number of coordinates.
    radius : float, > 0
    centre : float or array-like of shape (size,), default 0

    Examples
    --------
    >>> import numpy as np
    >>> L1Ball(3, radius=2).oracle(np.array([1.0, -5.0, 2.0]))
    array([0., 2., 0.])
    """

    _norm = "l1"

    @property
    def n_extreme_differences(self) -> int | None:
        """Vertices of the ball of twice the radius."""
        return 2 * self.size

    def oracle(self, gradient: Array) -> Array:
        """Return the vertex against the largest entry of the gradient."""
        largest = np.abs(gradient).argmax(axis=-1, keepdims=True)
        sign = np.where(np.take_along_axis(gradient, largest, axis=-1) < 0.0, self.radius, -self.radius)
        out = np.broadcast_to(self.centre, gradient.shape).copy()
        np.put_along_axis(out, largest, np.take_along_axis(out, largest, axis=-1) + sign, axis=-1)
        return out

    def contains(self, x: Array, tolerance: float = 1e-9) -> bool:
        """Tell whether x is in the ball."""
        return bool(np.abs(x - self.centre).sum() <= self.radius + tolerance)

    def _corners(self) -> Array:
        steps = self.radius * np.eye(self.size)
        return np.vstack([steps, -steps])
