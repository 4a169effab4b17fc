"""``sottovoce vertical train`` and ``predict``: what is refused before a run is made, and what is told at the end."""

import csv
import json
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from sottovoce.cli import app
from sottovoce.cli.vertical import train as train_command
from sottovoce.exceptions import PartyError
from sottovoce.vertical.flare.hardening.envelope import LedgerHeads
from support.commands import commands
from support.run_sites import N, Sites


@pytest.fixture
def sites(tmp_path, monkeypatch):
    """Three sites; a run is done in this process without a network."""
    made = Sites(tmp_path)

    def do_run(kit, spec, *, again=False, wait, quiet):
        if again:
            spec.begin_again(kit.runs / spec.run)
        else:
            spec.write(kit.runs)
        told = made.run(spec, cut=made.cut)
        if told["phase"] != "done":
            raise PartyError(told["error"])
        return told

    made.cut = None
    monkeypatch.setattr(train_command, "Kit", SimpleNamespace(open=lambda folder, wanted: made.home))
    monkeypatch.setattr(train_command, "do_run", do_run)
    monkeypatch.setattr("sottovoce.vertical.flare.parties._PAUSE", 0.01)
    return made


def run(*words, fails=False):
    done = CliRunner().invoke(app, ["vertical", *map(str, words)])
    assert (done.exit_code != 0) == fails, done.output
    return done.output


def test_what_is_trained_is_scored(sites, tmp_path):
    """From the command to the file of predictions."""
    told = json.loads(run("train", "KIT", "--model", "logistic", "--epsilon", "inf", "--json"))
    assert told["phase"] == "done"
    shown = run("train", "KIT", "--model", "logistic", "--epsilon", "2", "--delta", "1e-3")
    for words in ("people trained on", "What each party gives away by itself", "vertical predict KIT", "Results:"):
        assert words in shown
    out = tmp_path / "scores.csv"
    shown = run("predict", "KIT", told["run"][:8], "--out", out, "--labels")
    assert "insurer alone" in shown
    assert "NOT PRIVATE: these figures" in shown
    rows = list(csv.reader(out.read_text().splitlines()))
    assert rows[0] == ["row", "prediction", "probability"]
    assert len(rows) == 1 + N // 2


def test_a_joint_training_needs_a_place_where_partners_reach_this_site(sites):
    """Said before a run is made."""
    shown = run("train", "KIT", "--model", "svm", "--epsilon", 2, "--delta", 1e-3, "--mechanism", "secure", fails=True)
    assert "needs the section [secure]" in " ".join(shown.split())


def test_a_joint_training_is_not_resumed(sites, monkeypatch):
    """What it reached ended with its processes."""
    run("train", "KIT", "--model", "logistic", "--epsilon", "inf", "--json")
    (folder,) = sites.home.runs.iterdir()
    status = json.loads((folder / "status.json").read_text())
    (folder / "status.json").write_text(json.dumps(status | {"phase": "failed", "joint": "joined"}))
    shown = " ".join(run("train", "KIT", "--resume", folder.name, fails=True).split())
    assert "cannot be taken up again" in shown
    assert "stays charged" in shown


def test_a_ledger_that_was_lost_is_accepted_by_name_once(sites):
    heads = LedgerHeads(sites.home.state)
    heads.told("north", "job1", "ab" * 32)
    words = ("train", "KIT", "--model", "logistic", "--epsilon", "inf", "--accept-ledger", "north")
    told = " ".join(run(*words).split())
    assert "north: its next ledger is taken as it is; the last entry known of the one before: abab" in told
    assert heads.known("north") == ""
    assert "nothing is known of a ledger of such a party" in " ".join(run(*words, fails=True).split())


def test_a_run_goes_on_with_what_it_was_begun_with(sites):
    """Its name is all that is given, and a longer time to answer where that helps."""
    sites.cut = 7
    run("train", "KIT", "--model", "logistic", "--epsilon", "inf", fails=True)
    (folder,) = sites.home.runs.iterdir()
    (command,) = (found for words, found in commands() if words == ("vertical", "train"))
    for one in command.params[1:]:
        name, own = one.opts[0], {"resume", "accept_ledger", "wait", "timeout", "quiet", "as_json", "help"}
        value = [one.secondary_opts[0]] if one.secondary_opts else [name, *["1"] * (not one.is_flag)]
        value = ["--model", "ridge"] if name == "--model" else value
        if one.name not in own:
            assert "is that of the run" in run("train", "KIT", "--resume", folder.name, *value, fails=True), name
    sites.cut = None
    told = json.loads(run("train", "KIT", "--resume", folder.name[:4], "--timeout", "300", "--json"))
    assert told["resumed"] is True
    assert json.loads((folder / "run.json").read_text())["timeout"] == 300
    assert "this run has ended" in run("train", "KIT", "--resume", folder.name, fails=True)


def test_a_fault_of_the_own_table_is_told_before_a_run_is_made(sites):
    """The coordinator's labels and columns are read first, here, and nobody is asked for anything."""
    (table,) = sites.home.folder.glob("people.*sv")
    table.write_text(table.read_text().replace(",yes", ",perhaps", 1))
    assert "perhaps" in run("train", "KIT", "--model", "logistic", "--epsilon", "inf", fails=True)
    assert not sites.home.runs.exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "--model is missing"),
        (("--model", "logistic"), "--epsilon is missing"),
        (("--model", "ridge", "--epsilon", "1", "--delta", "1e-3"), "predicts a number"),
        (("--model", "lasso", "--epsilon", "1"), "needs --radius"),
        (("--model", "logistic", "--epsilon", "1", "--mechanism", "magic", "--delta", "1e-3"), "mechanism must be one"),
        (("--model", "logistic", "--epsilon", "-1", "--delta", "1e-3"), "epsilon"),
        (("--model", "logistic", "--epsilon", "inf", "--mechanism", "local-models"), "is for a private training"),
        (("--model", "logistic", "--epsilon", "inf", "--timeout", "0"), "timeout"),
        (("--resume", "ffff"), "no run of that name"),
    ],
)
def test_what_no_run_could_do_is_refused_before_it_is_written_down(sites, words, said):
    """Nothing is left behind."""
    assert said in run("train", "KIT", *words, fails=True)
    assert not sites.home.runs.exists() or not list(sites.home.runs.iterdir())


def test_what_cannot_be_scored_is_refused(sites, tmp_path):
    """Before a run is made."""
    told = json.loads(run("train", "KIT", "--model", "svm", "--epsilon", "inf", "--json"))
    out = tmp_path / "scores.csv"
    out.write_text("mine")
    assert "the file exists" in run("predict", "KIT", told["run"], "--out", out, fails=True)
    assert out.read_text() == "mine"
    settings = sites.home.site_file
    settings.write_text(settings.read_text().replace("[scoring]", "").replace('table = "new.csv"', ""))
    assert "no people to be scored" in run("predict", "KIT", told["run"], "--out", tmp_path / "o.csv", fails=True)
