"""Samplings: laws over sets of blocks, drawn again and independently in every step."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import cached_property
from itertools import combinations, product
from typing import Any, Final, Self

import numpy as np

from sottovoce._validation import number, whole_number
from sottovoce.exceptions import ParameterError
from sottovoce.papers.frank_wolfe._arrays import Array, Indices, vector, whole_numbers

__all__ = [
    "DistributedSampling",
    "ElementarySampling",
    "ExplicitSampling",
    "ImportanceSampling",
    "IndependentSampling",
    "NiceSampling",
    "Sampling",
    "UniformSerialSampling",
]

_MOST: Final = 100_000  # sets that are listed
_FEW: Final = 64  # blocks for each that is drawn: below, a random key for every block is faster than draws by group
_ROUNDING: Final = 1e-9


class Sampling(ABC):
    """A law over sets T of blocks 0, ..., n_blocks - 1, in which every block can come.

    Attributes
    ----------
    name : str
        For tables and messages.
    n_blocks : int
    probabilities : ndarray of shape (n_blocks,)
        P(i in T) for each block i.
    """

    name: str
    n_blocks: int
    probabilities: Array

    @abstractmethod
    def draw(self, rng: np.random.Generator) -> Indices:
        """Return one set, sorted."""

    @abstractmethod
    def _pairs(self) -> Array:
        """Return P(i in T and j in T); the diagonal is set by the caller."""

    @abstractmethod
    def support(self) -> list[tuple[Indices, float]]:
        """Return every set that can come, with its probability; refused where there are too many."""

    @cached_property
    def pair_probabilities(self) -> Array:
        """P(i in T and j in T), of shape (n_blocks, n_blocks); the diagonal holds `probabilities`."""
        out = self._pairs()
        np.fill_diagonal(out, self.probabilities)
        return out

    @cached_property
    def p_min(self) -> float:
        """Least probability of a block."""
        return float(self.probabilities.min())

    @cached_property
    def expected_size(self) -> float:
        """E|T|, the sum of the probabilities."""
        return float(self.probabilities.sum())

    def _check_few(self, sets: int) -> None:
        if sets > _MOST:
            raise ParameterError(f"the sets of {self.name} are too many to be listed.")

    def __repr__(self) -> str:
        return f"<{self.name}, {self.n_blocks} blocks>"


def some_of(rng: np.random.Generator, n: int, tau: int) -> Any:
    """Return tau different numbers below n, uniformly."""
    if tau == 1:
        return rng.integers(n, size=1)
    return rng.choice(n, tau, replace=False, shuffle=False)


class DistributedSampling(Sampling):
    """Each of K groups of blocks takes ``tau`` of its own, uniformly and independently of the others.

    Block i of a group of d_k blocks comes with probability tau / d_k: K tau / d for equal groups (Table 1 of the paper
    prints the square of that).

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
        self.n_blocks = sum(map(len, listed))
        self.groups: list[Indices] = [
            whole_numbers(f"groups[{k}]", group, below=self.n_blocks) for k, group in enumerate(listed)
        ]
        if not listed or not all(listed) or len(np.unique(np.concatenate(self.groups))) != self.n_blocks:
            raise ParameterError(
                "groups must hold every block 0, 1, ... exactly once, and no group may be empty; "
                f"got sizes {[len(group) for group in listed]}."
            )
        smallest, largest = min(map(len, self.groups)), max(map(len, self.groups))
        self.tau = whole_number("tau", tau, at_least=1, at_most=smallest, remedy="The smallest group sets the limit.")
        few = self.n_blocks <= _FEW * len(self.groups) * self.tau
        self._table = np.array(self.groups) if smallest == largest and few else None
        self.name = f"({len(self.groups)}, {self.tau})-distributed"
        self.probabilities = np.empty(self.n_blocks)
        for group in self.groups:
            self.probabilities[group] = self.tau / len(group)

    @classmethod
    def even(cls, n_blocks: int, n_groups: int, tau: int) -> "DistributedSampling":
        """Return groups of neighbouring blocks, of sizes that differ by at most one."""
        n = whole_number("n_blocks", n_blocks, at_least=1)
        k = whole_number("n_groups", n_groups, at_least=1, at_most=n)
        return DistributedSampling(np.array_split(np.arange(n), k), tau)

    def draw(self, rng: np.random.Generator) -> Indices:
        if self._table is not None:
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
        count = math.prod(math.comb(len(group), self.tau) for group in self.groups)
        self._check_few(count)
        choices = product(*(combinations(group.tolist(), self.tau) for group in self.groups))
        return [(np.sort(np.concatenate(parts)).astype(np.intp), 1.0 / count) for parts in choices]


