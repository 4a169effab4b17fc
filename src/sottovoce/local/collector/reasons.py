"""Why a report was refused: the closed list of what a response, a count or a log may say."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

__all__ = ["HTTP_STATUS", "Reason"]


class Reason(StrEnum):
    """Why a report, or a whole request, was refused."""

    # the request
    NOT_A_FORM = "not-a-form"
    MEDIA_TYPE = "media-type"
    TOO_LARGE = "too-large"
    TOO_MANY = "too-many"
    TOO_SLOW = "too-slow"
    # the report
    BAD_TOKEN = "bad-token"
    UNKNOWN_TOKEN = "unknown-token"
    MALFORMED = "malformed"
    FOREIGN = "foreign"
    BAD_INDEX = "bad-index"
    WRONG_SEED = "wrong-seed"
    TOKEN_USED = "token-used"
    # the service
    TOO_FAST = "too-fast"
    BUSY = "busy"
    UNAVAILABLE = "unavailable"


HTTP_STATUS: Final = {
    Reason.NOT_A_FORM: 400,
    Reason.MEDIA_TYPE: 415,
    Reason.TOO_LARGE: 413,
    Reason.TOO_MANY: 413,
    Reason.TOO_SLOW: 408,
    Reason.BAD_TOKEN: 400,
    Reason.UNKNOWN_TOKEN: 403,
    Reason.MALFORMED: 400,
    Reason.FOREIGN: 422,
    Reason.BAD_INDEX: 422,
    Reason.WRONG_SEED: 422,
    Reason.TOKEN_USED: 409,
    Reason.TOO_FAST: 429,
    Reason.BUSY: 503,
    Reason.UNAVAILABLE: 503,
}
"""The HTTP status of a refused request, or of a single refused report."""
