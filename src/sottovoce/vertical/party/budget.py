"""What a party allows to be learnt about one person's row of its columns, and what has been.

`PartyBudget` lives in memory, as long as the process does. `LedgerBudget` is on disk: a restart, a fork, a copy or a
second process finds what the others spent.
"""

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import Lock
from typing import Any, Final

from sottovoce._validation import MAX_EPSILON, in_order, number
from sottovoce.exceptions import BudgetError, LedgerError, ParameterError, SottovoceError
from sottovoce.ledger.charging import is_charged
from sottovoce.ledger.ledger import Ledger
from sottovoce.privacy.accounting import accountant_for, flatten
from sottovoce.privacy.adjacency import ROW_UNIT, Adjacency
from sottovoce.privacy.events import Event, NonPrivateEvent, NothingReleased, compose
from sottovoce.privacy.filters import PrivacyFilter, Release

_LOG: Final = logging.getLogger(__name__)
_BASIC_SHARE: Final = 1 / 16  # of delta, for each release under the filter's basic rule
_ANSWERED: Final = "another process of this party has answered this request: its folder is in use twice"  # may cross
_GIVEN_BACK: Final = "the charge of this request was cancelled, so its answer stays here: begin again"  # may cross
_UNKNOWN: Final = "its ledger has no charge for this request, so its answer stays here: begin again"  # may cross
_NO_LEDGER: Final = "its ledger cannot be used now; the party's own log says why"  # may cross


class MachineError(Exception):
    """Why a request cannot be answered now: a failure of the machine, and not of the request. The text may cross."""


class Account(ABC):
    """Who is asked before a party releases anything."""

    epsilon: float  # the budget
    delta: float
    takes_seeds: bool = True  # whether it charges noise that can be drawn again
    coordinator: str | None = None  # for whom releases are made

    @property
    @abstractmethod
    def spent(self) -> Event:
        """Everything that was charged; for the party's own eyes."""

    @property
    def is_limited(self) -> bool:
        """False when everything is allowed."""
        return math.isfinite(self.epsilon)

    @property
    def limit(self) -> str:
        return f"epsilon={self.epsilon!r} at delta={self.delta!r}"

    @abstractmethod
    def shortage(self, event: Event) -> str:
        """Return why ``event`` is not covered on top of what was spent, telling nothing else; empty if it is."""

    @abstractmethod
    def charge(self, event: Event, *, seeded: bool = False, release: str | None = None) -> str:
        """Add ``event`` before anything is computed, or return why not; of two requests at once one is first.

        ``seeded`` where the noise can be repeated. The charge of a named release, whose answer is to be on record
        before it leaves, is open until `settle`: to compute it again costs nothing more. An account that cannot be used
        now raises `MachineError`: nobody can tell whether it covers the event.
        """

    @abstractmethod
    def settle(self, release: str, answer: str) -> None:
        """Close the charge of a release for its answer, of this digest, before that leaves for the first time.

        Raises `MachineError` if that cannot be written down, there is no such charge, or it was closed for another
        answer: this one must not leave.
        """


