"""The HTTP service: protocol, reports, health and counts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from sottovoce._validation import whole_number
from sottovoce.exceptions import ParameterError
from sottovoce.local.collector import answers
from sottovoce.local.collector.answers import Discretion, Reason
from sottovoce.local.collector.counts import Counts, Pace
from sottovoce.local.collector.intake import Claim, Limits, Posted, RateLimit, check, read_json, read_octets
from sottovoce.local.collector.operator import make_operator_app
from sottovoce.local.collector.storage import Outcome, ReportStore, Row
from sottovoce.local.collector.tokens import TokenKey
from sottovoce.local.collector.writer import GroupWriter
from sottovoce.local.protocol import Protocol

TOKEN_HEADER: Final = "Sottovoce-Token"
_MAX_OCTETS: Final = 1_024  # a report has 22; what is a little longer is told to be malformed, not too large
_MAX_DISCARDED: Final = 1_048_576
_PING_SECONDS: Final = 5.0
_REPORTS: Final = "/reports"
_DESCRIPTION: Final = files("sottovoce.local.collector").joinpath("openapi.json").read_bytes()
_PATHS: Final = ("/", "/protocol", _REPORTS, "/health", "/ready", "/stats", "/invitations", "/openapi.json")


def make_app(protocol: Protocol, store: ReportStore, **options: Any) -> ASGIApp:
    """Return the service as an ASGI application; ``options`` are those of `make_apps` that are not the operator's."""
    return make_apps(protocol, store, **options)[0]


def make_apps(
    protocol: Protocol,
    store: ReportStore,
    *,
    operator_key: bytes | None = None,
    expected: int | None = None,
    token_key: TokenKey | None = None,
    limits: Limits | None = None,
    allow_origins: Sequence[str] = (),
    static: Path | None = None,
    pace: Pace | None = None,
) -> tuple[ASGIApp, ASGIApp | None]:
    """Return the service, and what its operator looks at, for a port of its own, where there is a key for it.

    ``store``: of this protocol. The caller closes it after the application has stopped.
    ``operator_key``: see `sottovoce.local.collector.operator`.
    ``expected``: reports that are planned for: shown to the operator.
    ``token_key``: accept tokens issued with this key only. Default: every token.
    ``allow_origins``: origins whose pages may post, such as ``https://survey.example``; ``*`` for all.
    ``static``: a folder of files to serve at ``/``.
    ``pace``: how exactly, and how often, numbers are told.

    Raises ParameterError if there is no such folder.
    """
    if expected is not None:
        whole_number("expected", expected, at_least=1)
    service = _Service(protocol, store, token_key, limits or Limits(), pace or Pace())
    operator = None if operator_key is None else make_operator_app(
        protocol, store, service.counts, key=operator_key, is_ready=service.is_ready,
        only_issued_tokens=token_key is not None, expected=expected,
    )  # fmt: skip
    return _public(service, allow_origins, static), operator


def _public(service: _Service, allow_origins: Sequence[str], static: Path | None) -> ASGIApp:
    if static is not None and not static.is_dir():
        raise ParameterError(f"static {static}: there is no such folder.")
    requests: list[Route | Mount] = [
        Route("/openapi.json", _describe),
        _route("/protocol", "GET", service.get_protocol),
        _route(_REPORTS, "POST", service.post_reports),
        _route("/invitations", "GET", service.get_invitations),
        _route("/health", "GET", service.get_health),
        _route("/ready", "GET", service.get_ready),
        _route("/stats", "GET", service.get_stats),
    ]
    if static is not None:
        requests.append(Mount("/", StaticFiles(directory=static, html=True)))
    app = Starlette(routes=requests, lifespan=service.lifespan, exception_handlers={HTTPException: _tell})
    if allow_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(allow_origins),
            allow_methods=["GET", "POST"],
            allow_headers=["Content-Type", TOKEN_HEADER],
            expose_headers=["Retry-After"],
        )
    return Discretion(service.counts.watched(app))


def _route(path: str, method: str, answer: Callable[[Request], Awaitable[Response]]) -> Route:
    route = Route(path, answer)
    route.methods = {method}  # and no HEAD beside GET
    return route


async def _describe(_: Request) -> Response:
    return Response(_DESCRIPTION, media_type="application/json")


async def _tell(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"detail": error.detail}, error.status_code, error.headers)


