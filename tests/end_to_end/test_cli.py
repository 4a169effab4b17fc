"""The command line, from a table on disk to a model with its receipt, and every wrong use with its message."""

import gzip
import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import Result

from sottovoce import DPRidge, Guarantee
from sottovoce.cli import _output, app
from sottovoce.estimators.persistence import load_model, model_to_json
from support.commands import fails, incomes, passes, process, records, run
from support.schemas import schema_text

MISSING = '[table]\nmissing = ["?", ""]\n'
SCHEMA = (
    schema_text(
        "income", MISSING, age=(17, 90), work=["private", "state"], id=None, income=["low", "high"], hours=(0, 100)
    )
    + 'outside = "error"\n'
)
N_ROWS = 300


def frame() -> pd.DataFrame:
    rng, people = np.random.default_rng(1), incomes(N_ROWS)
    people.loc[rng.random(N_ROWS) < 0.1, "work"] = "?"
    return people.assign(hours=rng.integers(0, 101, N_ROWS))


class Folder:
    """A folder with a table and its schema, and the commands on them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.table = path / "table.csv"
        self.schema = path / "schema.toml"
        self.model = path / "model.json"
        self.receipt = path / "model.receipt.json"
        frame().to_csv(self.table, index=False)
        self.schema.write_text(SCHEMA)

    def fit_arguments(self, *more: object, **options: object) -> list[object]:
        chosen = {
            "model": "logistic", "epsilon": 1, "delta": 1e-5, "schema": self.schema, "out": self.model, **options,
        }  # fmt: skip
        table = chosen.pop("table", self.table)
        pairs = [(f"--{name.replace('_', '-')}", value) for name, value in chosen.items() if value is not None]
        return ["fit", table, *(part for pair in pairs for part in pair), *more]

    def fit(self, *more: object, **options: object) -> Result:
        return passes(*self.fit_arguments(*more, **options))

    def refuses(self, *more: object, match: str, **options: object) -> str:
        """Fit must fail with a plain error, and leave neither model nor receipt."""
        message = fails(*self.fit_arguments(*more, **options), match=match)
        assert not self.model.exists()
        assert not self.receipt.exists()
        return message

    def edit_table(self, change: Callable[[str], str]) -> None:
        self.table.write_text(change(self.table.read_text()))

    def edit_schema(self, old: str, new: str) -> None:
        assert old in SCHEMA
        self.schema.write_text(SCHEMA.replace(old, new))


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


# ----------------------------- the main path


def test_fit_writes_a_model_and_its_receipt_and_prints_it(folder: Folder) -> None:
    result = folder.fit()
    assert "DPLogisticRegression" in result.stdout
    assert "(1, 1e-05)-differential privacy" in result.stdout
    assert "taken as public or true" in result.stdout
    model, schema = load_model(folder.model)
    assert schema is not None
    assert schema.target == "income"
    assert model.classes_.tolist() == ["high", "low"]
    assert model.data_norm == 3**0.5
    receipt = Guarantee.from_json(folder.receipt.read_text())
    assert receipt == model.guarantee_
    assert (receipt.epsilon, receipt.delta, receipt.seeded) == (1.0, 1e-5, False)


def test_a_model_trained_without_privacy_predicts_well_and_says_so(folder: Folder) -> None:
    result = folder.fit(epsilon="inf", delta=None)
    assert "NOT PRIVATE" in result.stdout
    assert len(result.stdout.strip().splitlines()) <= 10
    assert "all of it: sottovoce show" in " ".join(result.stdout.split())
    scored = passes("predict", folder.model, folder.table, "--score", "--proba")
    rows = records(scored.stdout)
    assert list(rows[0]) == ["prediction", "probability of high", "probability of low"]
    assert np.mean([row["prediction"] for row in rows] == frame()["income"]) > 0.9
    for row in rows:
        high, low = float(row["probability of high"]), float(row["probability of low"])
        assert high + low == pytest.approx(1.0)
        assert row["prediction"] == ("high" if high > low else "low")
    assert re.search(r"accuracy 0\.9\d+ on 300 rows\. NOT PRIVATE", scored.stderr)


def test_prediction_needs_neither_target_nor_other_columns(folder: Folder) -> None:
    folder.fit()
    bare = folder.path / "bare.parquet"
    data = frame()[["hours", "age", "work"]].assign(extra=1)
    data.to_parquet(bare)
    result = passes("predict", folder.model, bare)
    assert len(records(result.stdout)) == N_ROWS
    assert result.stdout == passes("predict", folder.model, folder.table).stdout
    assert "note: not in the schema, not used: 1 column(s): extra" in result.stderr
    fails("predict", folder.model, bare, "--score", match=r"bare\.parquet: there is no column 'income'")
    data.drop(columns="age").to_parquet(bare)
    fails("predict", folder.model, bare, match=r"bare\.parquet: there is no column 'age' among its 3")


def test_predictions_can_go_to_a_file(folder: Folder) -> None:
    folder.fit()
    out = folder.path / "p.csv"
    assert passes("predict", folder.model, folder.table, "--out", out).stdout == ""
    assert len(records(out.read_text())) == N_ROWS
    fails("predict", folder.model, folder.table, "--out", out, match=r"--out .*p\.csv: the file exists.*--force")
    passes("predict", folder.model, folder.table, "--out", out, "--force")
    before = folder.table.read_bytes()
    fails("predict", folder.model, folder.table, "--out", folder.table, "--force", match=r"a file to read from")
    assert folder.table.read_bytes() == before


@pytest.mark.parametrize(("target", "kind", "model"), [("income", "class", "logistic"), ("hours", "number", "ridge")])
def test_the_model_follows_from_the_target(folder: Folder, target: str, kind: str, model: str) -> None:
    other = folder.path / "other.json"
    folder.fit(target=target, model=model, random_state=1)
    found = folder.fit(target=target, model=None, random_state=1, out=other)
    assert found.stderr == f"note: {target} is a {kind}, so the model is {model}; --model takes another.\n"
    assert other.read_text() == folder.model.read_text()
    assert folder.fit("--quiet", "--force", target=target, model=None).stderr == ""


@pytest.mark.parametrize(("epsilon", "told"), [(0.01, True), (0.1, True), (0.2, False), (float("inf"), False)])
def test_so_few_rows_that_a_constant_may_do_as_well_are_told(folder: Folder, epsilon: float, told: bool) -> None:
    assert ("so few rows are mostly noise" in folder.fit(epsilon=epsilon).stdout) == told
    said = folder.fit("--force", target="hours", model="ridge", epsilon=epsilon).stdout
    is_one = load_model(folder.model)[0].guarantee_.parameters.get("solver") == "constant"
    assert ("the model is one number" in " ".join(said.split())) == is_one == (epsilon <= 0.2)


def test_a_tighter_bound_on_rows_can_be_chosen_and_quiet_prints_nothing(folder: Folder) -> None:
    assert folder.fit("--quiet", data_norm=1.25).output == ""
    assert load_model(folder.model)[0].data_norm == 1.25


@pytest.mark.parametrize("name", ["t.csv.gz", "t.parquet", "t.tsv", "t.data"])
def test_every_format_gives_the_same_model(folder: Folder, name: str) -> None:
    path = folder.path / name
    options: list[str] = []
    if name == "t.csv.gz":
        path.write_bytes(gzip.compress(folder.table.read_bytes()))
    elif name == "t.parquet":
        frame().to_parquet(path)
    elif name == "t.tsv":
        frame().to_csv(path, sep="\t", index=False)
    else:
        path.write_text("title\n" + frame().to_csv(sep=";", index=False, header=False))
        options = ["--no-header", "--delimiter", ";", "--skip-rows", "1"]
    folder.fit(random_state=3)
    folder.fit(*options, table=path, random_state=3, out=folder.path / "other.json")
    first, other = (load_model(folder.path / file)[0] for file in ("model.json", "other.json"))
    assert first.coef_.tolist() == other.coef_.tolist()
    assert first.guarantee_.seeded
    with_target = passes("predict", folder.path / "other.json", path, *options).stdout
    assert len(records(with_target)) == N_ROWS


def test_a_file_without_header_may_lack_the_target_at_prediction(folder: Folder) -> None:
    folder.fit()
    path = folder.path / "t.csv"
    frame().drop(columns="income").to_csv(path, index=False, header=False)
    assert len(records(passes("predict", folder.model, path, "--no-header").stdout)) == N_ROWS


def test_boolean_labels_are_written_as_a_schema_writes_them(folder: Folder) -> None:
    folder.edit_schema('categories = ["low", "high"]', "categories = [false, true]")
    folder.edit_table(lambda text: text.replace("high", "True").replace("low", "FALSE"))
    folder.fit("--quiet", epsilon="inf", delta=None)
    lines = passes("predict", folder.model, folder.table).stdout.splitlines()
    assert lines[0] == "prediction"
    assert set(lines[1:]) == {"false", "true"}


def test_ridge_predicts_a_numeric_target(folder: Folder) -> None:
    result = folder.fit("--no-intercept", "--verbose", model="ridge", target="hours", epsilon="inf", delta=None)
    assert re.search(r"label bounds +0 to 100", result.stdout)
    model, _ = load_model(folder.model)
    assert (model.label_bounds, model.fit_intercept) == ([0.0, 100.0], False)
    scored = passes("predict", folder.model, folder.table, "--score")
    assert re.search(r"mean squared error [\d.]+, R\^2 -?0\.\d+ on 300 rows\. NOT PRIVATE", scored.stderr)
    assert float(records(scored.stdout)[0]["prediction"]) == pytest.approx(50, abs=50)


def test_libsvm_text_is_refused_with_the_remedy(folder: Folder) -> None:
    path = folder.path / "t.libsvm"
    path.write_text("1 1:0.5 3:1\n-1 2:0.5\n")
    match = (
        r"t\.libsvm: LIBSVM text has no named columns.*Read it in Python, with sklearn\.datasets\.load_svmlight_file"
    )
    folder.refuses(match=match, table=path)
    folder.refuses(match=match, table=path, schema=None)
    fails("schema", path, match=match)
    folder.fit("--quiet")
    fails("predict", folder.model, path, match=match)
    fails("evaluate", folder.model, path, "--epsilon", 1, match=match)
    assert "'libsvm' is not one of" in run("fit", folder.table, "--format", "libsvm").stderr


def test_a_model_without_a_schema_is_not_for_commands(folder: Folder) -> None:
    rng = np.random.default_rng(0)
    model = DPRidge(epsilon=np.inf, data_norm=2.0, label_bounds=(-1, 1)).fit(rng.random((20, 2)), rng.random(20))
    folder.model.write_text(model_to_json(model))
    for command in (("predict",), ("evaluate", "--epsilon", 1)):
        fails(*command, folder.model, folder.table, match=r"trained without a schema.*sottovoce\.load_model")


def test_another_bound_than_the_schema_s(folder: Folder) -> None:
    folder.fit("--quiet", model="svm", data_norm=0.5)
    model, schema = load_model(folder.model)
    assert schema is not None
    assert model.data_norm == 0.5
    fails("predict", folder.model, folder.table, "--proba", match=r"--proba: a DPLinearSVC gives no probabilities")


def test_the_bounds_of_the_labels_are_told_in_the_receipt(folder: Folder) -> None:
    folder.fit(model="ridge", target="hours")
    receipt = Guarantee.from_json(folder.receipt.read_text())
    assert any("label_bounds = (0.0, 100.0)" in text for text in receipt.assumptions)


def test_sparse_models_have_a_radius_in_place_of_a_penalty(folder: Folder) -> None:
    shown = folder.fit("--verbose", model="sparse-logistic", radius=6, n_steps=5, epsilon=20).stdout
    assert re.search(r"coefficients that are not 0 +[1-3]\b", shown)
    assert "Frank-Wolfe on the l1 ball" in shown
    model, _ = load_model(folder.model)
    assert (type(model).__name__, model.data_bound, model.radius, model.n_iter_) == (
        "DPSparseLogisticRegression", 1.0, 6.0, 5,
    )  # fmt: skip
    scored = passes("predict", folder.model, folder.table, "--score", "--proba")
    assert float(re.search(r"accuracy ([\d.]+)", scored.stderr)[1]) > 0.6
    assert {"probability of low", "probability of high"} < set(records(scored.stdout)[0])


def test_how_much_is_printed_is_said_once(folder: Folder) -> None:
    folder.refuses("--verbose", "--quiet", match="--quiet prints less, and --verbose more")


def test_lasso_predicts_a_number(folder: Folder) -> None:
    common = {"model": "lasso", "target": "hours", "radius": 30, "epsilon": "inf", "delta": None}
    shown = folder.fit("--no-intercept", "--verbose", **common).stdout
    assert "label bounds" in shown
    assert "mean squared error" in passes("predict", folder.model, folder.table, "--score").stderr


def test_a_sparse_model_with_another_bound_on_the_entries(folder: Folder) -> None:
    options: dict[str, Any] = {"model": "lasso", "target": "hours", "radius": 2}
    folder.refuses(match=r"data-bound must be .*; got 0\.0", data_bound=0, **options)
    folder.fit(data_bound=0.5, **options)
    assert load_model(folder.model)[0].data_bound == 0.5
    assert "mean squared error" in passes("predict", folder.model, folder.table, "--score").stderr


# ----------------------------- wrong parameters, refused before the data are read


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": 0}, r"epsilon must be a number > 0; got 0\.0"),
        ({"epsilon": -1}, r"epsilon must be a number > 0; got -1\.0"),
        ({"epsilon": "nan"}, r"epsilon must be a number > 0; got nan"),
        ({"delta": 1}, r"delta must be a finite number >= 1e-300 and < 1; got 1\.0"),
        ({"delta": 0}, r"delta must be a finite number >= 1e-300 and < 1; got 0\.0"),
        ({"delta": "nan"}, r"delta must be a finite number >= 1e-300 and < 1; got nan"),
        ({"delta": None}, r"delta is missing"),
        ({"alpha": 0}, r"alpha must be a finite number >= 1e-50 and <= 1e.50; got 0\.0"),
        ({"data_norm": 0}, r"--data-norm must be a finite number >= 1e-50 and <= 1e.50; got 0\.0"),
        ({"data_norm": "inf"}, r"--data-norm must be a finite number >= 1e-50 and <= 1e.50; got inf"),
        ({"solver": "magic"}, r"solver must be one of .*; got 'magic'"),
        ({"adjacency": "near"}, r"adjacency must be one of .*; got 'near'"),
        ({"adjacency": "add-remove"}, r"--n-public is missing"),
        ({"model": "ridge"}, r"--model ridge predicts a number, and needs its public bounds"),
        ({"target": "age"}, r"--model logistic predicts a class, and needs the public list of classes"),
        ({"alpha": 1, "model": "sparse-logistic", "radius": 3}, r"--alpha is not for --model sparse-logistic"),
        ({"solver": "scd", "model": "sparse-logistic", "radius": 3}, r"--solver is not for --model sparse-logistic"),
        ({"data_norm": 1, "model": "sparse-logistic", "radius": 3}, r"--data-norm is not for --model sparse-logistic"),
        ({"model": "sparse-logistic"}, r"--radius is missing: --model sparse-logistic needs"),
        ({"model": "sparse-logistic", "radius": 0}, r"radius must be .*; got 0\.0"),
        ({"model": "sparse-logistic", "radius": 3, "n_steps": 0}, r"--n-steps must be .*; got 0"),
        ({"model": "lasso", "radius": 3}, r"--model lasso predicts a number, and needs its public bounds"),
        ({"radius": 3}, r"--radius is for --model lasso and sparse-logistic, not for logistic"),
        ({"n_steps": 3}, r"--n-steps is for --model lasso and sparse-logistic, not for logistic"),
        ({"data_bound": 3}, r"--data-bound is for --model lasso and sparse-logistic, not for logistic"),
        ({"target": "wage"}, r"schema\.toml: the schema has no column 'wage'\. Did you mean 'age'"),
        ({"target": "id"}, r"'id' is the target, but the schema says type = \"ignore\""),
        ({"schema": None}, r"(?s)--schema is missing.*sottovoce schema .*table\.csv --target NAME > schema\.toml"),
        ({"schema": "gone.toml"}, r"(?s)--schema gone\.toml: there is no such file.*sottovoce schema .*> gone\.toml"),
        ({"delimiter": "::"}, r"table\.delimiter must be one ASCII character"),
    ],
)
def test_a_wrong_parameter_is_refused_before_the_data_are_read(
    folder: Folder, options: dict[str, object], message: str
) -> None:
    folder.table.write_bytes(b"\x00")
    folder.refuses(match=message, **options)


def test_a_schema_with_one_class_or_unconfirmed_is_refused(folder: Folder) -> None:
    folder.table.write_bytes(b"\x00")
    folder.edit_schema('["low", "high"]', '["low"]')
    folder.refuses(match=r"schema\.toml: column 'income' is the target and has the one class 'low'")
    folder.edit_schema("version = 1", "version = 1\nconfirmed = false")
    folder.refuses(match=r"schema\.toml: the schema is a draft .* confirmed = false")
    folder.edit_schema('target = "income"', "")
    folder.refuses(match=r"the schema names no target")


def test_places_that_cannot_be_written_are_refused_before_the_data_are_read(folder: Folder) -> None:
    table = folder.table.read_bytes()
    folder.table.write_bytes(b"\x00")
    folder.refuses(match=r"--out .*: the folder .*nowhere does not exist", out=folder.path / "nowhere" / "m.json")
    folder.refuses(match=r"--out and --receipt are the same file", receipt=folder.model)
    folder.refuses("--force", match=r"--receipt .*table\.csv: this is a file to read from", receipt=folder.table)
    folder.refuses("--force", match=r"--out .*schema\.toml: this is a file to read from", out=folder.schema)
    folder.receipt.write_text("old")
    fails(*folder.fit_arguments(), match=r"--receipt .*model\.receipt\.json: the file exists")
    assert not folder.model.exists()
    folder.table.write_bytes(table)
    folder.fit("--force")
    assert Guarantee.from_json(folder.receipt.read_text()).epsilon == 1.0


# ----------------------------- wrong data


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: "", r"table\.csv: the file is empty"),
        (lambda text: text.partition("\n")[0], r"table\.csv: the table has a header, but no row of data"),
        (lambda text: text + "50,private,x,low\n", r"table\.csv, line 302: 4 cells instead of 5"),
        (lambda text: text + "\n50,stat,x,low,1\n", r"line 303, column 'work': 'stat' is not among .* 'state'"),
        (lambda text: text + "old,state,x,low,1\n", r"table\.csv, line 302, column 'age': 'old' is not a number"),
        (lambda text: text + "nan,state,x,low,1\n", r"table\.csv, line 302, column 'age': nan is not a finite number"),
        (lambda text: text + "inf,state,x,low,1\n", r"table\.csv, line 302, column 'age': inf is not a finite number"),
        (lambda text: text + "50,state,x,middle,1\n", r"line 302, column 'income': 'middle' is not among the 2 cat"),
        (lambda text: text + "50,state,x,,1\n", r"table\.csv, line 302, column 'income': the label is missing"),
        (
            lambda text: text + "50,state,x,low,101\n",
            r"line 302, column 'hours': 101 lies outside the bounds \[0, 100\]",
        ),
        (lambda text: text.replace("age", "Age"), r"table\.csv: there is no column 'age' .*Did you mean 'Age'"),
        (lambda text: text.replace("income", "age"), r"table\.csv: two columns are named 'age'"),
    ],
)
def test_a_wrong_table_is_refused(folder: Folder, change: Callable[[str], str], message: str) -> None:
    folder.edit_table(change)
    folder.refuses(match=message)


def test_a_label_outside_its_bounds_is_refused(folder: Folder) -> None:
    folder.edit_table(lambda text: text + "50,state,x,low,101\n")
    folder.refuses(
        model="ridge", target="hours", match=r"line 302, column 'hours': 101 lies outside the bounds \[0, 100\]"
    )


def test_binary_and_truncated_files_are_refused(folder: Folder) -> None:
    path = folder.path / "t.csv.gz"
    path.write_bytes(gzip.compress(folder.table.read_bytes())[:-100])
    folder.refuses(table=path, match=r"t\.csv\.gz: the compressed file ends too early")
    folder.table.write_bytes(bytes(range(256)) * 4)
    folder.refuses(match=r"table\.csv, line 1: a NUL byte: this is a binary file")
    folder.refuses(table=folder.path / "t", match=r"the name does not tell the format")
    folder.refuses(table=folder.path / "gone.csv", match=r"gone\.csv: cannot read the file: No such file")


def test_a_table_with_one_of_the_public_classes_is_trained(folder: Folder) -> None:
    # an error here would tell the world something about the data
    folder.edit_table(lambda text: text.replace("high", "low"))
    folder.fit()
    assert load_model(folder.model)[0].classes_.tolist() == ["high", "low"]


# ----------------------------- show, plan, schema


def test_show_prints_the_receipt_of_a_model_and_of_a_receipt(folder: Folder) -> None:
    folder.fit("--quiet")
    of_model, of_receipt = passes("show", folder.model).stdout, passes("show", folder.receipt).stdout
    assert "(1, 1e-05)-differential privacy" in of_receipt
    assert re.search(r"predicts +income", of_model)
    assert of_receipt.partition("\n")[2] in of_model
    for path in (folder.model, folder.receipt):
        assert passes("show", path, "--json").stdout == folder.receipt.read_text()


def test_show_refuses_a_receipt_that_promises_too_much(folder: Folder) -> None:
    folder.fit("--quiet")
    receipt = json.loads(folder.receipt.read_text())
    receipt["epsilon"] = 0.1
    folder.receipt.write_text(json.dumps(receipt))
    fails("show", folder.receipt, match=r"model\.receipt\.json: the event costs epsilon=.* more than the epsilon=0\.1")


def test_what_is_no_model_is_refused(folder: Folder) -> None:
    fails("show", folder.path / "gone.json", match=r"gone\.json: cannot read the model: No such file")
    fails("show", folder.table, match=r"table\.csv: this is not a model file: it is not JSON")
    folder.fit("--quiet")
    fails("predict", folder.receipt, folder.table, match=r"this is the receipt of a model, not the model itself")


@pytest.fixture
def quick_forecasts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sottovoce.forecasting.trials._MOST_ROWS", 200)
    monkeypatch.setattr("sottovoce.forecasting.trials._RUNS", 2)
    module = importlib.import_module("sottovoce.forecasting.forecast")  # the package has a function of its name
    monkeypatch.setattr(module, "_COUNTS", (100, 1000))


@pytest.mark.usefixtures("quick_forecasts")
def test_plan_tells_the_price_without_data(folder: Folder) -> None:
    common = ["plan", "--epsilon", 1, "--delta", 1e-5, "--n-samples", 1000]
    shown = passes(*common, "--model", "svm", "--n-features", 4).stdout
    assert re.search(r"epsilon +1\b", shown)
    assert "Gaussian" in shown
    plain = json.loads(passes(*common, "--model", "logistic", "--schema", folder.schema, "--json").stdout)
    assert (plain["n_features"], plain["n_models"], plain["loss"]) == (4, 1, "logistic")
    three = json.loads(passes(*common, "--model", "svm", "--n-features", 4, "--n-classes", 3, "--json").stdout)
    assert three["n_models"] == 3
    sparse = [*common, "--model", "sparse-logistic", "--schema", folder.schema]
    fails(*sparse, match=r"--radius is missing")
    assert json.loads(passes(*sparse, "--radius", 2, "--n-steps", 7, "--json").stdout)["steps of each model"] == 7
    ridge = [*common, "--model", "ridge", "--n-features", 4]
    fails(*ridge, match=r"--label-bounds is missing: --model ridge predicts a number")
    assert json.loads(passes(*ridge, "--label-bounds", "-1,1", "--json").stdout)["loss"] == "squared"
    assert (
        json.loads(
            passes("plan", "--model", "svm", "--epsilon", "inf", "--n-samples", 9, "--n-features", 2, "--json").stdout
        )["epsilon"]
        == "inf"
    )


@pytest.mark.usefixtures("quick_forecasts")
def test_plan_says_what_accuracy_to_expect(folder: Folder) -> None:
    common = ["plan", "--model", "logistic", "--epsilon", 1, "--delta", 1e-5, "--n-samples", 200, "--n-features", 3]
    drawing = folder.path / "plan.svg"
    told = ["--accuracy-without-noise", 0.9, "--picture", drawing]
    shown = passes(*common, *told).stdout
    assert shown.startswith("With 200 rows and 3 columns expect an accuracy of ")
    assert "where a model without privacy reaches 90.0 %" in " ".join(shown.split())
    assert "For the accountant" in shown
    assert drawing.read_text().startswith("<svg ")
    fails(*common, *told, match=r"--picture .*plan\.svg")
    found = json.loads(passes(*common, *told[:2], "--json").stdout)["forecast"]
    assert found["expected"]["as told"]["score"] < 0.9
    fails(*common, "--accuracy-without-noise", 0.3, match=r"accuracy-without-noise must be")
    without = ["plan", "--model", "svm", "--epsilon", "inf", "--n-samples", 200, "--n-features", 3]
    assert "No forecast of accuracy: without noise there is nothing to foresee." in passes(*without).stdout
    fails(*without, "--largest-class", 0.6, match=r"--largest-class is for a forecast, and there is none")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--n-samples", 10), r"--n-features is missing: give it, or --schema"),
        (("--n-samples", 0, "--n-features", 2), r"n-samples must be a whole number >= 1 and <= 137438953472; got 0"),
        (("--n-samples", 10, "--n-features", 2, "--n-classes", 1), r"--n-classes must be a whole number >= 2"),
        (("--n-samples", 10, "--n-features", 2, "--schema", "schema.toml"), r"together with --schema"),
        (
            ("--n-samples", 10, "--n-features", 2, "--alpha", "nan"),
            r"alpha must be a finite number >= 1e-50 .*; got nan",
        ),
    ],
)
def test_plan_refuses_what_fit_would_refuse(given: tuple[object, ...], message: str) -> None:
    fails("plan", "--model", "svm", "--epsilon", 1, "--delta", 1e-5, *given, match=message)


def test_a_draft_becomes_a_model_once_it_is_confirmed(folder: Folder) -> None:
    draft = passes("schema", folder.table, "--target", "income")
    assert draft.stdout.startswith("# A draft, made by looking at the data")
    assert "note: a draft, made from the data" in draft.stderr
    folder.schema.write_text(draft.stdout)
    folder.refuses(match=r"schema\.toml: the schema is a draft")
    folder.schema.write_text(draft.stdout.replace("confirmed = false", "confirmed = true"))
    folder.fit()
    written = folder.path / "draft.toml"
    passes("schema", folder.table, "--target", "income", "--out", written)
    assert written.read_text() == draft.stdout
    fails("schema", folder.table, "--out", written, match=r"the file exists")
    fails("schema", folder.table, "--target", "wage", match=r"no column 'wage' among its 5 .*Did you mean 'age'")


# ----------------------------- the ends of a run


def test_a_paid_model_is_kept_when_the_disk_refuses_it(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.setattr(_output.tempfile, "tempdir", str(elsewhere))
    write = _output.write_whole

    def full(path: Path, text: str, **how: Any) -> None:
        if path == folder.model:
            raise OSError(28, "No space left on device")
        write(path, text, **how)

    monkeypatch.setattr(_output, "write_whole", full)
    message = fails(
        *folder.fit_arguments(),
        match=r"model\.json: cannot write the file: No space left on device\. The content was kept in",
    )
    assert not folder.model.exists()
    assert Guarantee.from_json(folder.receipt.read_text()).epsilon == 1.0  # what could be written was
    (kept,) = elsewhere.glob("*/model.json")
    assert str(kept) in message
    assert load_model(kept)[0].guarantee_.epsilon == 1.0


def test_an_interrupt_ends_with_130(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["sottovoce.cli.fit"], "make_estimator", interrupt)
    result = run(*folder.fit_arguments())
    assert result.exit_code == 130
    assert not folder.model.exists()


def test_an_unexpected_error_keeps_its_traceback_and_shows_no_variables(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fault(*_: object, **__: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(sys.modules["sottovoce.cli.fit"], "make_estimator", fault)
    assert isinstance(run(*folder.fit_arguments()).exception, RuntimeError)
    assert app.pretty_exceptions_enable is False


def test_a_real_process_trains_predicts_and_fails_in_words(folder: Folder) -> None:
    assert re.fullmatch(r"sottovoce \d+\.\d+\.\d+\S*\n", passes("--version").stdout)
    done = process(*folder.fit_arguments(random_state=1))
    assert (done.returncode, "differential privacy" in done.stdout) == (0, True), done.stderr
    again = process(*folder.fit_arguments())
    assert (again.returncode, again.stdout) == (2, "")
    assert re.fullmatch(r"error: --out .*model\.json: the file exists\..*\n", again.stderr)


def test_a_closed_pipe_ends_quietly(folder: Folder) -> None:
    folder.fit("--quiet")
    pd.concat([frame()] * 200).to_csv(folder.table, index=False)
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        command = [sys.executable, "-m", "sottovoce", "predict", str(folder.model), str(folder.table)]
        done = subprocess.run(command, stdout=pipe, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
    assert done.stderr == ""
    assert done.returncode != 0


def test_what_a_file_gets_is_utf_8_whatever_the_locale_is(folder: Folder) -> None:
    folder.edit_table(lambda text: text.replace("private", "prywatny Łódź"))
    told = {"encoding": "utf-8", "env": {**os.environ, "PYTHONUTF8": "0", "PYTHONIOENCODING": "cp1252"}}
    draft = process("schema", folder.table, "--target", "income", **told)
    assert draft.stdout == passes("schema", folder.table, "--target", "income").stdout
    assert "no column 'Łódź'" in process("schema", folder.table, "--target", "Łódź", **told).stderr


# ----------------------------- real data


def test_adult_from_its_raw_files(tmp_path: Path, real_data: Callable[..., Path]) -> None:
    examples = Path(__file__).parents[2] / "examples"
    data = real_data("adult.data.bz2", "adult.test.bz2")
    model = tmp_path / "adult.json"
    passes(
        "fit", data / "adult.data.bz2", "--schema", examples / "adult.toml", "--model", "svm",
        "--epsilon", 1, "--delta", 1e-5, "--out", model, "--random-state", 0,
    )  # fmt: skip
    result = passes("predict", model, data / "adult.test.bz2", "--score")
    assert len(records(result.stdout)) == 16_281
    found = re.search(r"accuracy (0\.\d+) on 16281 rows", result.stderr)
    assert found is not None
    assert float(found[1]) >= 0.845
