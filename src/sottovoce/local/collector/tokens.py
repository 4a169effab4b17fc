"""Secrets: files with a key, and device tokens: texts that entitle to one report each, checked without a list."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from pathlib import Path
from typing import Final

from sottovoce._files import write_new
from sottovoce.exceptions import ParameterError

SECRET_BYTES: Final = 32
_ISSUED: Final = re.compile(r"[A-Za-z0-9_-]{48}", re.ASCII)
_HALF: Final = 16
_MARK_BYTES: Final = 8
_CHECK_BYTES: Final = 4


def make_secret_file(path: Path, name: str) -> None:
    """Write a new secret to a file; ``name`` says in errors what the file is.

    Raises ParameterError if the file exists or cannot be made.
    """
    try:
        write_new(path, f"{secrets.token_hex(SECRET_BYTES)}\n".encode())
    except OSError as error:
        raise ParameterError(f"{name} {path}: cannot make the file: {error.strerror}.") from None


def read_secret_file(path: Path, name: str) -> bytes:
    """Return the secret of a file.

    Raises ParameterError if the file cannot be read, or holds something else.
    """
    try:
        key = bytes.fromhex(path.read_text(encoding="ascii").strip())
    except OSError as error:
        raise ParameterError(f"{name} {path}: cannot read the file: {error.strerror}.") from None
    except ValueError:  # the text is not repeated: it may be part of a secret
        key = b""
    if len(key) != SECRET_BYTES:
        raise ParameterError(f"{name} {path}: this is not a key, which is {2 * SECRET_BYTES} hexadecimal digits.")
    return key


def token_hash(token: str) -> bytes:
    """Return the SHA-256 of a token, all that is stored of it."""
    return hashlib.sha256(token.encode("ascii")).digest()


class TokenKey:
    """The secret with which tokens of one protocol are issued and recognised.

    A token is 16 random bytes, 16 bytes of their HMAC-SHA256 under the key and the protocol's identifier, and 4 bytes
    that anybody can check with the public `mark`: 48 characters. Nobody without the key can make one, and nobody needs
    to keep a list. The check lets a page notice a link that is damaged, or of another survey, without telling anybody
    which link it was opened by; it is no proof that the token was issued.

    ``key``: 32 secret bytes.
    ``protocol_id``: the tokens of one protocol are void for every other.
    """

    def __init__(self, key: bytes, protocol_id: bytes) -> None:
        if len(key) != SECRET_BYTES:
            raise ParameterError(f"key must be {SECRET_BYTES} bytes; got {len(key)}.")
        self._key = key
        self._protocol_id = protocol_id

    @classmethod
    def from_file(cls, path: Path, protocol_id: bytes) -> TokenKey:
        """Read the key of a file with 64 hexadecimal digits.

        Raises ParameterError if the file cannot be read, or holds something else.
        """
        return cls(read_secret_file(path, "token key"), protocol_id)

    @property
    def mark(self) -> bytes:
        """Public: what tokens of this key and protocol are checked with; it says nothing of the key or of a token."""
        return hmac.digest(self._key, b"sottovoce invitations\0" + self._protocol_id, "sha256")[:_MARK_BYTES]

    def issue(self) -> str:
        serial = secrets.token_bytes(_HALF)
        proved = serial + self._code(serial)
        return base64.urlsafe_b64encode(proved + self._check(proved)).decode("ascii")

    def knows(self, token: str) -> bool:
        if _ISSUED.fullmatch(token) is None:
            return False
        content = base64.urlsafe_b64decode(token)  # 36 bytes: one text a token, one report a text
        proved, check = content[: 2 * _HALF], content[2 * _HALF :]
        return hmac.compare_digest(proved[_HALF:], self._code(proved[:_HALF])) and check == self._check(proved)

    def _code(self, serial: bytes) -> bytes:
        return hmac.digest(self._key, b"sottovoce device token\0" + self._protocol_id + serial, "sha256")[:_HALF]

    def _check(self, proved: bytes) -> bytes:
        return hashlib.sha256(b"sottovoce invitation\0" + self.mark + proved).digest()[:_CHECK_BYTES]
