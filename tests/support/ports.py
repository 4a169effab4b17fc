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


def free_block(count: int) -> int:
    """Return the first of so many ports in a row where nobody listens, above those of `free_ports`."""
    while True:
        first = _LAST + secrets.randbelow(10_000)
        with contextlib.suppress(OSError), contextlib.ExitStack() as probes:
            for port in range(first, first + count):
                probes.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return first
