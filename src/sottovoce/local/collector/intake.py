"""From the body of a request to the rows to store, within limits: nothing is believed, and nothing raises.

What is accepted is a report of this protocol whose seed belongs to the token it came with.
"""

import binascii
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from sottovoce._validation import number, whole_number
from sottovoce.local.collector.answers import Reason
from sottovoce.local.collector.storage import Row
from sottovoce.local.collector.tokens import TokenKey, token_hash
from sottovoce.local.protocol import Protocol
from sottovoce.local.wire import Reason as WireReason
from sottovoce.local.wire import is_token, parse

MAX_BATCH: Final = 1_000
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


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on requests.

    ``max_batch``: reports in one request.
    ``max_body``: bytes of the body of one request; more are not read.
    ``max_waiting``: reports that wait for the database; more are answered with 503.
    ``max_connections``: connections open at the same time; requests on more are answered with 503.
    ``max_rate``, float or None: reports a second, on average; more are answered with 429.
    ``read_seconds``: within which a request must have arrived, its head and its body each.
    ``write_seconds``: after which a report that still waits for the database is answered with 503.
    """

    max_batch: int = MAX_BATCH
    max_body: int = 262_144
    max_waiting: int = 20_000
    max_connections: int = 512
    max_rate: float | None = None
    read_seconds: float = 10.0
    write_seconds: float = 30.0

    def __post_init__(self) -> None:
        for name in ("max_batch", "max_body", "max_waiting", "max_connections"):
            whole_number(name, getattr(self, name), at_least=1)
        for name in ("read_seconds", "write_seconds"):
            number(name, getattr(self, name), above=0.0)
        if self.max_rate is not None:
            number("max_rate", self.max_rate, above=0.0)


class RateLimit:
    """Admits ``rate`` reports a second on average, and two seconds' worth (or one whole request) at once.

    ``rate``: None admits everything.
    ``clock``: seconds that never run back.
    """

    def __init__(self, rate: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._clock = clock
        self._debt = 0.0  # in reports
        self._since = clock()

    def admit(self, n: int) -> bool:
        if self._rate is None:
            return True
        now = self._clock()
        self._debt = max(0.0, self._debt - self._rate * (now - self._since))
        self._since = now
        if self._debt > 0 and self._debt + n > 2 * self._rate:
            return False
        self._debt += n
        return True
