"""What a solver may ask of all rows: a value with a name, so that whoever holds the rows can do it.

A solver never sees a row. It makes an `Operation`, a frozen value of public numbers and released vectors, and its
`sottovoce.central.data.holder.Holder` has it done wherever the rows are: in this process, block by block from disk, or
in the workers of a cluster. Answers are whole numbers, so what is added up is the same, bit by bit, in whatever order
and on however many machines.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from sottovoce.central.kernels.scaled import ScaledRows

if TYPE_CHECKING:
    from sottovoce.central.data.part import Part

__all__ = ["Change", "Count", "Effect", "Operation", "RowSum", "Ticks"]

Ticks = NDArray[np.int64]
T = TypeVar("T")


class Effect(Enum):
    """What an operation changes in what is remembered of the rows; who rebuilds lost rows repeats what has one."""

    NONE = "none"  # it only reads
    LASTING = "lasting"  # scales, labels: for all that follows
    FIRST = "first"  # begins a run of steps afresh: the steps before it are forgotten
    STEP = "step"  # moves dual variables: a function of each row, of public numbers and of released values


class Operation(ABC, Generic[T]):
    """One visit to all rows. Subclasses are frozen dataclasses of plain values, which can be sent as they are.

    What comes back is exact and secret: it leaves the holder's side through `Holder.release` alone, which adds noise.
    """

    effect: ClassVar[Effect] = Effect.NONE

    @abstractmethod
    def on(self, part: "Part") -> T:
        """Do it on the rows of one part; errors are those of the data."""

    def merged(self, answers: Sequence[T]) -> T:
        """Return the answer about all rows from those of the parts, in their order: the sum of whole numbers."""
        total: Any = answers[0]
        for answer in answers[1:]:
            total = total + answer
        return cast("T", total)


class Change(Operation[None]):
    """An operation that only changes what is remembered of the rows."""

    def merged(self, answers: Sequence[None]) -> None:
        """Return nothing."""


class Count(Operation[Ticks]):
    """Counts over what is remembered of the rows; the table itself is not read."""

    # What there is for each row that `counts` takes, by name.
    reads: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def counts(self, part: "Part", views: Sequence[NDArray[Any]]) -> Ticks:
        """Return the counts of some rows of a part, whose columns the views are."""

    def on(self, part: "Part") -> Ticks:
        """Add up all rows of a part."""
        total: Any = 0
        for _, views in part.columns(self.reads):
            total = total + self.counts(part, views)
        return cast("Ticks", total)


class RowSum(Operation[Ticks]):
    """A sum over rows, each a term in whole ticks."""

    # What there is for each row that `add` takes, by name: what it only reads, then what it writes to.
    reads: ClassVar[tuple[str, ...]] = ()
    writes: ClassVar[tuple[str, ...]] = ()

    def shape(self, part: "Part") -> tuple[int, ...]:
        """Return the shape of the sum."""
        return (part.n_weights,)

    @abstractmethod
    def add(self, rows: ScaledRows, views: Sequence[NDArray[Any]], lo: int, hi: int, total: Ticks) -> None:
        """Add the terms of a range of rows to ``total``; ``views`` are the columns of the block of ``rows``."""

    def on(self, part: "Part") -> Ticks:
        """Add up all rows of a part; exact, whatever blocks and ranges are."""
        return part.total(self.add, self.shape(part), reads=self.reads, writes=self.writes)
