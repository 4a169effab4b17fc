"""From the body of a request to the reports in it: nothing is believed, and nothing raises."""

from __future__ import annotations

import binascii
import json
from typing import Any, Final, NamedTuple

from sottovoce.local.collector.reasons import Reason

__all__ = ["Claim", "Posted", "read_json", "read_octets"]

_ENTRY: Final = {"token", "report"}


class Claim(NamedTuple):
    """What somebody says is the report of a device."""

    token: object
    report: bytes


class Posted(NamedTuple):
    """The reports of a request, each as a claim or refused at once."""

    claims: list[Claim | Reason]
    is_batch: bool


def read_octets(body: bytes, tokens: list[str]) -> Posted:
    """Read a report as its bytes, the token from the headers."""
    if len(tokens) != 1:
        return Posted([Reason.BAD_TOKEN], is_batch=False)
    return Posted([Claim(tokens[0], body)], is_batch=False)


def read_json(body: bytes, *, max_batch: int) -> Posted | Reason:
    """Read one report, or a list of them."""
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        return Reason.NOT_A_FORM
    if isinstance(content, list):
        if len(content) > max_batch:
            return Reason.TOO_MANY
        return Posted([_read_entry(entry) for entry in content], is_batch=True)
    if isinstance(content, dict):
        return Posted([_read_entry(content)], is_batch=False)
    return Reason.NOT_A_FORM


def _read_entry(entry: Any) -> Claim | Reason:
    if not isinstance(entry, dict) or entry.keys() != _ENTRY or not isinstance(entry["report"], str):
        return Reason.NOT_A_FORM
    try:
        return Claim(entry["token"], binascii.a2b_base64(entry["report"], strict_mode=True))
    except ValueError:  # not base64, or not ASCII
        return Reason.MALFORMED
