"""From the body of a request to the rows to store: nothing is believed, and nothing raises.

What is accepted is a report of this protocol whose seed belongs to the token it came with.
"""

from __future__ import annotations

import binascii
import json
from typing import Any, Final, NamedTuple

from sottovoce.local.collector.answers import Reason
from sottovoce.local.collector.storage import Row
from sottovoce.local.collector.tokens import TokenKey, is_token, token_hash
from sottovoce.local.protocol import Protocol
from sottovoce.local.wire import Reason as WireReason
from sottovoce.local.wire import parse

_ENTRY: Final = {"token", "report"}
_REASONS: Final = {
    WireReason.LENGTH: Reason.MALFORMED,
    WireReason.MAGIC: Reason.MALFORMED,
    WireReason.PROTOCOL: Reason.FOREIGN,
    WireReason.INDEX: Reason.BAD_INDEX,
    WireReason.SEED: Reason.WRONG_SEED,
}


class Claim(NamedTuple):
    """What somebody says is the report of a device."""

    token: object
    report: bytes


class Posted(NamedTuple):
    """The reports of a request, each as a claim or refused at once."""

    claims: list[Claim | Reason]
    is_batch: bool


def read_octets(body: bytes, tokens: list[str]) -> Posted:
    if len(tokens) != 1:
        return Posted([Reason.BAD_TOKEN], is_batch=False)
    return Posted([Claim(tokens[0], body)], is_batch=False)


def read_json(body: bytes, *, max_batch: int) -> Posted | Reason:
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


def check(claim: Claim, protocol: Protocol, token_key: TokenKey | None) -> Row | Reason:
    """Return the row to store, or why there is none; without a key every text that has the form of a token is one."""
    token = claim.token
    if not isinstance(token, str) or not is_token(token):
        return Reason.BAD_TOKEN
    if token_key is not None and not token_key.knows(token):
        return Reason.UNKNOWN_TOKEN
    # the seed must be the one of the token: nobody can look for a seed that moves the model their way
    report = parse(claim.report, protocol, token=token.encode("ascii"))
    return _REASONS[report] if isinstance(report, WireReason) else Row(token_hash(token), claim.report)
