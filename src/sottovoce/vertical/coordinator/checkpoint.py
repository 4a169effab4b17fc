"""What a coordinator keeps of a run, so that a run that was cut off goes on and is charged once.

A run is executed again from its start, and parties answer what they were asked and paid for as they did before. So the
name of a model is drawn again as it was, from one secret key, and labels that were released to parties are taken from
disk: they are stored before they leave, and the charge for them is closed. No noise follows from the key.
"""

import hashlib
import json
import secrets
import zlib
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, Final

import numpy as np

from sottovoce._files import whole_file, write_whole
from sottovoce._kept import PrivateFolder, StoredKey
from sottovoce._numerics import Vector
from sottovoce.exceptions import ParameterError, PartyError, StorageError
from sottovoce.ledger.charging import OpenCharge

_REMEDY: Final = "Resume it with what it was begun with, or begin a new run."
_CHECK: Final = 4  # bytes in front of labels


@dataclass(frozen=True)
class Run:
    """What one fit draws once: its model's name, the labels that it releases, the name that its ledger knows it by.

    By default all of it is fresh. A run that may be interrupted has it from disk (`Checkpoint`): the same training on
    the same labels, executed again, has the same and finds its own charge. Another training, or other labels, draw
    something else and are charged for.
    """

    checkpoint: "Checkpoint | None" = None  # None draws everything anew
    key: StoredKey | None = None  # of its names
    open_charge: OpenCharge = field(default_factory=OpenCharge)

    def of(self, plan: object, labels: Any) -> "Run":
        """Return the run of this training on these labels: what it draws, no other one draws."""
        if self.key is None:
            return self
        return Run(self.checkpoint, self.key.within(b"training", repr(plan).encode(), _digest_of_labels(labels)))

    def released(self, draw: Callable[[], Vector]) -> Vector:
        """Return labels of -1 and +1 that leave with noise, as ``draw`` returns them: the same in every execution.

        They are on disk, and the charge is closed for them, before this returns: what was drawn and has not come so far
        has not left. Raises `LedgerError` if the charge was closed for others, by a copy of this run.
        """
        if self.checkpoint is None:
            return draw()
        raw = self.checkpoint.released(self._name(b"labels"), lambda: draw().astype(np.int8).tobytes())
        self.open_charge.close_for(hashlib.sha256(raw).hexdigest())
        return np.frombuffer(raw, np.int8).astype(np.float64)

    def begin_once(self) -> None:
        """Refuse to charge again what ends with the processes: raise `PartyError` where it was begun before."""
        if not self._is_first(b"once"):
            raise PartyError(
                "the joint training of this run was begun before, and ended with the processes of its parties. "
                "What was charged for it stays charged. Begin a new run."
            )

    def promised(self, ask: Callable[[], None], *, labels_public: bool) -> None:
        """Have parties say that they will pay, as ``ask`` does; once labels may have left, they may have paid already.

        Raises what ``ask`` raises in an execution before which no label has left.
        """
        with suppress(*[PartyError] * self._is_kept(b"labels")):
            ask()
        if labels_public:  # they leave without having been drawn
            self._is_first(b"labels")

    def _is_first(self, what: bytes) -> bool:
        """Tell whether no execution of this run has come here before."""
        own = secrets.token_bytes(16)
        return self.checkpoint is None or self.checkpoint.released(self._name(what), lambda: own) == own

    def _is_kept(self, what: bytes) -> bool:
        return self.checkpoint is not None and self.checkpoint.path(self._name(what)).exists()

    def _name(self, what: bytes) -> str:
        return "" if self.key is None else self.key.within(what).name(16).hex()

    @property
    def model(self) -> str:
        """Name of the model; a new one at each call where nothing is drawn again."""
        return secrets.token_hex(8) if self.key is None else self.key.within(b"model").name(8).hex()

    @property
    def charge(self) -> str | None:
        """What the ledger's record is found by; None where nothing is looked for."""
        return None if self.key is None else self.key.within(b"charge").name(16).hex()


