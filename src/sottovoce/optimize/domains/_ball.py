"""What balls of any norm share."""

from abc import ABC, abstractmethod
from typing import ClassVar

from sottovoce._validation import number, whole_number
from sottovoce.optimize._arrays import Array, vector

__all__ = ["Ball"]


class Ball(ABC):
    """All points within ``radius`` of ``centre``, in a norm that a subclass gives."""

    _norm: ClassVar[str]

    def __init__(self, size: int, radius: float = 1.0, *, centre: object = 0.0) -> None:
        self.size = whole_number("size", size, at_least=1)
        self.radius = number("radius", radius, above=0.0)
        self.centre: Array = vector("centre", centre, size=self.size)

    @property
    def diameter(self) -> float:
        """Twice the radius."""
        return 2.0 * self.radius

    @property
    def signature(self) -> tuple[object, ...]:
        """Equal for equal balls."""
        return (self._norm, self.size, self.radius, self.centre.tobytes())

    def vertices(self) -> Array:
        """Return the vertices, where the ball is a polytope."""
        return self.centre + self._corners()

    def extreme_differences(self) -> Array:
        """Return the vertices of the ball of twice the radius about 0."""
        return 2.0 * self._corners()

    @abstractmethod
    def _corners(self) -> Array:
        """Return the vertices of the ball about 0, or refuse."""

    def start(self) -> Array:
        """Return the centre."""
        return self.centre.copy()
