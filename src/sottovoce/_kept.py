"""Private folders and the files of records in them: what a run leaves on disk so that it can be taken up again.

A folder is for its owner's eyes (0700, its files 0600) and for one process at a time. A file of records is only added
to. A process that is killed in the middle of it leaves whole records and at most one that is cut short: it is dropped.
"""

import os
import secrets
import struct
import weakref
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from sottovoce.exceptions import StorageError
from sottovoce.randomness import StoredKey

__all__ = ["PrivateFolder", "RecordFile", "sync_folder"]

_HEAD: Final = struct.Struct("<4sBQI")  # magic, kind, length, CRC-32 of what follows
_MAGIC: Final = b"SVK1"
_KEY_BYTES: Final = 32


class PrivateFolder:
    """A folder that one process holds at a time.

    Raises StorageError if another process holds it, or it cannot be made.

    ``path``: made where it is missing, with the permissions 0700; those of one that is there are narrowed.
    ``what``: what it is, for messages.
    """

    def __init__(self, path: str | Path, what: str) -> None:
        self.path = Path(path)
        self._process = os.getpid()
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.path.chmod(0o700)
            self._lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise StorageError(f"{what} {self.path} cannot be used: {error.strerror}.") from None
        if not _lock(self._lock):
            self.close()
            raise StorageError(
                f"{what} {self.path} is held by another process, and two could not know what the other does. Wait "
                "until that one has ended, or end it."
            )
        _LIVE.add(self)

    @property
    def is_held(self) -> bool:
        """False in a child of a fork, and after `close`: it must leave the folder alone."""
        return self._lock >= 0 and self.is_of_this_process

    @property
    def is_of_this_process(self) -> bool:
        """False in a child of a fork."""
        return self._process == os.getpid()

    def close(self) -> None:
        """Let another process have it; in a child of a fork that is the parent's to do."""
        if self._lock >= 0:
            os.close(self._lock)  # of one's own handle: the parent's stays
            self._lock = -1

    def __del__(self) -> None:
        if hasattr(self, "_lock"):
            self.close()

    def key(self) -> StoredKey:
        """Return the secret key of this folder, drawn from the operating system once; it is on disk before it is used.

        Raises StorageError if what is there is no key: what was drawn under it cannot be drawn again.
        """
        path = self.path / "key"
        if not path.exists():
            new = self.path / "key.new"
            with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(secrets.token_bytes(_KEY_BYTES))
                file.flush()
                os.fsync(file.fileno())
            new.replace(path)
            self.sync()
        secret = path.read_bytes()
        if len(secret) != _KEY_BYTES:
            raise StorageError(
                f"{path} is not a key of {_KEY_BYTES} bytes. Bring back the one that was there; or remove the folder, "
                "and begin the runs that it is about again."
            )
        return StoredKey(secret)

    def sync(self) -> None:
        """Bring the names of its files to the disk."""
        sync_folder(self.path)


def sync_folder(path: Path) -> None:
    if os.name != "posix":  # a folder cannot be opened there
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class RecordFile:
    """A file of records, each a kind and bytes, that is only added to.

    ``path``: made where it is missing, with the permissions 0600.
    ``size``: bytes of whole records.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b", buffering=0)
        self.size = 0
        for _ in self._heads():
            pass
        self._file.truncate(self.size)  # a record that was cut short

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """Return all records, the oldest first.

        Raises StorageError if one was changed.
        """
        at = 0
        while at < self.size:
            kind, body, at = self._read(at)
            yield kind, body

    def read(self, at: int) -> tuple[int, bytes]:
        """Return the record at a place that `append` returned."""
        kind, body, _ = self._read(at)
        return kind, body

    def places(self) -> list[tuple[int, int]]:
        """Return the kind of each record, and where it begins."""
        return [(kind, at) for kind, at, _ in self._heads()]

    def append(self, kind: int, parts: Sequence[bytes]) -> int:
        """Add a record and return its place; one that cannot be written whole is not there."""
        length, check = 0, 0
        for part in parts:
            length, check = length + len(part), zlib.crc32(part, check)
        at = self.size
        self._file.seek(at)
        try:
            for part in (_HEAD.pack(_MAGIC, kind, length, check), *parts):
                view = memoryview(part)
                while view:
                    view = view[self._file.write(view) :]
        except BaseException:
            self._file.truncate(at)
            raise
        self.size = at + _HEAD.size + length
        return at

    def empty(self) -> None:
        self._file.truncate(0)
        self.size = 0

    def sync(self) -> None:
        """Bring it to the disk: what is there now survives a power cut."""
        os.fdatasync(self._file.fileno()) if hasattr(os, "fdatasync") else os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()

    def remove(self) -> None:
        self.close()
        self.path.unlink(missing_ok=True)

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self.close()

    def _heads(self) -> Iterator[tuple[int, int, int]]:
        """Return kind, place and length of the whole records, and count their bytes."""
        self._file.seek(0, os.SEEK_END)
        end, at = self._file.tell(), 0
        while at + _HEAD.size <= end:
            self._file.seek(at)
            magic, kind, length, _ = _HEAD.unpack(self._file.read(_HEAD.size))
            if magic != _MAGIC or at + _HEAD.size + length > end:
                break
            yield kind, at, length
            at += _HEAD.size + length
        self.size = at

    def _read(self, at: int) -> tuple[int, bytes, int]:
        self._file.seek(at)
        magic, kind, length, check = _HEAD.unpack(self._file.read(_HEAD.size))
        body = bytearray(length)
        view = memoryview(body)
        while view and (n := self._file.readinto(view)):
            view = view[n:]
        if magic != _MAGIC or view or zlib.crc32(body) != check:
            raise StorageError(f"{self.path} was damaged after byte {at}: what it is about cannot be taken up again.")
        return kind, bytes(body), at + _HEAD.size + length


_LIVE: Final[weakref.WeakSet[PrivateFolder]] = weakref.WeakSet()


def _close_all() -> None:
    for folder in list(_LIVE):
        folder.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_all)  # or a child that lives on would hold what its parent has let go


def _lock(handle: int) -> bool:
    """Lock an open file for this process; tell whether it could be."""
    try:
        import fcntl
    except ImportError:  # no such thing here: the folder's owner sees to it
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
