"""Balls of the Euclidean norm."""

import numpy as np

from sottovoce._validation import number, whole_number
from sottovoce.exceptions import ParameterError
from sottovoce.optimize._arrays import Array, vector

__all__ = ["L2Ball"]


class L2Ball:
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
        """Twice the radius."""
        return 2.0 * self.radius

    @property
    def signature(self) -> tuple[object, ...]:
        """Equal for equal balls."""
        return ("l2", self._size, self.radius, self.centre.tobytes())

    @property
    def n_extreme_differences(self) -> int | None:
        """Two for an interval, else None: the ball has no corners."""
        return 2 if self._size == 1 else None

    def oracle(self, gradient: Array) -> Array:
        """Return the point of the sphere against the gradient (the centre where the gradient is 0)."""
        largest = np.abs(gradient).max(axis=-1, keepdims=True)  # first, so that squares neither over- nor underflow
        scaled = gradient / np.where(largest > 0.0, largest, 1.0)
        length = np.linalg.norm(scaled, axis=-1, keepdims=True)
        return self.centre - self.radius * scaled / np.where(length > 0.0, length, 1.0)

    def start(self) -> Array:
        """Return the centre."""
        return self.centre.copy()

    def contains(self, x: Array, tolerance: float = 1e-9) -> bool:
        """Tell whether x is in the ball."""
        return bool(np.linalg.norm(x - self.centre) <= self.radius + tolerance)

    def vertices(self) -> Array:
        """Return the two ends of an interval; a ball of more coordinates has no vertices."""
        self._ends_only()
        return np.vstack([self.centre - self.radius, self.centre + self.radius])

    def extreme_differences(self) -> Array:
        """Return the two differences of the ends of an interval."""
        self._ends_only()
        return np.array([[-2.0 * self.radius], [2.0 * self.radius]])

    def _ends_only(self) -> None:
        if self._size > 1:
            raise ParameterError(f"an l2 ball of {self._size} coordinates has no vertices; use a bound in their place.")
