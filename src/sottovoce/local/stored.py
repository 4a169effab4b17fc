"""What is kept in files: bytes that tell what they are and whether they are whole."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from sottovoce.exceptions import MessageError

_VERSION: Final = 1
_DIGEST: Final = 32
_MOST_HEADER: Final = 1 << 26


@dataclass(frozen=True)
class Sealed:
    """A format of bytes: a header of plain data, a body, and a checksum.

    8 bytes that name the format; the length of the header as 4 bytes, little-endian; the header, JSON with ``version``
    and other entries; the body; SHA-256 of everything before.
    """

    magic: bytes  # the 8 bytes
    what: str  # what the bytes are, for messages

    def to_bytes(self, header: Mapping[str, object], body: bytes) -> bytes:
        text = json.dumps({"version": _VERSION, **header}, sort_keys=True).encode()
        content = self.magic + len(text).to_bytes(4, "little") + text + body
        return content + hashlib.sha256(content).digest()

    @contextmanager
    def from_bytes(self, data: bytes) -> Iterator[tuple[Any, memoryview]]:
        """Yield header and body; what goes wrong while they are read is told as of these bytes.

        Raises MessageError if the bytes are of another format, damaged, of a later version, or not what their reader
        takes.
        """
        start = len(self.magic) + 4
        if not isinstance(data, bytes) or len(data) < start + _DIGEST or not data.startswith(self.magic):
            raise MessageError(f"these bytes are no {self.what}: they do not begin as such.")
        content = memoryview(data)[:-_DIGEST]
        if hashlib.sha256(content).digest() != data[-_DIGEST:]:
            raise MessageError(f"damaged {self.what}: the checksum is wrong. Take an intact copy.")
        length = int.from_bytes(content[len(self.magic) : start], "little")
        try:
            if length > _MOST_HEADER:
                raise ValueError("its header is too long")
            header = json.loads(bytes(content[start : start + length]))
            if header["version"] != _VERSION:
                raise ValueError(
                    f"it has version {header['version']!r}, this version of sottovoce reads {_VERSION}: "
                    "update sottovoce"
                )
            yield header, content[start + length :]
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise MessageError(f"the {self.what} cannot be read: {str(error).rstrip('.')}.") from None
