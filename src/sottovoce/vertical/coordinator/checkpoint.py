"""What a coordinator keeps of a run, so that a run that was cut off goes on and gives what it would have given.

A run is executed again from its start. It draws what it drew before: names of sessions and models and the label
holder's noise come from one secret key. What the other parties answered is taken from disk, and from where that ends
they are asked again; they know which step they answered last, and a step that they answered they answer with the same
bytes. The coordinator's own party is asked again for every step (see `sottovoce.vertical.party.journal`).
"""

import hashlib
import json
import struct
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from threading import Lock
from typing import Final

from sottovoce._files import write_whole
from sottovoce.exceptions import DataError, MessageError, ParameterError, StorageError
from sottovoce.vertical.coordinator.run import Run
from sottovoce.vertical.frames import SESSION_BYTES, Frame
from sottovoce.vertical.kept import PrivateFolder, RecordFile
from sottovoce.vertical.wire import Refused, decode

__all__ = ["Checkpoint"]

_EXCHANGE: Final = 1
_SYNC_EVERY: Final = 1.0  # seconds
_REMEDY: Final = "Resume it with what it was begun with, or begin a new run."


class Checkpoint:
    """A run on disk.

    Parameters
    ----------
    folder : str or Path
        Of this run alone; made where it is missing. It holds the answers of the other parties: nobody else may read it.
    facts : dict or None
        What the run is: program, parameters, parties; plain JSON. Kept at the beginning, and compared ever after.

    Attributes
    ----------
    is_resumed : bool
        Whether the run had been begun before.
    n_taken : int
        Exchanges that were taken from disk so far.
    n_kept : int
        Exchanges that are on disk.

    Raises
    ------
    ParameterError
        If the run was begun with other facts; the message names them.
    StorageError
        If another process has the run, or the folder cannot be used.
    """

    def __init__(self, folder: str | Path, facts: Mapping[str, object] | None = None) -> None:
        self._folder = PrivateFolder(folder, "the checkpoint")
        try:
            self.is_resumed = (self._folder.path / "exchanges").exists()
            self._check_facts(dict(facts or {}))
            self._key = self._folder.key()
            self._exchanges = RecordFile(self._folder.path / "exchanges")
            self._folder.sync()
            self._places: dict[bytes, int] = {}  # of an exchange, by the digest of what was asked
            self._asked: dict[tuple[str, bytes, int], bytes] = {}  # the same, by party, session and step
            for at in self._exchanges.places():
                self._know(at, *_unpacked(self._exchanges.read(at)[1])[:2])
        except BaseException:
            self._folder.close()
            raise
        self.n_taken = 0
        self._n_sessions = self._n_runs = 0
        self._synced = 0.0
        self._lock = Lock()

    @property
    def n_kept(self) -> int:
        """Exchanges that are on disk."""
        return len(self._places)

    def new_session(self) -> bytes:
        """Return the name of the next session: the same one in every execution."""
        with self._lock:
            self._n_sessions += 1
            return self._key.within(b"session", str(self._n_sessions).encode()).name(SESSION_BYTES)

    def new_run(self) -> Run:
        """Return what the next fit draws: the same in every execution."""
        with self._lock:
            self._n_runs += 1
            return Run(self._key.within(b"run", str(self._n_runs).encode()))

    def answered(
        self,
        requests: Mapping[str, bytes],
        carry: Callable[[Mapping[str, bytes]], dict[str, bytes]],
        here: Collection[str] = (),
    ) -> dict[str, bytes]:
        """Return the answers to framed requests: those that are kept, or what ``carry`` returns, which is kept.

        Answers are kept when all have come and none is a refusal: what was refused or failed is asked again.

        Parameters
        ----------
        requests : dict
            By party.
        carry : callable
            Sends the requests that it is given, and returns the answers.
        here : collection of str
            Parties that live here: they are asked in every execution, and their answers are not kept.

        Raises
        ------
        DataError
            If the run asks something else than it did before.
        """
        if not self._folder.is_held:
            raise StorageError(f"the checkpoint {self._folder.path} is another process's.")
        digests = {name: hashlib.sha256(raw).digest() for name, raw in requests.items()}
        asked = _asked(digests)
        with self._lock:
            self._check_same(requests, digests)
            at = self._places.get(asked)
            kept = None if at is None else _unpacked(self._exchanges.read(at)[1])[2]
        if kept is not None:
            self.n_taken += 1
            own = {name: raw for name, raw in requests.items() if name not in kept}
            fresh = carry(own) if own else {}
            return {name: kept[name] if name in kept else fresh[name] for name in requests}
        answers = carry(requests)
        if all(isinstance(answers.get(name), bytes) and not _is_refusal(answers[name]) for name in requests):
            with self._lock:
                self._keep(requests, digests, {name: answers[name] for name in requests if name not in here})
        return answers

    def close(self) -> None:
        """Let another process go on with the run; what is kept stays."""
        if self._folder.is_held:
            self._exchanges.close()
            self._folder.close()

    def remove(self) -> None:
        """Forget what the parties answered, and the key: for a run whose results are on disk."""
        if self._folder.is_held:
            self._exchanges.remove()
            for name in ("key", "facts.json"):
                (self._folder.path / name).unlink(missing_ok=True)
            self._folder.close()

    # ------------------------------------------------------------------ on disk

    def _check_facts(self, facts: dict[str, object]) -> None:
        path = self._folder.path / "facts.json"
        plain = json.loads(json.dumps(facts))
        if not path.exists():
            if self.is_resumed:
                raise StorageError(f"{path} is missing: the run cannot be resumed. Begin a new run.")
            write_whole(path, json.dumps(facts, indent=2, sort_keys=True))
            path.chmod(0o600)
            return
        before = json.loads(path.read_text())
        for name in sorted({*before, *plain}):
            if before.get(name) != plain.get(name):
                raise ParameterError(
                    f"{name} is {plain.get(name)!r}, and the run in {self._folder.path} was begun with "
                    f"{before.get(name)!r}. {_REMEDY}"
                )

    def _check_same(self, requests: Mapping[str, bytes], digests: Mapping[str, bytes]) -> None:
        for name, raw in requests.items():
            frame = Frame.read(raw)
            before = self._asked.get((name, frame.session, frame.step))
            if before is not None and before != digests[name]:
                raise DataError(
                    f"the run asks party {name!r} something else in step {frame.step} than before it was interrupted: "
                    f"its parameters, its tables or labels, or the software's version are others now. {_REMEDY}"
                )

    def _keep(self, requests: Mapping[str, bytes], digests: Mapping[str, bytes], answers: Mapping[str, bytes]) -> None:
        frames = {name: Frame.read(raw) for name, raw in requests.items()}
        places = {name: (frame.session.hex(), frame.step, digests[name].hex()) for name, frame in frames.items()}
        lengths = {name: len(answer) for name, answer in answers.items()}
        head = json.dumps({"asked": places, "answers": lengths}).encode()
        at = self._exchanges.append(_EXCHANGE, [struct.pack("<I", len(head)), head, *answers.values()])
        self._know(at, digests, {name: (frame.session, frame.step) for name, frame in frames.items()})
        if time.monotonic() - self._synced >= _SYNC_EVERY:  # a power cut costs a second of the run's memory
            self._exchanges.sync()
            self._synced = time.monotonic()

    def _know(self, at: int, digests: Mapping[str, bytes], places: Mapping[str, tuple[bytes, int]]) -> None:
        self._places[_asked(digests)] = at
        for name, (session, step) in places.items():
            self._asked[name, session, step] = digests[name]


def _unpacked(body: bytes) -> tuple[dict[str, bytes], dict[str, tuple[bytes, int]], dict[str, bytes]]:
    """Return the digests of what was asked, its sessions and steps, and the answers, by party."""
    (length,) = struct.unpack_from("<I", body)
    head, at = json.loads(body[4 : 4 + length]), 4 + length
    digests = {name: bytes.fromhex(digest) for name, (_, _, digest) in head["asked"].items()}
    places = {name: (bytes.fromhex(session), step) for name, (session, step, _) in head["asked"].items()}
    answers = {}
    for name, n_bytes in head["answers"].items():
        answers[name] = body[at : at + n_bytes]
        at += n_bytes
    return digests, places, answers


def _asked(digests: Mapping[str, bytes]) -> bytes:
    return hashlib.sha256(b"".join(name.encode() + b"\0" + digests[name] for name in sorted(digests))).digest()


def _is_refusal(answer: bytes) -> bool:
    try:
        decode(answer, (Refused,))
    except MessageError:
        return False
    return True
