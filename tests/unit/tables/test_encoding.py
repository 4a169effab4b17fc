"""Encoding: the numbers themselves, the public bound on a row, and that bad cells are named."""

import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.exceptions import SchemaError, TableError
from sottovoce.tables import (
    CategoricalColumn,
    Column,
    Encoder,
    IgnoredColumn,
    Layout,
    NumericColumn,
    Schema,
    Table,
    read_table,
)

TARGET = CategoricalColumn("y", categories=("no", "yes"), aliases=(("yes.", "yes"),))


def table_of(**columns: list[object]) -> Table:
    return Table.from_frame(pa.table(columns))


def features(column: Column, values: list[object], *, missing: tuple[str, ...] = ("",)) -> list[list[float]]:
    encoder = Encoder(Schema((column, TARGET), target="y", layout=Layout(missing=missing)))
    rows = encoder.features(table_of(**{column.name: values}))
    assert rows.shape == (len(values), len(column.feature_names))
    return (rows.toarray() if sp.issparse(rows) else rows).tolist()


def labels(column: Column, values: list[object]) -> np.ndarray:
    schema = Schema((NumericColumn("x", bounds=(0, 1)), column), target=column.name)
    return Encoder(schema).labels(table_of(**{column.name: values}))


# ----------------------------- numbers


def test_the_linear_scale_maps_the_bounds_to_one_and_clips() -> None:
    column = NumericColumn("x", bounds=(10, 30))
    assert features(column, [10, 30, 20, 15.0, -1e300, 1e300]) == [[-1], [1], [0], [-0.5], [-1], [1]]


def test_the_log_scale_starts_at_the_lower_bound() -> None:
    column = NumericColumn("x", bounds=(5, 5 + math.e**2 - 1), scale="log")
    (low,), (middle,), (high,), (beyond,) = features(column, [5, 5 + math.e - 1, 5 + math.e**2 - 1, 1e9])
    assert (low, beyond) == (-1.0, 1.0)
    assert middle == pytest.approx(0.0, abs=1e-15)
    assert high == pytest.approx(1.0, abs=1e-15)
    assert high <= 1.0


def test_an_edge_belongs_to_the_bin_above() -> None:
    column = NumericColumn("x", bounds=(0, 100), bins=(25, 50))
    assert column.feature_names == ("x<25", "25<=x<50", "x>=50")
    assert features(column, [0, 24.9, 25, 49, 50, 100, -5, 500]) == [
        [1, 0, 0],
        [1, 0, 0],
        [0, 1, 0],
        [0, 1, 0],
        [0, 0, 1],
        [0, 0, 1],
        [1, 0, 0],
        [0, 0, 1],
    ]


def test_a_missing_number_is_zero_everywhere() -> None:
    assert features(NumericColumn("x", bounds=(10, 30)), ["?", "30"], missing=("?",)) == [[0], [1]]
    assert features(NumericColumn("x", bounds=(10, 30)), [None, 30]) == [[0], [1]]
    assert features(NumericColumn("x", bounds=(10, 30), bins=(20,)), [None, 30]) == [[0, 0], [0, 1]]


def test_a_number_beyond_the_bounds_is_refused_where_the_schema_says_so() -> None:
    column = NumericColumn("x", bounds=(0, 1), outside="error")
    assert features(column, [0, 1, None]) == [[-1], [1], [0]]
    with pytest.raises(TableError, match=r"row 1, column 'x': 1\.5 lies outside the bounds \[0, 1\]\. Widen .*clip"):
        features(column, [0, 1.5, 2.5])


# ----------------------------- categories


def test_categories_are_one_hot_in_the_order_of_the_schema() -> None:
    column = CategoricalColumn("c", categories=("b", "a"), aliases=(("A.", "a"),))
    assert column.feature_names == ("c=b", "c=a")
    assert features(column, ["a", " b ", "A.", None, ""]) == [[0, 1], [1, 0], [0, 1], [0, 0], [0, 0]]


