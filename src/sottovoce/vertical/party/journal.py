"""What a party keeps of its open sessions, so that it can go on with them in a new process and releases nothing twice.

A folder for each party: a secret key, which all noise is derived from, and for each open session a file of the requests
that came, each with what its answer was. A new process runs the requests again: with the same table, requests and key
they have the same answers, byte for byte, and it goes on from there. Noise depends on the key, the table and every
request of the session so far, so that nothing else is ever drawn with the same noise.

The order at every step, and what it is good for: the request is on disk, the charge is made, the answer is computed,
what it was is on disk, the answer leaves. An answer that left is therefore on record, and its step has no other one;
one that is not on record never left. The proof: ``docs/privacy/parties.md``.
"""

import hashlib
import os
import struct
from collections import OrderedDict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from sottovoce._files import whole_file
from sottovoce._kept import PrivateFolder, RecordFile, sync_folder
from sottovoce._validation import truth, whole_number
from sottovoce.exceptions import ParameterError, StorageError
from sottovoce.randomness import StoredKey
from sottovoce.vertical.wire import SESSION_BYTES

MOST_ENDED: Final = 10_000  # names of sessions that are over, kept so that nothing of them is answered again

_BEGUN: Final = 1  # the table that the session is about
_ASKED: Final = 2  # step, history, and the request where it is kept
_ANSWERED: Final = 3  # whether a handler ran, digest, and the answer where none did
_TOO_LONG: Final = 4
_STEP: Final = struct.Struct("<Q32s")
_ANSWER: Final = struct.Struct("<B32s")
_MOST_FILES: Final = 64  # of a party that is asked again
_MOST_ANSWER: Final = 65_536  # bytes of an answer that is kept as it is


@dataclass(frozen=True)
class Kept:
    """One step that is on disk."""

    step: int
    history: bytes  # digest of all requests up to this one
    body: bytes  # the request; empty where it is sent again
    ran: bool  # whether answering it could change the session; else it need not be run again
    digest: bytes  # of the answer
    answer: bytes | None  # itself, where nothing ran


