"""Encoding: each cell becomes what the schema says of it, by itself and within public bounds, or it is named."""

import itertools
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.exceptions import SchemaError, TableError
from sottovoce.tables import CategoricalColumn, Column, IgnoredColumn, Layout, NumericColumn, Schema, Table, read_table

TARGET = CategoricalColumn("y", categories=("no", "yes"), aliases=(("yes.", "yes"),))
MARKERS = ("?", "", "30")  # among numbers this one is missing, too
NUMERIC = [
    NumericColumn("x", bounds=(-1, 3)),
    NumericColumn("x", bounds=(0, 1), outside="error"),
    NumericColumn("x", bounds=(5, 5 + math.e**2), scale="log"),
    NumericColumn("x", bounds=(0, 10), bins=(2, 5)),
    NumericColumn("x", bounds=(10, 30), missing=20),
    NumericColumn("x", bounds=(0, 1000), scale="log", missing="indicator"),
    NumericColumn("x", bounds=(0, 10), bins=(2, 5, 7.5), missing="indicator"),
    NumericColumn("x", bounds=(0, 10), bins=(2,), missing=2),
]
CATEGORICAL = [
    CategoricalColumn("x", categories=("b", "a"), aliases=(("A.", "a"),)),
    CategoricalColumn("x", categories=("a", "?"), unknown="ignore"),
    CategoricalColumn("x", categories=("01",)),
    CategoricalColumn("x", categories=("a", "b"), unknown="ignore", missing="indicator"),
    CategoricalColumn("x", categories=("a", "b"), unknown="ignore", missing="b"),
    CategoricalColumn("x", categories=(1, 2), unknown="ignore"),
    CategoricalColumn("x", categories=(0, 1), missing=1, unknown="ignore"),
    CategoricalColumn("x", categories=(False, True), unknown="ignore"),
    CategoricalColumn("x", categories=(1.5, 2.0), unknown="ignore"),
]
TEXTS = [None, "", "?", " ? ", "a", " b ", "A.", "z", "1", "+2", "01", " 2.0", "0", "True", "fAlse"]
NUMBERS = [None, -1.0, 0.0, 1.0, 2.0, 5.0, 5.5, 10.0, 30.0, 1e3, -1e300, 1e300]
TYPED = {
    bool: [(pa.bool_(), [None, False, True])], int: [(pa.int64(), [None, 0, 1, 2, 30]), (pa.float64(), NUMBERS)],
    float: [(pa.float64(), [1.5, *NUMBERS])], str: [],
}  # fmt: skip


def expected(column: Column, cell: Any) -> list[float] | None:
    """Return the features of one cell, said as plainly as can be; None where it is refused."""
    text = cell.strip() if isinstance(cell, str) else cell
    row = [0.0] * len(column.feature_names)
    if isinstance(column, NumericColumn):
        is_missing, value = text in (None, 30, *MARKERS), None
    else:
        assert isinstance(column, CategoricalColumn)
        value = category(column, text)
        is_missing = value is None and text in (None, 30, *MARKERS)
    if is_missing:
        if column.missing == "indicator":
            row[-1] = 1.0
        if column.missing in (None, "indicator"):
            return row
        value = column.missing
    if isinstance(column, CategoricalColumn):
        if value is not None:
            row[column.categories.index(value)] = 1.0
        return row if value is not None or column.unknown == "ignore" else None
    number, (low, high) = float(text if value is None else value), column.bounds
    if column.outside == "error" and not low <= number <= high:
        return None
    number = min(max(number, low), high)
    if column.bins is not None:
        row[sum(edge <= number for edge in column.bins)] = 1.0
    elif column.scale == "log":
        row[0] = 2.0 * math.log1p(number - low) / math.log1p(high - low) - 1.0
    else:
        row[0] = 2.0 * (number - low) / (high - low) - 1.0
    return row


def category(column: CategoricalColumn, text: Any) -> Any:
    """Return the category that a text stands for, or None."""
    value = text
    if isinstance(column.categories[0], bool):
        value = {"true": True, "false": False}.get(str(text).lower())
    elif isinstance(column.categories[0], int | float):
        try:
            value = float(text)
        except (ValueError, TypeError):
            value = None
    return value if value in column.categories else dict(column.aliases).get(text)


