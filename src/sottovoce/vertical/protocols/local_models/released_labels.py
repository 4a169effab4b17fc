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
from functools import cached_property
from typing import ClassVar, Final

import numpy as np

from sottovoce._numerics import PIECE, ROUNDING_SLACK, Vector
from sottovoce._validation import magnitude, number
from sottovoce.central.core import Asked, Driven, drive, replay
from sottovoce.central.data.labels import hold
from sottovoce.central.data.part import Rows, RowUnit
from sottovoce.central.noisy_moments import NoisyMoments
from sottovoce.central.parallel import Team
from sottovoce.central.plan import Solution
from sottovoce.central.sums.whole_gram import LabelColumn, gram
from sottovoce.exceptions import DataError, ParameterError
from sottovoce.losses import Loss
from sottovoce.privacy.events import Event
from sottovoce.privacy.mechanisms.discrete_gaussian import SPENT
from sottovoce.privacy.mechanisms.gaussian import GridGaussian, power_of_two_below, rounding_norm
from sottovoce.randomness import Streams
from sottovoce.vertical.protocol import LARGEST_MU, SMALLEST_MU

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
