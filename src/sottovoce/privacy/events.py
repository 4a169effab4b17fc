"""What was released, as immutable data: mechanisms emit events, accountants turn them into epsilon and delta.

An event carries everything an accountant needs and nothing else, so that the same record can be accounted again later
by a tighter accountant. The meaning of a kind of event never changes once it was released: a new meaning is a new kind.
Constructors refuse nonsense (negative noise, a probability above 1, a count of -5), because one such value inside a
composition can lower the epsilon of everything around it.

A kind of event is one class: its fields, annotated with what checks them, are also how it is stored and read back.

Noise multipliers are relative to the L2 sensitivity for the adjacency that the guarantee states: the mechanism knows
the adjacency, the event does not need to.
"""

import math
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import partial
from itertools import groupby
from numbers import Real
from typing import Annotated, Any, ClassVar, NamedTuple

from sottovoce._validation import number, whole_number
from sottovoce.exceptions import AccountingError, ParameterError
from sottovoce.privacy.trials import MOST_TRIALS, TrialCount

__all__ = [
    "KINDS",
    "BoundedRangeEvent",
    "ComposedEvent",
    "Event",
    "GaussianEvent",
    "NonPrivateEvent",
    "NothingReleased",
    "PoissonSampledEvent",
    "PureEvent",
    "RandomizedResponseEvent",
    "RepeatAndSelectEvent",
    "RepeatedEvent",
    "compose",
    "describe",
    "event_from_dict",
    "outline",
    "releases_of",
]


class _Rule(NamedTuple):
    """What the value of a field is checked with, and read from plain data with."""

    check: Callable[[str, Any], Any]
    read: Callable[[Any], Any] = lambda value: math.inf if value == "inf" else value


@dataclass(frozen=True)
class Event:
    """Base of all events; `kind` is the name under which an event is stored, `words` what it says to people."""

    kind: ClassVar[str]
    words: ClassVar[str] = ""

    def __post_init__(self) -> None:
        for name, rule in self._rules():
            object.__setattr__(self, name, rule.check(name, getattr(self, name)))

    @classmethod
    def _rules(cls) -> list[tuple[str, _Rule]]:
        return [(field.name, field.type.__metadata__[0]) for field in fields(cls)]  # type: ignore[union-attr]

    def to_dict(self) -> dict[str, object]:
        """Return the event as plain data for JSON: its numbers, then the events in it."""
        values = vars(self).items()
        numbers = {name: "inf" if value == math.inf else value for name, value in values if isinstance(value, Real)}
        parts = {name: _plain(value) for name, value in values if name not in numbers}
        return {"kind": self.kind, **numbers, **parts}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Event":
        """Rebuild an event of this kind; see `event_from_dict`."""
        return cls(**{name: rule.read(data[name]) for name, rule in cls._rules()})

    def describe(self) -> str:
        """Return the event in words, one line a release."""
        return self.words.format(**vars(self)) if self.words else repr(self)


def _plain(value: Any) -> object:
    return [event.to_dict() for event in value] if isinstance(value, tuple) else value.to_dict()


@dataclass(frozen=True)
class NothingReleased(Event):
    """Nothing that depends on the data was released."""

    kind: ClassVar[str] = "nothing"
    words: ClassVar[str] = "nothing"


@dataclass(frozen=True)
class NonPrivateEvent(Event):
    """Something was released without protection: epsilon is infinite."""

    kind: ClassVar[str] = "non-private"
    words: ClassVar[str] = "a release without protection"


@dataclass(frozen=True)
class GaussianEvent(Event):
    """One release of a vector plus Gaussian noise.

    Parameters
    ----------
    noise_multiplier : float, > 0
        Standard deviation of the noise divided by the L2 sensitivity (no unit). ``inf`` releases nothing.
    """

    noise_multiplier: Annotated[float, _Rule(partial(number, above=0.0, infinite=True))]
    kind: ClassVar[str] = "gaussian"
    words: ClassVar[str] = "Gaussian release, noise multiplier {noise_multiplier:.6g}"