class PartyBudget(Account):
    """A party's account: it is charged before anything is computed, and refuses what it does not cover.

    The same account goes with every selection of the party's rows. It lives as long as the process.

    ``limit``: None allows everything.
    """

    def __init__(self, limit: Any = None) -> None:
        self.epsilon, self.delta = math.inf, 0.0
        if limit is not None:
            try:
                epsilon, delta = in_order("budget", limit)
            except ValueError:
                raise ParameterError(f"budget must be a pair (epsilon, delta) or None; got {limit!r}.") from None
            self.epsilon = number("budget[0]", epsilon, at_least=0.0)
            self.delta = number("budget[1]", delta, at_least=0.0, below=1.0)
        self._events: list[Event] = []
        self._open: set[str] = set()
        self._lock = Lock()

    @property
    def spent(self) -> Event:
        if any(isinstance(event, NonPrivateEvent) for event in self._events):
            return NonPrivateEvent()
        return compose(*self._events)

    def shortage(self, event: Event) -> str:
        if not self.is_limited:
            return ""
        if isinstance(event, NothingReleased):
            return ""
        cost = self._cost(event)
        if cost <= self.epsilon * (1.0 + 1e-9):
            return ""
        return f"its budget is {self.limit}, and this would bring what was spent to epsilon={cost:.6g}"

    def charge(self, event: Event, *, seeded: bool = False, release: str | None = None) -> str:
        with self._lock:
            if release in self._open:
                return ""
            shortage = self.shortage(event)
            if not shortage:
                self._events.append(event)
                self._open |= set() if release is None or not self.is_limited else {release}
        return shortage

    def settle(self, release: str, answer: str) -> None:
        self._open.discard(release)  # one object has the journal with the answer, and with it the name

    def _cost(self, event: Event) -> float:
        """Return the epsilon that a budget would have to have to cover ``event`` on top of what was spent.

        By a privacy filter: the next training may be chosen by the results of those before it.
        """
        if self.epsilon == 0.0:  # no filter has it; what each one moves probabilities by adds up, however it is chosen
            moved = math.fsum(accountant_for(each).delta(each, 0.0) for each in (*self._events, event))
            return 0.0 if moved <= self.delta * (1.0 + 1e-9) else math.inf
        releases = [Release(each, _BASIC_SHARE * self.delta) for each in (*self._events, event)]
        return PrivacyFilter(epsilon=min(self.epsilon, MAX_EPSILON), delta=self.delta).spent(releases)


