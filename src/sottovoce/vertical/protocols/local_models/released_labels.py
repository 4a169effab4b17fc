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

*Squared loss*: adaptive ridge from the moments (`sottovoce.central.noisy_moments`).

*Logistic loss*: T + 1 steps w <- w - (k G + D I + alpha n I)^-1 (noisy gradient), with k = 0.15 (above half the largest
curvature, 1/4, so that steps stay stable) and G the noisy Gram matrix without its negative eigenvalues; for wide tables
or little budget its bound n I takes its place, and all is spent on beta and the sums. D keeps steps stable where G is
noise, and it stops the run early: D is at least (T + 1) times the standard deviation s of the noise in a gradient, so
that the noise in any prediction has a standard deviation of about 1 at most. D and s fade as mu grows, and then the
result is the minimiser of J.

Privacy, and how all sensitivities follow: ``docs/privacy/released_labels.md``.

References
----------
.. [1] Natarajan et al. (2013). Learning with Noisy Labels. NeurIPS 2013; Lemma 1.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.linalg import eigh

from sottovoce._validation import LARGEST, magnitude, number, whole_number
from sottovoce.central.clipped_sums import sum_mechanism
from sottovoce.central.kernels import gradient
from sottovoce.central.parallel import Team
from sottovoce.central.plan import ROUNDING_SLACK, Solution
from sottovoce.central.rows import PIECE, Rows
from sottovoce.central.scales import gram
from sottovoce.central.solvers.sufficient_statistics import MAX_WEIGHTS, release_moments
from sottovoce.exceptions import DataError, ParameterError
from sottovoce.losses import Logistic, Loss, Squared
from sottovoce.losses._sigmoid import sigmoid
from sottovoce.losses.base import provides_slope
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.privacy.events import Event, RepeatedEvent, compose
from sottovoce.privacy.mechanisms.gaussian import GridGaussian, power_of_two_below, rounding_norm, to_ticks
from sottovoce.randomness import Purpose, Streams

__all__ = ["ReleasedLabelsPlan"]

Vector = NDArray[np.float64]

_GRAM_SHARE: Final = 0.05  # of mu^2, for the Gram matrix beside a logistic loss
_GRAM_SHARE_SQUARED: Final = 0.3
_CURVATURE: Final = 0.15  # k
_EDGE: Final = 1.3  # times the edge of the spectrum of the Gram matrix's noise, which it then hardly ever exceeds
_MAX_GRAM: Final = 1024  # weights; the eigenvectors of more take longer than the steps
_MIN_STEPS: Final = 12
_MAX_STEPS: Final = 200
_STEPS_PER_DIGIT: Final = 5.0
_MAX_SLOPE: Final = 0.5  # of log 2 cosh(m / 2)
_MIN_MU: Final = 1e-9
_MAX_MU: Final = 1e4
_USEFUL_BITS: Final = 30  # ticks to a standard deviation of the noise
_SPENT: Final = 1.0 - 2.0**-40  # rounding of shares and square roots must not overspend


class _EvenLogistic(NamedTuple):
    """log 2 cosh(m / 2): what a logistic loss with soft labels is without its linear term. It ignores y."""


@provides_slope(_EvenLogistic)
@njit(inline="always")
def _slope(loss: _EvenLogistic, y: float, m: float) -> float:
    return sigmoid(m) - 0.5


