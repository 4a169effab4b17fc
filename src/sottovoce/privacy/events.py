"""What was released, as immutable data: mechanisms emit events, accountants turn them into epsilon and delta.

An event carries everything an accountant needs and nothing else, so that the same record can be accounted again later
by a tighter accountant. The meaning of a kind of event never changes once it was released: a new meaning is a new kind.
Constructors refuse nonsense (negative noise, a probability above 1, a count of -5), because one such value inside a
composition can lower the epsilon of everything around it.

Noise multipliers are relative to the L2 sensitivity for the adjacency that the guarantee states: the mechanism knows
the adjacency, the event does not need to.
"""

import math
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from sottovoce._validation import number, whole_number
from sottovoce.exceptions import AccountingError, ParameterError
from sottovoce.privacy.trials import TrialCount

__all__ = [
    "BoundedRangeEvent",
    "ComposedEvent",
    "Event",
    "GaussianEvent",
    "NonPrivateEvent",
    "NothingReleased",
    "ObjectivePerturbationEvent",
    "PoissonSampledEvent",
    "PureEvent",
    "RandomizedResponseEvent",
    "RepeatAndSelectEvent",
    "RepeatedEvent",
    "compose",
    "describe",
    "event_from_dict",
]


@dataclass(frozen=True)
class Event:
    """Base of all events; `kind` is the name under which an event is stored."""

    kind: ClassVar[str]

    def to_dict(self) -> dict[str, object]:
        """Return the event as plain data for JSON."""
        raise NotImplementedError


@dataclass(frozen=True)
class NothingReleased(Event):
    """Nothing that depends on the data was released."""

    kind: ClassVar[str] = "nothing"

    def to_dict(self) -> dict[str, object]:
        """Return the event as plain data for JSON."""
        return {"kind": self.kind}


@dataclass(frozen=True)
class NonPrivateEvent(Event):
    """Something was released without protection: epsilon is infinite."""

    kind: ClassVar[str] = "non-private"

    def to_dict(self) -> dict[str, object]:
        """Return the event as plain data for JSON."""
        return {"kind": self.kind}


@dataclass(frozen=True)
class GaussianEvent(Event):
    """One release of a vector plus Gaussian noise.

    Parameters
    ----------
    noise_multiplier : float, > 0
        Standard deviation of the noise divided by the L2 sensitivity (no unit). ``inf`` releases nothing.
    """

    noise_multiplier: float
    kind: ClassVar[str] = "gaussian"

    def __post_init__(self) -> None:
        value = number("noise_multiplier", self.noise_multiplier, above=0.0, infinite=True)
        object.__setattr__(self, "noise_multiplier", value)

    def to_dict(self) -> dict[str, object]:
        """Return the event as plain data for JSON."""
        return {"kind": self.kind, "noise_multiplier": _plain(self.noise_multiplier)}


@dataclass(frozen=True)
class ObjectivePerturbationEvent(Event):
    """One release of the exact minimiser of a sum of losses plus a quadratic penalty plus a random linear term.

    For neighbours that differ by the presence of one row, whose loss is a convex function of one linear score with a
    derivative of one sign (``docs/privacy/objective_perturbation.md``).

    Parameters
    ----------
    noise_multiplier : float, > 0
        Standard deviation of the linear term divided by the largest gradient of one row's loss (no unit).
    curvature_ratio : float, >= 0
        Largest second derivative of one row's loss, in any direction, divided by the penalty (no unit).
    """

    noise_multiplier: float
    curvature_ratio: float
    kind: ClassVar[str] = "objective-perturbation"

    def __post_init__(self) -> None:
        noise = number("noise_multiplier", self.noise_multiplier, above=0.0)
        object.__setattr__(self, "noise_multiplier", noise)
        object.__setattr__(self, "curvature_ratio", number("curvature_ratio", self.curvature_ratio, at_least=0.0))

    def to_dict(self) -> dict[str, object]:
        """Return the event as plain data for JSON."""
        return {
            "kind": self.kind,
            "noise_multiplier": self.noise_multiplier,
            "curvature_ratio": self.curvature_ratio,
        }


@dataclass(frozen=True)
class RandomizedResponseEvent(Event):
    """One release of one bit a person, kept with probability e^epsilon / (1 + e^epsilon) and flipped otherwise.

    For neighbours in which the person has a bit in both tables, which may differ; everybody's coin is their own.

    Parameters
    ----------
    epsilon : float, in (0, 1e300]
        Logarithm of the ratio of the two probabilities. Public bits (``inf``) are no event and are refused.
    """

    epsilon: float
    kind: ClassVar[str] = "randomized-response"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", number("epsilon", self.epsilon, above=0.0, at_most=1e300))

    def to_dict(self) -> dict[str, object]:
        """Return the event as plain data for JSON."""
        return {"kind": self.kind, "epsilon": self.epsilon}


