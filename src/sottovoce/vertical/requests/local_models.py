r"""Training on private rows with labels that everybody may see: public ones, or released before with their own noise.

With rows |x_i| <= 1 and public numbers t_i (centred *soft labels*, made of the labels), both losses here are a convex
function of the prediction m_i = x_i.w that knows no label, minus a linear term that holds them all:

.. math:: J(w) = \sum_i \bigl[ \phi(m_i) - t_i m_i \bigr] + \frac{\alpha n}2 |w|^2,

with phi(m) = log 2 cosh(m / 2) and t_i = y_i / 2 for the logistic loss, phi(m) = m^2 / 2 and t_i = y_i for the squared
one. Labels of -1 and +1 that were flipped with a known probability p have t_i divided by 1 - 2p: then J has the
expectation that the true labels would give it [1]_. So the labels enter the gradient once,

.. math:: \nabla J(w) = \sum_i \phi'(m_i) x_i - \beta + \alpha n w, \qquad \beta = \sum_i t_i x_i,

and beta is released once, not in every step. |phi'| <= 1/2 for the logistic loss, however much noise the labels have.

*Released*: (1) the Gram matrix and beta together, one Gaussian; (2) for the logistic loss the sums of phi'(m_i) x_i at
w_1, ..., w_T (at w_0 = 0 the sum is 0). Their shares of mu^2 make the two parts of the final gradient's noise balance.

*Squared loss*: `SquaredOnLabelsPlan`; *logistic loss*: `LogisticOnLabelsPlan`.

Privacy, and how all sensitivities follow: ``docs/privacy/released_labels.md``.

References
----------
.. [1] Natarajan et al. (2013). Learning with Noisy Labels. NeurIPS 2013; Lemma 1.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, Final, NamedTuple, cast

import numpy as np
from scipy.linalg import eigh

from sottovoce._numerics import PIECE, ROUNDING_SLACK, Vector
from sottovoce._validation import magnitude, number
from sottovoce.central.core import Asked, Driven, Keep, Release, drive, replay
from sottovoce.central.data.labels import BeginModel, hold
from sottovoce.central.data.lengths import make_rows
from sottovoce.central.data.operation import AtHome
from sottovoce.central.data.part import Part, Rows, RowUnit
from sottovoce.central.data.row_memory import LABEL
from sottovoce.central.noisy_moments import NoisyMoments
from sottovoce.central.parallel import Team, team
from sottovoce.central.plan import Solution
from sottovoce.central.sums.clipped_sums import Ticks, clipped_sum
from sottovoce.central.sums.passes import ClippedSlopes
from sottovoce.central.sums.whole_gram import MAX_WEIGHTS, LabelColumn, gram
from sottovoce.exceptions import DataError, ParameterError
from sottovoce.losses import Logistic, Loss, Squared
from sottovoce.losses.base import provides_slope, sigmoid
from sottovoce.privacy.adjacency import Adjacency, Neighbours
from sottovoce.privacy.events import Event
from sottovoce.privacy.mechanisms.discrete_gaussian import SPENT
from sottovoce.privacy.mechanisms.gaussian import GridGaussian, power_of_two_below, rounding_norm, to_ticks
from sottovoce.randomness import Streams
from sottovoce.vertical.protocol import LARGEST_MU, SMALLEST_MU, Answered, PartyFacts, RefusalError, Request, event_text
from sottovoce.vertical.wire import Payload

_LEAST_TRUTH: Final = 1e-10  # 1 - 2 p of labels that are flipped with probability p
_USEFUL_BITS: Final = 30  # ticks to a standard deviation of the noise


@dataclass(frozen=True, kw_only=True)
class ReleasedLabelsPlan(ABC):
    """Public facts of one training run, from which noise, steps and account follow.

    Neighbours: one row is replaced by any other row (within the declared facts), its label stays what it is.
    """

    loss: ClassVar[Loss]
    """What the training minimises."""
    unit: ClassVar[float]
    """Size of the soft label of a label of size 1 that was not flipped."""

    n_samples: int  # number of rows; public
    n_features: int
    alpha: float  # > 0: L2 penalty for rows in units of the public bound on their norm, the intercept's column included
    mu: float  # in [1e-6, 1e4]: Gaussian-DP parameter to spend on the whole run
    intercept: float = 0.3  # >= 0: value of the intercept's column in units of the bound on the norm; 0 for none
    # all entries of all rows are >= 0, from public knowledge: less noise. A party of rows that break it is refused.
    nonnegative: bool = False
    # in [0, 0.5): labels are -1 and +1, and each was flipped with this probability before it was released; 0 for public
    # labels
    flip_probability: float = 0.0
    # squared loss only: labels are numbers, released or public, of at most this size. None: labels are -1 and +1.
    label_bound: float | None = None

    def __post_init__(self) -> None:
        magnitude("alpha", self.alpha)
        remedy = "A larger mu of Gaussian DP protects nobody."
        number("mu", self.mu, at_least=SMALLEST_MU, at_most=LARGEST_MU, remedy=remedy)
        number(
            "flip_probability", self.flip_probability, at_least=0.0, at_most=0.5 * (1.0 - _LEAST_TRUTH),
            remedy="Labels that were flipped half of the time say nothing.",
        )  # fmt: skip
        if self.label_bound is not None:
            magnitude("label_bound", self.label_bound)
            if self.loss.is_classification or self.flip_probability > 0.0:
                raise ParameterError(
                    f"label_bound is for numbers as labels: squared loss and flip_probability = 0; got "
                    f"{self.label_bound!r} with the {self.loss.name} loss and flip_probability = "
                    f"{self.flip_probability!r}. Leave it None for labels -1 and +1."
                )

    # What the rows and labels are

    @property
    def n_weights(self) -> int:
        return self.n_features + (self.intercept > 0.0)

    @property
    def alpha_scaled(self) -> float:
        """L2 penalty for rows scaled to norm at most 1 together with the intercept's column."""
        return self.alpha / RowUnit(1.0, self.intercept).square

    @property
    def soft_label_bound(self) -> float:
        """Bound b on the soft labels |t_i|; all of them are as large where labels are -1 and +1."""
        if self.label_bound is not None:
            return float(self.label_bound)
        return self.unit / (1.0 - 2.0 * self.flip_probability)

    @property
    def widest_gap(self) -> float:
        """Upper bound on 1 - x.z of two rows, each filled up to norm 1; the constant entry is the same in both."""
        return (1.0 if self.nonnegative else 2.0) / RowUnit(1.0, self.intercept).square

    # How the budget is split

    @property
    @abstractmethod
    def releases_gram(self) -> bool: ...

    @property
    def cross_square(self) -> float:
        """Square of how far beta / b moves between neighbours: |x - z|^2."""
        return 2.0 * self.widest_gap

    @property
    @abstractmethod
    def shares(self) -> tuple[float, float, float]: ...

    @property
    def mu_moments(self) -> float:
        shares = self.shares
        return self.mu * math.sqrt(shares[0] + shares[1]) * SPENT

    @property
    def mu_slopes(self) -> float:
        return self.mu * math.sqrt(self.shares[2]) * SPENT

    @property
    def label_weight(self) -> float:
        """Factor c of the soft labels in the released matrix sum_i u_i u_i', u_i = (x_i, c t_i)."""
        gram_share, cross_share, _ = self.shares
        ratio = (cross_share / self.cross_square) / (gram_share / 2.0) if self.releases_gram else 1.0
        return math.sqrt(0.5 * ratio) / self.soft_label_bound

    @property
    def moments_sensitivity(self) -> float:
        """How far (L2) the exact moments move between neighbours, in Frobenius norm; beta alone, or with the matrix.

        The largest of 2 (1 - t^2) + 4 c^2 b^2 (1 - t) over the possible t = x.z = 1 - gap; the first term only with the
        matrix.
        """
        weight = 2.0 * (self.label_weight * self.soft_label_bound) ** 2
        if not self.releases_gram:
            return math.sqrt(2.0 * weight * self.widest_gap)
        gap = min(self.widest_gap, 1.0 + 0.5 * weight)  # the end, or where the derivative is 0
        return math.sqrt(2.0 * gap * (2.0 - gap) + 2.0 * weight * gap)

    @property
    def label_sum_noise(self) -> float:
        return self.moments_mechanism().noise_std / (math.sqrt(2.0) * self.label_weight)

    @property
    def gradient_noise(self) -> float:
        """Standard deviation s of the noise in an entry of a gradient, all releases taken together."""
        return self.label_sum_noise

    def moments_mechanism(self) -> GridGaussian:
        """Return the mechanism that releases the moments in ticks; it follows from public facts."""
        length = 1.0 + (self.label_weight * self.soft_label_bound) ** 2
        # Frobenius norm of the rounding of the sums in double precision, for two tables
        rounding = 8.0 * (PIECE + self.n_samples / PIECE + 8) * 2.0**-53 * self.n_samples * length
        exact = self.moments_sensitivity * ROUNDING_SLACK + 2.0 * rounding
        useful = power_of_two_below(exact / self.mu_moments) * 2.0**-_USEFUL_BITS
        countable = power_of_two_below(self.n_samples * length) * 2.0**-58
        sides = self.n_weights + 1
        size = sides * (sides + 1) // 2 if self.releases_gram else self.n_weights
        tick = max(useful, countable)
        return GridGaussian(exact + rounding_norm(size, tick), 1.0 / self.mu_moments, tick)

    @cached_property
    def event(self) -> Event:
        return replay(lambda: self.train(np.zeros(1))).event

    @property
    def entry(self) -> float:
        """Entry of the intercept's column in a row."""
        return RowUnit(1.0, self.intercept).entry

    # The run

    def soft_labels(self, labels: Vector) -> Vector:
        """Return t_i of the labels, after a check of them.

        Raises `DataError` if a label is not -1 or +1 (a number beyond ``label_bound``); NaN is neither.
        """
        y = np.asarray(labels, dtype=np.float64)
        bad = np.flatnonzero(~(np.abs(y) == 1.0 if self.label_bound is None else np.abs(y) <= self.label_bound))
        if bad.size:
            wanted = "-1 or +1" if self.label_bound is None else f"within label_bound = {self.label_bound:g} of 0"
            raise DataError(f"labels must be {wanted}; got {y[bad[0]]!r} at row {bad[0]} ({bad.size} such row(s)).")
        return y if self.label_bound is not None else self.soft_label_bound * y

    def solve(self, rows: Rows, labels: Vector, streams: Streams, team: Team) -> Driven[Solution]:
        """Train as planned.

        Raises `DataError` if labels do not fit the plan; before any noise is drawn.

        ``rows``: as planned, from `sottovoce.central.data.lengths.make_rows` with ``constant=plan.intercept``.
        ``labels``, of shape (n,): public or released: -1 and +1, or numbers within ``label_bound``.

        Returns
        -------
        Driven
            Its result is a `Solution` with ``weights`` of shape (1, n_weights), for rows of norm at most 1, the
            intercept's weight last.
        """
        soft = self.soft_labels(labels)
        return drive(lambda: self.train(soft), hold(rows, [soft], team), streams)

    @abstractmethod
    def train(self, soft: Vector) -> Asked[Solution]:
        """Train on soft labels, which everybody may see."""

    def moments(self, soft: Vector) -> Asked[NoisyMoments]:
        """Release the Gram matrix with beta; what follows from public facts needs no noise."""
        mechanism, bound = self.moments_mechanism(), self.soft_label_bound
        label = LabelColumn(clip=bound)
        matrix = yield from gram(mechanism, "X'X and beta", label=label, label_weight=self.label_weight * bound)
        moments = NoisyMoments(matrix, self.label_weight, mechanism.noise_std)
        if self.intercept > 0.0:
            moments.matrix[-2, -2] = self.n_samples * self.entry**2
            public = self.label_weight * self.entry * float(np.sum(soft))
            moments.matrix[-1, -2] = moments.matrix[-2, -1] = public
        return moments


