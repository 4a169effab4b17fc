"""Who the rows of a party are: its identifiers, whom it is aligned to, and which alignments it keeps on disk."""

import hashlib
import re
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from sottovoce._files import write_whole
from sottovoce.exceptions import DataError, ParameterError
from sottovoce.vertical.protocols.alignment.identifiers import UsableIdentifiers, usable_identifiers
from sottovoce.vertical.protocols.alignment.psi import announce, read_announcement

_MOST_KEPT: Final = 8  # alignments on disk; each has the identifiers of its people
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


def alignment_digest(people: Sequence[str]) -> str:
    """Return what an alignment to these people is known by: the SHA-256 of its announcement, in hexadecimal digits."""
    return hashlib.sha256(announce(people)).hexdigest()


class KeptAlignments:
    """The last few alignments of a party, in a folder that only its owner can read.

    One file for each, named by its digest, with the announcement; ``current`` names the last one. Files are written
    whole or not at all, and one that is damaged is as good as none.

    ``folder``: made where it is missing.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ParameterError(
                f"alignments {str(folder)!r}: no folder can be made there: {error.strerror}."
            ) from None

    @property
    def current(self) -> str | None:
        """Digest of the alignment that was kept last."""
        with suppress(OSError, UnicodeDecodeError):
            said = (self.folder / "current").read_text()
            if _DIGEST.fullmatch(said):
                return said
        return None

    def read(self, digest: str) -> list[str] | None:
        if not _DIGEST.fullmatch(digest):
            return None
        with suppress(OSError, DataError):
            announcement = self._file(digest).read_bytes()
            if hashlib.sha256(announcement).hexdigest() == digest:
                return read_announcement(announcement)
        return None

    def keep(self, people: Sequence[str]) -> None:
        """Keep an alignment as the current one; the oldest go."""
        announcement = announce(people)
        digest = hashlib.sha256(announcement).hexdigest()
        write_whole(self._file(digest), announcement.decode(), private=True)
        write_whole(self.folder / "current", digest, private=True)
        kept = sorted(self.folder.glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
        for path in kept[:-_MOST_KEPT]:
            if path != self._file(digest):
                path.unlink(missing_ok=True)

    def forget_current(self) -> None:
        """Keep what is there, and let none of it be the current one."""
        (self.folder / "current").unlink(missing_ok=True)

    def _file(self, digest: str) -> Path:
        return self.folder / f"{digest}.json"


class People:
    """Who the rows of one party are.

    ``name``: of the party, for messages.
    ``ids``: of all rows. Private.
    ``alignments``: folder of `KeptAlignments`.
    ``digest``: of the alignment that the party's table has the rows of; None for the whole table.
    """

    def __init__(self, name: str, ids: Any, alignments: str | Path | None = None) -> None:
        self._name, self._ids = name, ids
        self._kept = None if alignments is None else KeptAlignments(alignments)
        self.digest: str | None = None

    def __repr__(self) -> str:
        return f"People({self._name!r})"

    @cached_property
    def identifiers(self) -> UsableIdentifiers:
        """Those that the party can be aligned by, of all its rows."""
        return usable_identifiers(f"ids of party {self._name!r}", self._ids)

    def kept(self, digest: str) -> list[str] | None:
        return None if self._kept is None else self._kept.read(digest)

    def keep(self, people: Sequence[str] | None) -> None:
        """Keep an alignment, or that there is none, if there is a folder for it."""
        if self._kept is not None and people is not None:
            self._kept.keep(people)
        elif self._kept is not None:
            self._kept.forget_current()

    def last(self) -> tuple[list[str], npt.NDArray[np.int64]] | None:
        """Return the people of the last alignment that was kept, and their rows, where all of them are still here."""
        digest = None if self._kept is None else self._kept.current
        people = None if digest is None else self.kept(digest)
        rows = None if people is None else self.identifiers.rows_of(people)
        return None if people is None or rows is None else (people, rows)
