"""What every vertical training is made of: public facts, a frozen plan, a solution, and who adds up the scores.

A plan is made from public facts before any row is read. The same plan scales the noise, runs the training and names the
event that is accounted.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Final, cast

import numpy as np

from sottovoce._numerics import Vector
from sottovoce._shown import quoted
from sottovoce._validation import LARGEST, SMALLEST, magnitude, number
from sottovoce._version import RELEASE, release_name
from sottovoce.exceptions import DataError, ParameterError, PartyError
from sottovoce.losses import SmoothLoss
from sottovoce.privacy.calibration import gaussian_mu, gaussian_mu_beside
from sottovoce.privacy.events import Event, NothingReleased, compose
from sottovoce.privacy.mechanisms.randomized_response import RandomizedResponse
from sottovoce.randomness import Purpose, Streams
from sottovoce.vertical.coordinator.parties import Parties
from sottovoce.vertical.protocol import LARGEST_MU, SMALLEST_MU, event_text
from sottovoce.vertical.requests.general import LARGEST_SCORE, Afford, Describe, Description, Score
from sottovoce.vertical.wire import MOST_TEXT, Done, Message, Payload


def checked(name: str, values: Vector, length: int) -> Vector:
    """Return the numbers that party ``name`` sent, if they are as many as were asked for.

    Raises `PartyError` if they are not, or one of them is so large that what is computed from it would not be a number.
    """
    if len(values) != length:
        raise PartyError(
            f"party {name!r} sent {len(values):,} numbers where {length:,} were asked for. Bring all sites to the same "
            "version, and align them."
        )
    if length and not max(-float(values.min()), float(values.max())) <= LARGEST_SCORE:
        raise PartyError(
            f"party {name!r} sent a number beyond {LARGEST_SCORE:g}: it has diverged, or its columns are out of any "
            "scale. Scale them, or look at what runs there."
        )
    return values


def said(name: str, reply: Payload) -> str:
    """Return the words that party ``name`` answered with; a `PartyError` if they are none, or too long for a text."""
    with suppress(UnicodeDecodeError):
        if len(reply.octets) <= MOST_TEXT:
            return reply.octets.decode()
    raise PartyError(f"party {name!r} answered with no text; bring all sites to the same version.")


@dataclass
class History:
    """One entry a step of a training without noise."""

    # sum of losses plus penalties at the coefficients after the step
    objective: list[float] = field(default_factory=list)
    # the stopping measure at its start: the bound on the distance to the least objective
    stationarity: list[float] = field(default_factory=list)
    converged: bool = False  # False when the steps ran out first

    def add(self, objective: float, stationarity: float) -> None:
        self.objective.append(objective)
        self.stationarity.append(stationarity)

    @property
    def n_steps(self) -> int:
        return len(self.objective)


SCORED: Final = "the people who are scored, those of the training included: each party sends one exact score for each"
"""What no statement covers of a model that is split, for the receipt."""

_MOST_FEATURES: Final = 10**8


@dataclass(frozen=True, kw_only=True)
class PublicFacts:
    """What everybody may know before the training."""

    n_samples: int  # aligned people
    descriptions: Mapping[str, Description]  # by party, in order: sizes, row bound, whether entries are non-negative
    label_holder: str  # the party that holds the labels and runs the coordinator
    label_bounds: tuple[float, float] | None = None  # of numeric labels
    helpers: tuple[str, ...] = ()  # parties without a table, in order; only joint computations use them
    # by party, helpers included: the engines of secure computation that it may use, with their versions; empty where
    # nobody asked
    engines: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """All parties with a table, in order."""
        return tuple(self.descriptions)

    @property
    def others(self) -> tuple[str, ...]:
        """All parties but the label holder."""
        return tuple(name for name in self.descriptions if name != self.label_holder)

    def norms_in_words(self, names: Sequence[str]) -> tuple[str, ...]:
        declared = ((name, self.descriptions[name]) for name in names)
        return tuple(
            f"{quoted(name)}: rows of norm at most {facts.data_norm:g} (longer ones were shortened)"
            + (", entries non-negative" if facts.nonnegative else "")
            for name, facts in declared
        )


def read_public_facts(parties: Parties, *, engines: bool = False) -> dict[str, Description]:
    """Ask every party for its public facts, its ``engines`` too where they matter; all must run one version.

    Raises `PartyError` if one does not, or says what no table is like.
    """
    descriptions = parties.exchange(Describe(int(engines)), Description)
    others = {name: facts.version for name, facts in descriptions.items() if facts.version != RELEASE}
    if others:  # they may draw other noise, or count it otherwise
        theirs = ", ".join(f"party {name!r} runs {release_name(version)}" for name, version in others.items())
        raise PartyError(
            f"the coordinator runs sottovoce {release_name(RELEASE)}, and {theirs}: bring all sites to one version. "
            "Nothing was asked of anybody yet."
        )
    check_possible(descriptions)
    return descriptions


def helpers_among(descriptions: Mapping[str, Description]) -> tuple[str, ...]:
    """Return the parties that have no table, by what they say of themselves."""
    return tuple(name for name, facts in descriptions.items() if facts.n_rows == facts.n_features == 0)


def check_possible(descriptions: Mapping[str, Description]) -> None:
    """Refuse what no table is like, whoever says so."""
    for name, facts in descriptions.items():
        for what, bound in (("data_norm", facts.data_norm), ("data_bound", facts.data_bound)):
            if not (bound == math.inf or SMALLEST <= bound <= LARGEST):
                raise PartyError(f"party {name!r} says that its {what} is {bound!r}; it must be > 0.")
        if facts.n_features > _MOST_FEATURES or facts.nonnegative > 1:
            raise PartyError(
                f"party {name!r} says that it has {facts.n_features:,} features, nonnegative={facts.nonnegative}; at "
                f"most {_MOST_FEATURES:,} are taken, and nonnegative is 0 or 1."
            )


def ask_scores(parties: Parties, names: Sequence[str], model: str) -> dict[str, Vector]:
    replies = parties.exchange(dict.fromkeys(names, Score(model)), Payload)
    lengths = {name: len(replies[name].numbers) for name in names}
    if len(set(lengths.values())) > 1:
        raise DataError(f"the parties must hold the same people; the numbers of their rows are {lengths!r}.")
    return {name: checked(name, replies[name].numbers, lengths[name]) for name in names}


@dataclass(frozen=True)
class Term:
    """One party's share of a score: weight * (its own score - centre)."""

    weight: float = 1.0
    centre: float = 0.0


