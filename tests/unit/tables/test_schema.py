"""The schema file: what it may say, what it refuses, and that it survives being written and read."""

import pickle
from pathlib import Path

import pytest

from sottovoce.exceptions import SchemaError
from sottovoce.tables import CategoricalColumn, IgnoredColumn, Layout, NumericColumn, Schema

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


def read(tmp_path: Path, text: str) -> Schema:
    path = tmp_path / "schema.toml"
    path.write_text(text, encoding="utf-8")
    return Schema.from_toml(path)


def test_the_text_of_a_schema_is_no_path():
    with pytest.raises(SchemaError, match="path must be that of a schema file; got its text"):
        Schema.from_toml('format = "sottovoce-schema"\nversion = 1\n')


def test_every_entry_is_read(tmp_path: Path) -> None:
    assert read(tmp_path, FULL) == Schema(
        (
            NumericColumn("age", bounds=(17, 90), bins=(25, 30.5, 40)),
            NumericColumn("capital gain", bounds=(0, 99999), scale="log", outside="error"),
            CategoricalColumn(
                "workclass",
                categories=("Private", "State-gov"),
                aliases=(("priv.", "Private"),),
                unknown="ignore",
                missing="indicator",
            ),
            NumericColumn("hours", bounds=(0, 80), missing=40),
            IgnoredColumn("fnlwgt"),
            CategoricalColumn("income", categories=(0, 1)),
        ),
        target="income",
        unit="person",
        max_rows_per_unit=3,
        layout=Layout(header=False, delimiter=";", missing=("?", ""), comment="|"),
    )


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


def test_the_target_can_be_chosen_among_the_columns(tmp_path: Path) -> None:
    schema = Schema((NumericColumn("x", bounds=(0, 1)), NumericColumn("y", bounds=(-2, 3))))
    assert (schema.target, schema.classes, schema.label_bounds) == (None, None, None)
    chosen = schema.with_target("y")
    assert chosen.label_bounds == (-2.0, 3.0)
    assert [column.name for column in chosen.feature_columns] == ["x"]
    assert schema.target is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = = 3\n", r"schema\.toml: not valid TOML: .*line 1"),
        ("version = 1", r'must start with format = "sottovoce-schema"; got format = None'),
        ('format = "sottovoce-schema"\nversion = 2', r"has version 2; this release of sottovoce reads version 1"),
        (HEAD, r"describes no column: add a section \[columns\.NAME\]"),
        (HEAD + "[tabel]\n", r"unknown key 'tabel'\. Did you mean 'table'\?"),
        (HEAD + "[table]\nmising = ['?']\n[columns.x]\ntype = 'ignore'", r"'mising'\. Did you mean 'missing'\?"),
        (
            HEAD + "[columns.x]\ntype = 'numerical'\n",
            r"needs a type, one of .*; got 'numerical'\. Did you mean 'numeric'",
        ),
        (HEAD + "[columns]\nx = 3\n", r"columns\.x must be a section \[columns\.x\]; got 3"),
        (
            HEAD + "[columns.x]\ntype = 'numeric'\nbound = [0, 1]\n",
            r"\[columns\.x\] .* 'bound'\. Did you mean 'bounds'",
        ),
        (HEAD + "[columns.x]\ntype = 'numeric'\n", r"\[columns\.x\] has no bounds\. Write bounds = \[low, high\]"),
        (HEAD + "[columns.x]\ntype = 'categorical'\n", r"\[columns\.x\] has no categories"),
        (HEAD + "[columns.x]\ntype = 'ignore'\n", r"no column becomes a feature"),
        (
            HEAD + "target = 'z'\n[columns.zz]\ntype = 'numeric'\nbounds = [0, 1]\n",
            r"no column 'z'\. Did you mean 'zz'",
        ),
        (
            HEAD + "confirmed = 'no'\n[columns.x]\ntype = 'numeric'\nbounds = [0, 1]\n",
            r"confirmed must be true or false",
        ),
        (HEAD + "unit = 'x'\n[columns.x]\ntype = 'numeric'\nbounds = [0, 1]\n", r"unit 'x' is described as a feature"),
        (HEAD + "unit = ' u'\n[columns.x]\ntype = 'numeric'\nbounds = [0, 1]\n", r"unit must be the name of a column"),
        (
            HEAD + "target = 'x'\nunit = 'x'\n[columns.x]\ntype = 'numeric'\nbounds = [0, 1]\n[columns.z]\n"
            "type = 'numeric'\nbounds = [0, 1]\n",
            r"unit 'x' is the target",
        ),
        (
            HEAD + "max_rows_per_unit = 2\n[columns.x]\ntype = 'numeric'\nbounds = [0, 1]\n",
            r"max_rows_per_unit needs unit = \"COLUMN\"",
        ),
        (
            HEAD + "unit = 'u'\nmax_rows_per_unit = 0\n[columns.x]\ntype = 'numeric'\nbounds = [0, 1]\n",
            r"max_rows_per_unit must be a whole number .*; got 0",
        ),
        (HEAD + "target = 3\n[columns.x]\ntype = 'numeric'\nbounds = [0, 1]\n", r"target must be the name of a column"),
    ],
)
def test_a_wrong_file_is_refused_by_name(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SchemaError, match=message) as caught:
        read(tmp_path, text)
    assert "schema.toml: " in str(caught.value)


