"""Training without noise: the optimum of the joint problem, by L-BFGS. No protection of anybody."""

from dataclasses import dataclass
from typing import ClassVar

from sottovoce._numerics import Vector
from sottovoce._validation import number, whole_number
from sottovoce.exceptions import PartyError
from sottovoce.privacy.events import Event, NonPrivateEvent
from sottovoce.randomness import Streams
from sottovoce.vertical.coordinator.parties import Parties
from sottovoce.vertical.coordinator.plan import SumOfScores, Term, VerticalPlan, VerticalSolution
from sottovoce.vertical.protocol import Part
from sottovoce.vertical.protocols.exact.lbfgs import MEMORY, Alone, ScoreProblem, lbfgs


def own_model_name(model: str) -> str:
    """Return the name under which the label holder keeps its own exact model beside the joint one."""
    return f"{model} alone"


def train_alone(parties: Parties, plan: VerticalPlan, y: Vector, *models: str) -> None:
    """Train the label holder's own exact model on its own columns and keep it by these names: no message is sent.

    Raises `PartyError` if it does not live where the coordinator runs, or fails; no word of the failure tells of a row.
    """
    party, l2 = parties.own(plan.facts.label_holder), plan.alpha * plan.facts.n_samples
    try:
        own = Alone(party.table)
        lbfgs(own, ScoreProblem(plan.loss, y), l2=l2, intercept=plan.fit_intercept)
    except Exception as error:
        raise PartyError(f"party {party.name!r} failed at its own model ({type(error).__name__}).") from None
    coef, intercept = own.worker.coefficients
    for model in models:
        party.adopt(model, Part(coef, intercept, party.feature_names))


@dataclass(frozen=True, kw_only=True)
class ExactPlan(VerticalPlan):
    """Training without noise."""

    name: ClassVar[str] = "none"
    proof: ClassVar[str] = "docs/privacy/published_vertical_noise.md"

    max_iter: int = 200
    tol: float = 1e-6

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_iter", whole_number("max_iter", self.max_iter, at_least=1))
        object.__setattr__(self, "tol", number("tol", self.tol, above=0.0))

    @property
    def event(self) -> Event:
        return NonPrivateEvent()

    def solve(self, parties: Parties, y: Vector, model: str, streams: Streams) -> VerticalSolution:
        train_alone(parties, self, y, own_model_name(model))
        with parties.session(resumed=False) as talk:  # what the parties hold ends with their processes
            talk.uplink_bytes, talk.downlink_bytes = parties.uplink_bytes, parties.downlink_bytes
            history = lbfgs(
                talk, ScoreProblem(self.loss, y), l2=self.alpha * self.facts.n_samples, model=model,
                intercept=self.fit_intercept, max_iter=self.max_iter, tol=self.tol,
            )  # fmt: skip
        return VerticalSolution(
            scorer=SumOfScores({name: Term() for name in parties.names}),
            event=self.event,
            n_rounds=history.n_rounds,
            history=history,
            chosen={"converged": history.converged},
        )

    @property
    def mechanism(self) -> str:
        return "block-preconditioned L-BFGS on exact scores, without noise"

    @property
    def releases(self) -> tuple[str, ...]:
        return (
            "to the coordinator: each party's exact score of every record in every round",
            "to every party: one number a record and round, from which labels and the other parties' sum of scores can "
            "be told",
        )

    def details(self) -> dict[str, object]:
        return {"memory": MEMORY, "max_iter": self.max_iter, "tol": self.tol}
