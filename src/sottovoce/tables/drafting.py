"""Draft a schema from a table: a start for the person who confirms it from public knowledge, and private until then.

A draft is made by looking at the data, so what it says about them (types, bounds, categories) is a release without any
privacy. Each such line is marked, and the draft says ``confirmed = false``, which ``sottovoce fit`` refuses.
"""

from __future__ import annotations

import datetime
import math
import re
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

import numpy as np

from sottovoce.exceptions import TableError
from sottovoce.tables._toml import toml_text, toml_value
from sottovoce.tables.categorical import CategoricalColumn
from sottovoce.tables.column import INDICATOR, Column, IgnoredColumn
from sottovoce.tables.dates import DateColumn
from sottovoce.tables.layout import Layout
from sottovoce.tables.looking import MOST_CATEGORIES, MOST_CLASSES, Look, Numbers, looked_at
from sottovoce.tables.numeric import NumericColumn
from sottovoce.tables.reading import BatchedTable
from sottovoce.tables.schema import FORMAT, VERSION
from sottovoce.tables.table import Table, likely_cause

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
_MOST_CODES = 12
_ROWS_PER_CODE = 5
_FEWEST_FOR_IDENTIFIER = 20
_SKEW = 20.0
_UNNAMED = re.compile(r"(Unnamed: \d+)?")  # names of rows, as R writes and pandas reads them
_NAMING = re.compile(
    r"(.*[\W_])?(?<!per[\W_])((case|p|user)?id|client|customer|participant|patient|person|respondent|subject|user)",
    re.IGNORECASE,
)
_DAYS = 19_000_101, 21_001_231  # whole numbers that may be days


@dataclass(frozen=True, slots=True)
class _Proposal:
    """The description of a column, and why it is not the obvious one."""

    column: Column
    note: str = ""


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
    proposals = {name: _propose(look) for name, look in looks.items()}
    occurring: set[str] = set().union(*(look.occurring for look in looks.values()))
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
    if target is not None and len(getattr(proposals[target].column, "categories", ())) == 2:
        comments["columns", target, "categories"] = f"{_POSITIVE}; {MARK}"
    if target is None:
        comments["confirmed",] = 'add target = "NAME" below this line'
    lacking = {
        name: _UNLABELLED if name == target else _PROPOSED
        for name, look in looks.items()
        if look.n_present < rows.n_rows and proposals[name].column.feature_names
    }
    heading = _HEADING if step == 1 else (*_HEADING, "", f"One row in {step} was looked at: others may say more.")
    as_row = [name for place, name in enumerate(looks) if name != str(place) and name in (looks[name].counts or ())]
    if as_row or likely_cause(table.column_names):
        heading = (*heading, "", _HEADLESS)
    return toml_text(entries, heading=heading, comments=comments, proposals=lacking)


