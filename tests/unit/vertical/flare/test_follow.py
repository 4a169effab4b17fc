"""Following a run whose end nobody told: what is said of it."""

import json

import pytest

from sottovoce.vertical.flare import jobs
from sottovoce.vertical.flare.federation import Federation
from sottovoce.vertical.flare.kit import Kit
from sottovoce.vertical.flare.runs import RunSpec, new_run_name

JOB = "82e6a52a-f79b-420c-90af-77832a770dac"


class Office:
    """FLARE, with one answer to every question; None: it is not there."""

    def __init__(self, status):
        self.status = status

    def state(self, job):
        if self.status is None:
            raise ConnectionError
        return self.status, {}


@pytest.fixture
def kit(tmp_path):
    federation = Federation(name="t", coordinator="lab", host="localhost", port=8002, parties=("north", "bank"))
    made = Kit(folder=tmp_path, kind="coordinator", name="lab", federation=federation)
    made.state.mkdir()
    made.runs.mkdir()
    return made


def followed(kit, office, *, log="", state=None, monkeypatch):
    monkeypatch.setattr(jobs, "_EVERY", 0.01)
    monkeypatch.setattr(jobs, "_SILENCE_SECONDS", 0.1)
    (kit.state / "log.txt").write_text(log)
    spec = RunSpec(run=new_run_name())
    folder = spec.write(kit.runs)
    if state is not None:
        (folder / "status.json").write_text(json.dumps(state))
    return jobs.follow(kit, office, spec, JOB, lambda told: None)


LOG = f"Job: {JOB} started\nFederatedServer - INFO - Failing job {JOB} due to reported failure from {{}}: exception\n"


def test_a_run_that_was_stopped_because_a_party_died_names_it(kit, monkeypatch):
    told = followed(
        kit, Office("RUNNING"), log=LOG.format("north"), state={"phase": "stopped", "parties": {}},
        monkeypatch=monkeypatch,
    )  # fmt: skip
    assert told["phase"] == "failed"
    assert "party 'north' is gone" in told["error"]
    assert "bank" not in told["error"]


def test_a_run_that_its_owner_stopped_was_stopped(kit, monkeypatch):
    state = {"phase": "stopped", "error": "as it was", "parties": {}}
    log = f"an older job, due to reported failure from north: exception\nJob: {JOB} started\n"
    assert followed(kit, Office("RUNNING"), log=log, state=state, monkeypatch=monkeypatch) == state


def test_a_job_that_ended_without_its_program_names_the_party(kit, monkeypatch):
    told = followed(kit, Office("FINISHED:EXECUTION_EXCEPTION"), log=LOG.format("bank"), monkeypatch=monkeypatch)
    assert "party 'bank' is gone" in told["error"]


def test_a_coordinator_that_does_not_answer_any_more_is_gone(kit, monkeypatch):
    told = followed(kit, Office(None), state={"phase": "training", "parties": {}}, monkeypatch=monkeypatch)
    assert told["phase"] == "failed"
    assert "the coordinator's process does not answer" in told["error"]