class Journal:
    """The memory of one party, on disk: give it to `Party` as ``journal=``.

    Parameters
    ----------
    folder : str or Path
        Of this party alone; made where it is missing. Whoever reads it can subtract the party's noise, so it stays
        with the party, is read by nobody else, and is neither copied nor brought back from a copy.
    asked_again : bool
        For the party that lives with the coordinator, which asks it everything again when a run is resumed: what is
        kept is then what requests and answers were, not themselves.
    most_bytes : int
        Of what is kept of all sessions. If they have more, those that are not open end, the one that was idle for
        longest first; an open one that goes beyond it goes on, and cannot be taken up again.

    Raises
    ------
    StorageError
        If another process has the folder, or it cannot be used.
    """

    def __init__(self, folder: str | Path, *, asked_again: bool = False, most_bytes: int = 2**32) -> None:
        self.asked_again = truth("asked_again", asked_again)
        self.most_bytes = whole_number("most_bytes", most_bytes, at_least=1)
        self._claimed: str | None = None
        self._folder = PrivateFolder(folder, "the journal")
        self._open: dict[bytes, SessionLog] = {}
        try:
            self.key: StoredKey = self._folder.key()
            (self._folder.path / "sessions").mkdir(mode=0o700, exist_ok=True)
            files = sorted((self._folder.path / "sessions").iterdir(), key=lambda path: path.stat().st_mtime_ns)
            self._trim()
            # the one that was idle for longest first
            self._sizes: OrderedDict[bytes, int] = OrderedDict(
                (bytes.fromhex(path.name), path.stat().st_size) for path in files
            )
        except (OSError, ValueError) as error:
            self._folder.close()
            raise StorageError(f"the journal {folder} cannot be used: {error}.") from None
        except BaseException:
            self._folder.close()
            raise

    @property
    def is_of_this_process(self) -> bool:
        """False in a child of a fork, whose sessions are others and are not kept."""
        return self._folder.is_of_this_process

    def check_open(self) -> None:
        """Refuse to go on with a journal that was closed: another process may have it.

        Raises
        ------
        StorageError
        """
        if not self._folder.is_held:
            raise StorageError("the journal is closed, and another process may go on with its sessions.")

    def __reduce__(self) -> NoReturn:
        raise TypeError("a journal cannot be copied or pickled: two holders would answer the same step twice.")

    def claim(self, party: str) -> None:
        """Give it to a party, for good: two objects would answer the same step twice.

        Raises
        ------
        ParameterError
            If it has one.
        """
        if self._claimed is not None:
            raise ParameterError(
                f"journal belongs to a party object named {self._claimed!r} already: open another Journal for "
                f"{party!r}, in a folder of its own, or close this one and open it anew."
            )
        self._claimed = party

    @property
    def names(self) -> Collection[bytes]:
        """Sessions that are kept, the one that was idle for longest first."""
        return self._sizes.keys()

    def ended(self) -> list[bytes]:
        raw = self._ended.read_bytes() if self._ended.exists() else b""
        return [raw[at : at + SESSION_BYTES] for at in range(0, len(raw), SESSION_BYTES)]

    def begin(self, name: bytes, table: bytes) -> "SessionLog":
        while self.asked_again and len(self._sizes) >= _MOST_FILES:
            self._remove(next(iter(self._sizes)))
        log = self._open[name] = SessionLog(self, name, RecordFile(self._path(name)))
        log.write(_BEGUN, [self._mark(table)])
        return log

    def find(self, name: bytes, table: bytes) -> "SessionLog | None":
        """Return what is kept of a session, or None.

        Raises
        ------
        StorageError
            If it was about another table, was too long to be kept, or is damaged.
        """
        if name not in self._sizes:
            return None
        file = RecordFile(self._path(name))
        first = next(iter(file), None)
        if first is None:  # killed before anything was asked
            file.remove()
            del self._sizes[name]
            return None
        log = SessionLog(self, name, file)
        try:
            if first[0] != _BEGUN or first[1] != self._mark(table):
                raise StorageError(
                    f"session {name.hex()} was too long to be kept, most_bytes={self.most_bytes:,} of all sessions."
                    if first[0] == _TOO_LONG
                    else f"session {name.hex()} was about another table, or the table in another order."
                )
            log.read()
        except BaseException:
            file.close()
            raise
        self._open[name] = log
        return log

    def end(self, name: bytes) -> None:
        """Forget a session, but not that it was; one that is asked again is kept."""
        if self.asked_again or not self._folder.is_held:
            return
        with os.fdopen(os.open(self._ended, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as file:
            file.truncate(file.tell() // SESSION_BYTES * SESSION_BYTES)  # a name that a full disk cut short
            file.write(name)
        self._remove(name)

    def close(self) -> None:
        """Let another process have it; what is kept stays, and the party that has it answers nothing more."""
        self._folder.close()
        for log in list(self._open.values()):
            log.close()

    @property
    def _ended(self) -> Path:
        return self._folder.path / "ended"

    def _trim(self) -> None:
        """Drop a name that was cut short, and the oldest where there are too many."""
        raw = self._ended.read_bytes() if self._ended.exists() else b""
        whole = raw[: len(raw) - len(raw) % SESSION_BYTES]
        if len(whole) > 2 * MOST_ENDED * SESSION_BYTES:
            whole = whole[-MOST_ENDED * SESSION_BYTES :]
        if whole != raw:
            with whole_file(self._ended) as file:
                file.write(whole)

    def _grown(self, name: bytes, size: int) -> bool:
        """Count what a file has; tell whether all of it may be kept."""
        self._sizes[name] = size
        self._sizes.move_to_end(name)
        for other in [other for other in self._sizes if other not in self._open]:
            if sum(self._sizes.values()) <= self.most_bytes:
                break
            self.end(other)  # of runs that nobody took up again
            self._remove(other)
        return sum(self._sizes.values()) <= self.most_bytes

    def _mark(self, table: bytes) -> bytes:
        return self.key.within(b"table", table).name(32)

    def _path(self, name: bytes) -> Path:
        return self._folder.path / "sessions" / name.hex()

    def _remove(self, name: bytes) -> None:
        self._path(name).unlink(missing_ok=True)
        self._sizes.pop(name, None)


class SessionLog:
    """What is kept of one session.

    ``kept``: what a process before this one answered; only of a session that was found.
    ``pending``: history of a request that was taken and not answered; empty if there is none.
    """

    def __init__(self, journal: Journal, name: bytes, file: RecordFile) -> None:
        self._journal, self._name, self._file = journal, name, file
        self.kept: list[tuple[int, int]] = []  # places of the request and of its answer
        self.pending = b""
        self._is_whole = True
        self._is_named = False  # on the disk

    def read(self) -> None:
        """Look where the steps are.

        Raises `StorageError` if they do not follow each other.
        """
        asked: int | None = None
        for kind, at in self._file.places()[1:]:
            body = self._file.read(at)[1]
            if kind == _ASKED and _STEP.unpack_from(body)[0] == len(self.kept) + 1:
                asked, self.pending = at, _STEP.unpack_from(body)[1]
            elif kind == _ANSWERED and asked is not None:
                self.kept.append((asked, at))
                asked, self.pending = None, b""
            else:
                raise StorageError(f"what is kept of session {self._name.hex()} does not add up.")

    def steps(self) -> Iterator[Kept]:
        for asked, answered in self.kept:
            request, answer = self._file.read(asked)[1], self._file.read(answered)[1]
            step, history = _STEP.unpack_from(request)
            ran, digest = _ANSWER.unpack_from(answer)
            rest = answer[_ANSWER.size :]
            whole = rest if hashlib.sha256(rest).digest() == digest else None
            yield Kept(step, history, request[_STEP.size :], bool(ran), digest, whole)

    def asked(self, step: int, history: bytes, body: bytes) -> None:
        """Write a request down, before anything is done about it."""
        if history != self.pending:
            self.write(_ASKED, [_STEP.pack(step, history), b"" if self._journal.asked_again else body])
            self.pending = history

    def answered(self, answer: bytes, *, ran: bool) -> None:
        """Write down what a request was answered with, before the answer leaves."""
        kept = b"" if ran or len(answer) > _MOST_ANSWER else answer
        self.write(_ANSWERED, [_ANSWER.pack(ran, hashlib.sha256(answer).digest()), kept])
        self.pending = b""

    def sync(self) -> None:
        self._file.sync()
        if not self._is_named:
            sync_folder(self._file.path.parent)
            self._is_named = True

    def close(self) -> None:
        self._file.close()
        self._journal._open.pop(self._name, None)

    def write(self, kind: int, parts: list[bytes]) -> None:
        """Add a record; a session that becomes too long to be kept is from now on not kept."""
        if self._is_whole:
            self._file.append(kind, parts)
            self._is_whole = self._journal._grown(self._name, self._file.size)
            if not self._is_whole:
                self._file.empty()
                self._file.append(_TOO_LONG, [])
                self._journal._grown(self._name, self._file.size)
