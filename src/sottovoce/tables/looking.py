"""What a draft asks of a column, gathered some rows at a time and in bounded memory, however many values differ."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from sottovoce._optional import pa
from sottovoce.tables.table import Cells, is_text

__all__ = ["Look", "Numbers"]

_MOST_HELD: Final = 20_000
_HELD: Final = 200_000  # distinct texts of all columns together
_HELD_BYTES: Final = 1 << 24
_FEWEST_HELD: Final = 200  # of a column, however many columns there are
_BIN_BITS: Final = 46  # of a float that a bin leaves out: a bin is 1/64 of a power of two wide
_PIECE: Final = 1 << 20

_Floats = npt.NDArray[np.float64]
_Counts = npt.NDArray[np.int64]


class Look:
    """The distinct texts of a column with their counts; beyond a limit, what numbers have in common.

    Parameters
    ----------
    name : str
        Of the column.
    markers : collection of str
        Texts that may stand for a missing value.
    n_columns : int
        With how many columns the memory is shared.

    Attributes
    ----------
    counts : dict
        How often each text that is no marker occurs; only of the first ones where ``is_whole`` is false.
    markers : dict
        How often each marker occurs.
    is_whole : bool
        Whether every text is among ``counts``.
    n_present : int
        Rows with a value.
    """

    def __init__(self, name: str, markers: Collection[str], n_columns: int) -> None:
        self.name = name
        self.counts: dict[str, int] = {}
        self.markers: dict[str, int] = {}
        self.is_whole = True
        self.n_present = 0
        self._markers = frozenset(markers)
        self._most = max(_FEWEST_HELD, min(_MOST_HELD, _HELD // n_columns))
        self._left_bytes = _HELD_BYTES // n_columns
        self._numbers: Numbers | None = None
        self._repeats = False
        self._held: Any = None

    @property
    def n_distinct(self) -> float:
        """How many texts there are; infinity where they were too many to count."""
        return len(self.counts) if self.is_whole else math.inf

    @property
    def repeats(self) -> bool:
        """Whether a text occurs twice; where they are too many, whether one of the first does."""
        return self._repeats or any(count > 1 for count in self.counts.values())

    @property
    def numbers(self) -> Numbers | None:
        """What the texts are as numbers; None if one is no number, or none is finite."""
        if self.is_whole:
            self._begin_numbers()
        return self._numbers if self._numbers is not None and self._numbers.n_finite else None

    def take(self, cells: Cells) -> None:
        """Look at some more rows."""
        if self.is_whole:
            texts, places = cells.spelled()
            self._take_texts(texts, np.bincount(places, minlength=len(texts)))
        else:
            self._take_many(cells.plain())

    def _take_texts(self, texts: Sequence[str | None], counts: _Counts) -> None:
        loose: dict[str, int] = {}
        for text, count in zip(texts, counts.tolist(), strict=True):
            if text is None:
                continue
            if text in self._markers:
                self.markers[text] = self.markers.get(text, 0) + count
                continue
            self.n_present += count
            if text in self.counts:
                self.counts[text] += count
            elif self.is_whole and (len(self.counts) < _FEWEST_HELD or self._has_room(text)):
                self.counts[text] = count
                self._left_bytes -= len(text)
            else:
                if self.is_whole:
                    self._begin_numbers()
                self.is_whole = False
                loose[text] = count
        if loose:
            self._repeats = self._repeats or any(count > 1 for count in loose.values())
            self._add_numbers(loose)
        if not self.is_whole and self._held is None:
            self._held = pa.array(list(self.counts), pa.string())

    def _has_room(self, text: str) -> bool:
        return len(self.counts) < self._most and len(text) < self._left_bytes

    def _take_many(self, values: Any) -> None:
        """Look at the rows of a column that has too many values to count them."""
        values = values.drop_null()
        if not is_text(values.type):
            numbers = np.asarray(pa.compute.cast(values, pa.float64(), safe=False).to_numpy())
            markers = np.isnan(numbers) if "nan" in self._markers else np.zeros(len(numbers), np.bool_)
            if markers.any():
                self.markers["nan"] = self.markers.get("nan", 0) + int(markers.sum())
            self.n_present += len(numbers) - int(markers.sum())
            if self._numbers is not None:
                self._numbers.add(numbers[~markers])
            return
        values = pa.compute.utf8_trim_whitespace(values)
        marked = pa.compute.is_in(values, value_set=pa.array(sorted(self._markers), pa.string()))
        if pa.compute.any(marked).as_py():
            for found in pa.compute.value_counts(values.filter(marked)).to_pylist():
                self.markers[found["values"]] = self.markers.get(found["values"], 0) + found["counts"]
            values = values.filter(pa.compute.invert(marked))
        self.n_present += len(values)
        if not self.repeats:
            self._repeats = bool(pa.compute.any(pa.compute.is_in(values, value_set=self._held)).as_py())
        if self._numbers is not None:
            try:
                self._numbers.add(np.asarray(pa.compute.cast(values, pa.float64()).to_numpy()))
            except pa.ArrowInvalid:  # texts, or numbers as Python alone writes them
                counted = pa.compute.value_counts(values)
                self._add_numbers(
                    dict(zip(counted.field("values").to_pylist(), counted.field("counts").to_pylist(), strict=True))
                )

    def _begin_numbers(self) -> None:
        """Take the texts that were counted as numbers, if they are."""
        self._numbers = Numbers()
        self._add_numbers(self.counts)
        if self._numbers is not None:
            values = np.array([float(text) for text in self.counts])
            finite = np.isfinite(values)
            self._numbers.know_all(values[finite], np.array(list(self.counts.values()), dtype=np.int64)[finite])

    def _add_numbers(self, counts: dict[str, int]) -> None:
        if self._numbers is None:
            return
        try:
            values = np.array([float(text) for text in counts])
        except ValueError:
            self._numbers = None
            return
        self._numbers.add(values, np.array(list(counts.values()), dtype=np.int64))


class Numbers:
    """What the numbers of a column have in common.

    Attributes
    ----------
    n_finite : int
        Rows with a finite number.
    low, high : float
        The least and the largest of these.
    whole : bool
        Whether all of these are whole numbers.
    n_distinct : float
        How many texts of finite numbers there are; infinity where they were too many to count.
    """

    def __init__(self) -> None:
        self.n_finite = 0
        self.low, self.high = math.inf, -math.inf
        self.whole = True
        self.n_distinct: float = math.inf
        self._n_infinite = 0
        self._sum_of_codes = 0
        self._bins: dict[int, int] = {}
        self._median: float | None = None

    def add(self, values: _Floats, counts: _Counts | None = None) -> None:
        """Add rows: values, and how many rows have each (None: one)."""
        finite = np.isfinite(values)
        if not finite.all():
            self._n_infinite += int(np.sum(~finite) if counts is None else np.sum(counts[~finite]))
            values = values[finite]
            counts = None if counts is None else counts[finite]
        if not values.size:
            return
        self.n_distinct, self._median = math.inf, None
        self.n_finite += len(values) if counts is None else int(counts.sum())
        self.low, self.high = min(self.low, float(values.min())), max(self.high, float(values.max()))
        self.whole = self.whole and bool(np.all(values == np.round(values)))
        if self.whole:
            codes = _codes(values) if counts is None else _codes(values) * counts.astype(np.uint64)
            self._sum_of_codes = (self._sum_of_codes + int(codes.sum(dtype=np.uint64))) % 2**64
        if self.low >= 0:
            bins, places = np.unique((values + 0.0).view(np.int64) >> _BIN_BITS, return_inverse=True)
            sizes = np.bincount(places, counts).astype(np.int64)
            for place, size in zip(bins.tolist(), sizes.tolist(), strict=True):
                self._bins[place] = self._bins.get(place, 0) + size

    def know_all(self, values: _Floats, counts: _Counts) -> None:
        """Learn that what was added is all there is: one entry a text."""
        self.n_distinct = len(values)
        if len(values):
            order = np.argsort(values)
            upto = np.cumsum(counts[order])
            middle = np.searchsorted(upto, [(upto[-1] - 1) // 2, upto[-1] // 2], side="right")
            self._median = float(values[order][middle].mean())

    @property
    def are_a_range(self) -> bool:
        """Whether they are the whole numbers from ``low`` to ``high``, each once.

        Found by sums of 64-bit codes of the numbers, which are the same by chance once in 10^19 tables.
        """
        if self._n_infinite or not self.whole or self.n_finite != self.high - self.low + 1:
            return False
        total = 0
        for lo in range(int(self.low), int(self.high) + 1, _PIECE):
            piece = np.arange(lo, min(lo + _PIECE, int(self.high) + 1), dtype=np.float64)
            total = (total + int(_codes(piece).sum(dtype=np.uint64))) % 2**64
        return total == self._sum_of_codes

    @property
    def median(self) -> float:
        """The median of numbers that are not negative, but for a share of 1/128 where not all texts were counted."""
        if self._median is not None:
            return self._median
        below = 0
        for place in sorted(self._bins):
            below += self._bins[place]
            if 2 * below >= self.n_finite:
                edges = np.array([place, place + 1], dtype=np.int64) << _BIN_BITS
                return float(edges.view(np.float64).mean())
        return math.nan


def _codes(values: _Floats) -> npt.NDArray[np.uint64]:
    """Return a pseudo-random number for each float."""
    codes = (values + 0.0).view(np.uint64).copy()
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        codes ^= codes >> np.uint64(shift)
        codes *= np.uint64(factor)
    codes ^= codes >> np.uint64(31)
    return codes
