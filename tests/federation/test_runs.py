"""Runs over real processes, from the command line: align, train, see where it is, score, compare.

Every site has its rows in an order of its own, people whom no other site has, and identifiers that are missing or stand
twice. The model and the predictions are those of one process that sees all identifiers, bit for bit.
"""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("nvflare", reason="parties in different organisations need the extra [vertical]")
pytest.importorskip("private_set_intersection", reason="openmined-psi (extra [vertical]) is not installed")

from sottovoce.vertical import VerticalLogisticRegression
from support.federation import Columns, running_federation
from support.small_federation import check_model, in_process, parties_of

COLUMNS = {"lab": [0, 1, 2], "north": [3, 4], "bank": [5, 6, 7, 8]}
WORD, SECRET = "geheim", "0.123456789012"  # in every identifier, and in a column of each party
ALLOWED = '[allow]\nanswers = ["exact", "alignment", "score"]\n'


def people(kind, n_people, seed):
    """Return what each site knows of the people of one kind."""
    rng = np.random.default_rng(seed)
    X = rng.random((n_people, 9))
    X[:, [3, 5]] = float(SECRET)
    y = X.sum(axis=1) + rng.normal(scale=0.3, size=n_people) > 4.0
    ids = np.array([f"{WORD}-{kind}-{k:03d}" for k in range(n_people)], dtype=object)
    made = {}
    for number, (name, columns) in enumerate(COLUMNS.items()):
        held = rng.permutation(n_people)[number * 5 :]
        written = ids[held]
        if name == "north":
            written[3] = None
        if name == "bank":
            written[5] = written[9]
        made[name] = Columns(
            X=X[np.ix_(held, columns)], y=None if number else y[held], ids=written.tolist(), settings=ALLOWED
        )
    return made


@pytest.fixture(scope="module")
def federation():
    scored = people("new", 40, 2)
    sites = {name: replace(each, scoring=scored[name]) for name, each in people("old", 120, 1).items()}
    with running_federation(sites) as federation:
        yield federation


def test_the_model_and_the_predictions_are_those_of_one_process(federation, tmp_path):
    estimator = VerticalLogisticRegression(epsilon=np.inf, classes=["no", "yes"], label_holder="lab")
    expected = in_process(federation, estimator, aligned=True)
    told = json.loads(federation.train("--model", "logistic", "--epsilon", "inf", "--json").stdout)
    folder = federation.coordinator / "runs" / told["run"]
    check_model(federation, folder, expected)
    report = json.loads((folder / "alignment.json").read_text())
    assert report["n_common"] == told["people"] < 115
    assert [each["name"] for each in report["parties"]] == ["lab"]
    federation.wait_for_silence()

    scored = parties_of(federation, "score", aligned=True)
    out = tmp_path / "predictions.csv"
    said = federation.command("predict", federation.coordinator, told["run"][:6], "--out", out, "--labels", "--json")
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert [row["id"] for row in rows] == scored.parties["lab"].ids.tolist()
    assert [row["prediction"] for row in rows] == estimator.predict(scored).tolist()
    assert [float(row["probability"]) for row in rows] == estimator.predict_proba(scored)[:, 1].tolist()
    assert json.loads(said.stdout)["comparison"]["joint"] == dict(estimator.compare(scored).joint)


def test_nothing_of_a_table_is_in_logs_and_registers(federation):
    """Nor an identifier; but for the tables, the predictions, and the people of a run that may go on."""
    facts = json.loads(federation.command("status", federation.coordinator, "--json").stdout)
    assert not facts["busy"] and [run["phase"] for run in facts["runs"]] == ["done", "done"]
    federation.stop()
    for name in federation.names:
        assert federation.refusals(name) == []
        for path in federation.kit(name).rglob("*"):
            kept = any(part.startswith(("checkpoint", "journal")) for part in path.parts)
            if path.is_file() and path.suffix != ".parquet" and path.name != "predictions.csv" and not kept:
                content = path.read_bytes()
                assert WORD.encode() not in content and SECRET.encode() not in content, path
