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

__all__ = ["Intake"]

_REASONS: Final = {
    WireReason.LENGTH: Reason.MALFORMED,
    WireReason.MAGIC: Reason.MALFORMED,
    WireReason.PROTOCOL: Reason.FOREIGN,
    WireReason.INDEX: Reason.BAD_INDEX,
    WireReason.SEED: Reason.WRONG_SEED,
}


class Intake:
    """Checks claims against a protocol.

    Parameters
    ----------
    protocol : Protocol
    token_key : TokenKey or None
        None accepts every text that has the form of a token.
    """

    def __init__(self, protocol: Protocol, token_key: TokenKey | None) -> None:
        self._protocol = protocol
        self._token_key = token_key

    def check(self, claim: Claim) -> Row | Reason:
        """Return the row to store, or why there is none."""
        token = claim.token
        if not isinstance(token, str) or not is_token(token):
            return Reason.BAD_TOKEN
        if self._token_key is not None and not self._token_key.knows(token):
            return Reason.UNKNOWN_TOKEN
        # the seed must be the one of the token: nobody can look for a seed that moves the model their way
        report = parse(claim.report, self._protocol, token=token.encode("ascii"))
        if isinstance(report, Rejection):
            return _REASONS[report.reason]
        return Row(token_hash(token), claim.report)
