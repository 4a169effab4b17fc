"""Whoever holds the rows: what a solver knows of them, and how it asks."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import numpy as np

from sottovoce.central.data.operation import Operation
from sottovoce.randomness import Streams

T = TypeVar("T")


class Holder(ABC):
    """All rows of a table, wherever they are. What a solver sees of them is their number, and what is released.

    ``n_samples``, ``n_features``: public.
    ``dtype``: precision of the matrix.
    ``constant``: entry of the intercept's column in a scaled row; 0 when there is none.
    ``on_cluster``: whether the rows are in processes of other machines: a receipt says so.
    """

    on_cluster: ClassVar[bool] = False
    n_samples: int
    n_features: int
    dtype: np.dtype[Any]
    constant: float

    @property
    def n_weights(self) -> int:
        return self.n_features + (self.constant > 0.0)

    def status(self) -> str:
        """Return who holds the rows now, in a few words for a progress bar; nothing where it is this process."""
        return ""

    @abstractmethod
    def ask(self, operation: Operation[T]) -> T:
        """Have an operation done on all rows, once; the answer is exact and secret."""

    def release(self, operation: Operation[Any], mechanism: Any, noise: np.random.Generator) -> Any:
        """Have an operation done on all rows, and return its answer with noise: the one way for answers to leave."""
        return mechanism.release(operation.protected(operation.asked_of(self), mechanism), noise)[0]

    def begin(self, streams: Streams, progress: Callable[[int, int], None]) -> None:  # noqa: B027
        """Take what operations need that toss coins of the holder's own, or take long."""


class Held(Holder):
    """What is no table of features: scored rows, losses. Its operations know what to do with it."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def ask(self, operation: Operation[T]) -> T:
        return operation.on(self.rows)
