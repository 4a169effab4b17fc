"""What ``train`` and ``predict`` share: a run is done by this process, shown while it goes on, and told about."""

import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sottovoce.cli._echo import echo
from sottovoce.cli._options import option
from sottovoce.exceptions import PartyError
from sottovoce.vertical.flare.kit import Kit
from sottovoce.vertical.flare.processes import listening
from sottovoce.vertical.flare.programs import execute
from sottovoce.vertical.flare.runs import RunSpec, read_progress, why_not_resumed

_FLARE = "Parties"
_EVERY = 0.2  # seconds between two looks at how far it is
WAIT: Any = option("--wait", "Seconds to wait until all parties are connected.", _FLARE, default=60.0)
TIMEOUT: Any = option("--timeout", "Seconds that a party has for one answer.", _FLARE, default=120.0)


def do_run(kit: Kit, spec: RunSpec, *, again: bool = False, wait: float, quiet: bool) -> dict[str, Any]:
    """Do a run, and return what it says at its end; a `PartyError` has its own message if it failed.

    It is written down once all parties are there; ``again`` goes on with one that was. An interrupt ends it at all
    sites, and its notes say what stays.
    """
    say = _Line(quiet)
    with listening(kit) as line:
        line.wait_for_parties(wait, say, spec.sites(kit.federation))
        folder = kit.runs / spec.run
        spec.begin_again(folder) if again else spec.write(kit.runs)
        say(f"run {spec.run}: begins")
        try:
            with _shown(folder, say.progress):
                state = execute(kit, spec.run, line.call)
        except KeyboardInterrupt as error:
            error.add_note(f"run {spec.run} was stopped.{_how_to_go_on(kit, spec, read_progress(folder))}")
            raise
    say.end()
    if state["phase"] != "done":
        raise PartyError(f"run {spec.run}: {state['error']}{_how_to_go_on(kit, spec, state)}")
    return state


@contextmanager
def _shown(folder: Path, tell: Callable[[Mapping[str, Any]], object]) -> Iterator[None]:
    """Tell how far a run is while the block does it, and where it came to."""
    over = threading.Event()

    def look() -> None:
        while not over.wait(_EVERY):
            tell(read_progress(folder) or {"phase": "starting"})

    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    try:
        yield
    finally:
        over.set()
        looking.join()
        tell(read_progress(folder) or {"phase": "starting"})


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
