"""``sottovoce ledger`` and ``sottovoce fit --ledger``: a budget from its making to its end."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from sottovoce.cli import app

FACTS = ["--n-features", "2", "--data-norm", "1", "--classes", "-1,1"]


@pytest.fixture
def url(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    rows = rng.uniform(-0.5, 0.5, (200, 2))
    lines = (f"{1 if a > 0 else -1} 1:{a:.4f} 2:{b:.4f}\n" for a, b in rows)
    (tmp_path / "rows.libsvm").write_text("".join(lines))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOTTOVOCE_LEDGER", "sqlite:///budget.db")
    return "sqlite:///budget.db"


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def create(*more):
    return run("ledger", "create", "--dataset", "people", "--epsilon", 1, "--delta", 1e-6, *more)


def fit(out, *more, epsilon=0.6):
    arguments = ["fit", "rows.libsvm", "--model", "logistic", "--epsilon", epsilon, "--delta", 1e-6, "--out", out]
    return run(*arguments, *FACTS, "--format", "libsvm", *more)


def test_a_budget_from_its_making_to_its_end(url, tmp_path):
    made = create()
    assert made.exit_code == 0, made.output
    assert "epsilon 1 at delta 1e-06" in made.stdout and "head " in made.stdout
    assert fit("one.json", "--dataset", "people").exit_code == 0
    refused = fit("two.json", "--dataset", "people", epsilon=0.9)
    assert refused.exit_code == 2 and not (tmp_path / "two.json").exists()
    assert "budget of epsilon=1.0 at delta=1e-06, of which epsilon=0." in refused.stderr
    assert fit("three.json", "--dataset", "people", "--random-state", 0, epsilon=0.3).exit_code == 0

    shown = run("ledger", "show")
    assert "NOT PRIVATE" in shown.stdout and "1 charge(s) with a seed" in shown.stdout
    (summary,) = json.loads(run("ledger", "show", "--json", "--dataset", "people").stdout)
    assert 0.6 < summary["spent"] < 1.0 and summary["remaining"] > 0.0

    history = json.loads(run("ledger", "history", "--dataset", "people", "--json").stdout)
    assert [(charge["state"], charge["private"]) for charge in history] == [("committed", True), ("committed", False)]
    assert history[0]["plan"]["n_samples"] == 200 and history[0]["code"].startswith("sottovoce ")
    table = run("ledger", "history", "--dataset", "people").stdout
    assert "DPLogisticRegression" in table and "NO: seeded" in table

    assert run("ledger", "export", "--out", "all.jsonl").stdout.startswith("head ")
    head = run("ledger", "export", "--out", "all.jsonl", "--force").stdout.split()[1]
    for where in ((), ("--file", "all.jsonl")):
        checked = run("ledger", "verify", *where, "--expected-head", head)
        assert checked.exit_code == 0 and f"head {head}" in checked.stdout
        assert "cut off" not in checked.stdout
        assert "cut off" in run("ledger", "verify", *where).stdout
    text = (tmp_path / "all.jsonl").read_text()
    (tmp_path / "all.jsonl").write_text(text.replace("DPLogistic", "DPLogistik", 1))
    broken = run("ledger", "verify", "--file", "all.jsonl")
    assert broken.exit_code == 1 and "PROBLEM: entry 2 was changed" in broken.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("ledger", "show", "--dataset", "people"), "there is no ledger at"),
        (("ledger", "create", "--dataset", "x", "--epsilon", "-1", "--delta", "0"), "epsilon must be"),
        (("ledger", "create", "--dataset", " ", "--epsilon", "1", "--delta", "0"), "dataset must be a name"),
        (("ledger", "show", "--ledger", "budget.db"), "sqlite:///PATH or postgresql"),
        (("ledger", "verify", "--file", "none.jsonl"), "cannot read the export"),
        (("ledger", "export", "--out", "none/all.jsonl"), "does not exist"),
    ],
)
def test_wrong_use(url, arguments, message):
    result = run(*arguments)
    assert result.exit_code == 2 and message in result.stderr


def test_wrong_use_of_an_existing_ledger(url, tmp_path, monkeypatch):
    assert create().exit_code == 0
    for result, message in [
        (create(), "exists already"),
        (run("ledger", "history", "--dataset", "others"), "there are: 'people'"),
        (fit("one.json"), "dataset is missing"),
        (fit("one.json", "--dataset", "others"), "there are: 'people'"),
        (fit("one.json", "--dataset", "people", "--adjacency", "replace-one"), "gives no guarantee for 'zero-out'"),
    ]:
        assert result.exit_code == 2 and message in result.stderr
    monkeypatch.delenv("SOTTOVOCE_LEDGER")
    assert "ledger is missing" in fit("one.json", "--dataset", "people").stderr
    assert "--ledger is missing" in run("ledger", "verify").stderr
    assert not (tmp_path / "one.json").exists()
