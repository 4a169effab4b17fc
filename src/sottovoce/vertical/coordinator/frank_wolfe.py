r"""Plans of Frank-Wolfe on the l1 ball over columns at several parties, with and without noise.

Entries are in units of each party's ``data_bound`` B_k, labels in units of half of the width of ``label_bounds``. The
ball is |w|_1 <= radius, where the intercept, if there is one, is the weight of a column of the value B at the label
holder (B its own bound), and numeric labels are counted from the middle of their bounds. A product of balls gives party
k the radius share_k * radius. Proof: ``docs/privacy/vertical_frank_wolfe.md``.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import brentq

from sottovoce._numerics import Vector
from sottovoce._shown import quoted
from sottovoce._validation import magnitude, number, whole_number
from sottovoce.exceptions import ParameterError, PartyError
from sottovoce.losses import SmoothLoss, Squared
from sottovoce.privacy.calibration import bounded_range, gaussian_mu, least_scale
from sottovoce.privacy.events import BoundedRangeEvent, Event, RepeatedEvent, compose
from sottovoce.privacy.mechanisms.noisy_max import LEAST_EPSILON, MOST_EPSILON
from sottovoce.randomness import Streams
from sottovoce.vertical.columns import Columns
from sottovoce.vertical.coordinator.exact import InOnePlacePlan, Optimum
from sottovoce.vertical.coordinator.parties import Parties
from sottovoce.vertical.coordinator.plan import (
    History,
    LabelsOncePlan,
    SumOfScores,
    Term,
    VerticalPlan,
    VerticalSolution,
    Words,
    shares_of,
)
from sottovoce.vertical.requests.frank_wolfe import (
    TrainOnBall,
    packed_size,
    signed_column,
    unpack_places,
    weights_of,
)
from sottovoce.vertical.wire import Payload

SCORED_THROUGH = (
    "the people who are scored through the parties, those of the training included: each party sends one exact number "
    "for each (whoever computes scores from coef_ needs nothing from them)"
)
"""What no statement covers of a model on a ball, for the receipt."""


@dataclass(frozen=True, kw_only=True)
class BallPlan(VerticalPlan):
    """What every training on the l1 ball has, with and without noise."""

    proof: ClassVar[str] = "docs/privacy/vertical_frank_wolfe.md"

    alpha: float = 0.0
    radius: float  # > 0: in the unit of the labels over that of the columns

    @cached_property
    def middle(self) -> float:
        """What numeric labels are counted from."""
        if self.loss.is_classification or self.facts.label_bounds is None or not self.fit_intercept:
            return 0.0
        return 0.5 * (self.facts.label_bounds[0] + self.facts.label_bounds[1])

    def intercept_at(self, name: str) -> int:
        """Return 1 where the party has a column of ones."""
        return int(self.fit_intercept and name == self.facts.label_holder)

    def n_columns(self, name: str) -> int:
        """Return how many columns a party may choose from."""
        return self.facts.descriptions[name].n_features + self.intercept_at(name)

    def data_bound(self, name: str) -> float:
        """Return the public bound on a party's entries."""
        return self.facts.descriptions[name].data_bound

    @property
    def bounds_in_words(self) -> tuple[str, ...]:
        """Return what a receipt says of each party's public bound on its entries."""
        return tuple(
            f"{quoted(name)}: data_bound = {self.data_bound(name):g} (entries beyond were clipped to it)"
            for name in self.facts.names
        )

    def checked_place(self, name: str, place: float) -> tuple[int, int]:
        """Return the column and the sign of a party's choice."""
        if not (0 <= place < 2 * self.n_columns(name) and place == int(place)):
            raise PartyError(f"party {name!r} chose the place {place:g}; it has {self.n_columns(name)} columns.")
        return signed_column(int(place))

    @property
    def scorer(self) -> SumOfScores:
        """Say who adds up what, when people are scored."""
        return SumOfScores({name: Term() for name in self.facts.names}, constant=self.middle)

    @property
    def of_holder(self) -> str:
        """Return what of a person the statement about the label holder covers."""
        return "row of its columns" if self.labels_public else "label and row of its columns"


