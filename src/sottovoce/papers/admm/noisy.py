r"""ADMM sharing in which every message is clipped and carries independent noise: a form that does protect, for study.

In units of its public row bound each party has rows of norm at most 1. In a round it takes targets v, one number a
record, from released values only and clipped to [-W, W], computes

.. math:: x = \arg\min_{|x| \le R} \tfrac\lambda2 |x|^2 + \tfrac\rho2 |D x - v|^2

and sends clip(D x, -c, c) + N(0, sigma^2 I). A replaced row moves its own entry by at most 2c, and all others, through
x, by at most B / sqrt(2 + lambda / rho) together, B = W + R. The first message of ADMM is 0 whatever the data are, and
the last update is not sent, so T messages of each party give T + 1 updates. What stays with a party is made without
noise, and no statement covers it. All is computed in units of c, in which lambda and rho count by their ratio alone.

The coordinator works with labels that went through randomised response, and with the logistic loss corrected for it
(Natarajan et al. 2013, Lemma 1). Statement and proof: ``docs/privacy/vertical_noisy_admm.md``.
"""

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sottovoce._numerics import ROUNDING_SLACK
from sottovoce._validation import magnitude
from sottovoce.exceptions import ParameterError
from sottovoce.losses import Logistic, Loss
from sottovoce.papers.admm.sharing import ScoreProblem
from sottovoce.privacy.calibration import gaussian_mu, gaussian_mu_beside
from sottovoce.privacy.events import Event, NothingReleased, RepeatedEvent, compose
from sottovoce.privacy.mechanisms.gaussian import GridGaussian, power_of_two_below, rounding_norm, to_ticks
from sottovoce.privacy.mechanisms.randomized_response import RandomizedResponse

Array = NDArray[np.float64]

_SOLVED: Final = 2.0**-8  # how far D x may be from its exact value, in units of the clip
_TICKS: Final = 2.0**-30  # of the noise
_FARTHEST: Final = 1e150  # of a shift, in units of the clip; sums of a few squares are doubles
_HALVINGS: Final = 200


class ScoreRelease(NamedTuple):
    """One noisy message: bounds, what it can move by, and its noise, all in units of the clip; from `score_release`."""

    score_bound: float
    ratio: float  # lambda / rho
    radius: float  # R
    target: float  # W
    sensitivity: float  # how far (L2) exact clipped scores move when a row is replaced
    gap: float  # optimality gap, in units of rho c^2, that every computed x keeps: far above what rounding can do
    solving: float  # what the computed scores of two tables can be apart beside the exact ones
    mechanism: GridGaussian


def score_release(
    n_rows: int, n_weights: int, penalty: float, rho: float, score_bound: float, norm_bound: float,
    target_bound: float, mu: float,
) -> ScoreRelease:  # fmt: skip
    """Return how a party releases its scores, from public facts alone: lambda for rows of norm at most 1, rho, c, R, W.

    ``mu`` is the mean shift that a replaced row may cause. Where rounding would need more noise, it is refused.
    """
    given = {"penalty": penalty, "rho": rho, "score_bound": score_bound, "norm_bound": norm_bound}
    for name, value in {**given, "target_bound": target_bound, "mu": mu}.items():
        magnitude(name, value)
    ratio, radius, target = penalty / rho, norm_bound / score_bound, target_bound / score_bound
    residual = target + radius * ROUNDING_SLACK  # B
    sensitivity = math.hypot(2.0, residual / math.sqrt(2.0 + ratio / ROUNDING_SLACK**2))
    rounding = 8.0 * (n_rows + n_weights + 8) * 2.0**-53  # of a sum over rows, or over columns, relatively
    pull = n_rows * residual
    wrong = 2.0 * radius * rounding * (pull + min(ratio * radius, pull))  # of a gap: the solver's, or who checks it
    gap = max(_SOLVED**2, 4.0 * wrong)
    solving = 2.0 * (math.sqrt(gap + wrong) + math.sqrt(n_rows) * rounding * radius)
    if not solving <= sensitivity:
        raise ParameterError(
            f"score_bound={score_bound!r}, norm_bound={norm_bound!r} and target_bound={target_bound!r} are too far "
            f"apart for {n_rows:,} rows: rounding would need more noise than the scores do. Bring them closer together."
        )
    tick = power_of_two_below((sensitivity + solving) / mu) * _TICKS
    mechanism = GridGaussian(sensitivity + solving + rounding_norm(n_rows, tick), 1.0 / mu, tick)
    return ScoreRelease(score_bound, ratio, radius, target, sensitivity, gap, solving, mechanism)


