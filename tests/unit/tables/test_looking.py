"""What a draft asks of a column, in a state that is bounded: the same wherever batches end."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from sottovoce.exceptions import TableError
from sottovoce.tables import CategoricalColumn, IgnoredColumn, NumericColumn, Schema, Table, draft_schema, open_table
from sottovoce.tables.looking import Look, Numbers

N_ROWS = 3000


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


@pytest.mark.parametrize("late", ["unknown", "1,5", "1.234,5", "12 %", "", "1e400", "nan"])
@pytest.mark.parametrize("before", ["{:.6f}", "{:d}", "{:d}.234", "20{:02d}-01-17", "person {:d}", "1{:05d},5"])
def test_a_last_cell_says_the_same_wherever_batches_end(tmp_path: Path, before: str, late: str) -> None:
    cells = [before.format(row if "d" in before else row / 7) for row in range(1500)]
    path = tmp_path / "t.csv"
    pd.DataFrame({"x": [*cells, late], "z": np.arange(1501) / 7}).to_csv(path, index=False)
    whole = draft_schema(open_table(path).whole())
    assert draft_schema(open_table(path, most_rows=100)) == whole


def test_what_is_kept_of_a_column_does_not_grow_with_its_rows() -> None:
    rng = np.random.default_rng(3)
    looks = {name: Look(name, {""}, is_target=False, most_seen=500) for name in ("id", "x", "y")}
    for start in range(0, 100_000, 10_000):
        x, ids = rng.normal(size=10_000), [f"visit {row}" for row in range(start, start + 10_000)]
        table = Table(pa.table({"id": ids, "x": x.astype(str), "y": x}), "t", str)
        for name, look in looks.items():
            look.add(table.cells(name))
            held = [look.counts or (), look._seen, *(numbers._sample for numbers in look.written.values())]
            assert all(len(one) <= 8192 for one in held)
    assert [look.n_present for look in looks.values()] == [100_000] * 3
    assert (looks["id"].repeats, looks["id"].numbers) == (False, None)
    as_texts, as_numbers = (looks[name].written[None] for name in ("x", "y"))
    assert abs(as_texts.median) < 0.05
    assert (as_texts.median, as_texts.mixed) == (as_numbers.median, as_numbers.mixed)


def test_a_target_of_too_many_texts_is_refused() -> None:
    names = [f"person {row}" for row in range(20_001)]
    with pytest.raises(TableError, match=r"the target column 'name' holds more than 20000 different texts"):
        draft_schema(Table.from_frame(pd.DataFrame({"name": names, "x": 1})), target="name")


def looked(*texts: str | None) -> Look:
    look = Look("x", {"NA", "", "nan"}, is_target=False)
    look.add(Table(pa.table({"x": pa.array(texts, pa.string())}), "t", str).cells("x"))
    return look


def test_markers_are_no_values_and_every_spelling_of_a_number_is_one() -> None:
    look = looked("1", " 4", "NA", "7e2", "inf", None, "1", "", "1_0")
    assert (look.occurring, look.n_present, look.repeats) == ({"NA", ""}, 6, True)
    assert look.counts == {"1": 2, "4": 1, "7e2": 1, "inf": 1, "1_0": 1}
    numbers = look.written[None]
    assert (numbers.low, numbers.high, numbers.whole, numbers.median) == (1.0, 700.0, True, 4.0)
    assert not numbers.are_a_range
    assert looked("1", "x").numbers is looked("inf", "nan").numbers is looked().numbers is None


@pytest.mark.parametrize("change", [None, (5, 6), (5, 5.5), (0, -1), (99, np.inf)])
def test_row_numbers_are_told_from_numbers_like_them(change: tuple[int, float] | None) -> None:
    values = np.random.default_rng(2).permutation(100).astype(float)
    if change is not None:
        values[values == change[0]] = change[1]
    numbers = Numbers()
    for part in np.split(values, 4):
        numbers.add(part)
    assert numbers.are_a_range == (change is None)
