"""Who the rows of a party are: its identifiers, whom it is aligned to, and what it keeps of that on disk."""

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sottovoce._files import write_whole
from sottovoce.exceptions import DataError, ParameterError
from sottovoce.vertical.protocols.alignment.identifiers import UsableIdentifiers, usable_identifiers
from sottovoce.vertical.protocols.alignment.psi import announce, read_announcement


def alignment_digest(people: Sequence[str]) -> str:
    """Return what an alignment to these people is known by: the SHA-256 of its announcement, in hexadecimal digits."""
    return hashlib.sha256(announce(people)).hexdigest()


class People:
    """Who the rows of one party are.

    ``name``: of the party, for messages.
    ``ids``: of all rows. Private.
    ``alignments``: folder that only the owner can read, made where it is missing; a file in it has the people of the
    last alignment, behind their digest. It is written whole or not at all, and a damaged one is as good as none.
    ``digest``: of the alignment that the party's table has the rows of; None for the whole table.
    """

    def __init__(self, name: str, ids: Any, alignments: str | Path | None = None) -> None:
        self._name, self._ids = name, ids
        self._file = None if alignments is None else Path(alignments) / "people"
        try:
            if self._file is not None:
                self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ParameterError(
                f"alignments {str(alignments)!r}: no folder can be made there: {error.strerror}."
            ) from None
        self.digest: str | None = None

    def __repr__(self) -> str:
        return f"People({self._name!r})"

    @cached_property
    def identifiers(self) -> UsableIdentifiers:
        """Those that the party can be aligned by, of all its rows."""
        return usable_identifiers(f"ids of party {self._name!r}", self._ids)

    def keep(self, people: Sequence[str] | None) -> None:
        """Keep an alignment, or that there is none, if there is a folder for it."""
        if self._file is not None and people is not None:
            write_whole(self._file, f"{alignment_digest(people)}\n{announce(people).decode()}", private=True)
        elif self._file is not None:
            self._file.unlink(missing_ok=True)

    def last(self) -> tuple[list[str], npt.NDArray[np.int64]] | None:
        """Return the people of the alignment that was kept, and their rows, where all of them are still here."""
        with suppress(OSError, DataError):
            digest, _, announcement = (b"" if self._file is None else self._file.read_bytes()).partition(b"\n")
            if hashlib.sha256(announcement).hexdigest().encode() == digest:
                people = read_announcement(announcement)
                rows = self.identifiers.rows_of(people)
                return None if rows is None else (people, rows)
        return None