class _Service:
    """The answers to each kind of request."""

    def __init__(
        self, protocol: Protocol, store: ReportStore, token_key: TokenKey | None, limits: Limits, pace: Pace
    ) -> None:
        self._protocol = protocol
        self._store = store
        self._token_key = token_key
        self._limits = limits
        self._rate = RateLimit(limits.max_rate)
        self._writer = GroupWriter(store, max_waiting=limits.max_waiting)
        self.counts = Counts(store, self._writer.unwritten_refusals, pace, paths=_PATHS, timed=_REPORTS)

    @asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        self._writer.start()
        await self.counts.take()
        telling = asyncio.create_task(self.counts.keep_taking())
        try:
            yield
        finally:
            telling.cancel()
            await self._writer.close()

    async def get_protocol(self, _: Request) -> Response:
        return Response(self._protocol.to_json(), media_type="application/json", headers={"Cache-Control": "no-cache"})

    async def get_invitations(self, _: Request) -> Response:
        if self._token_key is None:
            return answers.document({"required": False})
        return answers.document({"required": True, "mark": self._token_key.mark.hex()})

    async def get_health(self, _: Request) -> Response:
        return answers.document({"status": "ok"})

    async def is_ready(self) -> bool:
        if not self._writer.is_alive:
            return False
        try:
            async with asyncio.timeout(_PING_SECONDS):
                await asyncio.to_thread(self._store.ping)
        except Exception:  # why is for the log of the database
            return False
        return True

    async def get_ready(self, _: Request) -> Response:
        return answers.document({"status": "ready"}) if await self.is_ready() else answers.refused(Reason.UNAVAILABLE)

    async def get_stats(self, _: Request) -> Response:
        picture = self.counts.picture
        if picture is None:
            return answers.refused(Reason.UNAVAILABLE)
        return answers.document(
            {"protocol": self._protocol.id.hex(), "accepted": picture.stored, "refused": picture.refused}
        )

    async def post_reports(self, request: Request) -> Response:
        """Take one report or a batch; what is accepted is on the disk by then."""
        posted = await self._read(request)
        if isinstance(posted, Reason):
            return self._refuse(posted)
        if not self._rate.admit(len(posted.claims)):
            return self._refuse(Reason.TOO_FAST)
        checked = [self._check(claim) for claim in posted.claims]
        outcomes = await self._write([row for row in checked if isinstance(row, Row)])
        if isinstance(outcomes, Reason):
            return self._refuse(outcomes)
        each = iter(outcomes)
        results = [entry if isinstance(entry, Reason) else next(each) for entry in checked]
        for reason in results:
            if reason is not None:
                self._writer.count_refused(reason)
        if posted.is_batch:
            return answers.batch(results)
        return answers.accepted() if results[0] is None else answers.refused(results[0])

    def _check(self, claim: Claim | Reason) -> Row | Reason:
        return claim if isinstance(claim, Reason) else check(claim, self._protocol, self._token_key)

    async def _read(self, request: Request) -> Posted | Reason:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == "application/octet-stream":
            body = await self._read_body(request, min(_MAX_OCTETS, self._limits.max_body))
            return body if isinstance(body, Reason) else read_octets(body, request.headers.getlist(TOKEN_HEADER))
        if kind == "application/json":
            body = await self._read_body(request, self._limits.max_body)
            return body if isinstance(body, Reason) else read_json(body, max_batch=self._limits.max_batch)
        return Reason.MEDIA_TYPE

    async def _read_body(self, request: Request, most: int) -> bytes | Reason:
        announced = request.headers.get("content-length", "")
        if announced.isascii() and announced.isdecimal() and int(announced[:20]) > _MAX_DISCARDED:
            return Reason.TOO_LARGE
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._limits.read_seconds):
                async for part in request.stream():
                    size += len(part)
                    if size <= most:
                        parts.append(part)
                        continue
                    parts.clear()
                    # a connection that is closed while somebody sends loses the answer: hear out what is not absurd
                    if size > _MAX_DISCARDED:
                        return Reason.TOO_LARGE
        except TimeoutError:
            return Reason.TOO_SLOW
        except ClientDisconnect:
            return Reason.NOT_A_FORM  # nobody reads it
        return b"".join(parts) if size <= most else Reason.TOO_LARGE

    async def _write(self, rows: list[Row]) -> list[Outcome] | Reason:
        if not rows:
            return []
        try:
            async with asyncio.timeout(self._limits.write_seconds):
                return await self._writer.write(rows)
        except TimeoutError:
            return Reason.UNAVAILABLE

    def _refuse(self, reason: Reason) -> Response:
        self._writer.count_refused(reason)
        return answers.refused(reason)