def check_entry_bounds(plan: BallPlan) -> None:
    """Refuse a training in which a party gave no bound on its entries; nothing has been spent by then."""
    for name in plan.facts.names:
        if not math.isfinite(plan.data_bound(name)):
            raise ParameterError(
                f"private Frank-Wolfe needs data_bound of party {name!r}, a public bound on the size of its "
                f"entries; that party must give it: Party(..., name={name!r}, data_bound=...). Never compute "
                "it from the data."
            )
        magnitude(f"data_bound of party {name!r}", plan.data_bound(name))


# ------------------------------------------------------------------ every party by itself, without secure computation

_PREDICTIONS = 0.5  # of the half width of the labels: what a prediction adds to the clip beside a released label
_STEPS = 2.5  # times the cube root of n mu / (K log 2 d): measured, benchmarks/vertical/frank_wolfe.py
_MOST_STEPS = 16


@dataclass(frozen=True, kw_only=True)
class PrivateBallPlan(BallPlan, LabelsOncePlan):
    """What is public before private steps, and the labels that parties take them by; forms for study have it too."""

    n_steps_given: int | None = None  # steps of each party; None follows a public rule
    # bound on a residual of squared loss, in the unit of the labels; None is half of the width of ``label_bounds``
    # (without an intercept the largest label in size)
    residual_bound: float | None = None
    label_share: float = 0.5
    radius_shares: Mapping[str, float] | None = None  # of each party's ball; None for equal shares

    def __post_init__(self) -> None:
        magnitude("radius", self.radius)
        self.check_label_share("label_share")
        if self.n_steps_given is not None:
            whole_number("n_steps", self.n_steps_given, at_least=1, at_most=10_000)
        if self.residual_bound is not None:
            if self.loss.is_classification:
                raise ParameterError("residual_bound is for squared loss; slopes of logistic loss are within 1.")
            magnitude("residual_bound", self.residual_bound)
        check_entry_bounds(self)
        for name, share in self.shares.items():  # refuses wrong shares before anything is spent
            remedy = "Bring radius, data_bound and label_bounds closer together."
            magnitude(f"radius * data_bound / label width of party {name!r}", share * self.vertex(name), remedy=remedy)
            magnitude(f"the clip of a record's slope at party {name!r}", self.slope_bound(name), remedy=remedy)

    @cached_property
    def shares(self) -> dict[str, float]:
        """Share of each party in the radius; they add up to 1."""
        return shares_of("radius_shares", self.facts.names, self.radius_shares)

    def in_units(self, name: str, weights: Vector) -> tuple[Vector, float]:
        """Return coefficients and intercept of a party in the units of its columns and of the labels."""
        features = self.facts.descriptions[name].n_features
        return weights[:features] / self.data_bound(name), float(weights[features:].sum())

    @cached_property
    def n_steps(self) -> int:
        """Steps of each party: many make steps short, few leave each choice more of the budget."""
        if self.n_steps_given is not None:
            return self.n_steps_given
        widest = max(self.n_columns(name) for name in self.facts.names)
        noise = len(self.facts.names) * math.log(2.0 * widest + 1.0)
        information = self.facts.n_samples * gaussian_mu(self.epsilon, self.delta) / noise
        return round(min(_MOST_STEPS, max(4.0, _STEPS * math.cbrt(information))))

    @cached_property
    def label_unit(self) -> float:
        """What a label of size 1 means in the unit of y."""
        if self.loss.is_classification:
            return 1.0
        assert self.facts.label_bounds is not None
        low, high = self.facts.label_bounds
        return max(high - self.middle, self.middle - low)

    def vertex(self, name: str) -> float:
        """Return the size of a vertex of the party's ball for entries within [-1, 1] and labels of size 1."""
        return self.radius * self.data_bound(name) / self.label_unit

    def slope_bound(self, name: str) -> float:
        """Return the bound on a record's slope at a party, in units of labels.

        The label holder uses its own labels at its own party: what it chooses there is charged for them too.
        """
        gain = 1.0 if self.response is None or name == self.facts.label_holder else self.response.gain
        if self.loss.is_classification:
            return 0.5 + 0.5 / gain
        bound = 1.0 if self.residual_bound is None else self.residual_bound / self.label_unit
        # a released label is always at one of its ends: to clip the whole would lose what predictions add
        return bound if gain == 1.0 else 1.0 / gain + min(bound, _PREDICTIONS)

    def soft_labels(self, parties: Parties, y: Vector, streams: Streams) -> dict[str, Vector]:
        """Return the labels that each party works with, releasing them where they are secret."""
        exact = y
        if not self.loss.is_classification:
            exact = np.clip((y - self.middle) / self.label_unit, -1.0, 1.0)
        labels = dict.fromkeys(self.facts.names, exact)
        if self.response is not None:
            released = self.released_labels(parties, exact, streams)
            labels |= dict.fromkeys(self.facts.others, self.response.unbiased(released))
        return labels

    def said(self, mechanism: str, released: str, **details: object) -> Words:
        """Return what receipts say of all trainings by private steps, and of this one."""
        public = ("the labels themselves",) if self.labels_public else ()
        return Words(
            mechanism=mechanism,
            releases=(*self.label_release, released),
            assumptions=(*self.bounds_in_words, *public),
            not_covered=(SCORED_THROUGH,),
            of_holder=self.of_holder,
            details={
                "radius": self.radius,
                "fit_intercept": self.fit_intercept,
                **self.label_details(),
                **{f"clip of a record's slope at {name}": self.slope_bound(name) for name in self.facts.names},
                "steps": self.n_steps,
                **details,
            },
        )


