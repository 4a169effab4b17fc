"""`sottovoce evaluate`: a stored model on a private table, with noise, intervals, page, ledger and persons."""

import json

import numpy as np
import pandas as pd
import pytest

import sottovoce as sv
from sottovoce.report import verify_receipt
from support.commands import fails, passes, run
from support.schemas import schema_text


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("evaluate")
    rng = np.random.default_rng(0)
    for name in ("train", "test"):
        age = rng.integers(18, 91, 1500)
        ill = np.where(age + rng.normal(0, 10, 1500) > 55, "yes", "no")
        pd.DataFrame({"age": age, "ill": ill, "person": rng.integers(0, 500, 1500)}).to_csv(
            path / f"{name}.csv", index=False
        )
    for name, unit in (("rows", ""), ("persons", 'unit = "person"\nmax_rows_per_unit = 2\n')):
        (path / f"{name}.toml").write_text(
            schema_text("ill", "confirmed = true\n" + unit, age=(18, 90), ill=["no", "yes"])
        )
        passes(
            "fit", path / "train.csv", "--model", "logistic", "--epsilon", 5, "--delta", "1e-6", "--schema",
            path / f"{name}.toml", "--out", path / f"{name}.json", "--quiet",
        )  # fmt: skip
    return path


def test_measures_page_and_files(folder, tmp_path):
    page, out = tmp_path / "page.html", tmp_path / "evaluation.json"
    shown = passes(
        "evaluate", folder / "rows.json", folder / "test.csv", "--epsilon", 2, "--page", page, "--out", out
    ).stdout
    assert "area under the ROC curve" in shown
    found = sv.Evaluation.from_json(out)
    assert found.accuracy > 0.75
    assert str(found.classes) in str(("no", "yes"))
    text = page.read_text()
    assert "are predicted rightly" in text
    assert "<script>" not in text
    receipt = tmp_path / "receipt.json"
    receipt.write_text(found.guarantee_.to_json())
    assert verify_receipt(receipt, model=folder / "rows.json").passed


def test_signed_and_verified(folder, tmp_path):
    """The evaluation itself is signed; whoever verifies it computes its figures again from the signed counts."""
    pytest.importorskip("cryptography")
    out, page, key = tmp_path / "evaluation.json", tmp_path / "page.html", tmp_path / "officer.key"
    passes("evaluate", folder / "rows.json", folder / "test.csv", "--epsilon", 1, "--out", out, "--page", page)
    passes("receipt", "key", "--out", key)
    fails("receipt", "sign", page, "--key", key, match="Sign its receipt")
    passes("receipt", "sign", out, "--key", key)
    shown = passes("receipt", "verify", out, "--public-key", f"{key}.pub", "--model", folder / "rows.json").output
    assert "all measures and intervals follow from the released counts" in " ".join(shown.split())
    passes("receipt", "verify", page)
    data = json.loads(out.read_text())
    data["measures"]["accuracy"]["value"] = 1.0
    out.write_text(json.dumps(data))
    found = run("receipt", "verify", out)
    assert found.exit_code == 2
    assert "what the file says is not what follows from its released counts" in " ".join(found.output.split())


@pytest.mark.parametrize(("model", "unit"), [("rows", "one row"), ("persons", "one person")])
def test_json(folder, model, unit):
    told = passes("evaluate", folder / f"{model}.json", folder / "test.csv", "--epsilon", 2, "--delta", 1e-6, "--json")
    found = json.loads(told.stdout)
    assert found["measures"]["auc"]["value"] > 0.8
    assert unit in found["guarantee"]["unit"]


def test_ledger(folder, tmp_path):
    url = f"sqlite:///{tmp_path / 'budget.db'}"
    sv.Ledger(url).create("held out", epsilon=1.5, delta=0.0)
    command = ("evaluate", folder / "rows.json", folder / "test.csv", "--epsilon", 1, "--ledger", url)
    passes(*command, "--dataset", "held out")
    assert run(*command, "--dataset", "held out").exit_code == 2
    assert [record.state for record in sv.Ledger(url).history("held out")] == ["committed"]
