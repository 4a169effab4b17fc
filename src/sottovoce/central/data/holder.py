"""Whoever holds the rows: what a solver knows of them, and how it asks."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np

from sottovoce._numerics import Vector
from sottovoce.central.data.operation import Operation
from sottovoce.central.data.part import Part
from sottovoce.central.data.row_memory import DIVISOR, LABEL, SCALE
from sottovoce.central.data.rows import Rows
from sottovoce.central.data.targets import Given
from sottovoce.central.parallel import Team
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


class LocalHolder(Holder):
    """Rows in this process: one part."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self.n_samples, self.n_features, self.dtype = part.n_samples, part.n_features, part.dtype

    @property
    def constant(self) -> float:  # type: ignore[override]
        """Entry of the intercept's column in a scaled row; 0 when there is none."""
        return self.part.constant

    def ask(self, operation: Operation[T]) -> T:
        return operation.on(self.part)

    def begin(self, streams: Streams, progress: Callable[[int, int], None]) -> None:
        self.part.coins, self.part.progress = streams, progress


class Held(Holder):
    """What is no table of features: scored rows, losses. Its operations know what to do with it."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def ask(self, operation: Operation[T]) -> T:
        return operation.on(self.rows)


def hold(rows: Rows, targets: Sequence[Vector], team: Team) -> LocalHolder:
    """Return a holder of scaled rows in this process, whose labels are the targets themselves (`targets.Given`).

    ``rows``: their scales are copied, since operations change them.
    ``targets``: of shape (n,); one for each model.
    """
    part = Part(rows.raw, team)
    part.targets = Given(len(targets))
    part.constant = rows.constant
    part.memory.set(SCALE, rows.scale.copy())
    part.memory.set(DIVISOR, rows.divisor.copy())
    if targets:
        part.memory.set(LABEL, targets[0] if len(targets) == 1 else np.stack(targets, axis=1))
    return LocalHolder(part)
