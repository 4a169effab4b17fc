"""Scored rows of a table that need not fit into memory: kept where the table keeps what belongs to its rows."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from sottovoce.central.data.row_memory import RowMemory
from sottovoce.evaluation.tables import ScoredRows

__all__ = ["BYTES_A_ROW", "StoredRows"]

BYTES_A_ROW: Final = 5 * 8 + 1  # at most

_AT_ONCE: Final = 1 << 16
_LABELS, _SCORES, _LEFT_OUT, _LOSSES, _SQUARES = "label", "score", "left out", "loss", "square"


class StoredRows:
    """The scored rows of an evaluation, put and taken some at a time.

    ``losses``: whether rows have losses.
    """

    def __init__(self, memory: RowMemory, *, losses: bool) -> None:
        self._memory, self._names = memory, (_LABELS, _SCORES, *((_LOSSES, _SQUARES) if losses else ()))
        for name in self._names:
            memory.new(name)
        memory.new(_LEFT_OUT, dtype=np.bool_)

    def put(self, place: slice, rows: ScoredRows) -> None:
        for name, values in zip(self._names, (rows.labels, rows.scores, *(rows.losses or ())), strict=True):
            self._memory.put(name, place, values)
        self._memory.put(_LEFT_OUT, place, rows.left_out)

    def pieces(self) -> Iterator[ScoredRows]:
        for start in range(0, self._memory.n_rows, _AT_ONCE):
            yield self._at(slice(start, min(start + _AT_ONCE, self._memory.n_rows)))

    def whole(self) -> ScoredRows:
        return self._at(slice(0, self._memory.n_rows))

    def close(self) -> None:
        self._memory.close()

    def _at(self, place: slice) -> ScoredRows:
        labels, scores, *losses = (self._memory.get(name, place) for name in self._names)
        pair = (losses[0], losses[1]) if losses else None
        return ScoredRows(labels, scores, self._memory.get(_LEFT_OUT, place), pair)
