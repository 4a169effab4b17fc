"""The text of a protocol, and the id that follows from it.

The text is canonical JSON: keys sorted, no white space, ASCII only, floats in the shortest form that reads back to the
same double. The id is the first 8 bytes of the SHA-256 of that text. Only the canonical text is read, so a program in
another language may hash the text that it was given instead of writing its own.
"""

import hashlib
import json
from collections.abc import Collection, Mapping
from typing import Any, Final

from sottovoce._plain_data import canonical_text
from sottovoce.exceptions import ParameterError

_FORMAT: Final = "sottovoce-local-protocol"
_VERSION: Final = 1
_HEAD: Final = {"format": _FORMAT, "version": _VERSION}
_MOST_CHARACTERS: Final = 20_000_000


def text_of(entries: Mapping[str, Any]) -> str:
    """Return the canonical JSON text of a protocol with these entries."""
    return canonical_text({**_HEAD, **entries})


def id_of(text: str) -> bytes:
    """Return the first 8 bytes of the SHA-256 of the canonical text."""
    return hashlib.sha256(text.encode("ascii")).digest()[:8]


def entries_of(text: str) -> dict[str, Any]:
    """Return the entries in the text of a protocol of this version, unchecked.

    Raises ParameterError if the text is not JSON, no protocol, or of another version.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ParameterError(f"the protocol's text is not JSON: {error}.") from None
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise ParameterError(f"the text is not a protocol: it has no entry 'format': '{_FORMAT}'.")
    if document.get("version") != _VERSION or isinstance(document["version"], bool):
        raise ParameterError(
            f"the protocol has version {document.get('version')!r}, this program reads version {_VERSION}. Update the "
            "older of the two."
        )
    return {key: value for key, value in document.items() if key not in _HEAD}


def check_entries(entries: Collection[str], wanted: Collection[str]) -> None:
    unknown, absent = sorted(set(entries) - set(wanted)), sorted(set(wanted) - set(entries))
    if unknown or absent:
        raise ParameterError(f"the protocol has unknown fields {unknown!r} and lacks {absent!r}.")


def decoded(text: str | bytes) -> str:
    if isinstance(text, bytes):
        try:
            text = text.decode("ascii")
        except UnicodeDecodeError:
            raise ParameterError("the protocol's text holds other than ASCII characters.") from None
    if not isinstance(text, str) or len(text) > _MOST_CHARACTERS:
        raise ParameterError(f"the protocol must be a text of at most {_MOST_CHARACTERS} characters.")
    return text
