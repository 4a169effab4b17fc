"""What a run does at the coordinator, with real kits and parties in this process in the place of a network."""

import csv
import io
import json
import re
import stat
import threading
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sottovoce.exceptions import ParameterError
from sottovoce.ledger import Ledger
from sottovoce.vertical import VerticalLogisticRegression
from sottovoce.vertical.flare.hardening.envelope import PartyEnd
from sottovoce.vertical.flare.kit import Kit
from sottovoce.vertical.flare.parties import FlareParties
from sottovoce.vertical.flare.programs import COMPARISON, PREDICTIONS
from sottovoce.vertical.flare.runs import CHECKPOINT, RunSpec, find_run, list_runs, run_state
from sottovoce.vertical.flare.site import Site
from sottovoce.vertical.wire import Done, Refused
from support.run_sites import NAMES, N, Sites
from support.waiting import until


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sottovoce.vertical.flare.parties._PAUSE", 0.01)


EXACT = {"epsilon": float("inf")}


def _account(kit: Kit) -> Ledger:
    """Give a site an account, for private trainings alone."""
    ledger = Ledger(f"sqlite:///{kit.folder / 'ledger.db'}")
    ledger.create("people", epsilon=9.0, delta=1e-2, adjacency="replace-one")
    text = kit.site_file.read_text().replace('"exact", ', "").replace('"alignment", "score"', '"alignment"')
    kit.site_file.write_text(text + '[budget]\nledger = "sqlite:///ledger.db"\ndataset = "people"\n')
    return ledger