@dataclass(frozen=True, kw_only=True)
class ReleasedLabelsPlan:
    """Public facts of one training run, from which noise, steps and account follow.

    Neighbours: one row is replaced by any other row (within the declared facts), its label stays what it is.

    Parameters
    ----------
    loss : Logistic or Squared
    n_samples : int
        Number of rows; public.
    n_features : int
    alpha : float, > 0
        L2 penalty for rows in units of the public bound on their norm, the intercept's column included.
    mu : float, in [1e-9, 1e4]
        Gaussian-DP parameter to spend on the whole run.
    intercept : float, >= 0
        Value of the intercept's column in units of the bound on the norm; 0 for none.
    nonnegative : bool
        All entries of all rows are >= 0, from public knowledge: less noise. Rows that break it are refused.
    flip_probability : float, in [0, 0.5)
        Labels are -1 and +1, and each was flipped with this probability before it was released; 0 for public labels.
    label_bound : float or None
        Squared loss only: labels are numbers, released or public, of at most this size. None: labels are -1 and +1.
    """

    proof: ClassVar[str] = "docs/privacy/released_labels.md"

    loss: Loss
    n_samples: int
    n_features: int
    alpha: float
    mu: float
    intercept: float = 0.3
    nonnegative: bool = False
    flip_probability: float = 0.0
    label_bound: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.loss, (Logistic, Squared)):
            raise ParameterError(
                f"loss must be Logistic() or Squared() for training on released labels; got {self.loss!r}."
            )
        whole_number("n_samples", self.n_samples, at_least=1)
        whole_number("n_features", self.n_features, at_least=1)
        magnitude("alpha", self.alpha)
        number("mu", self.mu, at_least=_MIN_MU, at_most=_MAX_MU, remedy="A larger mu of Gaussian DP protects nobody.")
        number("intercept", self.intercept, at_least=0.0, at_most=LARGEST)
        if not isinstance(self.nonnegative, bool):
            raise ParameterError(f"nonnegative must be True or False; got {self.nonnegative!r}.")
        number(
            "flip_probability", self.flip_probability, at_least=0.0, below=0.5,
            remedy="Labels that were flipped half of the time say nothing.",
        )  # fmt: skip
        if self.label_bound is not None:
            magnitude("label_bound", self.label_bound)
            if isinstance(self.loss, Logistic) or self.flip_probability > 0.0:
                raise ParameterError(
                    f"label_bound is for numbers as labels: squared loss and flip_probability = 0; got "
                    f"{self.label_bound!r} with the {self.loss.name} loss and flip_probability = "
                    f"{self.flip_probability!r}. Leave it None for labels -1 and +1."
                )
        if isinstance(self.loss, Squared) and self.n_weights > MAX_WEIGHTS:
            raise ParameterError(
                f"the squared loss takes at most {MAX_WEIGHTS} weights here, because its moments grow with their "
                f"square; got n_features = {self.n_features}. Use Logistic() for labels -1 and +1."
            )

    # What the rows and labels are

    @property
    def n_weights(self) -> int:
        """Weights of the model."""
        return self.n_features + (self.intercept > 0.0)

    @property
    def alpha_scaled(self) -> float:
        """L2 penalty for rows scaled to norm at most 1 together with the intercept's column."""
        return self.alpha / (1.0 + self.intercept**2)

    @property
    def soft_label_bound(self) -> float:
        """Bound b on the soft labels |t_i|; all of them are as large where labels are -1 and +1."""
        if self.label_bound is not None:
            return float(self.label_bound)
        return (0.5 if isinstance(self.loss, Logistic) else 1.0) / (1.0 - 2.0 * self.flip_probability)

    @property
    def widest_gap(self) -> float:
        """Upper bound on 1 - x.z of two rows, each filled up to norm 1; the constant entry is the same in both."""
        return (1.0 if self.nonnegative else 2.0) / (1.0 + self.intercept**2)

    # How the budget is split

    @property
    def releases_gram(self) -> bool:
        """Whether the Gram matrix is released: always for the squared loss, else where it tells more than its bound."""
        if isinstance(self.loss, Squared):
            return True
        noise = math.sqrt(2.0) / (self.mu * math.sqrt(_GRAM_SHARE))
        return self.n_weights <= _MAX_GRAM and _damping(noise, self.n_weights) < _CURVATURE * self.n_samples

    @property
    def _cross_square(self) -> float:
        """Square of how far beta / b moves between neighbours: |x - z|^2."""
        return 2.0 * self.widest_gap

    @property
    def _shares(self) -> tuple[float, float, float]:
        """Shares of mu^2 for the Gram matrix, beta, and the sums of slopes."""
        if isinstance(self.loss, Squared):
            return _GRAM_SHARE_SQUARED, 1.0 - _GRAM_SHARE_SQUARED, 0.0
        rest = 1.0 - (_GRAM_SHARE if self.releases_gram else 0.0)
        # the sum of two variances a/s + b/(1 - s) is least for s in proportion to the sensitivities
        cross, slopes = self.soft_label_bound * math.sqrt(self._cross_square), 2.0 * _MAX_SLOPE
        return 1.0 - rest, rest * cross / (cross + slopes), rest * slopes / (cross + slopes)

    @property
    def mu_moments(self) -> float:
        """Gaussian-DP parameter of the release of the moments."""
        shares = self._shares
        return self.mu * math.sqrt(shares[0] + shares[1]) * _SPENT

    @property
    def mu_slopes(self) -> float:
        """Gaussian-DP parameter of all sums of slopes together; 0 for the squared loss."""
        return self.mu * math.sqrt(self._shares[2]) * _SPENT

    @property
    def label_weight(self) -> float:
        """Factor c of the soft labels in the released matrix sum_i u_i u_i', u_i = (x_i, c t_i)."""
        gram_share, cross_share, _ = self._shares
        ratio = (cross_share / self._cross_square) / (gram_share / 2.0) if self.releases_gram else 1.0
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

    def slopes_mechanism(self) -> GridGaussian:
        """Return the mechanism of each sum of slopes; a sum of terms of norm at most 1/2 moves by at most 1."""
        return sum_mechanism(Adjacency.REPLACE_ONE, _MAX_SLOPE, math.sqrt(self.n_steps) / self.mu_slopes)

    @property
    def event(self) -> Event:
        """What the run will cost."""
        moments = self.moments_mechanism().event
        if isinstance(self.loss, Squared):
            return moments
        return compose(moments, RepeatedEvent(self.slopes_mechanism().event, self.n_steps))

    # How the steps go (logistic loss)

    @property
    def gradient_noise(self) -> float:
        """Standard deviation s of the noise in an entry of beta, and of all sums of slopes taken as one release."""
        beta = self.moments_mechanism().noise_std / (math.sqrt(2.0) * self.label_weight)
        return math.hypot(beta, 2.0 * _MAX_SLOPE / self.mu_slopes)

    @cached_property
    def n_steps(self) -> int:
        """Number T of sums of slopes: more for more digits, and as many as stable steps need; 0 for squared loss."""
        if isinstance(self.loss, Squared):
            return 0
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

    # The run

    def soft_labels(self, labels: Vector) -> Vector:
        """Return t_i of the labels, after a check of them.

        Raises
        ------
        DataError
            If the shape is wrong, or a label is not -1 or +1 (a number beyond ``label_bound``); NaN is neither.
        """
        y = np.asarray(labels, dtype=np.float64)
        if y.shape != (self.n_samples,):
            raise DataError(f"labels must have the shape ({self.n_samples},), one a row; got {y.shape}.")
        bad = np.flatnonzero(~(np.abs(y) == 1.0 if self.label_bound is None else np.abs(y) <= self.label_bound))
        if bad.size:
            wanted = "-1 or +1" if self.label_bound is None else f"within label_bound = {self.label_bound:g} of 0"
            raise DataError(f"labels must be {wanted}; got {y[bad[0]]!r} at row {bad[0]} ({bad.size} such row(s)).")
        return y if self.label_bound is not None else self.soft_label_bound * y

    def solve(self, rows: Rows, labels: Vector, streams: Streams, team: Team) -> Solution:
        """Train as planned.

        Parameters
        ----------
        rows : Rows
            From `sottovoce.central.rows.make_rows` with ``constant=plan.intercept``.
        labels : ndarray of shape (n,)
            Public or released: -1 and +1, or numbers within ``label_bound``.
        streams : Streams
        team : Team

        Returns
        -------
        Solution
            ``weights`` of shape (1, n_weights), for rows of norm at most 1, the intercept's weight last.

        Raises
        ------
        DataError
            If rows or labels do not fit the plan; before any noise is drawn.
        """
        self._check(rows)
        soft = self.soft_labels(labels)
        noise = streams.generator(Purpose.NOISE)
        mechanism = self.moments_mechanism()
        chosen: dict[str, object] = {"noise of an entry of the label sum": mechanism.noise_std / self._beta_factor}
        if self.releases_gram:
            chosen["noise of an entry of the diagonal of X'X"] = mechanism.noise_std
            exact = gram(rows, self.label_weight * soft)
            moments, event = release_moments(exact, self.label_weight, mechanism, noise)
            if rows.constant > 0.0:  # what follows from public facts needs no noise
                moments.matrix[-2, -2] = self.n_samples * rows.constant**2
                public = self.label_weight * rows.constant * float(np.sum(soft))
                moments.matrix[-1, -2] = moments.matrix[-2, -1] = public
            if isinstance(self.loss, Squared):
                weights, penalty = moments.ridge(self.alpha_scaled * self.n_samples)
                return Solution(
                    weights[None, :], 1, event, {**chosen, "alpha after AdaSSP's rule": penalty / self.n_samples}
                )
            spectrum = eigh(moments.gram)
            beta = moments.cross
        else:
            spectrum = None
            factor = self._beta_factor
            released, event = mechanism.release(to_ticks(factor * _label_sum(rows, soft), mechanism.tick), noise)
            beta = released / factor
            if rows.constant > 0.0:
                beta[-1] = rows.constant * float(np.sum(soft))
        weights = self._descend(rows, soft, beta, spectrum, noise, team)
        spent = compose(event, RepeatedEvent(self.slopes_mechanism().event, self.n_steps))
        return Solution(weights[None, :], self.n_steps, spent, {**chosen, **self.details()})

    def _descend(
        self,
        rows: Rows,
        soft: Vector,
        beta: Vector,
        spectrum: tuple[Vector, Vector] | None,
        noise: np.random.Generator,
        team: Team,
    ) -> Vector:
        """Do the damped steps; the first, from 0, needs no sum of slopes."""
        mechanism, penalty = self.slopes_mechanism(), self.alpha_scaled * self.n_samples
        sums = np.empty((rows.n_parts(team), self.n_weights), np.int64)
        damping = self.damping + penalty

        def step(descent: Vector) -> Vector:
            if spectrum is None:
                return descent / damping
            values, vectors = spectrum
            return np.asarray(vectors @ ((vectors.T @ descent) / (_CURVATURE * np.maximum(values, 0.0) + damping)))

        w = step(beta)
        for _ in range(self.n_steps):
            at = rows.weights(w)
            sums[:] = 0

            def one_range(part: int, lo: int, hi: int, block: Rows, soft: NDArray[Any], at: NDArray[Any] = at) -> None:
                gradient.batch_gradient(
                    block.kernel, soft, at, _MAX_SLOPE, 1.0 / mechanism.tick, _EvenLogistic(), np.arange(lo, hi), 0,
                    hi - lo, sums[part],
                )  # fmt: skip

            rows.sweep(team, one_range, soft)
            slopes, _ = mechanism.release(sums.sum(axis=0), noise)
            w = w + step(beta - slopes - penalty * w)
        return w

    def _check(self, rows: Rows) -> None:
        shape = (rows.n_samples, rows.n_weights)
        if shape != (self.n_samples, self.n_weights):
            raise DataError(
                f"rows must be {self.n_samples} with {self.n_weights} weights, as planned; got {shape[0]} with "
                f"{shape[1]}."
            )
        planned = self.intercept / math.sqrt(1.0 + self.intercept**2)
        if not abs(rows.constant - planned) <= 1e-12:
            raise DataError(
                f"rows must be made with constant={self.intercept!r}, as planned: entry {planned:g}; got "
                f"{rows.constant:g}."
            )
        if self.nonnegative:
            for place, block in rows.blocks():
                raw = block.raw.data if hasattr(block.raw, "indptr") else block.raw
                if raw.size and not raw.min() >= 0.0:
                    raise DataError(
                        f"rows must have no negative entry with nonnegative=True; one of the rows {place.start} to "
                        f"{place.stop - 1} has. Make the plan with nonnegative=False, or shift the column by a public "
                        "number."
                    )

    @property
    def _beta_factor(self) -> float:
        """Factor of beta in the coordinates of the release: sqrt(2) c."""
        return math.sqrt(2.0) * self.label_weight

    # For the receipt

    @property
    def mechanism(self) -> str:
        """The algorithm in one sentence, for the receipt."""
        if isinstance(self.loss, Squared):
            return "second moments of the rows, and their products with public labels, with Gaussian noise on a grid"
        first = "Gram matrix and label sum" if self.releases_gram else "label sum"
        return (
            f"damped noisy gradient steps on public labels: {first} once, and sums of logistic slopes, with Gaussian "
            "noise on a grid"
        )

    @property
    def releases(self) -> tuple[str, ...]:
        """What the statement covers, for the receipt."""
        matrix = ("X'X of the scaled rows, noisy",) if self.releases_gram else ()
        slopes = ("the weights after every step",) if self.n_steps else ()
        return (*matrix, "X't of the scaled rows and public labels, noisy", *slopes)

    def details(self) -> dict[str, object]:
        """Return how the budget is split, and the steps."""
        out: dict[str, object] = {
            "mu (Gaussian DP) of the whole run": self.mu,
            "mu for the moments": self.mu_moments,
        }
        if self.n_steps:
            out |= {"mu for the sums of slopes": self.mu_slopes, "steps": self.n_steps, "damping": self.damping}
        return out


def _damping(gram_noise: float, n_weights: int) -> float:
    """Return k times what the norm of the noise in the Gram matrix hardly ever exceeds."""
    return _CURVATURE * _EDGE * math.sqrt(2.0 * n_weights) * gram_noise


def _label_sum(rows: Rows, soft: Vector) -> Vector:
    """Return sum_i t_i x_i of the scaled rows in double precision, piece by piece."""
    total = np.zeros(rows.n_weights)
    features = rows.raw.shape[1]
    lo = 0
    for scaled in rows.scaled_pieces():
        hi = lo + scaled.shape[0]
        total[:features] += scaled.T @ soft[lo:hi]
        lo = hi
    total[features:] = rows.constant * np.sum(soft)
    return total
