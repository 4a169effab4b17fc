"""What the person who runs a collector looks at: a page and numbers for a monitoring system, behind a key.

It is an application of its own, for a port of its own: what is public and what is not never share an address, whatever
a proxy in front lets through.
"""

from __future__ import annotations

import binascii
import hmac
import time
from collections.abc import Awaitable, Callable
from importlib.resources import files
from typing import Final, NamedTuple

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from sottovoce.local.collector import _operator_page, metrics
from sottovoce.local.collector._discretion import Discretion
from sottovoce.local.collector.counts import Counts, Pace, Picture
from sottovoce.local.collector.storage import ReportStore
from sottovoce.local.protocol import Protocol

_STEP_OF_DISK: Final = 100_000_000  # the exact number falls with every report
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Facts(NamedTuple):
    """What is shown."""

    protocol: Protocol
    started: float  # seconds since 1970
    only_issued_tokens: bool
    expected: int | None  # reports that are planned for
    ready: bool
    disk_free: int | None  # bytes on the disk of a SQLite file, rounded down
    pace: Pace
    picture: Picture | None  # None: the database did not answer when it was asked last


def make_operator_app(
    protocol: Protocol,
    store: ReportStore,
    counts: Counts,
    *,
    key: bytes,
    is_ready: Callable[[], Awaitable[bool]],
    only_issued_tokens: bool,
    expected: int | None,
) -> ASGIApp:
    """Return the application, which tells the same numbers that everybody else is told.

    The hexadecimal digits of ``key`` are the password, with any user name, or the bearer token.
    """
    started = time.time()

    async def look() -> Facts:
        free = store.disk_free()
        return Facts(
            protocol, started, only_issued_tokens, expected, await is_ready(),
            disk_free=None if free is None else free - free % _STEP_OF_DISK, pace=counts.pace, picture=counts.picture,
        )  # fmt: skip

    async def page(_: Request) -> Response:
        return Response(_operator_page.page(await look()), media_type="text/html", headers=_HEADERS)

    async def numbers(_: Request) -> Response:
        return Response(metrics.text(await look()), headers=_HEADERS | {"Content-Type": metrics.CONTENT_TYPE})

    style = files("sottovoce.local.collector").joinpath("operator.css").read_text(encoding="utf-8")

    async def style_sheet(_: Request) -> Response:
        return Response(style, media_type="text/css", headers=_HEADERS)

    app = Starlette(routes=[Route("/", page), Route("/metrics", numbers), Route("/style.css", style_sheet)])
    return Discretion(_Guarded(app, key.hex()))


class _Guarded:
    """Lets in who has the key: as the password of HTTP's basic authentication, or as a bearer token; never in a URL."""

    def __init__(self, app: ASGIApp, key: str) -> None:
        self._app = app
        self._key = key.encode("ascii")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self._opens([v for k, v in scope["headers"] if k == b"authorization"]):
            refusal = Response(
                "The key of this page is the password; the user name does not matter.\n", 401, media_type="text/plain",
                headers=_HEADERS | {"WWW-Authenticate": 'Basic realm="sottovoce collector", charset="UTF-8"'},
            )  # fmt: skip
            await refusal(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _opens(self, headers: list[bytes]) -> bool:
        if len(headers) != 1:
            return False
        kind, _, given = headers[0].partition(b" ")
        given = given.strip()
        if kind.lower() == b"basic":
            try:
                given = binascii.a2b_base64(given, strict_mode=True).partition(b":")[2]
            except ValueError:
                return False
        elif kind.lower() != b"bearer":
            return False
        return hmac.compare_digest(given, self._key)