def test_a_listed_marker_is_a_category_of_its_own() -> None:
    assert features(CategoricalColumn("c", categories=("a", "?")), ["?", "a"], missing=("?",)) == [[0, 1], [1, 0]]
    assert features(CategoricalColumn("c", categories=("a",)), ["?", "a"], missing=("?",)) == [[0], [1]]


@pytest.mark.parametrize("values", [["1", "+2", "01", "2.0"], [1, 2, 1, 2], [1.0, 2.0, 1.0, 2.0]])
def test_codes_are_compared_by_value(values: list[object]) -> None:
    assert features(CategoricalColumn("c", categories=(1, 2)), values) == [[1, 0], [0, 1], [1, 0], [0, 1]]


@pytest.mark.parametrize("values", [["True", "false"], [True, False]])
def test_true_and_false_are_read_in_any_case(values: list[object]) -> None:
    assert features(CategoricalColumn("c", categories=(False, True)), values) == [[0, 1], [1, 0]]


def test_texts_are_not_compared_as_numbers() -> None:
    with pytest.raises(TableError, match=r"row 1, column 'c': '1' is not among the 1 categories"):
        features(CategoricalColumn("c", categories=("01",)), ["01", "1"])


def test_unknown_categories_are_named_with_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("c,y\nred,no\n\ngren,no\nblue,yes\n gren,yes\npink,no\n")
    schema = Schema((CategoricalColumn("c", categories=("red", "green")), TARGET), target="y")
    message = (
        r"t\.csv, line 4, column 'c': 'gren' is not among the 2 categories of the schema "
        r"\(and 'blue' \(line 5\), 'pink' \(line 7\)\)\. .*unknown = \"ignore\".* Did you mean 'green'\?"
    )
    with pytest.raises(TableError, match=message):
        Encoder(schema).features(read_table(path))


def test_unknown_categories_can_be_zeros_but_never_labels() -> None:
    column = CategoricalColumn("c", categories=("a", "b"), unknown="ignore")
    assert features(column, ["a", "z"]) == [[1, 0], [0, 0]]
    with pytest.raises(TableError, match=r"row 1, column 'c': 'z' is not among the 2 categories"):
        labels(column, ["a", "z"])


# ----------------------------- missing values


def test_a_missing_number_is_what_the_schema_says() -> None:
    constant = NumericColumn("x", bounds=(10, 30), missing=20)
    assert features(constant, [None, 30, 10]) == [[0], [1], [-1]]
    assert features(NumericColumn("x", bounds=(10, 30), bins=(20,), missing=10), [None, 30]) == [[1, 0], [0, 1]]
    shown = NumericColumn("x", bounds=(10, 30), missing="indicator")
    assert shown.feature_names == ("x", "x is missing")
    assert features(shown, ["?", "30", "20"], missing=("?",)) == [[0, 1], [1, 0], [0, 0]]
    binned = NumericColumn("x", bounds=(10, 30), bins=(20,), missing="indicator")
    assert binned.feature_names == ("x<20", "x>=20", "x is missing")
    assert features(binned, [None, 30]) == [[0, 0, 1], [0, 1, 0]]


def test_a_missing_category_is_what_the_schema_says() -> None:
    shown = CategoricalColumn("c", categories=("a", "b"), unknown="ignore", missing="indicator")
    assert shown.feature_names == ("c=a", "c=b", "c is missing")
    assert features(shown, ["b", None, "z", ""]) == [[0, 1, 0], [0, 0, 1], [0, 0, 0], [0, 0, 1]]
    assert features(CategoricalColumn("c", categories=("a", "b"), missing="b"), ["a", None]) == [[1, 0], [0, 1]]
    assert features(CategoricalColumn("c", categories=(0, 1), missing=1), [0, None]) == [[1, 0], [0, 1]]


def test_a_rule_for_missing_values_adds_nothing_to_the_bound_on_a_row() -> None:
    assert Encoder(Schema(LACKING, target="y")).data_norm == 2.0


# ----------------------------- labels


