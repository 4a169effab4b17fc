"""What a run does at the coordinator, with real kits and parties in this process in the place of a network."""

import csv
import io
import json
import stat
from pathlib import Path

import numpy as np
import pytest

from sottovoce.exceptions import ParameterError
from sottovoce.vertical import VerticalLogisticRegression
from sottovoce.vertical.flare.programs import CHECKPOINT, COMPARISON, PREDICTIONS
from sottovoce.vertical.flare.runs import RunSpec, find_run, list_runs, run_state
from sottovoce.vertical.flare.site import Site
from support.run_sites import NAMES, N, Sites


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sottovoce.vertical.flare.parties._PAUSE", 0.01)


EXACT = {"epsilon": float("inf")}


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


def test_a_run_that_is_cut_off_goes_on_and_ends_as_it_would_have(tmp_path: Path) -> None:
    """With noise: the same model, and what the parties gave is not asked again."""
    parameters = {"epsilon": 4.0, "delta": 1e-3, "mechanism": "noisy-admm", "mechanism_options": {"max_iter": 6}}
    sites = Sites(tmp_path)
    spec = sites.begin(parameters=parameters)
    told = sites.run(spec, cut=9)
    assert told["phase"] == "failed"
    assert "could not be reached" in told["error"]
    spec.begin_again(sites.home.runs / spec.run)
    assert run_state(sites.home.runs / spec.run)["phase"] == "waiting"
    told = sites.run(spec)
    assert told["phase"] == "done", told
    assert told["resumed"] is True
    assert told["parties"]["north"]["bytes_up"] < told["parties"]["insurer"]["bytes_up"]


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
    report = json.loads((sites.home.runs / spec.run / "alignment.json").read_text())
    assert report["n_common"] == N
    assert {each["to"] for each in report["bytes_sent"]} == set(NAMES)
    score = sites.begin(purpose="score", trained=spec.run, labels=True)
    assert sites.run(score)["phase"] == "done"
    rows = _rows((sites.home.runs / score.run / PREDICTIONS).read_text())
    assert [row["id"] for row in rows] == [f"p{i:03}" for i in range(N)]
    right = np.mean([row["prediction"] == sites.y[int(row["id"][1:])] for row in rows])
    assert right == json.loads((sites.home.runs / score.run / COMPARISON).read_text())["joint"]["accuracy"] > 0.8


def test_what_goes_wrong_is_in_the_status_of_the_run(tmp_path: Path) -> None:
    """In words that name the party, or the file."""
    sites = Sites(tmp_path)
    refused = sites.run(sites.begin(parameters={"epsilon": 1.0, "delta": 1e-3, "mechanism": "noisy-features"}))
    assert refused["phase"] == "failed"
    assert "party 'north' refused" in refused["error"]
    wrong = sites.run(sites.begin(model="ridge", parameters=EXACT))
    assert "people.toml: a model of kind 'ridge' predicts a number" in wrong["error"]
    nothing = sites.begin(purpose="score", trained=refused["run"])
    assert "the run left no model" in sites.run(nothing)["error"]
    (sites.kits[1].folder / "people.csv").unlink()
    gone = sites.run(sites.begin(parameters=EXACT))
    assert "its site could not be opened; the party's own log says why" in gone["error"]


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
    with pytest.raises(ParameterError, match="align must be one of"):
        RunSpec(run="0a1b2c3d4e5f", align="sometimes")