class NiceSampling(DistributedSampling):
    """Every set of ``tau`` blocks with the same probability: one group.

    Parameters
    ----------
    n_blocks : int
    tau : int, from 1 to n_blocks
    """

    def __init__(self, n_blocks: int, tau: int) -> None:
        super().__init__([range(whole_number("n_blocks", n_blocks, at_least=1))], tau)
        self.name = f"{self.tau}-nice"

    def draw(self, rng: np.random.Generator) -> Indices:
        return np.sort(some_of(rng, self.n_blocks, self.tau))


class UniformSerialSampling(NiceSampling):
    """One block, all with the same probability.

    Parameters
    ----------
    n_blocks : int
    """

    def __init__(self, n_blocks: int) -> None:
        super().__init__(n_blocks, 1)
        self.name = "uniform serial"


class ElementarySampling(NiceSampling):
    """All blocks in every step: classical Frank-Wolfe.

    Parameters
    ----------
    n_blocks : int
    """

    def __init__(self, n_blocks: int) -> None:
        super().__init__(n_blocks, n_blocks)
        self.name = "elementary"

    def draw(self, rng: np.random.Generator) -> Indices:
        return np.arange(self.n_blocks)


class IndependentSampling(Sampling):
    """Block i comes with its own probability p_i, independently of the others; sets may be empty.

    Parameters
    ----------
    probabilities : array-like of shape (n_blocks,), in (0, 1]
    """

    def __init__(self, probabilities: object) -> None:
        self.probabilities = vector("probabilities", probabilities)
        possible = (self.probabilities > 0.0) & (self.probabilities <= 1.0)
        if not possible.all():
            raise ParameterError(
                f"probabilities must be in (0, 1]; got {self.probabilities[~possible]!r} for the blocks "
                f"{np.flatnonzero(~possible).tolist()}. A block that never comes never moves: leave it out."
            )
        self.name = "independent"
        self.n_blocks = len(self.probabilities)

    def draw(self, rng: np.random.Generator) -> Indices:
        return np.flatnonzero(rng.random(self.n_blocks) < self.probabilities)

    def _pairs(self) -> Array:
        return np.outer(self.probabilities, self.probabilities)

    def support(self) -> list[tuple[Indices, float]]:
        self._check_few(2**self.n_blocks)
        every = product((False, True), repeat=self.n_blocks)
        chances = ((coins, np.where(coins, self.probabilities, 1.0 - self.probabilities).prod()) for coins in every)
        return [(np.flatnonzero(coins), float(chance)) for coins, chance in chances if chance > 0.0]