def _propose(look: Look) -> _Proposal:
    name, numbers, counts = look.name, look.numbers, look.counts
    is_coded = counts is not None and len(counts) <= _MOST_CODES
    if look.unreadable:
        return _Proposal(IgnoredColumn(name), look.unreadable)
    if look.is_target:
        if look.n_present == 0:
            raise TableError(f"the target column {name!r} holds no value. Choose another target.")
    elif look.is_dated:
        return _propose_for_days(look) if look.days else _Proposal(IgnoredColumn(name), "no value")
    elif counts is not None and len(counts) < 2:
        return _Proposal(IgnoredColumn(name), "one value at most")
    elif _UNNAMED.fullmatch(name):
        return _Proposal(IgnoredColumn(name), "numbers or names of rows?")
    elif _NAMING.fullmatch(name) and not is_coded and (numbers is None or numbers.whole):
        return _Proposal(IgnoredColumn(name), "whose row is it? See unit above")
    elif look.days and (numbers is None or _may_be_days(look, numbers)):
        return _propose_for_days(look)
    elif look.has_unread_dates:
        why = "dates with two digits of the year or a name of the month? Write them as 2020-12-31"
        return _Proposal(IgnoredColumn(name), why)
    elif look.words and look.rest.rows.size and not is_coded:
        low, high = round_outward(look.rest.low, look.rest.high)
        words = ", ".join(toml_value(word) for word in sorted(look.words))
        why = f'missing = ["", {words}] in [table], and here type = "numeric" and bounds = [{low:g}, {high:g}]'
        return _Proposal(IgnoredColumn(name), f"numbers but for {words}? Then write {why}")
    elif not look.repeats and look.n_present >= _FEWEST_FOR_IDENTIFIER and numbers is None:
        return _Proposal(IgnoredColumn(name), "no value repeats: identifiers?")
    if counts is not None and {text.lower() for text in counts} <= {"true", "false"}:
        return _Proposal(CategoricalColumn(name, categories=(False, True)))
    if numbers is not None:
        return _propose_for_numbers(look, numbers)
    if counts is None and not look.is_target:
        return _Proposal(IgnoredColumn(name), f"text of more than {MOST_CATEGORIES} values")
    if counts is None:
        raise TableError(
            f"the target column {name!r} holds more than {MOST_CLASSES} different texts. Choose another target, or "
            "leave it out of the draft and write its categories yourself."
        )
    alike = {text.casefold() for text in counts}
    note = 'some differ in case alone: aliases = {"yes" = "Yes"} reads them as one' if len(alike) < len(counts) else ""
    return _Proposal(CategoricalColumn(name, categories=tuple(sorted(counts))), note)


def _may_be_days(look: Look, numbers: Numbers) -> bool:
    return look.notation is None and numbers.whole and _DAYS[0] <= numbers.low and numbers.high <= _DAYS[1]


def _propose_for_days(look: Look) -> _Proposal:
    """Return a column of dates between the first day of the first year and the last day of the last one."""
    form, days = next(iter(look.days.items()))
    first, last = (int(str(np.datetime64(int(day), "D"))[:4]) for day in days)
    notes = ['dates; period = "month", or part = "weekday" without bounds, reads them otherwise']
    if len(look.days) > 1:
        notes.append(f"day or month first? {' or '.join(map(repr, look.days))}")
    bounds = datetime.date(first, 1, 1), datetime.date(last, 12, 31)
    return _Proposal(DateColumn(look.name, bounds=bounds, format=form), "; ".join(notes))


def _propose_for_numbers(look: Look, numbers: Numbers) -> _Proposal:
    name, low, high, n_rows = look.name, numbers.low, numbers.high, look.n_present
    written = {} if look.notation is None else look.notation.entries()
    marks = ", ".join(f'{key} = "{mark}"' for key, mark in written.items())
    note = f"is a comma or point one of decimals or of thousands? read with {marks}" if look.is_ambiguous else ""
    if numbers.whole and look.notation is None and look.counts is not None:
        spellings = [float(text) for text in look.counts if math.isfinite(float(text))]
        codes = tuple(sorted(set(map(int, spellings))))
        enough = len(spellings) <= 2 or n_rows >= _ROWS_PER_CODE * len(spellings)
        if len(codes) > 1 and len(spellings) <= _MOST_CODES and enough:
            return _Proposal(CategoricalColumn(name, categories=codes), "whole numbers of few values: codes?")
    if numbers.whole and not look.is_target and n_rows >= _FEWEST_FOR_IDENTIFIER and look.may_be_names:
        note = f'{note}{"; " * bool(note)}identifiers? Then type = "ignore"; or whose row it is? See unit above'
    if code := _missing_code(numbers):
        note = (
            f'{note}{"; " * bool(note)}{code}: a code of missing values? Then write missing = ["", "{code}"] in [table]'
        )
    bounds = round_outward(low, high)
    if not look.is_target and low >= 0 and high - low > _SKEW * (numbers.median - low + 1):
        skewed = f"very skewed; {note}" if note else "very skewed"
        return _Proposal(NumericColumn(name, bounds=bounds, scale="log", **written), skewed)  # type: ignore[arg-type]
    return _Proposal(NumericColumn(name, bounds=bounds, **written), note)  # type: ignore[arg-type]


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
