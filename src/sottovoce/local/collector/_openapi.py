"""What /openapi.json says of each request."""

from __future__ import annotations

from typing import Any, Final

from sottovoce.local.collector.limits import MAX_BATCH
from sottovoce.local.collector.reasons import HTTP_STATUS, Reason

__all__ = ["DESCRIPTION", "HEALTH", "PROTOCOL", "READY", "REPORTS", "STATS"]

DESCRIPTION: Final = (
    "Takes one locally private report of 22 bytes from each device. An accepted report is on the disk; the same report "
    "sent again is accepted and counted once."
)

_TOKEN: Final = "q7jX1v0uY2cJ8m4TzB5nKw"
_REPORT: Final = "TERQMXUQbt6yvMr4AAECAwQFBgcqAA=="
_ENTRY: Final = {"token": _TOKEN, "report": _REPORT}
_ACCEPTED: Final = {"status": "accepted"}
_ENTRY_SCHEMA: Final = {
    "type": "object",
    "required": ["token", "report"],
    "additionalProperties": False,
    "properties": {
        "token": {"type": "string", "pattern": "^[A-Za-z0-9_.~-]{16,128}$"},
        "report": {"type": "string", "description": "The 22 bytes in base64.", "minLength": 32, "maxLength": 32},
    },
}


def _refusal(reason: Reason) -> dict[str, str]:
    return {"status": "refused", "reason": reason.value}


def _json(description: str, **examples: Any) -> dict[str, Any]:
    values = {name: {"value": value} for name, value in examples.items()}
    return {"description": description, "content": {"application/json": {"examples": values}}}


def _refusals() -> dict[int | str, dict[str, Any]]:
    by_status: dict[int | str, list[Reason]] = {}
    for reason, status in HTTP_STATUS.items():
        by_status.setdefault(status, []).append(reason)
    return {
        status: _json("Refused.", **{reason.value: _refusal(reason) for reason in reasons})
        for status, reasons in by_status.items()
    }


PROTOCOL: Final[dict[str, Any]] = {
    "summary": "The protocol",
    "responses": {200: {"description": "Its exact text: the first 8 bytes of the SHA-256 are its id."}},
}

REPORTS: Final[dict[str, Any]] = {
    "summary": "Send one report or a batch",
    "description": (
        "One report: 22 bytes as application/octet-stream with the token in the header Sottovoce-Token, or a JSON "
        f"object. A batch: a list of up to {MAX_BATCH} such objects, answered with one result for each, in order."
    ),
    "responses": {
        200: _json("Accepted, or the results of a batch.", one=_ACCEPTED, batch={
            "results": [_ACCEPTED, _refusal(Reason.TOKEN_USED)]
        }),
        **_refusals(),
    },
    "openapi_extra": {
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
                    "schema": {
                        "oneOf": [_ENTRY_SCHEMA, {"type": "array", "maxItems": MAX_BATCH, "items": _ENTRY_SCHEMA}]
                    },
                    "examples": {"one": {"value": _ENTRY}, "batch": {"value": [_ENTRY]}},
                },
            },
        },
    },
}  # fmt: skip

HEALTH: Final[dict[str, Any]] = {
    "summary": "Whether the process answers",
    "responses": {200: _json("It does.", ok={"status": "ok"})},
}

READY: Final[dict[str, Any]] = {
    "summary": "Whether reports can be stored now",
    "responses": {
        200: _json("They can.", ready={"status": "ready"}),
        503: _json("They cannot.", unavailable=_refusal(Reason.UNAVAILABLE)),
    },
}

STATS: Final[dict[str, Any]] = {
    "summary": "Numbers of reports",
    "responses": {
        200: _json(
            "Accepted ones, and refused ones by reason.",
            stats={"protocol": "75106edeb2bccaf8", "accepted": 1200, "refused": {"token-used": 3}},
        )
    },
}
