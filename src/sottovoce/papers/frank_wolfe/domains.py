"""Blocks of coordinates, boxes, balls of the l1 and the Euclidean norm and simplices, and products of them."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Final, Self

import numpy as np

from sottovoce._validation import number, whole_number
from sottovoce.exceptions import ParameterError
from sottovoce.papers.frank_wolfe._arrays import Array, Indices, vector

_MOST: Final = 16  # coordinates whose 2^16 corners may be listed


class Block(ABC):
    """A compact convex set M_i."""

    size: int  # number of coordinates
    diameter: float  # largest Euclidean distance of two points of the set

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


class Box(Block):
    """{x : low <= x <= high}, coordinate by coordinate.

    Parameters
    ----------
    low, high : float or array-like of shape (size,)
        Finite bounds, low <= high.
    size : int or None
        Number of coordinates where both bounds are numbers; None: as many as the longer of the two, or one.
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


class _Round(Block):
    """A set that its size and one radius say, with 0 as its centre and a diameter of two radii unless it says more."""

    def __init__(self, size: int, radius: float = 1.0) -> None:
        self.size = whole_number("size", size, at_least=1)
        self.radius = number("radius", radius, above=0.0)
        self.diameter = 2.0 * self.radius

    def start(self) -> Array:
        return np.zeros(self.size)


class L1Ball(_Round):
    r"""{x : \|x\|_1 <= radius}, of at least one coordinate and a positive radius."""

    def oracle(self, gradient: Array) -> Array:
        """Return the vertex against the largest entry of the gradient."""
        largest = np.abs(gradient).argmax(axis=-1, keepdims=True)
        out = np.zeros(gradient.shape)
        against = np.where(np.take_along_axis(gradient, largest, axis=-1) < 0.0, self.radius, -self.radius)
        np.put_along_axis(out, largest, against, axis=-1)
        return out

    def contains(self, x: Array, tolerance: float = 1e-9) -> bool:
        return bool(np.abs(x).sum() <= self.radius + tolerance)

    def extreme_differences(self) -> Array:
        steps = self.diameter * np.eye(self.size)
        return np.vstack([steps, -steps])


class L2Ball(_Round):
    r"""{x : \|x\|_2 <= radius}, of at least one coordinate and a positive radius."""

    def oracle(self, gradient: Array) -> Array:
        """Return the point of the sphere against the gradient (the centre where the gradient is 0)."""
        largest = np.abs(gradient).max(axis=-1, keepdims=True)  # first, so that squares neither over- nor underflow
        scaled = gradient / np.where(largest > 0.0, largest, 1.0)
        length = np.linalg.norm(scaled, axis=-1, keepdims=True)
        return -self.radius * scaled / np.where(length > 0.0, length, 1.0)

    def contains(self, x: Array, tolerance: float = 1e-9) -> bool:
        return bool(np.linalg.norm(x) <= self.radius + tolerance)

    def extreme_differences(self) -> None:
        return None


class Simplex(_Round):
    """{x >= 0 : sum of x = radius}, of at least one coordinate and a positive radius."""

    def __init__(self, size: int, radius: float = 1.0) -> None:
        super().__init__(size, radius)
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


class ProductDomain:
    """M_1 x ... x M_B: block i holds the coordinates ``offsets[i]`` to ``offsets[i + 1] - 1``.

    Blocks that are all the same, as those of `power` and `intervals`, are handled without a loop over them.

    Examples
    --------
    >>> domain = ProductDomain([Box(0, 1), Box([-1, -1], [1, 1])])
    >>> domain.n_blocks, domain.n_coordinates, domain.coordinates([1]).tolist()
    (2, 3, [1, 2])
    """

    def __init__(self, blocks: Iterable[Block]) -> None:
        self.blocks: list[Block] = list(blocks)
        if not self.blocks or not all(isinstance(block, Block) for block in self.blocks):
            raise ParameterError(f"blocks must list blocks such as Box(0, 1), at least one; got {self.blocks!r}.")
        self.sizes: Indices = np.array([block.size for block in self.blocks], dtype=np.intp)
        self.offsets: Indices = np.concatenate([np.zeros(1, dtype=np.intp), np.cumsum(self.sizes)])
        self.diameters: Array = np.array([block.diameter for block in self.blocks])
        self.n_blocks = len(self.blocks)
        self.n_coordinates = int(self.offsets[-1])
        self._size = int(self.sizes[0]) if (self.sizes == self.sizes[0]).all() else None
        self._same = all(block is self.blocks[0] for block in self.blocks)

    @classmethod
    def power(cls, block: Block, n_blocks: int) -> Self:
        """Return the product of ``n_blocks`` equal blocks."""
        return cls([block] * whole_number("n_blocks", n_blocks, at_least=1))

    @classmethod
    def intervals(cls, low: float, high: float, *, n_blocks: int) -> Self:
        """Return the box whose every coordinate is a block, an interval from ``low`` to ``high``."""
        return cls.power(Box(low, high, size=1), n_blocks)

    def place(self, block: int) -> slice:
        """Return the place of a block in a vector of coordinates."""
        return slice(int(self.offsets[block]), int(self.offsets[block + 1]))

    def coordinates(self, blocks: object) -> Indices:
        """Return the coordinates of some blocks, block after block."""
        chosen: Indices = np.asarray(blocks, dtype=np.intp)
        if self._size is not None:
            return (chosen[:, None] * self._size + np.arange(self._size)).ravel()
        return np.concatenate([np.empty(0, np.intp), *(np.arange(*self.offsets[i : i + 2]) for i in chosen)])

    def oracle(self, gradient: Array, blocks: Indices | None = None) -> Array:
        """Return the minimiser of the inner product over the blocks; vectors hold the coordinates of these only."""
        if self._same:
            return self.blocks[0].oracle(gradient.reshape(-1, self.blocks[0].size)).ravel()
        return np.concatenate([np.empty(0), *(block.oracle(gradient[part]) for block, part in self._parts(blocks))])

    def gaps(self, x: Array, gradient: Array) -> Array:
        """Return max over s of <x_i - s, gradient_i> for each block; they add up to the duality gap."""
        terms = (x - self.oracle(gradient)) * gradient
        if self._size is not None:
            return np.asarray(terms.reshape(-1, self._size).sum(axis=1))
        return np.array([terms[part].sum() for _, part in self._parts()])

    def start(self) -> Array:
        """Return the centre of each block."""
        return np.concatenate([block.start() for block in self.blocks])

    def contains(self, x: Array, *, tolerance: float = 1e-9) -> bool:
        """Tell whether x is in the product."""
        return all(block.contains(x[part], tolerance) for block, part in self._parts())

    def _parts(self, blocks: Indices | None = None) -> Iterator[tuple[Block, slice]]:
        """Give each block with its place in a vector that holds the coordinates of these only."""
        at = 0
        for i in range(self.n_blocks) if blocks is None else blocks:
            end = at + self.blocks[i].size
            yield self.blocks[i], slice(at, end)
            at = end

    def check_fit(self, n_coordinates: int, n_blocks: int | None) -> None:
        """Refuse an objective of other coordinates, and a sampling of other blocks."""
        if n_coordinates != self.n_coordinates:
            raise ParameterError(f"domain has {self.n_coordinates} coordinates, the objective {n_coordinates}.")
        if n_blocks not in (None, self.n_blocks):
            raise ParameterError(f"sampling is one of {n_blocks} blocks, the domain has {self.n_blocks}.")
