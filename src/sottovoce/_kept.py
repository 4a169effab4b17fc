"""Private folders and the databases in them: what a run leaves on disk so that it can be taken up again.

A folder is for its owner's eyes (0700, its files 0600) and for one process at a time.
"""

import hashlib
import hmac
import os
import secrets
import sqlite3
import weakref
from pathlib import Path
from typing import Final, NoReturn

from sottovoce._files import sync_folder, whole_file
from sottovoce.exceptions import ParameterError, StorageError

_KEY_BYTES: Final = 32


class StoredKey:
    """A secret of 256 bits that outlives the process, for names that must be drawn again as they were drawn.

    Keys for different purposes are derived from it (HMAC-SHA256). No noise follows from it.

    ``secret``: 32 bytes of the operating system.
    """

    def __init__(self, secret: bytes) -> None:
        if not isinstance(secret, bytes) or len(secret) != _KEY_BYTES:
            raise ParameterError(f"a stored key is {_KEY_BYTES} bytes of the operating system's generator.")
        self._secret = secret

    def within(self, *context: bytes) -> "StoredKey":
        """Return the key of a purpose; another one for every other context."""
        parts = b"".join(len(part).to_bytes(8, "little") + part for part in context)
        return StoredKey(hmac.digest(self._secret, b"within" + parts, hashlib.sha256))

    def name(self, n_bytes: int) -> bytes:
        """Return a name that nobody can guess, at most 32 bytes of it; it tells nothing about the key."""
        return hmac.digest(self._secret, b"name", hashlib.sha256)[:n_bytes]

    def __repr__(self) -> str:
        return "StoredKey(...)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a stored key cannot be copied or pickled: two holders would give two things one name.")


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
        return self._lock >= 0 and self._process == os.getpid()

    def close(self) -> None:
        """Let another process have it; in a child of a fork that is the parent's to do."""
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)  # of one's own handle: the parent's stays

    def __del__(self) -> None:
        if hasattr(self, "_lock"):
            self.close()

    def key(self) -> StoredKey:
        """Return the secret key of this folder, drawn from the operating system once; it is on disk before it is used.

        Raises StorageError if what is there is no key: what was named by it cannot be found again.
        """
        path = self.path / "key"
        if not path.exists():
            with whole_file(path, private=True) as file:
                file.write(secrets.token_bytes(_KEY_BYTES))
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


def private_database(path: Path, tables: str, *, sure: bool = False) -> sqlite3.Connection:
    """Open a SQLite file for its owner alone, made where it is missing; each statement is a transaction of its own.

    Raises sqlite3.Error if it is something else.

    ``tables``: statements that make what is missing.
    ``sure``: what was written survives a power cut, and not the end of the process alone.
    """
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    file = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=10.0)
    file.execute("PRAGMA journal_mode=WAL")
    file.execute(f"PRAGMA synchronous={'FULL' if sure else 'NORMAL'}")
    file.executescript(tables)
    return file


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
