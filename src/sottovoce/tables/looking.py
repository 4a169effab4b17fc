"""What a draft asks of a column: its distinct texts with their counts, and what they are as numbers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from sottovoce._optional import pa
from sottovoce.tables.notation import NumberNotation, date_formats_of, number_notations_of
from sottovoce.tables.reading import BatchedTable
from sottovoce.tables.table import Cells, Table

__all__ = ["Look", "Numbers", "first_rows"]

MOST_ROWS: Final = 1_000_000
_MOST_CELLS: Final = 20_000_000
_FEWEST_ROWS: Final = 10_000  # however many columns there are


def first_rows(table: Table | BatchedTable) -> tuple[Table, bool]:
    """Return as many first rows as a draft looks at, and whether these are all; the rest is not read."""
    most = max(_FEWEST_ROWS, min(MOST_ROWS, _MOST_CELLS // max(1, len(table.column_names))))
    parts, n_rows = [], 0
    for part in [table] if isinstance(table, Table) else table:
        parts.append(part.data)
        n_rows += part.n_rows
        if n_rows > most:
            break
    if not parts:
        return table if isinstance(table, Table) else table.header, True
    return Table(pa.concat_tables(parts).slice(0, most), part.source, part.line), n_rows <= most


class Look:
    """The distinct texts of a column.

    ``markers``: texts that may stand for a missing value.
    ``counts``: how often each text that is no marker occurs.
    ``markers``: the markers that occur.
    ``n_present``: rows with a value.
    ``numbers``: what the texts are as numbers; None if one is no number, or none is finite.
    ``notation``: how these are written, if not with a decimal point alone.
    """

    def __init__(self, cells: Cells, markers: Collection[str]) -> None:
        texts, places = cells.spelled()
        sizes = np.bincount(places, minlength=len(texts)).tolist()
        counts = {text: size for text, size in zip(texts, sizes, strict=True) if text is not None}
        self.name = cells.name
        self.markers = counts.keys() & set(markers)
        for marker in self.markers:
            del counts[marker]
        self.counts: dict[str, int] = counts
        self.n_present: int = sum(self.counts.values())
        self.notation: NumberNotation | None = None
        self.is_ambiguous = False
        self.numbers = Numbers.of(self.counts) or self._otherwise_written()

    def _otherwise_written(self) -> Numbers | None:
        """Return the numbers of texts that are written with other marks, which are kept."""
        ways = number_notations_of(self.counts) if self.counts else []
        if not ways:
            return None
        self.notation = ways[0]
        column = pa.array(list(self.counts), pa.string())
        plain, *others = (way.plain(column).to_pylist() for way in ways)
        self.is_ambiguous = any(other != plain for other in others)  # 1,234 is one number, or another
        return Numbers(np.array(plain, dtype=np.float64), np.array(list(self.counts.values()), dtype=np.int64))

    @property
    def date_formats(self) -> list[str | None]:
        """The formats by which all texts are dates."""
        return list(date_formats_of(self.counts)) if self.counts else []

    @property
    def repeats(self) -> bool:
        return self.n_present > len(self.counts)


class Numbers:
    """What the numbers of a column have in common: ``values``, of which each text is one, stand in so many rows."""

    def __init__(self, values: npt.NDArray[np.float64], counts: npt.NDArray[np.int64]) -> None:
        finite = np.isfinite(values)
        self._rows = np.repeat(values[finite], counts[finite])
        self._has_infinite = not finite.all()
        self.n_distinct = int(finite.sum())
        self.low, self.high = float(self._rows.min()), float(self._rows.max())
        self.whole = bool(np.all(self._rows == np.round(self._rows)))

    @classmethod
    def of(cls, counts: Mapping[str, int]) -> Numbers | None:
        try:
            values = np.array([float(text) for text in counts])
        except ValueError:
            return None
        if not np.isfinite(values).any():
            return None
        return cls(values, np.array(list(counts.values()), dtype=np.int64))

    @property
    def are_a_range(self) -> bool:
        """Whether they are the whole numbers from ``low`` to ``high``, each once."""
        n_rows = len(self._rows)
        if self._has_infinite or not self.whole or n_rows != self.high - self.low + 1:
            return False
        return len(np.unique(self._rows)) == n_rows

    @property
    def median(self) -> float:
        return float(np.median(self._rows))
