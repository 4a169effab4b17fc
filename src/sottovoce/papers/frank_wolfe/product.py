"""Products of blocks M_1 x ... x M_B, in one vector of coordinates."""

from collections.abc import Iterable, Iterator
from typing import Self

import numpy as np

from sottovoce._validation import whole_number
from sottovoce.exceptions import ParameterError
from sottovoce.papers.frank_wolfe._arrays import Array, Indices
from sottovoce.papers.frank_wolfe.domains import Block, Box

__all__ = ["ProductDomain"]


class ProductDomain:
    """M_1 x ... x M_B: block i holds the coordinates ``offsets[i]`` to ``offsets[i + 1] - 1``.

    Blocks that are all the same, as those of `power` and `intervals`, are handled without a loop over them.

    Parameters
    ----------
    blocks : iterable of Block
        `Box`, `L1Ball`, `L2Ball`, `Simplex`.

    Attributes
    ----------
    n_blocks, n_coordinates : int
    sizes : ndarray of shape (n_blocks,)
        Number of coordinates of each block.
    offsets : ndarray of shape (n_blocks + 1,)
    diameters : ndarray of shape (n_blocks,)
        Euclidean diameter of each block.

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
        out = np.empty(len(gradient))
        for block, part in self._parts(blocks):
            out[part] = block.oracle(gradient[part])
        return out

    def sum_by_block(self, terms: Array, blocks: Indices | None = None) -> Array:
        """Add the entries of each block."""
        if self._size is not None:
            sums: Array = terms.reshape(-1, self._size).sum(axis=1)
            return sums
        return np.array([terms[part].sum() for _, part in self._parts(blocks)])

    def gaps(self, x: Array, gradient: Array) -> Array:
        """Return max over s of <x_i - s, gradient_i> for each block; they add up to the duality gap."""
        return self.sum_by_block((x - self.oracle(gradient)) * gradient)

    def start(self) -> Array:
        """Return the centre of each block."""
        return np.concatenate([block.start() for block in self.blocks])

    def contains(self, x: Array, *, tolerance: float = 1e-9) -> bool:
        """Tell whether x is in the product."""
        return all(block.contains(x[part], tolerance) for block, part in self._parts(None))

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
