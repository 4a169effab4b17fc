"""What ``train`` and ``predict`` share: a run is submitted, followed to its end, and told about."""

import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from typing import Any

from sottovoce._kept import PrivateFolder
from sottovoce.cli._echo import echo
from sottovoce.cli._options import option
from sottovoce.exceptions import PartyError
from sottovoce.vertical.flare.jobs import Office, follow, open_office
from sottovoce.vertical.flare.kit import Kit
from sottovoce.vertical.flare.progress import Progress, read_progress
from sottovoce.vertical.flare.runs import RunSpec, why_not_resumed

_FLARE = "Parties"
WAIT: Any = option("--wait", "Seconds to wait until all parties are connected.", _FLARE, default=60.0)
TIMEOUT: Any = option("--timeout", "Seconds that a party has for one answer.", _FLARE, default=120.0)


@contextmanager
def submitted(kit: Kit, office: Office, spec: RunSpec, *, again: bool = False, wait: float = 0.0) -> Iterator[str]:
    """Write a run down, submit its job and hold the run: of one run there is one command, and one job.

    ``again`` goes on with one that is written down; a job of it that has failed may take ``wait`` seconds to end.
    """
    folder = kit.runs / spec.run
    if not again:
        spec.write(kit.runs)
    with closing(PrivateFolder(folder, "the run")):
        if again:
            over = (read_progress(folder) or {}).get("phase") in ("failed", "stopped")
            office.wait_for_no_job(spec, wait if over else 0.0)
            spec.begin_again(folder)
        try:
            job = office.submit(spec)
        except PartyError as error:
            Progress(folder, kit.federation.names).phase("failed", error=str(error))
            raise
        yield job


def do_run(kit: Kit, spec: RunSpec, *, again: bool = False, wait: float, quiet: bool) -> dict[str, Any]:
    """Submit a run, follow it, and return what it says at its end; a `PartyError` has its own message if it failed.

    It is written down once all parties are there; ``again`` goes on with one that was. An interrupt ends the job at all
    sites first, and its notes say what stays.
    """
    say = _Line(quiet)
    with open_office(kit) as office:
        office.wait_for_parties(wait, say, spec.sites(kit.federation))
        with submitted(kit, office, spec, again=again, wait=wait) as job:
            say(f"run {spec.run}: submitted; FLARE starts a process at each site")
            try:
                with _interruptible(say.progress) as tell:
                    state = follow(kit, office, spec, job, tell)
            except KeyboardInterrupt as error:
                way_on = _how_to_go_on(kit, spec, read_progress(kit.runs / spec.run))
                error.add_note(f"run {spec.run} was stopped at all sites.{way_on}")
                with suppress(KeyboardInterrupt):  # impatience
                    office.abort(job)
                raise
    say.end()
    if state["phase"] != "done":
        remedy = "" if state["phase"] == "waiting" else _how_to_go_on(kit, spec, state)
        raise PartyError(f"run {spec.run}: {state.get('error', 'it did not end.')}{remedy}")
    return state


@contextmanager
def _interruptible(tell: Callable[[Any], object]) -> Iterator[Callable[[Any], object]]:
    """Yield ``tell``, which raises an interrupt that came: FLARE's client swallows one that comes while it asks."""
    came = []

    def note(number: int, _: object) -> None:
        came.append(number)
        raise KeyboardInterrupt

    def told(state: Any) -> None:
        if came:
            raise KeyboardInterrupt
        tell(state)

    if threading.current_thread() is not threading.main_thread():  # where no signal arrives
        yield told
        return
    before = signal.signal(signal.SIGINT, note)
    try:
        yield told
    finally:
        signal.signal(signal.SIGINT, before)


def _how_to_go_on(kit: Kit, spec: RunSpec, state: Mapping[str, Any] | None) -> str:
    if spec.purpose != "train":
        return ""
    lost = why_not_resumed(state)
    if lost:
        return f"\nIt cannot be resumed: {lost} Begin again: sottovoce vertical train {kit.folder} ..."
    return (
        "\nTo go on where it stopped, without paying again for what was charged: sottovoce vertical train "
        f"{kit.folder} --resume {spec.run}"
    )


class _Line:
    """Progress on standard error: one line that changes on a terminal, one line a phase elsewhere."""

    def __init__(self, quiet: bool) -> None:
        self._quiet, self._moves = quiet, sys.stderr.isatty()
        self._last = self._doing = ""
        self._open = False

    def __call__(self, text: str) -> None:
        self.end()
        if not self._quiet:
            echo(text, err=True)

    def progress(self, state: Mapping[str, Any]) -> None:
        text = progress_text(state)
        if self._quiet or text == self._last:
            return
        if self._moves:
            echo(f"\r\x1b[K{text}", nl=False, err=True)
            self._open = True
        elif _doing(state) != self._doing:
            echo(text, err=True)
        self._last, self._doing = text, _doing(state)

    def end(self) -> None:
        if self._open:
            echo(err=True)
        self._open = False


def _doing(state: Mapping[str, Any]) -> str:
    return f"{state['phase']}, {state['note']}" if state.get("note") else str(state["phase"])


def progress_text(state: Mapping[str, Any]) -> str:
    text = _doing(state)
    if not state.get("rounds"):
        return text
    now = time.time()
    part = re.search(r"(\d+) of (\d+)$", text)
    if state.get("people"):
        text += f", {state['people']:,} people"
    text += f": {state['rounds']:,} rounds, {state['bytes_down']:,} bytes down, {state['bytes_up']:,} up"
    if part is not None and int(part[1]) > 0 and state.get("started"):
        left = (now - state["started"]) / int(part[1]) * (int(part[2]) - int(part[1]))
        text += f", some {left:.0f} s left"
    waiting = {name: now - party["waiting_since"] for name, party in state["parties"].items() if party["waiting_since"]}
    if waiting and max(waiting.values()) > 2.0:
        name = max(waiting, key=lambda each: waiting[each])
        text += f"; {name} has been asked {state['asking']} for {waiting[name]:.0f} s"
    return text
