"""What a mechanism is to a party: the requests that it answers, what each of them costs, and whose leave it needs.

`Party.handle` alone decodes, charges and encodes. A request that is answered is a generator: it is given public facts,
*yields* what answering releases, and is handed the table when that is charged. So it can neither forget the charge nor
refuse over what the data are.
"""

import json
from collections.abc import Callable, Collection, Generator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

import numpy as np

from sottovoce._numerics import Vector
from sottovoce._validation import LARGEST, SMALLEST
from sottovoce.privacy.events import Event
from sottovoce.randomness import Purpose, Streams
from sottovoce.vertical.columns import Columns
from sottovoce.vertical.engines import IN_PROCESS, ComputeSite, available_engines
from sottovoce.vertical.wire import Message

if TYPE_CHECKING:
    import numpy.typing as npt

_installed = cache(available_engines)  # packages are looked up on disk
_MOST: Final = 1_000_000  # steps of one request: a party works for nobody for ever

SMALLEST_MU: Final = 1e-6  # of one party's part: with less its noise says nothing about 10^9 people either
LARGEST_MU: Final = 1e4  # a larger one protects nobody

Reply = TypeVar("Reply", bound=Message)
Kind = TypeVar("Kind")


class RefusalError(Exception):
    """Why a party does not do what it was asked; the text may cross, so it tells nothing about the data."""


def event_text(event: Event) -> str:
    """Return an event as it is told in a message."""
    return json.dumps(event.to_dict())


def refuse(reason: str) -> None:
    if reason:
        raise RefusalError(reason)


def within(name: str, value: float, least: float = SMALLEST, most: float = LARGEST) -> float:
    """Return a number of a request; refused beyond the range in which its arithmetic is proven."""
    if not least <= value <= most:
        rule = f"{name} must be positive" if value <= 0.0 < least else f"{name} must be within [{least:g}, {most:g}]"
        raise RefusalError(f"{rule}; got {value!r}")
    return value


def count(name: str, value: int, least: int = 0) -> None:
    """Refuse a number of steps, columns or rows that a party would not end with."""
    if value > _MOST:
        raise RefusalError(f"{name} is at most {_MOST:,}; it is {value:,}")
    if value < least:
        raise RefusalError(f"{name} must be positive; got {value}")


@dataclass(frozen=True)
class Part:
    """A party's part of a model: it stays with the party.

    Attributes
    ----------
    coef : ndarray of shape (n_features,)
    intercept : float
        0 where the intercept is with another party.
    feature_names : tuple of str or None
        Of the table it was trained on, where that had names.
    exact : bool
        It was made without noise from rows that a budget protects. Scores by it could tell these: there are none.
    """

    coef: Vector
    intercept: float
    feature_names: tuple[str, ...] | None = None
    exact: bool = False


@dataclass(frozen=True)
class PartyFacts:
    """What is public about a party's table."""

    n_rows: int
    n_features: int
    data_norm: float | None  # declared bounds on the norm of a row and on the size of an entry
    data_bound: float | None
    nonnegative: bool
    has_ids: bool = False  # whether it can be aligned
    least_people: int = 1  # the fewest people that it is aligned to
    name: str = ""  # the party's own
    is_helper: bool = False  # it has no table, and only computes with others
    joins: bool = False  # its owner allows joint computations
    computing: ComputeSite | None = None  # where it computes with others; None for those of its own process alone
    whole_rows: int = 0  # of its whole table, from which an alignment takes people
    models: Collection[str] = ()  # names of those that it keeps
    most_models: int | None = None  # that it keeps at most; None for any number

    @property
    def engines(self) -> dict[str, str]:
        """Engines that it may use, with their versions: what its owner allows, and what is installed."""
        if not self.joins:
            return {}
        allowed = (IN_PROCESS,) if self.computing is None else tuple(self.computing.engines)
        return {name: version for name, version in _installed().items() if name in allowed}

    def bound_of(self, name: str) -> float:
        """Return the declared ``data_norm`` or ``data_bound``, which what is private here is scaled by."""
        bound: float | None = getattr(self, name)
        if bound is None:
            raise RefusalError(f"it declared no {name}, without which nothing here can be private")
        return bound

    def one_a_row(self, request: Message, name: str) -> None:
        """Refuse a request whose field of that name is not one number a row."""
        numbers = len(getattr(request, name))
        if numbers != self.n_rows:
            raise RefusalError(f"{type(request).__name__}.{name} has {numbers} numbers for {self.n_rows} rows")

    def check_room(self, model: str) -> None:
        """Refuse one more model of a run than the owner allows, and a name that is not read as it was written."""
        if "\0" in model:
            raise RefusalError(f"the name of a model has a zero in it: {model[:100]!r}")
        if self.most_models is not None and model not in self.models and len(self.models) >= self.most_models:
            raise RefusalError(f"it keeps {self.most_models} models of this run, and no more")


