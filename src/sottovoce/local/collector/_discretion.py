"""The outermost layer of the service: an unexpected error is answered and logged without a word of its message."""

from __future__ import annotations

import logging
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_log = logging.getLogger(__name__)

_BODY: Final = b'{"status":"error"}'
_START: Final[Message] = {
    "type": "http.response.start",
    "status": 500,
    "headers": [(b"content-type", b"application/json"), (b"connection", b"close")],
}


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
