"""What a block of the domain is: a compact convex set that linear functions can be minimised over."""

from typing import Protocol

from sottovoce.optimize._arrays import Array

__all__ = ["Block"]


class Block(Protocol):
    """A compact convex set M_i in some coordinates; lengths are Euclidean.

    The widths of the set in each direction are all that curvature asks for, so it asks for points of M_i - M_i.
    """

    @property
    def size(self) -> int:
        """Number of coordinates."""
        ...

    @property
    def diameter(self) -> float:
        """Largest distance of two points of the set."""
        ...

    @property
    def signature(self) -> tuple[object, ...]:
        """Equal for equal sets: their oracles are then taken together."""
        ...

    @property
    def n_extreme_differences(self) -> int | None:
        """Number of rows of `extreme_differences`; None for a set that is not a polytope."""
        ...

    def oracle(self, gradient: Array) -> Array:
        """Return the point of the set with the least inner product, for each row of ``gradient`` (last axis)."""
        ...

    def start(self) -> Array:
        """Return a point of the set, its centre."""
        ...

    def contains(self, x: Array, tolerance: float) -> bool:
        """Tell whether ``x`` is in the set, up to an absolute tolerance in each defining inequality."""
        ...

    def vertices(self) -> Array:
        """Return the vertices as rows; `ParameterError` where there are none or too many."""
        ...

    def extreme_differences(self) -> Array:
        """Return a finite set of rows, symmetric about 0, whose convex hull is M_i - M_i."""
        ...
