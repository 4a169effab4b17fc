"""Drafts: they fit the table they were made from, mark what came from it, and cannot be trained on unconfirmed."""

import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from sottovoce.exceptions import SchemaError, TableError
from sottovoce.tables import (
    CategoricalColumn,
    Column,
    IgnoredColumn,
    Layout,
    NumericColumn,
    Schema,
    Table,
    draft_schema,
)
from sottovoce.tables.drafting import MARK, Look, looked_at, round_outward
from sottovoce.tables.reading import open_table

N_ROWS = 3000
MARKERS = {"NA", "", "nan"}
ROWS, RNG = np.arange(N_ROWS), np.random.default_rng(0)
# what a column holds, what is proposed for it, and what is said beside it
COLUMNS: dict[str, tuple[object, Column, str]] = {
    "age": (17 + ROWS % 74, NumericColumn("age", bounds=(10, 90)), ""),
    "share": (RNG.uniform(0.1, 0.8, N_ROWS).round(6), NumericColumn("share", bounds=(0.1, 0.8)), ""),
    "gain": (
        np.where(ROWS % 20, 0.5, 99_999.5), NumericColumn("gain", bounds=(0, 100_000), scale="log"), "very skewed",
    ),
    "account": (ROWS * 7 // 10 * 99, NumericColumn("account", bounds=(0, 300_000)), "identifiers? Then"),
    "visitor": (ROWS // 2 * 99, NumericColumn("visitor", bounds=(0, 200_000)), "identifiers? Then"),
    "visits": (ROWS * 9 // 20 * 99, NumericColumn("visits", bounds=(0, 200_000)), ""),
    "zip": ([f"{row % 99:05d}" for row in ROWS], NumericColumn("zip", bounds=(0, 100)), "identifiers? Then"),
    "long": (10**15 + ROWS % 99, NumericColumn("long", bounds=(1e15, 1e15 + 100)), "identifiers? Then"),
    "lacking": (
        np.where(ROWS % 5 == 0, "NA", (ROWS / N_ROWS).astype(str)), NumericColumn("lacking", bounds=(0, 1)), "",
    ),
    "endless": ([*np.linspace(0, 1, N_ROWS - 3), np.inf, -1e60, 5e-324], NumericColumn("endless", bounds=(0, 1)), ""),
    "grade": (ROWS % 5, CategoricalColumn("grade", categories=(0, 1, 2, 3, 4)), "whole numbers of few values: codes?"),
    "flag": (np.where(ROWS % 2, "true", "False"), CategoricalColumn("flag", categories=(False, True)), ""),
    "work": (
        np.array(["?", "state", "private"])[ROWS % 3], CategoricalColumn("work", categories=("private", "state")), "",
    ),
    "name": ([f"person {row}" for row in ROWS], IgnoredColumn("name"), "no value repeats: identifiers?"),
    "twice": ([f"person {row // 2}" for row in ROWS], IgnoredColumn("twice"), "text of more than 100 values"),
    "number": (RNG.permutation(ROWS) + 1000, NumericColumn("number", bounds=(1000, 4000)), "identifiers? Then"),
    "late": (
        [*map(str, ROWS / 7), "unknown"][1:], IgnoredColumn("late"), 'numbers but for "unknown"? Then write missing =',
    ),
    "constant": (["x"] * N_ROWS, IgnoredColumn("constant"), "one value at most"),
    "empty": ([""] * N_ROWS, IgnoredColumn("empty"), "one value at most"),
    "y": (np.where(ROWS % 4 == 0, "no", "yes"), CategoricalColumn("y", categories=("no", "yes")), ""),
}  # fmt: skip


def frame() -> pd.DataFrame:
    return pd.DataFrame({name: values for name, (values, _, _) in COLUMNS.items()})


def draft(data: pd.DataFrame, tmp_path: Path, **options: object) -> tuple[str, Schema]:
    text = draft_schema(Table.from_frame(data), **options)
    return text, schema_of(text, tmp_path)


def schema_of(text: str, tmp_path: Path) -> Schema:
    (tmp_path / "draft.toml").write_text(text)
    return Schema.from_toml(tmp_path / "draft.toml")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_each_kind_of_column_is_proposed(tmp_path: Path, kind: str) -> None:
    """And the draft is the same however the table is read, and reads the table that it was made from."""
    path = tmp_path / f"t.{kind}"
    frame().to_csv(path, index=False) if kind == "csv" else frame().to_parquet(path)
    text = draft_schema(open_table(path, most_rows=700), target="y")
    schema = schema_of(text, tmp_path)
    assert schema.columns == tuple(column for _, column, _ in COLUMNS.values())
    assert (schema.target, schema.layout.missing) == ("y", ("", "?", "NA"))
    for name, (_, column, note) in COLUMNS.items():
        assert f'[columns.{name}]\ntype = "{column.type_name}" # {note or MARK}' in text
    assert text.count('# missing = "indicator"') == 2
    whole = open_table(path).whole()
    assert draft_schema(open_table(path, most_rows=64), target="y") == text == draft_schema(whole, target="y")
    known = Schema(tuple(each for each in schema.columns if each.name != "endless"), target="y", layout=schema.layout)
    assert known.features(whole).shape == (N_ROWS, known.n_features)
    assert known.labels(whole).tolist() == frame()["y"].tolist()


def test_every_line_from_the_data_is_marked_and_a_draft_is_refused_until_it_is_confirmed(tmp_path: Path) -> None:
    layout = Layout(header=False, delimiter=";", missing=("", "NA"))
    text, schema = draft(frame(), tmp_path, layout=layout)
    assert schema.layout == Layout(header=False, delimiter=";", missing=("", "NA", "?"))
    assert schema.target is None
    assert text.startswith("# A draft, made by looking at the data")
    assert "as private as they are until it is confirmed" in text
    body = text[text.index("[table]") :]
    starts = [line for line in body.splitlines() if " = " in line and not line.endswith("[")]
    ends = [line for line in body.splitlines() if line.startswith("]")]
    unmarked = [line for line in starts + ends if not line.endswith(MARK)]
    assert len(starts) > 15 and unmarked == ["header = false", 'delimiter = ";"']
    with pytest.raises(SchemaError, match=r"confirmed = false"):
        schema.require_confirmed()
    schema_of(text.replace("confirmed = false", "confirmed = true"), tmp_path).require_confirmed()


@pytest.mark.parametrize("name", ["id", "ID", "user_id", "pid", "Subject", "study.patient", "customer"])
@pytest.mark.parametrize("values", [ROWS % 13, ROWS * 77 % 1000 + 0.0, [f"X{row % 40}" for row in ROWS]])
def test_a_column_that_says_whose_row_it_is_is_no_feature(tmp_path: Path, name: str, values: object) -> None:
    data = pd.DataFrame({name: values, "x": ROWS / 7, "y": np.where(ROWS % 2, "a", "b")})
    text, schema = draft(data, tmp_path, target="y")
    assert schema[name] == IgnoredColumn(name)
    assert "whose row is it? See unit above" in text and "write above the columns whose row it is: unit = " in text
    assert draft(data, tmp_path, target=name)[1][name] != IgnoredColumn(name)


@pytest.mark.parametrize("name", ["rooms_per_person", "visits per patient", "valid", "subject_score", "customer"])
def test_a_measured_number_is_a_feature_whatever_its_name_ends_in(tmp_path: Path, name: str) -> None:
    for values in (ROWS / 7, ROWS * 7 // 3 % 40)[: 1 if name == "customer" else 2]:
        data = pd.DataFrame({name: values, "y": np.where(ROWS % 2, "a", "b")})
        assert isinstance(draft(data, tmp_path, target="y")[1][name], NumericColumn)


@pytest.mark.parametrize("values", [ROWS + 1, ROWS % 5, ROWS * 7 % 3001, [f"r{row}" for row in ROWS]])
@pytest.mark.parametrize("n_rows", [3, 3000])
@pytest.mark.parametrize("name", ["", "Unnamed: 0"])
def test_a_column_without_a_name_is_no_feature(tmp_path: Path, values: Any, n_rows: int, name: str) -> None:
    """R writes names of rows so, and pandas an index; a frame that is read from the file has another name for it."""
    data = pd.DataFrame({name: values[:n_rows], "x": ROWS[:n_rows] / 7, "y": np.where(ROWS[:n_rows] % 2, "a", "b")})
    data.to_csv(tmp_path / "t.csv", index=False)
    schema = schema_of(draft_schema(open_table(tmp_path / "t.csv"), target="y"), tmp_path)
    assert schema.features(Table.from_frame(pd.read_csv(tmp_path / "t.csv"))).shape == (n_rows, 1)


def test_texts_of_many_values_are_left_out_unless_they_are_the_target(tmp_path: Path) -> None:
    data = pd.DataFrame({"x": np.linspace(0, 1, 303), "c": [f"v{row % 101}" for row in range(303)]})
    assert isinstance(draft(data, tmp_path)[1]["c"], IgnoredColumn)
    assert isinstance(draft(data, tmp_path, target="c")[1]["c"], CategoricalColumn)


def test_a_target_is_described_even_where_a_feature_would_be_left_out(tmp_path: Path) -> None:
    data = frame()
    assert draft(data, tmp_path, target="number")[1]["number"] == NumericColumn("number", bounds=(1000, 4000))
    assert draft(data, tmp_path, target="gain")[1].label_bounds == (0.0, 100_000.0)
    with pytest.raises(TableError, match=r"the target column 'empty' holds no value"):
        draft(data, tmp_path, target="empty")
    with pytest.raises(TableError, match=r"no column 'Y' among its 20 .*Did you mean 'y'"):
        draft(data, tmp_path, target="Y")


def test_a_rule_for_missing_values_is_proposed_and_says_nothing_until_somebody_takes_it(tmp_path: Path) -> None:
    data = pd.DataFrame({"x": [*np.linspace(0, 1, 30), None], "z": np.arange(31) / 7, "y": [*"ab" * 15, None]})
    text, schema = draft(data, tmp_path, target="y")
    assert schema["x"] == NumericColumn("x", bounds=(0, 1))
    proposed = [line for line in text.splitlines() if line.startswith("# missing")]
    assert len(proposed) == 1
    assert proposed[0].endswith(MARK)
    assert "# fit refuses rows without a label, and here are some" in text
    path = tmp_path / "taken.toml"
    path.write_text(text.replace("# missing", "missing"))
    assert Schema.from_toml(path)["x"] == NumericColumn("x", bounds=(0, 1), missing="indicator")


@pytest.mark.parametrize("code", ["-9", "-999", "999", "99999"])
def test_a_number_of_nines_far_from_all_others_may_be_a_code(tmp_path: Path, code: str) -> None:
    ages = np.arange(60) % 47 + 18
    asked = f'{code}: a code of missing values? Then write missing = ["", "{code}"] in [table]'
    data = pd.DataFrame({"x": [*ages, int(code)], "z": [*ages, 99]})
    text, _ = draft(data, tmp_path)
    assert text.count("a code of") == text.count(asked) == 1
    assert "a code of" not in draft(data, tmp_path, layout=Layout(missing=("", code)))[0]
    others = np.linspace(min(int(code), 0), max(int(code), 40), 400).round()  # such as degrees of frost
    assert "a code of" not in draft(pd.DataFrame({"x": others}), tmp_path)[0]


@pytest.mark.parametrize("seen", [[], ["NA"], ["?", "NA"]])
def test_what_is_to_be_missing_stands_beside_all_that_is(tmp_path: Path, seen: list[str]) -> None:
    data = pd.DataFrame({"x": [-999, *range(42)], "z": ["unknown", *seen, *range(1, 43 - len(seen))]})
    lines = re.findall(r"write (missing = .*?\]) in", draft(data, tmp_path, layout=Layout(missing=("", "none")))[0])
    proposed, known = [set(tomllib.loads(line)["missing"]) for line in lines], {"", "none", *seen}
    assert proposed == [known | {"-999"}, known | {"unknown"}]


@pytest.mark.parametrize("values", [range(17, 90), np.arange(300) / 7], ids=["few", "many"])
@pytest.mark.parametrize("words", [["unknown"], ['a "b" \\', "l\ne\x7f"], ["k. A.", "-", "ü"], [*"abcd"]])
def test_numbers_but_for_a_few_words_are_told(tmp_path: Path, values: range, words: list[str]) -> None:
    data = {"x": [*map(str, values), *words], "z": np.arange(len(values) + len(words)) / 7}
    names = [*(f"0{row}" for row in range(len(values))), *words]
    text = draft(pd.DataFrame({**data, "names": names}), tmp_path)[0]
    column = text.partition("[columns.x]\n")[2].partition("\n")[0]
    assert text.count("numbers but for") == column.count("numbers but for") == (len(words) <= 3)
    if len(words) <= 3:
        found = column.partition("Then write ")[2].replace(" in [table], and here", "\n").replace(" and ", "\n", 1)
        taken = tomllib.loads(found.partition(";")[0])
        assert (taken["type"], set(taken["missing"])) == ("numeric", {"", *words})
        assert taken["bounds"] == list(round_outward(float(min(values)), float(max(values))))


@pytest.mark.parametrize(("second", "told"), [("Yes", True), ("ÄNDERN", False), ("no", False)])
def test_texts_that_differ_in_case_alone_are_told(tmp_path: Path, second: str, told: bool) -> None:
    data = pd.DataFrame({"x": ["yes", second] * 20, "y": [*"ab"] * 20})
    assert ("some differ in case alone" in draft(data, tmp_path, target="x")[0]) == told


@pytest.mark.parametrize("classes", [["ja", "nein"], ["Ja", "Nein"], [0, 1], [True, False], ["a", "b", "c"], [1, 2, 3]])
@pytest.mark.parametrize("as_target", [True, False])
def test_a_draft_says_which_of_two_classes_the_figures_are_about(
    tmp_path: Path, classes: list[object], as_target: bool
) -> None:
    rows = pd.DataFrame({"y": [classes[row % len(classes)] for row in range(90)], "x": np.arange(90) % 50})
    text, schema = draft(rows, tmp_path, target="y" if as_target else None)
    assert (text.count("are about the last one") == 1) == (as_target and len(classes) == 2)
    assert schema.classes is None or len(schema.classes) == len(classes)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (17, 90, (10, 90)), (0, 99_999, (0, 100_000)), (0.1, 0.3, (0.1, 0.3)), (-0.31, 0.29, (-0.4, 0.3)),
        (0, 0, (-1, 1)), (-250, -250, (-400, -100)), (1e-9, 3e-9, (1e-9, 3e-9)),
    ],
)  # fmt: skip
def test_bounds_are_rounded_outward(low: float, high: float, expected: tuple[float, float]) -> None:
    rounded = round_outward(low, high)
    assert rounded == expected
    assert rounded[0] <= low <= high <= rounded[1]


@pytest.mark.parametrize("text", ["+5", "1_000.5", "\u0663.5", "\uff16", "1e3", ".5", "5.", "0x10", "1__0", "\u00a07"])
def test_what_a_draft_takes_for_a_number_a_fit_reads_as_this_number(tmp_path: Path, text: str) -> None:
    data = pd.DataFrame({"x": [text if row % 9 == 0 else str(row / 7) for row in range(200)], "z": np.arange(200) / 3})
    if isinstance(draft(data, tmp_path)[1]["x"], NumericColumn):
        assert Table.from_frame(data).cells("x").numbers(())[0][0] == float(text)


# ----------------------------- what is asked of a column, and of which rows


def test_of_a_large_table_some_rows_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame().to_csv(tmp_path / "t.csv", index=False)
    whole = open_table(tmp_path / "t.csv").whole()
    small = schema_of(draft_schema(whole, target="y"), tmp_path)
    for name, most in (("_MOST_ROWS", 1000), ("_MOST_BYTES", 120_000)):
        monkeypatch.setattr(f"sottovoce.tables.drafting.{name}", most)
        seen, step = looked_at(whole)
        assert step == 4 and abs(seen.n_rows - N_ROWS / step) < 3
        places = np.array([int(one.removeprefix("person ")) for one in seen.data["name"].to_pylist()])
        assert (np.diff(places) > 0).all()
        assert all(len(np.unique(places % period)) == period for period in (2, 3, 4, 7, 74))  # none is missed
        for most_rows in (64, 700):
            rows, again = looked_at(open_table(tmp_path / "t.csv", most_rows=most_rows))
            assert again == step and rows.data.equals(seen.data)
        text = draft_schema(whole, target="y")
        assert f"# One row in {step} was looked at" in text
        schema = schema_of(text, tmp_path)
        assert all(type(schema[one]) is type(small[one]) for one in small.column_names if one != "late")  # one cell


@pytest.mark.parametrize("is_row", [False, True])
def test_a_first_line_that_is_a_row_is_told(tmp_path: Path, is_row: bool) -> None:
    """It would be lost, and published as the names of a model's columns."""
    for first in ("2019,2020", "age,0.5", "x,no") if is_row else ("age,sick", "age,2020", "0,1"):
        (tmp_path / "t.csv").write_text(f"{first}\n" + "21,no\n35,yes\n" * 20)
        assert ("draft again with --no-header" in draft_schema(open_table(tmp_path / "t.csv"))) is is_row
        (tmp_path / "t.csv").write_text(f"{first}\n".replace(",", ";") + "2,1;no\n3,5;yes\n" * 20)
        with pytest.raises(TableError, match=r"one column\. The cells seem to be separated by ';'"):
            draft_schema(open_table(tmp_path / "t.csv"))


def test_a_target_of_too_many_texts_is_refused() -> None:
    names = [f"person {row}" for row in range(20_001)]
    with pytest.raises(TableError, match=r"the target column 'name' holds more than 20000 different texts"):
        draft_schema(Table.from_frame(pd.DataFrame({"name": names, "x": 1})), target="name")


def looked(*texts: str | None) -> Look:
    return Look(Table(pa.table({"x": pa.array(texts, pa.string())}), "t", str).cells("x"), MARKERS, is_target=False)


def test_markers_are_no_values_and_every_spelling_of_a_number_is_one() -> None:
    look = looked("1", " 4", "NA", "7e2", "inf", None, "1", "", "+10")
    assert (look.occurring, look.n_present, look.repeats) == ({"NA", ""}, 6, True)
    assert look.counts == {"1": 2, "4": 1, "7e2": 1, "inf": 1, "+10": 1}
    numbers = look.written[None]
    assert (numbers.low, numbers.high, numbers.whole, numbers.median) == (1.0, 700.0, True, 4.0)
    assert looked("1", "x").numbers is looked("inf", "nan").numbers is looked().numbers is None
