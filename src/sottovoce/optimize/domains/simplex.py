"""Simplices."""

import numpy as np

from sottovoce._validation import number, whole_number
from sottovoce.exceptions import ParameterError
from sottovoce.optimize._arrays import Array

__all__ = ["Simplex"]


class Simplex:
    """{x >= 0 : sum of x = radius}, or with ``solid=True`` {x >= 0 : sum of x <= radius}.

    Parameters
    ----------
    size : int, >= 1
        Number of coordinates.
    radius : float, > 0
        Sum of the coordinates.
    solid : bool, default False
        Take the corner 0 in.

    Examples
    --------
    >>> import numpy as np
    >>> Simplex(3).oracle(np.array([1.0, -5.0, 2.0]))
    array([0., 1., 0.])
    """

    def __init__(self, size: int, radius: float = 1.0, *, solid: bool = False) -> None:
        self.size = whole_number("size", size, at_least=1)
        self.radius = number("radius", radius, above=0.0)
        if not isinstance(solid, bool):
            raise ParameterError(f"solid must be True or False; got {solid!r}.")
        self.solid = solid

    @property
    def diameter(self) -> float:
        """Length of an edge between two vertices."""
        if self.size == 1:
            return self.radius if self.solid else 0.0
        return self.radius * float(np.sqrt(2.0))

    @property
    def signature(self) -> tuple[object, ...]:
        """Equal for equal simplices."""
        return ("simplex", self.size, self.radius, self.solid)

    @property
    def n_extreme_differences(self) -> int | None:
        """Ordered pairs of vertices, and 0 for a single point."""
        n = self.size + int(self.solid)
        return max(1, n * (n - 1))

    def oracle(self, gradient: Array) -> Array:
        """Return the vertex at the least entry of the gradient (0, if solid, where no entry is negative)."""
        least = gradient.argmin(axis=-1, keepdims=True)
        out = np.zeros(gradient.shape)
        height = np.full(least.shape, self.radius)
        if self.solid:
            height[np.take_along_axis(gradient, least, axis=-1) >= 0.0] = 0.0
        np.put_along_axis(out, least, height, axis=-1)
        return out

    def start(self) -> Array:
        """Return the mean of the vertices."""
        return np.full(self.size, self.radius / (self.size + int(self.solid)))

    def contains(self, x: Array, tolerance: float = 1e-9) -> bool:
        """Tell whether x is in the simplex."""
        excess = float(x.sum()) - self.radius
        return bool((x >= -tolerance).all()) and (excess if self.solid else abs(excess)) <= tolerance

    def vertices(self) -> Array:
        """Return radius e_j, and 0 if solid."""
        corners = self.radius * np.eye(self.size)
        return np.vstack([corners, np.zeros(self.size)]) if self.solid else corners

    def extreme_differences(self) -> Array:
        """Return the differences of any two vertices."""
        corners = self.vertices()
        if len(corners) == 1:
            return np.zeros((1, self.size))
        first, second = np.nonzero(~np.eye(len(corners), dtype=bool))
        return corners[first] - corners[second]
