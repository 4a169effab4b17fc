"""The encoder as a scikit-learn step: any frame, any tool of scikit-learn, and nothing learned."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import sottovoce as sv
from sottovoce.exceptions import ParameterError, SchemaError, TableError
from sottovoce.tables import Schema, Table

FACTS = {"age": {"bounds": (0, 100), "missing": "indicator"}, "sex": ["F", "M"]}
NAMES = ["age", "age is missing", "sex=F", "sex=M"]
PEOPLE = pd.DataFrame({"sex": ["F", "M", None, "?"], "name": list("abcd"), "age": [0, None, 100, 75]})
ROWS = [[-1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 0, 0], [0.5, 0, 0, 0]]


def test_every_kind_of_table_gives_the_same_rows() -> None:
    encoder = sv.SchemaEncoder(FACTS)
    frames = [PEOPLE, pl.from_pandas(PEOPLE), pa.Table.from_pandas(PEOPLE), PEOPLE[["age", "sex"]].to_numpy()]
    for frame in [*frames, PEOPLE[["age", "sex"]].to_numpy().tolist()]:
        assert encoder.fit_transform(frame).tolist() == ROWS
    assert encoder.transform(PEOPLE[["age", "sex"]]).tolist() == ROWS  # neither order nor further columns matter
    assert encoder.data_norm == 2**0.5
    frame = pl.DataFrame({"age": [float("nan"), 100.0], "sex": ["nan", "M"]})
    assert sv.SchemaEncoder(FACTS).transform(frame).tolist() == [[0, 1, 0, 0], [1, 0, 0, 1]]


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas])
@pytest.mark.parametrize("whole", [True, False])
def test_a_private_pipeline_takes_every_kind_of_frame(kind: Any, whole: bool) -> None:
    encoder = sv.SchemaEncoder(FACTS)
    first = encoder if whole else make_column_transformer((encoder, ["age", "sex"]))
    steps = [("encode", first), ("model", sv.DPLogisticRegression(classes=["ill", "well"], data_norm=2**0.5))]
    made = sv.DPPipeline(steps, epsilon=1.0, delta=1e-6, random_state=0)
    people, state = pd.concat([PEOPLE] * 50, ignore_index=True), ["ill", "well"] * 100
    wanted = clone(made).fit(people, state)
    fitted = made.fit(kind(people), state)
    assert fitted[-1].coef_.tolist() == wanted[-1].coef_.tolist()
    assert fitted.predict(kind(people)).tolist() == wanted.predict(people).tolist()


def test_a_schema_and_its_file_give_what_the_command_line_has(tmp_path: Path) -> None:
    path = tmp_path / "schema.toml"
    schema = Schema.from_columns({**FACTS, "name": list("abcd")}, target="name", unit="id")
    path.write_text(schema.to_toml())
    wanted = schema.features(Table.from_frame(PEOPLE)).tolist()
    for given in (schema, path, str(path)):
        encoder = sv.SchemaEncoder(given).fit(PEOPLE)
        assert encoder.transform(PEOPLE).tolist() == wanted == ROWS
        assert encoder.labels(PEOPLE).tolist() == list("abcd")
    path.unlink()
    assert encoder.transform(PEOPLE).tolist() == ROWS  # what fit has read stays
    assert pickle.loads(pickle.dumps(encoder)).transform(PEOPLE).tolist() == ROWS


def test_names_come_out() -> None:
    encoder = sv.SchemaEncoder(FACTS)
    assert encoder.get_feature_names_out().tolist() == NAMES
    frame = encoder.set_output(transform="pandas").fit_transform(PEOPLE)
    assert frame.columns.tolist() == NAMES
    assert frame.to_numpy().tolist() == ROWS
    assert sv.SchemaEncoder(FACTS).set_output(transform="polars").fit_transform(PEOPLE).columns == NAMES


def test_wide_rows_are_sparse_unless_they_are_asked_not_to_be() -> None:
    facts = {"age": (0, 100), "code": [f"c{code}" for code in range(40)]}
    frame = pd.DataFrame({"age": [0, 50], "code": ["c1", "c39"]})
    wide = sv.SchemaEncoder(facts).fit_transform(frame)
    dense = sv.SchemaEncoder(facts, sparse_output=False, dtype=np.float32).fit_transform(frame)
    assert dense.dtype == np.float32
    assert dense.tolist() == wide.toarray().tolist()
    assert sp.issparse(sv.SchemaEncoder(FACTS, sparse_output=True).fit_transform(PEOPLE))


def test_units_are_told_exactly() -> None:
    """Beside a null whole numbers must not become fractions: two people would be one."""
    schema = Schema.from_columns(FACTS, unit="id")
    large = [2**53, 2**53 + 1, None, 2**53]
    frame = pa.table({"age": [1, 2, 3, 4], "sex": ["F"] * 4, "id": pa.array(large, pa.int64())})
    assert sv.SchemaEncoder(schema).groups(frame).tolist() == large
    texts = PEOPLE.assign(id=[" a", "a ", "", "b"])
    assert sv.SchemaEncoder(schema).groups(texts).tolist() == ["a", "a", None, "b"]
    with pytest.raises(TableError, match=r"there is no column 'id' among its 3"):
        sv.SchemaEncoder(schema).groups(PEOPLE)
    with pytest.raises(SchemaError, match=r"the schema names no unit\. Write unit ="):
        sv.SchemaEncoder(FACTS).groups(PEOPLE)


def test_nothing_is_learned_and_the_receipt_names_no_step() -> None:
    """The warning of fitted steps is an error in tests."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.uniform(0, 100, 400), "sex": rng.choice(["F", "M"], 400)})
    y = (frame["age"] > 50).to_numpy().astype(int)
    model = sv.DPLogisticRegression(epsilon=5, delta=1e-6, data_norm=2**0.5, classes=[0, 1], random_state=0)
    pipeline = make_pipeline(sv.SchemaEncoder(FACTS), model)
    assert pipeline.fit(frame, y).score(frame, y) > 0.9
    assert "fitted before it in a pipeline" not in pipeline[-1].guarantee_.parameters
    assert clone(pipeline).fit(frame, y).score(frame, y) > 0.9
    chosen = GridSearchCV(pipeline, {"schemaencoder__schema": [FACTS, {"age": (0, 100)}]}, cv=2).fit(frame, y)
    assert chosen.best_score_ > 0.9
    mixed = make_column_transformer((sv.SchemaEncoder({"age": (0, 100)}), ["age"]), remainder="drop")
    assert make_pipeline(mixed, clone(model)).fit(frame, y).score(frame, y) > 0.9


