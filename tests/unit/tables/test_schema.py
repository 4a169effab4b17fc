"""The schema file: what it may say, what it refuses, and that it survives being written and read."""

import pickle
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from sottovoce.exceptions import SchemaError
from sottovoce.tables import CategoricalColumn, DateColumn, IgnoredColumn, Layout, NumericColumn, Schema

FULL = """\
format = "sottovoce-schema"
version = 1
target = "income"
unit = "person"
max_rows_per_unit = 3

[table]
header = false
delimiter = ";"
missing = ["?", ""]
comment = "|"

[columns.age]
type = "numeric"
bounds = [17, 90]
bins = [25, 30.5, 40]

[columns."capital gain"]
type = "numeric"
bounds = [0, 99999]
scale = "log"
outside = "error"

[columns.workclass]
type = "categorical"
categories = ["Private", "State-gov"]
aliases = {"priv." = "Private"}
unknown = "ignore"
missing = "indicator"

[columns.hours]
type = "numeric"
bounds = [0, 80]
missing = 40

[columns.fnlwgt]
type = "ignore"

[columns.income]
type = "categorical"
categories = [0, 1]
"""

HEAD = 'format = "sottovoce-schema"\nversion = 1\n'
X = "[columns.x]\ntype = 'numeric'\nbounds = [0, 1]\n"
Z = X.replace("columns.x", "columns.z")


def read(tmp_path: Path, text: str) -> Schema:
    path = tmp_path / "schema.toml"
    path.write_text(text, encoding="utf-8")
    return Schema.from_toml(path)


def test_every_entry_is_read(tmp_path: Path) -> None:
    assert read(tmp_path, FULL) == Schema(
        (
            NumericColumn("age", bounds=(17, 90), bins=(25, 30.5, 40)),
            NumericColumn("capital gain", bounds=(0, 99999), scale="log", outside="error"),
            CategoricalColumn(
                "workclass", categories=("Private", "State-gov"), aliases=(("priv.", "Private"),), unknown="ignore",
                missing="indicator",
            ),
            NumericColumn("hours", bounds=(0, 80), missing=40), IgnoredColumn("fnlwgt"),
            CategoricalColumn("income", categories=(0, 1)),
        ),
        target="income", unit="person", max_rows_per_unit=3,
        layout=Layout(header=False, delimiter=";", missing=("?", ""), comment="|"),
    )  # fmt: skip


def test_a_schema_survives_toml_and_dict(tmp_path: Path) -> None:
    schema = read(tmp_path, FULL)
    assert schema.to_toml() == FULL
    assert Schema.from_dict(schema.to_dict()) == schema
    assert pickle.loads(pickle.dumps(schema)) == schema


@pytest.mark.parametrize("name", ["a.b", 'with "quotes"', "été", "", "x y", "a]b"])
def test_awkward_names_survive_toml(tmp_path: Path, name: str) -> None:
    categories = tuple(f"{number:02d} '\"\\ é" for number in range(40))
    schema = Schema((NumericColumn(name, bounds=(-1e-3, 1e49)), CategoricalColumn("c", categories=categories)))
    assert read(tmp_path, schema.to_toml()) == schema


@pytest.mark.parametrize(
    ("categories", "kind"), [((0, 1), int), ((False, True), bool), ((0.0, 1.0), float), (("0", "1"), str)]
)
def test_classes_keep_their_type(tmp_path: Path, categories: tuple[object, ...], kind: type) -> None:
    columns = (NumericColumn("x", bounds=(0, 1)), CategoricalColumn("y", categories=categories))
    schema = read(tmp_path, Schema(columns, target="y").to_toml())
    assert schema.classes == categories
    assert [type(name) for name in schema.classes or ()] == [kind, kind]
    assert schema.label_bounds is None


def test_what_is_written_down_in_python_is_a_schema() -> None:
    schema = Schema.from_columns(
        {"age": (17, 90), "sex": ["F", "M"], "pay": {"bounds": (0, 9), "scale": "log"}, "code": {"categories": [0, 1]},
         "z": {"type": "ignore"}, "b": [False, True]},
        target="sex",
    )  # fmt: skip
    assert schema.columns == (
        NumericColumn("age", bounds=(17, 90)),
        CategoricalColumn("sex", categories=("F", "M"), unknown="ignore"),
        NumericColumn("pay", bounds=(0, 9), scale="log"),
        CategoricalColumn("code", categories=(0, 1)),
        IgnoredColumn("z"),
        CategoricalColumn("b", categories=(False, True), unknown="ignore"),
    )
    assert schema.target == "sex"


