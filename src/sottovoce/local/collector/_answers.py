"""What the collector answers: fixed words, and numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from starlette.responses import Response

from sottovoce.local.collector.reasons import Reason

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
