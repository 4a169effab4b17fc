"""What a party keeps of its open sessions, so that a new process goes on where they are and answers nothing twice.

Charge, compute, store, send: what a session has reached is on disk before the answer of its step leaves. So a step
whose answer left has this answer for ever; one that has none on disk has shown nothing, whatever was drawn for it. No
key of any noise is kept. The proof: ``docs/privacy/parties.md``.
"""

import sqlite3
import zlib
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Final, NoReturn

from sottovoce._kept import PrivateFolder, private_database
from sottovoce.exceptions import ParameterError, StorageError

MOST_ENDED: Final = 10_000  # names of sessions that are over, kept so that nothing of them is answered again

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS sessions (
    name BLOB PRIMARY KEY,
    used INTEGER NOT NULL,
    about BLOB NOT NULL,
    intact INTEGER NOT NULL,
    step INTEGER NOT NULL,
    history BLOB NOT NULL,
    asked BLOB NOT NULL,
    answer BLOB NOT NULL,
    state BLOB
);
CREATE TABLE IF NOT EXISTS ended (id INTEGER PRIMARY KEY, name BLOB UNIQUE NOT NULL);
"""


@dataclass(frozen=True)
class Reached:
    """Where a session is: after the step that was answered last."""

    step: int
    history: bytes  # digest of all requests so far
    asked: bytes  # digest of the last one
    answer: bytes
    state: bytes | None  # what the session holds; None where that ends with the process

    @property
    def check(self) -> int:
        check = zlib.crc32(f"{self.step} {self.state is None}".encode())
        for part in (self.history, self.asked, self.answer, self.state or b""):
            check = zlib.crc32(part, check)
        return check


class Journal:
    """The memory of one party, on disk: give it to `Party` as ``journal=``.

    Parameters
    ----------
    folder : str or Path
        Of this party alone; made where it is missing. It has answers and exact sums over the party's rows: it stays
        with the party, and nobody else reads it.

    Raises
    ------
    StorageError
        If another process has the folder, or it cannot be used.
    """

    def __init__(self, folder: str | Path) -> None:
        self._claimed: str | None = None
        self._folder = PrivateFolder(folder, "the journal")
        try:
            self._file = private_database(self._folder.path / "sessions.db", _TABLES, sure=True)
            self._file.execute("DELETE FROM ended WHERE id <= (SELECT MAX(id) FROM ended) - ?", (MOST_ENDED,))
        except (OSError, sqlite3.Error) as error:
            self._folder.close()
            raise StorageError(f"the journal {folder} cannot be used: {error}.") from None

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
    def names(self) -> list[bytes]:
        """Sessions that are kept, the one that was idle for longest first."""
        return [name for (name,) in self._file.execute("SELECT name FROM sessions ORDER BY used")]

    def ended(self) -> list[bytes]:
        return [name for (name,) in self._file.execute("SELECT name FROM ended ORDER BY id")]

    def keep(self, name: bytes, about: bytes, reached: Reached) -> None:
        """Write down where a session about a table is, in place of where it was; it is on disk when this returns."""
        self._file.execute(
            "INSERT OR REPLACE INTO sessions SELECT ?, COALESCE(MAX(used), 0) + 1, ?, ?, ?, ?, ?, ?, ? FROM sessions",
            (name, about, reached.check, *astuple(reached)),
        )

    def find(self, name: bytes, about: bytes) -> Reached | None:
        """Return where a session is, or None.

        Raises
        ------
        StorageError
            If it is about another table, or what is kept of it is damaged.
        """
        row = self._file.execute("SELECT about, intact, * FROM sessions WHERE name = ?", (name,)).fetchone()
        if row is None:
            return None
        if row[0] != about:
            raise StorageError(f"session {name.hex()} was about another table, or the table in another order.")
        reached = Reached(*row[6:])
        if row[1] != reached.check:
            raise StorageError(f"what is kept of session {name.hex()} was damaged.")
        return reached

    def end(self, name: bytes) -> None:
        """Forget a session, but not that it was."""
        if self._folder.is_held:
            self._file.execute("INSERT OR IGNORE INTO ended (name) VALUES (?)", (name,))
            self._file.execute("DELETE FROM sessions WHERE name = ?", (name,))

    def close(self) -> None:
        """Let another process have it; what is kept stays, and the party that has it answers nothing more."""
        if self._folder.is_held:
            self._file.close()
        self._folder.close()
