"""The text of a protocol, of whatever mechanism, and the id that follows from it.

The text is canonical JSON: keys sorted, no white space, ASCII only, floats in the shortest form that reads back to the
same double. The id is the first 8 bytes of the SHA-256 of that text. Only the canonical text is read, so a program in
another language may hash the text that it was given instead of writing its own.
"""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Collection
from functools import cached_property
from typing import Any, Final, Self

from sottovoce._plain_data import canonical_text
from sottovoce.exceptions import ParameterError

_FORMAT: Final = "sottovoce-local-protocol"
_VERSION: Final = 1
_HEAD: Final = {"format": _FORMAT, "version": _VERSION}
_MOST_CHARACTERS: Final = 20_000_000


class ProtocolText(ABC):
    """The text and the id of a protocol's class, which adds what its own entries are."""

    @abstractmethod
    def _entries(self) -> dict[str, Any]:
        """Return the entries of the text, but for the head that all have."""

    @classmethod
    @abstractmethod
    def _arguments(cls, entries: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of the constructor that entries of a text stand for, all of them and no other."""

    @cached_property
    def text(self) -> str:
        """The canonical JSON text."""
        return canonical_text(_HEAD | self._entries())

    @cached_property
    def id(self) -> bytes:
        """The first 8 bytes of the SHA-256 of the canonical text."""
        return hashlib.sha256(self.text.encode("ascii")).digest()[:8]

    def to_json(self) -> str:
        """Return the canonical JSON text."""
        return self.text

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read a protocol from its canonical text.

        Raises
        ------
        ParameterError
            If the text is not JSON, holds an unknown version or field, a value out of range, or is not canonical.
        """
        source = _decoded(text).strip()
        entries = read_document(source)
        protocol = cls(**cls._arguments({key: value for key, value in entries.items() if key not in _HEAD}))
        if protocol.text != source:
            raise ParameterError(
                "the protocol's text is not canonical (sorted keys, no white space, ASCII, shortest floats), so its id "
                "would be ambiguous. Pass on the text of to_json() unchanged."
            )
        return protocol


def read_document(text: str | bytes) -> dict[str, Any]:
    """Return what stands in the text of a protocol of this version, its entries unchecked.

    Raises ParameterError if the text is not JSON, no protocol, or of another version.
    """
    try:
        document = json.loads(_decoded(text))
    except ParameterError:
        raise
    except (ValueError, RecursionError) as error:
        raise ParameterError(f"the protocol's text is not JSON: {error}.") from None
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise ParameterError(f"the text is not a protocol: it has no entry 'format': '{_FORMAT}'.")
    if document.get("version") != _VERSION or isinstance(document["version"], bool):
        raise ParameterError(
            f"the protocol has version {document.get('version')!r}, this program reads version {_VERSION}. Update the "
            "older of the two."
        )
    return document


def check_entries(entries: Collection[str], wanted: Collection[str]) -> None:
    unknown, absent = sorted(set(entries) - set(wanted)), sorted(set(wanted) - set(entries))
    if unknown or absent:
        raise ParameterError(f"the protocol has unknown fields {unknown!r} and lacks {absent!r}.")


def _decoded(text: str | bytes) -> str:
    if isinstance(text, bytes):
        try:
            text = text.decode("ascii")
        except UnicodeDecodeError:
            raise ParameterError("the protocol's text holds other than ASCII characters.") from None
    if not isinstance(text, str) or len(text) > _MOST_CHARACTERS:
        raise ParameterError(f"the protocol must be a text of at most {_MOST_CHARACTERS} characters.")
    return text
