"""What a solver may ask of all rows: a value with a name, so that whoever holds the rows can do it.

A solver never sees a row. It makes an `Operation`, a frozen value of public numbers and released vectors, and the
`Holder` of the rows has it done wherever the rows are: in this process, block by block from disk, or
in the workers of a cluster. Answers are whole numbers, so what is added up is the same, bit by bit, in whatever order
and on however many machines.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from enum import Enum
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Protocol, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from sottovoce._numerics import Vector
from sottovoce.central.kernels.calls import MOST_TICKS, ScaledRows
from sottovoce.privacy.mechanisms.gaussian import to_ticks
from sottovoce.randomness import Streams

if TYPE_CHECKING:
    from sottovoce.central.data.part import Part

Ticks = NDArray[np.int64]
T = TypeVar("T")


class Effect(Enum):
    """What an operation changes in what is remembered of the rows; who rebuilds lost rows repeats what has one."""

    NONE = "none"  # it only reads
    LASTING = "lasting"  # scales, labels: for all that follows
    FIRST = "first"  # begins a run of steps afresh: the steps before it are forgotten
    STEP = "step"  # moves dual variables: a function of each row, of public numbers and of released values


class Columns(Protocol):
    """What a part and the holder of all rows both say."""

    @property
    def n_weights(self) -> int:
        """Number of weights: features, and one for the intercept."""


class _OneColumn:
    """The table of a replay: answers have the shapes that one weight gives."""

    n_weights = 1


def are_ticks(answer: object, shape: tuple[int, ...], low: int, high: int) -> bool:
    """Return whether this is an array of whole numbers of a shape, each within two bounds."""
    if type(answer) is not np.ndarray or answer.dtype != np.int64 or answer.shape != shape:
        return False
    return bool(np.all((answer >= low) & (answer <= high)))


def is_number(answer: object, most: int) -> bool:
    """Return whether this is a number of at most so many things."""
    return type(answer) is int and 0 <= answer <= most


def are_counts(answer: object, shape: tuple[int, ...], most: int) -> bool:
    """Return whether these are counts of at most so many things together."""
    return are_ticks(answer, shape, 0, most) and int(cast("Ticks", answer).sum()) <= most


class Operation(ABC, Generic[T]):
    """One visit to all rows. Subclasses are frozen dataclasses of plain values, which can be sent as they are.

    What comes back is exact and secret: `Holder.release` and `RowSum.descend` alone let it out, with noise.
    """

    effect: ClassVar[Effect] = Effect.NONE
    # Probability with which each row is visited, where it is not all of them: a Poisson sample that nobody sees.
    sampling_rate: float | None = None
    # Whether the release before it was about other rows, of a partition of them, so that both cost as much as one.
    continues: bool = False

    @abstractmethod
    def on(self, part: "Part") -> T:
        """Do it on the rows of one part; errors are those of the data."""

    @abstractmethod
    def allows(self, answer: object, n_rows: int, columns: Columns) -> bool:
        """Return whether so many rows can have this answer, whatever they are.

        It follows from public numbers alone. The answer of `on` is always allowed, so whoever gives another one has not
        done the operation.
        """

    @property
    def entry(self) -> float | None:
        """Entry of the intercept's column in a scaled row from now on; None where it stays what it was."""
        return None

    @property
    def columns_after(self) -> int | None:
        """Number of columns from now on; None where it stays what it was."""
        return None

    def about(self, first: int, stop: int) -> "Operation[T]":
        """Return the operation as those need it who have the rows from ``first`` up to ``stop`` alone."""
        return self

    def merged(self, answers: Sequence[T]) -> T:
        """Return the answer about all rows from those of the parts, in their order: the sum of whole numbers."""
        return reduce(add, answers)

    def protected(self, exact: T, mechanism: Any) -> Any:
        """Return the exact answer as its mechanism takes it: a function of the answer and of public numbers."""
        return exact

    def blank(self) -> Any:
        """Return what a noisy answer about a table of one column of zeros looks like, for a replay."""
        return np.zeros(1)


class AtHome(Operation[T]):
    """An operation on rows in this process: no worker is ever asked, and one that answers lies."""

    def allows(self, answer: object, n_rows: int, columns: Columns) -> bool:
        return False


class Change(Operation[None]):
    """An operation that only changes what is remembered of the rows."""

    def merged(self, answers: Sequence[None]) -> None:
        """Return nothing."""

    def allows(self, answer: object, n_rows: int, columns: Columns) -> bool:
        return answer is None


class Counted(Operation[Ticks]):
    """Counts of rows."""

    def protected(self, exact: Ticks, mechanism: Any) -> Ticks:
        """Return whole ticks: those of a mechanism with much noise are larger than 1."""
        return to_ticks(exact.astype(np.float64), mechanism.tick)


