"""Run the service in this process until it is told to stop."""

import asyncio
import logging
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Literal

from starlette.types import ASGIApp
from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol

from sottovoce._validation import whole_number
from sottovoce.exceptions import ParameterError
from sottovoce.local.collector.answers import PlainFormatter
from sottovoce.local.collector.intake import Limits

_SHUTDOWN_SECONDS: Final = 10
_OPERATORS: Final = Limits(max_connections=16)


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that is bound to an address; port 0 takes a free one.

    Raises ParameterError if the address cannot be taken.
    """
    whole_number("port", port, at_least=0, at_most=65_535)
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, _, _, address = found[0]
        # where the protocol is not named, asyncio leaves small answers to wait 40 ms for an acknowledgement
        listener = socket.socket(family, kind, socket.IPPROTO_TCP)
    except OSError as error:
        raise ParameterError(f"host {host}: {error.strerror}.") from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise ParameterError(f"host {host}, port {port}: {error.strerror}. Choose another port.") from None
    return listener


def serve(
    app: ASGIApp,
    listener: socket.socket,
    limits: Limits,
    *,
    on_start: Callable[[str], None],
    operator: tuple[ASGIApp, socket.socket] | None = None,
) -> None:
    """Answer requests until SIGINT or SIGTERM; what was taken is written before this returns.

    ``listener``: see `bind`.
    ``on_start``: called with the address once requests are answered.
    ``operator``: what is served beside it, to connections of its own, which no crowd of devices takes away.
    """
    _log_plainly()
    beside = None if operator is None else _Beside(_config(operator[0], _OPERATORS, lifespan="off"))
    address = address_of(listener)

    class _Announced(Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if operator is not None and beside is not None:
                self._looking = asyncio.create_task(beside.serve([operator[1]]))
            on_start(address)

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            if beside is not None:
                beside.should_exit = True
                await self._looking
            await super().shutdown(sockets)

    # uvicorn raises the signal once more after a clean stop: with these handlers it ends nothing
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        _Announced(_config(app, limits, lifespan="on")).run([listener])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def address_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


class _Beside(Server):
    """A server that leaves signals to the one that it runs beside."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _config(app: ASGIApp, limits: Limits, *, lifespan: Literal["on", "off"]) -> Config:
    return Config(
        app,
        loop="auto",
        http=_deadline_protocol(limits.read_seconds),
        ws="none",
        lifespan=lifespan,
        log_config=None,
        access_log=False,  # it would name the addresses of devices
        proxy_headers=False,
        server_header=False,
        limit_concurrency=limits.max_connections + 1,
        timeout_keep_alive=max(1, int(limits.read_seconds / 2)),
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
    )


def _deadline_protocol(seconds: float) -> type[asyncio.Protocol]:
    """Return uvicorn's protocol with a limit on how long the head of a request may take."""

    class _Deadline(H11Protocol):
        _head_timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._expect_head()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self._head_timer is not None and self.cycle is not None and not self.cycle.response_complete:
                self._stop_timer()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if self.cycle.response_complete:
                self._expect_head()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_timer()
            super().connection_lost(exc)

        def _expect_head(self) -> None:
            self._stop_timer()
            if not self.transport.is_closing():
                self._head_timer = self.loop.call_later(seconds, self.transport.abort)

        def _stop_timer(self) -> None:
            if self._head_timer is not None:
                self._head_timer.cancel()
                self._head_timer = None

    return _Deadline


def _log_plainly() -> None:
    """Log to stderr: no addresses, no bodies, and of an error its class and its place."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(PlainFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root: Any = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # a warning for each odd request would fill the disk
