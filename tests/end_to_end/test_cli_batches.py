"""``predict`` and ``schema`` on tables that are read some rows at a time: the same output, whole or not at all."""

import gzip
import io
import itertools
import os
import re
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from sklearn.metrics import mean_squared_error, r2_score

import sottovoce as sv
from sottovoce.estimators.persistence import load_model, model_to_json
from sottovoce.tables import NumericColumn, Schema
from support.commands import incomes, passes, run
from support.schemas import schema_text

SCHEMA = schema_text("income", age=(10, 100), work=["private", "state"], id=None, income=["low", "high"])
N_ROWS = 200


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    (folder / "schema.toml").write_text(SCHEMA)
    incomes(N_ROWS).to_csv(folder / "t.csv", index=False)
    passes(
        "fit", folder / "t.csv", "--schema", folder / "schema.toml", "--model", "logistic", "--epsilon", "inf",
        "--out", folder / "model.json",
    )  # fmt: skip
    return folder / "model.json"


@pytest.fixture
def few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sottovoce.cli._rows.MOST_ROWS", 7)


def written(path: Path) -> Path:
    if path.suffix == ".parquet":
        incomes(N_ROWS).to_parquet(path)
    else:
        raw = incomes(N_ROWS).to_csv(index=False).encode()
        path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
    return path


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet"])
def test_predictions_are_the_same_in_batches(
    model: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = written(tmp_path / name)
    arguments = ("predict", model, table, "--proba", "--id", "id", "--id", "age", "--id", "id", "--score")
    whole = passes(*arguments)
    monkeypatch.setattr("sottovoce.cli._rows.MOST_ROWS", 7)
    batches = passes(*arguments)
    passes(*arguments, "--out", tmp_path / "p.csv")
    for text in (batches.stdout, (tmp_path / "p.csv").read_text()):
        found, expected = pd.read_csv(io.StringIO(text)), pd.read_csv(io.StringIO(whole.stdout))
        pd.testing.assert_frame_equal(found, expected, rtol=1e-12)
    assert batches.stderr == whole.stderr
    assert found["id"].tolist() == incomes(N_ROWS)["id"].tolist()
    assert list(found.columns) == ["id", "age", "prediction", "probability of high", "probability of low"]
    accuracy = np.mean(found["prediction"] == incomes(N_ROWS)["income"])
    assert whole.stderr.startswith(f"accuracy {accuracy:.4f} on {N_ROWS} rows. NOT PRIVATE")


@pytest.mark.usefixtures("few_at_a_time")
def test_numbers_are_predicted_in_batches(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (N_ROWS, 3))
    y = X @ [0.3, -0.2, 0.1] + rng.normal(0, 0.1, N_ROWS)
    ridge = sv.DPRidge(epsilon=np.inf, data_norm=2.0, label_bounds=(-1, 1)).fit(X, y)
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y)
    frame.to_csv(tmp_path / "t.csv", index=False)
    kinds = {name: NumericColumn(name, bounds=(-1, 1)) for name in "abc"}
    schema = Schema(columns=(*kinds.values(), NumericColumn("y", bounds=(-2, 2))), target="y")
    (tmp_path / "m.json").write_text(model_to_json(ridge, schema=schema))
    scored = passes("predict", tmp_path / "m.json", tmp_path / "t.csv", "--score")
    predicted = pd.read_csv(io.StringIO(scored.stdout))["prediction"].to_numpy()
    np.testing.assert_allclose(predicted, ridge.predict(X), rtol=1e-9)
    error, r2 = mean_squared_error(y, predicted), r2_score(y, predicted)
    assert scored.stderr.startswith(f"mean squared error {error:.6g}, R^2 {r2:.4f} on {N_ROWS} rows. NOT PRIVATE")
    for n_rows, told in ((1, ""), (2, ", R^2 0.0000")):  # whose labels do not vary
        few = pd.DataFrame([[*X[0], 0.5]] * n_rows, columns=[*"abcy"])
        few.to_csv(tmp_path / "t.csv", index=False)
        missed = f"mean squared error {(predicted[0] - 0.5) ** 2:.6g}{told} on {n_rows} rows"
        assert passes("predict", tmp_path / "m.json", tmp_path / "t.csv", "--score").stderr.startswith(missed)


def test_a_pipe_is_drafted_and_predicted(model: Path, tmp_path: Path) -> None:
    raw = written(tmp_path / "t.csv").read_bytes()
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    for arguments in (("schema", "TABLE", "--target", "income"), ("predict", model, "TABLE", "--score")):
        writer = threading.Thread(target=pipe.write_bytes, args=(raw,))
        writer.start()
        piped = passes(*(pipe if argument == "TABLE" else argument for argument in arguments))
        writer.join()
        plain = passes(*(tmp_path / "t.csv" if argument == "TABLE" else argument for argument in arguments))
        assert (piped.stdout, piped.stderr) == (plain.stdout, plain.stderr)


# ----------------------------- errors and interrupts


@pytest.mark.usefixtures("few_at_a_time")
def test_an_error_far_down_leaves_the_old_file_and_names_the_line(model: Path, tmp_path: Path) -> None:
    table, out = written(tmp_path / "t.csv"), tmp_path / "p.csv"
    table.write_text(table.read_text() + "old,state,x,low\n")
    out.write_text("what was there\n")
    failed = run("predict", model, table, "--out", out, "--force")
    assert failed.exit_code == 2
    assert re.search(rf"t\.csv, line {N_ROWS + 2}, column 'age': 'old' is not a number", failed.stderr)
    assert out.read_text() == "what was there\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.csv", "t.csv"]
    streamed = run("predict", model, table)
    assert (streamed.exit_code, len(streamed.stdout.splitlines())) == (2, 1 + N_ROWS // 7 * 7)


@pytest.mark.usefixtures("few_at_a_time")
def test_an_interrupt_says_one_line_and_leaves_no_file(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = written(tmp_path / "t.csv")
    kind = type(load_model(model)[0])
    predict, calls = kind.predict, []

    def interrupted(self: Any, X: Any) -> Any:
        calls.append(len(X))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return predict(self, X)

    monkeypatch.setattr(kind, "predict", interrupted)
    result = run("predict", model, table, "--out", tmp_path / "p.csv")
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "interrupted\n")
    assert calls == [7, 7, 7]
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


# ----------------------------- progress


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("command", ["schema", "fit", "predict", "evaluate"])
def test_a_terminal_shows_how_many_rows_were_read(
    model: Path, tmp_path: Path, command: str, terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, screen = written(tmp_path / "t.csv"), io.StringIO()
    monkeypatch.setattr(
        "sottovoce.cli._output.Console",
        lambda **_: Console(file=screen, force_terminal=terminal, width=80, legacy_windows=False),
    )
    train = ("--schema", model.with_name("schema.toml"), "--model", "svm", "--epsilon", 1, "--delta", 1e-5)
    given = {
        "schema": (table,), "fit": (table, *train), "predict": (model, table),
        "evaluate": (model, table, "--epsilon", 1),
    }  # fmt: skip
    passes(command, *given[command], "--out", tmp_path / "out")
    counts = [int(count) for count in re.findall(r"reading t\.csv: (\d+) rows", screen.getvalue())]
    ends = [count for count, after in itertools.pairwise([*counts, 0]) if after < count]
    readings = 2 if command in ("fit", "evaluate") else 1  # for the number of rows, and for the rows
    assert ends == [N_ROWS] * readings * terminal
