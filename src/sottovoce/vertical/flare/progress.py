"""How far a run is: kept by the coordinator while it runs, read by whoever follows it.

Counts and times, and nothing of the data. A file of one run, replaced whole, so that a reader never sees half of it.
"""

import json
import os
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from time import time
from typing import Any, Final

from sottovoce._files import sync_folder, write_whole

_EVERY: Final = 0.5  # seconds between two versions of the file, but for changes of phase
STATUS: Final = "status.json"
INVITED, JOINED = "invited", "joined"  # how far a joint computation came: parties are charged when they join
_JOINT: Final = {"Invite": INVITED, "Join": JOINED}


class Progress:
    """What a run has done so far, in its folder, or in memory without one.

    The names are those of the parties, in order. The facts stay the same: run, purpose, model.
    """

    def __init__(self, folder: Path | None, names: Iterable[str], facts: Mapping[str, object] | None = None) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._written, self._is_done = 0.0, False
        self._state: dict[str, Any] = {
            **(facts or {}),
            "phase": "starting",
            "process": os.getpid(),
            "started": time(),
            "updated": time(),
            "rounds": 0,
            "bytes_down": 0,
            "bytes_up": 0,
            "asking": None,
            "note": None,
            "parties": {
                name: {"bytes_down": 0, "bytes_up": 0, "last_heard": None, "seconds": 0.0, "waiting_since": None}
                for name in names
            },
        }

    def phase(self, phase: str, **more: object) -> None:
        """Say what the run is doing now, with facts that are known from here on.

        "done" is said once and for all: nobody does the run again. If that cannot be written, an `OSError`, the run has
        not ended, and can be resumed.
        """
        with self._lock:
            if self._is_done:
                return
            for party in self._state["parties"].values():
                party["waiting_since"] = None
            self._state |= {"phase": phase, "asking": None, "note": None, **more}
            if phase == "done" and self._folder is not None:
                self._put(self._folder)
                sync_folder(self._folder)
                self._is_done = True
            else:
                self._write(always=True)

    def asked(self, what: str, n_bytes: Mapping[str, int], *, note: str | None = None) -> None:
        """Count a round of requests, by party; ``note`` says in words what they are part of."""
        with self._lock:
            self._state["rounds"] += 1
            self._state |= {"asking": what, "note": note}
            reached = _JOINT.get(what)
            if reached is not None:
                self._state["joint"] = reached
            now = time()
            for name, count in n_bytes.items():
                self._state["bytes_down"] += count
                party = self._state["parties"][name]
                party["bytes_down"] += count
                party["waiting_since"] = now
            self._write(always=reached is not None)  # whether it can be resumed hangs on it

    def heard(self, name: str, n_bytes: int) -> None:
        with self._lock:
            now = time()
            self._state["bytes_up"] += n_bytes
            party = self._state["parties"][name]
            party["bytes_up"] += n_bytes
            party["last_heard"] = now
            if party["waiting_since"] is not None:
                party["seconds"] += now - party["waiting_since"]
                party["waiting_since"] = None

    def told(self) -> dict[str, Any]:
        with self._lock:
            return json.loads(json.dumps(self._state))  # type: ignore[no-any-return]

    def _write(self, *, always: bool = False) -> None:
        now = time()
        self._state["updated"] = now
        if self._folder is None or (not always and now - self._written < _EVERY):
            return
        self._written = now
        with suppress(OSError):  # a full disk must not end the training; its results will tell
            self._put(self._folder)

    def _put(self, folder: Path) -> None:
        write_whole(folder / STATUS, json.dumps(self._state), private=True)


def read_progress(folder: Path) -> dict[str, Any] | None:
    """Return what the file of a run says; None where there is none."""
    with suppress(OSError, ValueError):
        content = json.loads((folder / STATUS).read_text(encoding="utf-8"))
        if isinstance(content, dict):
            return content
    return None
