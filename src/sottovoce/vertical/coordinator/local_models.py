r"""``"local-models"``, the default: no party shows anything about its columns in training.

The label holder releases labels once by randomised response (or not at all where they are public). Every other party
trains a private model of its own columns on them (`sottovoce.vertical.requests.local_models`) and
keeps it. The label holder trains an exact model on its own columns and keeps that. A record's score is then, at the
label holder,

.. math:: s = s_1 + \sum_{m \ne 1} c_m (s_m - \bar s),

with the prior's score in the place of :math:`\bar s`. The weights :math:`c_m` follow from public facts
(`public_weight`). No message is needed in training but the labels, there is no
round to wait for, and a missing party only drops its term.

Numbers as labels are first rounded to one of their two bounds at random, without bias, and then answered by randomised
response like classes: what bounds the noise of the other parties' models is how large a released label can be.

Proof: ``docs/privacy/vertical_local_models.md``.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Final

import numpy as np

from sottovoce._numerics import Vector
from sottovoce._shown import quoted
from sottovoce._validation import magnitude, number
from sottovoce.exceptions import ParameterError
from sottovoce.losses import Logistic
from sottovoce.privacy.events import Event, compose
from sottovoce.randomness import Streams
from sottovoce.vertical.coordinator.exact import own_model_name, train_alone
from sottovoce.vertical.coordinator.parties import Parties
from sottovoce.vertical.coordinator.plan import (
    SCORED,
    LabelsOncePlan,
    SumOfScores,
    Term,
    VerticalSolution,
    Words,
    check_spent,
    require_row_bounds,
    said,
    split_mu,
)
from sottovoce.vertical.requests.local_models import TRAININGS, ReleasedLabelsPlan, SquaredOnLabelsPlan, TrainOnLabels
from sottovoce.vertical.wire import Payload


@dataclass(frozen=True, kw_only=True)
class LocalModelsPlan(LabelsOncePlan):
    """Released labels, private local models, scores added up."""

    name: ClassVar[str] = "local-models"
    about: ClassVar[str] = "the labels by randomised response once, then a private model at each other party"
    proof: ClassVar[str] = "docs/privacy/vertical_local_models.md"
    options: ClassVar[tuple[str, ...]] = ("budget_shares", "combination", "label_share")
    weighs_parties: ClassVar[bool] = True
    first_request = TrainOnLabels

    # >= 0, or None: every other party's score counts this much, divided by M - 1. None for weights by public facts.
    combination: float | None = None
    # share of the squared mean shift mu^2 of each party but the label holder; None for equal shares
    budget_shares: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        self.check_label_share("mechanism_options['label_share']")
        if self.combination is not None:
            remedy = "None takes weights by public facts."
            number("mechanism_options['combination']", self.combination, at_least=0.0, remedy=remedy)
        if not self.facts.others:
            raise ParameterError("mechanism='local-models' needs a party beside the label holder; got one party.")
        require_row_bounds(self.facts, self.facts.others, self.name)
        for name, plan in self.party_plans.items():  # refuses wrong shares and plans before anything is spent
            magnitude(f"alpha / data_norm**2 of party {name!r}", plan.alpha)

    @cached_property
    def party_plans(self) -> dict[str, ReleasedLabelsPlan]:
        """The frozen plan of each other party's training."""
        # their loss is linear in the label, so that flips can be undone
        kind = TRAININGS.get(self.loss.name, SquaredOnLabelsPlan)
        mus = split_mu(self.mu_beside_labels, self.facts.others, self.budget_shares)
        return {
            name: kind(
                n_samples=self.facts.n_samples,
                n_features=self.facts.descriptions[name].n_features,
                alpha=self.alpha / self.facts.descriptions[name].data_norm ** 2,
                mu=mus[name],
                nonnegative=bool(self.facts.descriptions[name].nonnegative),
                flip_probability=0.0 if self.response is None else self.response.flip_probability,
                label_bound=1.0 if self._numbers_as_they_are else None,
            )
            for name in self.facts.others
        }

    @cached_property
    def weights(self) -> dict[str, float]:
        count = len(self.facts.others)
        if self.combination is not None:
            return dict.fromkeys(self.facts.others, self.combination / count)
        classes = self.loss.is_classification
        return {
            name: public_weight(plan, n_others=count, is_classification=classes)
            for name, plan in self.party_plans.items()
        }

    @property
    def _numbers_as_they_are(self) -> bool:
        return self.labels_public and not self.loss.is_classification

    @property
    def event(self) -> Event:
        labels = [] if self.response is None else [self.response.event]
        return compose(*labels, *(plan.event for plan in self.party_plans.values()))

    @property
    def column_events(self) -> Mapping[str, Event]:
        return {name: plan.event for name, plan in self.party_plans.items()}

    def meet(self, parties: Parties) -> None:
        parties.own(self.facts.label_holder)  # whose own model is trained before labels leave
        super().meet(parties)

    def solve(self, parties: Parties, y: Vector, model: str, streams: Streams) -> VerticalSolution:
        train_alone(parties, self, y, own_model_name(model), model)
        signs, half_range = (y, 1.0) if self.loss.is_classification else self._centred(y)
        if self.response is not None:
            signs = self.released_labels(parties, signs, streams)
        requests = {
            name: TrainOnLabels(
                signs, plan.loss.name, plan.flip_probability, plan.label_bound or 0.0, plan.alpha, plan.mu, model
            )
            for name, plan in self.party_plans.items()
        }
        with self.after_labels():
            for name, reply in parties.exchange(requests, Payload).items():
                check_spent(name, said(name, reply), self.party_plans[name].event)
        terms = {name: Term(weight * half_range, self._prior(y)) for name, weight in self.weights.items()}
        return VerticalSolution(
            scorer=SumOfScores({self.facts.label_holder: Term(), **terms}, optional=frozenset(terms)),
            event=self.event,
            n_rounds=1,
        )

    def _centred(self, y: Vector) -> tuple[Vector, float]:
        """Return labels in [-1, 1], and what one unit of them is worth."""
        assert self.facts.label_bounds is not None
        low, high = self.facts.label_bounds
        half_range = 0.5 * (high - low)
        return np.clip((y - 0.5 * (low + high)) / half_range, -1.0, 1.0), half_range

    def _prior(self, y: Vector) -> float:
        """Return the score of a model without features, in the unit of the other parties' scores."""
        if not self.loss.is_classification:
            return float(self._centred(y)[0].mean())
        mean = float(y.mean())
        if isinstance(self.loss, Logistic):
            share = min(max(0.5 * (1.0 + mean), 1e-6), 1.0 - 1e-6)
            return math.log(share / (1.0 - share))
        return mean

    @property
    def words(self) -> Words:
        labels = "public labels" if self.response is None else "labels released once by randomised response"
        rows = self.facts.norms_in_words(self.facts.others)
        models = {f"mu of {name}": plan.mu for name, plan in self.party_plans.items()}
        weights: dict[str, object] = {f"weight of the score of {name}": each for name, each in self.weights.items()}
        return Words(
            mechanism=f"{labels}; every other party trains a private model of its own columns on them; scores are "
            "added up",
            releases=(
                *self.label_release,
                "the private model of each other party (it stays there; the statement holds if it is published)",
            ),
            assumptions=(*rows, "the labels themselves") if self.labels_public else rows,
            not_covered=(
                f"what {quoted(self.facts.label_holder)} knows itself and what it makes of it: its own model, the "
                "joint scores, comparisons and weights learnt from scores are exact, and stay there",
                SCORED,
            ),
            details={
                **self.label_details(),
                **models,
                **(weights if self.combination is None else {"combination": self.combination}),
            },
        )