@pytest.mark.parametrize(
    ("categories", "cells", "kind"),
    [
        (("no", "yes"), ["yes", "no"], "U"),
        ((0, 1), ["1", "0"], "i"),
        ((-1.0, 1.0), ["+1", "-1"], "f"),
        ((False, True), ["TRUE", "false"], "b"),
    ],
)
def test_labels_have_the_type_of_the_schema(categories: tuple[str, ...], cells: list[object], kind: str) -> None:
    y = labels(CategoricalColumn("y", categories=categories), cells)
    assert y.dtype.kind == kind
    assert y.tolist() == [categories[1], categories[0]]


def test_labels_may_have_other_spellings() -> None:
    assert labels(TARGET, ["yes.", "no"]).tolist() == ["yes", "no"]


def test_labels_of_a_regression_are_refused_beyond_the_bounds_unless_clipped() -> None:
    assert labels(NumericColumn("y", bounds=(0, 10)), [0, 10, 2.5]).tolist() == [0.0, 10.0, 2.5]
    with pytest.raises(TableError, match=r"row 2, column 'y': 10\.01 lies outside the bounds \[0, 10\]"):
        labels(NumericColumn("y", bounds=(0, 10)), [0, 10, 10.01])
    assert labels(NumericColumn("y", bounds=(0, 10), outside="clip"), [-4, 99]).tolist() == [0.0, 10.0]


@pytest.mark.parametrize("column", [TARGET, NumericColumn("y", bounds=(0, 1))])
def test_a_missing_label_is_refused(column: Column) -> None:
    values = ["no", None] if column is TARGET else [0.5, None]
    with pytest.raises(TableError, match=r"row 1, column 'y': the label is missing\. Remove the row"):
        labels(column, values)


def test_an_encoder_needs_a_target() -> None:
    with pytest.raises(SchemaError, match=r'the schema names no target\. .*target="NAME"'):
        Encoder(Schema((NumericColumn("x", bounds=(0, 1)),)))


def test_a_table_without_labels_needs_no_target() -> None:
    encoder = Encoder(Schema((NumericColumn("x", bounds=(0, 1)),)), labelled=False)
    assert encoder.features(table_of(x=[0.0, 1.0])).tolist() == [[-1.0], [1.0]]


@pytest.mark.parametrize(
    ("column", "nonnegative"),
    [
        (NumericColumn("x", bounds=(0, 1)), False),
        (NumericColumn("x", bounds=(0, 9), scale="log"), False),
        (NumericColumn("x", bounds=(0, 9), bins=(3,)), True),
        (CategoricalColumn("x", categories=("u", "v")), True),
        (IgnoredColumn("x"), True),
    ],
)
def test_what_cannot_be_negative_is_told_by_the_schema(column: Column, nonnegative: bool) -> None:
    other = CategoricalColumn("z", categories=("u", "v"))
    encoder = Encoder(Schema((other, column, TARGET), target="y"))
    assert encoder.nonnegative is nonnegative
    if nonnegative:
        cells = ["u"] * 10 if isinstance(column, CategoricalColumn) else list(range(10))
        rows = encoder.features(table_of(z=["v"] * 10, x=cells))
        assert rows.min() >= 0.0


@pytest.mark.parametrize(
    ("values", "identifiers"),
    [
        ([" a", "b ", "", "?", None], ["a", "b", None, None, None]),
        ([17, 4, None], [17.0, 4.0, None]),
        ([17, 4], [17, 4]),
    ],
)
def test_identifiers_are_texts_without_outer_space_or_as_they_were(
    values: list[object], identifiers: list[object]
) -> None:
    assert table_of(x=values).cells("x").identifiers(("?", "")).to_pylist() == identifiers


# ----------------------------- rows