@dataclass(frozen=True)
class SumOfScores:
    """How a fitted model scores records that several parties hold: the sum of the parties' own scores, weighted.

    The coordinator keeps it, without coefficients.
    """

    terms: Mapping[str, Term]  # by party
    optional: frozenset[str] = frozenset()  # parties whose term is left out where they are missing
    constant: float = 0.0  # added to every score

    def scores(self, parties: Parties, model: str) -> Vector:
        """Return one number a record, from the parties' parts of the model named ``model``."""
        present = [name for name in self.terms if name in parties.names]
        each = ask_scores(parties, present, model)
        return sum(
            (self.terms[name].weight * (scores - self.terms[name].centre) for name, scores in each.items()),
            np.full(len(each[present[0]]), self.constant),
        )

    @property
    def needed(self) -> tuple[str, ...]:
        """Parties without which nothing can be scored."""
        return tuple(name for name in self.terms if name not in self.optional)


@dataclass(frozen=True, kw_only=True)
class VerticalSolution:
    """What a training leaves with the coordinator."""

    scorer: SumOfScores
    event: Event  # what was spent about one person, at all parties together
    n_rounds: int  # rounds of messages
    history: History | None = None  # of a training without noise
    # public numbers that the training chose, for the receipt
    chosen: Mapping[str, object] = field(default_factory=dict)
    # coefficients and intercept by party, of a model that is made of released values only
    weights: Mapping[str, tuple[Vector, float]] | None = None


@dataclass(frozen=True, kw_only=True)
class Words:
    """What a receipt says of a mechanism."""

    mechanism: str  # the algorithm in one sentence
    releases: tuple[str, ...]  # what leaves whom for whom
    details: Mapping[str, object]  # its own parameters
    assumptions: tuple[str, ...] = ()  # facts taken as public beyond the general ones
    not_covered: tuple[str, ...] = ()  # what its statement leaves open
    of_holder: str = "label"  # what of a person the statement about the label holder alone covers


