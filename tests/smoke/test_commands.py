"""Every command once, as `sottovoce` runs it."""

import json
import subprocess
import sys

import httpx
import pytest

from sottovoce.local import Protocol
from support.collector import running_collector, write_people

pytestmark = pytest.mark.slow  # end_to_end/test_start_pages.py runs the same commands among the fast tests

N = 200
BUDGET = ("--model", "logistic", "--epsilon", 1, "--delta", 1e-5)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    write_people(tmp_path, N)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments):
    """Run it in a process of its own, where a warning is not an error: dependencies may warn."""
    done = subprocess.run(
        [sys.executable, "-m", "sottovoce", *map(str, arguments)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_one_table(folder):
    assert "[columns.age]" in run("schema", "people.csv", "--target", "ill")
    assert "noise" in run("plan", *BUDGET, "--n-samples", N, "--schema", "schema.toml")
    run("fit", "people.csv", "--schema", "schema.toml", *BUDGET, "--out", "model.json")
    assert "(1, 1e-05)-differential privacy" in run("show", "model.json")
    assert len(run("predict", "model.json", "people.csv", "--proba").splitlines()) == N + 1
    run("receipt", "key", "--out", "officer.key")
    run("receipt", "sign", "model.receipt.json", "--key", "officer.key")
    run("receipt", "verify", "model.receipt.json", "--model", "model.json", "--public-key", "officer.key.pub")
    run("receipt", "sum", "model.receipt.json")


def test_a_budget(folder):
    url = ("--ledger", "sqlite:///budget.db")
    run("ledger", "create", *url, "--dataset", "people", "--epsilon", 3, "--delta", 1e-4)
    run("fit", "people.csv", "--schema", "schema.toml", *BUDGET, "--out", "m.json", *url, "--dataset", "people")
    assert "people" in run("ledger", "show", *url)
    assert len(json.loads(run("ledger", "history", *url, "--dataset", "people", "--json"))) == 1
    run("ledger", "verify", *url)


def test_several_organisations(folder):
    options = ("--schema", "schema.toml", "--party", "a=age", "--party", "b")
    assert "accuracy" in run("vertical", "simulate", "people.csv", *options, *BUDGET)
    joint = ("--mechanism", "secure", "--engine", "shamir", "--helper", "notary")
    assert "accuracy" in run("vertical", "simulate", "people.csv", *options, *BUDGET, *joint)


def test_one_report_from_each_person(folder):
    run("local", "protocol", "--schema", "schema.toml", "--epsilon", 8, "--n-expected", N, "--out", "protocol.json")
    run("local", "tokens", "protocol.json", "--key", "key", "--count", N, "--out", "tokens")
    options = ("--label", "ill", "--tokens", "tokens", "--out", "reports.jsonl")
    run("local", "randomize", "protocol.json", "people.csv", *options)
    protocol = Protocol.from_json((folder / "protocol.json").read_text())
    with running_collector(folder, "sqlite:///reports.db", "--token-key", "key", protocol=protocol) as collector:
        entries = [json.loads(line) for line in (folder / "reports.jsonl").read_text().splitlines()]
        answer = httpx.post(f"{collector.url}/reports", json=entries)
        assert answer.json() == {"results": [{"status": "accepted"}] * N}
        assert collector.stop() == 0
    run("local", "fit", "protocol.json", "sqlite:///reports.db", "--out", "local.json")
    assert len(run("local", "predict", "local.json", "people.csv").splitlines()) == N + 1
    run("local", "survey", "protocol.json", "--out", "page")
