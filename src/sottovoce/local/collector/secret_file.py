"""Files with one secret: 64 hexadecimal digits that only their owner can read."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Final

from sottovoce.exceptions import ParameterError

__all__ = ["SECRET_BYTES", "make_secret_file", "read_secret_file"]

SECRET_BYTES: Final = 32


def make_secret_file(path: Path, name: str) -> None:
    """Write a new secret to a file; ``name`` says in errors what the file is.

    Raises ParameterError if the file exists or cannot be made.
    """
    try:
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        try:
            with os.fdopen(handle, "w") as file:
                file.write(secrets.token_hex(SECRET_BYTES) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except BaseException:  # a part of a key would pass for one that was damaged later
            path.unlink()
            raise
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
