"""What a party allows to be learnt about one person's row of its columns, and what has been."""

import math
from typing import Any

from sottovoce._validation import number
from sottovoce.exceptions import ParameterError
from sottovoce.privacy.accounting import accountant_for
from sottovoce.privacy.events import Event, NonPrivateEvent, compose

__all__ = ["PartyBudget"]


class PartyBudget:
    """A party's account: it is charged before anything is computed, and refuses what it does not cover.

    The same account goes with every selection of the party's rows. It lives as long as the process.

    Parameters
    ----------
    limit : (epsilon, delta) or None
        None allows everything.
    """

    def __init__(self, limit: Any = None) -> None:
        self.epsilon, self.delta = math.inf, 0.0
        if limit is not None:
            try:
                epsilon, delta = limit
            except (TypeError, ValueError):
                raise ParameterError(f"budget must be a pair (epsilon, delta) or None; got {limit!r}.") from None
            self.epsilon = number("budget[0]", epsilon, at_least=0.0)
            self.delta = number("budget[1]", delta, at_least=0.0, below=1.0)
        self._events: list[Event] = []

    @property
    def spent(self) -> Event:
        """Everything that was charged; for the party's own eyes."""
        if any(isinstance(event, NonPrivateEvent) for event in self._events):
            return NonPrivateEvent()
        return compose(*self._events)

    @property
    def is_limited(self) -> bool:
        """False when everything is allowed."""
        return math.isfinite(self.epsilon)

    def shortage(self, event: Event) -> str:
        """Return why ``event`` is not covered on top of what was spent, telling nothing else; empty if it is."""
        if not self.is_limited:
            return ""
        total = compose(*self._events, event)
        cost = accountant_for(total).epsilon(total, self.delta)
        if cost <= self.epsilon * (1.0 + 1e-9):
            return ""
        return (
            f"its budget is epsilon={self.epsilon!r} at delta={self.delta!r}, and this would bring what was spent to "
            f"epsilon={cost:.6g}"
        )

    def charge(self, event: Event) -> None:
        """Add ``event``; whoever calls has seen that there is no `shortage`."""
        self._events.append(event)
