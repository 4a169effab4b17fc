"""The entries of a ledger: plain data in one canonical text, each with the hash of the one before it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sottovoce._plain_data import canonical_text, digest
from sottovoce.exceptions import LedgerIntegrityError

FIRST: Final = "0" * 64  # "the hash before the first entry"
_FIELDS: Final = {"seq": int, "previous": str, "kind": str, "at": str, "who": str, "code": str, "body": dict}


@dataclass(frozen=True)
class Entry:
    """One line of a ledger."""

    seq: int  # 0, 1, 2, ... without a gap
    previous: str  # hash of entry ``seq - 1``
    kind: str  # "ledger", "create", "reserve", "commit" or "cancel"
    at: str  # when, in UTC
    who: str
    code: str  # version of the code that wrote it
    body: Mapping[str, Any]  # what it says; see `sottovoce.ledger.book.Book`

    @property
    def text(self) -> str:
        return canonical_text({name: getattr(self, name) for name in _FIELDS})

    @property
    def hash(self) -> str:
        return digest({name: getattr(self, name) for name in _FIELDS})

    @classmethod
    def from_text(cls, text: object, *, place: str) -> "Entry":
        """Read an entry; anything but its canonical text is refused.

        Raises
        ------
        LedgerIntegrityError
            The message starts with ``place``.
        """
        try:
            data = json.loads(text) if isinstance(text, str) else None
        except (ValueError, RecursionError):
            data = None
        if not isinstance(data, dict) or set(data) != set(_FIELDS):
            raise LedgerIntegrityError(f"{place} is not an entry of a ledger.")
        for name, kind in _FIELDS.items():
            if not isinstance(data[name], kind) or isinstance(data[name], bool):
                raise LedgerIntegrityError(f"{place}: {name!r} is no {kind.__name__}.")
        entry = cls(**data)
        try:
            same = entry.text == text
        except ValueError:  # NaN or infinity, which JSON has not
            same = False
        if not same:
            raise LedgerIntegrityError(f"{place} is not in its canonical form.")
        return entry