@dataclass(frozen=True, kw_only=True)
class VerticalPlan(ABC):
    """Public facts and privacy parameters of one training; a subclass for each mechanism."""

    name: ClassVar[str]
    """Name of the mechanism as users give it."""
    about: ClassVar[str] = ""
    """What it does, for the documentation of ``mechanism``."""
    options: ClassVar[tuple[str, ...]] = ()
    """Its own parameters, as users give them in ``mechanism_options``."""
    proof: ClassVar[str]
    """Page with statement and proof."""

    facts: PublicFacts
    loss: SmoothLoss  # convex (`sottovoce.losses.Loss`) for every private mechanism
    alpha: float  # penalty strength: (1/n) sum of losses + alpha * penalty
    fit_intercept: bool
    epsilon: float
    delta: float
    labels_public: bool = False  # True when the labels are not secret; the statement then does not cover them
    why_chosen: str = ""  # why it is this mechanism, where nobody named one

    # whether helpers take part
    uses_helpers: ClassVar[bool] = False

    # whether the parties' scores are added up with weights that labelled people can teach
    weighs_parties: ClassVar[bool] = False

    @property
    @abstractmethod
    def event(self) -> Event:
        """What the training will cost at most about one person, at all parties together."""

    @property
    def party_events(self) -> Mapping[str, Event]:
        """What it costs about one person's row of each party's columns; the label holder's covers the label."""
        return dict.fromkeys(self.facts.names, self.event)

    def meet(self, parties: Parties) -> None:  # noqa: B027 (most mechanisms have nothing to prepare)
        """Let the parties prepare what needs no data, before anything is charged: what fails here costs nothing."""

    @abstractmethod
    def solve(self, parties: Parties, y: Vector, model: str, streams: Streams) -> VerticalSolution:
        """Train, and let each party keep its part under the name ``model``.

        ``y``, of shape (n_samples,): labels, -1 and +1 or numbers; the label holder's secret unless ``labels_public``.
        ``streams``: the label holder's random streams; the parties have their own.
        """

    @property
    @abstractmethod
    def words(self) -> Words:
        """What the receipt says of the mechanism."""

    @property
    def unit(self) -> str:
        """What one neighbouring change is about."""
        labels = "the labels are public and not covered" if self.labels_public else "the label included"
        return f"one person: their rows at all parties are replaced together, {labels}"

    @property
    def promised_epsilon(self) -> float:
        return self.epsilon

    @property
    def is_private(self) -> bool:
        """False for a training without noise."""
        return math.isfinite(self.epsilon)


@dataclass(frozen=True, kw_only=True)
class LabelsOncePlan(VerticalPlan):
    """A training before which the labels are released once, where they are secret."""

    first_request: ClassVar[type[Message]]
    """What is to spend a party's budget."""

    label_share: float = 0.75  # in (0, 1): share of epsilon for secret labels

    def check_label_share(self, name: str) -> None:
        """Refuse a share out of range; ``name`` is what users call it."""
        number(name, self.label_share, above=0.0, below=1.0)

    @cached_property
    def response(self) -> RandomizedResponse | None:
        """Randomised response of the labels; None where they are public."""
        return None if self.labels_public else RandomizedResponse(self.label_share * self.epsilon)

    @property
    def label_event(self) -> Event:
        """What the release of the labels costs."""
        return NothingReleased() if self.response is None else self.response.event

    @property
    @abstractmethod
    def column_events(self) -> Mapping[str, Event]:
        """What each party that is asked to train releases of its columns."""

    @property
    def party_events(self) -> Mapping[str, Event]:
        events = dict.fromkeys(self.facts.names, cast("Event", NothingReleased())) | dict(self.column_events)
        return {**events, self.facts.label_holder: compose(self.label_event, events[self.facts.label_holder])}

    def meet(self, parties: Parties) -> None:
        """Have each party say whether it will pay and answer: what it refuses then, no label has left for."""
        parties.run.promised(
            lambda: check_affordable(parties, self.column_events, self.first_request), labels_public=self.labels_public
        )

    @cached_property
    def mu_beside_labels(self) -> float:
        """Mean shift of a Gaussian release that the budget has room for beside the labels."""
        if self.response is None:
            return gaussian_mu(self.epsilon, self.delta)
        return gaussian_mu_beside(self.epsilon, self.delta, self.response.event)

    def released_labels(self, parties: Parties, y: Vector, streams: Streams) -> Vector:
        """Release labels in [-1, 1] as -1 and +1, by the response, which is not None; a fit does so once."""
        response = self.response
        assert response is not None

        def draw() -> Vector:
            signs = y
            if not self.loss.is_classification:  # at random and without bias: the response protects whichever it is
                signs = np.where(streams.generator(Purpose.SAMPLING).random(len(y)) < 0.5 * (1.0 + y), 1.0, -1.0)
            return response.release(signs, streams.generator(Purpose.NOISE))[0]

        return parties.run.released(draw)

    @contextmanager
    def after_labels(self) -> Iterator[None]:
        """Have the error of a party say that the labels had been released by then, where they are secret."""
        try:
            yield
        except PartyError as error:
            if self.response is None:
                raise
            raise PartyError(
                f"{error} The labels had been released by then: epsilon = {self.response.event.epsilon:g} of every "
                "person's label is spent, and a new fit releases them again."
            ) from error

    @property
    def label_release(self) -> tuple[str, ...]:
        """What is released of the labels before the training, in words for the receipt; empty where they stay."""
        return () if self.response is None else ("to the other parties: every label, by randomised response",)

    def label_details(self) -> dict[str, object]:
        """Return the parameters of that release, for the receipt."""
        if self.response is None:
            return {}
        return {
            "epsilon of the labels": self.response.event.epsilon,
            "probability that a label is flipped": self.response.flip_probability,
        }


