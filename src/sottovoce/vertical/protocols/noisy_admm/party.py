"""The party's side of ADMM on clipped, noisy scores; see the plan for the method."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from scipy.linalg import LinAlgError, eigh

from sottovoce._numerics import PIECE, ROUNDING_SLACK
from sottovoce._validation import magnitude, number
from sottovoce.central.data.row_unit import RowUnit
from sottovoce.exceptions import ParameterError
from sottovoce.privacy.events import Event, GaussianEvent, NothingReleased
from sottovoce.privacy.mechanisms.gaussian import GridGaussian, power_of_two_below, rounding_norm, to_ticks
from sottovoce.vertical.coordinator.charges import LARGEST_MU, SMALLEST_MU, event_text
from sottovoce.vertical.protocol import Desk, Handler, PartyFacts, RefusalError, Training, Uncharged
from sottovoce.vertical.protocols.noisy_admm.messages import NoisyScores, NoisyStart, NoisyStep
from sottovoce.vertical.table.bounded import bounded_pieces
from sottovoce.vertical.wire import Done, Vector

__all__ = ["NoisyAdmmWorker", "NoisyStartHandler", "NoisyStepHandler", "ScoreRelease", "score_release"]

_CONSTANT: Final = 0.3  # the intercept's column beside rows of norm at most 1; the whole is scaled to norm 1
_WHOLE: Final = RowUnit(1.0, _CONSTANT).whole
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


class NoisyStartHandler(Uncharged[NoisyStart]):
    """What the updates to come will be; each message is charged when it is asked for."""

    request = NoisyStart

    def plan(self, facts: PartyFacts, training: Training, request: NoisyStart) -> None:
        if not (training.penalty.is_quadratic and training.penalty.l2 > 0.0):
            raise RefusalError("noisy ADMM needs a quadratic penalty")
        self._row_bound = facts.row_bound
        release = score_release(
            facts.n_rows, facts.n_features, self._row_bound, intercept=training.intercept, l2=training.penalty.l2,
            start=request,
        )  # fmt: skip
        release.mechanism  # noqa: B018

    def run(self, desk: Desk, request: NoisyStart) -> Done:
        training = desk.training
        training.noise = desk.noise()
        training.worker = NoisyAdmmWorker(
            desk.table, self._row_bound, intercept=training.intercept, l2=training.penalty.l2, start=request
        )
        return Done()


class NoisyStepHandler(Handler[NoisyStep]):
    """One update, with a message or, as the last one, without."""

    request = NoisyStep

    def plan(self, facts: PartyFacts, training: Training, request: NoisyStep) -> Event | None:
        worker = training.open(NoisyAdmmWorker, request)
        facts.one_a_row(request, "shift")
        if worker.why_not:
            raise RefusalError(worker.why_not)
        return worker.release.event if request.release else None

    def run(self, desk: Desk, request: NoisyStep) -> NoisyScores:
        assert desk.training.noise is not None
        return desk.training.open(NoisyAdmmWorker, request).step(request, desk.training.noise)
