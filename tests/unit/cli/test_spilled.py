"""Tables that do not fit into memory: encoded to scratch disk, and the same files come out."""

import json
import os
import re
import threading
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from sottovoce.central.data import streamed
from sottovoce.central.data.scratch import ScratchFile
from sottovoce.cli import _rows, app
from sottovoce.exceptions import StorageError
from support.schemas import schema_text

N = 700
CITIES = [f"city {number}" for number in range(40)]
COLUMNS = {
    "age": (17, 90), "city": CITIES, "income": (0, 100), "kind": ["a", "b", "c"], "rich": ["no", "yes"], "who": None
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("spilled")
    rng = np.random.default_rng(0)
    age, income = rng.integers(17, 91, N), rng.uniform(0, 100, N).round(2)
    frame = pd.DataFrame({
        "age": age, "income": income, "kind": rng.choice(["a", "b", "c"], N),
        "city": rng.choice(CITIES, N), "rich": np.where(age + income > 100, "yes", "no"),
        "who": np.arange(N) * 7 % 150,
    })  # fmt: skip
    frame.to_csv(place / "t.csv", index=False)
    frame.to_parquet(place / "t.parquet", row_group_size=300)
    for target, left_out in (("rich", ()), ("kind", ()), ("income", ("city",)), ("age", ())):
        text = schema_text(target, "confirmed = true\n", **(COLUMNS | dict.fromkeys(left_out)))
        (place / f"{target}.toml").write_text(text)
    return place


@pytest.fixture
def no_memory(monkeypatch):
    """Hold no rows in memory: read 64 of them at a time, and in blocks of 50."""
    written = []
    original = streamed.ScratchTable.add
    monkeypatch.setattr(
        streamed.ScratchTable, "add", lambda self, X, y=None: written.append(X.shape) or original(self, X, y)
    )
    monkeypatch.setattr(_rows, "HELD_BYTES", -1)
    monkeypatch.setattr(_rows, "MOST_ROWS", 64)
    monkeypatch.setattr(streamed, "BLOCK_BYTES", 50 * 8 * 5)
    return written


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def fitted(folder, out, table, *options):
    done = run("fit", folder / table, "--epsilon", 2, "--delta", 1e-6, "--random-state", 1, "--out", out, *options)
    assert done.exit_code == 0, done.output
    model = json.loads(out.read_text())
    receipt = json.loads(out.with_name(f"{out.stem}.receipt.json").read_text())
    return model, {name: value for name, value in receipt.items() if name not in ("created", "signature")}


PERSONS = ("--unit", "who", "--max-rows-per-unit", 2)
FITS = {
    "logistic": ("t.csv", "--model", "logistic", "--schema", "rich.toml"),
    "ridge": ("t.csv", "--model", "ridge", "--schema", "income.toml"),
    "svm": ("t.parquet", "--model", "svm", "--solver", "scd", "--schema", "rich.toml"),
    "multinomial": ("t.parquet", "--model", "logistic", "--schema", "kind.toml"),
    "any order": ("t.csv", "--model", "logistic", "--solver", "sgd", "--schema", "rich.toml"),
    "by columns": ("t.parquet", "--model", "lasso", "--radius", 2, "--schema", "income.toml"),
    "persons": ("t.csv", "--model", "svm", "--schema", "rich.toml", *PERSONS),
    "weighted": ("t.csv", "--model", "logistic", "--class-weight", "no=1,yes=3", "--schema", "rich.toml"),
}


def of(folder, options):
    return [folder / option if str(option).endswith(".toml") else option for option in options]


@pytest.mark.parametrize("kind", FITS)
def test_a_fit_from_scratch_disk_writes_the_same_model(folder, tmp_path, monkeypatch, request, kind):
    table, *options = FITS[kind]
    options = of(folder, options)
    whole = fitted(folder, tmp_path / "whole.json", table, *options)
    written = request.getfixturevalue("no_memory")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    assert fitted(folder, tmp_path / "spilled.json", table, *options, "--scratch", scratch) == whole
    assert sum(rows for rows, _ in written) == N and len(written) == -(-N // 64)
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("persons", [(), PERSONS])
def test_rows_set_aside_and_their_evaluation_are_the_same(folder, tmp_path, request, persons):
    def files(name):
        out, held = tmp_path / f"{name}.json", tmp_path / f"{name}.csv"
        options = of(folder, ["--model", "logistic", "--schema", "rich.toml", *persons])
        fitted(folder, out, "t.csv", *options, "--holdout", 0.3, "--holdout-out", held, "--evaluate-epsilon", 1)
        judged = run("evaluate", out, held, "--epsilon", 1, "--random-state", 2, "--json")
        assert judged.exit_code == 0, judged.output
        found = [json.loads(out.with_name(f"{name}.evaluation.json").read_text()), json.loads(judged.stdout)]
        for one in found:
            one["guarantee"].pop("created", None)
        return json.loads(out.read_text()), held.read_text(), *found

    whole = files("whole")
    written = request.getfixturevalue("no_memory")
    assert files("spilled") == whole
    assert written


@pytest.mark.parametrize("kind", ["query", "pipe"])
def test_rows_that_can_be_read_once_lie_where_scratch_says(folder, tmp_path, monkeypatch, kind):
    """In clear: a folder on a disk that is encrypted must not be passed over for that of temporary files."""
    options = of(folder, ["--model", "logistic", "--schema", "rich.toml"])
    model, _ = fitted(folder, tmp_path / "m.json", "t.csv", *options)
    monkeypatch.setattr("sottovoce.tables.text._PIPE_IN_MEMORY", 10)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "there is none"))
    with duckdb.connect(str(tmp_path / "t.duckdb")) as database:
        database.execute(f"CREATE TABLE t AS SELECT row_number() OVER () AS row, * FROM '{folder / 't.parquet'}'")

    def again(*command):
        if kind == "query":
            given = [f"duckdb:///{tmp_path / 't.duckdb'}", "--query", "SELECT * EXCLUDE row FROM t ORDER BY row"]
        else:
            given, text = [tmp_path / "pipe.csv"], (folder / "t.csv").read_bytes()
            given[0].unlink(missing_ok=True)
            os.mkfifo(given[0])
            threading.Thread(target=lambda: given[0].write_bytes(text), daemon=True).start()
        command += (*given, "--epsilon", 2, "--random-state", 1, "--scratch", tmp_path)
        done = run(*command)
        assert done.exit_code == 0, done.output

    again("fit", "--delta", 1e-6, *options, "--out", tmp_path / "again.json")
    assert json.loads((tmp_path / "again.json").read_text())["parameters"] == model["parameters"]
    again("evaluate", tmp_path / "m.json")


