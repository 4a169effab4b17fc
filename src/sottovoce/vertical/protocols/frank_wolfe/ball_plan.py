r"""Public facts of Frank-Wolfe on the l1 ball over columns at several parties: balls, labels, bounds on slopes.

Entries are in units of each party's ``data_bound`` B_k, labels in units of half of the width of ``label_bounds``. The
ball of the whole is |w|_1 <= radius, where the intercept, if there is one, is the weight of a column of the value B at
the label holder (B its own bound), and numeric labels are counted from the middle of their bounds. A product of balls
gives party k the radius share_k * radius.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from sottovoce._numerics import Vector
from sottovoce._shown import quoted
from sottovoce._validation import magnitude, number, whole_number
from sottovoce.exceptions import ParameterError, PartyError
from sottovoce.privacy.calibration import gaussian_mu
from sottovoce.privacy.mechanisms.noisy_max import LEAST_EPSILON, MOST_EPSILON
from sottovoce.randomness import Streams
from sottovoce.vertical.coordinator.parties import Parties
from sottovoce.vertical.coordinator.plan import LabelsOncePlan, SumOfScores, Term, VerticalPlan
from sottovoce.vertical.protocols.frank_wolfe.columns import signed_column
from sottovoce.vertical.protocols.frank_wolfe.messages import KeepWeights

SCORED_THROUGH = (
    "the people who are scored through the parties, those of the training included: each party sends one exact number "
    "for each (whoever computes scores from coef_ needs nothing from them)"
)
"""What no statement covers of a model on a ball, for the receipt."""

_PREDICTIONS = 0.5  # of the half width of the labels: what a prediction adds to the clip beside a released label
_STEPS = 2.5  # times the cube root of n mu / (K log 2 d): measured, benchmarks/vertical/frank_wolfe.py


@dataclass(frozen=True, kw_only=True)
class BallPlan(VerticalPlan):
    """What every training on the l1 ball has, with and without noise."""

    proof: ClassVar[str] = "docs/privacy/vertical_frank_wolfe.md"

    alpha: float = 0.0
    radius: float  # > 0: in the unit of the labels over that of the columns
    # share of each party in the radius, where each has a ball of its own; None for equal shares
    radius_shares: Mapping[str, float] | None = None

    @cached_property
    def shares(self) -> dict[str, float]:
        """Share of each party in the radius; they add up to 1."""
        given = self.radius_shares
        names = self.facts.names
        if given is None:
            return dict.fromkeys(names, 1.0 / len(names))
        if not isinstance(given, Mapping) or set(given) != set(names):
            wanted = ", ".join(map(repr, names))
            raise ParameterError(f"radius_shares must hold one share for each of {wanted}; got {given!r}.")
        weights = {name: magnitude(f"radius_shares[{name!r}]", given[name]) for name in names}
        return {name: weight / math.fsum(weights.values()) for name, weight in weights.items()}

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

    def checked_place(self, name: str, place: int) -> tuple[int, int]:
        """Return the column and the sign of a party's choice."""
        column, sign = signed_column(place)
        if column >= self.n_columns(name):
            raise PartyError(f"party {name!r} chose column {column}; it has {self.n_columns(name)}.")
        return column, sign

    @property
    def scorer(self) -> SumOfScores:
        """Say who adds up what, when people are scored."""
        return SumOfScores({name: Term() for name in self.facts.names}, constant=self.middle)

    @property
    def given_away_by_holder(self) -> str:
        return "row of its columns" if self.labels_public else "label and row of its columns"


@dataclass(frozen=True, kw_only=True)
class PrivateBallPlan(BallPlan, LabelsOncePlan):
    """What the private trainings share."""

    # cap of the rule for the number of steps
    most_steps: ClassVar[int]

    n_steps_given: int | None = None  # steps of each party; None follows a public rule
    # bound on a residual of squared loss, in the unit of the labels; None is half of the width of ``label_bounds``
    # (without an intercept the largest label in size)
    residual_bound: float | None = None
    label_share: float = 0.5

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
            clip = PrivateBallPlan.slope_bound(self, name)
            magnitude(f"the clip of a record's slope at party {name!r}", clip, remedy=remedy)

    def in_units(self, name: str, weights: Vector) -> tuple[Vector, float]:
        """Return coefficients and intercept of a party in the units of its columns and of the labels."""
        features = self.facts.descriptions[name].n_features
        return weights[:features] / self.data_bound(name), float(weights[features:].sum())

    def check_choice(self, selection: float) -> None:
        """Refuse a range of a choice that no party draws from."""
        remedy = "Give a larger epsilon, or fewer steps."
        number("the bounded range of a choice", selection, at_least=LEAST_EPSILON, at_most=MOST_EPSILON, remedy=remedy)

    @cached_property
    def n_steps(self) -> int:
        """Steps of each party: many make steps short, few leave each choice more of the budget."""
        if self.n_steps_given is not None:
            return self.n_steps_given
        widest = max(self.n_columns(name) for name in self.facts.names)
        noise = len(self.facts.names) * math.log(2.0 * widest + 1.0)
        information = self.facts.n_samples * gaussian_mu(self.epsilon, self.delta) / noise
        return round(min(self.most_steps, max(4.0, _STEPS * math.cbrt(information))))

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

    @property
    def assumptions(self) -> tuple[str, ...]:
        return (*self.bounds_in_words, "the labels themselves") if self.labels_public else self.bounds_in_words

    @property
    def not_covered(self) -> tuple[str, ...]:
        return (SCORED_THROUGH,)

    def details(self) -> dict[str, object]:
        bounds = {f"clip of a record's slope at {name}": self.slope_bound(name) for name in self.facts.names}
        return {
            "radius": self.radius,
            "fit_intercept": self.fit_intercept,
            **self.label_details(),
            **bounds,
            "steps": self.n_steps,
        }


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


def kept_weights(model: str, coefficients: Vector, intercept: float) -> KeepWeights:
    """Return a model as it is sent to its party: the columns that have a weight."""
    weights = np.append(coefficients, intercept)
    columns = np.flatnonzero(weights)
    return KeepWeights(model, columns.astype(np.float64), weights[columns])