MOST_OF_CLASSES: Final = 0.7  # c, for classes

_CLASSES: Final = (MOST_OF_CLASSES, 0.4, 0.3)  # c, A, p, for labels -1 and +1 as they are
_NUMBERS: Final = (1.0, 0.01, 1.0)  # for numbers, which are seldom at the ends of their bounds


def public_weight(plan: ReleasedLabelsPlan, *, n_others: int, is_classification: bool) -> float:
    r"""Return how much the label holder gives for another party's score: from public facts alone.

    A private model is part signal and part noise. What it is made of is the sum of labels times rows. With n people, d
    columns, labels that weigh b (more where they went through randomised response) and noise of standard deviation s in
    each entry of a gradient, the squared length of that sum is about

    .. math:: \underbrace{A n^2 / d}_\text{signal} + \underbrace{d s^2}_\text{noise} + \underbrace{b^2 n}_\text{luck},

    the last because a row has norm 1 at most. The score of party m counts by the share of the signal,

    .. math:: \frac{c}{(M - 1)^p} \, \frac{A n^2}{A n^2 + d\,(d s^2 + b^2 n)}:

    most where one party joins and the noise fades, nothing where noise is all there is, and less each where more
    parties are likely to say the same. Predictions of numbers that are added up can be arbitrarily far off where all
    say the same, so for them p = 1 and c = 1: together the others count once at most. For classes p = 0.3 and c = 0.7,
    the smallest whose mean log loss is within 1 % of the best one's: what columns say twice is not public, so that less
    is safer. Decision 21 has how the constants were chosen. Nothing in it depends on a row or a label.

    Parameters
    ----------
    plan : ReleasedLabelsPlan
        Of its training.
    n_others : int
        Parties beside the label holder.
    is_classification : bool
        Whether labels are classes.
    """
    n, d = float(plan.n_samples), float(plan.n_features)
    most, strength, power = _CLASSES if is_classification else _NUMBERS
    signal = strength * (plan.unit * n) ** 2
    noise = d * (d * plan.gradient_noise**2 + plan.soft_label_bound**2 * n)
    return most * signal / (signal + noise) / math.pow(n_others, power)
