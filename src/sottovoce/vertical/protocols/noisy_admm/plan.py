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
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, eigh

from sottovoce._validation import magnitude, number, whole_number
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
from sottovoce.vertical.coordinator.charges import (
    LARGEST_MU,
    SMALLEST_MU,
    check_affordable,
    check_spent,
    event_text,
    require_row_bounds,
    split_mu,
)
from sottovoce.vertical.coordinator.parties import Parties
from sottovoce.vertical.coordinator.plan import SumOfScores, Term, VerticalPlan, VerticalSolution
from sottovoce.vertical.protocols.exact.plan import alone, train_alone
from sottovoce.vertical.protocols.exact.scores import ScoreProblem
from sottovoce.vertical.table.bounded import PIECE, bounded_pieces
from sottovoce.vertical.wire import Done, Keep, NoisyScores, NoisyStart, NoisyStep, Prepare

__all__ = ["NoisyAdmmPlan", "NoisyAdmmWorker", "ScoreRelease"]

Vector = NDArray[np.float64]

_CONSTANT: Final = 0.3  # the intercept's column beside rows of norm at most 1; the whole is scaled to norm 1
_WHOLE: Final = math.sqrt(1.0 + _CONSTANT**2)
_SOLVED: Final = 2.0**-8  # how far D x may be from its exact value, in units of the clip
_TICKS: Final = 2.0**-30  # of the noise
_FARTHEST: Final = 1e150  # of what a coordinator sends, in units of the clip; sums of a few squares are doubles
_HALVINGS: Final = 200


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
    def ratio(self) -> float:
        """The penalty in units of rho, in which it counts."""
        return self.penalty / self.rho

    @property
    def radius(self) -> float:
        """R in units of c."""
        return self.norm_bound / self.score_bound

    @property
    def target(self) -> float:
        """W in units of c."""
        return self.target_bound / self.score_bound

    @property
    def largest_residual(self) -> float:
        """B in units of c: bound on |row.x - target|."""
        return self.target + self.radius * ROUNDING_SLACK

    @property
    def sensitivity(self) -> float:
        """How far (L2) exact clipped scores move when a row is replaced, in units of c."""
        return math.hypot(2.0, self.largest_residual / math.sqrt(2.0 + self.ratio / ROUNDING_SLACK**2))

    @property
    def _rounding(self) -> float:
        """Bound on the relative error of a sum over rows, or over columns, in double precision."""
        return 8.0 * (PIECE + self.n_rows / PIECE + self.n_weights + 8) * 2.0**-53

    @property
    def wrong_gap(self) -> float:
        """How far rounding can move an optimality gap, in units of rho c^2: of the solver, or of who checks it."""
        pull = self.n_rows * self.largest_residual
        return 2.0 * self.radius * self._rounding * (pull + min(self.ratio * self.radius, pull))

    @property
    def gap(self) -> float:
        """Optimality gap, in units of rho c^2, that every computed x keeps: far above what rounding can do."""
        return max(_SOLVED**2, 4.0 * self.wrong_gap)

    @property
    def solving(self) -> float:
        """What the computed scores of two tables can be apart beside the exact ones, in units of c."""
        wrong_scores = math.sqrt(self.n_rows) * self._rounding * self.radius
        return 2.0 * (math.sqrt(self.gap + self.wrong_gap) + wrong_scores)

    @cached_property
    def mechanism(self) -> GridGaussian:
        """The noise, in units of c."""
        computed = self.sensitivity + self.solving
        tick = power_of_two_below(computed / self.mu) * _TICKS
        return GridGaussian(computed + rounding_norm(self.n_rows, tick), 1.0 / self.mu, tick)


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
        try:
            values, self._vectors = eigh(gram)
        except LinAlgError:  # never seen of a finite matrix; x is 0 then, and nobody is told
            values, self._vectors = np.zeros(d + intercept), np.zeros((d + intercept, d + intercept))
        self._steepness = self.release.ratio + np.maximum(values, 0.0)
        self._weights = np.zeros(d + intercept)  # in units of c, as all that follows
        self._done = False
        self._sent = np.zeros(n)  # the last message; before the first it is 0 at every party
        self._dual = np.zeros(n)

    @property
    def x(self) -> Vector:
        """Coefficients in the unit of the table, the intercept last where there is one."""
        weights = self._weights * self.release.score_bound
        x = weights / self._unit
        if self._intercept:
            x[-1] = weights[-1] * _CONSTANT / _WHOLE
        return np.asarray(x)

    @property
    def why_not(self) -> str:
        """Return why there is no further update; empty if there is one."""
        return (
            "the update that is not sent has been made, and it was the last one: begin another training"
            if self._done
            else ""
        )

    def step(self, message: NoisyStep, noise: np.random.Generator) -> NoisyScores:
        """Update the coefficients; send noisy scores where they were asked for. The update without is the last."""
        release = self.release
        farthest = _FARTHEST * release.score_bound
        shift = np.clip(message.shift, -farthest, farthest) / release.score_bound
        self._dual = np.clip(self._dual - shift, -_FARTHEST, _FARTHEST)
        targets = np.clip(self._sent + shift - self._dual, -release.target, release.target)
        self._weights = self._nearest(targets)
        if not message.release:
            self._done = True
            return NoisyScores(np.empty(0), event_text(NothingReleased()))
        mechanism = release.mechanism
        self._sent, event = mechanism.release(to_ticks(self.clipped_scores(), mechanism.tick), noise)
        return NoisyScores(self._sent * release.score_bound, event_text(event))

    def clipped_scores(self) -> Vector:
        """Return clip(D x / c), what noise is added to."""
        scores = np.concatenate([self._rows[piece] @ self._weights for piece in self._pieces()])
        return np.asarray(np.clip(scores, -1.0, 1.0))

    def _nearest(self, targets: Vector) -> Vector:
        """Return argmin lambda/(2 rho) |x|^2 + 1/2 |Dx - targets|^2 on the ball, to the accepted gap."""
        facts = self.release
        back = self._back(targets)
        x = self._on_the_ball(self._vectors.T @ back)
        gradient = facts.ratio * x - back
        for piece in self._pieces():
            gradient += (self._rows[piece] @ x) @ self._rows[piece]
        # the sum of squares of D times the error is at most this (strong convexity)
        gap = float(gradient @ x) + facts.radius * float(np.linalg.norm(gradient))
        # the proof excludes the other case; nobody could be told of it, so there is something to go on with
        return x if gap <= facts.gap else np.zeros(len(x))

    def _on_the_ball(self, pull: Vector) -> Vector:
        """Return the minimiser from the pull on each eigenvector: the multiplier of the ball by halving."""
        radius = self.release.radius

        def length(multiplier: float) -> float:
            with np.errstate(over="ignore"):  # infinite is longer than the ball, and right
                return float(np.linalg.norm(pull / (self._steepness + multiplier)))

        multiplier = 0.0
        if length(0.0) > radius:
            low, multiplier = 0.0, float(np.linalg.norm(pull)) / radius
            for _ in range(_HALVINGS):
                middle = 0.5 * (low + multiplier)
                low, multiplier = (middle, multiplier) if length(middle) > radius else (low, middle)
        x = np.asarray(self._vectors @ (pull / (self._steepness + multiplier)))
        return x / max(1.0, float(np.linalg.norm(x)) / radius)

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
    """Return the release of a party; plan and party both make it from public facts.

    Raises
    ------
    ParameterError
        If a number is out of its range, or rounding would need more noise than the scores.
    """
    for name in ("rho", "score_bound", "norm_bound", "target_bound"):
        magnitude(name, getattr(start, name))
    number("mu", start.mu, at_least=SMALLEST_MU, at_most=LARGEST_MU)
    unit = data_norm * (_WHOLE if intercept else 1.0)
    release = ScoreRelease(
        n_rows,
        n_features + intercept,
        magnitude("the L2 penalty of the sum of losses", l2) / unit**2,
        start.rho,
        start.score_bound,
        start.norm_bound,
        start.target_bound,
        start.mu,
    )
    if not release.solving <= release.sensitivity:
        raise ParameterError(
            f"score_bound={start.score_bound!r}, norm_bound={start.norm_bound!r} and target_bound="
            f"{start.target_bound!r} are too far apart for {n_rows:,} rows: rounding would need more noise than the "
            "scores do. Bring them closer together."
        )
    return release


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
        magnitude("alpha", self.alpha)
        whole_number("max_iter", self.max_iter, at_least=0)
        for name in ("rho", "score_bound", "norm_bound"):
            magnitude(name, getattr(self, name))
        if self.target_bound is not None:
            magnitude("target_bound", self.target_bound)
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
        for name in self.facts.names:  # refuses wrong shares, budgets that leave nothing and bounds that do not fit
            self.release_of(name)

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
            noise = self.release_of(name).mechanism.noise_std * self.score_bound
            details[f"noise of a score of party {name!r}"] = noise
        return details