def opened(kind: type[Kind], worker: Any, request: Message) -> Kind:
    """Return the worker of a session, where it is of that kind; else ``request`` came without its start."""
    if not isinstance(worker, kind):
        raise RefusalError(f"{type(request).__name__} came without its start")
    return worker


def close(worker: Any) -> None:
    """End what a worker holds beyond its own memory, if anything."""
    end = getattr(worker, "close", None)
    if end is not None:
        end()


@dataclass
class Desk:
    """What a request is answered with: the party's table and models, and what the session holds."""

    table: Any  # of shape (n_rows, n_features): private
    facts: PartyFacts
    # what a training of several requests has reached; one that has ``close`` is closed when the session ends, or when
    # another one takes its place. It ends with the process
    worker: Any
    models: dict[str, Part]  # what the party keeps, by name
    feature_names: tuple[str, ...] | None
    streams: Callable[[], Streams]  # opens random streams, others at each call unless they are seeded
    shortage: Callable[[Event], str]  # tells why the budget does not cover an event; empty if it does
    not_allowed: Callable[[int], str]  # tells why a kind of request is not answered; empty if it is, and for 0
    identifiers: Callable[[], Any]  # of all rows, those by which they can be aligned; only of a party with identifiers
    guarded: bool = True  # a budget protects the rows from who asks
    kept: Callable[[str, Part], object] = lambda model, part: None  # keeps each
    session: bytes = b""  # name of the session; the same at all parties of a training
    workers: Callable[[], list[Any]] = list  # returns the workers of all the party's open sessions
    ended: bool = False  # set it to forget the session
    # set it to a name, coefficients and an intercept that were released: they are kept when the answer may leave
    later: "tuple[str, Vector, float] | None" = None
    # set it to people and their rows: the party's table has them, in this order, from the next request on
    aligned: "tuple[list[str], npt.NDArray[np.int64]] | None" = None

    def noise(self) -> np.random.Generator:
        """Open a noise stream; it never outlives the training, so no two processes can share one."""
        return self.streams().generator(Purpose.NOISE)

    def columns(self, *, intercept: bool = False) -> Columns:
        """Return the table as columns, with one of ones behind them where asked for."""
        return Columns(self.table, intercept=intercept)

    def keep(self, model: str, coef: Vector, intercept: float, *, released: bool) -> None:
        """Keep a part of a model; ``released`` says that it follows from released values, and from requests, alone."""
        self.facts.check_room(model)
        part = Part(coef, intercept, self.feature_names, exact=self.guarded and not released)
        self.kept(model, part)


@dataclass(frozen=True)
class Protocol:
    """A line of the closed list, `sottovoce.vertical.mechanisms`: requests, and a name by which an owner allows them.

    Several protocols may have the same request: leave for any of them will do.
    """

    name: str  # empty: always answered
    about: str  # what is given away under it, in words
    requests: "tuple[type[Request], ...]"
    # its releases carry noise: a budget is charged for them, and a party with one allows them unless told otherwise
    private: bool = False
    charged: bool = False  # a budget can be charged for it
    beyond: str = ""  # why no budget covers it
    # what it gives away is public in every statement: no budget is charged for it, and a party with one allows it
    # unless told otherwise
    public: bool = False

    @property
    def is_covered(self) -> bool:
        """Whether a budget can be charged for it, or need not be."""
        return self.private or self.charged or self.public


Answered = Generator[Event | None, Desk, Reply]
"""How a request is answered. It yields what answering releases, None where nothing is charged, and is sent the desk. Up
to there it sees public facts and released values alone: what it refuses, and any error about parameters, is told to the
coordinator."""


class Request(Message):
    """A message that a party answers; ``answer`` says how, given what the session holds.

    ``opens``: whether it begins a training of several requests, which the session holds until it is closed.
    ``once``: whether it does something that must not be done twice. One that is charged is answered once in any case.
    """

    opens: ClassVar[bool]
    once: ClassVar[bool]

    def __init_subclass__(cls, *, opens: bool = False, once: bool = False, **given: Any) -> None:
        super().__init_subclass__(**given)
        cls.opens, cls.once = opens, once or opens

    def answer(self, facts: PartyFacts, worker: Any) -> Answered[Any]:
        raise NotImplementedError