def features(columns: tuple[Column, ...], cells: dict[str, pa.Array]) -> np.ndarray:
    rows = Schema((*columns, TARGET), target="y", layout=Layout(missing=MARKERS)).features(
        Table.from_frame(pa.table(cells))
    )
    return rows.toarray() if sp.issparse(rows) else rows


@pytest.mark.parametrize(
    ("column", "cells"),
    [(column, [*NUMBERS, "?", " 7.25 "]) for column in NUMERIC] + [(column, TEXTS) for column in CATEGORICAL],
)
@given(data=st.data(), typed=st.booleans())
@settings(max_examples=20)
def test_each_cell_becomes_what_the_schema_says(column: Column, cells: list[Any], typed: bool, data: Any) -> None:
    """Typed numbers and texts alike."""
    kinds = TYPED[type(getattr(column, "categories", (0.5,))[0])] if typed else []
    kind, values = data.draw(st.sampled_from(kinds or [(pa.string(), cells)]))
    some = data.draw(st.lists(st.sampled_from(values), min_size=1, max_size=12))
    written = [f"{cell:g}" if isinstance(cell, float) else cell for cell in some] if kind == pa.string() else some
    wanted = [expected(column, cell) for cell in some]
    if None in wanted:
        with pytest.raises(TableError, match=rf"the frame, row {wanted.index(None)}, column 'x': .*(outside|among)"):
            features((column,), {"x": pa.array(written, kind)})
    else:
        found = features((column,), {"x": pa.array(written, kind)})
        np.testing.assert_allclose(found, np.array(wanted, float), rtol=0, atol=1e-12)
        assert np.abs(found).max() <= 1.0


def test_features_are_named() -> None:
    named = {
        NUMERIC[0]: ("x",), NUMERIC[5]: ("x", "x is missing"), NUMERIC[6]: ("x<2", "2<=x<5", "5<=x<7.5", "x>=7.5",
        "x is missing"), CATEGORICAL[0]: ("x=b", "x=a"), CATEGORICAL[3]: ("x=a", "x=b", "x is missing"),
        CATEGORICAL[7]: ("x=false", "x=true"), IgnoredColumn("x"): (),
    }  # fmt: skip
    assert {column: column.feature_names for column in named} == named


# ----------------------------- rows


def renamed(columns: list[Column]) -> tuple[Column, ...]:
    return tuple(replace(column, name=f"x{place}") for place, column in enumerate(columns))


NARROW = renamed([NUMERIC[0], NUMERIC[2], NUMERIC[3], CATEGORICAL[1]])
LACKING = renamed([NUMERIC[5], NUMERIC[6], NUMERIC[4], CATEGORICAL[3], CATEGORICAL[4]])
WIDE = (*NARROW, CategoricalColumn("w", categories=tuple(f"k{code}" for code in range(40)), unknown="ignore"))


@pytest.mark.parametrize("columns", [NARROW, LACKING, WIDE], ids=["narrow", "lacking", "wide"])
@given(data=st.data())
@settings(max_examples=30)
def test_a_row_is_its_cells_side_by_side_and_within_its_bound(columns: tuple[Column, ...], data: Any) -> None:
    numbers = st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False))
    texts = st.one_of(st.none(), st.text(max_size=2), st.sampled_from(["a", "b", "k0", "k39"]))
    kinds = [(numbers, pa.float64()) if isinstance(one, NumericColumn) else (texts, pa.string()) for one in columns]
    rows = data.draw(st.lists(st.tuples(*(cells for cells, _ in kinds)), min_size=1, max_size=8))
    cells = [pa.array(own, kind) for own, (_, kind) in zip(zip(*rows, strict=True), kinds, strict=True)]
    table = Table.from_frame(pa.table([*cells, cells[0]], names=[*(one.name for one in columns), "further"]))
    schema = Schema((IgnoredColumn("further"), *columns, TARGET), target="y", layout=Layout(missing=MARKERS))
    X = schema.features(table)
    assert sp.issparse(X) == (columns is WIDE)
    if sp.issparse(X):
        assert (X.data != 0.0).all() and X.has_canonical_format and X.indices.dtype == X.indptr.dtype == np.int32
        X = X.toarray()
    each = [[expected(column, cell) or [] for column, cell in zip(columns, row, strict=True)] for row in rows]
    np.testing.assert_allclose(X, [list(itertools.chain(*row)) for row in each], rtol=0, atol=1e-12)
    assert schema.data_norm == len(columns) ** 0.5
    assert np.linalg.norm(X, axis=1).max() <= schema.data_norm
    assert X.min() >= (0.0 if schema.nonnegative else -1.0)