@dataclass(frozen=True)
class PureEvent(Event):
    """One release that is epsilon-DP with delta = 0, whatever else it is; such as a report under local privacy.

    Every such release is post-processing of a randomised response of the same epsilon (Kairouz, Oh, Viswanath 2015),
    and is accounted as one.

    Parameters
    ----------
    epsilon : float, in (0, 1e300]
        Bound on |log P(o)/Q(o)| over all outputs o and all neighbours.
    """

    epsilon: float
    kind: ClassVar[str] = "pure"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", number("epsilon", self.epsilon, above=0.0, at_most=1e300))

    def to_dict(self) -> dict[str, object]:
        """Return the event as plain data for JSON."""
        return {"kind": self.kind, "epsilon": self.epsilon}


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

    epsilon: float
    kind: ClassVar[str] = "bounded-range"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", number("epsilon", self.epsilon, above=0.0, at_most=1e6))

    def to_dict(self) -> dict[str, object]:
        """Return the event as plain data for JSON."""
        return {"kind": self.kind, "epsilon": self.epsilon}


@dataclass(frozen=True)
class PoissonSampledEvent(Event):
    """A Gaussian release computed on a secret sample: each row is in it with probability ``sampling_rate``, on its own.

    Parameters
    ----------
    sampling_rate : float, in [0, 1]
    event : GaussianEvent
    """

    sampling_rate: float
    event: GaussianEvent
    kind: ClassVar[str] = "poisson-sampled"

    def __post_init__(self) -> None:
        value = number("sampling_rate", self.sampling_rate, at_least=0.0, at_most=1.0)
        object.__setattr__(self, "sampling_rate", value)
        if not isinstance(self.event, GaussianEvent):
            raise ParameterError(
                f"event must be a GaussianEvent (amplification by sampling is accounted for no other); "
                f"got {self.event!r}."
            )

    def to_dict(self) -> dict[str, object]:
        """Return the event as plain data for JSON."""
        return {"kind": self.kind, "sampling_rate": self.sampling_rate, "event": self.event.to_dict()}


@dataclass(frozen=True)
class RepeatedEvent(Event):
    """The same kind of release, ``count`` times, each chosen with the results of those before it in sight.

    Parameters
    ----------
    event : Event
    count : int, >= 0
    """

    event: Event
    count: int
    kind: ClassVar[str] = "repeated"

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", whole_number("count", self.count, at_least=0))
        if not isinstance(self.event, Event):
            raise ParameterError(f"event must be an Event; got {self.event!r}.")

    def to_dict(self) -> dict[str, object]:
        """Return the event as plain data for JSON."""
        return {"kind": self.kind, "count": self.count, "event": self.event.to_dict()}


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

    event: Event
    mean: float
    shape: float
    kind: ClassVar[str] = "repeat-and-select"

    def __post_init__(self) -> None:
        law = TrialCount(self.mean, self.shape)
        object.__setattr__(self, "mean", law.mean)
        object.__setattr__(self, "shape", law.shape)
        if not isinstance(self.event, Event):
            raise ParameterError(f"event must be an Event; got {self.event!r}.")

    def to_dict(self) -> dict[str, object]:
        """Return the event as plain data for JSON."""
        return {"kind": self.kind, "mean": self.mean, "shape": _plain(self.shape), "event": self.event.to_dict()}


@dataclass(frozen=True)
class ComposedEvent(Event):
    """Several releases about the same table, each chosen with the results of those before it in sight.

    Parameters
    ----------
    events : tuple of Event
    """

    events: tuple[Event, ...]
    kind: ClassVar[str] = "composed"

    def __post_init__(self) -> None:
        try:
            events = tuple(self.events)
        except TypeError:
            raise ParameterError(f"events must be a tuple of Event objects; got {self.events!r}.") from None
        for event in events:
            if not isinstance(event, Event):
                raise ParameterError(f"events must hold Event objects only; got {event!r}.")
        object.__setattr__(self, "events", events)

    def to_dict(self) -> dict[str, object]:
        """Return the event as plain data for JSON."""
        return {"kind": self.kind, "events": [event.to_dict() for event in self.events]}


def compose(*events: Event) -> Event:
    """Return the composition of ``events``, without a wrapper where none is needed."""
    kept = tuple(event for event in events if not isinstance(event, NothingReleased))
    if not kept:
        return NothingReleased()
    return kept[0] if len(kept) == 1 else ComposedEvent(kept)


