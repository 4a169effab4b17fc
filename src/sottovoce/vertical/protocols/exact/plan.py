"""Training without noise: the optimum of the joint problem. No protection of anybody.

Every party shows its columns to the coordinator, who trains one table and gives each party its weights back. To train
on slopes and scores in rounds hid nothing: whoever asks for enough of them computes the columns.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from sottovoce._numerics import Vector
from sottovoce._validation import number, whole_number
from sottovoce.exceptions import PartyError
from sottovoce.privacy.events import Event, NonPrivateEvent
from sottovoce.randomness import Streams
from sottovoce.vertical.coordinator.parties import Parties
from sottovoce.vertical.coordinator.plan import (
    PublicFacts,
    SumOfScores,
    Term,
    VerticalPlan,
    VerticalSolution,
    Words,
    checked,
)
from sottovoce.vertical.protocol import Part
from sottovoce.vertical.protocols.exact.messages import KeepWeights, ShowColumns, table_from
from sottovoce.vertical.protocols.exact.newton import Optimum, minimise
from sottovoce.vertical.wire import Done, Payload


def own_model_name(model: str) -> str:
    """Return the name under which the label holder keeps its own exact model beside the joint one."""
    return f"{model} alone"


def train_alone(parties: Parties, plan: VerticalPlan, y: Vector, *models: str) -> None:
    """Train the label holder's own exact model on its own columns and keep it by these names: no message is sent.

    Raises `PartyError` if it does not live where the coordinator runs, or fails; no word of the failure tells of a row.
    """
    party = parties.own(plan.facts.label_holder)
    found = _optimum(party.table, plan, y, f"party {party.name!r} failed at its own model")
    for model in models:
        party.adopt(model, Part(found.coef, found.intercept, party.feature_names))


def _optimum(table: Any, plan: VerticalPlan, y: Vector, fails: str, **options: Any) -> Optimum:
    l2 = plan.alpha * plan.facts.n_samples
    try:
        return minimise(table, plan.loss, y, l2=l2, intercept=plan.fit_intercept, **options)
    except Exception as error:  # its message could quote a row
        raise PartyError(f"{fails} ({type(error).__name__}): scale the columns, or raise alpha.") from None


def joined_columns(parties: Parties, facts: PublicFacts) -> Any:
    """Ask every party for its columns, and return them as one table, CSR where one of them is."""
    tables = []
    for name, told in parties.exchange(dict.fromkeys(facts.names, ShowColumns()), Payload).items():
        checked(name, told.numbers, len(told.numbers))
        try:
            tables.append(table_from(told, facts.n_samples, facts.descriptions[name].n_features))
        except ValueError:
            raise PartyError(f"party {name!r} showed what is no table of its columns.") from None
    if any(map(sp.issparse, tables)):
        return sp.csr_array(sp.hstack(tables))
    return np.hstack(tables)


def keep_weights(parties: Parties, model: str, weights: Mapping[str, tuple[Vector, float]]) -> None:
    """Have each party keep its coefficients and intercept."""
    parties.exchange({name: KeepWeights(model, np.append(*each)) for name, each in weights.items()}, Done)


@dataclass(frozen=True, kw_only=True)
class InOnePlacePlan(VerticalPlan):
    """What every training without noise has: all columns come to the coordinator, and weights go back."""

    name: ClassVar[str] = "none"
    mechanism: ClassVar[str]

    max_iter: int  # steps at most
    tol: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_iter", whole_number("max_iter", self.max_iter, at_least=1))
        object.__setattr__(self, "tol", number("tol", self.tol, above=0.0))

    @property
    def event(self) -> Event:
        return NonPrivateEvent()

    @property
    def scorer(self) -> SumOfScores:
        return SumOfScores({name: Term() for name in self.facts.names})

    @abstractmethod
    def optimum(self, table: Any, y: Vector) -> Optimum: ...

    def solve(self, parties: Parties, y: Vector, model: str, streams: Streams) -> VerticalSolution:
        found, holder = self.optimum(joined_columns(parties, self.facts), y), self.facts.label_holder
        ends = np.cumsum([each.n_features for each in self.facts.descriptions.values()])
        parts = zip(self.facts.names, np.split(found.coef, ends[:-1]), strict=True)
        weights = {name: (part, found.intercept * (name == holder)) for name, part in parts}
        keep_weights(parties, model, weights)
        return VerticalSolution(
            scorer=self.scorer,
            event=self.event,
            weights=weights,
            n_rounds=2,
            history=found.history,
            chosen={"converged": found.history.converged},
        )

    @property
    def words(self) -> Words:
        return Words(
            mechanism=self.mechanism,
            releases=(
                "to the coordinator: all columns of every party, as they are",
                "to every party: its own weights, from which labels and other columns can be told in part",
            ),
            details={"max_iter": self.max_iter, "tol": self.tol},
        )


@dataclass(frozen=True, kw_only=True)
class ExactPlan(InOnePlacePlan):
    """Training without noise."""

    proof: ClassVar[str] = "docs/privacy/published_vertical_noise.md"
    mechanism: ClassVar[str] = "Newton's method on all columns in one place, without noise"

    max_iter: int = 200
    tol: float = 1e-6

    def solve(self, parties: Parties, y: Vector, model: str, streams: Streams) -> VerticalSolution:
        train_alone(parties, self, y, own_model_name(model))
        return super().solve(parties, y, model, streams)

    def optimum(self, table: Any, y: Vector) -> Optimum:
        return _optimum(table, self, y, "the training on all columns failed", max_iter=self.max_iter, tol=self.tol)
