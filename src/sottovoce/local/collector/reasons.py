"""Why a report was refused: the closed list of what a response, a count or a log may say."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


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
