"""Rows in one place, with all that belongs to them and stays there: scales, labels, dual variables."""

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from sottovoce.central.data.operation import Holder, Operation
from sottovoce.central.data.row_memory import DIVISOR, LABEL, LENGTH, SCALE, TARGET, WEIGHT, InMemory, RowMemory
from sottovoce.central.data.rows import Matrix, Rows
from sottovoce.central.data.streamed import StreamedTable
from sottovoce.central.kernels.scaled import ScaledRows
from sottovoce.central.parallel import Team
from sottovoce.randomness import Streams

T = TypeVar("T")

_RANGES: Final = {size: [np.array(sign * float(np.finfo(f"f{size}").max)) for sign in (-1, 1)] for size in (4, 8)}
_AT_ONCE: Final = 1 << 16  # rows whose columns are visited at once, where the table is not read


class Part(Holder):
    """Consecutive rows of a table, in memory or on disk, and what is remembered of each.

    A part that is the whole table is its own holder.

    ``raw``: of shape (n, d); untouched.
    ``memory``: None keeps all in memory.
    ``first_row``: place of the first row in the whole table, for messages.
    ``labels``: of each row, as they came: numbers, booleans or texts. None where they are kept elsewhere, or there are
        none.
    """

    def __init__(
        self,
        raw: Matrix,
        team: Team,
        memory: RowMemory | None = None,
        *,
        first_row: int = 0,
        labels: NDArray[Any] | None = None,
    ) -> None:
        self.raw = raw
        self.labels = labels
        self.team = team
        self.first_row = first_row
        self.persons: NDArray[np.int64] | None = None  # where each begins, and their number
        self.is_copy = False  # whether the matrix is the fit's own, and may be written to
        self.constant = 0.0  # entry of the intercept's column; 0 when there is none
        self.targets: Any = None  # the rule that makes what models are trained on from the labels
        self.scores: Any = None  # of the columns, for steps along one of them
        self.coins: Any = None  # the holder's own random streams, for operations that sample or shuffle
        self.progress: Callable[[int, int], None] = lambda done, of: None
        self.n_samples, self.n_features = int(raw.shape[0]), int(raw.shape[1])
        self.memory = InMemory(self.n_samples) if memory is None else memory
        self._is_at_hand = memory is None and not isinstance(raw, StreamedTable)
        self._few: ScaledRows | None = None
        self._few_of: Any = (None,) * 4
        for name in (SCALE, DIVISOR):
            self.memory.fill(name, 1.0)

    def ask(self, operation: Operation[T]) -> T:
        return operation.on(self)

    def begin(self, streams: Streams, progress: Callable[[int, int], None]) -> None:
        self.coins, self.progress = streams, progress

    @property
    def dtype(self) -> np.dtype[Any]:  # type: ignore[override]
        """Precision of the matrix."""
        dtype: np.dtype[Any] = self.raw.dtype
        return dtype

    @property
    def work(self) -> float:
        """Entries touched by one visit."""
        return float(self.raw.nnz if hasattr(self.raw, "nnz") else self.raw.size)

    @property
    def rows(self) -> Rows:
        """All rows at once; not for a table on disk."""
        return Rows(self.raw, self.memory.whole(SCALE), self.memory.whole(DIVISOR), self.constant)

    def blocks(self) -> Generator[tuple[slice, Rows]]:
        """Yield consecutive blocks of all rows, in memory, with their places."""
        if not isinstance(self.raw, StreamedTable):
            yield slice(0, self.n_samples), self.rows
            return
        with closing(self.raw.blocks(self.team.n_threads, self.team.ahead)) as blocks:
            for place, raw in blocks:
                yield place, Rows(raw, self.memory.get(SCALE, place), self.memory.get(DIVISOR, place), self.constant)

    def columns(
        self, reads: Sequence[str] = (), writes: Sequence[str] = ()
    ) -> Generator[tuple[slice, list[NDArray[Any]]]]:
        """Yield consecutive ranges of all rows, with their parts of some columns; the table itself is not read.

        What is written to those of ``writes``, which come last, is kept. There is one range, of no rows, in a part
        without rows.
        """
        for start in range(0, max(1, self.n_samples), _AT_ONCE):
            place = slice(start, min(start + _AT_ONCE, self.n_samples))
            views = {name: self.memory.get(name, place) for name in (*reads, *writes)}
            yield place, list(views.values())
            for name in writes:
                self.memory.put(name, place, views[name])

    def take(self, raw: Matrix, places: NDArray[np.intp] | None, persons: NDArray[np.int64] | None) -> None:
        """Go on with a copy of the rows at some places, in their order, and with what is remembered of these.

        ``places``: None: all rows, as they are.
        ``persons``: where the rows of each person begin among them, and their number.
        """
        before, memory = self.memory, InMemory(int(raw.shape[0]))
        for name in (SCALE, DIVISOR, LENGTH, LABEL, TARGET, WEIGHT):
            if name in before:
                memory.set(name, before.whole(name) if places is None else before.whole(name)[places])
        before.close()
        self.raw, self.memory, self.persons, self.is_copy = raw, memory, persons, True
        self.n_samples = memory.n_rows

    def weights(self, w: NDArray[Any]) -> NDArray[Any]:
        """Return released weights in the precision of the matrix, cut to what it can hold; one entry stands for all."""
        least, most = _RANGES[self.dtype.itemsize]  # arrays, as numpy would make them of numbers at each use
        cut: NDArray[Any] = np.minimum(np.maximum(w, least), most).astype(self.dtype, copy=False)
        n_weights = self.n_weights
        return cut if cut.shape[-1] == n_weights else np.broadcast_to(cut, (*cut.shape[:-1], n_weights)).copy()

    def sweep(self, task: Callable[..., None], reads: Sequence[str] = (), writes: Sequence[str] = ()) -> None:
        """Visit all rows once: call ``task(part, lo, hi, block, *views)`` on ranges lo:hi of one block after another.

        ``part`` < `n_parts` differs between calls that run at once; lo and hi count from the start of the block, as do
        the views of the columns; a task may write to those of ``writes``.
        """
        with closing(self.blocks()) as blocks:
            for place, block in blocks:
                views = [self.memory.get(name, place) for name in (*reads, *writes)]
                self.team.run(_bound(task, block, views), self.team.split(block.n_samples, block.work))
                for name, view in zip(writes, views[len(reads) :], strict=True):
                    self.memory.put(name, place, view)

    @property
    def n_parts(self) -> int:
        """Number of parts that `sweep` counts at most."""
        return len(self.team.split(self.n_samples, self.work))

    @property
    def few(self) -> ScaledRows | None:
        """All rows as a kernel takes them, where they are few; made once, while what they are made of stays."""
        if not self._is_at_hand:
            return None
        raw, scale, divisor, constant = self._few_of
        memory = self.memory
        if not (
            raw is self.raw
            and scale is memory.whole(SCALE)
            and divisor is memory.whole(DIVISOR)
            and constant is self.constant
        ):
            rows = self.rows
            self._few = rows.kernel if self.n_parts == 1 else None
            self._few_of = rows
        return self._few


def _bound(task: Callable[..., None], block: Rows, views: Sequence[NDArray[Any]]) -> Callable[[int, int, int], None]:
    return lambda part, lo, hi: task(part, lo, hi, block, *views)