@dataclass(frozen=True)
class RandomizedResponseEvent(Event):
    """One release of one bit a person, kept with probability e^epsilon / (1 + e^epsilon) and flipped otherwise.

    For neighbours in which the person has a bit in both tables, which may differ; everybody's coin is their own.

    Parameters
    ----------
    epsilon : float, in (0, 1e300]
        Logarithm of the ratio of the two probabilities. Public bits (``inf``) are no event and are refused.
    """

    epsilon: Annotated[float, _Rule(partial(number, above=0.0, at_most=1e300))]
    kind: ClassVar[str] = "randomized-response"
    words: ClassVar[str] = "randomised response of one bit, epsilon {epsilon:.6g}"


@dataclass(frozen=True)
class PureEvent(Event):
    """One release that is epsilon-DP with delta = 0, whatever else it is; such as a report under local privacy.

    Every such release is post-processing of a randomised response of the same epsilon (Kairouz, Oh, Viswanath 2015),
    and is accounted as one.

    Parameters
    ----------
    epsilon : float, in (0, 1e300]
        Bound on ``|log P(o)/Q(o)|`` over all outputs o and all neighbours.
    """

    epsilon: Annotated[float, _Rule(partial(number, above=0.0, at_most=1e300))]
    kind: ClassVar[str] = "pure"
    words: ClassVar[str] = "one release of pure differential privacy, epsilon {epsilon:.6g}"


@dataclass(frozen=True)
class BoundedRangeEvent(Event):
    """One release by the exponential mechanism, or any other whose privacy losses lie in one window of this width.

    For every pair of neighbours there is a t with log P(o)/Q(o) in [t - epsilon, t] for all outputs o; t may differ
    from pair to pair.

    Parameters
    ----------
    epsilon : float, in (0, 1e6]
        Width of the window. One release by itself is epsilon-DP.
    """

    epsilon: Annotated[float, _Rule(partial(number, above=0.0, at_most=1e6))]
    kind: ClassVar[str] = "bounded-range"
    words: ClassVar[str] = "exponential mechanism of bounded range {epsilon:.6g}"


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
    except KeyError as error:
        raise AccountingError(f"a stored event of kind {kind!r} is incomplete: it has no {error}.") from error
    except RecursionError:
        raise AccountingError("a stored event is nested too deeply.") from None


def _event(name: str, value: object) -> Event:
    if not isinstance(value, Event):
        raise ParameterError(f"{name} must be an Event; got {value!r}.")
    return value


def _gaussian(name: str, value: object) -> GaussianEvent:
    if not isinstance(value, GaussianEvent):
        raise ParameterError(
            f"{name} must be a GaussianEvent (amplification by sampling is accounted for no other); got {value!r}."
        )
    return value


def _gaussian_from_dict(data: object) -> Event:
    if not isinstance(data, Mapping) or data.get("kind") != GaussianEvent.kind:
        raise AccountingError(f"expected an event of kind 'gaussian'; got {data!r}.")
    return event_from_dict(data)


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
class PoissonSampledEvent(Event):
    """A Gaussian release computed on a secret sample: each row is in it with probability ``sampling_rate``, on its own.

    Parameters
    ----------
    sampling_rate : float, in [0, 1]
    event : GaussianEvent
    """

    sampling_rate: Annotated[float, _Rule(partial(number, at_least=0.0, at_most=1.0))]
    event: Annotated[GaussianEvent, _Rule(_gaussian, _gaussian_from_dict)]
    kind: ClassVar[str] = "poisson-sampled"

    def describe(self) -> str:
        return f"{self.event.describe()}, on a secret Poisson sample at rate {self.sampling_rate:.6g}"


@dataclass(frozen=True)
class RepeatedEvent(Event):
    """The same kind of release, ``count`` times, each chosen with the results of those before it in sight.

    Parameters
    ----------
    event : Event
    count : int, >= 0
    """

    event: Annotated[Event, _Rule(_event, event_from_dict)]
    count: Annotated[int, _Rule(partial(whole_number, at_least=0))]
    kind: ClassVar[str] = "repeated"

    def describe(self) -> str:
        inner = self.event.describe()
        if "\n" not in inner:
            return f"{self.count} times: {inner}"
        return f"{self.count} times all of:\n{textwrap.indent(inner, '  ')}"