def test_the_unit_is_no_feature_and_can_be_chosen() -> None:
    schema = Schema((NumericColumn("x", bounds=(0, 1)), IgnoredColumn("person")), unit="person", max_rows_per_unit=2)
    assert [column.name for column in schema.feature_columns] == ["x"]
    other = schema.with_unit("household", 5)
    assert (other.unit, other.max_rows_per_unit) == ("household", 5)
    assert schema.with_unit(None, None) == schema
    with pytest.raises(SchemaError, match=r"unit 'x' is described as a feature.*type = \"ignore\" in \[columns\.x\]"):
        schema.with_unit("x", None)


def test_what_is_written_down_in_python_is_a_schema() -> None:
    schema = Schema.from_columns(
        {"age": (17, 90), "sex": ["F", "M"], "pay": {"bounds": (0, 9), "scale": "log"}, "code": {"categories": [0, 1]}},
        target="sex",
    )
    assert schema.columns == (
        NumericColumn("age", bounds=(17, 90)),
        CategoricalColumn("sex", categories=("F", "M"), unknown="ignore"),
        NumericColumn("pay", bounds=(0, 9), scale="log"),
        CategoricalColumn("code", categories=(0, 1)),
    )
    assert schema.target == "sex"
    assert Schema.from_columns({"z": {"type": "ignore"}, "b": [False, True]})["z"] == IgnoredColumn("z")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({}, r"columns must be a dict such as"),
        ("age", r"columns must be a dict such as .*; got 'age'"),
        (
            {"age": [17, 90]},
            r"columns\['age'\] = \[17, 90\] could be bounds or two categories\. Write a tuple, \(17, 90\)",
        ),
        ({"age": (90, 17)}, r"columns\.age\.bounds must satisfy low < high"),
        ({"age": "numeric"}, r"columns\['age'\] must be bounds such as \(17, 90\), a list of categories"),
        ({"age": {"bound": (0, 1)}}, r"\[columns\.age\] needs a type"),
        ({"age": {"bounds": (0, 1), "mising": 0}}, r"unknown key 'mising'\. Did you mean 'missing'"),
        ({"sex": ["F", 1]}, r"must be all texts, all numbers, or all true and false"),
        ({3: (0, 1)}, r"a column name must be a text"),
    ],
)
def test_what_is_no_column_in_python_is_refused(columns: object, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        Schema.from_columns(columns)


def test_a_missing_file_and_a_binary_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match=r"nowhere\.toml: cannot read the schema: No such file"):
        Schema.from_toml(tmp_path / "nowhere.toml")
    (tmp_path / "b.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SchemaError, match=r"b\.toml: the schema is not UTF-8 text"):
        Schema.from_toml(tmp_path / "b.toml")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"bounds": (90, 17)}, r"columns\.x\.bounds must satisfy low < high"),
        ({"bounds": (1, 1)}, r"columns\.x\.bounds must satisfy low < high"),
        ({"bounds": (0, float("nan"))}, r"columns\.x\.bounds\[1\] must be a finite number .*; got nan"),
        ({"bounds": (0, float("inf"))}, r"columns\.x\.bounds\[1\] must be a finite number .*; got inf"),
        ({"bounds": (False, 1)}, r"columns\.x\.bounds\[0\] must be a finite number .*; got False"),
        ({"bounds": ("0", 1)}, r"columns\.x\.bounds\[0\] must be a finite number .*; got '0'"),
        ({"bounds": 3}, r"columns\.x\.bounds must be a pair"),
        ({"bounds": (-1.5e308, 1.5e308)}, r"columns\.x\.bounds\[0\] must be a finite number >= -1e.50"),
        (
            {"bounds": (0, 1), "scale": "Log"},
            r"columns\.x\.scale must be one of 'linear', 'log'; got 'Log'\. Did you mean 'log'",
        ),
        ({"bounds": (0, 1), "outside": "drop"}, r"columns\.x\.outside must be one of 'clip', 'error'; got 'drop'"),
        ({"bounds": (0, 9), "bins": ()}, r"columns\.x\.bins must be a list of the inner edges, at least one"),
        ({"bounds": (0, 9), "bins": (3, 3)}, r"columns\.x\.bins must ascend without repetition"),
        ({"bounds": (0, 9), "bins": (3, float("nan"))}, r"columns\.x\.bins must be a finite number; got nan"),
        ({"bounds": (0, 9), "bins": (0, 3)}, r"columns\.x\.bins must lie strictly between the bounds 0 and 9"),
        ({"bounds": (0, 9), "bins": (3, 9)}, r"columns\.x\.bins must lie strictly between the bounds 0 and 9"),
        ({"bounds": (0, 9), "bins": (3,), "scale": "log"}, r"columns\.x has both bins and scale"),
        (
            {"bounds": (0, 9), "missing": 10},
            r"columns\.x\.missing must be a finite number >= 0 and <= 9; got 10\. A missing",
        ),
        (
            {"bounds": (0, 9), "missing": "mean"},
            r"columns\.x\.missing must be .*; got 'mean' .*\"indicator\" makes a feature",
        ),
        ({"bounds": (0, 9), "missing": True}, r"columns\.x\.missing must be a finite number"),
        ({"bounds": (0, 9), "missing": float("nan")}, r"columns\.x\.missing must be a finite number"),
    ],
)
def test_a_wrong_numeric_column_is_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        NumericColumn("x", **arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"categories": ()}, r"columns\.x\.categories must be a list with at least one value"),
        ({"categories": "ab"}, r"columns\.x\.categories must be a list with at least one value; got 'ab'"),
        ({"categories": ("a", "b", "a")}, r"columns\.x\.categories holds 'a' twice"),
        ({"categories": (1, 1.0)}, r"columns\.x\.categories holds 1.0 twice"),
        ({"categories": ("a", 1)}, r"must be all texts, all numbers, or all true and false"),
        ({"categories": (True, 1)}, r"must be all texts, all numbers, or all true and false"),
        ({"categories": ("a", True)}, r"must be all texts, all numbers, or all true and false"),
        ({"categories": (0.0, float("nan"))}, r"columns\.x\.categories must be a finite number; got nan"),
        ({"categories": ([],)}, r"columns\.x\.categories must be a finite number; got \[\]"),
        ({"categories": (" a",)}, r"columns\.x\.categories holds ' a': .*write 'a'"),
        ({"categories": ("a",), "missing": "b"}, r"columns\.x\.missing must be one of the categories, or .*got 'b'"),
        ({"categories": ("indicator",), "missing": "indicator"}, r"could be the category or the rule. Use aliases"),
        (
            {"categories": ("a",), "unknown": "drop"},
            r"columns\.x\.unknown must be one of 'error', 'ignore'; got 'drop'",
        ),
        (
            {"categories": ("apple",), "aliases": (("x", "aple"),)},
            r"'aple', which is not a category\. Did you mean 'apple'",
        ),
        ({"categories": ("a", "b"), "aliases": (("a", "b"),)}, r"'a' is a category itself and cannot stand for 'b'"),
        ({"categories": ("a", "b"), "aliases": (("c ", "b"),)}, r"aliases must be texts without outer white space"),
    ],
)
def test_a_wrong_categorical_column_is_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        CategoricalColumn("x", **arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"header": "no"}, r"table\.header must be true or false; got 'no'"),
        ({"delimiter": ", "}, r"table\.delimiter must be one ASCII character"),
        ({"delimiter": '"'}, r"table\.delimiter must be one ASCII character"),
        ({"delimiter": "é"}, r"table\.delimiter must be one ASCII character"),
        ({"missing": "?"}, r"table\.missing must be a list of strings; got '\?'"),
        ({"missing": (1,)}, r"table\.missing must be a list of strings"),
        ({"missing": (" ?",)}, r"table\.missing holds ' \?', with white space around it.*write '\?'"),
        ({"comment": " "}, r"table\.comment must be a text such as"),
    ],
)
def test_a_wrong_layout_is_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        Layout(**arguments)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (CategoricalColumn("y", categories=("only",)), r"'y' is the target and has the one class 'only'"),
        (
            CategoricalColumn("y", categories=(0.5, 1)),
            r"'y' is the target and has the class 0\.5: .*Write it as a text",
        ),
        (NumericColumn("y", bounds=(0, 1), scale="log"), r"'y' is the target: a target takes bounds, but neither"),
        (NumericColumn("y", bounds=(0, 9), bins=(3,)), r"'y' is the target: a target takes bounds, but neither"),
        (NumericColumn("y", bounds=(0, 9), missing=3), r"'y' is the target and has a rule for missing values"),
        (CategoricalColumn("y", categories=(0, 1), missing=1), r"'y' is the target and has a rule for missing values"),
        (IgnoredColumn("y"), r"'y' is the target, but the schema says type = \"ignore\""),
    ],
)
def test_a_column_that_cannot_be_a_target_is_refused(column: NumericColumn, message: str) -> None:
    schema = Schema((NumericColumn("x", bounds=(0, 1)), column))
    with pytest.raises(SchemaError, match=message):
        schema.with_target("y")


def test_repeated_names_and_a_schema_of_the_target_alone_are_refused() -> None:
    x = NumericColumn("x", bounds=(0, 1))
    with pytest.raises(SchemaError, match=r"two columns are named 'x'"):
        Schema((x, x))
    with pytest.raises(SchemaError, match=r"no column becomes a feature"):
        Schema((x,), target="x")
    with pytest.raises(SchemaError, match=r"a column name must be a text without outer white space; got ' x'"):
        NumericColumn(" x", bounds=(0, 1))


def test_an_unconfirmed_draft_is_refused() -> None:
    draft = Schema((NumericColumn("x", bounds=(0, 1)),), confirmed=False)
    with pytest.raises(SchemaError, match=r"is a draft .* confirmed = false.*then write confirmed = true"):
        draft.require_confirmed()
    assert Schema.from_dict(draft.to_dict()) == draft
    Schema((NumericColumn("x", bounds=(0, 1)),)).require_confirmed()
