"""What whoever asks brings to the rows: weights, which rows persons have used, steps before a model.

Rows that are used in an order of one's own have to be at hand, which those on disk are not as they come. They are
copied once to scratch disk and mapped into memory: the system keeps of them what it has room for. The files are private
and have no name, so that nothing is left however the process ends.
"""

from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sottovoce.central.data.operation import Change, Effect
from sottovoce.central.data.part import Part, is_large_map
from sottovoce.central.data.scratch import check_room, mapped
from sottovoce.central.data.streamed import SteppedTable, StreamedTable, rows_after

_PIECE_BYTES: Final = 1 << 24  # of a map that are copied at once

Places = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Remember(Change):
    """Keeps a number of each row as a column."""

    name: str
    values: NDArray[Any]  # of consecutive rows of the whole table
    first_row: int = 0  # place of the first of them

    effect = Effect.LASTING

    def on(self, part: Part) -> None:
        start = part.first_row - self.first_row
        part.memory.set(self.name, self.values[start : start + part.n_samples])

    def about(self, first: int, stop: int) -> "Remember":
        return replace(self, values=self.values[first - self.first_row : stop - self.first_row], first_row=first)


@dataclass(frozen=True, eq=False)
class UseRows(Change):
    """Leaves out all rows but some, and has these at hand, in an order."""

    places: NDArray[np.intp] | None  # in the whole table, those of a part in their order; None: all rows, as they are
    persons: NDArray[np.int64] | None = None  # where each person begins among them; for a table of one part

    effect = Effect.LASTING

    def on(self, part: Part) -> None:
        own = self.about(part.first_row, part.first_row + part.n_samples).places
        places = None if own is None else own - part.first_row
        raw = at_hand(part.raw, places)
        if raw is not part.raw:
            part.take(raw, places, self.persons)

    def about(self, first: int, stop: int) -> "UseRows":
        if self.places is None:
            return self
        return replace(self, places=self.places[(self.places >= first) & (self.places < stop)])


@dataclass(frozen=True, eq=False)
class StepRows(Change):
    """Has rows go through a step that treats each by itself; those on disk each time that they are read."""

    step: Callable[[Any], Any]
    n_features: int  # from now on

    effect = Effect.LASTING

    @property
    def columns_after(self) -> int:
        return self.n_features

    def on(self, part: Part) -> None:
        raw = part.raw
        part.raw = SteppedTable(raw, self.step) if isinstance(raw, StreamedTable) else rows_after(self.step, raw)
        part.n_features = self.n_features


def check_room_at_hand(table: Any, n_rows: int, n_features: int) -> None:
    """Refuse, from public sizes, a table for whose rows the scratch disk has no room."""
    within = isinstance(table, SteppedTable)  # a pipeline, which has asked before its charge
    if isinstance(table, StreamedTable) and not (table.has_sparse_rows or within):
        check_room(n_rows * n_features * table.dtype.itemsize, table.scratch, "a copy of the rows")


def at_hand(raw: Any, places: Places | None) -> Any:
    """Return the rows at some places, in their order, as a matrix of which any row can be taken.

    Those of a table on disk or of a large map are on scratch disk; its room is taken for all rows, whichever are used.

    ``places``: no place twice; None: all rows, as they are.
    """
    if not isinstance(raw, StreamedTable) and (places is None or not is_large_map(raw)):
        return raw if places is None else raw[places]
    n_rows, width = raw.shape
    ranks = np.arange(n_rows)
    if places is not None:
        ranks[:] = -1
        ranks[places] = np.arange(len(places))
    folder = getattr(raw, "scratch", None)
    if getattr(raw, "has_sparse_rows", False):
        return _sparse(raw, ranks, places, folder)
    rows = mapped((n_rows, width), raw.dtype, folder)
    with closing(_blocks(raw)) as blocks:
        for place, block in blocks:
            used = ranks[place] >= 0
            rows[ranks[place][used]] = block if used.all() else block[used]
    return rows if places is None else rows[: len(places)]


def _sparse(raw: Any, ranks: Places, places: Places | None, folder: Any) -> Any:
    counts = np.empty(len(ranks), np.int64)
    with closing(_blocks(raw)) as blocks:
        for place, block in blocks:
            counts[place] = np.diff(block.indptr)
    n_entries = int(counts.sum())
    kind = np.int32 if max(n_entries, raw.shape[1]) < 2**31 else np.int64
    used = counts if places is None else counts[places]
    starts = np.concatenate([[0], np.cumsum(used)]).astype(kind)
    data, indices = mapped((n_entries,), raw.dtype, folder), mapped((n_entries,), kind, folder)
    with closing(_blocks(raw)) as blocks:
        for place, block in blocks:
            own = ranks[place]
            block = block[own >= 0]
            begin = starts[own[own >= 0]].astype(np.int64) - block.indptr[:-1]
            into = np.repeat(begin, np.diff(block.indptr)) + np.arange(block.nnz)
            data[into], indices[into] = block.data, block.indices
    entries: Any = (data[: starts[-1]], indices[: starts[-1]], starts)
    return sp.csr_array(entries, shape=(len(used), raw.shape[1]), copy=False)


def _blocks(raw: Any) -> Generator[tuple[slice, Any]]:
    if isinstance(raw, StreamedTable):
        yield from raw.blocks()
        return
    step = max(1, _PIECE_BYTES // (raw.shape[1] * raw.itemsize))
    for lo in range(0, len(raw), step):
        yield slice(lo, min(lo + step, len(raw))), raw[lo : lo + step]
