r"""The trainings on labels that are not secret, by the name of their loss.

Squared loss: adaptive ridge from noisy moments, see `sottovoce.central.solvers.sufficient_statistics`.

Logistic loss: damped steps on noisy sums of slopes. T + 1 steps w <- w - (k G + D I + alpha n I)^-1 (noisy gradient),
with k = 0.15 (above half the largest curvature, 1/4, so that steps stay stable) and G the noisy Gram matrix without its
negative eigenvalues; for wide tables or little budget its bound n I takes its place, and all is spent on beta and the
sums. D keeps steps stable where G is noise, and it stops the run early: D is at least (T + 1) times the standard
deviation s of the noise in a gradient, so that the noise in any prediction has a standard deviation of about 1 at most.
D and s fade as mu grows, and then the result is the minimiser of J.
"""

import math
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, Final, NamedTuple, cast

import numpy as np
from numba import njit
from scipy.linalg import eigh

from sottovoce._numerics import Vector
from sottovoce._validation import number
from sottovoce.central.core import Asked, Keep, Release
from sottovoce.central.data.labels import BeginModel
from sottovoce.central.data.operation import AtHome
from sottovoce.central.data.part import Part
from sottovoce.central.data.row_memory import LABEL
from sottovoce.central.plan import Solution
from sottovoce.central.sums.clipped_sums import Ticks, clipped_sum
from sottovoce.central.sums.passes import ClippedSlopes
from sottovoce.central.sums.whole_gram import MAX_WEIGHTS
from sottovoce.exceptions import ParameterError
from sottovoce.losses import Logistic, Loss, Squared
from sottovoce.losses._sigmoid import sigmoid
from sottovoce.losses.base import provides_slope
from sottovoce.privacy.adjacency import Adjacency, Neighbours
from sottovoce.privacy.mechanisms.gaussian import GridGaussian, to_ticks
from sottovoce.vertical.protocols.local_models.released_labels import ReleasedLabelsPlan

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
@njit(inline="always")
def _slope(loss: _EvenLogistic, y: float, m: float) -> float:
    return sigmoid(m) - 0.5


@dataclass(frozen=True, kw_only=True)
class LogisticOnLabelsPlan(ReleasedLabelsPlan):
    """Beta once, with the Gram matrix where that tells more than its bound; then the sums of slopes."""

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
    """One release, and what follows from it."""

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
