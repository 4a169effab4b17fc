"""What a draft asks of a column, and of which rows of a large table."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from sottovoce.exceptions import TableError
from sottovoce.tables import (
    CategoricalColumn,
    IgnoredColumn,
    NumericColumn,
    Schema,
    Table,
    draft_schema,
    looking,
    open_table,
)
from sottovoce.tables.looking import Look

N_ROWS = 3000
MARKERS = {"NA", "", "nan"}


def frame() -> pd.DataFrame:
    rng, rows = np.random.default_rng(0), np.arange(N_ROWS)
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
    frame().to_csv(path, index=False) if kind == "csv" else frame().to_parquet(path)
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
        ("late", 'numbers but for "unknown"? Then write missing = ["", "unknown"]'),
    ):
        assert f'[columns.{name}]\ntype = "ignore" # {note}' in text
    assert text.count('# missing = "indicator"') == 1
    whole = draft_schema(open_table(path).whole(), target="y")
    assert draft_schema(open_table(path, most_rows=64), target="y") == text == whole


def test_of_a_large_table_some_rows_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame().to_csv(tmp_path / "t.csv", index=False)
    whole = open_table(tmp_path / "t.csv").whole()
    small = schema_of(draft_schema(whole, target="y"), tmp_path)
    for name, most in (("_MOST_ROWS", 1000), ("_MOST_BYTES", 120_000)):
        monkeypatch.setattr(looking, name, most)
        seen, step = looking.looked_at(whole)
        assert step == 4 and abs(seen.n_rows - N_ROWS / step) < 3
        places = np.array([int(one.removeprefix("person ")) for one in seen.data["name"].to_pylist()])
        assert (np.diff(places) > 0).all()
        assert all(len(np.unique(places % period)) == period for period in (2, 3, 4, 7, 74))  # none is missed
        for most_rows in (64, 700):
            rows, again = looking.looked_at(open_table(tmp_path / "t.csv", most_rows=most_rows))
            assert again == step and rows.data.equals(seen.data)
        text = draft_schema(whole, target="y")
        assert f"# One row in {step} was looked at" in text
        schema = schema_of(text, tmp_path)
        one_cell = ("nearly", "late")  # which may not be seen
        assert all(type(schema[one]) is type(small[one]) for one in small.column_names if one not in one_cell)


def test_a_target_of_too_many_texts_is_refused() -> None:
    names = [f"person {row}" for row in range(20_001)]
    with pytest.raises(TableError, match=r"the target column 'name' holds more than 20000 different texts"):
        draft_schema(Table.from_frame(pd.DataFrame({"name": names, "x": 1})), target="name")


def looked(*texts: str | None) -> Look:
    return Look(Table(pa.table({"x": pa.array(texts, pa.string())}), "t", str).cells("x"), MARKERS, is_target=False)


def test_markers_are_no_values_and_every_spelling_of_a_number_is_one() -> None:
    look = looked("1", " 4", "NA", "7e2", "inf", None, "1", "", "1_0")
    assert (look.occurring, look.n_present, look.repeats) == ({"NA", ""}, 6, True)
    assert look.counts == {"1": 2, "4": 1, "7e2": 1, "inf": 1, "1_0": 1}
    numbers = look.written[None]
    assert (numbers.low, numbers.high, numbers.whole, numbers.median) == (1.0, 700.0, True, 4.0)
    assert not look.are_row_numbers
    assert looked("1", "x").numbers is looked("inf", "nan").numbers is looked().numbers is None


@pytest.mark.parametrize("change", [None, (5, "6"), (5, "5.5"), (0, "-1"), (99, "inf")])
def test_row_numbers_are_told_from_numbers_like_them(change: tuple[int, str] | None) -> None:
    texts = [str(value) for value in np.random.default_rng(2).permutation(100)]
    if change is not None:
        texts[texts.index(str(change[0]))] = change[1]
    assert looked(*texts).are_row_numbers == (change is None)


def test_row_numbers_are_told_in_a_table_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a sample one number in ``step`` is there, and the first or the last may be missing."""
    monkeypatch.setattr(looking, "_MOST_ROWS", 256)
    for n_rows in range(200, 2200, 83):
        rows, step = looking.looked_at(Table.from_frame(pd.DataFrame({"x": np.arange(n_rows)})))
        assert Look(rows.cells("x"), MARKERS, is_target=False, step=step).are_row_numbers, (n_rows, step)
