"""What a party allows to be learnt about one person's row of its columns, and what has been."""

import math
import os
import threading
from typing import Any, Final, Self

from sottovoce._validation import MAX_EPSILON, number
from sottovoce.exceptions import ParameterError
from sottovoce.privacy.accounting import accountant_for
from sottovoce.privacy.events import Event, NonPrivateEvent, NothingReleased, compose
from sottovoce.privacy.filters import PrivacyFilter, Release

__all__ = ["PartyBudget"]

_BASIC_SHARE: Final = 1 / 16  # of delta, for each release under the filter's basic rule


class PartyBudget:
    """A party's account: it is charged before anything is computed, and refuses what it does not cover.

    The same account goes with every selection of the party's rows, and with every copy. It lives as long as the
    process: after a fork, and in what was unpickled, a limited account refuses everything, because two could not
    know what the other spends.

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
        self._process: int | None = os.getpid()
        self._lock = threading.Lock()

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
        if not self._is_original:
            return (
                "its budget is kept by the object that was made with it, and this is a copy in another process: two "
                "could not know what the other spends. Make the party, with a share of its budget, where it is used"
            )
        if isinstance(event, NothingReleased):
            return ""
        cost = self._cost(event)
        if cost <= self.epsilon * (1.0 + 1e-9):
            return ""
        return (
            f"its budget is epsilon={self.epsilon!r} at delta={self.delta!r}, and this would bring what was spent to "
            f"epsilon={cost:.6g}"
        )

    def charge(self, event: Event) -> str:
        """Add ``event``, or return why not (see `shortage`); of two requests at once one is first."""
        if not self.is_limited:
            self._events.append(event)
            return ""
        if not self._is_original:  # a fork may have left the lock held
            return self.shortage(event)
        with self._lock:
            shortage = self.shortage(event)
            if not shortage:
                self._events.append(event)
        return shortage

    def _cost(self, event: Event) -> float:
        """Return the epsilon that a budget would have to have to cover ``event`` on top of what was spent.

        By a privacy filter: the next training may be chosen by the results of those before it.
        """
        if self.epsilon == 0.0:
            return accountant_for(event).epsilon(event, self.delta)
        releases = [Release(each, _BASIC_SHARE * self.delta) for each in (*self._events, event)]
        return PrivacyFilter(epsilon=min(self.epsilon, MAX_EPSILON), delta=self.delta).spent(releases)

    @property
    def _is_original(self) -> bool:
        return os.getpid() == self._process

    def __deepcopy__(self, _: object) -> Self:
        return self  # one organisation, one account

    def __copy__(self) -> Self:
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_lock", "_process")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.Lock(), _process=None)