def test_target_and_unit_can_be_chosen_and_a_draft_is_refused() -> None:
    numbers = NumericColumn("x", bounds=(0, 1)), NumericColumn("y", bounds=(-2, 3)), IgnoredColumn("person")
    schema = Schema(numbers, unit="person", max_rows_per_unit=2)
    assert (schema.target, schema.classes, schema.label_bounds) == (None, None, None)
    assert [column.name for column in schema.feature_columns] == ["x", "y"]
    chosen = schema.with_target("y")
    assert (chosen.label_bounds, [column.name for column in chosen.feature_columns]) == ((-2.0, 3.0), ["x"])
    schema.require_confirmed()
    draft = Schema(numbers, confirmed=False)
    assert Schema.from_dict(draft.to_dict()) == draft
    with pytest.raises(SchemaError, match=r"is a draft .* confirmed = false.*then write confirmed = true"):
        draft.require_confirmed()


# ----------------------------- what is refused

FILES = [
    ("x = = 3\n", r"not valid TOML: .*line 1"),
    ("version = 1", r'must start with format = "sottovoce-schema"; got format = None'),
    ('format = "sottovoce-schema"\nversion = 2', r"has version 2; this release of sottovoce reads version 1"),
    (HEAD, r"describes no column: add a section \[columns\.NAME\]"),
    (HEAD + "[tabel]\n", r"unknown key 'tabel'\. Did you mean 'table'\?"),
    (HEAD + "[table]\nmising = ['?']\n" + X, r"'mising'\. Did you mean 'missing'\?"),
    (HEAD + "[columns.x]\ntype = 'numerical'\n", r"needs a type, one of .*; got 'numerical'\. Did you mean 'numeric'"),
    (HEAD + "[columns]\nx = 3\n", r"columns\.x must be a section \[columns\.x\]; got 3"),
    (HEAD + X.replace("bounds", "bound"), r"\[columns\.x\] .* 'bound'\. Did you mean 'bounds'"),
    (HEAD + "[columns.x]\ntype = 'numeric'\n", r"\[columns\.x\] has no bounds\. Write bounds = \[low, high\]"),
    (HEAD + "[columns.x]\ntype = 'categorical'\n", r"\[columns\.x\] has no categories"),
    (HEAD + "[columns.x]\ntype = 'ignore'\n", r"no column becomes a feature"),
    (HEAD + "target = 'x'\n" + X, r"no column becomes a feature"),
    (HEAD + "target = 'zz'\n" + Z, r"no column 'zz'\. Did you mean 'z'"),
    (HEAD + "target = 3\n" + X, r"target must be the name of a column"),
    (HEAD + "confirmed = 'no'\n" + X, r"confirmed must be true or false"),
    (HEAD + "unit = 'x'\n" + X, r"unit 'x' is described as a feature.*type = \"ignore\" in \[columns\.x\]"),
    (HEAD + "unit = ' u'\n" + X, r"unit must be the name of a column"),
    (HEAD + "target = 'x'\nunit = 'x'\n" + X + Z, r"unit 'x' is the target"),
    (HEAD + "max_rows_per_unit = 2\n" + X, r"max_rows_per_unit needs unit = \"COLUMN\""),
    (HEAD + "unit = 'u'\nmax_rows_per_unit = 0\n" + X, r"max_rows_per_unit must be a whole number .*; got 0"),
    (b"\xff\xfe\x00", r"it is not UTF-8 text"),
    (None, r"cannot read the schema: No such file"),
]


@pytest.mark.parametrize(("text", "message"), FILES)
def test_a_wrong_file_is_refused_by_name(tmp_path: Path, text: str | bytes | None, message: str) -> None:
    path = tmp_path / "schema.toml"
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(SchemaError, match=rf"schema\.toml: .*{message}"):
        Schema.from_toml(path)
    with pytest.raises(SchemaError, match="path must be that of a schema file; got its text"):
        Schema.from_toml(HEAD)


