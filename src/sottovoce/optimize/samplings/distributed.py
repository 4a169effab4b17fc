"""Groups that each take some of their own blocks: (K, tau)-distributed sampling."""

import math
from collections.abc import Iterable
from itertools import combinations, product
from typing import Final

import numpy as np

from sottovoce._validation import whole_number
from sottovoce.exceptions import ParameterError
from sottovoce.optimize._arrays import Array, Indices, whole_numbers
from sottovoce.optimize.samplings.base import Sampling, some_of

__all__ = ["DistributedSampling"]

_MOST: Final = 100_000
_FEW: Final = 64  # blocks for each that is drawn: below, a random key for every block is faster than draws by group


class DistributedSampling(Sampling):
    """Each of K groups of blocks takes ``tau`` of its own, uniformly and independently of the others.

    Block i of a group of d_k blocks comes with probability tau / d_k: K tau / d for equal groups (Table 1 of the paper
    prints the square of that). With tau = 1 and one group it is uniform serial sampling.

    Parameters
    ----------
    groups : iterable of iterables of int
        The blocks of each group; every block in exactly one. `even` makes equal groups.
    tau : int, from 1 to the size of the smallest group
    """

    def __init__(self, groups: Iterable[Iterable[int]], tau: int) -> None:
        try:
            listed = [list(group) for group in groups]
        except TypeError:
            raise ParameterError(f"groups must be a list of lists of blocks; got {groups!r}.") from None
        super().__init__(sum(map(len, listed)) or 1)
        self.groups: list[Indices] = [
            whole_numbers(f"groups[{k}]", group, below=self.n_blocks) for k, group in enumerate(listed)
        ]
        if not listed or not all(listed) or len(np.unique(np.concatenate(self.groups))) != self.n_blocks:
            raise ParameterError(
                "groups must hold every block 0, 1, ... exactly once, and no group may be empty; "
                f"got sizes {[len(group) for group in listed]}."
            )
        smallest, largest = min(map(len, self.groups)), max(map(len, self.groups))
        self._table = np.array(self.groups) if smallest == largest else None
        self.tau = whole_number("tau", tau, at_least=1, at_most=smallest, remedy="The smallest group sets the limit.")
        self.name = f"({len(self.groups)}, {self.tau})-distributed"
        self.largest_size = len(self.groups) * self.tau  # of all sets
        self.probabilities = np.empty(self.n_blocks)
        for group in self.groups:
            self.probabilities[group] = self.tau / len(group)

    @classmethod
    def even(cls, n_blocks: int, n_groups: int, tau: int) -> "DistributedSampling":
        """Return groups of neighbouring blocks, of sizes that differ by at most one."""
        n = whole_number("n_blocks", n_blocks, at_least=1)
        k = whole_number("n_groups", n_groups, at_least=1, at_most=n)
        return cls(np.array_split(np.arange(n), k), tau)

    def draw(self, rng: np.random.Generator) -> Indices:
        """Return one set."""
        if self._table is not None and self.n_blocks <= _FEW * self.largest_size:
            places = rng.random(self._table.shape).argpartition(self.tau - 1, axis=1)[:, : self.tau]
            return np.sort(np.take_along_axis(self._table, places, axis=1), axis=None)
        return np.sort(np.concatenate([group[some_of(rng, len(group), self.tau)] for group in self.groups]))

    def _pairs(self) -> Array:
        out = np.outer(self.probabilities, self.probabilities)
        for group in self.groups:
            n = len(group)
            out[np.ix_(group, group)] = self.tau * (self.tau - 1) / (n * max(n - 1, 1))
        return out

    def support(self) -> list[tuple[Indices, float]]:
        """Return all sets, or refuse more than a hundred thousand."""
        count = math.prod(math.comb(len(group), self.tau) for group in self.groups)
        if count > _MOST:
            return super().support()
        choices = product(*(combinations(group.tolist(), self.tau) for group in self.groups))
        return [(np.sort(np.concatenate(parts)).astype(np.intp), 1.0 / count) for parts in choices]
