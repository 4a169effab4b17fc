"""What is accepted: a report of this protocol whose seed belongs to the token it came with."""

from __future__ import annotations

from typing import Final

from sottovoce.local.collector._forms import Claim
from sottovoce.local.collector.reasons import Reason
from sottovoce.local.collector.storage import Row
from sottovoce.local.collector.tokens import TokenKey, is_token, token_hash
from sottovoce.local.protocol import Protocol
from sottovoce.local.wire import Reason as WireReason
from sottovoce.local.wire import Rejection, parse

__all__ = ["check"]

_REASONS: Final = {
    WireReason.LENGTH: Reason.MALFORMED,
    WireReason.MAGIC: Reason.MALFORMED,
    WireReason.PROTOCOL: Reason.FOREIGN,
    WireReason.INDEX: Reason.BAD_INDEX,
    WireReason.SEED: Reason.WRONG_SEED,
}


def check(claim: Claim, protocol: Protocol, token_key: TokenKey | None) -> Row | Reason:
    """Return the row to store, or why there is none; without a key every text that has the form of a token is one."""
    token = claim.token
    if not isinstance(token, str) or not is_token(token):
        return Reason.BAD_TOKEN
    if token_key is not None and not token_key.knows(token):
        return Reason.UNKNOWN_TOKEN
    # the seed must be the one of the token: nobody can look for a seed that moves the model their way
    report = parse(claim.report, protocol, token=token.encode("ascii"))
    return _REASONS[report.reason] if isinstance(report, Rejection) else Row(token_hash(token), claim.report)
