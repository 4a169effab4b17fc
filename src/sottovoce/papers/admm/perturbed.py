r"""Training with ADMM sharing and the published noise, for reproduction: its privacy claim does not hold.

Each round a party solves its part of eq. (6), printed (Jacobi) form, adds xi ~ N(0, sigma^2 (D'D)^+) to its
coefficients and sends D (x + xi), eq. (16); sigma is that of Theorem 3 for the claimed epsilon and delta of one round.
The noisy coefficients are those that the next round starts from and that are kept.

Parties and estimators are given it by hand:
`Party(..., protocols=[PROTOCOL])`, ``VerticalLogisticRegression(mechanism=Perturbed)``.

What is claimed, and why epsilon is infinite: ``docs/privacy/published_vertical_noise.md``.

References
----------
.. [1] Hu, Liu, Kong, Niu (2019). Learning Privately over Distributed Features: An ADMM Sharing Approach.
   arXiv:1907.07735, Section 4.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sottovoce._numerics import Vector
from sottovoce._validation import number, whole_number
from sottovoce.exceptions import ParameterError
from sottovoce.losses.base import Loss
from sottovoce.papers.admm.bounds import corollary_1, lemma_1_bound, theorem_3_std
from sottovoce.papers.admm.noise import PublishedNoise
from sottovoce.papers.admm.rounds import printed
from sottovoce.privacy.events import Event, NonPrivateEvent
from sottovoce.randomness import Streams
from sottovoce.vertical.coordinator.parties import Parties
from sottovoce.vertical.coordinator.plan import SumOfScores, Term, VerticalPlan, VerticalSolution
from sottovoce.vertical.protocol import Answer, Desk, PartyFacts, Protocol, RefusalError, Training, Unprotected
from sottovoce.vertical.protocols.exact.admm import AdmmWorker
from sottovoce.vertical.protocols.exact.messages import AdmmReply, AdmmStart, AdmmStep
from sottovoce.vertical.protocols.exact.party import AdmmStepHandler, subproblem
from sottovoce.vertical.protocols.exact.plan import own_model_name, train_alone
from sottovoce.vertical.protocols.exact.scores import ScoreProblem
from sottovoce.vertical.protocols.exact.subproblem import Subproblem
from sottovoce.vertical.protocols.general.messages import Keep, Prepare
from sottovoce.vertical.protocols.general.party import KeepHandler, PrepareHandler
from sottovoce.vertical.wire import Done, Message

__all__ = ["PROTOCOL", "Perturbed", "PerturbedStart", "PerturbedStartHandler", "PerturbedWorker", "noise_std"]


class PerturbedStart(Message, code=147):
    """Begin ADMM in the printed form, with the noise that the paper asks for one round's claim."""

    rho: float
    epsilon: float
    delta: float
    norm_bound: float
    n_parties: int


def noise_std(n_columns: int, *, l2: float, start: PerturbedStart) -> float:
    """Return the sigma of Theorem 3 at a party with so many columns."""
    bound = lemma_1_bound(
        n_columns, penalty=l2, curvature=1.0, rho=start.rho, n_parties=start.n_parties, norm_bound=start.norm_bound
    )
    return theorem_3_std(bound, epsilon=start.epsilon, delta=start.delta)


class PerturbedWorker(AdmmWorker):
    """The party's side: as in `AdmmWorker`, with the published noise on the coefficients before D x is sent.

    Parameters
    ----------
    problem : Subproblem
    start : PerturbedStart
    generator : numpy.random.Generator
    """

    def __init__(self, problem: Subproblem, start: PerturbedStart, generator: np.random.Generator) -> None:
        super().__init__(problem, AdmmStart(start.rho, 0.0, 1.0, 0))
        columns = problem.columns
        self._noise = PublishedNoise(columns.dense_by_column() if columns.intercept else columns.table)
        self.noise_std = noise_std(columns.n_columns, l2=problem.penalty.l2, start=start)
        self._generator = generator

    def step(self, message: AdmmStep) -> AdmmReply:
        """Update the coefficients, add noise to them, and return D x."""
        reply = super().step(message)
        noise = self._noise.draw(self.noise_std, self._generator)
        self.x = self.x + noise.weights
        self.scores = self.scores + noise.message
        self._gram_x = self.problem.gram_times(self.x, self.scores)
        return AdmmReply(self.scores, reply.stationarity, self.problem.penalty_of(self.x))


class PerturbedStartHandler(Unprotected[PerturbedStart]):
    """Charged as what it is, a release without protection."""

    request = PerturbedStart

    def plan(self, facts: PartyFacts, training: Training, request: PerturbedStart) -> Event:
        """Check the numbers that the noise is made from."""
        if not request.rho > 0.0:
            raise RefusalError("ADMM needs rho > 0")
        noise_std(facts.n_features + training.intercept, l2=training.penalty.l2, start=request)
        return super().plan(facts, training, request)

    def run(self, desk: Desk, request: PerturbedStart) -> Done:
        """Begin with coefficients 0."""
        desk.training.worker = PerturbedWorker(subproblem(desk), request, desk.noise())
        return Done()


