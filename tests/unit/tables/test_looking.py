"""What a draft asks of a column: of its first rows, wherever batches end."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from sottovoce.exceptions import TableError
from sottovoce.tables import CategoricalColumn, IgnoredColumn, NumericColumn, Schema, Table, draft_schema, open_table
from sottovoce.tables.looking import Look, Numbers, first_rows

N_ROWS = 3000


def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = np.arange(N_ROWS)
    return pd.DataFrame(
        {
            "age": rows % 74,
            "share": rng.uniform(0.1, 0.8, N_ROWS).round(6),
            "gain": np.where(rows % 3 == 0, rng.uniform(5e4, 9e4, N_ROWS), rng.uniform(0, 2, N_ROWS)).round(6),
            "name": [f"person {row}" for row in rows],
            "twice": [f"person {row // 2}" for row in rows],
            "number": rng.permutation(rows) + 1000,
            "nearly": np.where(rows == 17, 18, rows),
            "signed": rng.normal(0, 100, N_ROWS).round(3),
            "lacking": np.where(rows % 5 == 0, "NA", rng.uniform(0, 1, N_ROWS).round(6).astype(str)),
            "late": [*map(str, rng.uniform(0, 1, N_ROWS - 1)), "unknown"],
            "y": np.where(rows % 4 == 0, "no", "yes"),
        }
    )


def schema_of(text: str, tmp_path: Path) -> Schema:
    (tmp_path / "draft.toml").write_text(text)
    return Schema.from_toml(tmp_path / "draft.toml")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_columns_of_many_values_are_described(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"t.{kind}"
    if kind == "csv":
        frame().to_csv(path, index=False)
    else:
        frame().to_parquet(path)
    text = draft_schema(open_table(path, most_rows=700), target="y")
    schema = schema_of(text, tmp_path)
    assert schema.columns == (
        NumericColumn("age", bounds=(0, 80)),
        NumericColumn("share", bounds=(0.1, 0.8)),
        NumericColumn("gain", bounds=(0, 90_000), scale="log"),
        IgnoredColumn("name"),
        IgnoredColumn("twice"),
        IgnoredColumn("number"),
        NumericColumn("nearly", bounds=(0, 3000)),
        NumericColumn("signed", bounds=schema["signed"].bounds),  # type: ignore[attr-defined]
        NumericColumn("lacking", bounds=(0, 1)),
        IgnoredColumn("late"),
        CategoricalColumn("y", categories=("no", "yes")),
    )
    assert schema.layout.missing == ("", "NA")
    for name, note in (
        ("name", "no value repeats: identifiers?"),
        ("twice", "text of more than 100 values"),
        ("number", "row numbers?"),
        ("late", "no value repeats: identifiers?"),
    ):
        assert f'[columns.{name}]\ntype = "ignore" # {note}' in text
    assert text.count('# missing = "indicator"') == 1
    whole = draft_schema(open_table(path).whole(), target="y")
    assert draft_schema(open_table(path, most_rows=64), target="y") == text == whole


@pytest.mark.parametrize("kind", ["csv", "parquet", "frame"])
def test_only_the_first_rows_are_looked_at_and_this_is_told(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sottovoce.tables.looking.MOST_ROWS", 1000)
    monkeypatch.setattr("sottovoce.tables.looking._FEWEST_ROWS", 1)
    path, whole = tmp_path / f"t.{kind}", frame()
    if kind == "csv":
        whole.to_csv(path, index=False)
    elif kind == "parquet":
        whole.to_parquet(path)
    told = "\n#\n# Only the first 1,000 rows of the table were looked at.\n"
    first = draft_schema(Table.from_frame(whole[:1000]), target="y")
    table = Table.from_frame(whole) if kind == "frame" else open_table(path, most_rows=300)
    found = draft_schema(table, target="y")
    assert told not in first
    assert found.count(told) == 1
    assert found.replace(told, "\n") == first


def test_a_wide_table_is_looked_at_in_fewer_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sottovoce.tables.looking._MOST_CELLS", 100)
    monkeypatch.setattr("sottovoce.tables.looking._FEWEST_ROWS", 3)
    for n_columns, n_rows in ((1, 100), (20, 5), (1000, 3)):
        table = Table(pa.table({f"x{k}": pa.array(np.arange(300)) for k in range(n_columns)}), "t", str)
        rows, are_all = first_rows(table)
        assert (rows.n_rows, are_all) == (n_rows, False)


def test_a_target_of_too_many_texts_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sottovoce.tables.drafting._MOST_CLASSES", 150)
    with pytest.raises(TableError, match=r"the target column 'name' holds more than 150 different texts"):
        draft_schema(Table.from_frame(frame()), target="name")


def test_markers_are_no_values_and_every_spelling_of_a_number_is_one() -> None:
    texts = ["1", " 4", "NA", "7e2", "inf", None, "1", "", "1_0"]
    look = Look(Table(pa.table({"x": texts}), "t", str).cells("x"), {"NA", "", "nan"})
    assert (look.markers, look.n_present, look.repeats) == ({"NA", ""}, 6, True)
    assert look.counts == {"1": 2, "4": 1, "7e2": 1, "inf": 1, "1_0": 1}
    numbers = look.numbers
    assert numbers is not None
    assert (numbers.n_distinct, numbers.low, numbers.high, numbers.whole) == (4, 1.0, 700.0, True)
    assert numbers.median == 4.0
    assert not numbers.are_a_range
    for others in (["1", "x"], ["inf", "nan"], []):
        assert Numbers.of(dict.fromkeys(others, 1)) is None


@pytest.mark.parametrize("change", [None, (5, 6), (5, 5.5), (0, -1), (99, np.inf)])
def test_row_numbers_are_told_from_numbers_like_them(change: tuple[int, float] | None) -> None:
    values = np.random.default_rng(2).permutation(100).astype(float)
    if change is not None:
        values[values == change[0]] = change[1]
    assert Numbers(values, np.ones(100, dtype=np.int64)).are_a_range == (change is None)