IN_PYTHON: list[tuple[Any, str]] = [
    ({}, r"columns must be a dict such as"),
    ("age", r"columns must be a dict such as .*; got 'age'"),
    ({"age": [17, 90]}, r"columns\['age'\] = \[17, 90\] could be bounds or two categories\. Write a tuple, \(17, 90\)"),
    ({"age": "numeric"}, r"columns\['age'\] must be bounds such as \(17, 90\), a list of categories"),
    ({"age": {"bound": (0, 1)}}, r"columns\['age'\] = .* needs one of the keys .*\. Did you mean 'bounds'"),
    ({"age": {}}, r"columns\['age'\] = \{\} needs one of the keys period, part, format, bounds, categories\."),
    ({"age": {"bounds": (0, 1), "mising": 0}}, r"unknown key 'mising'\. Did you mean 'missing'"),
    ({3: (0, 1)}, r"a column name must be a text"),
    ({" x": (0, 1)}, r"a column name must be a text without outer white space; got ' x'"),
]
BOUNDS: list[tuple[Any, str]] = [
    ((90, 17), r" must satisfy low < high"),
    ((1, 1), r" must satisfy low < high"),
    ((0, float("nan")), r"\[1\] must be a finite number .*; got nan"),
    ((False, 1), r"\[0\] must be a finite number .*; got False"),
    (("0", 1), r"\[0\] must be a finite number .*; got '0'"),
    (3, r" must be a pair"),
    ((-1.5e308, 1.5e308), r"\[0\] must be a finite number >= -1e.50"),
]
DATED = {"type": "date", "bounds": ("2020-01-01", "2021-01-01")}
WHOLE = {"type": "numeric", "bounds": (0, 9)}
SECTIONS: list[tuple[dict[str, Any], str]] = [
    *(({"type": "numeric", "bounds": bounds}, rf"\.bounds{message}") for bounds, message in BOUNDS),
    ({**WHOLE, "scale": "Log"}, r"\.scale must be one of 'linear', 'log'; got 'Log'\. Did you mean 'log'"),
    ({**WHOLE, "outside": "drop"}, r"\.outside must be one of 'clip', 'error'; got 'drop'"),
    ({**WHOLE, "bins": ()}, r"\.bins must be a list of the inner edges, at least one"),
    ({**WHOLE, "bins": (3, 3)}, r"\.bins must ascend without repetition"),
    ({**WHOLE, "bins": (3, float("nan"))}, r"\.bins must be a finite number; got nan"),
    ({**WHOLE, "bins": (0, 3)}, r"\.bins must lie strictly between the bounds 0 and 9"),
    ({**WHOLE, "bins": (3, 9)}, r"\.bins must lie strictly between the bounds 0 and 9"),
    ({**WHOLE, "bins": (3,), "scale": "log"}, r" has both bins and scale"),
    ({**WHOLE, "missing": 10}, r"\.missing must be a finite number >= 0 and <= 9; got 10\. A missing"),
    ({**WHOLE, "missing": "mean"}, r"\.missing must be .*; got 'mean' .*\"indicator\" makes a feature"),
    ({**WHOLE, "missing": True}, r"\.missing must be a finite number"),
    ({**WHOLE, "decimal": ";"}, r".*decimal must be one of '\.', ','; got ';'"),
    ({**WHOLE, "thousands": "."}, r".*thousands must be one of ' ', .* another mark than decimal"),
    ({**WHOLE, "symbol": "1"}, r".*symbol must be what stands before or behind"),
    ({"categories": ()}, r"\.categories must be a list with at least one value"),
    ({"categories": "ab"}, r"\.categories must be a list with at least one value; got 'ab'"),
    ({"categories": ("a", "b", "a")}, r"\.categories holds 'a' twice"),
    ({"categories": (1, 1.0)}, r"\.categories holds 1.0 twice"),
    ({"categories": ("a", 1)}, r".* must be all texts, all numbers, or all true and false"),
    ({"categories": (True, 1)}, r".* must be all texts, all numbers, or all true and false"),
    ({"categories": (0.0, float("nan"))}, r"\.categories must be a finite number; got nan"),
    ({"categories": ([],)}, r"\.categories must be a finite number; got \[\]"),
    ({"categories": (" a",)}, r"\.categories holds ' a': .*write 'a'"),
    ({"categories": ("a",), "missing": "b"}, r"\.missing must be one of the categories, or .*got 'b'"),
    ({"categories": ("indicator",), "missing": "indicator"}, r".* could be the category or the rule. Use aliases"),
    ({"categories": ("a",), "unknown": "drop"}, r"\.unknown must be one of 'error', 'ignore'; got 'drop'"),
    ({"categories": ("apple",), "aliases": {"x": "aple"}}, r".*'aple', which is not a category\. Did you mean 'apple'"),
    ({"categories": ("a", "b"), "aliases": {"a": "b"}}, r".*'a' is a category itself and cannot stand for 'b'"),
    ({"categories": ("a", "b"), "aliases": {"c ": "b"}}, r"\.aliases must be texts without outer white space"),
    ({"categories": ("a", "b"), "aliases": "b"}, r"\.aliases must be a table such as"),
    ({"type": "date"}, r".*bounds must be the first and a later last day"),
    ({**DATED, "bounds": ("2020-01-01", "2020-01-01")}, r".*a later last day"),
    ({**DATED, "bounds": ("2020-01-01", 7)}, r".*a later last day"),
    ({**DATED, "bounds": (pd.NaT, pd.Timestamp(2020, 1, 1))}, r".*a later last day"),
    ({"type": "date", "part": "day"}, r".*part must be one of 'month', 'weekday', 'hour'"),
    ({**DATED, "period": "week"}, r".*period must be one of"),
    ({**DATED, "part": "hour"}, r".*takes neither bounds"),
    ({"part": "hour", "period": "year"}, r".*takes neither bounds"),
    *(
        ({"part": "hour", "format": form}, r".*format must have %Y.*once each")
        for form in ("%d.%m.%y", "%d.%m", "%Y%Y")
    ),
    ({"part": "hour", "missing": "2020-01-01"}, r'.*missing must be "indicator"'),
]


