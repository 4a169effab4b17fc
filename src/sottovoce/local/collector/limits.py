"""What one collector takes at a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sottovoce._validation import number, whole_number

MAX_BATCH: Final = 1_000


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