class LedgerBudget(Account):
    """A party's account in a ledger: charged on disk before anything is computed.

    The data set stands for the people of this party's table, and its unit is one person's row of these columns; charges
    are made for "replace-one" neighbours. Whoever charges the same data set, this party in another process included,
    finds what was spent. What is charged stays charged.

    Parameters
    ----------
    ledger : Ledger or str
        Or its address, such as ``"sqlite:///clinic.db"``.
    dataset : str
        A data set that was created with ``adjacency="replace-one"``.
    name : str
        Of the party, for the record.
    coordinator : str or None
        For whom releases are made, for the record.
    cap : float or None
        What this coordinator may be told in all, over all runs: an epsilon at the delta of the data set, by its rule.

    Raises
    ------
    LedgerError
        If the ledger or the data set is not there.
    ParameterError
        If the data set was made for other neighbours or for persons of several rows, or a parameter is of the wrong
        kind.

    Attributes
    ----------
    head : str
        Hash of the last entry of the ledger that this object made, or found when it was made.
    """

    def __init__(
        self, ledger: Any, dataset: Any, *, name: str, coordinator: str | None = None, cap: float | None = None
    ) -> None:
        is_charged(ledger, dataset)
        self._book: Ledger = Ledger(ledger) if isinstance(ledger, str) else ledger
        self.dataset: str = dataset
        self._name = name
        known = self._book.datasets()
        if dataset not in known:
            raise LedgerError(
                f"dataset {dataset!r} is not in this ledger; make it first: sottovoce ledger create, or "
                "Ledger.create(..., adjacency='replace-one')."
            )
        made = known[dataset]
        if made.adjacency is not Adjacency.REPLACE_ONE or made.unit != ROW_UNIT:  # else noticed after labels have left
            raise ParameterError(
                f"dataset {dataset!r} counts {made.adjacency.value!r} neighbours; its unit is {made.unit!r}. What a "
                "party releases is charged for 'replace-one' and a row. Create another data set: sottovoce ledger "
                "create --adjacency replace-one --unit row (in Python adjacency='replace-one', unit='row')."
            )
        self.epsilon, self.delta, self._rule = made.epsilon, made.delta, made.filter
        self.takes_seeds = made.allow_nonprivate
        self.head = self._book.head()
        if cap is not None and coordinator is None:
            raise ParameterError(f"cap={cap!r} is for one coordinator: give its name, coordinator=...")
        self.coordinator = coordinator
        self._cap: PrivacyFilter | None = None
        if cap is not None:
            cap = number("cap", cap, above=0.0, at_most=self.epsilon, remedy="The budget is no larger.")
            self._cap = PrivacyFilter(cap, self.delta, made.composition)

    @property
    def spent(self) -> Event:
        """Everything that was charged to the data set, by anybody; for the party's own eyes."""
        return compose(*(charge.event for charge in self._book.history(self.dataset) if charge.counts))

    def holds(self, entry: str) -> bool:
        """Tell whether the ledger still has an entry of this hash."""
        return self._book.holds(entry)

    def shortage(self, event: Event) -> str:
        if isinstance(event, NothingReleased):
            return ""
        if NonPrivateEvent() in flatten(event):
            return f"its budget is {self.limit}, and this would release something without noise"
        with self._usable():
            cost = self._book.would_spend(self.dataset, Release(event, self._delta))
            if not self._rule.covers(cost):
                return f"its budget is {self.limit}, and this would bring what was spent to epsilon={cost:.6g}"
            try:
                self._check_cap(partial(self._book.would_spend, self.dataset), event)
            except BudgetError as error:
                return str(error)
        return ""

    def _check_cap(self, spent: Callable[..., float], event: Event) -> None:
        """Raise `BudgetError` where this coordinator may not be told so much beside what it was charged for."""
        if self._cap is None:
            return
        own = partial(spent, rule=self._cap, coordinator=self.coordinator)
        cost = own(Release(event, self._delta))
        if not self._cap.covers(cost):
            raise BudgetError(
                f"its owner allows coordinator {self.coordinator!r} epsilon={self._cap.epsilon!r} at "
                f"delta={self.delta!r} in all, and this would bring what it was told to epsilon={cost:.6g}",
                budget=(self._cap.epsilon, self.delta), spent=own(), asked=cost,
            )  # fmt: skip

    def charge(self, event: Event, *, seeded: bool = False, release: str | None = None) -> str:
        """Charge ``event`` on disk, or return why not; of two requests at once, anywhere, one is first."""
        if isinstance(event, NothingReleased):
            return ""
        if release is not None:
            with self._usable():
                found = self._book.find(self.dataset, release)
                if found is not None and found[1].state == "reserved":
                    return ""
        shortage = self.shortage(event)
        if shortage:
            return shortage
        try:
            with self._usable():
                charge = self._book.reserve(
                    self.dataset, event, delta=self._delta, adjacency=Adjacency.REPLACE_ONE, seeded=seeded,
                    plan=self._record(release), admits=lambda spent: self._check_cap(spent, event),
                    final=release is None,
                )  # fmt: skip
        except BudgetError:  # somebody else was first
            return self.shortage(event) or f"its budget is {self.limit}, and what others charged leaves too little"
        self.head = charge.hash
        return ""

    def settle(self, release: str, answer: str) -> None:
        with self._usable():
            found = self._book.close_for(self.dataset, release, answer)
        if found is None:
            raise MachineError(_UNKNOWN)
        charge, record = found
        if record.note != answer:
            raise MachineError(_GIVEN_BACK if record.state == "cancelled" else _ANSWERED)
        self.head = charge.hash

    @contextmanager
    def _usable(self) -> Iterator[None]:
        """Tell a ledger that cannot be read or written apart from one that says no."""
        try:
            yield
        except BudgetError:
            raise
        except SottovoceError:
            _LOG.exception("the ledger of party %r", self._name)
            raise MachineError(_NO_LEDGER) from None

    def _record(self, release: str | None) -> dict[str, object]:
        known = {"party": self._name, "coordinator": self.coordinator, "run": release}
        return {what: value for what, value in known.items() if value is not None}

    @property
    def _delta(self) -> float:
        return _BASIC_SHARE * self.delta