class NoisyBlock:
    """One party: its rows, each shortened to norm 1 by itself, and what it computes from released values."""

    def __init__(self, rows: Array, release: ScoreRelease) -> None:
        self.rows = rows / np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))
        self.release = release
        values, self.vectors = np.linalg.eigh(self.rows.T @ self.rows)
        self.steepness = release.ratio + np.maximum(values, 0.0)
        self.weights = np.zeros(rows.shape[1])  # in units of c, as all that follows
        self._sent, self._dual = np.zeros(len(rows)), np.zeros(len(rows))

    def update(self, shift: Array) -> None:
        """Move the coefficients, from one number a record that follows from released values."""
        bounds = self.release
        shift = np.clip(shift / bounds.score_bound, -_FARTHEST, _FARTHEST)
        self._dual = np.clip(self._dual - shift, -_FARTHEST, _FARTHEST)
        back = np.clip(self._sent + shift - self._dual, -bounds.target, bounds.target) @ self.rows
        x = self.on_the_ball(self.vectors.T @ back)
        gradient = bounds.ratio * x - back + (self.rows @ x) @ self.rows
        # the sum of squares of D times the error is at most this (strong convexity)
        gap = float(gradient @ x) + bounds.radius * float(np.linalg.norm(gradient))
        # the proof excludes the other case; nobody could be told of it, so there is something to go on with
        self.weights = x if gap <= bounds.gap else np.zeros(len(x))

    def send(self, noise: np.random.Generator) -> Array:
        mechanism = self.release.mechanism
        self._sent, _ = mechanism.release(to_ticks(self.clipped_scores(), mechanism.tick), noise)
        return np.asarray(self._sent * self.release.score_bound)

    def clipped_scores(self) -> Array:
        """Return clip(D x / c), what noise is added to."""
        return np.asarray(np.clip(self.rows @ self.weights, -1.0, 1.0))

    def on_the_ball(self, pull: Array) -> Array:
        """Return the minimiser from the pull on each eigenvector: the multiplier of the ball by halving."""
        radius, low, multiplier = self.release.radius, 0.0, 0.0
        with np.errstate(over="ignore"):  # infinite is longer than the ball, and right
            if np.linalg.norm(pull / self.steepness) > radius:
                multiplier = float(np.linalg.norm(pull)) / radius
                for _ in range(_HALVINGS):
                    middle = 0.5 * (low + multiplier)
                    longer = np.linalg.norm(pull / (self.steepness + middle)) > radius
                    low, multiplier = (middle, multiplier) if longer else (low, middle)
        x = np.asarray(self.vectors @ (pull / (self.steepness + multiplier)))
        return x / max(1.0, float(np.linalg.norm(x)) / radius)


class NoisyRun(NamedTuple):
    """Coefficients of each party for rows in units of its bound, every message in order, and what they cost."""

    x: list[Array]
    sent: list[Array]
    event: Event


def noisy_admm(
    blocks: Sequence[Array],
    y: Array,
    *,
    l2: float,
    epsilon: float,
    delta: float,
    loss: Loss | None = None,
    labels_public: bool = False,
    data_norm: float = 1.0,
    rho: float = 0.1,
    max_iter: int = 1,
    score_bound: float = 0.25,
    norm_bound: float = 1.0,
    target_bound: float | None = None,
    label_share: float = 0.75,
    rng: np.random.Generator,
) -> NoisyRun:
    """Train; a person has a row at every party, and all of it together is (epsilon, delta)-private.

    Parameters
    ----------
    blocks : sequence of ndarray of shape (n, d_m)
    y : ndarray of shape (n,)
        Labels, -1 and 1; of another loss than the logistic one they must be public.
    l2 : float, > 0
        Penalty of the coefficients, for the sum of losses and rows in the unit of the table.
    epsilon, delta : float
    loss : Loss or None
        None is the logistic loss.
    labels_public : bool
    data_norm, rho, max_iter, score_bound, norm_bound, target_bound : float
        Bound on the norm of a row at every party, rho, T, c, R and W (None for 2 c).
    label_share : float, in (0, 1)
        Of epsilon, for secret labels.
    rng : numpy.random.Generator
        A seed makes a run repeatable, and not private.
    """
    chosen: Any = Logistic() if loss is None else loss
    if not labels_public and not isinstance(chosen, Logistic):
        raise ParameterError("secret labels need the logistic loss, which can be corrected for randomised response.")
    mu, tilt = gaussian_mu(epsilon, delta), 0.0
    event: Event = NothingReleased()
    if not labels_public:
        response = RandomizedResponse(label_share * epsilon)
        mu, tilt, event = gaussian_mu_beside(epsilon, delta, response.event), response.tilt, response.event
        y, _ = response.release(y, rng)
    M, n = len(blocks), len(y)
    mu = (1.0 - 2.0**-40) * mu * math.sqrt(1.0 / M) / math.sqrt(max(1, max_iter))  # room for the roots' rounding
    bounds = (rho, score_bound, norm_bound, 2.0 * score_bound if target_bound is None else target_bound)
    penalty = l2 / data_norm**2
    parties = [NoisyBlock(D / data_norm, score_release(n, D.shape[1], penalty, *bounds, mu)) for D in blocks]
    problem, k = ScoreProblem(chosen, y), rho / M
    mean, dual = np.zeros(n), np.zeros(n)
    sent: list[Array] = []
    for t in range(max_iter + 1):
        shift = problem.minimise(M * (mean + dual) + tilt * y / k, k) / M - mean
        dual = dual - shift
        for party in parties:
            party.update(shift)
        if t < max_iter:
            sent += [party.send(rng) for party in parties]
            mean = np.sum(sent[-M:], axis=0) / M
    spent = [RepeatedEvent(party.release.mechanism.event, max_iter) for party in parties if max_iter]
    return NoisyRun([party.weights * score_bound for party in parties], sent, compose(event, *spent))
