"""Sites with different people, in different orders: the people in common are found, trained on and scored.

The model and the predictions are those of one process that sees all identifiers, bit for bit.
"""

import csv
import json

import numpy as np
import pytest

pytest.importorskip("nvflare", reason="parties in different organisations need the extra [vertical]")
pytest.importorskip("private_set_intersection", reason="openmined-psi (extra [vertical]) is not installed")

from sottovoce.vertical import VerticalLogisticRegression, align
from sottovoce.vertical.flare.kit import Kit
from sottovoce.vertical.flare.site import Site
from support.federation import Columns, running_federation
from support.small_federation import check_model

pytestmark = pytest.mark.federation

ALLOWED = '[allow]\nanswers = ["exact", "alignment", "score"]\n'
RUN = ("--model", "logistic", "--epsilon", "inf", "--json")
NAMES = ("lab", "north", "bank")
COLUMNS = {"lab": [0, 1, 2], "north": [3, 4], "bank": [5, 6, 7, 8]}
WORD = "geheim"  # in every identifier


def people(kind, n_people, seed):
    """Return what each site knows of the people of one kind, in an order of its own, with people whom no other has."""
    rng = np.random.default_rng(seed)
    X = rng.random((n_people, 9))
    y = X.sum(axis=1) + rng.normal(scale=0.3, size=n_people) > 4.5
    ids = np.array([f"{WORD}-{kind}-{k:03d}" for k in range(n_people)], dtype=object)
    made = {}
    for number, name in enumerate(NAMES):
        held = rng.permutation(n_people)[number * 5 :]
        written = ids[held]
        if name == "north":
            written[3] = None
        if name == "bank":
            written[5] = written[9]
        made[name] = Columns(X=X[np.ix_(held, COLUMNS[name])], y=None if number else y[held], ids=written.tolist())
    return made


def in_one_place(federation, purpose):
    """The same sites in one process that sees all identifiers."""
    sites = [Site.read(Kit.open(federation.kit(name))) for name in federation.names]
    return align([site.open_party(purpose) for site in sites], duplicates="drop")


def said(federation):
    """Return all that is written down at the sites, but for the tables and the people of a run that may go on."""
    text = b""
    for name in federation.names:
        for path in federation.kit(name).rglob("*"):
            kept = any(part.startswith(("checkpoint", "journal")) for part in path.parts)
            if path.is_file() and path.suffix != ".parquet" and path.name != "predictions.csv" and not kept:
                text += path.read_bytes()
    return text


TRAINED, SCORED = people("old", 80, 1), people("new", 40, 2)


@pytest.fixture(scope="module")
def federation():
    sites = {
        name: Columns(X=each.X, y=each.y, ids=each.ids, settings="" if name == "lab" else ALLOWED, scoring=SCORED[name])
        for name, each in TRAINED.items()
    }
    with running_federation(sites) as federation:
        yield federation


def test_training_and_scoring_find_the_people_in_common(federation, tmp_path):
    estimator = VerticalLogisticRegression(epsilon=np.inf, classes=["no", "yes"], label_holder="lab")
    aligned, scored = in_one_place(federation, "train"), in_one_place(federation, "score")
    estimator.fit(aligned)
    federation.train(*RUN)
    run = federation.runs()[-1]
    check_model(federation, run, {name: party.part(estimator.model_) for name, party in aligned.parties.items()})
    report = json.loads((run / "alignment.json").read_text())
    assert report["n_common"] == aligned.report.n_common == len(aligned.parties["lab"].ids)
    assert [each["name"] for each in report["parties"]] == ["lab"]

    federation.wait_for_silence()
    out = tmp_path / "predictions.csv"
    federation.command("predict", federation.coordinator, run.name, "--out", out, "--json")
    rows = list(csv.reader(out.read_text().splitlines()))[1:]
    assert [row[0] for row in rows] == scored.parties["lab"].ids.tolist()
    assert [row[1] for row in rows] == estimator.predict(scored).tolist()
    federation.wait_for_silence()
    for name in ("north", "bank"):
        kinds = [(entry["purpose"], entry["kind"]) for entry in federation.register(name)]
        for purpose in ("train", "score"):
            assert (purpose, "AlignTo") in kinds
        assert federation.refusals(name) == []
    assert WORD.encode() not in said(federation)


def test_a_site_refuses_an_alignment_to_few_people(federation):
    north = federation.kit("north") / "site.toml"
    before = north.read_text()
    north.write_text(before + "[caps]\npeople = 1000\n")
    try:
        failed = federation.train(*RUN, fails=True)
    finally:
        north.write_text(before)
    assert "'north' refused AlignRespond: it is asked about at least 1,000 people" in failed.stdout + failed.stderr
    federation.wait_for_silence()
