"""The command line about receipts: pages, verification, comparison."""

import hashlib
import json
import math

import pytest

from sottovoce.privacy.events import GaussianEvent, NonPrivateEvent, RepeatedEvent
from sottovoce.report import read_receipt, receipt_page
from support.commands import passes, run
from support.receipts import made_up as receipt

CARD = 'name = "Readmission"\nintended_use = "a call"\n'


@pytest.fixture
def files(tmp_path, monkeypatch):
    # these receipts are made by hand: no run has such words
    monkeypatch.setattr("sottovoce.report.verification.compared_with_run", lambda *_: [])
    (tmp_path / "a.json").write_text(receipt().to_json())
    (tmp_path / "b.json").write_text(receipt(event=RepeatedEvent(GaussianEvent(30.0), 25)).to_json())
    (tmp_path / "none.json").write_text(receipt(event=NonPrivateEvent(), epsilon=math.inf).to_json())
    (tmp_path / "false.json").write_text(receipt().to_json().replace('"epsilon": 1.5', '"epsilon": 0.5'))
    (tmp_path / "card.toml").write_text(CARD)
    return tmp_path


def test_show_writes_a_page_that_verifies(files):
    page = files / "page.html"
    result = passes("show", files / "a.json", "--html", page, "--model-card", files / "card.toml")
    assert result.stdout == ""
    assert page.read_text() == receipt_page(receipt(), model_card={"name": "Readmission", "intended_use": "a call"})
    assert "verdict passed" in " ".join(passes("receipt", "verify", page).stdout.split())
    assert json.loads(passes("show", page, "--json").stdout) == receipt().to_dict()
    assert "timing" in passes("show", page).stdout
    passes("show", page, "--html", files / "again.html")  # a page is a receipt too
    assert read_receipt(files / "again.html") == receipt()
    passes("show", files / "b.json", "--html", page, "--force")
    assert read_receipt(page) != receipt()


def test_verify_as_json(files):
    data = json.loads(passes("receipt", "verify", files / "a.json", "--json").stdout)
    assert data["passed"] and data["statement"] == receipt().statement()
    assert data["fingerprint"] == hashlib.sha256((files / "a.json").read_bytes()).hexdigest()
    words = " ".join(run("receipt", "verify", files / "false.json").output.split())
    assert "FAILED: do not rely on this file" in words and "WRONG: the event costs" in words
    result = run("receipt", "verify", files / "false.json", "--json")
    data = json.loads(result.stdout)
    assert result.exit_code == 2 and not data["passed"] and data["fingerprint"] is None
    assert [check["passed"] for check in data["checks"]] == [True, False]


def test_fit_writes_a_report(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("y,a,b\n" + "".join(f"{k % 2},{k % 2}.5,1\n" for k in range(200)))
    (tmp_path / "t.toml").write_text(
        'format = "sottovoce-schema"\nversion = 1\ntarget = "y"\n[columns]\ny = {type = "numeric", bounds = [0, 1]}\n'
        'a = {type = "numeric", bounds = [0, 2]}\nb = {type = "numeric", bounds = [0, 2]}\n'
    )
    (tmp_path / "card.toml").write_text(CARD)
    fit = [
        "fit", "t.csv", "--model", "ridge", "--solver", "adassp", "--epsilon", "1", "--delta", "1e-5", "--out",
        "m.json", "--schema", "t.toml", "--quiet",
    ]  # fmt: skip
    passes(*fit, "--report", "r.html", "--model-card", "card.toml", "--table-name", "census 2026")
    assert read_receipt("r.html") == read_receipt("m.json") == read_receipt("m.receipt.json")
    assert "Readmission" in (tmp_path / "r.html").read_text()
    passes("receipt", "verify", "r.html")
    passes("receipt", "verify", "m.receipt.json", "--model", "m.json")
    assert '"census 2026"' in passes("show", "m.json").stdout
    passes("show", "m.json", "--html", "again.html", "--model-card", "card.toml")
    assert (tmp_path / "again.html").read_bytes() == (tmp_path / "r.html").read_bytes()