def test_a_disk_without_room_is_refused_before_the_charge(folder, tmp_path, no_memory, monkeypatch):
    options = of(folder, ["--model", "logistic", "--schema", "rich.toml", "--out", tmp_path / "m.json"])
    command = ["fit", folder / "t.csv", "--epsilon", 1, "--delta", 1e-6, *options]
    done = run(*command, "--scratch", tmp_path / "missing")
    assert done.exit_code == 2 and "no scratch file can be made there" in done.stderr

    def none(n_bytes, place, what):
        raise StorageError(f"{what} takes {n_bytes}")

    monkeypatch.setattr(_rows, "check_room", none)
    each = 12 * 4 + 4 + 64 + 64 + 24 * 2
    done = run(*command)
    assert done.exit_code == 2 and f"error: the encoded table takes {N * each}\n" in done.stderr
    done = run(*command, "--adjacency", "add-remove", "--n-public", 1000)  # the number of rows is secret
    assert done.exit_code == 2 and f"error: the encoded table takes {1000 * each}\n" in done.stderr
    assert no_memory == []


def test_a_disk_that_fills_up_is_told_with_what_was_charged(folder, tmp_path, no_memory, monkeypatch):
    ledger = f"sqlite:///{tmp_path / 'b.db'}"
    made = run("ledger", "create", "--ledger", ledger, "--dataset", "people", "--epsilon", 5, "--delta", 1e-4)
    assert made.exit_code == 0, made.output

    def full(self, values, at=None):
        raise StorageError("the disk is full")

    monkeypatch.setattr(ScratchFile, "write", full)
    options = of(folder, ["--model", "logistic", "--schema", "rich.toml", "--out", tmp_path / "m.json"])
    done = run(
        "fit", folder / "t.csv", "--epsilon", 1, "--delta", 1e-6, *options, "--ledger", ledger, "--dataset", "people"
    )
    assert done.exit_code == 2
    assert re.search(r"error: the disk is full\nCharge [0-9a-f]+ of dataset 'people' counts as spent", done.stderr)
    assert not Path(tmp_path / "m.json").exists()


@pytest.mark.parametrize("where", ["writing", "a pass"])
def test_an_interrupt_leaves_nothing_behind(folder, tmp_path, no_memory, monkeypatch, where):
    scratch, seen = tmp_path / "scratch", []
    scratch.mkdir()

    def interrupt(*_):
        seen.append(list(scratch.iterdir()))
        raise KeyboardInterrupt

    monkeypatch.setattr(*((ScratchFile, "write") if where == "writing" else (ScratchFile, "read")), interrupt)
    options = of(folder, ["--model", "logistic", "--schema", "rich.toml", "--out", tmp_path / "m.json"])
    done = run("fit", folder / "t.csv", "--epsilon", 1, "--delta", 1e-6, "--scratch", scratch, *options)
    assert (done.exit_code, done.stderr) == (130, "interrupted: nothing was released, and no ledger was charged.\n")
    assert seen == [[]]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["scratch"]
