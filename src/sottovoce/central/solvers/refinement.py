r"""Iterative refinement for ridge: a noisy Gram matrix once, then passes that correct its errors with exact residuals.

With rows |x_i| <= 1, labels y_i centred at a released median and A = X'X, a fit

1. releases :math:`A + E` once (`sottovoce.central.sums.whole_gram`), and keeps its eigenvectors with the eigenvalues
   d_j = max(a_j, 0) + alpha n + r, where r = sqrt(2 d) s is the edge of the spectrum of the noise E;
2. in pass t = 0, ..., T - 1 releases the sum of clipped residuals times rows,
   :math:`g = \sum_i \mathrm{clip}(y_i - x_i^\top z, R)\, x_i + N(0, (\sigma R)^2 I)`, at the extrapolated point
   z = w_t + t / (t + 3) (w_t - w_{t-1}), and steps :math:`w_{t+1} = z + V D^{-1} V^\top (g - \alpha n z)`.

This is iterative refinement [1]_: solve with an inexact factorisation, and correct by residuals. A point at which steps
end solves the equations of A, not those of A + E, so the noise of the Gram matrix costs passes and no accuracy: that of
AdaSSP, which multiplies the weights, does not fade from its solution. Since D >= A + alpha n with high probability, the
steps are stable, and a direction of eigenvalue a needs some sqrt((a + r) / a) passes: few, where those of plain steps
are some sqrt(lambda_max / alpha). Directions that the noise hides get short steps; that T passes do not reach them is
their penalty. The model is the average of the last iterates.

The clip R follows from histograms of the signed distances of labels from their location, and after some passes of
residuals from zero (`sottovoce.central.distances`): as short as their noise allows and their skewness permits. All
parts tend to those of the exact solution as the budget grows: E and the noise vanish, R tends to the longest residual.

Privacy: ``docs/privacy/refinement.md``.

References
----------
.. [1] Higham (2002). Accuracy and Stability of Numerical Algorithms. 2nd ed.; chapter 12.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from sottovoce._numerics import Vector
from sottovoce._validation import number, whole_number
from sottovoce.central.data.lengths import Shorten
from sottovoce.central.data.operation import RowSum
from sottovoce.central.data.row_memory import TARGET
from sottovoce.central.data.targets import BeginModel
from sottovoce.central.distances import (
    clip_grid,
    histogram_mechanism,
    location_event,
    release_distances,
    release_location,
)
from sottovoce.central.facts import HARDLY_ANY_NOISE
from sottovoce.central.kernels.gradient import full_gradient
from sottovoce.central.kernels.scaled import ScaledRows
from sottovoce.central.plan import Fit, Plan, Solution
from sottovoce.central.scales import norm_counts, release_row_norm
from sottovoce.central.sums.clipped_sums import ClippedSum, Ticks, clipped_sum
from sottovoce.central.sums.whole_gram import gram_mechanism, refuse_many_weights, release_gram
from sottovoce.exceptions import ParameterError
from sottovoce.losses import Loss
from sottovoce.privacy.calibration import gaussian_mu
from sottovoce.privacy.events import Event, GaussianEvent, RepeatedEvent, compose
from sottovoce.privacy.mechanisms.gaussian import GridGaussian

__all__ = ["RefinementPlan"]


# Shares of mu^2; the passes have what is left. Chosen on public data, see docs/privacy/refinement.md.
_LENGTH: Final = 0.01  # of the rows
_LOCATION: Final = 0.02
_DISTANCES: Final = 0.02  # of the labels
_RESIDUALS: Final = 0.05  # of the residuals
_GRAM: Final = 0.15

_PASSES: Final = 17.0  # times d^(1/8) (mu n / (10 d^1.5))^(1/4)
_FEWEST, _MOST = 16, 100
_AVERAGED: Final = 0.6  # share of the passes, the last ones
_FIRST_PART: Final = 0.1  # share of the passes before the residuals are looked at
_REACH: Final = 10.0  # T passes reach eigenvalues down to this over T^2, of the least d_j
_SHORTEST: Final = 1e-4  # mean square of the norms of rows: fewer would be noise

# names in the receipt
_NORM: Final = "bound of most rows, in units of data_norm (noisy)"
_MEDIAN: Final = "label location, from the middle of the bounds (noisy)"
_CLIPS: Final = ("clip of the residuals in the first passes", "clip of the residuals in the others")


@dataclass(frozen=True, kw_only=True)
class RefinementPlan(Plan):
    """Plan of iterative refinement."""

    solver = "refinement"
    mechanism = (
        "second moments of the rows once, then passes over clipped residuals: adaptive composition of Gaussian "
        "mechanisms on a grid, no subsampling"
    )
    proof = "docs/privacy/refinement.md"
    in_order = True
    takes_persons = True
    takes_released_norm = True

    n_passes: int | None = None  # public number of passes after the Gram matrix; None follows a rule

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_given(whole_number, "n_passes", at_least=1, at_most=10**6)
        if self.loss.name != "squared":
            raise ParameterError(
                f"solver='refinement' needs the squared loss; got {self.loss.name!r}. Use DPRidge, or solver='auto'."
            )
        refuse_many_weights(self)

    @cached_property
    def mu(self) -> float:
        return gaussian_mu(self.epsilon, self.delta)

    @property
    def is_located(self) -> bool:
        """Whether a location of the labels is released: an intercept takes it up."""
        return self.facts.constant > 0.0

    @property
    def shortens_rows(self) -> bool:
        """Whether a bound that most rows keep is released within the public one; see `ScaledPlan.shortens_rows`."""
        return self.mu <= HARDLY_ANY_NOISE and not self.releases_norm

    @property
    def share_of_length(self) -> float:
        return _LENGTH * self.shortens_rows + self.facts.share_of_norm

    @property
    def mu_passes(self) -> float:
        return self.mu * math.sqrt(
            1.0 - self.share_of_length - _LOCATION * self.is_located - _DISTANCES - _RESIDUALS - _GRAM
        )

    @property
    def passes(self) -> int:
        """Number of passes: what noise amplifies grows with their square, so more mu n pays for more of them."""
        if self.n_passes is not None:
            return self.n_passes
        seen = self.mu * self.n_units / (10.0 * self.n_weights**1.5)
        return round(min(max(_PASSES * math.sqrt(math.sqrt(seen * math.sqrt(self.n_weights))), _FEWEST), _MOST))

    @property
    def first_passes(self) -> int:
        return max(1, round(_FIRST_PART * self.passes))

    @property
    def multiplier(self) -> float:
        return math.sqrt(self.passes) / self.mu_passes

    @property
    def releases(self) -> tuple[str, ...]:
        return (
            *(("a bound that most rows keep, noisy; longer rows were shortened to it",) * self.shortens_rows),
            *self.facts.norm_releases,
            *(("location of the labels (a median), noisy",) * self.is_located),
            "X'X of the scaled rows, noisy",
            "histograms of the signed distances of labels from the location and, later, from predictions, noisy",
            "the weights after every pass (the model is an average of them)",
        )

    def details(self) -> dict[str, object]:
        return {
            "mu (Gaussian DP) of the whole run": self.mu,
            "mu for the length of rows": self._share(self.share_of_length),
            "mu for the location of the labels": self._share(_LOCATION) if self.is_located else 0.0,
            "mu for X'X": self._share(_GRAM),
            "mu for the distances of labels and residuals": self._share(_DISTANCES + _RESIDUALS),
            "mu for the passes": self.mu_passes,
            "passes": self.passes,
        }

    @property
    def event(self) -> Event:
        """All releases in their order; what is chosen on the way changes sizes, not events."""
        one = GaussianEvent(self.multiplier)
        rest = self.passes - self.first_passes
        return compose(
            *((norm_counts(self._share(_LENGTH)),) if self.shortens_rows else self.facts.norm_events),
            *((location_event(self._share(_LOCATION)),) if self.is_located else ()),
            self.gram_mechanism.event,
            histogram_mechanism(self.neighbours, self._share(_DISTANCES)).event,
            RepeatedEvent(one, self.first_passes),
            histogram_mechanism(self.neighbours, self._share(_RESIDUALS)).event,
            *((RepeatedEvent(one, rest),) if rest else ()),
        )

    def _share(self, share: float) -> float:
        return self.mu * math.sqrt(share)

    @property
    def gram_mechanism(self) -> GridGaussian:
        return gram_mechanism(self.n_weights, self.n_samples, self.neighbours, self._share(_GRAM))

    def _widest(self, location: float) -> float:
        assert self.label_bound is not None
        return self.label_bound + abs(location)

    def train(self, fit: Fit) -> Solution:
        self.settle()
        holder, norm, location = fit.holder, 1.0, 0.0
        if self.shortens_rows:
            norm, _ = release_row_norm(
                holder, n_public=self.n_samples, neighbours=self.neighbours, mu=self._share(_LENGTH), noise=fit.noise
            )
            if norm < 1.0:
                holder.ask(Shorten(norm))
        if self.is_located:
            assert self.label_bound is not None
            location, _ = release_location(
                holder, fit.targets, n_public=self.n_samples, bound=self.label_bound, neighbours=self.neighbours,
                mu=self._share(_LOCATION), noise=fit.noise,
            )  # fmt: skip
        mechanism = self.gram_mechanism
        matrix = release_gram(holder, mechanism, fit.noise)
        filtered = _Filter(matrix, mechanism.noise_std, self.alpha_scaled * self.n_samples, self.passes)
        holder.ask(BeginModel(fit.targets, 0, location))
        widest = self._widest(location)
        clips = [self._clip(fit, None, widest, _DISTANCES, filtered)]
        path = _Path(self, fit, filtered)
        path.follow(self.first_passes, clips[0])
        clips.append(self._clip(fit, path.point, 2.0 * widest, _RESIDUALS, filtered))
        path.follow(self.passes - self.first_passes, clips[1])
        weights = path.average[None, :].copy()
        weights[:, : self.n_features] /= norm
        chosen = self._chosen(norm, location, clips[0], clips[1])
        return Solution(weights, self.passes, self.event, chosen, offset=location)

    def _clip(self, fit: Fit, w: Vector | None, widest: float, share: float, filtered: "_Filter") -> float:
        """Release a histogram of distances from predictions, and return the clip that it asks for."""
        found, _ = release_distances(
            fit.holder, w, widest=widest, neighbours=self.neighbours, mu=self._share(share), noise=fit.noise
        )
        length = math.sqrt(min(1.0, max(_SHORTEST, filtered.trace / self.n_samples)))
        gain = filtered.gain * (self.neighbours.rows / self.mu_passes) ** 2
        return found.clip(self.n_samples, noise_gain=gain, length=length)

    def run(self, released: Mapping[str, object]) -> tuple[Event, dict[str, object]]:
        """Return the event of the plan; of the released values, that a run can have chosen them. See `Plan.run`."""
        assert self.label_bound is not None
        norm, location = 1.0, 0.0
        if self.shortens_rows:
            norm = number(_NORM, released.get(_NORM), above=0.0, at_most=1.0)
        if self.is_located:
            location = number(_MEDIAN, released.get(_MEDIAN), at_least=-self.label_bound, at_most=self.label_bound)
        clips = [number(name, released.get(name), above=0.0) for name in _CLIPS]
        for clip, factor in zip(clips, (1.0, 2.0), strict=True):
            if not np.any(np.isclose(clip, clip_grid(factor * self._widest(location)), rtol=1e-9, atol=0.0)):
                raise ParameterError(f"a clip of {clip!r} is none that follows from the location of the labels.")
        return self.event, self._chosen(norm, location, clips[0], clips[1])

    def _chosen(self, norm: float, location: float, first: float, second: float) -> dict[str, object]:
        return {
            **({_NORM: norm} if self.shortens_rows else {}),
            **({_MEDIAN: location} if self.is_located else {}),
            _CLIPS[0]: first,
            _CLIPS[1]: second,
        }


class _Filter:
    """The noisy Gram matrix as a preconditioner that is stable whatever the noise was, within its spectrum's edge."""

    def __init__(self, matrix: Vector, noise_std: float, penalty: float, passes: int) -> None:
        values, self._vectors = eigh(matrix)
        edge = math.sqrt(2.0 * len(matrix)) * noise_std
        self.penalty = penalty
        self.trace = float(np.sum(values))
        self._divisors = np.maximum(values, 0.0) + penalty + edge
        self.gain = _noise_gain(values, edge, penalty + edge * _REACH / passes**2)

    def solve(self, vector: Vector) -> Vector:
        """Return V D^-1 V' times the vector."""
        return np.asarray(self._vectors @ ((self._vectors.T @ vector) / self._divisors))