# ------------------------------------------------------------------ one class a loss

_BETA: Final = "beta, the sum of the soft labels times the rows"
_GRAM_SHARE: Final = 0.05  # of mu^2
_GRAM_SHARE_OF_SQUARED: Final = 0.3
_CURVATURE: Final = 0.15  # k
_EDGE: Final = 1.3  # times the edge of the spectrum of the Gram matrix's noise, which it then hardly ever exceeds
_MAX_GRAM: Final = 1024  # weights; the eigenvectors of more take longer than the steps
_MIN_STEPS: Final = 12
_MAX_STEPS: Final = 200
_STEPS_PER_DIGIT: Final = 5.0
_MAX_SLOPE: Final = 0.5  # of log 2 cosh(m / 2)


class _EvenLogistic(NamedTuple):
    """log 2 cosh(m / 2): what a logistic loss with soft labels is without its linear term. It ignores y."""


@provides_slope(_EvenLogistic)
def _slope(loss: _EvenLogistic, y: float, m: float) -> float:
    return sigmoid(m) - 0.5


@dataclass(frozen=True, kw_only=True)
class LogisticOnLabelsPlan(ReleasedLabelsPlan):
    """Beta once, with the Gram matrix where that tells more than its bound; then damped steps on noisy sums of slopes.

    T + 1 steps w <- w - (k G + D I + alpha n I)^-1 (noisy gradient), with k = 0.15 (above half the largest curvature,
    1/4, so that steps stay stable) and G the noisy Gram matrix without its negative eigenvalues; for wide tables or
    little budget its bound n I takes its place, and all is spent on beta and the sums. D keeps steps stable where G is
    noise, and it stops the run early: D is at least (T + 1) times the standard deviation s of the noise in a gradient,
    so that the noise in any prediction has a standard deviation of about 1 at most. D and s fade as mu grows, and then
    the result is the minimiser of J.
    """

    loss: ClassVar[Loss] = Logistic()
    unit: ClassVar[float] = 0.5

    @property
    def releases_gram(self) -> bool:
        noise = math.sqrt(2.0) / (self.mu * math.sqrt(_GRAM_SHARE))
        return self.n_weights <= _MAX_GRAM and _damping(noise, self.n_weights) < _CURVATURE * self.n_samples

    @property
    def shares(self) -> tuple[float, float, float]:
        rest = 1.0 - (_GRAM_SHARE if self.releases_gram else 0.0)
        # the sum of two variances a/s + b/(1 - s) is least for s in proportion to the sensitivities
        cross, slopes = self.soft_label_bound * math.sqrt(self.cross_square), 2.0 * _MAX_SLOPE
        return 1.0 - rest, rest * cross / (cross + slopes), rest * slopes / (cross + slopes)

    def slopes_mechanism(self) -> GridGaussian:
        """Return the mechanism of each sum of slopes; a sum of terms of norm at most 1/2 moves by at most 1."""
        return clipped_sum(
            Neighbours(Adjacency.REPLACE_ONE), _MAX_SLOPE, math.sqrt(self.n_steps) / self.mu_slopes
        ).mechanism

    @property
    def gradient_noise(self) -> float:
        """Standard deviation s of the noise in an entry of beta, and of all sums of slopes taken as one release."""
        return math.hypot(self.label_sum_noise, 2.0 * _MAX_SLOPE / self.mu_slopes)

    @cached_property
    def n_steps(self) -> int:
        """Number T of sums of slopes: more for more digits, and as many as stable steps need."""
        digits = math.ceil(_STEPS_PER_DIGIT * math.log10(max(1.0, self.n_samples * self.mu)))
        needed = math.ceil(min(float(_MAX_STEPS), self._stable / self.gradient_noise))
        return min(_MAX_STEPS, max(_MIN_STEPS, digits, needed))

    @property
    def _stable(self) -> float:
        """The least diagonal at which steps are stable whatever the noise of the matrix did."""
        if self.releases_gram:
            return _damping(self.moments_mechanism().noise_std, self.n_weights)
        return _CURVATURE * self.n_samples

    @property
    def damping(self) -> float:
        """Return D, or k n + D where the bound n I takes the place of G."""
        return max(self._stable, (self.n_steps + 1) * self.gradient_noise)

    def train(self, soft: Vector) -> Asked[Solution]:
        spectrum, mechanism = None, self.moments_mechanism()
        if self.releases_gram:
            moments = yield from self.moments(soft)
            spectrum, beta = eigh(moments.gram), moments.cross
        else:
            factor = math.sqrt(2.0) * self.label_weight  # of beta in the coordinates of the release
            beta = (yield Release(_BETA, LabelSum(factor), mechanism)) / factor
            if self.intercept > 0.0:
                beta[-1] = self.entry * float(np.sum(soft))
        slopes, penalty = self.slopes_mechanism(), self.alpha_scaled * self.n_samples
        damping = self.damping + penalty

        def step(descent: Vector) -> Vector:
            if spectrum is None:
                return descent / damping
            values, vectors = spectrum
            return np.asarray(vectors @ ((vectors.T @ descent) / (_CURVATURE * np.maximum(values, 0.0) + damping)))

        yield BeginModel(0)
        even = cast("Loss", _EvenLogistic())
        w = step(beta)  # the first step, from 0, needs no sum of slopes
        for _ in range(self.n_steps):
            ask = ClippedSlopes(even, w, _MAX_SLOPE, 1.0 / slopes.tick)
            noisy = yield Release("the sums of slopes", ask, slopes)
            w = w + step(beta - noisy - penalty * w)
        return Solution(w[None, :], self.n_steps)


