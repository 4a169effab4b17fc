"""What a coordinator keeps of a run, so that a run that was cut off goes on and gives what it would have given.

A run is executed again from its start. Names of sessions and models come from one secret key, and are what they were
before. What the parties answered, and the labels that were released to them, are taken from disk, and from where that
ends the parties are asked again; they know which step they answered last, and a step that they answered they answer
with the same bytes. Noisy labels are stored before they leave, and the charge for them is closed: no noise follows from
the key.
"""

import hashlib
import json
import secrets
import sqlite3
import time
import zlib
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, Final

import numpy as np

from sottovoce._files import write_whole
from sottovoce._kept import PrivateFolder, StoredKey, private_database
from sottovoce._numerics import Vector
from sottovoce.exceptions import DataError, ParameterError, StorageError
from sottovoce.ledger.charging import OpenCharge
from sottovoce.vertical.wire import SESSION_BYTES, Frame, Refused, code_of

_SYNC_EVERY: Final = 1.0  # seconds
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS answers (
    session BLOB NOT NULL,
    step INTEGER NOT NULL,
    party TEXT NOT NULL,
    asked BLOB NOT NULL,
    answer BLOB NOT NULL,
    intact INTEGER NOT NULL,
    PRIMARY KEY (session, step, party)
);
"""
_REMEDY: Final = "Resume it with what it was begun with, or begin a new run."


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
        if self.checkpoint is None or self.key is None:
            return draw()
        name = self.key.within(b"labels").name(SESSION_BYTES)
        raw = self.checkpoint.released(name, lambda: draw().astype(np.int8).tobytes())
        self.open_charge.close_for(hashlib.sha256(raw).hexdigest())
        return np.frombuffer(raw, np.int8).astype(np.float64)

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

    ``folder``: of this run alone; made where it is missing. It holds the answers of the parties: nobody else may read
    it.
    ``facts``: what the run is: program, parameters, parties; plain JSON. Kept at the beginning, and compared ever
    after.
    ``begun``: whether the run was begun before, by `begin`: a folder without its key is then an error.
    ``is_resumed``: whether the run had been begun before.
    ``n_taken``: answers that were taken from disk so far.
    ``n_kept``: answers that are on disk.
    """

    def __init__(self, folder: str | Path, facts: Mapping[str, object] | None = None, *, begun: bool = False) -> None:
        self._folder = PrivateFolder(folder, "the checkpoint")
        try:
            self.is_resumed = (self._folder.path / "answers.db").exists()
            known = begun or (self._folder.path / "facts.json").exists()
            if known and not (self._folder.path / "key").exists():  # a new one would train and charge anew
                raise StorageError(
                    f"{self._folder.path} has no key any more: the run has ended, or its checkpoint was removed. "
                    "Nothing is done again under its name; begin a new run."
                )
            self._key = self._folder.key()
            self._check_facts(dict(facts or {}))
            self._file = private_database(self._folder.path / "answers.db", _TABLES)
            self._folder.sync()
        except sqlite3.Error as error:
            self._folder.close()
            raise StorageError(f"{self._folder.path}: the checkpoint cannot be used: {error}.") from None
        except BaseException:
            self._folder.close()
            raise
        self._latest: dict[bytes, tuple[dict[str, Frame], dict[str, bytes]]] = {}  # by session; not kept yet
        self.n_taken = 0
        self._n_sessions = self._n_runs = 0
        self._synced = 0.0
        self._lock = Lock()

    @staticmethod
    def begin(folder: str | Path) -> None:
        """Draw the key of a new run before its first execution, so that none can take its loss for a beginning."""
        with closing(PrivateFolder(folder, "the checkpoint")) as made:
            made.key()

    @property
    def n_kept(self) -> int:
        return int(self._file.execute("SELECT COUNT(*) FROM answers").fetchone()[0])

    def new_session(self) -> bytes:
        """Return the name of the next session: the same one in every execution."""
        with self._lock:
            self._n_sessions += 1
            return self._key.within(b"session", str(self._n_sessions).encode()).name(SESSION_BYTES)

    def new_run(self) -> Run:
        """Return what the next fit draws: the same in every execution."""
        with self._lock:
            self._n_runs += 1
            return Run(self, self._key.within(b"run", str(self._n_runs).encode()))

    def released(self, name: bytes, draw: Callable[[], bytes]) -> bytes:
        """Return what is kept under this name, or what ``draw`` returns, which is on disk by then."""
        self._check_held()
        place = Frame(name, 0, b"")  # as an answer of nobody's
        with self._lock:
            raw = self._kept("", place)
            if raw is None:
                raw = draw()
                self._keep({"": place}, {"": raw})
                self._file.execute("PRAGMA wal_checkpoint(FULL)").fetchall()  # which brings it to the disk
        return raw

    def answered(
        self, requests: Mapping[str, bytes], carry: Callable[[Mapping[str, bytes]], dict[str, bytes]]
    ) -> dict[str, bytes]:
        """Return the answers to framed requests: those that are kept, or what ``carry`` returns, which is kept.

        The answers of an exchange are kept when the next one of its session begins: the run has gone on with them. What
        failed, was refused or could not be used is asked again; so is the last step, which parties answer as before.
        Raises `DataError` if the run asks something else than it did before.

        ``requests``: by party.
        ``carry``: sends the requests that it is given, and returns the answers.
        """
        self._check_held()
        frames = {name: Frame.read(raw) for name, raw in requests.items()}
        session = next(iter(frames.values())).session
        with self._lock:
            if session in self._latest:
                self._keep(*self._latest.pop(session))
            kept = {name: answer for name, frame in frames.items() if (answer := self._kept(name, frame)) is not None}
            self.n_taken += len(kept)
        missing = {name: raw for name, raw in requests.items() if name not in kept}
        if not missing:
            return kept
        answers = {**kept, **carry(missing)}
        if all(isinstance(each := answers.get(name), bytes) and code_of(each) != Refused.code for name in requests):
            with self._lock:
                self._latest[session] = frames, answers
        return answers

    def close(self) -> None:
        """Let another process go on with the run; what is kept stays."""
        if self._folder.is_held:
            self._file.close()
            self._folder.close()

    def end(self) -> None:
        """Forget the key and what the parties answered, but not that there was a run: its results are on disk."""
        if self._folder.is_held:
            (self._folder.path / "key").unlink(missing_ok=True)
            self._file.close()
            (self._folder.path / "answers.db").unlink(missing_ok=True)
            self._folder.close()

    # ------------------------------------------------------------------ on disk

    def _check_held(self) -> None:
        if not self._folder.is_held:
            raise StorageError(f"the checkpoint {self._folder.path} is another process's.")

    def _check_facts(self, facts: dict[str, object]) -> None:
        path = self._folder.path / "facts.json"
        plain = json.loads(json.dumps(facts))
        if not path.exists():
            if self.is_resumed:
                raise StorageError(f"{path} is missing: the run cannot be resumed. Begin a new run.")
            write_whole(path, json.dumps(facts, indent=2, sort_keys=True), private=True)
            return
        before = json.loads(path.read_text())
        for name in sorted({*before, *plain}):
            if before.get(name) != plain.get(name):
                raise ParameterError(
                    f"{name} is {plain.get(name)!r}, and the run in {self._folder.path} was begun with "
                    f"{before.get(name)!r}. {_REMEDY}"
                )

    def _kept(self, name: str, frame: Frame) -> bytes | None:
        row = self._file.execute(
            "SELECT asked, answer, intact FROM answers WHERE session = ? AND step = ? AND party = ?",
            (frame.session, frame.step, name),
        ).fetchone()
        if row is None:
            return None
        asked, answer, intact = row
        if asked != frame.digest:
            raise DataError(
                f"the run asks party {name!r} something else in step {frame.step} than before it was interrupted: its "
                f"parameters, its tables or labels, or the software's version are others now. {_REMEDY}"
            )
        if zlib.crc32(answer) != intact:
            raise StorageError(f"{self._folder.path}: the checkpoint was damaged: the run cannot be taken up again.")
        return bytes(answer)

    def _keep(self, frames: Mapping[str, Frame], answers: Mapping[str, bytes]) -> None:
        self._file.executemany(
            "INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?, ?, ?)",
            [
                (frame.session, frame.step, name, frame.digest, answers[name], zlib.crc32(answers[name]))
                for name, frame in frames.items()
            ],
        )
        if time.monotonic() - self._synced >= _SYNC_EVERY:  # a power cut costs a second of the run's memory
            self._file.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            self._synced = time.monotonic()


def _digest_of_labels(labels: Any) -> bytes:
    values = np.asarray(labels)
    raw = values.tobytes() if values.dtype.kind in "biuf" else repr(values.tolist()).encode()
    return hashlib.sha256(f"{values.dtype.str} {values.shape} ".encode() + raw).digest()
