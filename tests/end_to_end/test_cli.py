"""The command line, from a table on disk to a model with its receipt, its predictions, and the ends of a run.

What is asked wrongly is in `test_wrong_use.py`, tables with a fault in `unit/tables/test_bad_files.py`.
"""

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

from sottovoce import Guarantee
from sottovoce.cli import _output, app
from sottovoce.estimators.persistence import load_model
from support.commands import fails, incomes, passes, process, records, run
from support.schemas import schema_text

SCHEMA = schema_text(
    "income", '[table]\nmissing = ["?", ""]\n', age=(17, 90), work=["private", "state"], id=None,
    income=["low", "high"], hours=(0, 100),
)  # fmt: skip
N_ROWS = 300
FIT = ("fit", "table.csv", "--schema", "schema.toml", "--model", "logistic", "--epsilon", 1, "--delta", 1e-5, "--out")
PLAIN = ("--epsilon", "inf")


def frame() -> pd.DataFrame:
    rng, people = np.random.default_rng(1), incomes(N_ROWS)
    people.loc[rng.random(N_ROWS) < 0.1, "work"] = "?"
    return people.assign(hours=rng.integers(0, 101, N_ROWS))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a table and its schema, where the commands are typed."""
    frame().to_csv(tmp_path / "table.csv", index=False)
    (tmp_path / "schema.toml").write_text(SCHEMA)
    monkeypatch.chdir(tmp_path)
    return tmp_path


# ----------------------------- models


def test_fit_writes_a_model_and_its_receipt_and_prints_it(folder: Path) -> None:
    result = passes(*FIT, "model.json")
    for words in ("DPLogisticRegression", "(1, 1e-05)-differential privacy", "taken as public or true"):
        assert words in result.stdout
    model, schema = load_model(folder / "model.json")
    assert schema is not None
    assert (schema.target, model.classes_.tolist(), model.data_norm) == ("income", ["high", "low"], 3**0.5)
    receipt = Guarantee.from_json((folder / "model.receipt.json").read_text())
    assert receipt == model.guarantee_
    assert (receipt.epsilon, receipt.delta, receipt.seeded) == (1.0, 1e-5, False)
    of_model, of_receipt = passes("show", "model.json").stdout, passes("show", "model.receipt.json").stdout
    assert re.search(r"predicts +income", of_model)
    assert of_receipt.partition("\n")[2] in of_model
    for path in ("model.json", "model.receipt.json"):
        assert passes("show", path, "--json").stdout == (folder / "model.receipt.json").read_text()
    assert passes(*FIT, "model.json", "--quiet", "--force", "--data-norm", 1.25).output == ""
    assert load_model(folder / "model.json")[0].data_norm == 1.25


MODELS = [
    ("logistic", ("--target", "income"), r"classes +high, low", "income"),
    ("svm", ("--target", "income"), r"data_norm ?= ?1\.73", "income"),
    ("ridge", ("--target", "hours", "--no-intercept"), r"label bounds +0 to 100", "hours"),
    ("lasso", ("--target", "hours", "--radius", 30, "--data-bound", 0.5), r"data_bound ?= ?0\.5", "hours"),
    ("sparse-logistic", ("--radius", 6, "--n-steps", 5), r"that are not 0 +[1-3]\b", "income"),
]


@pytest.mark.parametrize(("model", "options", "shown", "target"), MODELS, ids=[model for model, *_ in MODELS])
def test_every_model_is_trained_shown_and_scored(folder: Path, model: str, options: Any, shown: str, target: str):
    assert "NOT PRIVATE" in passes(*FIT, "m.json", "--model", model, *options, *PLAIN).stdout
    assert re.search(shown, passes("show", "m.json").stdout)
    found, _ = load_model(folder / "m.json")
    scored = passes(
        "predict", "m.json", "table.csv", "--score", *(["--proba"] if hasattr(found, "predict_proba") else [])
    )
    rows = records(scored.stdout)
    assert len(rows) == N_ROWS
    if target == "hours":
        assert re.search(r"mean squared error [\d.]+, R\^2 -?0\.\d+ on 300 rows\. NOT PRIVATE", scored.stderr)
        assert float(rows[0]["prediction"]) == pytest.approx(50, abs=50)
    else:
        accuracy = np.mean([row["prediction"] for row in rows] == frame()["income"])
        assert accuracy > (0.9 if model == "logistic" else 0.6)
        assert f"accuracy {accuracy:.4f} on 300 rows. NOT PRIVATE" in scored.stderr
    for row in rows if hasattr(found, "predict_proba") else ():
        high, low = float(row["probability of high"]), float(row["probability of low"])
        assert high + low == pytest.approx(1.0)
        assert row["prediction"] == ("high" if high > low else "low")


@pytest.mark.parametrize(("target", "kind", "model"), [("income", "class", "logistic"), ("hours", "number", "ridge")])
def test_the_model_follows_from_the_target(folder: Path, target: str, kind: str, model: str) -> None:
    given = [*FIT[:4], *FIT[6:-1], "--target", target, "--random-state", 1]
    passes(*given, "--out", "one.json", "--model", model)
    found = passes(*given, "--out", "two.json")
    assert found.stderr == f"note: {target} is a {kind}, so the model is {model}; --model chooses another.\n"
    assert (folder / "one.json").read_text() == (folder / "two.json").read_text()
    assert passes(*given, "--out", "two.json", "--quiet", "--force").stderr == ""


@pytest.mark.parametrize(("epsilon", "told"), [(0.1, True), (0.2, False)])
def test_so_few_rows_that_a_constant_may_do_as_well_are_told(folder: Path, epsilon: float, told: bool) -> None:
    few = passes(*FIT, "m.json", "--epsilon", epsilon)
    assert ("so few rows are mostly noise" in few.stdout) == told
    assert len(few.stdout.strip().splitlines()) <= 11
    said = passes(*FIT, "m.json", "--force", "--target", "hours", "--model", "ridge", "--epsilon", epsilon).stdout
    receipt = load_model(folder / "m.json")[0].guarantee_
    assert receipt.parameters["solver"] == "constant"
    assert any("label_bounds = (0.0, 100.0)" in text for text in receipt.assumptions)
    assert "the model is one number" in " ".join(said.split())


def test_every_format_gives_the_same_model(folder: Path) -> None:
    passes(*FIT, "model.json", "--random-state", 3)
    (folder / "t.csv.gz").write_bytes(gzip.compress((folder / "table.csv").read_bytes()))
    frame().to_parquet("t.parquet")
    (folder / "t.data").write_text("title\n" + frame().to_csv(sep=";", index=False, header=False))
    for name in ("t.csv.gz", "t.parquet", "t.data"):
        options = ["--no-header", "--delimiter", ";", "--skip-rows", "1"] if name == "t.data" else []
        passes("fit", name, *FIT[2:], "other.json", *options, "--random-state", 3, "--force")
        first, other = (load_model(folder / file)[0] for file in ("model.json", "other.json"))
        assert first.coef_.tolist() == other.coef_.tolist()
        assert len(records(passes("predict", "other.json", name, *options).stdout)) == N_ROWS


def test_prediction_needs_neither_target_nor_other_columns(folder: Path) -> None:
    passes(*FIT, "model.json")
    whole = passes("predict", "model.json", "table.csv").stdout
    assert len(records(whole)) == N_ROWS
    frame()[["hours", "age", "work"]].assign(extra=1).to_parquet("bare.parquet")
    result = passes("predict", "model.json", "bare.parquet")
    assert result.stdout == whole
    assert "note: columns that are not in the schema are not used (1): extra" in result.stderr
    frame().drop(columns="income").to_csv("t.csv", index=False, header=False)
    assert passes("predict", "model.json", "t.csv", "--no-header", "--out", "p.csv").stdout == ""
    assert (folder / "p.csv").read_text() == whole


def test_boolean_labels_are_written_as_a_schema_writes_them(folder: Path) -> None:
    (folder / "schema.toml").write_text(SCHEMA.replace('["low", "high"]', "[false, true]"))
    (folder / "table.csv").write_text(
        (folder / "table.csv").read_text().replace("high", "True").replace("low", "FALSE")
    )
    passes(*FIT, "model.json", "--quiet", *PLAIN)
    lines = passes("predict", "model.json", "table.csv").stdout.splitlines()
    assert (lines[0], set(lines[1:])) == ("prediction", {"false", "true"})


# ----------------------------- plans and drafts


@pytest.fixture
def quick_forecasts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sottovoce.forecasting.trials._MOST_ROWS", 200)
    monkeypatch.setattr("sottovoce.forecasting.trials._RUNS", 2)
    module = importlib.import_module("sottovoce.forecasting.forecast")  # the package has a function of its name
    monkeypatch.setattr(module, "_COUNTS", (100, 1000))


PLANS = [
    (("--model", "logistic", "--schema", "schema.toml"), {"n_features": 4, "n_models": 1, "loss": "logistic"}),
    (("--model", "svm", "--n-features", 4, *PLAIN), {"epsilon": "inf"}),
    (("--model", "sparse-logistic", "--schema", "schema.toml", "--radius", 2, "--n-steps", 7),
     {"steps of each model": 7}),
]  # fmt: skip


@pytest.mark.usefixtures("quick_forecasts")
@pytest.mark.parametrize(("options", "facts"), PLANS)
def test_plan_tells_the_price_without_data(folder: Path, options: tuple[object, ...], facts: dict[str, Any]) -> None:
    told = json.loads(passes("plan", "--epsilon", 1, "--delta", 1e-5, "--n-samples", 1000, *options, "--json").stdout)
    assert {**told, **facts} == told


@pytest.mark.usefixtures("quick_forecasts")
def test_plan_says_what_accuracy_to_expect(folder: Path) -> None:
    common = ["plan", "--model", "logistic", "--epsilon", 1, "--delta", 1e-5, "--n-samples", 200, "--n-features", 3]
    told = ["--accuracy-without-noise", 0.9]
    shown = passes(*common, *told).stdout
    assert shown.startswith("With 200 rows and 3 columns expect an accuracy of ")
    assert "where a model without privacy reaches 90.0 %" in " ".join(shown.split())
    assert "For the accountant" in shown
    assert re.search(r"epsilon +1\b", shown)
    found = json.loads(passes(*common, *told, "--json").stdout)["forecast"]
    assert found["expected"]["as told"]["score"] < 0.9
    without = ["plan", "--model", "svm", *PLAIN, "--n-samples", 200, "--n-features", 3]
    assert "No forecast of accuracy: without noise there is nothing to foresee." in passes(*without).stdout


# ----------------------------- the ends of a run


def test_a_paid_model_is_kept_when_the_disk_refuses_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.setattr(_output.tempfile, "tempdir", str(elsewhere))
    write = _output.write_whole

    def full(path: Path, text: str, **how: Any) -> None:
        if path == Path("model.json"):
            raise OSError(28, "No space left on device")
        write(path, text, **how)

    monkeypatch.setattr(_output, "write_whole", full)
    message = fails(
        *FIT, "model.json", match=r"model\.json: cannot write the file: No space left on device\. The content was kept"
    )
    assert not (folder / "model.json").exists()
    receipt = Guarantee.from_json((folder / "model.receipt.json").read_text())  # what could be written was
    (kept,) = elsewhere.glob("*/model.json")
    assert str(kept) in message
    assert load_model(kept)[0].guarantee_ == receipt


def test_an_unexpected_error_keeps_its_traceback_and_shows_no_variables(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fault(*_: object, **__: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(sys.modules["sottovoce.cli.fit"], "make_estimator", fault)
    assert isinstance(run(*FIT, "model.json").exception, RuntimeError)
    assert app.pretty_exceptions_enable is False


def test_a_real_process_trains_and_predicts(folder: Path) -> None:
    assert re.fullmatch(r"sottovoce \d+\.\d+\.\d+\S*\n", passes("--version").stdout)
    done = process(*FIT, "model.json", "--random-state", 1)
    assert (done.returncode, "differential privacy" in done.stdout) == (0, True), done.stderr
    with (folder / "table.csv").open("rb") as table:
        done = process("predict", "model.json", "-", stdin=table)
    assert done.stdout == passes("predict", "model.json", "table.csv").stdout
    pd.concat([frame()] * 50).to_csv("table.csv", index=False)
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:  # a pipe that nobody reads from ends it quietly
        command = [sys.executable, "-m", "sottovoce", "predict", "model.json", "table.csv"]
        done = subprocess.run(command, stdout=pipe, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
    assert (done.stderr, done.returncode != 0) == ("", True)


def test_what_a_file_gets_is_utf_8_whatever_the_locale_is(folder: Path) -> None:
    (folder / "table.csv").write_text((folder / "table.csv").read_text().replace("private", "prywatny Łódź"))
    told = {"encoding": "utf-8", "env": {**os.environ, "PYTHONUTF8": "0", "PYTHONIOENCODING": "cp1252"}}
    draft = process("schema", "table.csv", "--target", "income", **told)
    assert draft.stdout == passes("schema", "table.csv", "--target", "income").stdout
    wrong = process("schema", "table.csv", "--target", "Łódź", **told)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert re.fullmatch(r"error: table\.csv: there is no column 'Łódź' among its 5 .*\n", wrong.stderr)


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
    found = re.search(r"accuracy (0\.\d+) on 16281 rows", result.stderr)
    assert found is not None
    assert float(found[1]) >= 0.845