@dataclass(frozen=True, kw_only=True)
class LocalBallPlan(PrivateBallPlan):
    """``aggregation="local"``: every party takes all its steps alone, and tells which columns it took.

    The ball is a product of K balls. Party k fits the labels with its own columns, by private Frank-Wolfe without
    shrinking (`sottovoce.central.solvers.frank_wolfe`), and sends its T signed columns in one message.
    The model is made of them and of public facts, so it is public. Nothing is spent on showing columns to others; what
    is lost is that two parties whose columns say the same cannot know.
    """

    name: ClassVar[str] = "local"
    first_request = TrainOnBall

    def __post_init__(self) -> None:
        super().__post_init__()
        remedy = "Give a larger epsilon, or fewer steps."
        number(
            "the bounded range of a choice", self.selection_range, at_least=LEAST_EPSILON, at_most=MOST_EPSILON,
            remedy=remedy,
        )  # fmt: skip

    @cached_property
    def selection_range(self) -> float:
        if self.response is None:
            return bounded_range(self.epsilon, self.delta, self.n_steps * len(self.facts.names))
        return 1.0 / least_scale(lambda scale: self._event(1.0 / scale), self.epsilon, self.delta)

    def _event(self, selection: float) -> Event:
        count = self.n_steps * len(self.facts.names)
        return compose(self.label_event, RepeatedEvent(BoundedRangeEvent(selection), count))

    @property
    def column_events(self) -> Mapping[str, Event]:
        return dict.fromkeys(self.facts.names, RepeatedEvent(BoundedRangeEvent(self.selection_range), self.n_steps))

    @property
    def event(self) -> Event:
        return self._event(self.selection_range)

    def solve(self, parties: Parties, y: Vector, model: str, streams: Streams) -> VerticalSolution:
        labels = self.soft_labels(parties, y, streams)
        requests = {
            name: TrainOnBall(
                self.loss.name, labels[name], self.shares[name] * self.vertex(name), self.slope_bound(name),
                self.n_steps, self.selection_range, self.intercept_at(name), self.label_unit, model,
            )
            for name in self.facts.names
        }  # fmt: skip
        with self.after_labels():
            replies = parties.exchange(requests, Payload)
            weights = {name: self._weights(name, reply) for name, reply in replies.items()}
        return VerticalSolution(scorer=self.scorer, event=self.event, n_rounds=1, weights=weights)

    def _weights(self, name: str, reply: Payload) -> tuple[Vector, float]:
        """Return a party's coefficients and intercept, in the units of its columns and of the labels."""
        if reply.numbers.tolist() != [self.selection_range]:
            raise PartyError(
                f"party {name!r} says that each of its choices spent {reply.numbers[:3].tolist()!r}; planned was "
                f"{self.selection_range!r}. Its noise is not what the plan accounts for: bring all parties to the same "
                "version."
            )
        columns = self.n_columns(name)
        if len(reply.octets) != packed_size(self.n_steps, columns):
            raise PartyError(f"party {name!r} sent {len(reply.octets)} bytes, which are not {self.n_steps} choices.")
        places = unpack_places(reply.octets, self.n_steps, columns)
        for place in places:
            self.checked_place(name, place)
        weights = self.label_unit * weights_of(places, columns, self.shares[name] * self.vertex(name) / self.n_steps)
        return self.in_units(name, weights)

    @property
    def words(self) -> Words:
        return self.said(
            "Frank-Wolfe on a product of l1 balls: each party by itself, by adaptive composition of exponential "
            "mechanisms over its signed columns",
            "to everybody: the signed column that every step of every party takes (the model is a function of them)",
            **{"bounded range of a choice": self.selection_range, "radius shares": self.shares},
        )


