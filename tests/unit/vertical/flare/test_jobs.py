"""What a job consists of, when one is under way, how one is followed, and what is said of it where it ends early."""

import io
import json
import os
import time
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from sottovoce.exceptions import PartyError
from sottovoce.vertical.flare import jobs
from sottovoce.vertical.flare.federation import Federation
from sottovoce.vertical.flare.hardening.closed import settings
from sottovoce.vertical.flare.hardening.guard import why_not_deployed
from sottovoce.vertical.flare.jobs import Office, follow, job_files
from sottovoce.vertical.flare.kit import Kit
from sottovoce.vertical.flare.progress import Progress, read_progress
from sottovoce.vertical.flare.runs import RunSpec, why_not_resumed

PARTIES = ("north", "bank")
SPEC = RunSpec(run="0a1b2c3d4e5f", parameters={"epsilon": 1.0})
JOB = "82e6a52a-f79b-420c-90af-77832a770dac"


class Session:
    """FLARE's own, with one state of the job after another; of None it says nothing."""

    def __init__(self, *states, clients=(), running=(), **meta):
        self.states, self.clients, self.running, self.meta = list(states), clients, running, meta

    def get_system_info(self):
        return SimpleNamespace(client_info=[SimpleNamespace(name=name) for name in self.clients],
                               job_info=[SimpleNamespace(job_id=name) for name in self.running])  # fmt: skip

    def get_job_meta(self, job):
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        if state is None:
            raise ConnectionError
        return {"status": state, **self.meta}

    def list_jobs(self, name_prefix):
        assert name_prefix == f"train-{SPEC.run}"
        return [{"job_id": JOB, "status": state} for state in self.states]


@pytest.fixture
def kit(tmp_path, monkeypatch):
    monkeypatch.setattr(jobs, "_EVERY", 0.01)
    monkeypatch.setattr(jobs, "_SILENCE_SECONDS", 0.1)
    facts = Federation(name="trial", coordinator="insurer", host="localhost", port=1, parties=PARTIES)
    made = Kit(folder=tmp_path, kind="coordinator", name="insurer", federation=facts)
    made.state.mkdir()
    return made


def classes(content):
    """Return the classes that a configuration names."""
    if isinstance(content, dict):
        own = {content["path"]} if "path" in content else set()
        return own.union(*map(classes, content.values()))
    return set().union(*map(classes, content)) if isinstance(content, list) else set()


def test_a_job_names_four_classes_and_ships_nothing(kit):
    """Those that the kits allow, exactly; a site finds no fault in it."""
    files = job_files(SPEC, PARTIES)
    assert set(files) == {"meta.json", "app/config/config_fed_server.json", "app/config/config_fed_client.json"}
    server, client = (json.loads(files[f"app/config/config_fed_{end}.json"]) for end in ("server", "client"))
    for kind, end in (("coordinator", server), ("party", client)):
        written = settings(kind, "bank", kit.federation, Path("/state"))["local/resources.json"]
        assert (written["class_list_enforcement_mode"], set(written["class_allow_list"])) == ("enforce", classes(end))
    assert server["components"][0]["args"] == {"run": SPEC.run}
    assert client["components"][0]["args"] == {"purpose": "train"}
    assert json.loads(files["meta.json"])["min_clients"] == 2
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as app:
        for name, text in files.items():
            if name != "meta.json":
                app.writestr(name.removeprefix("app/"), text)
    assert why_not_deployed(packed.getvalue()) == ""
    assert "epsilon" not in "".join(files.values()), "what the run does stays with the coordinator"


def test_helpers_take_part_where_they_are_asked_for():
    federation = SimpleNamespace(parties=("north", "notary"), with_tables=("north",))
    assert RunSpec(run=SPEC.run).sites(federation) == ("north",)
    assert RunSpec(run=SPEC.run, with_helpers=True).sites(federation) == ("north", "notary")


# ------------------------------------------------------------------ before one is submitted


def test_a_party_that_is_not_connected_is_named_before_anything_is_sent(kit):
    """After the time that one waits for it."""
    said = []
    with pytest.raises(PartyError, match=r"party 'north' is not connected .* after 0.1 s"):
        Office(kit, Session(clients=("bank",))).wait_for_parties(0.1, said.append, PARTIES)
    assert said == ["waiting for 'north'"]
    Office(kit, Session(clients=("bank", "north"))).wait_for_parties(0.0, said.append, PARTIES)


def test_a_party_that_was_there_twice_takes_part_in_no_run_for_some_minutes(kit):
    """Only if it would take part; and afterwards it may."""
    office = Office(kit, Session(clients=PARTIES))
    (kit.state / "twice").mkdir()
    note = kit.state / "twice" / "north"
    note.touch()
    with pytest.raises(PartyError, match=r"two processes of party 'north' were connected . s ago: .* in use twice"):
        office.wait_for_parties(0.0, print, PARTIES)
    office.wait_for_parties(0.0, print, ["bank"])
    for moved in (-1e9, -400.0, 400.0, 86_400.0):  # a clock that is set back does not make it days
        os.utime(note, (time.time() + moved, time.time() + moved))
        office.wait_for_parties(0.0, print, PARTIES)


