"""Samplings: laws over sets of blocks, drawn again and independently in every step."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import cached_property
from itertools import combinations, product
from typing import Final, Self

import numpy as np

from sottovoce._validation import number, whole_number
from sottovoce.exceptions import ParameterError
from sottovoce.papers.frank_wolfe._arrays import Array, Indices, vector

_MOST: Final = 100_000  # sets that are listed
_ROUNDING: Final = 1e-9


class Sampling(ABC):
    """A law over sets T of blocks 0, ..., n_blocks - 1, in which every block can come."""

    name: str  # for tables and messages
    n_blocks: int
    probabilities: Array  # P(i in T) for each block i

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


class DistributedSampling(Sampling):
    """Each of K groups of blocks takes ``tau`` of its own, uniformly and independently of the others.

    Block i of a group of d_k blocks comes with probability tau / d_k: K tau / d for equal groups (Table 1 of the paper
    prints the square of that).

    Parameters
    ----------
    n_blocks, n_groups : int
        Groups are runs of neighbouring blocks, of sizes that differ by at most one.
    tau : int, from 1 to the size of the smallest group
    """

    def __init__(self, n_blocks: int, n_groups: int, tau: int) -> None:
        self.n_blocks = whole_number("n_blocks", n_blocks, at_least=1)
        K = whole_number("n_groups", n_groups, at_least=1, at_most=self.n_blocks)
        smallest, remedy = self.n_blocks // K, "The smallest group sets the limit."
        self.tau = whole_number("tau", tau, at_least=1, at_most=smallest, remedy=remedy)
        self.groups: list[Indices] = np.array_split(np.arange(self.n_blocks), K)
        self.name = f"({K}, {self.tau})-distributed"
        self.probabilities = np.concatenate([np.full(len(group), self.tau / len(group)) for group in self.groups])

    def draw(self, rng: np.random.Generator) -> Indices:
        if len(self.groups) > 1 and self.n_blocks % len(self.groups) == 0:  # equal groups at once
            keys = rng.random((len(self.groups), len(self.groups[0])))
            places = keys.argpartition(self.tau - 1, axis=1)[:, : self.tau]
            return np.sort(np.take_along_axis(np.array(self.groups), places, axis=1), axis=None)
        return np.sort(np.concatenate([group[self._some_of(rng, len(group))] for group in self.groups]))

    def _some_of(self, rng: np.random.Generator, n: int) -> Indices:
        """Return tau different numbers below n, uniformly."""
        return rng.integers(n, size=1) if self.tau == 1 else rng.choice(n, self.tau, replace=False, shuffle=False)

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
        return [(np.concatenate(parts).astype(np.intp), 1.0 / count) for parts in choices]


class NiceSampling(DistributedSampling):
    """Every set of ``tau`` blocks, from 1 to n_blocks, with the same probability: one group."""

    def __init__(self, n_blocks: int, tau: int) -> None:
        super().__init__(n_blocks, 1, tau)
        self.name = f"{self.tau}-nice"


class UniformSerialSampling(NiceSampling):
    """One block, all with the same probability."""

    def __init__(self, n_blocks: int) -> None:
        super().__init__(n_blocks, 1)
        self.name = "uniform serial"


class ElementarySampling(NiceSampling):
    """All blocks in every step: classical Frank-Wolfe."""

    def __init__(self, n_blocks: int) -> None:
        super().__init__(n_blocks, n_blocks)
        self.name = "elementary"


class IndependentSampling(Sampling):
    """Block i comes with its own probability p_i in (0, 1], independently of the others; sets may be empty."""

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
    """

    def __init__(self, n_blocks: int, sets: Iterable[Iterable[int]], probabilities: object) -> None:
        self.n_blocks = whole_number("n_blocks", n_blocks, at_least=1)
        self.name = "explicit"
        try:
            listed = [list(chosen) for chosen in sets]
        except TypeError:
            raise ParameterError(f"sets must be a list of lists of blocks; got {sets!r}.") from None
        for r, chosen in enumerate(listed):
            for block in chosen:
                whole_number(f"sets[{r}]", block, at_least=0, at_most=self.n_blocks - 1)
            if len(set(chosen)) < len(chosen):
                raise ParameterError(f"sets[{r}] names a block twice; got {chosen!r}. List each block once.")
        self.sets: list[Indices] = [np.array(sorted(chosen), dtype=np.intp) for chosen in listed]
        self._chances = vector("probabilities", probabilities, size=len(self.sets))
        total = math.fsum(self._chances)
        if not (self._chances >= 0.0).all() or not abs(total - 1.0) <= _ROUNDING:
            raise ParameterError(f"probabilities must be >= 0 and add up to 1; they add up to {total!r}.")
        self._inside = np.zeros((len(self.sets), self.n_blocks))
        for r, blocks in enumerate(self.sets):
            self._inside[r, blocks] = 1.0
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
        return np.asarray((self._inside.T * self._chances) @ self._inside)

    def support(self) -> list[tuple[Indices, float]]:
        return [(s, float(c)) for s, c in zip(self.sets, self._chances, strict=True) if c > 0.0]


class ImportanceSampling(ExplicitSampling):
    r"""Block i alone, with its own probability p_i > 0, of sum 1; see `from_curvatures`.

    Take ``step="balanced"`` or ``"line-search"`` with it. Under the universal step, one size for all blocks, no serial
    sampling has a better bound than the uniform one (``docs/papers/frank_wolfe.md``, "Derivations").
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
