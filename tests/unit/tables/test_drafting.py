"""Drafts: they fit the table they were made from, mark what came from it, and cannot be trained on unconfirmed."""

import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

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
    draft_schema,
)
from sottovoce.tables.drafting import MARK, round_outward


def frame(n_rows: int = 100) -> pd.DataFrame:
    rows = np.arange(n_rows)
    return pd.DataFrame(
        {
            "age": 17 + rows % 74,
            "share": 0.13 + 0.0058 * rows,
            "gain": np.where(rows % 20 == 0, 99_999.0, 0.5),
            "grade": rows % 5,
            "flag": np.where(rows % 2 == 0, "true", "False"),
            "work": np.where(rows % 3 == 0, "?", np.where(rows % 3 == 1, "state", "private")),
            "name": [f"person {row}" for row in rows],
            "number": rows + 1000,
            "constant": "x",
            "empty": "",
            "code": [f"c{row % 60}{row % 2}{row % 3}" for row in rows],
            "y": np.where(rows % 4 == 0, "no", "yes"),
        }
    )


def draft(data: pd.DataFrame, tmp_path: Path, **options: object) -> tuple[str, Schema]:
    text = draft_schema(Table.from_frame(data), **options)
    path = tmp_path / "draft.toml"
    path.write_text(text)
    return text, Schema.from_toml(path)


def test_each_kind_of_column_is_proposed(tmp_path: Path) -> None:
    _, schema = draft(frame(), tmp_path, target="y")
    expected: tuple[Column, ...] = (
        NumericColumn("age", bounds=(10, 90)),
        NumericColumn("share", bounds=(0.1, 0.8)),
        NumericColumn("gain", bounds=(0, 100_000), scale="log"),
        CategoricalColumn("grade", categories=(0, 1, 2, 3, 4)),
        CategoricalColumn("flag", categories=(False, True)),
        CategoricalColumn("work", categories=("private", "state")),
        IgnoredColumn("name"),
        IgnoredColumn("number"),
        IgnoredColumn("constant"),
        IgnoredColumn("empty"),
        CategoricalColumn("code", categories=tuple(sorted(set(frame()["code"])))),
        CategoricalColumn("y", categories=("no", "yes")),
    )
    assert schema.columns == expected
    assert schema.target == "y"
    assert schema.layout.missing == ("", "?")


def test_texts_of_many_values_are_left_out_unless_they_are_the_target(tmp_path: Path) -> None:
    data = pd.DataFrame({"x": np.linspace(0, 1, 303), "c": [f"v{row % 101}" for row in range(303)]})
    assert isinstance(draft(data, tmp_path)[1]["c"], IgnoredColumn)
    assert isinstance(draft(data, tmp_path, target="c")[1]["c"], CategoricalColumn)


def test_every_line_from_the_data_is_marked(tmp_path: Path) -> None:
    text, _ = draft(frame(), tmp_path, target="y")
    assert text.startswith("# A draft, made by looking at the data")
    assert "as private as they are until it is confirmed" in text
    body = text[text.index("[table]") :]
    starts = [line for line in body.splitlines() if " = " in line and not line.endswith("[")]
    ends = [line for line in body.splitlines() if line.startswith("]")]
    assert len(starts) > 15
    assert ends
    assert [line for line in starts + ends if not line.endswith(MARK)] == []


def test_a_draft_is_refused_until_it_is_confirmed(tmp_path: Path) -> None:
    text, schema = draft(frame(), tmp_path, target="y")
    with pytest.raises(SchemaError, match=r"confirmed = false"):
        schema.require_confirmed()
    path = tmp_path / "confirmed.toml"
    path.write_text(text.replace("confirmed = false", "confirmed = true"))
    Schema.from_toml(path).require_confirmed()


def test_a_draft_can_read_the_table_it_was_made_from(tmp_path: Path) -> None:
    _, schema = draft(frame(), tmp_path, target="y")
    encoder = Encoder(schema)
    table = Table.from_frame(frame())
    assert encoder.features(table).shape == (100, encoder.n_features)
    assert encoder.labels(table).tolist() == frame()["y"].tolist()


def test_the_layout_is_copied(tmp_path: Path) -> None:
    layout = Layout(header=False, delimiter=";", missing=("", "NA"))
    _, schema = draft(frame(), tmp_path, layout=layout)
    assert schema.layout == Layout(header=False, delimiter=";", missing=("", "NA", "?"))
    assert schema.target is None


def test_a_target_is_described_even_where_a_feature_would_be_left_out(tmp_path: Path) -> None:
    data = frame()
    assert draft(data, tmp_path, target="number")[1]["number"] == NumericColumn("number", bounds=(1000, 1100))
    assert draft(data, tmp_path, target="gain")[1].label_bounds == (0.0, 100_000.0)
    with pytest.raises(TableError, match=r"the target column 'empty' holds no value"):
        draft(data, tmp_path, target="empty")
    with pytest.raises(TableError, match=r"no column 'Y' among its 12 .*Did you mean 'y'"):
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


@pytest.mark.parametrize("low", [-9, -99])
def test_a_number_of_nines_among_others_is_no_code(tmp_path: Path, low: int) -> None:
    """Such as degrees of frost."""
    degrees = np.arange(400) % (40 - low) + low
    assert "a code of" not in draft(pd.DataFrame({"x": degrees}), tmp_path)[0]


@pytest.mark.parametrize("values", [range(17, 90), np.arange(300) / 7], ids=["few", "many"])
@pytest.mark.parametrize("words", [["unknown"], ['a "b" \\', "l\ne\x7f"], ["k. A.", "-", "ü"], [*"abcd"]])
def test_numbers_but_for_a_few_words_are_told(tmp_path: Path, values: range, words: list[str]) -> None:
    data = pd.DataFrame({"x": [*map(str, values), *words], "z": np.arange(len(values) + len(words)) / 7})
    column = draft(data, tmp_path)[0].partition("[columns.x]\n")[2].partition("\n")[0]
    assert ("numbers but for" in column) == (len(words) <= 3)
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


def test_infinity_does_not_become_a_bound(tmp_path: Path) -> None:
    data = pd.DataFrame({"x": [*np.linspace(0, 1, 30), np.inf], "z": np.arange(31) % 7 / 2})
    assert draft(data, tmp_path)[1]["x"] == NumericColumn("x", bounds=(0, 1))


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (17, 90, (10, 90)),
        (0, 99_999, (0, 100_000)),
        (0.1, 0.3, (0.1, 0.3)),
        (-0.31, 0.29, (-0.4, 0.3)),
        (0, 0, (-1, 1)),
        (-250, -250, (-400, -100)),
        (1e-9, 3e-9, (1e-9, 3e-9)),
    ],
)
def test_bounds_are_rounded_outward(low: float, high: float, expected: tuple[float, float]) -> None:
    rounded = round_outward(low, high)
    assert rounded == expected
    assert rounded[0] <= low <= high <= rounded[1]
