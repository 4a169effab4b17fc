"""What the collector answers: fixed words, numbers, and why a report was refused, from a closed list.

The outermost layer answers and logs an unexpected error without a word of its message.
"""

import json
import logging
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Final, Self

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_log = logging.getLogger(__name__)

_BODY: Final = b'{"status":"error"}'
_START: Final[Message] = {
    "type": "http.response.start",
    "status": 500,
    "headers": [(b"content-type", b"application/json"), (b"connection", b"close")],
}


class Reason(StrEnum):
    """Why a report, or a whole request, was refused, with the HTTP status that tells it."""

    status: int

    def __new__(cls, text: str, status: int) -> Self:
        reason = str.__new__(cls, text)
        reason._value_ = text
        reason.status = status
        return reason

    # the request
    NOT_A_FORM = "not-a-form", 400
    MEDIA_TYPE = "media-type", 415
    TOO_LARGE = "too-large", 413
    TOO_MANY = "too-many", 413
    TOO_SLOW = "too-slow", 408
    # the report
    BAD_TOKEN = "bad-token", 400
    UNKNOWN_TOKEN = "unknown-token", 403
    MALFORMED = "malformed", 400
    FOREIGN = "foreign", 422
    BAD_INDEX = "bad-index", 422
    WRONG_SEED = "wrong-seed", 422
    TOKEN_USED = "token-used", 409
    # the service
    TOO_FAST = "too-fast", 429
    BUSY = "busy", 503
    UNAVAILABLE = "unavailable", 503


_HEADERS: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
ACCEPTED: Final = {"status": "accepted"}
REFUSED: Final[dict[Reason, dict[str, str]]] = {
    reason: {"status": "refused", "reason": reason.value} for reason in Reason
}
_RETRY: Final = frozenset({Reason.BUSY, Reason.UNAVAILABLE, Reason.TOO_FAST})
_UNREAD: Final = frozenset({Reason.TOO_LARGE, Reason.TOO_SLOW, Reason.MEDIA_TYPE})  # the rest of the body is not read


def document(content: Any, status: int = 200, **headers: str) -> Response:
    text = json.dumps(content, separators=(",", ":"))
    return Response(text, status, headers={**_HEADERS, **headers}, media_type="application/json")


def accepted() -> Response:
    return document(ACCEPTED)


def refused(reason: Reason) -> Response:
    headers = {"Retry-After": "1"} if reason in _RETRY else {"Connection": "close"} if reason in _UNREAD else {}
    return document(REFUSED[reason], reason.status, **headers)


def batch(results: Sequence[Reason | None]) -> Response:
    """Return the answer to a batch: one result for each report, in order; None is an accepted one."""
    return document({"results": [ACCEPTED if reason is None else REFUSED[reason] for reason in results]})


class Discretion:
    """Wraps an application; an error's message may quote a token, so only its class and its place are told."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception as error:
            if scope["type"] != "http":
                raise
            _log.error("unexpected error: %s", place_of(error))
            if not started:
                await send(_START)
                await send({"type": "http.response.body", "body": _BODY})


class PlainFormatter(logging.Formatter):
    """Writes the class and the place of an error, never its message or its traceback."""

    def formatException(self, ei: object) -> str:  # noqa: N802
        error = ei[1] if isinstance(ei, tuple) else None
        return place_of(error) if isinstance(error, BaseException) else "an error"


def place_of(error: BaseException) -> str:
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    where = "" if at is None else f" at {at.tb_frame.f_code.co_filename}:{at.tb_lineno}"
    return f"{type(error).__name__}{where}"
