"""What a job consists of, and what is said when one ends before its program did."""

import io
import json
import os
import time
import zipfile
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sottovoce.exceptions import PartyError
from sottovoce.vertical.flare import jobs
from sottovoce.vertical.flare.federation import Federation
from sottovoce.vertical.flare.hardening.closed import settings
from sottovoce.vertical.flare.hardening.guard import why_not_deployed
from sottovoce.vertical.flare.jobs import Office, follow, job_files, why_ended
from sottovoce.vertical.flare.progress import Progress
from sottovoce.vertical.flare.runs import RunSpec

PARTIES = ("north", "bank")
SPEC = RunSpec(run="0a1b2c3d4e5f", parameters={"epsilon": 1.0})


def _paths(content: Any) -> set[str]:
    """Return the classes that a configuration names."""
    if isinstance(content, dict):
        own = {content["path"]} if "path" in content else set()
        return own.union(*map(_paths, content.values()))
    return set().union(*map(_paths, content)) if isinstance(content, list) else set()


def test_a_job_names_four_classes_and_ships_nothing() -> None:
    """Those that the kits allow, exactly; a site finds no fault in it."""
    files = job_files(SPEC, 2)
    assert set(files) == {"meta.json", "app/config/config_fed_server.json", "app/config/config_fed_client.json"}
    server, client = (json.loads(files[f"app/config/config_fed_{end}.json"]) for end in ("server", "client"))
    facts = Federation(name="trial", coordinator="insurer", host="localhost", port=1, parties=PARTIES)
    for kind, end in (("coordinator", server), ("party", client)):
        written = settings(kind, "bank", facts, Path("/state"))["local/resources.json"]
        assert (written["class_list_enforcement_mode"], set(written["class_allow_list"])) == ("enforce", _paths(end))
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


@pytest.mark.parametrize(
    ("status", "meta", "log", "said"),
    [
        ("FINISHED:CANT_SCHEDULE", {"job_deploy_detail": ["server: OK", "north: BYOC not permitted"]}, "",
         "party 'north' did not take the job: BYOC not permitted"),
        ("FINISHED:EXECUTION_EXCEPTION", {}, "... failed to sync clients ['bank'] ...", "party 'bank' did not begin"),
        ("FINISHED:EXECUTION_EXCEPTION", {}, "failed to set up clients ['north', 'bank']",
         "party 'north' and 'bank' could not open its site"),
        ("FINISHED:ABORTED", {}, "", "the run was stopped before its end"),
        ("FINISHED:EXECUTION_EXCEPTION", {}, "", "the coordinator's job ended before its program did"),
    ],
)  # fmt: skip
def test_a_job_that_ends_early_is_a_sentence(status: str, meta: dict[str, Any], log: str, said: str) -> None:
    """It names the party, where one is known."""
    assert said in why_ended(PARTIES, status, meta, log)


class _Federation:
    names, parties, helpers, with_tables = ("insurer", *PARTIES), PARTIES, (), PARTIES


class _Kit:
    federation = _Federation()

    def __init__(self, folder: Path) -> None:
        self.folder, self.runs, self.state = folder, folder / "runs", folder / "state"


class _Client:
    def __init__(self, name: str) -> None:
        self.name = name


class _Session:
    """What FLARE's own would say."""

    def __init__(self, *states: str, clients: tuple[str, ...] = ()) -> None:
        self._states, self.clients, self.asked = list(states), clients, 0

    def get_system_info(self) -> Any:
        self.asked += 1
        info = type("Info", (), {})()
        info.client_info = [_Client(name) for name in self.clients]
        return info

    def get_job_meta(self, job: str) -> dict[str, Any]:
        return {"status": self._states.pop(0) if len(self._states) > 1 else self._states[0]}