def _rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_a_run_trains_and_its_model_scores(tmp_path: Path) -> None:
    """As in one process, bit for bit; each site keeps its own part, and nobody else may read what is written."""
    sites = Sites(tmp_path)
    spec = sites.begin(parameters=EXACT)
    told = sites.run(spec)
    assert told["phase"] == "done", told
    folder = sites.home.runs / spec.run
    inside = [Site.read(kit).open_party("train") for kit in sites.kits]
    model = VerticalLogisticRegression(epsilon=float("inf"), classes=["no", "yes"]).fit(inside)
    kept = json.loads((folder / "insurer.part.json").read_text())
    assert list(kept["coefficients"].values()) == model.parts_["insurer"].coef.tolist()
    for kit, name in zip(sites.kits, NAMES, strict=True):
        np.testing.assert_array_equal(Site.read(kit).parts()[told["model_name"]].coef, model.parts_[name].coef)
    assert not (folder / CHECKPOINT / "key").exists()
    assert not (folder / "north.part.json").exists()
    history = _rows((folder / "history.csv").read_text())
    assert [int(row["step"]) for row in history] == [*range(1, len(history) + 1)]
    assert float(history[-1]["objective"]) < float(history[0]["objective"])
    assert float(history[-1]["stationarity"]) >= 0.0
    for path in [*folder.rglob("*"), folder]:
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path

    score = sites.begin(purpose="score", trained=spec.run, labels=True)
    told = sites.run(score)
    assert told["phase"] == "done", told
    scored = [Site.read(kit).open_party("score") for kit in sites.kits]
    rows = _rows((sites.home.runs / score.run / PREDICTIONS).read_text())
    assert [row["prediction"] for row in rows] == model.predict([p.take(range(N // 2)) for p in inside]).tolist()
    expected = model.predict_proba([p.take(range(N // 2)) for p in inside])[:, 1]
    assert [float(row["probability"]) for row in rows] == expected.tolist()
    compared = json.loads((sites.home.runs / score.run / COMPARISON).read_text())
    assert compared["n_samples"] == len(scored[0].ids or rows)
    assert compared["joint"]["accuracy"] > compared["local"]["accuracy"]


def test_no_thread_of_a_run_outlives_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever else may still hold the parties: a log of an error, say."""
    held, make, others = [], FlareParties.__init__, set(threading.enumerate())  # other tests may have left some
    monkeypatch.setattr(FlareParties, "__init__", lambda self, *a, **k: (held.append(self), make(self, *a, **k))[1])
    sites = Sites(tmp_path)
    assert sites.run(sites.begin(parameters=EXACT))["phase"] == "done"
    assert held
    until(lambda: not any(each.name.startswith("party_") for each in set(threading.enumerate()) - others))


@pytest.mark.filterwarnings("ignore:no convergence in max_iter")
def test_a_run_that_is_cut_off_goes_on_and_ends_as_it_would_have(tmp_path: Path) -> None:
    """What has no noise is trained again from its start: nothing is paid, and the model is the same."""
    given = {**EXACT, "max_iter": 6, "tol": 1e-50}
    sites = Sites(tmp_path)
    spec = sites.begin(parameters=given)
    told = sites.run(spec, cut=6)
    assert told["phase"] == "failed"
    assert "could not be reached" in told["error"]
    spec.begin_again(sites.home.runs / spec.run)
    assert run_state(sites.home.runs / spec.run, busy=True)["phase"] == "waiting"
    assert run_state(sites.home.runs / spec.run, busy=False)["phase"] == "stopped"
    told = sites.run(spec)
    assert told["phase"] == "done", told
    assert told["resumed"] is True
    inside = [Site.read(kit).open_party("train") for kit in sites.kits]
    model = VerticalLogisticRegression(classes=["no", "yes"], **given).fit(inside)
    kept = json.loads((sites.home.runs / spec.run / "insurer.part.json").read_text())
    assert list(kept["coefficients"].values()) == model.parts_["insurer"].coef.tolist()


def test_a_private_run_goes_on_and_its_ledger_is_charged_once_for_all_parties(tmp_path: Path) -> None:
    sites = Sites(tmp_path)
    ledger = _account(sites.home)
    spec = sites.begin(model="sparse-logistic", parameters={"epsilon": 4.0, "delta": 1e-3, "radius": 2.0})
    assert sites.run(spec, cut=5)["phase"] == "failed"
    spec.begin_again(sites.home.runs / spec.run)
    assert sites.run(spec)["phase"] == "done" and len(ledger.history("people")) == 1


def test_people_are_aligned_first_and_the_same_ones_when_a_run_goes_on(tmp_path: Path) -> None:
    """Each site has its rows in an order of its own; predictions come with identifiers."""
    pytest.importorskip("private_set_intersection.python")
    sites = Sites(tmp_path, ids=True)
    spec = sites.begin(parameters=EXACT)
    assert sites.run(spec, cut=12)["phase"] == "failed"
    spec.begin_again(sites.home.runs / spec.run)
    told = sites.run(spec)
    assert told["phase"] == "done", told
    assert told["people"] == N
    assert "AlignTo" in sites.asked
    assert "Intersect" not in sites.asked, "the people of before, without an intersection"
    report = json.loads((sites.home.runs / spec.run / "alignment.json").read_text())
    assert report["n_common"] == N
    assert report["bytes_sent"] > 0
    score = sites.begin(purpose="score", trained=spec.run, labels=True)
    assert sites.run(score)["phase"] == "done"
    rows = _rows((sites.home.runs / score.run / PREDICTIONS).read_text())
    assert [row["id"] for row in rows] == [f"p{i:03}" for i in range(N)]
    right = np.mean([row["prediction"] == sites.y[int(row["id"][1:])] for row in rows])
    assert right == json.loads((sites.home.runs / score.run / COMPARISON).read_text())["joint"]["accuracy"] > 0.8


def test_what_goes_wrong_is_in_the_status_of_the_run(tmp_path: Path) -> None:
    """In words that name the party, or the file."""
    sites = Sites(tmp_path)
    sparse = {"epsilon": 1.0, "delta": 1e-3, "radius": 1.0}
    for kit in sites.kits:
        kit.site_file.write_text(kit.site_file.read_text().replace('"frank-wolfe", ', ""))
    refused = sites.run(sites.begin(model="sparse-logistic", parameters=sparse))
    assert refused["phase"] == "failed"
    assert "refused Afford: it does not answer TrainOnBall" in refused["error"]
    wrong = sites.run(sites.begin(model="ridge", parameters=EXACT))
    assert "people.toml: a model of kind 'ridge' predicts a number" in wrong["error"]
    nothing = sites.begin(purpose="score", trained=refused["run"])
    assert "the run left no model" in sites.run(nothing)["error"]
    (sites.kits[1].folder / "people.csv").unlink()
    gone = sites.run(sites.begin(parameters=EXACT))
    assert "its site could not be opened; the party's own log says why" in gone["error"]


@pytest.mark.parametrize("said", [b"x", b"SVM3" + bytes(10), Done().encode(), Refused("row\n17" * 9999).encode(), None])
def test_whatever_a_party_says_at_the_beginning_is_its_own_word(tmp_path: Path, monkeypatch: Any, said: Any) -> None:
    sites = Sites(tmp_path)
    answer = PartyEnd.answer
    monkeypatch.setattr(
        PartyEnd, "answer", lambda end, raw, n, content, entry: said and answer(end, raw, n, said or content, entry)
    )
    told = sites.run(sites.begin(parameters=EXACT))
    assert told["phase"] == "failed"
    assert re.match(r"party '(north|bank)' did not begin the run: [^\n]{10,1200}$", told["error"]), told["error"]


def test_a_run_is_written_down_and_found_again(tmp_path: Path) -> None:
    """By the first digits of its name, if no other run has them."""
    spec = RunSpec(run="0a1b2c3d4e5f", parameters={"epsilon": float("inf"), "alpha": 0.1, "classes": None})
    folder = spec.write(tmp_path / "runs")
    assert RunSpec.read(folder) == spec
    RunSpec(run="0affffffffff").write(tmp_path / "runs")
    assert find_run(tmp_path / "runs", "0a1") == folder
    assert len(list_runs(tmp_path / "runs")) == 2
    for name, words in (("0a", "2 runs of that name"), ("", "no run of that name"), ("f", "no run of that name")):
        with pytest.raises(ParameterError, match=words):
            find_run(tmp_path / "runs", name)
    (folder / "run.json").write_text("[]")
    with pytest.raises(ParameterError, match=r"run\.json: this is not the description of a run"):
        RunSpec.read(folder)
    with pytest.raises(ParameterError, match="run must be 12 hexadecimal digits"):
        RunSpec(run="../../etc")


@pytest.mark.parametrize("whose", ["insurer", "north"])
def test_a_run_without_noise_is_refused_for_its_budget_before_the_intersection(tmp_path: Path, whose: str) -> None:
    """Whoever it is that has one: nobody is asked who is in common."""
    sites = Sites(tmp_path, ids=True)
    ledger = _account(sites.kits[NAMES.index(whose)])
    told = sites.run(sites.begin(parameters=EXACT))
    assert told["phase"] == "failed"
    assert ("no budget covers a training without noise" if whose == "insurer" else "party 'north' refused Afford") in (
        told["error"]
    )
    assert not {"Intersect", "AlignTo"} & set(sites.asked)
    assert ledger.history("people") == []


def test_sites_of_two_versions_do_not_train_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Said with both versions, before anybody is charged or aligned."""
    from sottovoce.vertical.requests import general

    monkeypatch.setattr(general, "Description", partial(general.Description, version=9))
    sites = Sites(tmp_path, ids=True)
    told = sites.run(sites.begin(parameters={"epsilon": 4.0, "delta": 1e-3}))
    assert told["phase"] == "failed"
    assert "the coordinator runs sottovoce 0.1.0, and " in told["error"]
    assert "party 'north' runs 0.0.9" in told["error"]
    assert set(sites.asked) <= {"Describe"}