def _damping(gram_noise: float, n_weights: int) -> float:
    """Return k times what the norm of the noise in the Gram matrix hardly ever exceeds."""
    return _CURVATURE * _EDGE * math.sqrt(2.0 * n_weights) * gram_noise


@dataclass(frozen=True)
class LabelSum(AtHome[Vector]):
    """The sum of t_i x_i of the scaled rows, times a public factor, in double precision, piece by piece."""

    factor: float

    def on(self, part: Part) -> Vector:
        return self.factor * part.rows.weighted_sum(part.memory.whole(LABEL))

    def protected(self, exact: Vector, mechanism: Any) -> Ticks:
        return to_ticks(exact, mechanism.tick)


@dataclass(frozen=True, kw_only=True)
class SquaredOnLabelsPlan(ReleasedLabelsPlan):
    """One release, and adaptive ridge from it: see `sottovoce.central.solvers.sufficient_statistics`."""

    loss: ClassVar[Loss] = Squared()
    unit: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_weights > MAX_WEIGHTS:
            raise ParameterError(
                f"the squared loss takes at most {MAX_WEIGHTS} weights here, because its moments grow with their "
                f"square; got n_features = {self.n_features}. Use Logistic() for labels -1 and +1."
            )

    @property
    def releases_gram(self) -> bool:
        return True

    @property
    def shares(self) -> tuple[float, float, float]:
        return _GRAM_SHARE_OF_SQUARED, 1.0 - _GRAM_SHARE_OF_SQUARED, 0.0

    def train(self, soft: Vector) -> Asked[Solution]:
        moments = yield from self.moments(soft)
        weights, penalty = moments.ridge(self.alpha_scaled * self.n_samples)
        yield Keep("alpha after AdaSSP's rule", penalty / self.n_samples, partial(number, at_least=0.0), 0.0)
        return Solution(weights[None, :], 1)