def describe(event: Event) -> str:
    """Return the event in words, one line a release."""
    match event:
        case NothingReleased():
            return "nothing"
        case NonPrivateEvent():
            return "a release without protection"
        case GaussianEvent():
            return f"Gaussian release, noise multiplier {event.noise_multiplier:.6g}"
        case ObjectivePerturbationEvent():
            return (
                f"minimiser of a perturbed objective, noise multiplier {event.noise_multiplier:.6g}, curvature ratio "
                f"{event.curvature_ratio:.6g}"
            )
        case PureEvent():
            return f"one release of pure differential privacy, epsilon {event.epsilon:.6g}"
        case RandomizedResponseEvent():
            return f"randomised response of one bit, epsilon {event.epsilon:.6g}"
        case BoundedRangeEvent():
            return f"exponential mechanism of bounded range {event.epsilon:.6g}"
        case PoissonSampledEvent():
            return f"{describe(event.event)}, on a secret Poisson sample at rate {event.sampling_rate:.6g}"
        case RepeatedEvent():
            inner = describe(event.event)
            if "\n" not in inner:
                return f"{event.count} times: {inner}"
            return f"{event.count} times all of:\n{textwrap.indent(inner, '  ')}"
        case RepeatAndSelectEvent():
            law = "Poisson" if math.isinf(event.shape) else f"negative binomial of shape {event.shape:g}"
            head = f"the best of a random, secret number of runs ({law}, never 0, mean {event.mean:g}), each:"
            return f"{head}\n{textwrap.indent(describe(event.event), '  ')}"
        case ComposedEvent():
            return "\n".join(describe(part) for part in event.events)
        case _:
            return repr(event)


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
    if not isinstance(data, Mapping) or not isinstance(kind, str) or kind not in _READERS:
        known = ", ".join(sorted(_READERS))
        raise AccountingError(f"not an event of a known kind ({known}): {data!r}.")
    try:
        return _READERS[kind](data)
    except KeyError as error:
        raise AccountingError(f"a stored event of kind {kind!r} is incomplete: it has no {error}.") from error
    except RecursionError:
        raise AccountingError("a stored event is nested too deeply.") from None


def _gaussian(data: Mapping[str, object]) -> GaussianEvent:
    if data.get("kind") != GaussianEvent.kind:
        raise AccountingError(f"expected an event of kind 'gaussian'; got {data!r}.")
    return GaussianEvent(_number(data["noise_multiplier"]))


def _objective(data: Mapping[str, object]) -> ObjectivePerturbationEvent:
    return ObjectivePerturbationEvent(data["noise_multiplier"], data["curvature_ratio"])  # type: ignore[arg-type]


def _response(data: Mapping[str, object]) -> RandomizedResponseEvent:
    return RandomizedResponseEvent(data["epsilon"])  # type: ignore[arg-type]


def _pure(data: Mapping[str, object]) -> PureEvent:
    return PureEvent(data["epsilon"])  # type: ignore[arg-type]


def _bounded_range(data: Mapping[str, object]) -> BoundedRangeEvent:
    return BoundedRangeEvent(data["epsilon"])  # type: ignore[arg-type]


def _poisson(data: Mapping[str, object]) -> PoissonSampledEvent:
    inner = data["event"]
    if not isinstance(inner, Mapping):
        raise AccountingError(f"expected an event of kind 'gaussian'; got {inner!r}.")
    return PoissonSampledEvent(_number(data["sampling_rate"]), _gaussian(inner))


def _repeated(data: Mapping[str, object]) -> RepeatedEvent:
    return RepeatedEvent(event_from_dict(data["event"]), data["count"])  # type: ignore[arg-type]


def _repeat_and_select(data: Mapping[str, object]) -> RepeatAndSelectEvent:
    return RepeatAndSelectEvent(event_from_dict(data["event"]), _number(data["mean"]), _number(data["shape"]))


def _composed(data: Mapping[str, object]) -> ComposedEvent:
    events = data["events"]
    if not isinstance(events, list):
        raise AccountingError(f"'events' of a composed event must be a list; got {events!r}.")
    return ComposedEvent(tuple(event_from_dict(item) for item in events))


_READERS: dict[str, Callable[[Mapping[str, object]], Event]] = {
    NothingReleased.kind: lambda data: NothingReleased(),
    NonPrivateEvent.kind: lambda data: NonPrivateEvent(),
    GaussianEvent.kind: _gaussian,
    ObjectivePerturbationEvent.kind: _objective,
    RandomizedResponseEvent.kind: _response,
    PureEvent.kind: _pure,
    BoundedRangeEvent.kind: _bounded_range,
    PoissonSampledEvent.kind: _poisson,
    RepeatedEvent.kind: _repeated,
    RepeatAndSelectEvent.kind: _repeat_and_select,
    ComposedEvent.kind: _composed,
}


def _plain(value: float) -> float | str:
    return value if math.isfinite(value) else "inf"


def _number(value: object) -> float:
    return math.inf if value == "inf" else value  # type: ignore[return-value]  # the constructor checks it