def _noise_gain(values: Vector, edge: float, reached: float) -> float:
    """Return tr(M A M) for the filter M that passes amount to, 1 / (a + ``reached``) for an eigenvalue a.

    Below the edge of the noise's spectrum no eigenvalue is known, but their sum is, with noise: they are taken to be
    equal, and where noise leaves too little of it, as large as amplifies most.
    """
    seen = values > edge
    gain = float(np.sum(values[seen] / (values[seen] + reached) ** 2))
    hidden = values[~seen]
    if hidden.size:
        mean = max(reached, float(np.mean(hidden)))
        gain += hidden.size * mean / (mean + reached) ** 2
    return gain


class _Path:
    """The iterates of a fit: all of them released."""

    def __init__(self, plan: RefinementPlan, fit: Fit, filtered: _Filter) -> None:
        self._plan, self._fit, self._filter = plan, fit, filtered
        self._step = 0
        self._averaged = max(1, round(_AVERAGED * plan.passes))
        self._total = np.zeros(plan.n_weights)
        self.point = self._before = np.zeros(plan.n_weights)

    @property
    def average(self) -> Vector:
        return self._total / self._averaged

    def follow(self, passes: int, clip: float) -> None:
        sums = clipped_sum(self._plan.neighbours, clip, self._plan.multiplier)
        for _ in range(passes):
            momentum = self._step / (self._step + 3.0)
            ahead = self.point + momentum * (self.point - self._before)
            pull = -self._slopes(ahead, sums) - self._filter.penalty * ahead
            self.point, self._before = ahead + self._filter.solve(pull), self.point
            self._step += 1
            if self._step > self._plan.passes - self._averaged:
                self._total += self.point
            self._fit.progress(self._step, self._plan.passes)

    def _slopes(self, point: Vector, sums: ClippedSum) -> Vector:
        """Release the sum of the clipped gradients, which are minus the residuals times rows."""
        holder = self._fit.holder
        slopes = ClippedSlopes(self._plan.loss, holder.weights(point), sums.clip, sums.ticks_per_unit)
        return holder.release(slopes, sums.mechanism, self._fit.noise)


@dataclass(frozen=True, eq=False)
class ClippedSlopes(RowSum):
    """The sum of the clipped gradients at a point."""

    loss: Loss
    w: NDArray[Any]  # of shape (n_weights,); released, in the precision of the matrix
    clip: float  # bound on a row's term
    ticks_per_unit: float

    reads = (TARGET,)

    def add(self, rows: ScaledRows, views: Sequence[NDArray[Any]], lo: int, hi: int, total: Ticks) -> None:
        full_gradient(rows, views[0], self.w, self.clip, self.ticks_per_unit, self.loss, lo, hi, total)
