"""``sottovoce vertical party`` and ``status``: what the owner of a site is told, in words and as JSON."""

import json
import re
from contextlib import closing
from datetime import UTC, datetime

import numpy as np
import pytest
from typer.testing import CliRunner

from sottovoce._kept import PrivateFolder
from sottovoce.cli import app
from sottovoce.cli.vertical import sites as party_command
from sottovoce.vertical.flare.hardening.gate import Door
from sottovoce.vertical.flare.kit import Kit
from sottovoce.vertical.mechanisms import ANSWERS
from sottovoce.vertical.requests.general import Describe, ShowColumns
from sottovoce.vertical.requests.local_models import TrainOnLabels
from support.party import Line
from support.site import Coordinator, make_ledger, make_site, people

SITE = """\
[data]
table = "people.csv"
schema = "people.toml"
id = "person"
[scoring]
table = "new.csv"
[budget]
ledger = "sqlite:///ledger.db"
dataset = "people"
[allow]
answers = ["local-models", "alignment", "score"]
[caps]
epsilon = 0.5
rounds = 100
people = 10
"""


def run(*arguments):
    return CliRunner().invoke(app, ["vertical", *map(str, arguments)])


@pytest.fixture
def kit(tmp_path, monkeypatch):
    """A kit without keys, whose check finds nothing."""
    monkeypatch.setattr(party_command, "check_site", lambda kit: None)
    monkeypatch.setattr(Kit, "expires", datetime(2030, 1, 2, tzinfo=UTC))
    make_ledger(tmp_path)
    table = people()
    table.loc[3, "person"] = ""
    table["shoes"] = 42
    people(8, seed=1).to_csv(tmp_path / "new.csv", index=False)
    return make_site(tmp_path, site=SITE, table=table)


def test_what_the_owner_of_a_helper_is_told(tmp_path, monkeypatch):
    """It has no table and no budget; with whom it computes, where, and by what."""
    monkeypatch.setattr(party_command, "check_site", lambda kit: None)
    monkeypatch.setattr(Kit, "expires", datetime(2030, 1, 2, tzinfo=UTC))
    secure = '[secure]\npartners = ["insurer", "north"]\nhost = "notary.example"\nports = [9100, 9110]\n'
    kit = make_site(tmp_path, name="notary", site=secure)
    shown = " ".join(run("party", kit.folder, "--check").output.split())
    for words in ("a helper has no table", "with insurer, north; they connect to notary.example, a port of 9100 to",
                  "will (secure)", "engines", "shamir"):  # fmt: skip
        assert words in shown
    assert "budget" not in shown.partition("never")[0]
    assert run("status", kit.folder).exit_code == 0


def train(mu):
    return TrainOnLabels(np.resize([1.0, -1.0], 40), "logistic", 0.1, 0.0, 0.1, mu, "m")


def words(text):
    return re.sub(r"\s+", " ", text)


def test_check_says_what_the_site_will_and_will_not_do(kit):
    found = run("party", kit.folder, "--check")
    assert found.exit_code == 0, found.output
    said = words(found.stdout)
    for text in (
        "insurer at localhost, port 8140; this site connects to it",
        "certificates on both sides, until 2030-01-02",
        "40 rows, 4 columns of",
        "not in the schema, not used: shoes",
        "39 can be aligned by 'person'. 1 of 40 rows have no identifier",
        "8 rows",
        "2 features, norm of a row at most 1.41421, entries within 1",
        "will (local-models) train a private model of its columns",
        "will, scoring (score) one exact number for each of its rows",
        "will not (exact) show its columns as they are, for a training without noise",
        "never run code that comes from outside",
        "epsilon 1 at delta 1e-06 for one person's row here, over all runs; 0 are spent, 1 are left",
        "at most 0.5; insurer has used 0",
        "at most 100; insurer has used 0",
        "no cap; insurer has used 0",
        "an alignment to fewer than 10 people is refused",
        "the noise is secret",
        "register.db",
    ):
        assert text.replace(" ", "") in said.replace(" ", ""), text  # a long path is folded within a word
    for name, answer in ANSWERS.items():
        assert f"({name}) {answer.about[:20]}" in said, name
    assert "p001" not in said
    kit.site_file.write_text(SITE + "[trial]\nrandom_state = 3\n")
    found = run("party", kit.folder, "--check")
    assert "whoever knows the number can take all noise away" in found.stderr
    assert "NOT PRIVATE" in found.stdout
    kit.site_file.write_text(SITE.partition("[scoring]")[0])
    assert "budget NONE" in words(run("party", kit.folder, "--check").stdout)


def test_the_site_runs_after_it_has_said_so(kit, monkeypatch):
    started = []

    def run_site(opened, *, say):
        started.append(opened.folder)
        say("north: connected")
        return 3

    monkeypatch.setattr(party_command, "run_site", run_site)
    found = run("party", kit.folder)
    assert found.exit_code == 3
    assert started == [kit.folder]
    assert found.stdout.rstrip().endswith("north: connected")
    kit.site_file.write_text(SITE.replace("people.csv", "gone.csv"))
    found = run("party", kit.folder)  # an error is one line and nothing starts
    assert (found.exit_code, started) == (2, [kit.folder])
    assert "gone.csv: No such file" in words(found.stderr)


# ------------------------------------------------------------------ status


def test_status_tells_requests_charges_and_refusals(kit):
    assert "nothing was asked yet" in run("status", kit.folder).stdout
    door = Door(kit)
    line = Line(Coordinator(door))
    line.ask(Describe())
    line.ask(train(0.05))
    line.ask(train(0.12))
    line.ask(ShowColumns())
    door.answer(b"", "bank")
    door.close()
    facts = json.loads(run("status", kit.folder, "--json").stdout)
    (job,) = facts["runs"]
    assert (job["run"], job["rounds"], job["refusals"]) == ("job1", 4, 3)
    assert 0.0 < facts["budget"]["spent_by_coordinator"] <= 0.5
    assert facts["budget"]["left"] < 1.0
    assert facts["caps"]["used_rounds"] == 4
    reasons = " ".join(refused["reason"] for refused in facts["refusals"])
    assert "its owner allows coordinator 'insurer' epsilon=0.5" in reasons
    assert "it answers the coordinator alone" in reasons
    assert "the engine has it from 'bank'" in reasons
    assert "none covers 'exact'" in reasons
    said = words(run("status", kit.folder).stdout)
    for text in ("job1", "insurer has used 4", "Refused", "sottovoce ledger history --ledger sqlite:///"):
        assert text in said, text
    found = run("status", kit.folder, "abcd")
    assert found.exit_code == 2
    assert "knows no names of runs" in words(found.stderr)


def test_status_of_a_coordinator_without_runs(tmp_path):
    kit = make_site(tmp_path, name="insurer")
    found = run("status", kit.folder)
    assert found.exit_code == 0, found.output
    assert "no run yet" in found.stdout
    assert "no run is under way, and parties wait for one" in words(found.stdout)
    with closing(PrivateFolder(kit.state, "the site")):
        assert "a run is under way" in words(run("status", kit.folder).stdout)
    facts = json.loads(run("status", kit.folder, "--json").stdout)
    assert (facts["busy"], facts["runs"]) == (False, [])
    found = run("party", kit.folder, "--check")
    assert found.exit_code == 2
    assert "sottovoce vertical train" in words(found.stderr)
