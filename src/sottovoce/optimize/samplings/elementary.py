"""The sampling that always takes the same set."""

from collections.abc import Iterable

import numpy as np

from sottovoce.exceptions import ParameterError
from sottovoce.optimize._arrays import Array, Indices, whole_numbers
from sottovoce.optimize.samplings.base import Sampling

__all__ = ["ElementarySampling"]


class ElementarySampling(Sampling):
    """One set with probability one: all blocks (classical Frank-Wolfe), or the given ones.

    A set that leaves blocks out is not proper: `block_frank_wolfe` refuses it, for the other blocks would never move.
    Its curvature is the set curvature of that set.

    Parameters
    ----------
    n_blocks : int
    blocks : iterable of int or None
        None takes all.
    """

    def __init__(self, n_blocks: int, blocks: Iterable[int] | None = None) -> None:
        super().__init__(n_blocks)
        chosen = range(self.n_blocks) if blocks is None else blocks
        self.blocks: Indices = whole_numbers("blocks", chosen, below=self.n_blocks)
        if len(self.blocks) == 0:
            raise ParameterError("blocks is empty: name at least one block, or leave it out to take all.")
        self.name = "elementary"
        self.largest_size = len(self.blocks)
        self.probabilities = np.zeros(self.n_blocks)
        self.probabilities[self.blocks] = 1.0

    def draw(self, rng: np.random.Generator) -> Indices:
        """Return the set."""
        return self.blocks

    def _pairs(self) -> Array:
        return np.outer(self.probabilities, self.probabilities)

    def support(self) -> list[tuple[Indices, float]]:
        """Return the set."""
        return [(self.blocks, 1.0)]