@dataclass(frozen=True)
class RepeatAndSelectEvent(Event):
    """The best of K runs of the same mechanism; K is random and secret, and the other runs are not released.

    Parameters
    ----------
    event : Event
        One run, its score included.
    mean : float, in [1, 1e6]
        Expected number of runs.
    shape : float, >= 0
        Law of K, never 0: truncated negative binomial of this shape (0 logarithmic, 1 geometric), or the
        zero-truncated Poisson distribution for ``inf``; see `sottovoce.privacy.trials.TrialCount`.
    """

    event: Annotated[Event, _Rule(_event, event_from_dict)]
    mean: Annotated[float, _Rule(partial(number, at_least=1.0, at_most=MOST_TRIALS))]
    shape: Annotated[float, _Rule(partial(number, at_least=0.0, infinite=True))]
    kind: ClassVar[str] = "repeat-and-select"

    def __post_init__(self) -> None:
        super().__post_init__()
        TrialCount(self.mean, self.shape)  # refuses what is too large

    def describe(self) -> str:
        law = "Poisson" if math.isinf(self.shape) else f"negative binomial of shape {self.shape:g}"
        head = f"the best of a random, secret number of runs ({law}, never 0, mean {self.mean:g}), each:"
        return f"{head}\n{textwrap.indent(self.event.describe(), '  ')}"


@dataclass(frozen=True)
class ComposedEvent(Event):
    """Several releases about the same table, each chosen with the results of those before it in sight.

    Parameters
    ----------
    events : tuple of Event
    """

    events: Annotated[tuple[Event, ...], _Rule(_events, _events_from_dict)]
    kind: ClassVar[str] = "composed"

    def describe(self) -> str:
        return "\n".join(part.describe() for part in self.events)


def compose(*events: Event) -> Event:
    """Return the composition of ``events``, without a wrapper where none is needed."""
    kept = tuple(event for event in events if not isinstance(event, NothingReleased))
    if not kept:
        return NothingReleased()
    return kept[0] if len(kept) == 1 else ComposedEvent(kept)


def releases_of(event: Event, times: int = 1) -> Iterator[tuple[Event, int]]:
    """Yield what an event is composed of, in order, and how often it happens; a search is one release."""
    match event:
        case NothingReleased():
            return
        case ComposedEvent():
            for part in event.events:
                yield from releases_of(part, times)
        case RepeatedEvent():
            if event.count:
                yield from releases_of(event.event, times * event.count)
        case _:
            yield event, times


def describe(event: Event) -> str:
    """Return the event in words, one line a release."""
    return event.describe()


def outline(event: Event) -> str:
    """Return the event in words, one line for Gaussian releases that follow each other; what is accounted is the event.

    Schedules of noise have a multiplier of their own for each release: `describe` lists them all.
    """
    lines = []
    for is_gaussian, parts in groupby(releases_of(event), lambda part: isinstance(part[0], GaussianEvent)):
        listed = list(parts)
        if not is_gaussian:
            lines += [describe(release if times == 1 else RepeatedEvent(release, times)) for release, times in listed]
            continue
        noise = [release.noise_multiplier for release, _ in listed if isinstance(release, GaussianEvent)]
        count, least, most = sum(times for _, times in listed), f"{min(noise):.6g}", f"{max(noise):.6g}"
        releases = "1 Gaussian release" if count == 1 else f"{count} Gaussian releases"
        spread = f"noise multiplier {least}" if least == most else f"noise multipliers {least} to {most}"
        lines.append(f"{releases}, {spread}")
    return "\n".join(lines) or describe(NothingReleased())


# a closed list: nothing is imported by name
KINDS: dict[str, type[Event]] = {kind.kind: kind for kind in Event.__subclasses__()}
