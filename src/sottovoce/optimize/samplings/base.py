"""What a sampling is: a law over sets of blocks, drawn again and independently in every step."""

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

import numpy as np

from sottovoce._validation import whole_number
from sottovoce.exceptions import ParameterError
from sottovoce.optimize._arrays import Array, Indices

__all__ = ["Sampling", "some_of"]


class Sampling(ABC):
    """A law over sets T of blocks 0, ..., n_blocks - 1.

    Parameters
    ----------
    n_blocks : int, >= 1

    Attributes
    ----------
    name : str
        For tables and messages.
    largest_size : int
        Size of the largest set that can come.
    probabilities : ndarray of shape (n_blocks,)
        P(i in T) for each block i.
    """

    name: str
    largest_size: int
    probabilities: Array

    def __init__(self, n_blocks: int) -> None:
        self.n_blocks = whole_number("n_blocks", n_blocks, at_least=1)

    @abstractmethod
    def draw(self, rng: np.random.Generator) -> Indices:
        """Return one set, sorted."""

    @abstractmethod
    def _pairs(self) -> Array:
        """Return P(i in T and j in T); the diagonal is set by the caller."""

    @cached_property
    def pair_probabilities(self) -> Array:
        """P(i in T and j in T), of shape (n_blocks, n_blocks); the diagonal holds `probabilities`."""
        out = np.array(self._pairs(), dtype=np.float64)
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

    @property
    def is_proper(self) -> bool:
        """True when every block can come."""
        return self.p_min > 0.0

    def support(self) -> list[tuple[Indices, float]]:
        """Return every set that can come, with its probability; refused where there are too many."""
        raise ParameterError(f"the sets of {self.name} are too many to be listed.")

    def __repr__(self) -> str:
        return f"<{self.name}, {self.n_blocks} blocks>"


def some_of(rng: np.random.Generator, n: int, tau: int) -> Any:
    """Return tau different numbers below n, uniformly."""
    if tau == 1:
        return rng.integers(n, size=1)
    return rng.choice(n, tau, replace=False, shuffle=False)
