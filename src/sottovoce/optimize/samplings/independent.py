"""Every block by a coin of its own."""

from itertools import product
from typing import Final

import numpy as np

from sottovoce.exceptions import ParameterError
from sottovoce.optimize._arrays import Array, Indices, vector
from sottovoce.optimize.samplings.base import Sampling

__all__ = ["IndependentSampling"]

_MOST: Final = 16  # blocks whose 2^16 sets may be listed


class IndependentSampling(Sampling):
    """Block i comes with its own probability p_i, independently of the others; sets may be empty.

    Parameters
    ----------
    probabilities : array-like of shape (n_blocks,), in (0, 1]
    """

    def __init__(self, probabilities: object) -> None:
        p = vector("probabilities", probabilities)
        super().__init__(len(p))
        if not ((p > 0.0) & (p <= 1.0)).all():
            wrong = int(np.flatnonzero(~((p > 0.0) & (p <= 1.0)))[0])
            raise ParameterError(
                f"probabilities must be in (0, 1]; got {p[wrong]!r} for block {wrong}. A block that never comes never "
                "moves: leave it out of the problem instead."
            )
        self.name = "independent"
        self.largest_size = self.n_blocks
        self.probabilities = p

    def draw(self, rng: np.random.Generator) -> Indices:
        """Return one set."""
        return np.flatnonzero(rng.random(self.n_blocks) < self.probabilities)

    def _pairs(self) -> Array:
        return np.outer(self.probabilities, self.probabilities)

    def support(self) -> list[tuple[Indices, float]]:
        """Return all sets of positive probability, or refuse more than 16 blocks."""
        if self.n_blocks > _MOST:
            return super().support()
        out = []
        for coins in product((False, True), repeat=self.n_blocks):
            chance = float(np.where(coins, self.probabilities, 1.0 - self.probabilities).prod())
            if chance > 0.0:
                out.append((np.flatnonzero(coins), chance))
        return out
