"""Products of blocks M_1 x ... x M_B, in one vector of coordinates."""

from collections.abc import Iterable, Iterator
from typing import Self

import numpy as np

from sottovoce._validation import whole_number
from sottovoce.exceptions import ParameterError
from sottovoce.optimize._arrays import Array, Indices, vector
from sottovoce.optimize.domains.base import Block
from sottovoce.optimize.domains.box import Box

__all__ = ["ProductDomain"]


class ProductDomain:
    """M_1 x ... x M_B: block i holds the coordinates ``offsets[i]`` to ``offsets[i + 1] - 1``.

    Boxes of whatever sizes, and blocks that are all equal, are handled without a loop over the blocks.

    Parameters
    ----------
    blocks : iterable of Block
        `Box`, `L1Ball`, `L2Ball`, `Simplex`, or anything with the same methods.

    Attributes
    ----------
    n_blocks, n_coordinates : int
    sizes : ndarray of shape (n_blocks,)
        Number of coordinates of each block.
    offsets : ndarray of shape (n_blocks + 1,)

    Examples
    --------
    >>> domain = ProductDomain([Box(0, 1), Box([-1, -1], [1, 1])])
    >>> domain.n_blocks, domain.n_coordinates, domain.coordinates([1]).tolist()
    (2, 3, [1, 2])
    """

    def __init__(self, blocks: Iterable[Block]) -> None:
        try:
            listed = list(blocks)
        except TypeError:
            raise ParameterError(f"blocks must list blocks such as Box(0, 1); got {blocks!r}.") from None
        for place, block in enumerate(listed):
            if not all(hasattr(block, name) for name in ("size", "diameter", "oracle", "start", "contains")):
                raise ParameterError(
                    f"blocks[{place}] is not a block; got {block!r}. Give Box, L1Ball, L2Ball or Simplex."
                )
        if not listed:
            raise ParameterError("blocks is empty: give at least one block.")
        self.blocks: list[Block] = listed
        self.sizes: Indices = np.array([block.size for block in listed], dtype=np.intp)
        sizes = self.sizes
        self.offsets: Indices = np.concatenate([np.zeros(1, dtype=np.intp), np.cumsum(sizes)])
        self._size: int | None = int(sizes[0]) if (sizes == sizes[0]).all() else None
        self._low = self._high = np.empty(0)
        self._all_boxes = all(isinstance(block, Box) for block in listed)
        if self._all_boxes:
            self._low = np.concatenate([block.low for block in listed if isinstance(block, Box)])
            self._high = np.concatenate([block.high for block in listed if isinstance(block, Box)])
        self._equal = len({block.signature for block in listed}) == 1

    @classmethod
    def intervals(cls, low: object, high: object, *, n_blocks: int | None = None) -> Self:
        """Return the box whose every coordinate is a block."""
        n = max(np.size(low), np.size(high)) if n_blocks is None else whole_number("n_blocks", n_blocks, at_least=1)  # type: ignore[arg-type]
        lows, highs = vector("low", low, size=n), vector("high", high, size=n)
        return cls(Box(a, b) for a, b in zip(lows, highs, strict=True))

    @classmethod
    def power(cls, block: Block, n_blocks: int) -> Self:
        """Return the product of ``n_blocks`` equal blocks."""
        return cls([block] * whole_number("n_blocks", n_blocks, at_least=1))

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return len(self.blocks)

    @property
    def n_coordinates(self) -> int:
        """Number of coordinates of all blocks."""
        return int(self.offsets[-1])

    @property
    def diameters(self) -> Array:
        """Euclidean diameter of each block."""
        return np.array([block.diameter for block in self.blocks])

    @property
    def diameter(self) -> float:
        """Euclidean diameter of the product."""
        return float(np.linalg.norm(self.diameters))

    @property
    def all_intervals(self) -> bool:
        """True when every block is a box of one coordinate."""
        return self._all_boxes and self._size == 1

    @property
    def widths(self) -> Array:
        """Width of each coordinate, where all blocks are boxes."""
        if not self._all_boxes:
            raise ParameterError("widths are known where all blocks are boxes; use diameters.")
        return self._high - self._low

    def place(self, block: int) -> slice:
        """Return the place of a block in a vector of coordinates."""
        return slice(int(self.offsets[block]), int(self.offsets[block + 1]))

    def coordinates(self, blocks: object = None) -> Indices | slice:
        """Return the coordinates of some blocks, block after block; a slice of all for None."""
        if blocks is None:
            return slice(None)
        chosen: Indices = np.asarray(blocks, dtype=np.intp)
        if self._size == 1:
            return chosen
        if self._size is not None:
            return (chosen[:, None] * self._size + np.arange(self._size)).ravel()
        if len(chosen) == 0:
            return np.empty(0, dtype=np.intp)
        return np.concatenate([np.arange(self.offsets[i], self.offsets[i + 1]) for i in chosen])

    def oracle(self, gradient: Array, blocks: Indices | None = None) -> Array:
        """Return the minimiser of the inner product over the blocks; vectors hold the coordinates of these only."""
        if self._all_boxes:
            place = self.coordinates(blocks)
            return np.where(gradient < 0.0, self._high[place], self._low[place])
        if self._equal and self._size is not None:
            return self.blocks[0].oracle(gradient.reshape(-1, self._size)).ravel()
        out = np.empty(len(gradient))
        for block, part in self._parts(blocks):
            out[part] = block.oracle(gradient[part])
        return out

    def sum_by_block(self, terms: Array, blocks: Indices | None = None) -> Array:
        """Add the entries of each block."""
        if self._size is not None:
            return terms if self._size == 1 else terms.reshape(-1, self._size).sum(axis=1)
        sizes = self.sizes if blocks is None else self.sizes[blocks]
        if len(sizes) == 0:
            return np.empty(0)
        out: Array = np.add.reduceat(terms, np.concatenate([[0], np.cumsum(sizes)[:-1]]))
        return out

    def gaps(self, x: Array, gradient: Array) -> Array:
        """Return max over s of <x_i - s, gradient_i> for each block; they add up to the duality gap."""
        return self.sum_by_block((x - self.oracle(gradient)) * gradient)

    def start(self) -> Array:
        """Return the centre of each block."""
        return np.concatenate([block.start() for block in self.blocks])

    def contains(self, x: Array, blocks: Indices | None = None, *, tolerance: float = 1e-9) -> bool:
        """Tell whether x, the coordinates of the blocks or of all, is in their product."""
        if self._all_boxes:
            place = self.coordinates(blocks)
            return bool((x >= self._low[place] - tolerance).all() and (x <= self._high[place] + tolerance).all())
        return all(block.contains(x[part], tolerance) for block, part in self._parts(blocks))

    def _parts(self, blocks: Indices | None) -> Iterator[tuple[Block, slice]]:
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
