"""What was released, as immutable data: mechanisms emit events, accountants turn them into epsilon and delta.

An event carries everything an accountant needs and nothing else, so that the same record can be accounted again later
by a tighter accountant. The meaning of a kind of event never changes once it was released: a new meaning is a new kind.
Constructors refuse nonsense (negative noise, a probability above 1, a count of -5), because one such value inside a
composition can lower the epsilon of everything around it.

Here are what events are composed of and how they are read back; a kind of release stands beside its privacy loss, in
`sottovoce.privacy.profiles`, and is entered in the list of kinds by being imported here.

Noise multipliers are relative to the L2 sensitivity for the adjacency that the guarantee states: the mechanism knows
the adjacency, the event does not need to.
"""

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Annotated, Any, ClassVar

from sottovoce._validation import number, whole_number
from sottovoce.exceptions import AccountingError, ParameterError
from sottovoce.privacy.event import KINDS, Basic, Event, Offers, Rule, dp_accounting, flatten, ordered
from sottovoce.privacy.profiles.bounded_range import BoundedRangeEvent
from sottovoce.privacy.profiles.gaussian import GaussianEvent, PoissonSampledEvent
from sottovoce.privacy.profiles.response import PureEvent, RandomizedResponseEvent
from sottovoce.privacy.trials import MOST_TRIALS, TrialCount

__all__ = [
    "KINDS", "BoundedRangeEvent", "ComposedEvent", "Event", "GaussianEvent", "NonPrivateEvent", "NothingReleased",
    "PoissonSampledEvent", "PureEvent", "RandomizedResponseEvent", "RepeatAndSelectEvent",
    "RepeatedEvent", "compose", "event_from_dict", "outline",
]  # fmt: skip


@dataclass(frozen=True)
class NothingReleased(Event):
    """Nothing that depends on the data was released."""

    kind: ClassVar[str] = "nothing"
    words: ClassVar[str] = "nothing"

    def releases(self, times: int = 1) -> Iterator[tuple[Event, int]]:
        return iter(())

    def to_dp_event(self, conservative: bool) -> Any:
        return dp_accounting("dp_event").NoOpDpEvent()


@dataclass(frozen=True)
class NonPrivateEvent(Basic):
    """Something was released without protection: epsilon is infinite."""

    kind: ClassVar[str] = "non-private"
    words: ClassVar[str] = "a release without protection"

    @property
    def offers(self) -> Offers:
        return Offers(protected=False)

    def to_dp_event(self, conservative: bool) -> Any:
        return dp_accounting("dp_event").NonPrivateDpEvent()


def event_from_dict(data: object) -> Event:
    """Rebuild an event from plain data; the kinds are a closed list, nothing is imported by name.

    Raises
    ------
    AccountingError
        If the data are not an event of a kind that this version knows.
    ParameterError
        If a number of the event is out of range.
    """
    kind = data.get("kind") if isinstance(data, Mapping) else None
    if not isinstance(data, Mapping) or not isinstance(kind, str) or kind not in KINDS:
        known = ", ".join(sorted(KINDS))
        raise AccountingError(f"not an event of a known kind ({known}): {data!r}.")
    try:
        return KINDS[kind].from_dict(data)
    except RecursionError:
        raise AccountingError("a stored event is nested too deeply.") from None


def _event(name: str, value: object) -> Event:
    if not isinstance(value, Event):
        raise ParameterError(f"{name} must be an Event; got {value!r}.")
    return value


def _events(name: str, value: Any) -> tuple[Event, ...]:
    try:
        events = tuple(value)
    except TypeError:
        raise ParameterError(f"{name} must be a tuple of Event objects; got {value!r}.") from None
    for event in events:
        if not isinstance(event, Event):
            raise ParameterError(f"{name} must hold Event objects only; got {event!r}.")
    return events


def _events_from_dict(data: object) -> tuple[Event, ...]:
    if not isinstance(data, list):
        raise AccountingError(f"'events' of a composed event must be a list; got {data!r}.")
    return tuple(map(event_from_dict, data))