class Count(Counted):
    """Counts over what is remembered of the rows; the table itself is not read."""

    # What there is for each row that `counts` takes, by name.
    reads: ClassVar[tuple[str, ...]] = ()
    # How many counts there are, and in how many of them a row is at most.
    size: ClassVar[int] = 1
    times: ClassVar[int] = 1

    @abstractmethod
    def counts(self, part: "Part", views: Sequence[NDArray[Any]]) -> Ticks:
        """Return the counts of some rows of a part, whose columns the views are."""

    def on(self, part: "Part") -> Ticks:
        total: Any = 0
        for _, views in part.columns(self.reads):
            total = total + self.counts(part, views)
        return cast("Ticks", total)

    def allows(self, answer: object, n_rows: int, columns: Columns) -> bool:
        """Allow counts of the rows, each so many times at most."""
        return are_counts(answer, (self.size,), n_rows * self.times)

    def blank(self) -> Any:
        return np.zeros(self.size)


class StepRule(NamedTuple):
    """A rule of public numbers by which points follow from noisy sums, each asked at the point before.

    u <- kept u + moved (sum / divisor - back w), then w <- (w + far u) / over, so many times; the mean of the last
    points stays.
    """

    divisor: float
    kept: float
    moved: float
    back: float
    far: float
    over: float
    n_steps: int
    n_last: int


class RowSum(Operation[Ticks]):
    """A sum over rows, each a term in whole ticks: kernels cut each entry of it to `MOST_TICKS`."""

    # What there is for each row that `add` takes, by name: what it only reads, then what it writes to.
    reads: ClassVar[tuple[str, ...]] = ()
    writes: ClassVar[tuple[str, ...]] = ()
    # Where the entries are counts: what a row adds to all of them together.
    counted: ClassVar[int] = 0

    def shape(self, columns: Columns) -> tuple[int, ...]:
        return (columns.n_weights,)

    @abstractmethod
    def add(self, rows: ScaledRows, views: Sequence[NDArray[Any]], lo: int, hi: int, total: Ticks) -> None:
        """Add the terms of a range of rows to ``total``; ``views`` are the columns of the block of ``rows``."""

    def on(self, part: "Part") -> Ticks:
        """Add up all rows of a part; exact, whatever blocks and ranges are."""
        done, shape, reads, writes = self.within(part), self.shape(part), self.reads_of(part), self.writes
        if (few := part.few) is not None:  # takes less than the way there
            total: Ticks = np.zeros(shape, np.int64)
            done.add(few, [part.memory.whole(name) for name in (*reads, *writes)], 0, part.n_samples, total)
            return total
        parts = np.zeros((part.n_parts, *shape), np.int64)
        part.sweep(lambda n, lo, hi, block, *views: done.add(block.kernel, views, lo, hi, parts[n]), reads, writes)
        return np.asarray(parts.sum(axis=0))

    def reads_of(self, part: "Part") -> tuple[str, ...]:
        """Return what `add` takes of the rows of a part: `reads`, or more where there is more of them."""
        return self.reads

    def within(self, part: "Part") -> Self:
        """Return the operation as it is done on a part: released weights in the precision of its matrix."""
        w = getattr(self, "w", None)
        return self if w is None else self.at(part.weights(w))

    def at(self, w: NDArray[Any]) -> Self:
        """Return the same sum at other released weights."""
        other = object.__new__(type(self))  # `dataclasses.replace` takes longer than a small table
        vars(other).update(vars(self), w=w)
        return other

    def descend(
        self, holder: "Holder", mechanism: Any, rule: StepRule, noise: np.random.Generator,
        progress: Callable[[int, int], None],
    ) -> Vector:  # fmt: skip
        """Release the sum at its weights, and at each point that follows; return the mean of the last points."""
        point: Any = getattr(self, "w")  # noqa: B009 - of those that have one
        along, added = np.zeros(()), np.zeros(())
        divisor, kept, moved, back, far, over = map(np.array, rule[:6])  # arrays, as numpy would make them at each use
        for step in range(rule.n_steps):
            noisy = holder.release(self.at(point), mechanism, noise)
            if noisy.ndim > 1:  # the exact sums over classes are 0: what theirs are is noise
                noisy = noisy - np.add.reduce(noisy) / len(noisy)
            along = kept * along + moved * (noisy / divisor - back * point)
            point = (point + far * along) / over
            if step >= rule.n_steps - rule.n_last:
                added = added + point
            progress(step + 1, rule.n_steps)
        return np.asarray(added / rule.n_last)

    def blank(self) -> Any:
        return np.zeros(self.shape(_OneColumn()))

    def allows(self, answer: object, n_rows: int, columns: Columns) -> bool:
        """Allow what rows can add up to: with 2^37 rows in all, no sum of such answers is beyond 2^61."""
        if self.counted:
            return are_counts(answer, self.shape(columns), n_rows * self.counted)
        most = n_rows * MOST_TICKS
        return are_ticks(answer, self.shape(columns), -most, most)


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
        """Have an operation done on all rows, and return its answer with noise: so answers leave."""
        return mechanism.release(operation.protected(self.ask(operation), mechanism), noise)[0]

    def begin(self, streams: Streams, progress: Callable[[int, int], None]) -> None:  # noqa: B027
        """Take what operations need that toss coins of the holder's own, or take long."""


class Held(Holder):
    """What is no table of features: scored rows, losses. Its operations know what to do with it."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def ask(self, operation: Operation[T]) -> T:
        return operation.on(self.rows)
