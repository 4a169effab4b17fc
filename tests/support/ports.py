"""Ports of this machine where nobody listens, and which the system gives to nobody else meanwhile."""

import contextlib
import secrets
import socket

_FIRST, _LAST = 12_000, 20_000  # below those that it gives to whoever asks for any, and to those who connect


def free_ports(count: int) -> list[int]:
    """Return so many ports in a row, other ones in each call."""
    while True:
        first = _FIRST + secrets.randbelow(_LAST - _FIRST)
        found = list(range(first, first + count))
        with contextlib.suppress(OSError), contextlib.ExitStack() as probes:
            for port in found:
                probes.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return found