@dataclass(frozen=True)
class RepeatedEvent(Event):
    """The same kind of release, ``count`` times, each chosen with the results of those before it in sight.

    Parameters
    ----------
    event : Event
    count : int, >= 0
    """

    event: Annotated[Event, Rule(_event, event_from_dict)]
    count: Annotated[int, Rule(partial(whole_number, at_least=0))]
    kind: ClassVar[str] = "repeated"

    def describe(self) -> str:
        inner = self.event.describe()
        if "\n" not in inner:
            return f"{self.count} times: {inner}"
        return f"{self.count} times all of:\n{textwrap.indent(inner, '  ')}"

    def releases(self, times: int = 1) -> Iterator[tuple[Event, int]]:
        return self.event.releases(times * self.count) if self.count else iter(())

    def to_dp_event(self, conservative: bool) -> Any:
        return dp_accounting("dp_event").SelfComposedDpEvent(self.event.to_dp_event(conservative), self.count)


@dataclass(frozen=True)
class ComposedEvent(Event):
    """Several releases about the same table, each chosen with the results of those before it in sight.

    Parameters
    ----------
    events : tuple of Event
    """

    events: Annotated[tuple[Event, ...], Rule(_events, _events_from_dict)]
    kind: ClassVar[str] = "composed"

    def describe(self) -> str:
        return "\n".join(part.describe() for part in self.events)

    def releases(self, times: int = 1) -> Iterator[tuple[Event, int]]:
        for part in self.events:
            yield from part.releases(times)

    def to_dp_event(self, conservative: bool) -> Any:
        return dp_accounting("dp_event").ComposedDpEvent([part.to_dp_event(conservative) for part in self.events])


@dataclass(frozen=True)
class RepeatAndSelectEvent(Basic):
    """The best of K runs of the same mechanism; K is random and secret, and the other runs are not released.

    Parameters
    ----------
    event : Event
        One run, its score included.
    mean : float, in [1, 1e6]
        Expected number of runs, which is geometric; see `sottovoce.privacy.trials.TrialCount`.
    """

    event: Annotated[Event, Rule(_event, event_from_dict)]
    mean: Annotated[float, Rule(partial(number, at_least=1.0, at_most=MOST_TRIALS))]
    kind: ClassVar[str] = "repeat-and-select"

    def describe(self) -> str:
        head = f"the best of a random, secret number of runs (geometric, mean {self.mean:g}), each:"
        return f"{head}\n{textwrap.indent(self.event.describe(), '  ')}"

    @property
    def offers(self) -> Offers:
        return Offers(search=(self.event, TrialCount(self.mean)))

    def basics(self) -> Iterable[tuple[Basic, int]]:
        inner = flatten(self.event)
        if not all(basic.offers.protected for basic in inner):
            return ((NonPrivateEvent(), 1),)
        if self.mean == 1.0 or not inner:  # one run, always
            return inner.items()
        runs = tuple(RepeatedEvent(basic, often) for basic, often in ordered(inner))
        return ((RepeatAndSelectEvent(ComposedEvent(runs), self.mean), 1),)

    def to_dp_event(self, conservative: bool) -> Any:
        inner = self.event.to_dp_event(conservative)
        if self.mean == 1.0:  # one run, always, is no search
            return inner
        return dp_accounting("dp_event").RepeatAndSelectDpEvent(inner, self.mean, 1.0)


def compose(*events: Event) -> Event:
    """Return the composition of ``events``, without a wrapper where none is needed."""
    kept = tuple(event for event in events if not isinstance(event, NothingReleased))
    if not kept:
        return NothingReleased()
    return kept[0] if len(kept) == 1 else ComposedEvent(kept)


def outline(event: Event) -> str:
    """Return the event in words, one line for Gaussian releases that follow each other; what is accounted is the event.

    Schedules of noise have a multiplier of their own for each release: `Event.describe` lists them all.
    """
    lines = []
    for is_gaussian, parts in groupby(event.releases(), lambda part: isinstance(part[0], GaussianEvent)):
        listed = list(parts)
        if not is_gaussian:
            lines += [(one if times == 1 else RepeatedEvent(one, times)).describe() for one, times in listed]
            continue
        noise = [release.noise_multiplier for release, _ in listed if isinstance(release, GaussianEvent)]
        count, least, most = sum(times for _, times in listed), f"{min(noise):.6g}", f"{max(noise):.6g}"
        releases = "1 Gaussian release" if count == 1 else f"{count} Gaussian releases"
        spread = f"noise multiplier {least}" if least == most else f"noise multipliers {least} to {most}"
        lines.append(f"{releases}, {spread}")
    return "\n".join(lines) or NothingReleased.words


KINDS.update({kind.kind: kind for base in (Event, Basic) for kind in base.__subclasses__() if kind is not Basic})
