"""Sets of a fixed size, all alike: tau-nice sampling, and with tau = 1 uniform serial sampling."""

import math
from itertools import combinations
from typing import Final

import numpy as np

from sottovoce._validation import whole_number
from sottovoce.optimize._arrays import Array, Indices
from sottovoce.optimize.samplings.base import Sampling, some_of

__all__ = ["NiceSampling", "UniformSerialSampling"]

_MOST: Final = 100_000  # sets that are listed


class NiceSampling(Sampling):
    """Every set of ``tau`` blocks with the same probability.

    Parameters
    ----------
    n_blocks : int
    tau : int, from 1 to n_blocks
    """

    def __init__(self, n_blocks: int, tau: int) -> None:
        super().__init__(n_blocks)
        self.tau = whole_number("tau", tau, at_least=1, at_most=self.n_blocks)
        self.name = f"{self.tau}-nice"
        self.largest_size = self.tau  # of all sets
        self.probabilities = np.full(self.n_blocks, self.tau / self.n_blocks)

    def draw(self, rng: np.random.Generator) -> Indices:
        """Return one set."""
        return np.sort(some_of(rng, self.n_blocks, self.tau))

    def _pairs(self) -> Array:
        n = self.n_blocks
        return np.full((n, n), self.tau * (self.tau - 1) / (n * max(n - 1, 1)))

    def support(self) -> list[tuple[Indices, float]]:
        """Return all sets of size tau, or refuse more than a hundred thousand."""
        count = math.comb(self.n_blocks, self.tau)
        if count > _MOST:
            return super().support()
        return [(np.array(s, dtype=np.intp), 1.0 / count) for s in combinations(range(self.n_blocks), self.tau)]


class UniformSerialSampling(NiceSampling):
    """One block, all with the same probability.

    Parameters
    ----------
    n_blocks : int
    """

    def __init__(self, n_blocks: int) -> None:
        super().__init__(n_blocks, 1)
        self.name = "uniform serial"
