"""Jobs of FLARE, from the coordinator's own machine: what one consists of, and how it is submitted and followed.

A job is written by hand: it names the library's own two classes and the two of FLARE that call them, and ships nothing.
It says which run it is about; what that run does is in a file at the coordinator.
"""

import contextlib
import io
import json
import logging
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from sottovoce.exceptions import PartyError
from sottovoce.vertical.flare.hardening.closed import LEAD, job_text, require_engine
from sottovoce.vertical.flare.hardening.guard import read_settings_of_the_kit_alone
from sottovoce.vertical.flare.hardening.waits import COMMAND, look_often
from sottovoce.vertical.flare.kit import Kit
from sottovoce.vertical.flare.progress import Progress, read_progress
from sottovoce.vertical.flare.runs import RunSpec

_SILENCE_SECONDS: Final = 15.0  # without a word of the coordinator's process, after which it is taken for gone
_CONNECT_SECONDS: Final = 20.0
_TWICE_SECONDS: Final = 300.0  # for which a party that was there twice takes part in no run
_LOOK_SECONDS: Final = 2.0
_ENDED: Final = ("done", "failed", "stopped")
_OVER: Final = "FINISHED"
_WAITING: Final = ("SUBMITTED", "APPROVED")
_EVERY: Final = 0.1  # seconds between two looks at how far it is; FLARE is asked at each twentieth


def job_files(spec: RunSpec, parties: tuple[str, ...]) -> dict[str, str]:
    """Return the files of the job of a run with these parties, by their paths in its folder."""
    meta = {"name": _job_name(spec), "resource_spec": {}, "min_clients": len(parties),
            "deploy_map": {"app": ["server", *parties]}}  # fmt: skip
    return {
        "meta.json": json.dumps(meta),
        "app/config/config_fed_server.json": job_text("server", run=spec.run),
        "app/config/config_fed_client.json": job_text("client", purpose=spec.purpose),
    }


def _job_name(spec: RunSpec) -> str:
    return f"{spec.purpose}-{spec.run}"


class Office:
    """A connection of the lead with the coordinator's process; see `open_office`."""

    def __init__(self, kit: Kit, session: Any) -> None:
        self._kit, self._session = kit, session

    def connected(self) -> tuple[str, ...]:
        with _silent():
            info = self._session.get_system_info()
        there = {client.name for client in info.client_info}
        return tuple(name for name in self._kit.federation.parties if name in there)

    def wait_for_parties(self, seconds: float, say: Callable[[str], object], wanted: Sequence[str]) -> None:
        """Return when the parties that are wanted are connected.

        A `PartyError` names all that are not by then, or one that was there twice within the last minutes.
        """
        self._refuse_twice(wanted)
        until, told = time.monotonic() + seconds, ""
        while True:
            there = self.connected()
            missing = [name for name in wanted if name not in there]
            if not missing:
                return
            names = " and ".join(map(repr, missing))
            if time.monotonic() >= until:
                who = f"party {names} is" if len(missing) == 1 else f"parties {names} are"
                raise PartyError(
                    f"{who} not connected to the coordinator, after {seconds:g} s. Start each at its own place with "
                    "sottovoce vertical party KIT, or wait longer: --wait SECONDS."
                )
            if names != told:
                say(f"waiting for {names}")
                told = names
            time.sleep(0.5)

    def _refuse_twice(self, names: Sequence[str]) -> None:
        for name in names:
            with suppress(FileNotFoundError):
                # a clock may have been set back since
                ago = abs(time.time() - (self._kit.state / "twice" / name).stat().st_mtime)
                if ago < _TWICE_SECONDS:
                    raise PartyError(
                        f"two processes of party {name!r} were connected {ago:.0f} s ago: its kit is in use twice. See "
                        f"that all but one are stopped there, and try again in {_TWICE_SECONDS - ago:.0f} s."
                    )

    def submit(self, spec: RunSpec) -> str:
        with tempfile.TemporaryDirectory(prefix="sottovoce-job-") as folder:
            job = Path(folder) / f"run-{spec.run}"
            for name, text in job_files(spec, spec.sites(self._kit.federation)).items():
                path = job / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            try:
                with _silent():
                    return str(self._session.submit_job(str(job)))
            except Exception as error:
                raise PartyError(f"the coordinator did not take the run: {_first_line(error)}") from None

    def wait_for_no_job(self, spec: RunSpec, seconds: float) -> None:
        """Return when no job of a run is under way: one that has failed needs a moment to end at all sites.

        A `PartyError` says that one still is, or that the coordinator's process does not say.
        """
        until = time.monotonic() + seconds
        while True:
            try:
                with _silent():
                    jobs = self._session.list_jobs(name_prefix=_job_name(spec))
                    running = {job.job_id for job in self._session.get_system_info().job_info}
            except Exception as error:
                raise PartyError(f"the coordinator does not say what is under way: {_first_line(error)}") from None
            # one that was under way when the coordinator's process was killed is called RUNNING for ever
            alive = [job for job in jobs if job["status"] in _WAITING or job["job_id"] in running]
            if not alive:
                return
            if time.monotonic() >= until:
                raise PartyError(
                    f"run {spec.run}: a job of it is under way at the coordinator ({alive[0]['status']}), and a second "
                    f"one would do the same. Wait for its end: sottovoce vertical status {self._kit.folder}"
                )
            time.sleep(0.5)

    def state(self, job: str) -> tuple[str, dict[str, Any]]:
        """Return what FLARE says of a job: its status, and all that is known."""
        with _silent():
            meta = self._session.get_job_meta(job)
        return str(meta.get("status", "")), dict(meta)

    def abort(self, job: str) -> None:
        with suppress(Exception), _silent():
            self._session.abort_job(job)

    def close(self) -> None:
        with suppress(Exception), _silent():
            self._session.close()


