"""``sottovoce ledger`` and ``sottovoce fit --ledger``: a budget from its making to its end."""

import json

import numpy as np
import pytest

from sottovoce.ledger import Ledger
from support.commands import run
from support.schemas import schema_text

SCHEMA = schema_text("sick", age=(0, 100), sick=["no", "yes"])
ROWS = schema_text("sign", a=(-1, 1), b=(-1, 1), sign=[-1, 1])


@pytest.fixture
def url(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    rows = rng.uniform(-0.5, 0.5, (200, 2))
    lines = (f"{1 if a > 0 else -1},{a:.4f},{b:.4f}\n" for a, b in rows)
    (tmp_path / "rows.csv").write_text("".join(["sign,a,b\n", *lines]))
    (tmp_path / "rows.toml").write_text(ROWS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOTTOVOCE_LEDGER", "sqlite:///budget.db")
    return "sqlite:///budget.db"


def create(*more):
    return run("ledger", "create", "--dataset", "people", "--epsilon", 1, "--delta", 1e-6, *more)


def fit(out, *more, epsilon=0.6):
    arguments = ["fit", "rows.csv", "--model", "logistic", "--epsilon", epsilon, "--delta", 1e-6, "--out", out]
    return run(*arguments, "--schema", "rows.toml", "--data-norm", 1, *more)


def test_a_budget_from_its_making_to_its_end(url, tmp_path):
    made = create("--allow-nonprivate")
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
    assert "DPLogisticRegression" in table and "NO: seeded" in table and "\\n" not in table

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


def history():
    return json.loads(run("ledger", "history", "--dataset", "people", "--json").stdout)


def broken_table(tmp_path, kind):
    """Write a table with one cell that breaks what is publicly known of it; return the arguments of `fit`."""
    if kind == "csv":
        rows = ["age,sick", *["30,no", "60,yes"] * 100, "41,perhaps"]
        (tmp_path / "people.csv").write_text("\n".join(rows) + "\n")
        (tmp_path / "schema.toml").write_text(SCHEMA)
        return ["people.csv", "--schema", "schema.toml"], "'perhaps'"
    (tmp_path / "broken.csv").write_text(f"{(tmp_path / 'rows.csv').read_text()}1,inf,0\n")
    return ["broken.csv", "--schema", "rows.toml"], "inf"


@pytest.mark.parametrize("kind", ["csv", "number"])
def test_a_cell_that_breaks_what_is_public_costs_the_charge_and_the_message_says_so(url, tmp_path, kind):
    create()
    table, message = broken_table(tmp_path, kind)
    spend = ["--model", "logistic", "--epsilon", 0.6, "--delta", 1e-6, "--dataset", "people", "--out", "one.json"]
    failed = run("fit", *table, *spend)
    assert failed.exit_code == 2 and message in failed.stderr
    assert "counts as spent" in failed.stderr and "sottovoce ledger cancel" in failed.stderr
    assert [(charge["state"], charge["plan"]["n_samples"]) for charge in history()] == [("reserved", 201)]


@pytest.mark.parametrize(
    ("content", "message"),
    [("", "the file is empty"), ("age,sick\n", "no row of data"), ("age,ill\n1,no\n", "no column 'sick'"),
     ("age,sick\n1,no,1\n", "3 cells instead of 2")],
)  # fmt: skip
def test_a_file_that_is_no_such_table_costs_nothing(url, tmp_path, content, message):
    create()
    (tmp_path / "people.csv").write_text(content)
    (tmp_path / "schema.toml").write_text(SCHEMA)
    spend = ["--model", "logistic", "--epsilon", 0.6, "--delta", 1e-6, "--dataset", "people", "--out", "one.json"]
    failed = run("fit", "people.csv", "--schema", "schema.toml", *spend)
    assert failed.exit_code == 2 and message in failed.stderr and "counts as spent" not in failed.stderr
    assert history() == []


def test_a_charge_is_cancelled_by_hand(url, tmp_path):
    create()
    table, _ = broken_table(tmp_path, "csv")
    spend = ["--model", "logistic", "--epsilon", 0.6, "--delta", 1e-6, "--dataset", "people", "--out", "one.json"]
    run("fit", *table, *spend)
    (open_,) = history()
    assert "--reason" in run("ledger", "cancel", open_["entry"]).stderr
    done = run("ledger", "cancel", open_["entry"], "--reason", "only the keeper saw it fail")
    assert done.exit_code == 0, done.stderr
    assert "cancelled by hand" in done.stdout and "only the keeper saw it fail" in done.stdout
    (after,) = history()
    assert (after["state"], after["by_hand"], after["reason"]) == ("cancelled", True, "only the keeper saw it fail")
    assert json.loads(run("ledger", "show", "--json").stdout)[0]["spent"] == 0.0
    table = " ".join(run("ledger", "history", "--dataset", "people").stdout.split())
    assert "cancelled by hand, by" in table
    for charge, message in ((open_["charge"], "is cancelled already"), ("17", "charge '17' is not in this ledger")):
        again = run("ledger", "cancel", charge, "--reason", "again")
        assert again.exit_code == 2 and message in again.stderr


def test_receipts_of_before_are_imported(url, tmp_path, monkeypatch):
    monkeypatch.delenv("SOTTOVOCE_LEDGER")
    assert fit("old.json").exit_code == 0
    monkeypatch.setenv("SOTTOVOCE_LEDGER", url)
    create()
    imported = run("ledger", "import", "old.receipt.json", "--dataset", "people")
    assert imported.exit_code == 0, imported.stderr
    assert "imported. Spent now: epsilon 0." in imported.stdout and "head " in imported.stdout
    (charge,) = history()
    assert (charge["state"], charge["plan"]["epsilon"]) == ("committed", 0.6) and len(charge["receipt"]) == 64
    assert "imported from its receipt" in " ".join(run("ledger", "history", "--dataset", "people").stdout.split())
    # the model file holds the same receipt
    again = run("ledger", "import", "old.json", "--dataset", "people")
    assert again.exit_code == 2 and "charged for this receipt already, by entry 2" in again.stderr
    another = ("ledger", "import", "old.json", "--dataset", "people", "--another-run")
    found = Ledger(url)
    assert json.loads(run(*another, "--json").stdout)["spent"] == found.spent("people")[0]
    checked = {
        "ok": True,
        "n_entries": found.verify().n_entries,
        "head": found.head(),
        "anchored": False,
        "problems": [],
    }
    assert json.loads(run("ledger", "verify", "--json").stdout) == checked
    beyond = run(*another)
    assert beyond.exit_code == 2 and "this run would bring it to epsilon=1." in beyond.stderr
    unit = ["--dataset", "patients", "--epsilon", 1, "--delta", 1e-6, "--unit", "person"]
    assert run("ledger", "create", *unit).exit_code == 0
    refused = run("ledger", "import", "old.json", "--dataset", "patients")
    assert refused.exit_code == 2 and "the budget of dataset 'patients' about 'one person" in refused.stderr
    assert run("ledger", "import", "old.json", "--dataset", "patients", "--same-unit").exit_code == 0
    assert run("ledger", "verify").exit_code == 0
