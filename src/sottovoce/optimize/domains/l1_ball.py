"""Balls of the l1 norm."""

import numpy as np

from sottovoce._validation import number, whole_number
from sottovoce.optimize._arrays import Array, vector

__all__ = ["L1Ball"]


class L1Ball:
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

    def __init__(self, size: int, radius: float = 1.0, *, centre: object = 0.0) -> None:
        self._size = whole_number("size", size, at_least=1)
        self.radius = number("radius", radius, above=0.0)
        self.centre: Array = vector("centre", centre, size=self._size)

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return self._size

    @property
    def diameter(self) -> float:
        """From a vertex to the opposite one."""
        return 2.0 * self.radius

    @property
    def signature(self) -> tuple[object, ...]:
        """Equal for equal balls."""
        return ("l1", self._size, self.radius, self.centre.tobytes())

    @property
    def n_extreme_differences(self) -> int | None:
        """Vertices of the ball of twice the radius."""
        return 2 * self._size

    def oracle(self, gradient: Array) -> Array:
        """Return the vertex against the largest entry of the gradient."""
        largest = np.abs(gradient).argmax(axis=-1, keepdims=True)
        sign = np.where(np.take_along_axis(gradient, largest, axis=-1) < 0.0, self.radius, -self.radius)
        out = np.broadcast_to(self.centre, gradient.shape).copy()
        np.put_along_axis(out, largest, np.take_along_axis(out, largest, axis=-1) + sign, axis=-1)
        return out

    def start(self) -> Array:
        """Return the centre."""
        return self.centre.copy()

    def contains(self, x: Array, tolerance: float = 1e-9) -> bool:
        """Tell whether x is in the ball."""
        return bool(np.abs(x - self.centre).sum() <= self.radius + tolerance)

    def vertices(self) -> Array:
        """Return centre +- radius e_j."""
        steps = self.radius * np.eye(self._size)
        return np.vstack([self.centre + steps, self.centre - steps])

    def extreme_differences(self) -> Array:
        """Return +-2 radius e_j."""
        steps = 2.0 * self.radius * np.eye(self._size)
        return np.vstack([steps, -steps])
