"""What the person who runs a collector looks at: a page and numbers for a monitoring system, behind a key.

It is an application of its own, for a port of its own: what is public and what is not never share an address, whatever
a proxy in front lets through.
"""

from __future__ import annotations

import binascii
import hmac
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib.metadata import version
from importlib.resources import files
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from sottovoce.local.collector import _operator_page, metrics
from sottovoce.local.collector._discretion import Discretion
from sottovoce.local.collector.storage import ReportStore
from sottovoce.local.collector.told import Picture, Told
from sottovoce.local.protocol import Protocol

__all__ = ["Facts", "make_operator_app"]

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
_STYLE: Final = "/style.css"


@dataclass(frozen=True, slots=True)
class Facts:
    """What is shown.

    Attributes
    ----------
    version : str
    started : float
        Seconds since 1970.
    protocol : Protocol
    only_issued_tokens : bool
    expected : int or None
        Reports that are planned for.
    ready : bool
        Whether the database answers, now.
    disk_free : int or None
        Bytes on the disk of a SQLite file, rounded down.
    pace : str
        In words.
    coarse : bool
        Whether the pace hides who came when, but from those who arrange the other reports.
    picture : Picture or None
        None: the database did not answer when it was asked last.
    """

    version: str
    started: float
    protocol: Protocol
    only_issued_tokens: bool
    expected: int | None
    ready: bool
    disk_free: int | None
    pace: str
    coarse: bool
    picture: Picture | None


def make_operator_app(
    protocol: Protocol,
    store: ReportStore,
    told: Told,
    *,
    key: bytes,
    is_ready: Callable[[], Awaitable[bool]],
    only_issued_tokens: bool,
    expected: int | None,
) -> ASGIApp:
    """Return the application.

    Parameters
    ----------
    protocol : Protocol
    store : ReportStore
    told : Told
        The same numbers that everybody else is told.
    key : bytes
        Its hexadecimal digits are the password, with any user name, or the bearer token.
    is_ready : callable
    only_issued_tokens : bool
    expected : int or None
    """
    started = time.time()

    async def look() -> Facts:
        free = store.disk_free()
        step, seconds = told.pace.step, told.pace.seconds
        return Facts(
            version=version("sottovoce"),
            started=started,
            protocol=protocol,
            only_issued_tokens=only_issued_tokens,
            expected=expected,
            ready=await is_ready(),
            disk_free=None if free is None else free - free % _STEP_OF_DISK,
            pace=f"{'exact' if step == 1 else f'rounded down to a multiple of {step}'}, new every {seconds:g} s",
            coarse=told.pace.is_coarse,
            picture=told.picture,
        )

    async def page(_: Request) -> Response:
        return Response(_operator_page.page(await look()), media_type="text/html", headers=_HEADERS)

    async def numbers(_: Request) -> Response:
        return Response(metrics.text(await look()), headers=_HEADERS | {"Content-Type": metrics.CONTENT_TYPE})

    style = files("sottovoce.local.collector").joinpath("operator.css").read_text(encoding="utf-8")

    async def style_sheet(_: Request) -> Response:
        return Response(style, media_type="text/css", headers=_HEADERS)

    app = Starlette(routes=[Route("/", page), Route("/metrics", numbers), Route(_STYLE, style_sheet)])
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