@pytest.mark.parametrize(
    ("status", "running", "alive"),
    [
        ("SUBMITTED", (), True), ("APPROVED", (), True), ("RUNNING", (JOB,), True),
        ("FINISHED:COMPLETED", (JOB,), True),
        ("RUNNING", (), False), ("RUNNING", ("another",), False), ("FINISHED:ABORTED", (), False),
    ],
)  # fmt: skip
def test_a_job_is_under_way_if_it_waits_or_has_a_process(kit, status, running, alive):
    """FLARE calls a job RUNNING for ever that was under way when the coordinator's process was killed."""
    office = Office(kit, Session(status, running=running))
    if alive:
        with pytest.raises(PartyError, match="is under way at the coordinator"):
            office.wait_for_no_job(SPEC, 0.0)
    else:
        office.wait_for_no_job(SPEC, 0.0)
    with pytest.raises(PartyError, match="the coordinator does not say what is under way"):
        Office(kit, None).wait_for_no_job(SPEC, 0.0)


# ------------------------------------------------------------------ its end


def followed(kit, session, *, log="", state=None, tell=lambda told: None):
    (kit.state / "log.txt").write_text(log)
    folder = SPEC.write(kit.runs)
    if state is not None:
        (folder / "status.json").write_text(json.dumps(state))
    return follow(kit, Office(kit, session), SPEC, JOB, tell)


REPORTED = f"Job: {JOB} started\nFailing job {JOB} due to reported failure from {{}}: exception\n"
DIED = "FINISHED:EXECUTION_EXCEPTION"
BYOC = {"job_deploy_detail": ["server: OK", "north: BYOC not permitted"]}


@pytest.mark.parametrize(
    ("session", "log", "phase", "said"),
    [
        (Session("FINISHED:CANT_SCHEDULE", **BYOC), "", None, "party 'north' did not take the job: BYOC not permitted"),
        (Session("RUNNING", DIED), f"{JOB} failed to sync clients ['bank'] ...", None, "party 'bank' did not begin"),
        (Session(DIED), f"{JOB} failed to set up clients ['north', 'bank']", None,
         "party 'north' and 'bank' could not open its site"),
        (Session("RUNNING"), REPORTED.format("north"), "stopped", "party 'north' is gone"),
        (Session(DIED), REPORTED.format("bank"), None, "party 'bank' is gone"),
        (Session(None), "", "training", "the coordinator's process does not answer any more"),
        (Session("RUNNING", DIED), "", None, "the coordinator's job ended before its program did"),
        (Session("FINISHED:ABORTED"), "", None, "the run was stopped before its end"),
    ],
)  # fmt: skip
def test_a_run_that_ends_without_its_program_is_a_sentence_that_names_the_party(kit, session, log, phase, said):
    told = followed(kit, session, log=log, state=phase and {"phase": phase, "parties": {}})
    assert told["phase"] == ("stopped" if "was stopped" in said else "failed")
    assert said in told["error"]
    assert [name for name in PARTIES if name in told["error"]] == [name for name in PARTIES if name in said]
    assert read_progress(kit.runs / SPEC.run)["phase"] == told["phase"]


def test_the_programs_own_word_counts(kit):
    """Of a run that its owner has stopped, whatever the log has of older jobs, and of one that goes on to its end."""
    state = {"phase": "stopped", "error": "as it was", "parties": {}}
    log = f"an older job, due to reported failure from north: exception\nJob: {JOB} started\n"
    assert followed(kit, Session("RUNNING"), log=log, state=state) == state
    SPEC.begin_again(kit.runs / SPEC.run)
    progress, told = Progress(kit.runs / SPEC.run, kit.federation.names, {"run": SPEC.run}), []

    def tell(state):
        told.append(state["phase"])
        if len(told) == 3:
            progress.phase("done", people=7)

    ended = follow(kit, Office(kit, Session("RUNNING")), SPEC, JOB, tell)
    assert (ended["phase"], ended["people"]) == ("done", 7)


@pytest.mark.parametrize(
    ("asked", "why"),
    [(["Describe"], ""), (["Invite", "Connect"], "Nothing was charged"), (["Invite", "Join"], "stays charged")],
)
def test_what_cannot_be_taken_up_again_is_on_disk_at_once(tmp_path, asked, why):
    """Whatever becomes of the process then."""
    progress = Progress(tmp_path, ["lab"])
    for what in asked:
        progress.asked(what, {"lab": 1}, note="joint computation: here")
    told = why_not_resumed(read_progress(tmp_path))
    assert (why in told) if why else told == ""
    progress.phase("failed", error="x")
    assert why_not_resumed(read_progress(tmp_path)) == told
    assert read_progress(tmp_path)["note"] is None