@pytest.mark.parametrize("column", [*NUMERIC, *CATEGORICAL, IgnoredColumn("x")])
def test_what_cannot_be_negative_is_told_by_the_schema(column: Column) -> None:
    schema = Schema((CategoricalColumn("z", categories=("u", "v")), column, TARGET), target="y")
    assert schema.nonnegative == (not isinstance(column, NumericColumn) or column.bins is not None)


def test_the_type_of_entries_and_columns_that_are_lacking() -> None:
    schema = Schema(NARROW, target=None)
    table = Table.from_frame(pa.table({"x0": [1.0], "x1": [6.0], "x3": ["a"]}))
    with pytest.raises(TableError, match=r"the frame: there is no column 'x2' among its 3"):
        schema.features(table)
    whole = Table.from_frame(pa.table({"x0": [1.0], "x1": [6.0], "x2": [4], "x3": ["a"]}))
    assert schema.features(whole, dtype=np.float32).dtype == np.float32
    with pytest.raises(SchemaError, match=r'the schema names no target\. .*target="NAME"'):
        schema.labels(whole)


def test_unknown_categories_are_named_with_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("c,y\nred,no\n\ngren,no\nblue,yes\n gren,yes\npink,no\n")
    schema = Schema((CategoricalColumn("c", categories=("red", "green")), TARGET), target="y")
    message = (
        r"t\.csv, line 4, column 'c': 'gren' is not among the 2 categories of the schema "
        r"\(and 'blue' \(line 5\), 'pink' \(line 7\)\)\. .*unknown = \"ignore\".* Did you mean 'green'\?"
    )
    with pytest.raises(TableError, match=message):
        schema.features(read_table(path))


# ----------------------------- labels

LABELS = [
    (TARGET, ["yes.", "no", "yes"], ["yes", "no", "yes"], "U"),
    (CategoricalColumn("y", categories=(0, 1)), ["1", " +0"], [1, 0], "i"),
    (CategoricalColumn("y", categories=(-1.0, 1.0)), ["+1", "-1"], [1.0, -1.0], "f"),
    (CategoricalColumn("y", categories=(False, True)), ["TRUE", "false"], [True, False], "b"),
    (NumericColumn("y", bounds=(0, 10)), [0, 10, 2.5], [0.0, 10.0, 2.5], "f"),
    (NumericColumn("y", bounds=(0, 10), outside="clip"), [-4, 99], [0.0, 10.0], "f"),
]


@pytest.mark.parametrize(("column", "cells", "labels", "kind"), LABELS)
def test_labels_have_the_type_of_the_schema(column: Column, cells: list[Any], labels: list[Any], kind: str) -> None:
    schema = Schema((NumericColumn("x", bounds=(0, 1)), column), target="y")
    y = schema.labels(Table.from_frame(pa.table({"y": cells})))
    assert (y.dtype.kind, y.tolist()) == (kind, labels)
    wrong = [
        (None, r"row 2, column 'y': the label is missing\. Remove the row"),
        ("z", r"row 2, column 'y': 'z' is not among the 2 categories"),
    ]
    if isinstance(column, NumericColumn):
        wrong[1:] = [] if column.outside == "clip" else [(10.01, r"row 2, column 'y': 10\.01 lies outside the bounds")]
    for cell, message in wrong:
        with pytest.raises(TableError, match=message):
            schema.labels(Table.from_frame(pa.table({"y": [*cells[:2], cell]})))
    with pytest.raises(TableError, match=r"the frame: there is no column 'y' among its 1"):
        schema.labels(Table.from_frame(pa.table({"a": [1]})))


@pytest.mark.parametrize(
    ("values", "identifiers"),
    [
        ([" a", "b ", "", "?", None], ["a", "b", None, None, None]),
        ([17, 4, None], [17.0, 4.0, None]), ([17, 4], [17, 4]), ([17, 30], [17, None]),
    ],
)  # fmt: skip
def test_identifiers_are_texts_without_outer_space_or_as_they_were(values: list[Any], identifiers: list[Any]) -> None:
    assert Table.from_frame(pa.table({"x": values})).cells("x").identifiers(MARKERS).to_pylist() == identifiers
