"""Draft a schema from a table: a start for the person who confirms it from public knowledge, and private until then.

A draft is made by looking at the data, so what it says about them (types, bounds, categories) is a release without any
privacy. Each such line is marked, and the draft says ``confirmed = false``, which ``sottovoce fit`` refuses.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

import numpy as np
import numpy.typing as npt

from sottovoce._optional import pa
from sottovoce.exceptions import TableError
from sottovoce.tables._toml import toml_text
from sottovoce.tables.categorical import CategoricalColumn
from sottovoce.tables.column import INDICATOR, Column, IgnoredColumn
from sottovoce.tables.dates import DateColumn
from sottovoce.tables.layout import Layout
from sottovoce.tables.looking import Look, Numbers, first_rows
from sottovoce.tables.notation import DateNotation
from sottovoce.tables.numeric import NumericColumn
from sottovoce.tables.reading import BatchedTable
from sottovoce.tables.schema import FORMAT, VERSION
from sottovoce.tables.table import Cells, Table

__all__ = ["MARK", "draft_schema"]

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
_PROPOSED = f'missing = "{INDICATOR}"  # values were missing; with this line a feature says where; {MARK}'

_USUAL_MISSING = ("?", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null")
_MOST_CODES = 12
_ROWS_PER_CODE = 5
_MOST_CATEGORIES = 100
_MOST_CLASSES = 20_000
_FEWEST_FOR_IDENTIFIER = 20
_SKEW = 20.0
_DAYS = 19_000_101, 21_001_231  # whole numbers that may be days
_UNREAD_DATE = re.compile(r"\d{1,2}([./-])\d{1,2}\1\d\d( .*)?|\d{1,2}[-. ]*[A-Za-z]{3,9}[-. ,]*\d{2,4}")


@dataclass(frozen=True, slots=True)
class _Proposal:
    """The description of a column, and why it is not the obvious one."""

    column: Column
    note: str = ""


def draft_schema(table: Table | BatchedTable, *, target: str | None = None, layout: Layout | None = None) -> str:
    """Return the text of a schema file that fits a table, with every line taken from the data marked.

    Columns of numbers become numeric, with bounds rounded outward, also if they are written with a decimal comma, marks
    of thousands or a percent sign. Dates become dates, whether year, month or day comes first. Whole numbers of at most
    12 values, and texts, become categorical. Row numbers, texts that never repeat or have more than 100 values, types
    that are neither, and columns with one value or none are left out.

    Parameters
    ----------
    table : Table or BatchedTable
        Private. The table to look at: its first million rows, or fewer where it has more than 20 columns.
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
    markers = {*layout.missing, *_USUAL_MISSING}
    rows, are_all = first_rows(table)
    proposals: dict[str, _Proposal] = {}
    occurring: set[str] = set()
    with_gaps: set[str] = set()
    for name in rows.column_names:  # one look at a time: that at a column of identifiers is large
        cells, is_target = rows.cells(name), name == target
        unread = None if is_target else _propose_for_type(cells)
        if unread is not None:
            proposals[name] = unread
            if cells.values.null_count:
                with_gaps.add(name)
            continue
        look = Look(cells, markers)
        proposals[name] = _propose(look, is_target=is_target)
        occurring |= look.markers
        if look.n_present < rows.n_rows:
            with_gaps.add(name)
    seen = [marker for marker in _USUAL_MISSING if marker in occurring and marker not in layout.missing]
    layout = replace(layout, missing=(*layout.missing, *seen))
    entries: dict[str, object] = {"format": FORMAT, "version": VERSION, "confirmed": False}
    if target is not None:
        entries["target"] = target
    if layout.to_dict():
        entries["table"] = layout.to_dict()
    entries["columns"] = {name: proposal.column.to_dict() for name, proposal in proposals.items()}
    comments: dict[tuple[str, ...], str] = {
        ("columns", name, key): f"{proposal.note}; {MARK}" if key == "type" and proposal.note else MARK
        for name, proposal in proposals.items()
        for key in proposal.column.to_dict()
    }
    if seen:
        comments["table", "missing"] = MARK
    if target is None:
        comments["confirmed",] = 'add target = "NAME" below this line'
    lacking = {
        name: _PROPOSED
        for name in rows.column_names
        if name != target and name in with_gaps and proposals[name].column.feature_names
    }
    heading = (
        _HEADING if are_all else (*_HEADING, "", f"Only the first {rows.n_rows:,} rows of the table were looked at.")
    )
    return toml_text(entries, heading=heading, comments=comments, proposals=lacking)


