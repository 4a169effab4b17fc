"""Blocks of coordinates: boxes, balls of the l1 and the Euclidean norm, simplices."""

from abc import ABC, abstractmethod
from typing import Final

import numpy as np

from sottovoce._validation import number, whole_number
from sottovoce.exceptions import ParameterError
from sottovoce.papers.frank_wolfe._arrays import Array, vector

__all__ = ["Block", "Box", "L1Ball", "L2Ball", "Simplex"]


class Block(ABC):
    """A compact convex set M_i.

    Attributes
    ----------
    size : int
        Number of coordinates.
    diameter : float
        Largest Euclidean distance of two points of the set.
    """

    size: int
    diameter: float

    @abstractmethod
    def oracle(self, gradient: Array) -> Array:
        """Return the point of the set with the least inner product, for each row of ``gradient`` (last axis)."""

    @abstractmethod
    def start(self) -> Array:
        """Return a point of the set, its centre."""

    @abstractmethod
    def contains(self, x: Array, tolerance: float = 1e-9) -> bool:
        """Tell whether ``x`` is in the set, up to an absolute tolerance in each defining inequality."""

    @abstractmethod
    def extreme_differences(self) -> Array | None:
        """Return rows, symmetric about 0, whose convex hull is M_i - M_i; None where they cannot be listed."""


_MOST: Final = 16  # coordinates whose 2^16 corners may be listed


class Box(Block):
    """{x : low <= x <= high}, coordinate by coordinate.

    Parameters
    ----------
    low, high : float or array-like of shape (size,)
        Finite bounds, low <= high.
    size : int or None
        Number of coordinates where both bounds are numbers; None: as many as the longer of the two, or one.

    Examples
    --------
    >>> import numpy as np
    >>> Box(-1, 1, size=3).oracle(np.array([2.0, -1.0, 0.5]))
    array([-1.,  1., -1.])
    """

    def __init__(self, low: object, high: object, *, size: int | None = None) -> None:
        n = max(np.size(low), np.size(high)) if size is None else whole_number("size", size, at_least=1)  # type: ignore[arg-type]
        self.low: Array = vector("low", low, size=n)
        self.high: Array = vector("high", high, size=n)
        if n == 0 or not (self.low <= self.high).all():
            raise ParameterError(f"low must be at most high in every coordinate; got low={low!r}, high={high!r}.")
        self.size = n
        self.diameter = float(np.linalg.norm(self.high - self.low))

    def oracle(self, gradient: Array) -> Array:
        """Return the corner against the gradient (``low`` where the gradient is 0)."""
        return np.where(gradient < 0.0, self.high, self.low)

    def start(self) -> Array:
        return 0.5 * (self.low + self.high)

    def contains(self, x: Array, tolerance: float = 1e-9) -> bool:
        return bool((x >= self.low - tolerance).all() and (x <= self.high + tolerance).all())

    def extreme_differences(self) -> Array | None:
        if self.size > _MOST:
            return None
        bits = np.arange(2**self.size)[:, None] >> np.arange(self.size)
        signs: Array = np.where(bits & 1, 1.0, -1.0)
        return signs * (self.high - self.low)


class L1Ball(Block):
    r"""{x : \|x\|_1 <= radius}.

    Parameters
    ----------
    size : int, >= 1
        Number of coordinates.
    radius : float, > 0

    Examples
    --------
    >>> import numpy as np
    >>> L1Ball(3, radius=2).oracle(np.array([1.0, -5.0, 2.0]))
    array([0., 2., 0.])
    """

    def __init__(self, size: int, radius: float = 1.0) -> None:
        self.size = whole_number("size", size, at_least=1)
        self.radius = number("radius", radius, above=0.0)
        self.diameter = 2.0 * self.radius

    def oracle(self, gradient: Array) -> Array:
        """Return the vertex against the largest entry of the gradient."""
        largest = np.abs(gradient).argmax(axis=-1, keepdims=True)
        out = np.zeros(gradient.shape)
        against = np.where(np.take_along_axis(gradient, largest, axis=-1) < 0.0, self.radius, -self.radius)
        np.put_along_axis(out, largest, against, axis=-1)
        return out

    def start(self) -> Array:
        return np.zeros(self.size)

    def contains(self, x: Array, tolerance: float = 1e-9) -> bool:
        return bool(np.abs(x).sum() <= self.radius + tolerance)

    def extreme_differences(self) -> Array:
        steps = self.diameter * np.eye(self.size)
        return np.vstack([steps, -steps])


class L2Ball(Block):
    r"""{x : \|x\|_2 <= radius}.

    Parameters
    ----------
    size : int, >= 1
        Number of coordinates.
    radius : float, > 0

    Examples
    --------
    >>> import numpy as np
    >>> L2Ball(2, radius=5).oracle(np.array([3.0, 4.0]))
    array([-3., -4.])
    """

    def __init__(self, size: int, radius: float = 1.0) -> None:
        self.size = whole_number("size", size, at_least=1)
        self.radius = number("radius", radius, above=0.0)
        self.diameter = 2.0 * self.radius

    def oracle(self, gradient: Array) -> Array:
        """Return the point of the sphere against the gradient (the centre where the gradient is 0)."""
        largest = np.abs(gradient).max(axis=-1, keepdims=True)  # first, so that squares neither over- nor underflow
        scaled = gradient / np.where(largest > 0.0, largest, 1.0)
        length = np.linalg.norm(scaled, axis=-1, keepdims=True)
        return -self.radius * scaled / np.where(length > 0.0, length, 1.0)

    def start(self) -> Array:
        return np.zeros(self.size)

    def contains(self, x: Array, tolerance: float = 1e-9) -> bool:
        return bool(np.linalg.norm(x) <= self.radius + tolerance)

    def extreme_differences(self) -> None:
        return None


class Simplex(Block):
    """{x >= 0 : sum of x = radius}.

    Parameters
    ----------
    size : int, >= 1
        Number of coordinates.
    radius : float, > 0
        Sum of the coordinates.

    Examples
    --------
    >>> import numpy as np
    >>> Simplex(3).oracle(np.array([1.0, -5.0, 2.0]))
    array([0., 1., 0.])
    """

    def __init__(self, size: int, radius: float = 1.0) -> None:
        self.size = whole_number("size", size, at_least=1)
        self.radius = number("radius", radius, above=0.0)
        self.diameter = self.radius * float(np.sqrt(2.0)) if self.size > 1 else 0.0

    def oracle(self, gradient: Array) -> Array:
        """Return the vertex at the least entry of the gradient."""
        out = np.zeros(gradient.shape)
        np.put_along_axis(out, gradient.argmin(axis=-1, keepdims=True), self.radius, axis=-1)
        return out

    def start(self) -> Array:
        return np.full(self.size, self.radius / self.size)

    def contains(self, x: Array, tolerance: float = 1e-9) -> bool:
        return bool((x >= -tolerance).all()) and abs(float(x.sum()) - self.radius) <= tolerance

    def extreme_differences(self) -> Array:
        if self.size == 1:
            return np.zeros((1, 1))
        corners = self.radius * np.eye(self.size)
        first, second = np.nonzero(~np.eye(self.size, dtype=bool))
        return corners[first] - corners[second]