# ------------------------------------------------------------------ without noise: no protection of anybody


@dataclass(frozen=True, kw_only=True)
class ExactBallPlan(BallPlan, InOnePlacePlan):
    """Training without noise."""

    mechanism: ClassVar[str] = "Frank-Wolfe on the l1 ball with all columns in one place, without noise"

    max_iter: int = 1000
    tol: float = 1e-3

    def __post_init__(self) -> None:
        magnitude("radius", self.radius)
        super().__post_init__()

    def optimum(self, table: Any, y: Vector) -> Optimum:
        y, bound = y - self.middle, self.data_bound(self.facts.label_holder)
        constant = bound if math.isfinite(bound) else 1.0
        columns, history = Columns(table, intercept=self.fit_intercept), History()
        sizes = np.ones(columns.n_columns)  # the intercept's column is of the holder's bound
        sizes[columns.n_features :] = constant
        weights, predicted = np.zeros(columns.n_columns), np.zeros(len(y))
        limit = self.tol * float(np.sum(self.loss.value(y, predicted)))
        for _ in range(self.max_iter):
            slopes = np.asarray(self.loss.derivative(y, predicted))
            gradient = sizes * columns.back(slopes)
            steepest = int(np.argmax(np.abs(gradient)))
            corner = np.zeros(columns.n_columns)
            corner[steepest] = -math.copysign(self.radius, gradient[steepest])
            direction = columns.times(sizes * corner) - predicted
            gap = -float(slopes @ direction)
            history.add(float(np.sum(self.loss.value(y, predicted))), gap / len(y))
            if gap <= limit:
                history.converged = True
                break
            step = _best_step(self.loss, y, predicted, direction, gap)
            weights = (1.0 - step) * weights + step * corner
            predicted = predicted + step * direction
        features = columns.n_features
        return Optimum(weights[:features], constant * float(weights[features:].sum()), history)

    @property
    def words(self) -> Words:
        own = {"radius": self.radius, "fit_intercept": self.fit_intercept}
        return replace(super().words, of_holder=self.of_holder, details={**own, **super().words.details})


def _best_step(loss: SmoothLoss, y: Vector, predicted: Vector, direction: Vector, gap: float) -> float:
    """Return the step in [0, 1] along ``direction`` after which the loss is least; ``gap`` > 0 is how fast it falls."""
    if isinstance(loss, Squared):
        return min(1.0, gap / float(direction @ direction))

    def slope(step: float) -> float:
        return float(np.asarray(loss.derivative(y, predicted + step * direction)) @ direction)

    return 1.0 if slope(1.0) <= 0.0 else float(brentq(slope, 0.0, 1.0, xtol=1e-12))
