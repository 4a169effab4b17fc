"""Runs of a coordinator: what is asked of one, and where it is written down.

A run is a folder of the coordinator's kit. `run.json` in it says what is to be done, before it is begun. Nothing of it
travels, and nobody else may read the folder.
"""

import json
import os
import re
import secrets
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from time import time
from typing import Any, Final

from sottovoce._files import sync_folder, write_whole
from sottovoce._plain_data import decode, encode
from sottovoce._validation import choice, number
from sottovoce.exceptions import ParameterError
from sottovoce.vertical.coordinator.checkpoint import Checkpoint
from sottovoce.vertical.estimators.base import VerticalEstimator
from sottovoce.vertical.estimators.receipts import ESTIMATORS
from sottovoce.vertical.flare.site import PURPOSES

# ------------------------------------------------------------------ how far a run is

_EVERY: Final = 0.5  # seconds between two versions of the file, but for changes of phase
STATUS: Final = "status.json"
INVITED, JOINED = "invited", "joined"  # how far a joint computation came: parties are charged when they join
_JOINT: Final = {"Invite": INVITED, "Join": JOINED}


class Progress:
    """What a run has done so far: counts and times, and nothing of the data; in memory without a folder.

    Its file there is replaced whole, so that a reader never sees half of it. The names are those of the parties, in
    order. The facts stay the same: run, purpose, model.
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


# ------------------------------------------------------------------ what it is to do

CHECKPOINT: Final = "checkpoint"
_NAME: Final = re.compile(r"[0-9a-f]{12}")
_FILE: Final = "run.json"
ENDED: Final = ("done", "failed", "stopped")


def new_run_name() -> str:
    return secrets.token_hex(6)


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """What a run is to do: public facts, no paths."""

    run: str
    purpose: str = "train"  # {"train", "score"}
    model: str = "logistic"  # a name of `ESTIMATORS`; of the model that scores, too
    parameters: Mapping[str, Any] = field(default_factory=dict)
    timeout: float = 120.0  # seconds that a party has for one answer
    # of a scoring run: the run that trained the model, and whether predictions are compared with the
    # coordinator's labels
    trained: str | None = None
    labels: bool = False
    with_helpers: bool = False  # whether the federation's helpers take part
    begun: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))

    def __post_init__(self) -> None:
        if not isinstance(self.run, str) or not _NAME.fullmatch(self.run):
            raise ParameterError(f"run must be 12 hexadecimal digits; got {self.run!r}.")
        choice("purpose", self.purpose, PURPOSES)
        choice("model", self.model, ESTIMATORS)
        number("timeout", self.timeout, above=0.0)

    def sites(self, federation: Any) -> tuple[str, ...]:
        """Return the parties that take part beside the coordinator, in the order of the federation."""
        return tuple(federation.parties if self.with_helpers else federation.with_tables)

    def write(self, runs: Path) -> Path:
        folder = runs / self.run
        runs.mkdir(mode=0o700, exist_ok=True)
        folder.mkdir(mode=0o700)
        if self.purpose == "train":
            Checkpoint.begin(folder / CHECKPOINT)
        self._write(folder)
        return folder

    def begin_again(self, folder: Path) -> None:
        """Write it into its folder once more; the run has not begun, whatever it came to before.

        One that has ended, or cannot be taken up again, is refused.
        """
        lost = why_not_resumed(read_progress(folder))
        if lost:
            raise ParameterError(f"--resume {self.run}: {lost} Begin again, without --resume.")
        self._write(folder)
        (folder / STATUS).unlink(missing_ok=True)

    def _write(self, folder: Path) -> None:
        content = {**vars(self), "parameters": encode(dict(self.parameters)), "version": 1}
        write_whole(folder / _FILE, json.dumps(content, indent=2, allow_nan=False) + "\n", private=True)

    @classmethod
    def read(cls, folder: Path) -> "RunSpec":
        path = folder / _FILE
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            version = content.pop("version")
            parameters = decode(content.pop("parameters"))
            if version != 1:
                raise ParameterError(
                    f"{path}: it was written by another version of sottovoce. Use that one, or begin a new run."
                )
            return cls(**content, parameters=parameters)
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            if isinstance(error, ParameterError):
                raise
            raise ParameterError(f"{path}: this is not the description of a run.") from None

    def estimator(self, **more: Any) -> VerticalEstimator:
        return ESTIMATORS[self.model](**self.parameters, **more)


def find_run(runs: Path, name: str) -> Path:
    """Return the folder of a run; the first digits of its name are enough if no other run has them."""
    found = [folder for folder in list_runs(runs) if folder.name.startswith(name)] if name else []
    if len(found) != 1:
        what = "no run" if not found else f"{len(found)} runs"
        raise ParameterError(
            f"RUN {name}: {what} of that name below {runs}. See the list: sottovoce vertical status {runs.parent}"
        )
    return found[0]


def why_not_resumed(state: Mapping[str, Any] | None) -> str:
    """Return why a run cannot go on, in words; empty if it can.

    One that has ended stays as it is. What a joint computation has reached is in the memory of all sites' processes,
    and ends with them.
    """
    if state is not None and state["phase"] == "done":
        return "this run has ended, and its results stay as they are."
    reached = (state or {}).get("joint")
    if reached is None:
        return ""
    charged = (
        "What it was charged stays charged: a second attempt is another release, and costs as much again."
        if reached == JOINED
        else "Nothing was charged for it."
    )
    return f"a joint computation lives in the processes of its sites and cannot be taken up again. {charged}"


def list_runs(runs: Path) -> list[Path]:
    folders = [path.parent for path in runs.glob(f"*/{_FILE}") if _NAME.fullmatch(path.parent.name)]
    return sorted(folders, key=lambda folder: ((folder / _FILE).stat().st_mtime, folder.name))


def run_state(folder: Path, *, busy: bool) -> dict[str, Any]:
    """Return what is known of a run, in plain data: what it is to do and how far it is.

    ``busy``: whether any run of the kit is under way; one that has not ended was cut off if none is.
    """
    spec = RunSpec.read(folder)
    told: dict[str, Any] = read_progress(folder) or {"phase": "waiting"}
    if not busy and told["phase"] not in ENDED:
        told |= {"phase": "stopped", "error": "its command ended before the run did."}
    facts = {"run": spec.run, "purpose": spec.purpose, "model": spec.model, "begun": spec.begun}
    return {**facts, **({"trained": spec.trained} if spec.trained else {}), **told}