COLUMNS = (
    NumericColumn("a", bounds=(-1, 3)),
    NumericColumn("b", bounds=(0, 1000), scale="log"),
    IgnoredColumn("skip"),
    NumericColumn("c", bounds=(0, 10), bins=(2, 5)),
    CategoricalColumn("d", categories=("u", "v", "w"), unknown="ignore"),
    TARGET,
)
LACKING = (
    NumericColumn("a", bounds=(-1, 3), missing="indicator"),
    NumericColumn("b", bounds=(0, 1000), scale="log", missing=7),
    NumericColumn("c", bounds=(0, 10), bins=(2, 5), missing="indicator"),
    CategoricalColumn("d", categories=("u", "v", "w"), unknown="ignore", missing="indicator"),
    TARGET,
)


def test_a_row_is_its_columns_side_by_side_and_other_columns_do_not_matter() -> None:
    encoder = Encoder(Schema(COLUMNS, target="y"))
    assert encoder.feature_names == ("a", "b", "c<2", "2<=c<5", "c>=5", "d=u", "d=v", "d=w")
    assert encoder.data_norm == 2.0
    table = table_of(d=["w"], b=[1000], a=[1], c=[5], other=["x"])
    assert encoder.features(table).tolist() == [[0, 1, 0, 0, 1, 0, 0, 1]]
    assert encoder.features(table, dtype=np.float32).dtype == np.float32


def test_a_missing_column_is_refused_at_prediction_and_the_target_is_not() -> None:
    encoder = Encoder(Schema(COLUMNS, target="y"))
    with pytest.raises(TableError, match=r"the frame: there is no column 'c' among its 3"):
        encoder.features(table_of(a=[1], b=[1], d=["u"]))
    with pytest.raises(TableError, match=r"the frame: there is no column 'y' among its 1"):
        encoder.labels(table_of(a=[1]))


@pytest.mark.parametrize("columns", [COLUMNS, LACKING])
@given(
    rows=st.lists(
        st.tuples(
            st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False)),
            st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False)),
            st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False)),
            st.one_of(st.none(), st.text(max_size=2), st.sampled_from(["u", "v", "w"])),
        ),
        min_size=1,
        max_size=20,
    )
)
@settings(max_examples=100, deadline=None)
def test_no_data_break_the_bound_on_a_row(
    columns: tuple[Column, ...], rows: list[tuple[float | None, float | None, float | None, str | None]]
) -> None:
    encoder = Encoder(Schema(columns, target="y"))
    types = [pa.float64(), pa.float64(), pa.float64(), pa.string()]
    cells = [pa.array(values, kind) for values, kind in zip(zip(*rows, strict=True), types, strict=True)]
    X = encoder.features(Table.from_frame(pa.table(cells, names=["a", "b", "c", "d"])))
    assert np.abs(X).max() <= 1.0
    assert np.linalg.norm(X, axis=1).max() <= encoder.data_norm


def test_a_row_depends_on_its_own_cells_only() -> None:
    encoder = Encoder(Schema(COLUMNS, target="y"))
    cells = {"a": [1, 2, -1], "b": [0, 500, 20], "c": [1, 3, 9], "d": ["u", "x", "w"]}
    together = encoder.features(table_of(**cells))
    for row in range(3):
        alone = encoder.features(table_of(**{name: values[row : row + 1] for name, values in cells.items()}))
        assert alone.tolist() == [together[row].tolist()]


def test_wide_rows_are_sparse_and_equal_to_dense_ones() -> None:
    codes = tuple(f"k{code}" for code in range(40))
    wide = CategoricalColumn("w", categories=codes)
    encoder = Encoder(Schema((*COLUMNS, wide), target="y"))
    table = table_of(a=[1, 3], b=[0, 1000], c=[None, 9], d=["u", "v"], w=["k0", "k39"])
    X = encoder.features(table)
    assert sp.issparse(X)
    narrow = Encoder(Schema(COLUMNS, target="y")).features(table)
    assert isinstance(narrow, np.ndarray)
    assert X.toarray()[:, :8].tolist() == narrow.tolist()
    assert X.toarray()[:, 8:].tolist() == np.eye(40)[[0, 39]].tolist()
    assert (X.data != 0.0).all()
    assert X.indices.dtype == X.indptr.dtype == np.int32
    assert X.has_canonical_format
