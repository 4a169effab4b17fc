"""What an event is, what one release offers to accountants, and what an accountant is.

A kind of event is one class: its fields, annotated with what checks them, are also how it is stored and read back. A
kind of release says itself how it is accounted, so that a new kind is one new class and no accountant changes. An
accountant takes what it can use, and is chosen by what all releases of a run offer.
"""

import contextlib
import math
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib import import_module
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Self

from sottovoce._numerics import Vector
from sottovoce._validation import number
from sottovoce.exceptions import AccountingError

if TYPE_CHECKING:
    from sottovoce.privacy.trials import TrialCount

MOST_SHIFT: Final = 1e5  # mu^2 of a composition
_MOST_RELEASES: Final = 2**53  # more cannot be told apart in double precision


class Rule(NamedTuple):
    """What the value of a field is checked with, and read from plain data with."""

    check: Callable[[str, Any], Any]
    read: Callable[[Any], Any] = lambda value: math.inf if value == "inf" else value


def dp_accounting(module: str) -> Any:
    """Return a module of dp-accounting: it takes long to import, and plain Gaussians need none."""
    return import_module(f"dp_accounting.{module}")


@dataclass(frozen=True)
class Event:
    """Base of all events; `kind` is the name under which an event is stored, `words` what it says to people."""

    kind: ClassVar[str]
    words: ClassVar[str] = ""

    def __post_init__(self) -> None:
        for name, rule in self._rules():
            object.__setattr__(self, name, rule.check(name, getattr(self, name)))

    @classmethod
    @cache
    def _rules(cls) -> list[tuple[str, Rule]]:
        return [(field.name, field.type.__metadata__[0]) for field in fields(cls)]  # type: ignore[union-attr]

    def to_dict(self) -> dict[str, object]:
        """Return the event as plain data for JSON: its numbers, then the events in it."""
        values = vars(self).items()
        numbers = {name: "inf" if value == math.inf else value for name, value in values if isinstance(value, Real)}
        parts = {name: _plain(value) for name, value in values if name not in numbers}
        return {"kind": self.kind, **numbers, **parts}

    @classmethod
    def from_dict(cls, data: object) -> Self:
        """Rebuild an event of this kind; see `sottovoce.privacy.events.event_from_dict`."""
        if not isinstance(data, Mapping) or data.get("kind") != cls.kind:
            raise AccountingError(f"expected an event of kind {cls.kind!r}; got {data!r}.")
        wrong = {"kind", *(name for name, _ in cls._rules())} ^ set(data)
        if wrong:
            said = ", ".join(sorted(map(repr, wrong)))
            raise AccountingError(f"a stored event of kind {cls.kind!r} is incomplete, or has too much: {said}.")
        return cls(**{name: rule.read(data[name]) for name, rule in cls._rules()})

    def describe(self) -> str:
        """Return the event in words, one line a release."""
        return self.words.format(**vars(self)) if self.words else repr(self)

    def releases(self, times: int = 1) -> "Iterator[tuple[Event, int]]":
        """Yield what the event is composed of, in order, and how often it happens; a search is one release."""
        yield self, times

    def to_dp_event(self, conservative: bool) -> Any:
        """Return the event of dp_accounting that is equal; if ``conservative``, one that costs more will do."""
        raise NotImplementedError


class Offers(NamedTuple):
    """What is known of one release beside its Renyi divergences; None and it cannot be accounted in that way."""

    noise: float | None = None  # multiplier of the Gaussian release that it is
    response: float | None = None  # epsilon of the randomised response that it is
    window: float | None = None  # width of the window that holds all its privacy losses: its bounded range
    search: "tuple[Event, TrialCount] | None" = None  # one run, and the law of how many there are; the best is released
    lost: float = 0.0  # what double precision may have taken off the divergence of a step, in units of 1e-14
    protected: bool = True


@dataclass(frozen=True)
class Basic(Event):
    """One release that accountants know, by what it offers."""

    @property
    def offers(self) -> Offers:
        return Offers()

    def basics(self) -> "Iterable[tuple[Basic, int]]":
        """Return what one release is accounted as."""
        return ((self, 1),)

    def divergences(self, orders: Vector) -> Vector:
        """Return a bound on the Renyi divergence at each of the ``orders``, in both directions."""
        raise NotImplementedError

    def shift_squared(self, times: int) -> float:
        """Return mu^2 of the Gaussian that so many are like, or twice their mean loss where noise is low; roughly."""
        return 0.0

    def loss_step(self, times: int, shift: float) -> tuple[float, float] | None:
        """Return the step that a grid of losses needs and the least worth its memory, in a run of mu^2 = ``shift``."""
        return None

    def loss_distribution(self, times: int, step: float) -> Any:
        """Return a privacy loss distribution on multiples of ``step`` that dominates so many releases."""
        raise AccountingError(f"privacy loss distributions do not cover {self!r}; use RenyiAccountant.")

    def to_dp_event(self, conservative: bool) -> Any:
        by_range = ((self.offers.response, 0.5), (self.offers.window, 0.125))  # rho of zCDP for each squared epsilon
        rho = [factor * (epsilon * epsilon) * (1.0 + 1e-12) for epsilon, factor in by_range if epsilon is not None]
        if conservative and rho:
            return dp_accounting("dp_event").ZCDpEvent(rho[0])
        remedy = "conservative=True gives a zCDP event that costs more." if rho else "Use the receipt."
        raise AccountingError(f"dp_accounting has no event that is equal to {self!r}. {remedy}")