class Checkpoint:
    """A run on disk.

    Raises `ParameterError` if the run was begun with other facts; the message names them. Raises `StorageError` if the
    run has ended, another process has it, or the folder cannot be used.

    ``folder``: of this run alone; made where it is missing. Nobody else may read it.
    ``facts``: what the run is: program, parameters, parties; plain JSON. Kept at the beginning, and compared ever
    after.
    ``begun``: whether the run was begun before, by `begin`: a folder without its key is then an error.
    ``is_resumed``: whether the run had been executed before.
    """

    def __init__(self, folder: str | Path, facts: Mapping[str, object] | None = None, *, begun: bool = False) -> None:
        self._folder = PrivateFolder(folder, "the checkpoint")
        try:
            self.is_resumed = (self._folder.path / "facts.json").exists()
            if (begun or self.is_resumed) and not (self._folder.path / "key").exists():  # a new one would charge anew
                raise StorageError(
                    f"{self._folder.path} has no key any more: the run has ended, or its checkpoint was removed. "
                    "Nothing is done again under its name; begin a new run."
                )
            self._key = self._folder.key()
            self._check_facts(dict(facts or {}))
            self._folder.sync()
        except BaseException:
            self._folder.close()
            raise
        self._n_runs, self._lock = 0, Lock()

    @staticmethod
    def begin(folder: str | Path) -> None:
        """Draw the key of a new run before its first execution, so that none can take its loss for a beginning."""
        with closing(PrivateFolder(folder, "the checkpoint")) as made:
            made.key()

    def new_run(self) -> Run:
        """Return what the next fit draws: the same in every execution."""
        with self._lock:
            self._n_runs += 1
            return Run(self, self._key.within(b"run", str(self._n_runs).encode()))

    def path(self, name: str) -> Path:
        """Return where what is kept under this name is, or will be."""
        return self._folder.path / f"{name}.kept"

    def released(self, name: str, draw: Callable[[], bytes]) -> bytes:
        """Return what is kept under this name, or what ``draw`` returns, which is on disk by then."""
        if not self._folder.is_held:
            raise StorageError(f"the checkpoint {self._folder.path} is another process's.")
        path = self.path(name)
        with self._lock:
            if not path.exists():
                raw = draw()
                with whole_file(path, private=True) as file:
                    file.write(_check(raw) + raw)
                self._folder.sync()
            kept = path.read_bytes()
        if kept[:_CHECK] != _check(kept[_CHECK:]):
            raise StorageError(f"{path}: the checkpoint was damaged: the run cannot be taken up again.")
        return kept[_CHECK:]

    def close(self) -> None:
        """Let another process go on with the run; what is kept stays."""
        self._folder.close()

    def end(self) -> None:
        """Forget the key and the labels, but not that there was a run: its results are on disk."""
        if self._folder.is_held:
            (self._folder.path / "key").unlink(missing_ok=True)
            for path in self._folder.path.glob("*.kept"):
                path.unlink()
            self._folder.close()

    def _check_facts(self, facts: dict[str, object]) -> None:
        path = self._folder.path / "facts.json"
        if not self.is_resumed:
            write_whole(path, json.dumps(facts, indent=2, sort_keys=True), private=True)
            return
        before, plain = json.loads(path.read_text()), json.loads(json.dumps(facts))
        for name in sorted({*before, *plain}):
            if before.get(name) != plain.get(name):
                raise ParameterError(
                    f"{name} is {plain.get(name)!r}, and the run in {self._folder.path} was begun with "
                    f"{before.get(name)!r}. {_REMEDY}"
                )


def _check(raw: bytes) -> bytes:
    return zlib.crc32(raw).to_bytes(_CHECK, "little")


def _digest_of_labels(labels: Any) -> bytes:
    values = np.asarray(labels)
    raw = values.tobytes() if values.dtype.kind in "biuf" else repr(values.tolist()).encode()
    return hashlib.sha256(f"{values.dtype.str} {values.shape} ".encode() + raw).digest()
