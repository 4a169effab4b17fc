"""What a party keeps of its releases, so that a new process gives the same answer to what was asked and paid for.

Charge, compute, store, send: what was computed for a charge is on disk before it leaves. So a request whose answer left
has this answer, whichever session asks; one that has none on disk has shown nothing, whatever was drawn for it. No key
of any noise is kept. The proof: ``docs/privacy/parties.md``.
"""

import hashlib
import io
import sqlite3
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np

from sottovoce._kept import PrivateFolder, private_database
from sottovoce._numerics import Vector
from sottovoce.exceptions import ParameterError, StorageError

MOST_KEPT: Final = 1_000  # releases; a run may go on also after its last farewell

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS releases (
    id INTEGER PRIMARY KEY,
    name TEXT UNIQUE NOT NULL,
    answer BLOB NOT NULL,
    model BLOB NOT NULL,
    intact INTEGER NOT NULL
);
"""
Model = tuple[str, Vector, float]
"""A name, coefficients and an intercept."""


@dataclass(frozen=True)
class Release:
    """An answer that is charged for, and the model that is kept when it may leave."""

    # that no release has which was computed for another request, for other rows, or at another cost; empty for one that
    # is not on record
    name: str
    answer: bytes
    model: Model | None  # what the answer does not tell is a release too

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.answer + self.packed).hexdigest()

    @property
    def packed(self) -> bytes:
        """The model as it is kept; empty for none."""
        if self.model is None:
            return b""
        name, coef, intercept = self.model
        buffer = io.BytesIO()
        np.savez(buffer, name=name, coef=coef, intercept=intercept)
        return buffer.getvalue()


def _unpacked(packed: bytes) -> Model | None:
    if not packed:
        return None
    with np.load(io.BytesIO(packed)) as held:  # which takes no pickles
        return str(held["name"]), np.asarray(held["coef"]), float(held["intercept"])


class Journal:
    """The memory of one party, on disk: give it to `Party` as ``journal=``.

    Parameters
    ----------
    folder : str or Path
        Of this party alone; made where it is missing. It has models and answers of runs that are under way: it stays
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
            self._file = private_database(self._folder.path / "releases.db", _TABLES, sure=True)
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
            raise StorageError("the journal is closed, and another process may go on with it.")

    def __reduce__(self) -> NoReturn:
        raise TypeError("a journal cannot be copied or pickled: two holders would answer the same request twice.")

    def claim(self, party: str) -> None:
        """Give it to a party, for good: two objects would answer the same request twice.

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

    def keep(self, release: Release) -> None:
        """Write a release down; it is on disk when this returns.

        Raises
        ------
        StorageError
            If it cannot be.
        """
        row = (release.name, release.answer, release.packed, _check(release.answer, release.packed))
        self._do("INSERT OR REPLACE INTO releases (name, answer, model, intact) VALUES (?, ?, ?, ?)", row)
        self._do("DELETE FROM releases WHERE id <= (SELECT MAX(id) FROM releases) - ?", (MOST_KEPT,))

    def find(self, name: str) -> Release | None:
        """Return the release of that name, or None.

        Raises
        ------
        StorageError
            If what is kept of it is damaged, or cannot be read.
        """
        row = self._do("SELECT answer, model, intact FROM releases WHERE name = ?", (name,))
        if row is None:
            return None
        if row[2] != _check(*row[:2]):
            raise StorageError(f"what is kept of the release {name} was damaged.")
        return Release(name, bytes(row[0]), _unpacked(row[1]))

    def _do(self, statement: str, given: tuple[object, ...]) -> Any:
        try:
            return self._file.execute(statement, given).fetchone()
        except (OSError, sqlite3.Error) as error:
            raise StorageError(f"the journal {self._folder.path} cannot be used: {error}.") from None

    def close(self) -> None:
        """Let another process have it; what is kept stays, and the party that has it answers nothing more."""
        if self._folder.is_held:
            self._file.close()
        self._folder.close()


def _check(answer: bytes, packed: bytes) -> int:
    return zlib.crc32(packed, zlib.crc32(answer))