def _propose(look: Look, *, is_target: bool) -> _Proposal:
    name = look.name
    if is_target:
        if look.n_present == 0:
            raise TableError(f"the target column {name!r} holds no value. Choose another target.")
    elif len(look.counts) < 2:
        return _Proposal(IgnoredColumn(name), "one value at most")
    else:
        formats = look.date_formats if _may_be_dates(look) else []
        if formats:
            seconds = DateNotation(formats[0]).seconds(pa.array(list(look.counts), pa.string()))[0]
            return _propose_for_days(name, seconds // 86_400, formats)
        if all(map(_UNREAD_DATE.fullmatch, look.counts)):
            why = "dates with two digits of the year or a name of the month? Write them as 2020-12-31"
            return _Proposal(IgnoredColumn(name), why)
        if not look.repeats and look.n_present >= _FEWEST_FOR_IDENTIFIER and look.numbers is None:
            return _Proposal(IgnoredColumn(name), "no value repeats: identifiers?")
    if {text.lower() for text in look.counts} <= {"true", "false"}:
        return _Proposal(CategoricalColumn(name, categories=(False, True)))
    if look.numbers is not None:
        return _propose_for_numbers(look, look.numbers, is_target=is_target)
    if not is_target and len(look.counts) > _MOST_CATEGORIES:
        return _Proposal(IgnoredColumn(name), f"text of more than {_MOST_CATEGORIES} values")
    if len(look.counts) > _MOST_CLASSES:
        raise TableError(
            f"the target column {name!r} holds more than {_MOST_CLASSES} different texts. Choose another target, or "
            "leave it out of the draft and write its categories yourself."
        )
    return _Proposal(CategoricalColumn(name, categories=tuple(sorted(look.counts))))


def _propose_for_type(cells: Cells) -> _Proposal | None:
    """Return what is proposed for a column whose type is neither number nor text; None for the others."""
    if cells.is_dated:
        seconds, absent = cells.seconds((), DateNotation())
        if np.all(absent):
            return _Proposal(IgnoredColumn(cells.name), "no value")
        return _propose_for_days(cells.name, seconds[~absent] // 86_400, [None])
    try:
        cells.plain()
    except TableError:
        why = f"values of type {cells.values.type} are neither numbers nor text"
        return _Proposal(IgnoredColumn(cells.name), why)
    return None


def _may_be_dates(look: Look) -> bool:
    numbers = look.numbers
    if numbers is None:
        return True
    return look.notation is None and numbers.whole and _DAYS[0] <= numbers.low and numbers.high <= _DAYS[1]


def _propose_for_days(name: str, days: npt.NDArray[np.int64], formats: Sequence[str | None]) -> _Proposal:
    """Return a column of dates between the first day of the first year and the last day of the last one."""
    first, last = (int(str(np.datetime64(int(day), "D"))[:4]) for day in (days.min(), days.max()))
    notes = ['dates; period = "month", or part = "weekday" without bounds, reads them otherwise']
    if len(formats) > 1:
        notes.append(f"day or month first? {' or '.join(map(repr, formats))}")
    bounds = datetime.date(first, 1, 1), datetime.date(last, 12, 31)
    return _Proposal(DateColumn(name, bounds=bounds, format=formats[0]), "; ".join(notes))


def _propose_for_numbers(look: Look, numbers: Numbers, *, is_target: bool) -> _Proposal:
    name, low, high, n_rows = look.name, numbers.low, numbers.high, look.n_present
    few = numbers.n_distinct <= _MOST_CODES and look.notation is None
    written = {} if look.notation is None else look.notation.entries()
    marks = ", ".join(f'{key} = "{mark}"' for key, mark in written.items())
    note = f"is a comma or point one of decimals or of thousands? read with {marks}" if look.is_ambiguous else ""
    if numbers.whole and few and (numbers.n_distinct <= 2 or n_rows >= _ROWS_PER_CODE * numbers.n_distinct):
        codes = tuple(sorted({int(float(text)) for text in look.counts if math.isfinite(float(text))}))
        if len(codes) > 1:
            return _Proposal(CategoricalColumn(name, categories=codes), "whole numbers of few values: codes?")
    if numbers.whole and not is_target and numbers.are_a_range and n_rows >= _FEWEST_FOR_IDENTIFIER:
        return _Proposal(IgnoredColumn(name), "row numbers?")
    bounds = round_outward(low, high)
    if not is_target and low >= 0 and high - low > _SKEW * (numbers.median - low + 1):
        skewed = f"very skewed; {note}" if note else "very skewed"
        return _Proposal(NumericColumn(name, bounds=bounds, scale="log", **written), skewed)  # type: ignore[arg-type]
    return _Proposal(NumericColumn(name, bounds=bounds, **written), note)  # type: ignore[arg-type]


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
