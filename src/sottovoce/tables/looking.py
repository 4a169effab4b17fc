"""What a draft asks of a column: what all of its cells can be read as."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from sottovoce._optional import pa
from sottovoce.exceptions import TableError
from sottovoce.tables.notation import (
    DATE_FORMATS,
    UNREAD_DATE,
    DateNotation,
    NumberNotation,
    date_formats_of,
    number_notations_of,
)
from sottovoce.tables.reading import BatchedTable
from sottovoce.tables.table import Cells, Table, number_of

MOST_CATEGORIES: Final = 100
MOST_CLASSES: Final = 20_000
_MOST_WORDS: Final = 3  # that may stand for a missing number
_MOST_ROWS: Final = 1 << 18
_MOST_BYTES: Final = 1 << 28
_FEWEST_ROWS: Final = 1 << 10  # however large they are
_DIGITS: Final = 15  # of whole numbers that doubles tell apart
_LARGEST: Final = np.uint64((1 << 64) - 1)
_GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio


def looked_at(table: Table | BatchedTable) -> tuple[Table, int]:
    """Return the rows to look at, in order, and of how many one is there: 1, or a power of 2 where the table is large.

    A row is there by its place, in no period: a table of four rows a person does not lack three of them.
    """
    parts: Iterable[Table] = table if isinstance(table, BatchedTable) else [table]
    kept = (table.header if isinstance(table, BatchedTable) else table).data.slice(0, 0)
    places, step, done = np.zeros(0, np.uint64), 1, 0
    for part in parts:
        more = np.arange(done, done + part.n_rows, dtype=np.uint64) * _GOLDEN  # modulo 2^64
        done, chosen = done + part.n_rows, more <= _LARGEST // np.uint64(step)
        kept = pa.concat_tables([kept, part.data if step == 1 else part.data.filter(pa.array(chosen))])
        places = np.append(places, more[chosen])
        while kept.num_rows > _MOST_ROWS or (kept.nbytes > _MOST_BYTES and kept.num_rows >= _FEWEST_ROWS):
            step *= 2
            chosen = places <= _LARGEST // np.uint64(step)
            kept, places = kept.filter(pa.array(chosen)), places[chosen]
    return Table.of_rows(kept, table.source), step


class Look:
    """What is known of a column, of which all cells are here.

    ``markers``: texts that may stand for a missing value.

    ``counts``: how often each text occurs that is no marker; None if there are too many of them, or numbers.
    ``words``, ``rest``: the few texts that are no numbers where others are, and these; None is more of them, or names.
    ``occurring``: the markers that occur.
    ``n_present``: rows with a value.
    ``days``: the first and the last one, by each format that fits all cells; None is ISO 8601, or the type.
    ``written``: the numbers, by each notation that fits all cells; None is that with a decimal point alone.
    ``unreadable``: what is wrong with the type of the column, if anything.
    """

    def __init__(self, cells: Cells, markers: Collection[str], *, is_target: bool) -> None:
        self.name, self.is_target = cells.name, is_target
        self.is_dated, self.unreadable = cells.is_dated and not is_target, ""
        self.counts: dict[str, int] | None = {}
        self.words: set[str] | None = set()
        self.occurring: set[str] = set()
        self.days: dict[str | None, tuple[int, int]] = {}
        self.written: dict[NumberNotation | None, Numbers] = {}
        self.rest, self.n_present, self.repeats, self.has_unread_dates = Numbers(), 0, False, False
        self.may_be_names = False  # whether few occur twice, all as often, or some are written as no number would be
        if self.is_dated:
            seconds, absent = cells.seconds((), DateNotation())
            self._take_days(None, seconds[~absent] // 86_400)
            self.n_present = int((~absent).sum())
            return
        try:
            texts, places = cells.spelled()
        except TableError:
            if is_target:
                raise
            self.unreadable = f"values of type {cells.values.type} are neither numbers nor text"
            return
        self.occurring = {text for text in texts if text in markers}  # type: ignore[misc]
        sizes = np.bincount(places, minlength=len(texts)).tolist()
        found = {
            text: size for text, size in zip(texts, sizes, strict=True) if text is not None and text not in markers
        }
        if found:
            self._read(found)

    def _read(self, counts: dict[str, int]) -> None:
        values, sizes = list(counts), list(counts.values())
        self.n_present, self.repeats = sum(sizes), max(sizes) > 1
        as_names = any(text.isdecimal() and (text[0] == "0" < text[1:] or len(text) > _DIGITS) for text in values)
        self.may_be_names = as_names or 2 * len(values) > self.n_present or min(sizes) == max(sizes)
        column = pa.array(values, pa.string())
        for form in date_formats_of(values, (None, *DATE_FORMATS)):
            self._take_days(form, DateNotation(form).seconds(column)[0] // 86_400)
        self.has_unread_dates = all(map(UNREAD_DATE.fullmatch, values))
        read = {text: number for text in values if (number := number_of(text)) is not None}
        if len(read) == len(values):
            self.written = {None: Numbers(np.repeat([*read.values()], sizes))}
        else:
            for way in number_notations_of(values):
                plain = np.array(way.plain(column).to_pylist(), np.float64)
                self.written[way] = Numbers(np.repeat(plain, sizes))
            self.rest = Numbers(np.array([*read.values()]))
            words = counts.keys() - read.keys()
            self.words = words if len(words) <= _MOST_WORDS and not as_names else None
        most = MOST_CLASSES if self.is_target and None not in self.written else MOST_CATEGORIES
        self.counts = counts if len(counts) <= most else None

    def _take_days(self, form: str | None, days: npt.NDArray[np.int64]) -> None:
        if days.size:
            self.days[form] = int(days.min()), int(days.max())

    @property
    def notation(self) -> NumberNotation | None:
        """How numbers are written, if not with a decimal point alone."""
        return next(iter(self.written), None)

    @property
    def numbers(self) -> Numbers | None:
        found = next(iter(self.written.values()), None)
        return found if found is not None and found.rows.size else None

    @property
    def is_ambiguous(self) -> bool:
        """Whether the cells are other numbers by another notation: 1,234."""
        return len({numbers.rows.tobytes() for numbers in self.written.values()}) > 1


class Numbers:
    """The numbers of a column, of each row, in order; those that are infinite are left out.

    ``whole``: whether all are. ``has_others_below_0``: whether numbers beside the lowest are negative.
    """

    def __init__(self, rows: Any = ()) -> None:
        self.rows: npt.NDArray[np.float64] = np.array(rows, np.float64)
        self.rows = np.sort(self.rows[np.isfinite(self.rows)])
        if self.rows.size:
            self.low, self.high, self.median = float(self.rows[0]), float(self.rows[-1]), float(np.median(self.rows))
            self.whole = bool(np.all(self.rows == np.round(self.rows)))
            self.has_others_below_0 = bool(np.any((self.rows > self.low) & (self.rows < 0.0)))