Counts = Counter[Basic]
# a closed list, which `sottovoce.privacy.events` fills: nothing is imported by name, and no other kind is accounted
KINDS: Final[dict[str, type[Event]]] = {}


def flatten(event: Event) -> Counts:
    """Count how often each basic event happens; sampling at rate 1 is no sampling, at rate 0 no release."""
    counts: Counts = Counter()
    for release, times in event.releases():
        if not isinstance(release, Basic) or KINDS.get(release.kind) is not type(release):
            raise AccountingError(f"no accountant knows events of type {type(release).__name__}: {release!r}.")
        for basic, often in release.basics():
            counts[basic] += times * often
    for basic, times in counts.items():
        if times > _MOST_RELEASES:
            raise AccountingError(f"more than 2**53 releases of one kind cannot be accounted: {basic!r}.")
    return counts


def offered(counts: Counts, name: str) -> Counter[Any]:
    """Count what releases offer under this name."""
    found: Counter[Any] = Counter()
    for basic, times in counts.items():
        if (value := getattr(basic.offers, name)) is not None:
            found[value] += times
    return found


def ordered(counts: Counts) -> list[tuple[Basic, int]]:
    """Sort the basic events, so that the order of composition cannot change a rounding."""
    return sorted(counts.items(), key=lambda item: repr(item[0]))


def shift_squared(counts: Counts) -> float:
    """Return `Basic.shift_squared` of a composition."""
    return sum(basic.shift_squared(times) for basic, times in counts.items())


def is_far(counts: Counts) -> bool:
    """Return whether a composition is far from private: epsilon is about 5e4, not worth the memory, so infinite."""
    return shift_squared(counts) > MOST_SHIFT


class Accountant(ABC):
    """Turns an event into a bound on epsilon at a delta, or on delta at an epsilon."""

    name: str

    def epsilon(self, event: Event, delta: float) -> float:
        """Return an epsilon such that ``event`` is (epsilon, delta)-DP; ``inf`` when there is none.

        Raises
        ------
        ParameterError
            If ``delta`` is not in [0, 1).
        AccountingError
            If this accountant does not know a part of the event.
        """
        delta = number("delta", delta, at_least=0.0, below=1.0)
        counts = flatten(event)
        if not protects(counts):
            return math.inf
        return self._epsilon(counts, delta) if counts else 0.0

    def delta(self, event: Event, epsilon: float) -> float:
        """Return a delta such that ``event`` is (epsilon, delta)-DP, at most 1.

        Raises
        ------
        ParameterError
            If ``epsilon`` is not a finite number >= 0.
        AccountingError
            If this accountant does not know a part of the event.
        """
        epsilon = number("epsilon", epsilon, at_least=0.0)
        counts = flatten(event)
        if not protects(counts):
            return 1.0
        return min(1.0, max(0.0, self._delta(counts, epsilon))) if counts else 0.0

    @classmethod
    @abstractmethod
    def covers(cls, counts: Counts) -> bool:
        """Return whether this accountant takes such a composition, and is meant for it."""

    def _check(self, counts: Counts, covered: str) -> None:
        if not self.covers(counts):
            name = type(self).__name__
            raise AccountingError(f"{name} covers {covered}, not {dict(counts)!r}; use RenyiAccountant.")

    @abstractmethod
    def _epsilon(self, counts: Counts, delta: float) -> float: ...

    @abstractmethod
    def _delta(self, counts: Counts, epsilon: float) -> float: ...


def protects(counts: Counts) -> bool:
    """Return whether no release is without protection."""
    return all(basic.offers.protected for basic in counts)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence dp-accounting's chatter about orders and truncation: none of it says that a bound is wrong."""
    absl_logging = import_module("absl.logging")
    level = absl_logging.get_verbosity()
    absl_logging.set_verbosity(absl_logging.ERROR)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        absl_logging.set_verbosity(level)


def _plain(value: Any) -> object:
    return [event.to_dict() for event in value] if isinstance(value, tuple) else value.to_dict()