@contextmanager
def open_office(kit: Kit) -> Iterator[Office]:
    """Connect the lead with the coordinator's process; a `PartyError` says that it does not run or does not answer."""
    require_engine()
    logging.getLogger().addHandler(logging.NullHandler())  # FLARE's remarks about a line that fails are ours to tell
    from nvflare.fuel.flare_api.flare_api import new_secure_session

    read_settings_of_the_kit_alone(kit.lead)
    look_often(COMMAND)
    try:
        with _silent():
            session = new_secure_session(LEAD, str(kit.lead), timeout=_CONNECT_SECONDS)
    except Exception as error:
        raise PartyError(
            f"the coordinator's process does not answer at {kit.federation.host}, port {kit.federation.port} "
            f"({type(error).__name__}). Start it: sottovoce vertical coordinator {kit.folder}"
        ) from None
    office = Office(kit, session)
    try:
        yield office
    finally:
        office.close()


def who_is_connected(kit: Kit) -> tuple[str, ...] | None:
    """Return the parties that are connected to the coordinator's process; None if that does not answer."""
    try:
        with socket.create_connection((kit.federation.host, kit.federation.port), _LOOK_SECONDS):
            pass
        with open_office(kit) as office:
            return office.connected()
    except (OSError, PartyError):
        return None


def follow(
    kit: Kit, office: Office, spec: RunSpec, job: str, tell: Callable[[Mapping[str, Any]], object]
) -> dict[str, Any]:
    """Wait for the end of a run, and return its last progress; ``tell`` gets it as it goes on.

    A run that never began, or whose coordinator died, ends too: with what FLARE says of it.
    """
    folder, asked, heard = kit.runs / spec.run, 0.0, time.monotonic()
    while True:
        state = read_progress(folder) or {"phase": "waiting"}
        tell(state)
        if state["phase"] in _ENDED:  # where FLARE stopped it because a process died, the program was not told whose
            gone = _gone(kit.federation.parties, _log_of(kit, job)) if state["phase"] == "stopped" else ""
            return _failed(kit, spec, state, gone) if gone else state
        if time.monotonic() - asked >= 20 * _EVERY:
            asked, status, meta = time.monotonic(), "", dict[str, Any]()
            with suppress(Exception):  # the coordinator's process is gone, or for the moment
                status, meta = office.state(job)
            if status:
                heard = time.monotonic()
            elif time.monotonic() - heard > _SILENCE_SECONDS:
                return _failed(kit, spec, state, (
                    "the coordinator's process does not answer any more. Start it again: sottovoce vertical "
                    f"coordinator {kit.folder}"
                ))  # fmt: skip
            if status.startswith(_OVER):
                state = read_progress(folder) or {"phase": "waiting"}  # it may have ended between the two looks
                if state["phase"] in _ENDED:
                    return state
                error = why_ended(kit.federation.parties, status, meta, _log_of(kit, job))
                return _failed(kit, spec, state, error, "stopped" if "ABORTED" in status else "failed")
        time.sleep(_EVERY)


def _failed(kit: Kit, spec: RunSpec, state: dict[str, Any], error: str, phase: str = "failed") -> dict[str, Any]:
    progress = Progress(kit.runs / spec.run, kit.federation.names, {**state, "run": spec.run})
    progress.phase(phase, error=error)
    return progress.told()


def why_ended(parties: tuple[str, ...], status: str, meta: Mapping[str, Any], log: str) -> str:
    """Return in one sentence why FLARE ended a job before the coordinator's program did.

    ``status`` is FLARE's word for it, ``meta`` what it knows of the job, ``log`` what the coordinator's log has of it.
    """
    for line in meta.get("job_deploy_detail") or ():
        site, _, said = str(line).partition(":")
        if said.strip() not in ("", "OK"):
            return f"party {site!r} did not take the job: {said.strip()[:200]}. Its own log says more."
    marks = {
        "failed to sync clients": "did not begin the run: see that its version is the coordinator's",
        "failed to set up clients": "could not open its site for the run",
    }
    for mark, what in marks.items():
        if mark in log:
            after = log.rpartition(mark)[2][:500]
            names = [name for name in parties if repr(name) in after.partition("]")[0]]
            return f"party {' and '.join(map(repr, names or ['?']))} {what}. Its own log says more."
    gone = _gone(parties, log)
    if gone:
        return gone
    if "ABORTED" in status:
        return "the run was stopped before its end."
    return f"the coordinator's job ended before its program did ({status}); {_LOG_NAME} of the kit says more."


def _gone(parties: tuple[str, ...], log: str) -> str:
    """Return which parties' processes ended under a run, in a sentence; empty if none."""
    marks = ("client {} is dead", "dead client: {}", "due to reported failure from {}:")
    gone = [name for name in parties if any(mark.format(name) in log for mark in marks)]
    if not gone:
        return ""
    return f"party {' and '.join(map(repr, gone))} is gone: its process ended or its line is cut. Start it again."


_LOG_NAME: Final = "state/log.txt"


def _log_of(kit: Kit, job: str) -> str:
    """Return the last part of the coordinator's log that speaks of a job."""
    text = b""
    with suppress(OSError), (kit.folder / _LOG_NAME).open("rb") as file:
        file.seek(0, 2)
        file.seek(max(0, file.tell() - 2_000_000))
        text = file.read()
    return "".join(text.decode(errors="replace").partition(job)[1:])


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


@contextmanager
def _silent() -> Iterator[None]:
    """Keep FLARE's own remarks from our output."""
    with contextlib.redirect_stdout(io.StringIO()):
        yield
