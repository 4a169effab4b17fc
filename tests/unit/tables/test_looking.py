"""What a draft asks of a column, where its values are too many to be counted, and wherever batches end."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.exceptions import TableError
from sottovoce.tables import CategoricalColumn, IgnoredColumn, NumericColumn, Schema, Table, draft_schema, open_table
from sottovoce.tables.looking import Look, Numbers

N_ROWS = 3000


@pytest.fixture
def few_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sottovoce.tables.looking._MOST_HELD", 150)
    monkeypatch.setattr("sottovoce.tables.looking._FEWEST_HELD", 150)


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


@pytest.mark.usefixtures("few_are_held")
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_columns_of_many_values_are_described_from_what_is_kept_of_them(tmp_path: Path, kind: str) -> None:
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
        ("name", "hardly a value repeats: identifiers?"),
        ("twice", "text of more than 100 values"),
        ("number", "row numbers?"),
        ("late", "hardly a value repeats: identifiers?"),
    ):
        assert f'[columns.{name}]\ntype = "ignore" # {note}' in text
    assert text.count('# missing = "indicator"') == 1
    whole = draft_schema(open_table(path).whole(), target="y")
    assert draft_schema(open_table(path, most_rows=64), target="y") == text == whole


@pytest.mark.usefixtures("few_are_held")
def test_the_same_draft_but_for_a_note_where_all_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bounded = draft_schema(Table.from_frame(frame()), target="y")
    monkeypatch.undo()
    assert draft_schema(Table.from_frame(frame()), target="y") == bounded.replace("hardly a value", "no value")


@pytest.mark.usefixtures("few_are_held")
def test_a_target_of_too_many_texts_is_refused() -> None:
    with pytest.raises(TableError, match=r"the target column 'name' holds more than 150 different texts"):
        draft_schema(Table.from_frame(frame()), target="name")


@pytest.mark.usefixtures("few_are_held")
@pytest.mark.parametrize("again", [0, 170])
def test_a_text_that_comes_again_later_is_found_if_it_is_among_the_first(again: int) -> None:
    look = Look("x", (), 1)
    for names in ([f"v{number}" for number in range(200)], [f"v{again}", "w"]):
        look.take(Table(pa.table({"x": names}), "t", str).cells("x"))
    assert (look.is_whole, look.n_present, look.repeats) == (False, 202, again == 0)


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(
        st.sampled_from(["1", "2", "2.5", "-3", "7e2", "inf", "nan", "NA", "x", "1_0", " 4", "", "9"]), max_size=40
    ),
    ends=st.lists(st.integers(0, 40), max_size=4),
    most=st.integers(1, 20),
)  # fmt: skip
def test_wherever_batches_end_a_column_looks_the_same(values: list[str], ends: list[int], most: int) -> None:
    def looked(cuts: list[int], most: int) -> Any:
        look = Look("x", {"NA", "", "nan"}, 1)
        look._most = most
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("sottovoce.tables.looking._FEWEST_HELD", 1)
            for lo, hi in zip([0, *cuts], [*cuts, len(values)], strict=True):
                look.take(Table(pa.table({"x": pa.array(values[lo:hi], pa.string())}), "t", str).cells("x"))
        numbers = look.numbers
        common = (look.markers, look.n_present, numbers is None)
        if numbers is not None:
            common += (numbers.n_finite, numbers.low, numbers.high, numbers.whole, numbers.are_a_range)
        return common, (look.is_whole, look.counts if look.is_whole else None)

    cuts = sorted(min(end, len(values)) for end in ends)
    assert looked(cuts, most) == looked([], most)
    assert looked(cuts, most)[0] == looked([], 1000)[0]


def test_a_median_is_exact_where_all_is_counted_and_near_where_not() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        values, counts = rng.lognormal(3, 2, 30), rng.integers(1, 9, 30)
        numbers = Numbers()
        numbers.add(values, counts)
        exact = np.median(np.repeat(values, counts))
        assert numbers.median == pytest.approx(exact, rel=0.6)  # a wide gap may be in the middle of so few
        numbers.know_all(values, counts)
        assert numbers.median == pytest.approx(exact)
    numbers = Numbers()
    values = rng.lognormal(3, 2, 100_000)
    for part in np.array_split(values, 7):
        numbers.add(part)
    assert numbers.median == pytest.approx(np.median(values), rel=0.012)


@pytest.mark.parametrize("change", [None, (5, 6), (5, 5.5), (0, -1), (99, np.inf)])
def test_row_numbers_are_told_from_numbers_like_them(change: tuple[int, float] | None) -> None:
    values = np.random.default_rng(2).permutation(100).astype(float)
    if change is not None:
        values[values == change[0]] = change[1]
    numbers = Numbers()
    numbers.add(values[:40])
    numbers.add(values[40:])
    assert numbers.are_a_range == (change is None)
