"""Ports of this machine where nobody listens, and which the system gives to nobody else meanwhile."""

import contextlib
import secrets
import socket

_FIRST, _LAST = 12_000, 20_000  # below those that it gives to whoever asks for any, and to those who connect


def free_ports(count: int) -> list[int]:
    """Return so many different ports, other ones in each call."""
    found: list[int] = []
    while len(found) < count:
        port = _FIRST + secrets.randbelow(_LAST - _FIRST)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            found += [] if port in found else [port]
    return found
