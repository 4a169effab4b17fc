r"""ADMM sharing in which every message is clipped and carries independent noise: sound, and not accurate.

In units of its public row bound each party has rows of norm at most 1. In a round it takes targets v, one number a
record, from released values only and clipped to [-W, W], computes

.. math:: x = \arg\min_{|x| \le R} \tfrac\lambda2 |x|^2 + \tfrac\rho2 |D x - v|^2

and sends clip(D x, -c, c) + N(0, sigma^2 I). A replaced row moves its own entry by at most 2c, and all others, through
x, by at most B / sqrt(2 + lambda / rho) together, B = W + R (`ScoreRelease`). The first message of ADMM is 0 whatever
the data are, and the last update is not sent, so T messages of each party give T + 1 updates.

The coordinator's part depends on the labels, so it works with labels that went through randomised response and with the
loss that is unbiased for them, unless the labels are public.

On a9a it is *worse than the label holder's own model*; ``mechanism="local-models"`` is better everywhere. It is here as
the sound form of the published idea.

Statement and proof: ``docs/privacy/vertical_noisy_admm.md``.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.optimize import brentq

from sottovoce._validation import number, whole_number
from sottovoce.central.plan import ROUNDING_SLACK
from sottovoce.exceptions import ParameterError
from sottovoce.losses import Logistic
from sottovoce.losses.base import Loss
from sottovoce.losses.tilted import TiltedLogistic
from sottovoce.privacy.calibration import gaussian_mu, gaussian_mu_beside
from sottovoce.privacy.events import Event, GaussianEvent, NothingReleased, RepeatedEvent, compose
from sottovoce.privacy.mechanisms.gaussian import GridGaussian, power_of_two_below, rounding_norm, to_ticks
from sottovoce.privacy.mechanisms.randomized_response import RandomizedResponse
from sottovoce.randomness import Purpose, Streams
from sottovoce.vertical.bounded import PIECE, bounded_pieces
from sottovoce.vertical.charges import check_affordable, check_spent, event_text, require_row_bounds, split_mu
from sottovoce.vertical.exact import alone, train_alone
from sottovoce.vertical.messages import Done, Keep, NoisyScores, NoisyStart, NoisyStep, Prepare
from sottovoce.vertical.parties import Parties
from sottovoce.vertical.plan import SumOfScores, Term, VerticalPlan, VerticalSolution
from sottovoce.vertical.scores import ScoreProblem

__all__ = ["NoisyAdmmPlan", "NoisyAdmmWorker", "ScoreRelease"]

Vector = NDArray[np.float64]

_CONSTANT: Final = 0.3  # the intercept's column beside rows of norm at most 1; the whole is scaled to norm 1
_WHOLE: Final = math.sqrt(1.0 + _CONSTANT**2)
_SOLVED: Final = 2.0**-8  # how far D x may be from its exact value, in units of the clip
_TICKS: Final = 2.0**-30  # of the noise


@dataclass(frozen=True)
class ScoreRelease:
    """One noisy message of a party: what it can move by, and its noise; from public facts alone.

    Parameters
    ----------
    n_rows, n_weights : int
    penalty : float, > 0
        lambda, in units in which rows have norm at most 1.
    rho : float, > 0
    score_bound, norm_bound, target_bound : float, > 0
        c, R and W.
    mu : float, > 0
        Mean shift that a replaced row may cause.
    """

    n_rows: int
    n_weights: int
    penalty: float
    rho: float
    score_bound: float
    norm_bound: float
    target_bound: float
    mu: float

    @property
    def event(self) -> Event:
        """What one message costs."""
        return GaussianEvent(1.0 / self.mu)

    @property
    def largest_residual(self) -> float:
        """B: bound on |row.x - target|."""
        return self.target_bound + self.norm_bound * ROUNDING_SLACK

    @property
    def sensitivity(self) -> float:
        """How far (L2) exact clipped scores move when a row is replaced."""
        others = self.largest_residual**2 / (2.0 + self.penalty / (self.rho * ROUNDING_SLACK**2))
        return math.sqrt((2.0 * self.score_bound) ** 2 + others)

    @property
    def gap(self) -> float:
        """Optimality gap up to which a computed x is accepted."""
        return self.rho * (_SOLVED * self.score_bound) ** 2

    @property
    def computed_sensitivity(self) -> float:
        """The same for scores that were computed in double precision, from an x within the accepted gap."""
        unit = 8.0 * (PIECE + self.n_rows / PIECE + self.n_weights + 8) * 2.0**-53
        slopes = self.rho * self.n_rows * self.largest_residual + self.penalty * self.norm_bound
        wrong_gap = 2.0 * self.norm_bound * unit * slopes
        wrong_scores = math.sqrt(self.n_rows) * unit * self.norm_bound
        return self.sensitivity + 2.0 * (math.sqrt((self.gap + wrong_gap) / self.rho) + wrong_scores)

    @cached_property
    def mechanism(self) -> GridGaussian:
        """The noise."""
        tick = power_of_two_below(self.computed_sensitivity / self.mu) * _TICKS
        return GridGaussian(self.computed_sensitivity + rounding_norm(self.n_rows, tick), 1.0 / self.mu, tick)


class NoisyAdmmWorker:
    """The party's side.

    Parameters
    ----------
    table : ndarray or csr_array of shape (n_rows, n_features)
        Copied, dense and in double precision.
    data_norm : float
    intercept : bool
    l2 : float, > 0
        Penalty of the coefficients, for the sum of losses.
    start : NoisyStart
    """

    def __init__(self, table: Any, data_norm: float, *, intercept: bool, l2: float, start: NoisyStart) -> None:
        n, d = table.shape
        self._rows = np.full((n, d + intercept), _CONSTANT / _WHOLE)
        self._unit = data_norm
        for place, rows in bounded_pieces(table, data_norm):
            self._rows[place, :d] = rows
        if intercept:
            self._rows[:, :d] /= _WHOLE
            self._unit *= _WHOLE
        self._intercept = intercept
        self.release = score_release(n, d, data_norm, intercept=intercept, l2=l2, start=start)
        gram = np.zeros((d + intercept, d + intercept))
        for piece in self._pieces():
            gram += self._rows[piece].T @ self._rows[piece]
        values, self._vectors = eigh(gram)
        self._steepness = self.release.penalty + start.rho * np.maximum(values, 0.0)
        self._weights = np.zeros(d + intercept)
        self._sent = np.zeros(n)  # the last message; before the first it is 0 at every party
        self._dual = np.zeros(n)

    @property
    def x(self) -> Vector:
        """Coefficients in the unit of the table, the intercept last where there is one."""
        x = self._weights / self._unit
        if self._intercept:
            x[-1] = self._weights[-1] * _CONSTANT / _WHOLE
        return x

    def step(self, message: NoisyStep, noise: np.random.Generator) -> NoisyScores:
        """Update the coefficients; send noisy scores where they were asked for."""
        bound = self.release.target_bound
        with np.errstate(over="ignore"):  # whatever the coordinator sends
            self._dual = self._dual - message.shift
            targets = np.clip(self._sent + message.shift - self._dual, -bound, bound)
        self._weights = self._nearest(targets)
        if not message.release:
            return NoisyScores(np.empty(0), event_text(NothingReleased()))
        mechanism = self.release.mechanism
        self._sent, event = mechanism.release(to_ticks(self.clipped_scores(), mechanism.tick), noise)
        return NoisyScores(self._sent, event_text(event))

    def clipped_scores(self) -> Vector:
        """Return clip(D x), what noise is added to."""
        scores = np.concatenate([self._rows[piece] @ self._weights for piece in self._pieces()])
        return np.asarray(np.clip(scores, -self.release.score_bound, self.release.score_bound))

    def _nearest(self, targets: Vector) -> Vector:
        """Return argmin lambda/2 |x|^2 + rho/2 |Dx - targets|^2 on the ball, to the accepted gap."""
        facts = self.release
        pull = self._vectors.T @ (facts.rho * self._back(targets))

        def excess(multiplier: float) -> float:
            return float(np.linalg.norm(pull / (self._steepness + multiplier))) - facts.norm_bound

        multiplier = 0.0
        if excess(0.0) > 0.0:
            multiplier = float(brentq(excess, 0.0, float(np.linalg.norm(pull)) / facts.norm_bound, xtol=1e-14))
        x = self._vectors @ (pull / (self._steepness + multiplier))
        x /= max(1.0, float(np.linalg.norm(x)) / facts.norm_bound)
        gradient = facts.penalty * x - facts.rho * self._back(targets)
        for piece in self._pieces():
            gradient += facts.rho * ((self._rows[piece] @ x) @ self._rows[piece])
        # the sum of squares of D times the error is at most this, over rho (strong convexity)
        gap = float(gradient @ x) + facts.norm_bound * float(np.linalg.norm(gradient))
        if not gap <= facts.gap:
            raise ArithmeticError("the party's own problem was not solved to the accuracy that the noise counts on")
        return x

    def _back(self, v: Vector) -> Vector:
        out = np.zeros(self._rows.shape[1])
        for piece in self._pieces():
            out += v[piece] @ self._rows[piece]
        return out

    def _pieces(self) -> list[slice]:
        return [slice(low, low + PIECE) for low in range(0, len(self._rows), PIECE)]


def score_release(
    n_rows: int, n_features: int, data_norm: float, *, intercept: bool, l2: float, start: NoisyStart
) -> ScoreRelease:
    """Return the release of a party; plan and party both make it from public facts."""
    unit = data_norm * (_WHOLE if intercept else 1.0)
    return ScoreRelease(
        n_rows,
        n_features + intercept,
        l2 / unit**2,
        start.rho,
        start.score_bound,
        start.norm_bound,
        start.target_bound,
        start.mu,
    )


@dataclass(frozen=True, kw_only=True)
class NoisyAdmmPlan(VerticalPlan):
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
    label_share : float, in (0, 1)
        Of epsilon, for the randomised response of labels that are not public.
    budget_shares : dict or None
        Share of each party in the square of the mean shift of all messages; None for equal shares.

    Raises
    ------
    ParameterError
        If a party has no ``data_norm``, labels are secret and the loss is not logistic, or a parameter is out of range.
    """

    options: ClassVar[tuple[str, ...]] = (
        "budget_shares",
        "label_share",
        "max_iter",
        "norm_bound",
        "rho",
        "score_bound",
        "target_bound",
    )

    max_iter: int = 1
    rho: float = 0.3
    score_bound: float = 0.25
    norm_bound: float = 1.0
    target_bound: float | None = None
    label_share: float = 0.75
    budget_shares: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        number("epsilon", self.epsilon, above=0.0)
        number("delta", self.delta, above=0.0, below=1.0)
        number("alpha", self.alpha, above=0.0)
        whole_number("max_iter", self.max_iter, at_least=0)
        for name in ("rho", "score_bound", "norm_bound"):
            number(name, getattr(self, name), above=0.0)
        if self.target_bound is not None:
            number("target_bound", self.target_bound, above=0.0)
        number("label_share", self.label_share, above=0.0, below=1.0)
        if not isinstance(self.loss, Loss):
            raise ParameterError(
                f"mechanism='noisy-admm' needs a convex loss; got {self.loss!r}. Use the logistic loss, or "
                "mechanism='local-models'."
            )
        if not self.labels_public and not isinstance(self.loss, Logistic):
            raise ParameterError(
                f"mechanism='noisy-admm' with secret labels needs the logistic loss, which can be corrected for "
                f"randomised response; got {self.loss.name!r}. Use mechanism='local-models', or labels_public=True if "
                "the labels are no secret."
            )
        require_row_bounds(self.facts, self.facts.names, self.name)
        self.mus  # noqa: B018  refuses wrong shares, and budgets that leave nothing, before anything is spent

    @cached_property
    def response(self) -> RandomizedResponse | None:
        """How the labels are released; None for public labels."""
        return None if self.labels_public else RandomizedResponse(self.label_share * self.epsilon)

    @cached_property
    def mus(self) -> dict[str, float]:
        """Mean shift of each message of each party."""
        if self.response is None:
            mu = gaussian_mu(self.epsilon, self.delta)
        else:
            mu = gaussian_mu_beside(self.epsilon, self.delta, self.response.event)
        by_party = split_mu(mu, self.facts.names, self.budget_shares)
        return {name: value / math.sqrt(max(1, self.max_iter)) for name, value in by_party.items()}

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
    def _label_event(self) -> Event:
        return NothingReleased() if self.response is None else self.response.event

    @property
    def event(self) -> Event:
        """The labels, and every message of every party; a person has a row at each."""
        return compose(self._label_event, *(self._spent_by(name) for name in self.facts.names))

    def solve(self, parties: Parties, y: Vector, model: str, streams: Streams) -> VerticalSolution:
        """Release the labels, run the rounds, and let every party keep its last coefficients."""
        check_affordable(parties, {name: self._spent_by(name) for name in self.facts.names})
        train_alone(parties, self, y, alone(model))
        loss: Any = self.loss
        if self.response is not None:
            y, _ = self.response.release(y, streams.generator(Purpose.NOISE))
            loss = TiltedLogistic(self.response.tilt)
        problem = ScoreProblem(loss, y)
        names = self.facts.names
        parties.exchange(
            {name: Prepare(self._l2, 0.0, -math.inf, math.inf, int(self._intercept_at(name))) for name in names}, Done
        )
        parties.exchange({name: self.start_of(name) for name in names}, Done)
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
                mean = sum((reply.scores for reply in replies.values()), np.zeros(n)) / size
        parties.exchange(Keep(model), Done)
        spent = {name: self._spent_by(name) for name in names}
        holder = self.facts.label_holder
        spent[holder] = compose(self._label_event, spent[holder])
        return VerticalSolution(
            scorer=SumOfScores(dict.fromkeys(names, Term())),
            event=self.event,
            party_events=spent,
            n_rounds=self.max_iter + 1,
        )

    @property
    def name(self) -> str:
        """Name of the mechanism as users give it."""
        return "noisy-admm"

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
            f"clipped scores of {name!r}, one number a person, with noise, {rounds}, to all parties"
            for name in (self.facts.names if self.max_iter else ())
        )

    @property
    def proof(self) -> str:
        """Page with statement and proof."""
        return "docs/privacy/vertical_noisy_admm.md"

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
        }
        if self.response is not None:
            details["epsilon of the randomised response of labels"] = self.response.epsilon
        for name in self.facts.names:
            details[f"mu (Gaussian DP) of a message of party {name!r}"] = self.mus[name]
            details[f"noise of a score of party {name!r}"] = self.release_of(name).mechanism.noise_std
        return details