# so that the rounding of square roots cannot make the parts cost more than the whole
_ROOM = 1.0 - 2.0**-40


def require_row_bounds(facts: PublicFacts, names: Sequence[str], mechanism: str) -> None:
    """Refuse a training in which a party gave no bound on its rows; nothing has been spent by then.

    Raises `ParameterError`: the message names the party.
    """
    for name in names:
        if not math.isfinite(facts.descriptions[name].data_norm):
            raise ParameterError(
                f"mechanism={mechanism!r} needs data_norm of party {name!r}, a public bound on the norm of its rows; "
                f"that party must give it: Party(..., name={name!r}, data_norm=...). Never compute it from the data."
            )


def shares_of(what: str, names: Sequence[str], given: Mapping[str, float] | None) -> dict[str, float]:
    """Return the share of each party: what was given, divided by its sum; equal shares for None.

    Raises `ParameterError` if one is missing, left over, or not positive; ``what`` they are called by users.
    """
    if given is None:
        given = dict.fromkeys(names, 1.0)
    if not isinstance(given, Mapping) or set(given) != set(names):
        wanted = ", ".join(map(repr, names))
        raise ParameterError(f"{what} must hold one share for each of {wanted}; got {given!r}.")
    weights = {name: magnitude(f"{what}[{name!r}]", given[name]) for name in names}
    return {name: weight / math.fsum(weights.values()) for name, weight in weights.items()}


def split_mu(mu: float, names: Sequence[str], shares: Mapping[str, float] | None) -> dict[str, float]:
    """Return the mean shift of each party: mu_m^2 = share_m mu^2, so that all together cost mu > 0."""
    given = shares_of("budget_shares", names, shares)
    split = {name: _ROOM * mu * math.sqrt(share) for name, share in given.items()}
    for name, part in split.items():
        remedy = "Give it a larger epsilon, or a larger share."
        number(f"mu of party {name!r}", part, at_least=SMALLEST_MU, at_most=LARGEST_MU, remedy=remedy)
    return split


def check_affordable(parties: Parties, events: Mapping[str, Event], request: type[Message] | None = None) -> None:
    """Ask every party whether its budget covers what is planned, before anything is released or spent.

    Raises `PartyError` if one refuses.

    ``request``: what is to spend it; the owner must allow that too.
    """
    code = 0 if request is None else request.code
    parties.exchange({name: Afford(event_text(event), code) for name, event in events.items()}, Done)


def check_spent(name: str, text: str, planned: Event) -> None:
    """Refuse a reply of party ``name`` whose event is not the planned one.

    Raises `PartyError`: the noise of that party is then not what the plan accounts for.
    """
    if text != event_text(planned):
        raise PartyError(
            f"party {name!r} says that it spent {text[:200]!r}; planned was {event_text(planned)!r}. Its noise is not "
            "what the plan accounts for: bring all parties to the same version."
        )