@pytest.mark.parametrize(
    ("columns", "message"),
    [*IN_PYTHON, *(({"x": section}, rf"columns\.x{message}") for section, message in SECTIONS)],
)
def test_what_no_column_can_be_is_refused(columns: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        Schema.from_columns(columns)


LAYOUTS = [
    ({"header": "no"}, r"table\.header must be true or false; got 'no'"),
    *(({"delimiter": wrong}, r"table\.delimiter must be one ASCII character") for wrong in (", ", '"', "é")),
    ({"missing": "?"}, r"table\.missing must be a list of strings; got '\?'"),
    ({"missing": (1,)}, r"table\.missing must be a list of strings"),
    ({"missing": (" ?",)}, r"table\.missing holds ' \?', with white space around it.*write '\?'"),
    ({"comment": " "}, r"table\.comment must be a text such as"),
]


@pytest.mark.parametrize(("arguments", "message"), LAYOUTS)
def test_a_wrong_layout_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        Layout(**arguments)


TARGETS = [
    (CategoricalColumn("y", categories=("only",)), r" and has the one class 'only'"),
    (CategoricalColumn("y", categories=(0.5, 1)), r" and has the class 0\.5: .*Write it as a text"),
    (NumericColumn("y", bounds=(0, 1), scale="log"), r": a target takes bounds, but neither"),
    (NumericColumn("y", bounds=(0, 9), bins=(3,)), r": a target takes bounds, but neither"),
    (NumericColumn("y", bounds=(0, 9), missing=3), r" and has a rule for missing values"),
    (CategoricalColumn("y", categories=(0, 1), missing=1), r" and has a rule for missing values"),
    (DateColumn("y", bounds=("2020-01-01", "2021-01-01")), r" and a date"),
    (IgnoredColumn("y"), r", but the schema says type = \"ignore\""),
]


@pytest.mark.parametrize(("column", "message"), TARGETS)
def test_a_column_that_cannot_be_a_target_is_refused(column: NumericColumn, message: str) -> None:
    schema = Schema((NumericColumn("x", bounds=(0, 1)), column))
    with pytest.raises(SchemaError, match=rf"'y' is the target{message}"):
        schema.with_target("y")
    with pytest.raises(SchemaError, match=r"two columns are named 'y'"):
        Schema((column, column))