TRAININGS: Final[dict[str, type[ReleasedLabelsPlan]]] = {
    plan.loss.name: plan for plan in (LogisticOnLabelsPlan, SquaredOnLabelsPlan)
}


# ------------------------------------------------------------------ the request: charged as a whole


class TrainOnLabels(Request, code=106):
    """Train a private model of the party's own columns on labels that are not secret, and keep it as ``model``.

    ``flip_probability`` is that of the randomised response behind labels of -1 and +1 (0 for public ones),
    ``label_bound`` a bound on labels that are other numbers (0 for none), ``mu`` the mean shift of the equivalent
    Gaussian release that the training may spend. The answer is the event that was spent, as JSON.
    """

    labels: Vector
    loss: str
    flip_probability: float
    label_bound: float
    alpha: float
    mu: float
    model: str

    def answer(self, facts: PartyFacts, worker: Any) -> Answered[Payload]:
        data_norm = facts.bound_of("data_norm")
        facts.one_a_row(self, "labels")
        facts.check_room(self.model)
        if self.loss not in TRAININGS:
            raise RefusalError(f"there is no training on released labels for the loss {self.loss!r}")
        plan = TRAININGS[self.loss](
            n_samples=facts.n_rows,
            n_features=facts.n_features,
            alpha=self.alpha,
            mu=self.mu,
            nonnegative=facts.nonnegative,
            flip_probability=self.flip_probability,
            label_bound=self.label_bound or None,
        )
        plan.soft_labels(self.labels)
        desk = yield plan.event
        unit = RowUnit(data_norm, plan.intercept)
        with team() as threads:
            rows = make_rows(desk.table, data_norm=unit.data_norm, constant=unit.constant, names=None, team=threads)
            driven = plan.solve(rows, self.labels, desk.streams(), threads)
        (weights,) = driven.result.weights
        # to the last bit what models have always been: not times (constant / whole), which rounds otherwise
        coef = weights[:-1] / (unit.data_norm * unit.whole)
        desk.later = self.model, coef, float(weights[-1] * unit.constant / unit.whole)
        return Payload(octets=event_text(driven.event).encode())
