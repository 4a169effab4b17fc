"""Draft a schema from a table: a start for the person who confirms it from public knowledge, and private until then.

A draft is made by looking at the data, so what it says about them (types, bounds, categories) is a release without any
privacy. Each such line is marked, and the draft says ``confirmed = false``, which ``sottovoce fit`` refuses.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

import numpy as np

from sottovoce.exceptions import TableError
from sottovoce.tables._missing import INDICATOR
from sottovoce.tables._toml import toml_text
from sottovoce.tables.categorical import CategoricalColumn
from sottovoce.tables.column import Column, IgnoredColumn
from sottovoce.tables.layout import Layout
from sottovoce.tables.numeric import NumericColumn
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
_FEWEST_FOR_IDENTIFIER = 20
_SKEW = 20.0


@dataclass(frozen=True, slots=True)
class _Proposal:
    """The description of a column, and why it is not the obvious one."""

    column: Column
    note: str = ""


def draft_schema(table: Table, *, target: str | None = None, layout: Layout | None = None) -> str:
    """Return the text of a schema file that fits a table, with every line taken from the data marked.

    Columns of numbers become numeric, with bounds rounded outward; whole numbers of at most 12 values, and texts,
    become categorical. Row numbers, texts that never repeat or have more than 100 values, and columns with one value
    or none are left out.

    Parameters
    ----------
    table : Table
        Private. The table to look at.
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
    columns = {name: _distinct(table.cells(name)) for name in table.column_names}
    seen = [
        marker
        for marker in _USUAL_MISSING
        if marker not in layout.missing and any(marker in counts for counts in columns.values())
    ]
    layout = replace(layout, missing=(*layout.missing, *seen))
    proposals = {
        name: _propose(
            name,
            {text: count for text, count in counts.items() if text not in layout.missing},
            is_target=name == target,
        )
        for name, counts in columns.items()
    }
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
        for name, counts in columns.items()
        if name != target and proposals[name].column.feature_names and _n_present(counts, layout.missing) < table.n_rows
    }
    return toml_text(entries, heading=_HEADING, comments=comments, proposals=lacking)


def _n_present(counts: Mapping[str, int], missing: Collection[str]) -> int:
    return sum(count for text, count in counts.items() if text not in missing)


def _distinct(cells: Cells) -> dict[str, int]:
    """Return how often each distinct text of a column occurs, without nulls."""
    texts, numbers = cells.spelled()
    counts = np.bincount(numbers, minlength=len(texts)).tolist()
    return {text: count for text, count in zip(texts, counts, strict=True) if text is not None}


def _propose(name: str, counts: Mapping[str, int], *, is_target: bool) -> _Proposal:
    """Describe a column by the distinct values that are not missing."""
    n_rows = sum(counts.values())
    if not is_target:
        if len(counts) < 2:
            return _Proposal(IgnoredColumn(name), "one value at most")
        if len(counts) == n_rows >= _FEWEST_FOR_IDENTIFIER and not _all_numbers(counts):
            return _Proposal(IgnoredColumn(name), "no value repeats: identifiers?")
    elif not counts:
        raise TableError(f"the target column {name!r} holds no value. Choose another target.")
    if {text.lower() for text in counts} <= {"true", "false"}:
        return _Proposal(CategoricalColumn(name, categories=(False, True)))
    if _all_numbers(counts):
        return _propose_for_numbers(name, counts, n_rows, is_target=is_target)
    if len(counts) > _MOST_CATEGORIES and not is_target:
        return _Proposal(IgnoredColumn(name), f"text of more than {_MOST_CATEGORIES} values")
    return _Proposal(CategoricalColumn(name, categories=tuple(sorted(counts))))


def _propose_for_numbers(name: str, counts: Mapping[str, int], n_rows: int, *, is_target: bool) -> _Proposal:
    counts = {text: count for text, count in counts.items() if math.isfinite(float(text))}
    values = np.array([float(text) for text in counts])
    low, high = float(values.min()), float(values.max())
    whole = bool(np.all(values == np.round(values)))
    if whole and len(counts) <= _MOST_CODES and (len(counts) <= 2 or n_rows >= _ROWS_PER_CODE * len(counts)):
        codes = tuple(sorted({int(value) for value in values}))
        if len(codes) > 1:
            return _Proposal(CategoricalColumn(name, categories=codes), "whole numbers of few values: codes?")
    if whole and not is_target and len(counts) == n_rows == high - low + 1 >= _FEWEST_FOR_IDENTIFIER:
        return _Proposal(IgnoredColumn(name), "row numbers?")
    bounds = round_outward(low, high)
    median = float(np.median(np.repeat(values, list(counts.values()))))
    if not is_target and low >= 0 and high - low > _SKEW * (median - low + 1):
        return _Proposal(NumericColumn(name, bounds=bounds, scale="log"), "very skewed")
    return _Proposal(NumericColumn(name, bounds=bounds))


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


def _all_numbers(texts: Iterable[str]) -> bool:
    """Return whether all texts are numbers, at least one of them finite."""
    try:
        return any(math.isfinite(number) for number in [float(text) for text in texts])
    except ValueError:
        return False
