r"""ADMM sharing in which every message is clipped and carries independent noise.

In units of its public row bound each party has rows of norm at most 1. In a round it takes targets v, one number a
record, from released values only and clipped to [-W, W], computes

.. math:: x = \arg\min_{|x| \le R} \tfrac\lambda2 |x|^2 + \tfrac\rho2 |D x - v|^2

and sends clip(D x, -c, c) + N(0, sigma^2 I). A replaced row moves its own entry by at most 2c, and all others, through
x, by at most B / sqrt(2 + lambda / rho) together, B = W + R (`ScoreRelease`). The first message of ADMM is 0 whatever
the data are, and the last update is not sent, so T messages of each party give T + 1 updates.

The coordinator's part depends on the labels, so it works with labels that went through randomised response and with the
loss that is unbiased for them, unless the labels are public.

The statement is about what crosses in training. The last coefficients, which stay at each party, are made without
noise, and no statement covers them; those of ``mechanism="local-models"`` are covered. So this one is sometimes the
more accurate of the two: ``docs/measured/vertical_private.md`` has both side by side.

The bounds make scores small, because noise grows with them, so that a sum of scores is far from a logarithm of odds.
The label holder multiplies it by the public ``score_scale``; no class changes by that.

All of it is computed in units of c: scores within 1, R / c, W / c, and the objective divided by rho c^2, in which
lambda and rho count by their ratio alone. No square of a public number can vanish or overflow then. Nothing is refused
and nothing fails over what the rows are: that the computed x is near enough follows from public facts.

Statement and proof: ``docs/privacy/vertical_noisy_admm.md``.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Final

import numpy as np

from sottovoce._numerics import Vector
from sottovoce._shown import quoted
from sottovoce._validation import magnitude, number, whole_number
from sottovoce.exceptions import ParameterError
from sottovoce.losses import Logistic
from sottovoce.losses.base import Loss
from sottovoce.losses.tilted import TiltedLogistic
from sottovoce.privacy.events import Event, NothingReleased, RepeatedEvent, compose
from sottovoce.randomness import Purpose, Streams
from sottovoce.vertical.coordinator.charges import (
    check_affordable,
    check_spent,
    require_row_bounds,
    split_mu,
)
from sottovoce.vertical.coordinator.parties import Parties
from sottovoce.vertical.coordinator.plan import LabelsOncePlan, SumOfScores, Term, VerticalSolution
from sottovoce.vertical.coordinator.replies import total
from sottovoce.vertical.protocols.exact.plan import own_model_name, train_alone
from sottovoce.vertical.protocols.exact.scores import ScoreProblem
from sottovoce.vertical.protocols.general.messages import Keep, Prepare
from sottovoce.vertical.protocols.noisy_admm.messages import NoisyScores, NoisyStart, NoisyStep
from sottovoce.vertical.protocols.noisy_admm.party import ScoreRelease, score_release
from sottovoce.vertical.wire import Done

__all__ = ["NoisyAdmmPlan"]

_USUAL_SCORE: Final = 1.5  # of a record, as the logarithm of odds; chosen by benchmarks.vertical.weights


@dataclass(frozen=True, kw_only=True)
class NoisyAdmmPlan(LabelsOncePlan):
    """Plan of one training by noisy ADMM.

    Attributes
    ----------
    max_iter : int, >= 0
        T: messages of each party.
    rho : float, > 0
        Penalty parameter, for the sum of losses.
    score_bound : float, > 0
        c: a party's scores are clipped to [-c, c] in messages. Small defaults: most of the noise grows with c.
    norm_bound : float, > 0
        R: bound on the coefficients, for rows of norm 1; hence on a party's scores.
    target_bound : float or None
        W: bound on the targets; None for 2 c.
    score_scale : float, > 0, or None
        The sum of scores is multiplied by it; None for max(1, 1.5 / c) with the logistic loss, else 1.
    budget_shares : dict or None
        Share of each party in the square of the mean shift of all messages; None for equal shares.

    Raises
    ------
    ParameterError
        If a party has no ``data_norm``, labels are secret and the loss is not logistic, or a parameter is out of range.
    """

    name: ClassVar[str] = "noisy-admm"
    about: ClassVar[str] = "clipped, noisy scores"
    proof: ClassVar[str] = "docs/privacy/vertical_noisy_admm.md"
    options: ClassVar[tuple[str, ...]] = (
        "budget_shares",
        "label_share",
        "max_iter",
        "norm_bound",
        "rho",
        "score_bound",
        "score_scale",
        "target_bound",
    )

    max_iter: int = 1
    rho: float = 0.1
    score_bound: float = 0.25
    norm_bound: float = 1.0
    target_bound: float | None = None
    score_scale: float | None = None
    budget_shares: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        number("epsilon", self.epsilon, above=0.0)
        number("delta", self.delta, above=0.0, below=1.0)
        magnitude("alpha", self.alpha)
        whole_number("max_iter", self.max_iter, at_least=0, at_most=10**6)
        for name in ("rho", "score_bound", "norm_bound"):
            magnitude(name, getattr(self, name))
        for name in ("target_bound", "score_scale"):
            if getattr(self, name) is not None:
                magnitude(name, getattr(self, name))
        self.check_label_share("label_share")
        if not isinstance(self.loss, Loss):
            raise ParameterError(
                f"mechanism='noisy-admm' needs a convex loss; got {self.loss!r}. Use the logistic loss, or "
                "mechanism='local-models'."
            )
        if not self.labels_public and not isinstance(self.loss, Logistic):
            raise ParameterError(
                f"mechanism='noisy-admm' with secret labels needs the logistic loss, which can be corrected for "
                f"randomised response; got {self.loss.name!r}. Use mechanism='local-models', or labels_public=True if "
                "the labels are not secret."
            )
        require_row_bounds(self.facts, self.facts.names, self.name)
        for name in self.facts.names:  # refuses wrong shares, budgets that leave nothing and bounds that do not fit
            self.release_of(name)

    @cached_property
    def mus(self) -> dict[str, float]:
        """Mean shift of each message of each party."""
        by_party = split_mu(self.mu_beside_labels, self.facts.names, self.budget_shares)
        return {name: value / math.sqrt(max(1, self.max_iter)) for name, value in by_party.items()}

    @property
    def scale(self) -> float:
        """What the sum of scores is multiplied by: an odds ratio is not within the bounds that keep noise small."""
        if self.score_scale is not None:
            return self.score_scale
        return max(1.0, _USUAL_SCORE / self.score_bound) if isinstance(self.loss, Logistic) else 1.0

    def start_of(self, name: str) -> NoisyStart:
        """Return what a party is told of bounds and noise."""
        bound = 2.0 * self.score_bound if self.target_bound is None else self.target_bound
        return NoisyStart(self.rho, self.score_bound, self.norm_bound, bound, self.mus[name])

    def release_of(self, name: str) -> ScoreRelease:
        """Return how a party releases its scores."""
        facts = self.facts.descriptions[name]
        return score_release(
            self.facts.n_samples, facts.n_features, facts.data_norm, intercept=self._intercept_at(name), l2=self._l2,
            start=self.start_of(name),
        )  # fmt: skip

    @property
    def _l2(self) -> float:
        return self.alpha * self.facts.n_samples

    def _intercept_at(self, name: str) -> bool:
        return self.fit_intercept and name == self.facts.label_holder

    def _spent_by(self, name: str) -> Event:
        return RepeatedEvent(self.release_of(name).event, self.max_iter) if self.max_iter else NothingReleased()

    @property
    def event(self) -> Event:
        """The labels, and every message of every party; a person has a row at each."""
        return compose(self.label_event, *(self._spent_by(name) for name in self.facts.names))

    def solve(self, parties: Parties, y: Vector, model: str, streams: Streams) -> VerticalSolution:
        """Release the labels, run the rounds, and let every party keep its last coefficients."""
        check_affordable(parties, {name: self._spent_by(name) for name in self.facts.names})
        names = self.facts.names  # asked before the labels are released: not every owner allows it
        parties.exchange(
            {name: Prepare(self._l2, 0.0, -math.inf, math.inf, int(self._intercept_at(name))) for name in names}, Done
        )
        parties.exchange({name: self.start_of(name) for name in names}, Done)
        train_alone(parties, self, y, own_model_name(model))
        loss: Any = self.loss
        if self.response is not None:
            y, _ = self.response.release(y, streams.generator(Purpose.NOISE))
            loss = TiltedLogistic(self.response.tilt)
        problem = ScoreProblem(loss, y)
        n, size = len(y), len(names)
        mean, dual = np.zeros(n), np.zeros(n)
        for t in range(self.max_iter + 1):
            target = problem.minimise(size * (mean + dual), self.rho / size) / size
            shift = target - mean
            dual = dual - shift
            sent = t < self.max_iter
            replies = parties.exchange(NoisyStep(shift, int(sent)), NoisyScores)
            for name, reply in replies.items():
                check_spent(name, reply.event, self.release_of(name).event if sent else NothingReleased())
            if sent:
                mean = total({name: reply.scores for name, reply in replies.items()}, n) / size
        parties.exchange(Keep(model), Done)
        return VerticalSolution(
            scorer=SumOfScores(dict.fromkeys(names, Term(self.scale))),
            event=self.event,
            party_events=self.with_labels({name: self._spent_by(name) for name in names}),
            n_rounds=self.max_iter + 1,
        )

    @property
    def mechanism(self) -> str:
        """The algorithm in one sentence, for the receipt."""
        labels = "public labels" if self.labels_public else "labels by randomised response"
        return f"ADMM sharing on clipped scores with Gaussian noise on a grid, {labels}"

    @property
    def releases(self) -> tuple[str, ...]:
        """What leaves whom for whom, for the receipt."""
        labels = () if self.labels_public else ("labels by randomised response, to all parties",)
        rounds = "once" if self.max_iter == 1 else f"{self.max_iter} times"
        return labels + tuple(
            f"clipped scores of {quoted(name)}, one number a person, with noise, {rounds}, to all parties"
            for name in (self.facts.names if self.max_iter else ())
        )

    @property
    def not_covered(self) -> tuple[str, ...]:
        """What the statement leaves open, for the receipt."""
        return (
            "people who are scored: each party's score of them is sent without noise",
            "each party's coefficients, which stay with it: its last update uses its own columns without noise",
        )

    def details(self) -> dict[str, object]:
        """Return bounds, noise and budget of each party."""
        details: dict[str, object] = {
            "scores clipped at": self.score_bound,
            "messages of each party": self.max_iter,
            "rho": self.rho,
            "scores times": self.scale,
        }
        if self.response is not None:
            details["epsilon of the randomised response of labels"] = self.response.epsilon
        for name in self.facts.names:
            details[f"mu (Gaussian DP) of a message of party {name!r}"] = self.mus[name]
            noise = self.release_of(name).mechanism.noise_std * self.score_bound
            details[f"noise of a score of party {name!r}"] = noise
        return details
