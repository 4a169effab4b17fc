"""Runs over real processes, from the command line: align, train, see where it is, score, compare.

Every site has its rows in an order of its own, and somebody whom the others do not have.
"""

import csv
import json
import math

import numpy as np
import pytest

pytest.importorskip("nvflare", reason="parties in different organisations need the extra [vertical]")
pytest.importorskip("private_set_intersection.python", reason="the sites are aligned by private set intersection")

from sottovoce.ledger import Ledger
from sottovoce.vertical import Party, VerticalLogisticRegression
from support.federation import Columns, running_federation

pytestmark = pytest.mark.federation

NAMES = ("insurer", "north", "bank")
N, COMMON = 120, 110
ANSWERS = 'id = "person"\n[allow]\nanswers = ["exact", "local-models", "alignment", "score"]\n'
LEDGER = '[budget]\nledger = "sqlite:///ledger.db"\ndataset = "people"\n'


def people():
    """Return all columns and labels, and for each site whom it holds, in its own order."""
    rng = np.random.default_rng(11)
    X = rng.uniform(0, 1, size=(N + 30, 6))
    y = np.where(X.sum(axis=1) + 0.3 * rng.normal(size=len(X)) > 3, 1, -1)
    held = [
        rng.permutation([*range(COMMON), *range(N + 10 * m - 10, N + 10 * m)]) for m in range(3)
    ]  # ten of each are nobody else's
    return X, y, held


def site(m, settings=ANSWERS):
    X, y, held = people()
    rows = held[m]
    made = [
        Columns(X=X[order, 2 * m : 2 * m + 2], y=y[order] if m == 0 else None, ids=[f"p{i:03}" for i in order])
        for order in (rows, rows[::-1])
    ]
    return Columns(X=made[0].X, y=made[0].y, ids=made[0].ids, settings=settings, scoring=made[1])


@pytest.fixture(scope="module")
def federation():
    with running_federation({name: site(m) for m, name in enumerate(NAMES)}) as running:
        yield running


@pytest.fixture(scope="module")
def exact(federation):
    """Return what a training without noise says, and its folder."""
    told = json.loads(federation.train("--model", "logistic", "--epsilon", "inf", "--json").stdout)
    return told, federation.coordinator / "runs" / told["run"]


def in_process():
    X, y, _ = people()
    X, labels = 2 * X[:COMMON] - 1, np.where(y[:COMMON] > 0, "yes", "no")  # as the schemas say it
    parties = [
        Party(X[:, 2 * m : 2 * m + 2], name=name, y=labels if m == 0 else None, data_norm=math.sqrt(2), data_bound=1.0)
        for m, name in enumerate(NAMES)
    ]
    model = VerticalLogisticRegression(epsilon=math.inf, classes=["no", "yes"]).fit(parties)
    return model, parties


def test_the_model_is_that_of_one_process(federation, exact):
    """Over the people in common, in the order of their identifiers: each site's part of it, bit for bit."""
    told, folder = exact
    model, parties = in_process()
    assert told["people"] == COMMON
    assert told["converged"] is True
    report = json.loads((folder / "alignment.json").read_text())
    assert report["n_common"] == COMMON
    for party in parties:
        kept = federation.parts(party.name)[told["model_name"]]
        part = party.part(model.model_)
        assert kept["coef"] == part.coef.tolist()
        assert kept["intercept"] == part.intercept


def test_people_are_scored_and_compared(federation, exact, tmp_path):
    """Each party sends one number a person; the coordinator alone has labels to compare with."""
    told, _ = exact
    out = tmp_path / "scores.csv"
    given = ("predict", federation.coordinator, told["run"][:6], "--out", out, "--labels", "--json")
    said = json.loads(federation.command(*given).stdout)
    model, parties = in_process()
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert [row["id"] for row in rows] == [f"p{i:03}" for i in range(COMMON)]
    assert [row["prediction"] for row in rows] == model.predict(parties).tolist()
    assert [float(row["probability"]) for row in rows] == model.predict_proba(parties)[:, 1].tolist()
    assert said["comparison"]["joint"] == dict(model.compare(parties).joint)
    again = federation.command(*given, fails=True)
    assert "the file exists" in again.stderr


def test_where_runs_are(federation, exact):
    """All of them, and who is connected, with the sites' connections left as they are."""
    told, _ = exact
    said = json.loads(federation.command("status", federation.coordinator, "--json").stdout)
    assert told["run"] in {run["run"] for run in said["runs"]}
    assert said["connected"] == list(federation.names)[1:]
    wrong = federation.command("predict", federation.coordinator, "zz", "--out", "x.csv", fails=True)
    assert "no run of that name" in wrong.stderr
    refused = federation.train("--model", "ridge", "--epsilon", "inf", fails=True)
    assert "predicts a number" in refused.stderr
    done = federation.train("--resume", told["run"], fails=True)
    assert "this run has ended" in done.stderr


def test_a_private_run_is_charged_to_the_ledger_of_the_label_holder(federation):
    """Once, by the name of the run's plan; the receipt says so."""
    federation.make_ledger("insurer", epsilon=2.0, delta=1e-3)
    settings = federation.kit("insurer") / "site.toml"
    settings.write_text(settings.read_text().replace('"exact", ', "") + LEDGER)
    said = federation.train("--model", "logistic", "--epsilon", 1, "--delta", 1e-4).stdout
    assert "(1, 0.0001)-differential privacy" in said
    ledger = Ledger(f"sqlite:///{federation.kit('insurer') / 'ledger.db'}")
    (charge,) = ledger.history("people")
    assert charge.plan["estimator"] == "VerticalLogisticRegression"
    beyond = federation.train("--model", "logistic", "--epsilon", 5, "--delta", 1e-4, fails=True)
    assert "people" in beyond.stderr
    assert len(ledger.history("people")) == 1
