r"""What a request travels in: which session it belongs to, and which step of it it is.

====================  ============================================================================================
``b"SVF2"``           the format and its version
16 bytes              the session: random bytes that the coordinator drew when it began
u64                   the step: 1 for the first request of the session, and one more each time; little endian
the request           as `sottovoce.vertical.wire` writes it
====================  ============================================================================================

A carrier that does not know whether a request arrived sends the same bytes again: the party answers the same step of
the same session with the bytes that it answered with before (`sottovoce.vertical.party.sessions`). Replies are messages
without a frame.
"""

import hashlib
import secrets
import struct
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from sottovoce.exceptions import MessageError

SESSION_BYTES: Final = 16
_HEAD: Final = struct.Struct(f"<4s{SESSION_BYTES}sQ")
_MAGIC: Final = b"SVF2"
FRAME_BYTES: Final = _HEAD.size  # what a frame adds to its request


@dataclass(frozen=True)
class Frame:
    """A request in its place."""

    session: bytes  # 16 of them
    step: int  # >= 1
    body: bytes  # the request

    @cached_property
    def digest(self) -> bytes:
        return hashlib.sha256(self.body).digest()

    def encode(self) -> bytes:
        return _HEAD.pack(_MAGIC, self.session, self.step) + self.body

    @classmethod
    def read(cls, raw: bytes) -> "Frame":
        """Rebuild a frame; its request is not looked at.

        Raises `MessageError` if the bytes do not begin like a frame of this version.
        """
        if raw[:4] != _MAGIC:
            raise MessageError(
                f"not a request of this version: it starts with {raw[:4]!r}, not {_MAGIC!r}. Bring the coordinator and "
                "all parties to the same version"
            )
        if len(raw) < _HEAD.size:
            raise MessageError(f"a request has at least {_HEAD.size} bytes; got {len(raw)}")
        _, session, step = _HEAD.unpack_from(raw)
        if step < 1:
            raise MessageError("the steps of a session are counted from 1; got 0")
        return cls(session, step, raw[_HEAD.size :])


def new_session() -> bytes:
    """Return a name that no other session has, and that nobody can guess."""
    return secrets.token_bytes(SESSION_BYTES)
