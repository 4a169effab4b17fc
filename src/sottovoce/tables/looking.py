"""What a draft asks of a column, found in one pass with a bounded state: what all of its cells can be read as."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import islice
from typing import Final

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
from sottovoce.tables.reading import MOST_ROWS, BatchedTable
from sottovoce.tables.table import Cells, Table

MOST_CATEGORIES: Final = 100
MOST_CLASSES: Final = 20_000
_MOST_WORDS: Final = 3  # that may stand for a missing number
_MOST_SEEN: Final = 400_000  # texts that are told from others, in all columns
_SAMPLED: Final = 1 << 13
_WORD: Final = 1 << 64
_MIXED: Final = np.array([0xBF58476D1CE4E5B9, 0x94D049BB133111EB], np.uint64)  # of splitmix64


def look_at(table: Table | BatchedTable, markers: Collection[str], target: str | None) -> tuple[dict[str, Look], int]:
    """Look at all rows, and once more at columns that turn out late not to be numbers; return the number of rows too.

    ``markers``: texts that may stand for a missing value.
    """
    names = pending = list(table.column_names)
    most_seen = max(MOST_CATEGORIES + 1, min(MOST_CLASSES, _MOST_SEEN // max(1, len(names))))
    looks: dict[str, Look] = {}
    n_rows = 0
    while pending:
        for name in pending:
            looks[name] = Look(name, markers, is_target=name == target, most_seen=most_seen, plain=name not in looks)
        count = 0
        for part in _parts(table, pending):
            count += part.n_rows
            for name in pending:
                looks[name].add(part.cells(name))
        n_rows = count
        pending = [name for name in pending if looks[name].again]
    return {name: looks[name] for name in names}, n_rows


def _parts(table: Table | BatchedTable, names: Collection[str]) -> Iterator[Table]:
    if isinstance(table, BatchedTable):
        yield from table.batches(names)
        return
    for start in range(0, max(1, table.n_rows), MOST_ROWS):
        yield Table(table.data.slice(start, MOST_ROWS), table.source, table.line, start)


class Look:
    """What is known of a column after some rows of it.

    ``markers``: texts that may stand for a missing value.
    ``most_seen``: distinct texts after which new ones are not told from old ones.
    ``plain``: whether the texts may be numbers with a decimal point alone.

    ``counts``: how often each text occurs that is no marker; None if there are too many of them, or numbers.
    ``words``, ``rest``: the few texts that are no numbers where the others are, and these; None is more of them.
    ``occurring``: the markers that occur.
    ``n_present``: rows with a value.
    ``days``: the first and the last one, by each format that fits all cells; None is ISO 8601, or the type.
    ``written``: the numbers, by each notation that fits all cells; None is that with a decimal point alone.
    ``unreadable``: what is wrong with the type of the column, if anything.
    ``again``: whether the rows have to be looked at once more, without ``plain``.
    """

    def __init__(
        self, name: str, markers: Collection[str], *, is_target: bool, most_seen: int = MOST_CLASSES, plain: bool = True
    ) -> None:
        self.name, self.is_target = name, is_target
        self.counts: dict[str, int] | None = {}
        self.words: set[str] | None = set()
        self.rest = Numbers()
        self.occurring: set[str] = set()
        self.n_present = 0
        self.days: dict[str | None, tuple[int, int]] = {}
        self.written: dict[NumberNotation | None, Numbers] = {}
        self.unreadable, self.repeats, self.again, self.has_unread_dates = "", False, False, True
        self._markers, self._plain, self._most_seen = frozenset(markers), plain, most_seen
        self._seen: set[int] = set()
        self.is_dated = False  # by the type of the column

    def add(self, cells: Cells) -> None:
        """Look at some more rows."""
        if self.again or (not self.is_target and self._told_by_type(cells)):
            return
        if self.counts is None and not self.days and self._added_as_a_whole(cells):
            return
        texts, places = cells.spelled()
        present = np.array([text is not None and text not in self._markers for text in texts], np.bool_)
        self.occurring.update(self._markers.intersection(text for text in texts if text is not None))
        kept = present[places] if texts else present
        rows = (np.cumsum(present) - 1)[places[kept]]  # places among the texts that are present
        values = [str(text) for text, is_value in zip(texts, present, strict=True) if is_value]
        if not values:
            return
        self._read(values, rows)
        self._count(values, rows)
        self.n_present += len(rows)

    @property
    def notation(self) -> NumberNotation | None:
        """How numbers are written, if not with a decimal point alone."""
        return next(iter(self.written), None)

    @property
    def numbers(self) -> Numbers | None:
        found = next(iter(self.written.values()), None)
        return found if found is not None and found.n_rows else None

    @property
    def is_ambiguous(self) -> bool:
        """Whether the cells are other numbers by another notation: 1,234."""
        return len({numbers.mixed for numbers in self.written.values()}) > 1

    @property
    def _may_not_repeat(self) -> bool:
        return not self.repeats and len(self._seen) < self._most_seen

    @property
    def _are_numbers(self) -> bool:
        return None in self.written

    def _told_by_type(self, cells: Cells) -> bool:
        if cells.is_dated:
            seconds, absent = cells.seconds((), DateNotation())
            self.is_dated = True
            self._between(None, seconds[~absent] // 86_400)
            self.n_present += int((~absent).sum())
        elif not self.is_dated:
            try:
                cells.plain()
            except TableError:
                self.unreadable = f"values of type {cells.values.type} are neither numbers nor text"
        return self.is_dated or bool(self.unreadable)

    def _added_as_a_whole(self, cells: Cells) -> bool:
        """Add numbers, or texts of which nothing more is asked, without a look at each text."""
        if self._are_numbers:
            try:
                values, absent = cells.numbers(self._markers)
            except TableError:
                return False
            self.written[None].add(values[~absent])
        elif self.written or self.has_unread_dates or self.words is not None or self._may_not_repeat:
            return False
        else:
            absent = pa.compute.is_null(cells.identifiers(self._markers)).to_numpy()
        if absent.any():
            gone = Cells(self.name, cells.values.filter(pa.array(absent)), cells.source, cells.line).spelled()[0]
            self.occurring.update(self._markers.intersection(text for text in gone if text is not None))
        self.n_present += int((~absent).sum())
        return True

    def _read(self, values: list[str], rows: npt.NDArray[np.int64]) -> None:
        first = self.n_present == 0
        texts = pa.array(values, pa.string())
        formats = date_formats_of(values, (None, *DATE_FORMATS) if first else tuple(self.days))
        fitting = {one: DateNotation(one).seconds(texts)[0] // 86_400 for one in formats}
        self.days = {one: self.days[one] for one in fitting if not first}
        for one, days in fitting.items():
            self._between(one, days)
        self.has_unread_dates = self.has_unread_dates and all(map(UNREAD_DATE.fullmatch, values))
        floats = _floats(values) if self._plain and (first or self._are_numbers) else None
        if floats is not None:
            self.written.setdefault(None, Numbers()).add(floats[rows])
            return
        if self._are_numbers:
            self.again = True  # what was read as numbers are texts, or written with other marks
            return
        ways = number_notations_of(values) if first else [way for way in self.written if way and way.fits(values)]
        self.written = {way: Numbers() if first else self.written[way] for way in ways}
        for way, numbers in self.written.items():
            assert way is not None
            numbers.add(np.array(way.plain(texts).to_pylist(), np.float64)[rows])

    def _between(self, form: str | None, days: npt.NDArray[np.int64]) -> None:
        if days.size:
            low, high = self.days.get(form, (days[0], days[0]))
            self.days[form] = min(low, int(days.min())), max(high, int(days.max()))

    def _count(self, values: list[str], rows: npt.NDArray[np.int64]) -> None:
        hashes = set(map(hash, values))
        self.repeats = self.repeats or len(rows) > len(values) or not self._seen.isdisjoint(hashes)
        self._seen.update(islice(hashes, self._most_seen - len(self._seen)))
        self._part_words_from_numbers(values)
        if self.counts is None:
            return
        for value, size in zip(values, np.bincount(rows).tolist(), strict=True):
            self.counts[value] = self.counts.get(value, 0) + size
        if len(self.counts) > (MOST_CLASSES if self.is_target and not self._are_numbers else MOST_CATEGORIES):
            self.counts = None

    def _part_words_from_numbers(self, values: list[str]) -> None:
        if self.words is None:
            return
        read = [_floats([value]) for value in values]
        self.words.update(value for value, number in zip(values, read, strict=True) if number is None)
        self.rest.add(np.array([number[0] for number in read if number is not None]))
        if len(self.words) > _MOST_WORDS:
            self.words = None


class Numbers:
    """What the numbers of a column have in common; those that are infinite are only noticed.

    ``mixed``: a sum over all rows that tells one set of numbers from another.
    """

    def __init__(self) -> None:
        self.n_rows = 0
        self.low, self.high = np.inf, -np.inf
        self.whole = True
        self.mixed = 0
        self._has_infinite = False
        self._sample: npt.NDArray[np.float64] = np.zeros(0)
        self._step = 1

    def add(self, rows: npt.NDArray[np.float64]) -> None:
        finite = rows[np.isfinite(rows)]
        self._has_infinite = self._has_infinite or len(finite) < len(rows)
        if not finite.size:
            return
        self.low, self.high = min(self.low, float(finite.min())), max(self.high, float(finite.max()))
        self.whole = self.whole and bool(np.all(finite == np.round(finite)))
        self.mixed = (self.mixed + _mixed(finite)) % _WORD
        self._sample = np.concatenate([self._sample, finite[-self.n_rows % self._step :: self._step]])
        self.n_rows += len(finite)
        while len(self._sample) > _SAMPLED:
            self._sample, self._step = self._sample[::2].copy(), 2 * self._step

    @property
    def are_a_range(self) -> bool:
        """Whether they are the whole numbers from ``low`` to ``high``, each once."""
        if self._has_infinite or not self.whole or self.n_rows != self.high - self.low + 1:
            return False
        starts = np.arange(self.low, self.high + 1, MOST_ROWS)
        ranges = (np.arange(start, min(start + MOST_ROWS, self.high + 1)) for start in starts)
        return sum(map(_mixed, ranges)) % _WORD == self.mixed

    @property
    def has_others_below_0(self) -> bool:
        """Whether numbers beside the lowest are negative, of those that the median is of."""
        return bool(np.any((self._sample > self.low) & (self._sample < 0.0)))

    @property
    def median(self) -> float:
        """The median of every row, of every second one, and so on: of at most 8,192."""
        return float(np.median(self._sample))


def _mixed(values: npt.NDArray[np.float64]) -> int:
    mixed = (values + 0.0).view(np.uint64)  # one zero
    for factor in _MIXED:
        mixed = (mixed ^ (mixed >> np.uint64(29))) * factor
    return int(np.sum(mixed ^ (mixed >> np.uint64(32)), dtype=np.uint64))


def _floats(values: list[str]) -> npt.NDArray[np.float64] | None:
    try:
        return np.array(list(map(float, values)))
    except ValueError:
        return None