class ExplicitSampling(Sampling):
    """Set number r of a list comes with the probability number r.

    Parameters
    ----------
    n_blocks : int
    sets : iterable of iterables of int
        May hold the empty set; every block must be in a set of positive probability.
    probabilities : array-like of shape (number of sets,), >= 0, of sum 1

    Examples
    --------
    >>> sampling = ExplicitSampling(3, [[0], [1, 2], [0, 1, 2]], [0.5, 0.25, 0.25])
    >>> sampling.probabilities, sampling.expected_size
    (array([0.75, 0.5 , 0.5 ]), 1.75)
    """

    def __init__(self, n_blocks: int, sets: Iterable[Iterable[int]], probabilities: object) -> None:
        self.n_blocks = whole_number("n_blocks", n_blocks, at_least=1)
        try:
            listed = [list(chosen) for chosen in sets]
        except TypeError:
            raise ParameterError(f"sets must be a list of lists of blocks; got {sets!r}.") from None
        self.sets: list[Indices] = [
            whole_numbers(f"sets[{r}]", chosen, below=self.n_blocks) for r, chosen in enumerate(listed)
        ]
        self._chances = vector("probabilities", probabilities, size=len(listed))
        total = math.fsum(self._chances)
        if not (self._chances >= 0.0).all() or not abs(total - 1.0) <= _ROUNDING:
            raise ParameterError(f"probabilities must be >= 0 and add up to 1; they add up to {total!r}.")
        self._inside = np.zeros((len(listed), self.n_blocks))
        for r, chosen in enumerate(self.sets):
            self._inside[r, chosen] = 1.0
        self.name = "explicit"
        self.probabilities = self._chances @ self._inside
        if not self.p_min > 0.0:
            never = np.flatnonzero(self.probabilities <= 0.0).tolist()
            raise ParameterError(
                f"blocks {never} are in no set of positive probability: they would never move. Leave them out of the "
                "problem instead."
            )
        self._edges = np.cumsum(self._chances)
        self._edges[self._edges >= self._edges[-1]] = 1.0  # no draw falls behind the last set that can come

    def draw(self, rng: np.random.Generator) -> Indices:
        return self.sets[int(np.searchsorted(self._edges, rng.random(), side="right"))]

    def _pairs(self) -> Array:
        out: Array = (self._inside.T * self._chances) @ self._inside
        return out

    def support(self) -> list[tuple[Indices, float]]:
        return [(s, float(c)) for s, c in zip(self.sets, self._chances, strict=True) if c > 0.0]


class ImportanceSampling(ExplicitSampling):
    r"""Block i alone, with its own probability p_i.

    Take ``step="balanced"`` or ``"line-search"`` with it. Under the universal step, one size for all blocks, no serial
    sampling has a better bound than the uniform one (``docs/papers/frank_wolfe.md``, "Derivations").

    Parameters
    ----------
    probabilities : array-like of shape (n_blocks,), > 0, of sum 1

    Examples
    --------
    >>> sampling = ImportanceSampling.from_curvatures([9.0, 1.0, 1.0], mix=0.0)
    >>> sampling.probabilities
    array([0.6, 0.2, 0.2])
    """

    def __init__(self, probabilities: object) -> None:
        p = vector("probabilities", probabilities)
        super().__init__(len(p), ([i] for i in range(len(p))), p)
        self.name = "importance"

    @classmethod
    def from_curvatures(cls, curvatures: object, *, mix: float = 0.5) -> Self:
        r"""Draw blocks with the probabilities for which `serial_bound` falls fastest.

        :math:`p_i = (1 - mix) \sqrt{C_i} / \sum_j \sqrt{C_j} + mix / n`.

        Parameters
        ----------
        curvatures : array-like of shape (n_blocks,), >= 0, not all 0
            C_i of each block, such as `block_curvatures`, or upper bounds.
        mix : float, in [0, 1]
            The share that is drawn uniformly. It keeps blocks of little curvature from being rare. The constant of the
            bound is at most 1 / (1 - mix) times the least one, and 1 / mix times that of the uniform law. Positive
            where a curvature is 0.
        """
        C = vector("curvatures", curvatures)
        mix = number("mix", mix, at_least=0.0, at_most=1.0)
        if not (C >= 0.0).all() or not (C > 0.0).any():
            raise ParameterError(f"curvatures must be >= 0, and one of them > 0; got {C!r}.")
        if mix == 0.0 and not (C > 0.0).all():
            raise ParameterError("mix=0 would never draw blocks of curvature 0; give mix > 0.")
        roots = np.sqrt(C / C.max())
        return cls((1.0 - mix) * roots / roots.sum() + mix / len(C))