def test_fit_reads_no_value() -> None:
    frame = pd.DataFrame({"age": ["no number"], "sex": ["M"]})
    encoder = sv.SchemaEncoder(FACTS).fit(frame)
    assert encoder.feature_names_in_.tolist() == ["age", "sex"]
    with pytest.raises(TableError, match=r"the frame, row 0, column 'age': 'no number' is not a number"):
        encoder.transform(frame)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"schema": 3}, SchemaError, r"schema must be a dict such as .*; got 3"),
        ({"schema": {"age": [0, 1]}}, SchemaError, r"could be bounds or two categories"),
        ({"schema": "nowhere.toml"}, SchemaError, r"nowhere\.toml: cannot read the schema"),
        ({"schema": Schema.from_columns(FACTS, confirmed=False)}, SchemaError, r"confirmed = false"),
        ({"schema": {"Age": (0, 1)}}, TableError, r"no column 'Age' .*Did you mean 'age'"),
        ({"schema": FACTS, "sparse_output": "no"}, ParameterError, r"sparse_output must be True, False or \"auto\""),
        ({"schema": FACTS, "dtype": int}, ParameterError, r"dtype must be float64 or float32"),
    ],
)
def test_wrong_parameters_are_refused_by_fit(
    arguments: dict[str, object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        sv.SchemaEncoder(**arguments).fit(PEOPLE)


def test_an_array_needs_one_column_for_each_that_is_described() -> None:
    with pytest.raises(TableError, match=r"an array of shape \(2, 3\) has no names: .* each of the 2 .*\(age, sex\)"):
        sv.SchemaEncoder(FACTS).transform(np.zeros((2, 3)))
