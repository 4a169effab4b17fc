"""What /openapi.json says of the service and of each request."""

from __future__ import annotations

from typing import Any, Final

from sottovoce.local.collector._answers import ACCEPTED, REFUSED
from sottovoce.local.collector.limits import MAX_BATCH
from sottovoce.local.collector.reasons import Reason

__all__ = ["DOCUMENT"]

_TOKEN: Final = "q7jX1v0uY2cJ8m4TzB5nKw"
_ENTRY: Final = {"token": _TOKEN, "report": "TERQMXUQbt6yvMr4AAECAwQFBgcqAA=="}
_ENTRY_SCHEMA: Final = {
    "type": "object",
    "required": ["token", "report"],
    "additionalProperties": False,
    "properties": {
        "token": {"type": "string", "pattern": "^[A-Za-z0-9_.~-]{16,128}$"},
        "report": {"type": "string", "description": "The 22 bytes in base64.", "minLength": 32, "maxLength": 32},
    },
}


def _examples(**examples: Any) -> dict[str, Any]:
    return {"examples": {name: {"value": value} for name, value in examples.items()}}


def _answer(description: str, content: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": content}}


def _done(description: str, **examples: Any) -> dict[str, Any]:
    return {"200": _answer(description, {"schema": {}, **(_examples(**examples) if examples else {})})}


def _refused(description: str, *reasons: Reason) -> dict[str, Any]:
    return _answer(description, _examples(**{reason: REFUSED[reason] for reason in reasons}))


def _refusals() -> dict[str, Any]:
    by_status: dict[int, list[Reason]] = {}
    for reason in Reason:
        by_status.setdefault(reason.status, []).append(reason)
    return {str(status): _refused("Refused.", *reasons) for status, reasons in by_status.items()}


_REPORTS: Final[dict[str, Any]] = {
    "summary": "Send one report or a batch",
    "description": (
        "One report: 22 bytes as application/octet-stream with the token in the header Sottovoce-Token, or a JSON "
        f"object. A batch: a list of up to {MAX_BATCH} such objects, answered with one result for each, in order."
    ),
    "operationId": "post_reports_reports_post",
    "responses": _done(
        "Accepted, or the results of a batch.",
        one=ACCEPTED,
        batch={"results": [ACCEPTED, REFUSED[Reason.TOKEN_USED]]},
    ) | _refusals(),
    "parameters": [
        {
            "name": "Sottovoce-Token",
            "in": "header",
            "required": False,
            "description": "The device token, with application/octet-stream.",
            "schema": {"type": "string"},
            "example": _TOKEN,
        }
    ],
    "requestBody": {
        "required": True,
        "content": {
            "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
            "application/json": {
                "schema": {"oneOf": [_ENTRY_SCHEMA, {"type": "array", "maxItems": MAX_BATCH, "items": _ENTRY_SCHEMA}]},
                **_examples(one=_ENTRY, batch=[_ENTRY]),
            },
        },
    },
}  # fmt: skip


def _get(name: str, summary: str, description: str, responses: dict[str, Any]) -> dict[str, Any]:
    about = {"summary": summary, "description": description, "operationId": f"get_{name}_{name}_get"}
    return {"get": about | {"responses": responses}}


DOCUMENT: Final[dict[str, Any]] = {
    "openapi": "3.1.0",
    "info": {
        "title": "sottovoce collector",
        "description": (
            "Takes one locally private report of 22 bytes from each device. An accepted report is on the disk; the "
            "same report sent again is accepted and counted once."
        ),
        "version": "1",
    },
    "paths": {
        "/protocol": _get(
            "protocol",
            "The protocol",
            "Return the text that devices hash and obey.",
            _done("Its exact text: the first 8 bytes of the SHA-256 are its id."),
        ),
        "/reports": {"post": _REPORTS},
        "/invitations": _get(
            "invitations",
            "Whether a token must have been issued, and how to check one without sending it",
            "Say what a page checks its link with, by itself: it tells nobody which link that is.",
            _done(
                "With `required`, the last 4 of a token's 36 bytes begin the SHA-256 of 'sottovoce invitation', a zero "
                "byte, the 8 bytes of `mark` and the 32 bytes before. The answer is the same for everybody.",
                issued={"required": True, "mark": "5f0c1d2e3a4b5968"},
                any={"required": False},
            ),
        ),
        "/health": _get(
            "health",
            "Whether the process answers",
            "Say that the process answers.",
            _done("It does.", ok={"status": "ok"}),
        ),
        "/ready": _get(
            "ready",
            "Whether reports can be stored now",
            "Say whether reports can be stored now.",
            _done("They can.", ready={"status": "ready"}) | {"503": _refused("They cannot.", Reason.UNAVAILABLE)},
        ),
        "/stats": _get(
            "stats",
            "Numbers of reports",
            "Return numbers of reports, rounded down and new every few minutes: none follows one person.",
            _done(
                "Accepted ones, and refused ones by reason.",
                stats={"protocol": "75106edeb2bccaf8", "accepted": 1200, "refused": {"token-used": 30}},
            ),
        ),
    },
}