@dataclass(frozen=True, kw_only=True)
class Perturbed(VerticalPlan):
    """Plan of one training with the published noise; ``epsilon`` and ``delta`` are the paper's claim for one round.

    Attributes
    ----------
    max_iter : int, >= 1
        Rounds.
    rho : float, > 0
        Step of ADMM, for the sum of losses.
    norm_bound : float, >= 0
        b_1 of the paper, the assumed bound on the norms of weights, z and y.

    Raises
    ------
    ParameterError
        If a parameter is out of range, or the loss is not convex.
    """

    name: ClassVar[str] = "admm-perturbed"
    about: ClassVar[str] = (
        "the published noise (Hu, Liu, Kong, Niu 2019), for reproduction; its receipt says epsilon = inf and why"
    )
    proof: ClassVar[str] = "docs/privacy/published_vertical_noise.md"
    options: ClassVar[tuple[str, ...]] = ("max_iter", "norm_bound", "rho")

    max_iter: int = 10
    rho: float = 1.0
    norm_bound: float = 1.0

    def __post_init__(self) -> None:
        remedy = "Theorem 3 is stated for epsilon up to 1, the claim for one round."
        number("epsilon", self.epsilon, above=0.0, at_most=1.0, remedy=remedy)
        number("delta", self.delta, above=0.0, below=1.0)
        number("alpha", self.alpha, above=0.0)
        whole_number("max_iter", self.max_iter, at_least=1, at_most=10**6)
        number("rho", self.rho, above=0.0)
        number("norm_bound", self.norm_bound, at_least=0.0)
        if not isinstance(self.loss, Loss):
            raise ParameterError(
                f"the published noise needs a convex loss; got {self.loss!r}. Use the logistic, hinge or squared loss."
            )

    @property
    def _start(self) -> PerturbedStart:
        return PerturbedStart(self.rho, self.epsilon, self.delta, self.norm_bound, len(self.facts.names))

    @property
    def event(self) -> Event:
        """A release without protection."""
        return NonPrivateEvent()

    def solve(self, parties: Parties, y: Vector, model: str, streams: Streams) -> VerticalSolution:
        """Run the rounds, and let every party keep its last, noisy coefficients."""
        train_alone(parties, self, y, own_model_name(model))
        names, holder = self.facts.names, self.facts.label_holder
        l2 = self.alpha * len(y)
        parties.exchange(
            {name: Prepare(l2, 0.0, -math.inf, math.inf, int(self.fit_intercept and name == holder)) for name in names},
            Done,
        )
        problem = ScoreProblem(self.loss, y)
        history = printed(parties, problem, rho=self.rho, start=self._start, max_iter=self.max_iter, tol=0.0)
        parties.exchange(Keep(model), Done)
        return VerticalSolution(
            scorer=SumOfScores(dict.fromkeys(names, Term())),
            event=self.event,
            party_events=dict.fromkeys(names, self.event),
            n_rounds=history.n_rounds,
            history=history,
        )

    @property
    def mechanism(self) -> str:
        """The algorithm in one sentence, for the receipt."""
        return "ADMM sharing with the noise of Hu et al. (2019) on the coefficients; it protects nobody"

    @property
    def releases(self) -> tuple[str, ...]:
        """What leaves whom for whom, for the receipt."""
        return (
            f"{self.max_iter} times: D (x + xi) of every party, one number a person, to all parties",
            f"{self.max_iter} times: the dual variable, which shows every label, to all parties",
        )

    @property
    def not_covered(self) -> tuple[str, ...]:
        """What is left open: everything."""
        return ("everything: the published claim does not hold, and epsilon is infinite",)

    @property
    def promised_epsilon(self) -> float:
        """Infinite, whatever was claimed."""
        return math.inf

    @property
    def is_private(self) -> bool:
        """No."""
        return False

    def details(self) -> dict[str, object]:
        """Return what the paper claims, and why it does not hold."""
        claimed, delta = corollary_1(
            epsilon=self.epsilon, delta=self.delta, delta_prime=self.delta, n_rounds=self.max_iter
        )
        details: dict[str, object] = {
            "epsilon that the paper claims for one round": self.epsilon,
            "delta that the paper claims for one round": self.delta,
            "epsilon that the paper claims for all rounds": claimed,
            "delta that the paper claims for all rounds": delta,
            "why the claim does not hold": (
                "a message never leaves the span of the party's own columns, and neighbouring tables have different "
                "spans: one message tells them apart with certainty, at any noise. See "
                "docs/privacy/published_vertical_noise.md"
            ),
            "assumed bound b_1 on the norms": self.norm_bound,
            "rho": self.rho,
        }
        for name, std in self.noise_stds.items():
            details[f"noise of a message of party {name!r}, in the span of its columns"] = std
        return details

    @property
    def noise_stds(self) -> Mapping[str, float]:
        """Sigma of Theorem 3 at each party."""
        l2, holder = self.alpha * self.facts.n_samples, self.facts.label_holder
        return {
            name: noise_std(
                facts.n_features + (self.fit_intercept and name == holder),
                l2=l2,
                start=self._start,
            )
            for name, facts in self.facts.descriptions.items()
        }


PROTOCOL = Protocol(
    Answer("admm-perturbed", "scores with the noise of Hu et al. (2019), which protects nobody", charged=True),
    handlers=(PrepareHandler, PerturbedStartHandler, AdmmStepHandler, KeepHandler),
    plan=Perturbed,
)
