"""Draft a schema from a table: a start for the person who confirms it from public knowledge, and private until then.

A draft is made by looking at the data, so what it says about them (types, bounds, categories) is a release without any
privacy. Each such line is marked, and the draft says ``confirmed = false``, which ``sottovoce fit`` refuses.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Collection
from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from sottovoce._optional import pa
from sottovoce._validation import LARGEST
from sottovoce.exceptions import TableError
from sottovoce.tables._toml import said, toml_text, toml_value
from sottovoce.tables.categorical import CategoricalColumn
from sottovoce.tables.cells import Cells, number_of
from sottovoce.tables.column import INDICATOR, Column, IgnoredColumn
from sottovoce.tables.dates import DateColumn
from sottovoce.tables.layout import Layout
from sottovoce.tables.notation import (
    DATE_FORMATS,
    UNREAD_DATE,
    NumberNotation,
    date_formats_of,
    number_notations_of,
    seconds_of,
)
from sottovoce.tables.numeric import NumericColumn
from sottovoce.tables.schema import FORMAT, VERSION
from sottovoce.tables.table import BatchedTable, Table, likely_cause

MARK = "from the data: confirm from public knowledge"

_HEADING = (
    "A draft, made by looking at the data: it is as private as they are until it is confirmed.",
    "",
    f'Every line marked "{MARK}" was read from the data.',
    "Replace what it says by what is publicly known: the documentation of the data, the form that was filled in,",
    "common knowledge. A bound or a category that only the data can tell is not covered by the privacy guarantee.",
    "Then write confirmed = true.",
    "",
    'If one person can have several rows, write above the columns whose row it is: unit = "COLUMN",',
    "and how many rows of a person are used at most: max_rows_per_unit = 3.",
)
_HEADLESS = "The first line seems to be a row, which a model would publish as names: draft again with --no-header."
_UNLABELLED = f"fit refuses rows without a label, and here are some: leave them out; {MARK}"
_POSITIVE = "coefficients, precision and recall are about the last one"
_PROPOSED = f'missing = "{INDICATOR}"  # values were missing; with this line a feature says where; {MARK}'

_USUAL_MISSING = ("?", "NA", "N/A", "n/a", "n.a.", "#N/A", "<NA>", ".", "NaN", "nan", "NULL", "null")
_MOST_CATEGORIES: Final = 100
_MOST_CLASSES: Final = 20_000
_MOST_WORDS: Final = 3  # that may stand for a missing number
_MOST_CODES = 12
_ROWS_PER_CODE = 5
_FEWEST_FOR_IDENTIFIER = 20
_SKEW = 20.0
_TINY: Final = 1e40
_DIGITS: Final = 15  # of whole numbers that doubles tell apart
_UNNAMED = re.compile(r"(Unnamed: \d+)?")  # names of rows, as R writes and pandas reads them
_NAMING = re.compile(
    r"(.*[\W_])?(?<!per[\W_])((case|p|user)?id|client|customer|participant|patient|person|respondent|subject|user)",
    re.IGNORECASE,
)
_DAYS = 19_000_101, 21_001_231  # whole numbers that may be days
_YEARS: Final = 1, 9999  # of dates in a schema

_MOST_ROWS: Final = 1 << 18
_MOST_BYTES: Final = 1 << 28
_FEWEST_ROWS: Final = 1 << 10  # however large they are
_LARGEST: Final = np.uint64((1 << 64) - 1)
_GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio

_Proposal: TypeAlias = tuple[Column, str]  # the description of a column, and why it is not the obvious one


def draft_schema(table: Table | BatchedTable, *, target: str | None = None, layout: Layout | None = None) -> str:
    """Return the text of a schema file that fits a table, with every line taken from the data marked.

    Columns of numbers become numeric, with bounds rounded outward, also if they are written with a decimal comma, marks
    of thousands or a percent sign. Dates become dates, whether year, month or day comes first. Whole numbers of at most
    12 values, and texts, become categorical. Columns without a name or with one such as "patient" or "user_id", texts
    that never repeat or have more than 100 values, types that are neither, and columns with one value or none are left
    out.

    Parameters
    ----------
    table : Table or BatchedTable
        Private. The table to look at: all of its rows, or a half, a quarter, ... of them, spread over it, where it
        has more than 262,144 of them or 256 MiB.
    target : str or None, default=None
        Name of the column to predict. None leaves a line for it to be filled in.
    layout : Layout or None, default=None
        How the file was read; it is copied into the draft, with the markers of missing values that were seen.

    Returns
    -------
    str
        TOML. It says ``confirmed = false``.

    Raises
    ------
    TableError
        If the table has no such target.

    Notes
    -----
    Privacy: none. The draft is for the eyes of those who may see the data.
    """
    if target is not None:
        table.cells(target)
    layout = layout or Layout()
    if len(table.column_names) == 1 and (cause := likely_cause(table.column_names)):
        raise TableError(f"{table.source}: the table has one column.{cause}")
    rows, step = looked_at(table)
    markers = {*layout.missing, *_USUAL_MISSING}
    looks = {name: Look(rows.cells(name), markers, is_target=name == target) for name in rows.column_names}
    occurring: set[str] = set().union(*(look.occurring for look in looks.values()))
    seen = [marker for marker in _USUAL_MISSING if marker in occurring and marker not in layout.missing]
    proposals = {name: _propose(look, (*layout.missing, *seen)) for name, look in looks.items()}
    facts = {"target": target, "table": said(replace(layout, missing=(*layout.missing, *seen))) or None}

    def comment(*path: str) -> str:
        if path[0] == "columns":
            note = proposals[path[1]][1] if path[2] == "type" else ""
            if path[1] == target and path[2] == "categories" and len(getattr(proposals[target][0], path[2])) == 2:
                note = _POSITIVE
            return f"{note}; {MARK}" if note else MARK
        if path == ("confirmed",) and target is None:
            return 'add target = "NAME" below this line'
        return MARK if path == ("table", "missing") and seen else ""

    def proposal(name: str) -> str:
        is_full = looks[name].n_present == rows.n_rows or not proposals[name][0].feature_names
        return "" if is_full else _UNLABELLED if name == target else _PROPOSED

    heading = _HEADING if step == 1 else (*_HEADING, "", f"One row in {step} was looked at: others may say more.")
    as_row = [name for place, name in enumerate(looks) if name != str(place) and name in (looks[name].counts or ())]
    if as_row or likely_cause(table.column_names):
        heading = (*heading, "", _HEADLESS)
    entries = {
        "format": FORMAT, "version": VERSION, "confirmed": False,
        **{name: fact for name, fact in facts.items() if fact is not None},
        "columns": {name: column.to_dict() for name, (column, _) in proposals.items()},
    }  # fmt: skip
    return toml_text(entries, heading, comment, proposal)


def looked_at(table: Table | BatchedTable) -> tuple[Table, int]:
    """Return the rows to look at, in order, and of how many one is there: 1, or a power of 2 where the table is large.

    A row is there by its place, in no period: a table of four rows a person does not lack three of them.
    """
    kept, places, step, done = None, np.zeros(0, np.uint64), 1, 0
    for part in [table] if isinstance(table, Table) else table:
        more = np.arange(done, done + part.n_rows, dtype=np.uint64) * _GOLDEN  # modulo 2^64
        done, chosen = done + part.n_rows, more <= _LARGEST // np.uint64(step)
        taken = part.data if step == 1 else part.data.filter(pa.array(chosen))
        kept = taken if kept is None else pa.concat_tables([kept, taken])
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
            seconds, absent = cells.seconds((), None)
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
            self._take_days(form, seconds_of(column, form)[0] // 86_400)
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
        most = _MOST_CLASSES if self.is_target and None not in self.written else _MOST_CATEGORIES
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
    """The numbers of a column, of each row, in order; those that no bounds hold are left out, or 0.

    ``whole``: whether all are. ``has_others_below_0``: whether numbers beside the lowest are negative.
    """

    def __init__(self, rows: Any = ()) -> None:
        self.rows: npt.NDArray[np.float64] = np.array(rows, np.float64)
        self.rows = np.sort(self.rows[np.abs(self.rows) <= LARGEST])
        self.rows[np.abs(self.rows) * _TINY < 1.0] = 0.0
        if self.rows.size:
            self.low, self.high, self.median = float(self.rows[0]), float(self.rows[-1]), float(np.median(self.rows))
            self.whole = bool(np.all(self.rows == np.round(self.rows)))
            self.has_others_below_0 = bool(np.any((self.rows > self.low) & (self.rows < 0.0)))


def _propose(look: Look, missing: tuple[str, ...]) -> _Proposal:
    """Describe a column, in a draft that takes the texts ``missing`` for missing values."""
    name, counts = look.name, look.counts
    if look.is_target and look.n_present == 0 and not look.unreadable:
        raise TableError(f"the target column {name!r} holds no value. Choose another target.")
    if why := look.unreadable or ("" if look.is_target else _why_not(look, missing)):
        return IgnoredColumn(name), why
    if not look.is_target and look.days and (look.numbers is None or _may_be_days(look, look.numbers)):
        return _propose_for_days(look)
    if counts is not None and {text.lower() for text in counts} <= {"true", "false"}:
        return CategoricalColumn(name, categories=(False, True)), ""
    if look.numbers is not None:
        return _propose_for_numbers(look, look.numbers, missing)
    if counts is None:
        raise TableError(
            f"the target column {name!r} holds more than {_MOST_CLASSES} different texts. Choose another target, or "
            "leave it out of the draft and write its categories yourself."
        )
    alike = {text.casefold() for text in counts}
    note = 'some differ in case alone: aliases = {"yes" = "Yes"} reads them as one' if len(alike) < len(counts) else ""
    return CategoricalColumn(name, categories=tuple(sorted(counts))), note


def _why_not(look: Look, missing: tuple[str, ...]) -> str:
    """Return why a column is no feature, or "" where it may be one."""
    numbers, counts = look.numbers, look.counts
    is_coded = counts is not None and len(counts) <= _MOST_CODES
    if look.is_dated:
        return "" if look.days else "no value"
    if counts is not None and len(counts) < 2:
        return "one value at most"
    if _UNNAMED.fullmatch(look.name):
        return "numbers or names of rows?"
    if _NAMING.fullmatch(look.name) and not is_coded and (numbers is None or numbers.whole):
        return "whose row is it? See unit above"
    if look.days and (numbers is None or _may_be_days(look, numbers)):
        return ""
    if look.has_unread_dates:
        return "dates with two digits of the year or a name of the month? Write them as 2020-12-31"
    if look.words and look.rest.rows.size and not is_coded:
        low, high = round_outward(look.rest.low, look.rest.high)
        marks, words = toml_value([*missing, *sorted(look.words)]), ", ".join(map(toml_value, sorted(look.words)))
        how = f'missing = {marks} in [table], and here type = "numeric" and bounds = [{low:g}, {high:g}]'
        return f"numbers but for {words}? Then write {how}"
    if numbers is None and not look.repeats and look.n_present >= _FEWEST_FOR_IDENTIFIER:
        return "no value repeats: identifiers?"
    return f"text of more than {_MOST_CATEGORIES} values" if numbers is None and counts is None else ""


def _may_be_days(look: Look, numbers: Numbers) -> bool:
    return look.notation is None and numbers.whole and _DAYS[0] <= numbers.low and numbers.high <= _DAYS[1]


def _propose_for_days(look: Look) -> _Proposal:
    """Return a column of dates between the first day of the first year and the last day of the last one."""
    form, days = next(iter(look.days.items()))
    years = (int(np.datetime64(int(day), "D").astype("datetime64[Y]").astype(int)) + 1970 for day in days)
    first, last = (min(max(year, _YEARS[0]), _YEARS[1]) for year in years)
    notes = ['dates; period = "month", or part = "weekday" without bounds, reads them otherwise']
    if len(look.days) > 1:
        notes.append(f"day or month first? {' or '.join(map(repr, look.days))}")
    bounds = datetime.date(first, 1, 1), datetime.date(last, 12, 31)
    return DateColumn(look.name, bounds=bounds, format=form), "; ".join(notes)


def _propose_for_numbers(look: Look, numbers: Numbers, missing: tuple[str, ...]) -> _Proposal:
    name, low, high, n_rows = look.name, numbers.low, numbers.high, look.n_present
    written = {} if look.notation is None else look.notation.entries()
    marks = ", ".join(f'{key} = "{mark}"' for key, mark in written.items())
    note = f"is a comma or point one of decimals or of thousands? read with {marks}" if look.is_ambiguous else ""
    if numbers.whole and look.notation is None and look.counts is not None:
        spellings = [float(text) for text in look.counts if math.isfinite(float(text))]
        codes = tuple(sorted(set(map(int, spellings))))
        enough = len(spellings) <= 2 or n_rows >= _ROWS_PER_CODE * len(spellings)
        if len(codes) > 1 and len(spellings) <= _MOST_CODES and enough:
            return CategoricalColumn(name, categories=codes), "whole numbers of few values: codes?"
    if numbers.whole and not look.is_target and n_rows >= _FEWEST_FOR_IDENTIFIER and look.may_be_names:
        note = f'{note}{"; " * bool(note)}identifiers? Then type = "ignore"; or whose row it is? See unit above'
    if code := _missing_code(numbers):
        how = f"missing = {toml_value([*missing, code])} in [table]"
        note = f"{note}{'; ' * bool(note)}{code}: a code of missing values? Then write {how}"
    bounds = round_outward(low, high)
    if not look.is_target and low >= 0 and high - low > _SKEW * (numbers.median - low + 1):
        skewed = f"very skewed; {note}" if note else "very skewed"
        return NumericColumn(name, bounds=bounds, scale="log", **written), skewed  # type: ignore[arg-type]
    return NumericColumn(name, bounds=bounds, **written), note  # type: ignore[arg-type]


def _missing_code(numbers: Numbers) -> str:
    """Return the lowest or highest number where it is all nines, and no other is like it: "-999"."""
    low, high = int(numbers.low), int(numbers.high)
    if numbers.whole and low < 0 and set(str(-low)) == {"9"} and not numbers.has_others_below_0:
        return str(low)
    return str(high) if numbers.whole and high > max(99, 5 * abs(numbers.median)) and set(str(high)) == {"9"} else ""


def round_outward(low: float, high: float) -> tuple[float, float]:
    """Return round numbers around [low, high]: multiples of the power of ten at or below their distance.

    Examples
    --------
    >>> round_outward(17, 90), round_outward(0.13, 0.71), round_outward(5, 5)
    ((10.0, 90.0), (0.1, 0.8), (4.0, 6.0))
    """
    if low == high:
        width = 10.0 ** math.floor(math.log10(abs(low))) if low else 1.0
        low, high = low - width, high + width
    exponent = math.floor(math.log10(high - low))
    step = Decimal(10) ** exponent
    return (
        float((Decimal(repr(low)) / step).to_integral_value(ROUND_FLOOR) * step),
        float((Decimal(repr(high)) / step).to_integral_value(ROUND_CEILING) * step),
    )