def test_a_party_that_is_not_connected_is_named_before_anything_is_sent(tmp_path: Path) -> None:
    """After the time that one waits for it."""
    said: list[str] = []
    office = Office(_Kit(tmp_path), _Session(clients=("bank",)))  # type: ignore[arg-type]
    with pytest.raises(PartyError, match=r"party 'north' is not connected .* after 0.1 s"):
        office.wait_for_parties(0.1, said.append)
    assert said == ["waiting for 'north'"]
    Office(_Kit(tmp_path), _Session(clients=("bank", "north"))).wait_for_parties(0.0, said.append)  # type: ignore[arg-type]


def test_a_party_that_was_there_twice_takes_part_in_no_run_for_some_minutes(tmp_path: Path) -> None:
    """Only if it would take part; and afterwards it may."""
    office = Office(_Kit(tmp_path), _Session(clients=PARTIES))  # type: ignore[arg-type]
    (tmp_path / "state" / "twice").mkdir(parents=True)
    note = tmp_path / "state" / "twice" / "north"
    note.touch()
    with pytest.raises(
        PartyError, match=r"two processes of party 'north' were connected . s ago: its kit is in use twice"
    ):
        office.wait_for_parties(0.0, print)
    office.wait_for_parties(0.0, print, ["bank"])
    for moved in (-1e9, -400.0, 400.0, 86_400.0):  # a clock that is set back does not make it days
        os.utime(note, (time.time() + moved, time.time() + moved))
        office.wait_for_parties(0.0, print)


def test_a_run_is_followed_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own word counts; without one, what FLARE says of the job."""
    monkeypatch.setattr(jobs, "_EVERY", 0.01)
    kit: Any = _Kit(tmp_path)
    folder = SPEC.write(kit.runs)
    ended = follow(kit, Office(kit, _Session("RUNNING", "FINISHED:EXECUTION_EXCEPTION")), SPEC, "job", lambda _: None)
    assert ended["phase"] == "failed"
    assert "ended before its program did" in ended["error"]

    SPEC.begin_again(folder)
    stopped = follow(kit, Office(kit, _Session("FINISHED:ABORTED")), SPEC, "job", lambda _: None)
    assert stopped["phase"] == "stopped"

    SPEC.begin_again(folder)
    progress = Progress(folder, kit.federation.names, {"run": SPEC.run})
    told: list[str] = []

    def tell(state: Any) -> None:
        told.append(state["phase"])
        if len(told) == 3:
            progress.phase("done", people=7)

    state = follow(kit, Office(kit, _Session("RUNNING")), SPEC, "job", tell)
    assert (state["phase"], state["people"]) == ("done", 7)


@pytest.mark.parametrize(
    ("status", "running", "alive"),
    [
        ("SUBMITTED", (), True),
        ("APPROVED", (), True),
        ("RUNNING", ("job",), True),
        ("DISPATCHED", ("job",), True),
        ("RUNNING", (), False),
        ("RUNNING", ("another",), False),
        ("FINISHED:ABORTED", (), False),
        ("FINISHED:COMPLETED", ("job",), True),
    ],
)
def test_a_job_is_under_way_if_it_waits_or_has_a_process(
    tmp_path: Path, status: str, running: tuple[str, ...], alive: bool
) -> None:
    """FLARE calls a job RUNNING for ever that was under way when the coordinator's process was killed."""

    class Session:
        def list_jobs(self, name_prefix: str) -> list[dict[str, str]]:
            assert name_prefix == f"train-{SPEC.run}"
            return [{"job_id": "job", "status": status}]

        def get_system_info(self) -> Any:
            return SimpleNamespace(job_info=[SimpleNamespace(job_id=name) for name in running])

    office = Office(_Kit(tmp_path), Session())  # type: ignore[arg-type]
    with pytest.raises(PartyError, match="is under way at the coordinator") if alive else nullcontext():
        office.wait_for_no_job(SPEC, 0.0)


def test_a_coordinator_that_does_not_say_what_is_under_way(tmp_path: Path) -> None:
    """No second job is submitted then."""
    with pytest.raises(PartyError, match="the coordinator does not say what is under way"):
        Office(_Kit(tmp_path), _Session()).wait_for_no_job(SPEC, 0.0)  # type: ignore[arg-type]
