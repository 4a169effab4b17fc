"""What commands print with --json is one JSON document, and says what is in the files that they wrote."""

import json

import pytest

from support.commands import passes
from support.schemas import schema_text

SCHEMA = schema_text("y", "confirmed = true\n", a=(0, 6), b=(0, 6), y=["no", "yes"])
BUDGET = ("--epsilon", 1, "--delta", 1e-4)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SOTTOVOCE_LEDGER", raising=False)
    rows = [f"{k % 7},{k % 5},{'no' if k % 2 else 'yes'}" for k in range(200)]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,y", *rows]) + "\n")
    (tmp_path / "s.toml").write_text(SCHEMA)
    return tmp_path


def told(*words):
    """Return what a command prints: JSON, and nothing beside it; with --quiet on stderr neither."""
    done = passes(*words, "--json")
    assert "--quiet" not in words or done.stderr == ""
    return json.loads(done.stdout)


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def test_fits_and_receipts(folder):
    fit = ("fit", "t.csv", "--schema", "s.toml", "--model", "logistic", *BUDGET)
    whole = told(*fit, "--out", "m.json", "--holdout", 0.3, "--evaluate-epsilon", 1)
    assert whole["guarantee"] == read(folder / "m.receipt.json")
    assert whole["evaluation"] == read(folder / "m.evaluation.json")
    assert (whole["model"], whole["receipt"]) == ("m.json", "m.receipt.json")
    (folder / "t.csv").write_text((folder / "t.csv").read_text().replace("\n", ",1\n").replace("y,1", "y,more"))
    assert told(*fit, "--out", "n.json", "--quiet")["evaluation"] is None

    assert told("receipt", "key", "--out", "k") == {"private_key": "k", "public_key": "k.pub"}
    signed = told("receipt", "sign", "m.receipt.json", "--key", "k")
    assert signed["signed"] == "m.receipt.json"
    assert told("receipt", "verify", "m.receipt.json", "--public-key", "k.pub")["passed"]


def test_a_simulation(folder):
    split = ("vertical", "simulate", "t.csv", "--schema", "s.toml", "--party", "one=a", "--party", "two=b")
    found = told(*split, "--model", "logistic", *BUDGET)
    assert found["guarantee"]["epsilon"] == 1 and sorted(path.name for path in folder.iterdir()) == ["s.toml", "t.csv"]
    assert set(found["given_away"]) == {"one", "two"}
    assert (found["people"], found["comparison"]["n_samples"], found["comparison_is_private"]) == (160, 40, False)
