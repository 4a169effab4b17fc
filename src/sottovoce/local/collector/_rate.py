"""A bound on the number of reports a second."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["RateLimit"]


class RateLimit:
    """Admits ``rate`` reports a second on average, and two seconds' worth (or one whole request) at once.

    Parameters
    ----------
    rate : float or None
        None admits everything.
    clock : callable
        Seconds that never run back.
    """

    def __init__(self, rate: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._clock = clock
        self._debt = 0.0  # in reports
        self._since = clock()

    def admit(self, n: int) -> bool:
        """Take ``n`` reports, or say that these come too fast."""
        if self._rate is None:
            return True
        now = self._clock()
        self._debt = max(0.0, self._debt - self._rate * (now - self._since))
        self._since = now
        if self._debt > 0 and self._debt + n > 2 * self._rate:
            return False
        self._debt += n
        return True
