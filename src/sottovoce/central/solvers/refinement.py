r"""Iterative refinement for ridge: a noisy Gram matrix once, then passes that correct its errors with exact residuals.

With rows |x_i| <= 1, labels y_i centred at a released median and A = X'X, a fit

1. releases :math:`A + E` once (`sottovoce.central.sums.whole_gram`), and keeps its eigenvectors with the eigenvalues
   d_j = max(a_j, 0) + alpha n + r, where r = sqrt(2 d) s is the edge of the spectrum of the noise E;
2. in pass t = 0, ..., T - 1 releases the sum of clipped residuals times rows,
   :math:`g = \sum_i \mathrm{clip}(y_i - x_i^\top z, R)\, x_i + N(0, (\sigma R)^2 I)`, at the extrapolated point
   z = w_t + t / (t + 3) (w_t - w_{t-1}), and steps :math:`w_{t+1} = z + V D^{-1} V^\top (g - \alpha n z)`.

This is iterative refinement [1]_: solve with an inexact factorisation, and correct by residuals. A point at which steps
end solves the equations of A, not those of A + E, so the noise of the Gram matrix costs passes and no accuracy.
Directions that the noise hides get short steps; that T passes do not reach them is their penalty. The model is the
average of the last iterates.

The clip R follows from histograms of the signed distances of labels from their location, and after some passes of
residuals from zero: as short as their noise allows and their skewness permits. All parts tend to those of the exact
solution as the budget grows: E and the noise vanish, R tends to the longest residual.

*Clip.* Cutting residuals times rows at a length R leaves noise in proportion to R in their sum, and pulls predictions
toward a median. With M the filter of the solver, P the share of rows within R
and S the mean of what is cut off, signs included, in the unit of the labels (over the root mean square of the norms of
rows, which the released Gram matrix shows), the mean squared error that R adds is taken to be

.. math:: \frac{R^2}{P^2} \frac{\mathrm{tr}(M A M)}{\mu^2 n} + \kappa S^2.

S is what a clip does to the intercept. The whole pull was 1.5 to 5 times S^2 on skewed made-up labels, house prices and
comments, over clips from the median to the 99 % quantile; symmetric tails are cut without harm. Bins in which the noise
may be all that there is count as empty: with mu the thresholds vanish, and the clip tends to the longest residual.

Privacy, and why it is accurate: ``docs/privacy/refinement.md``.

References
----------
.. [1] Higham (2002). Accuracy and Stability of Numerical Algorithms. 2nd ed.; chapter 12.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from scipy.linalg import eigh

from sottovoce._numerics import Vector
from sottovoce._validation import number as number_within
from sottovoce._validation import whole_number
from sottovoce.central.core import Asked, Keep, Release
from sottovoce.central.data.labels import BeginModel
from sottovoce.central.plan import Plan, Solution, Takes
from sottovoce.central.split import Split, State, averaged, median, unshortened
from sottovoce.central.sums.clipped_sums import clipped_sum
from sottovoce.central.sums.histograms import DISTANCE_BINS, CountDistances, clip_grid, distances_mechanism
from sottovoce.central.sums.passes import ClippedSlopes
from sottovoce.central.sums.whole_gram import gram, gram_mechanism
from sottovoce.exceptions import ParameterError
from sottovoce.losses import Squared
from sottovoce.privacy.adjacency import Neighbours
from sottovoce.privacy.mechanisms.gaussian import counts_mechanism

# Shares of mu^2; the passes have what is left. Chosen on public data, see docs/privacy/refinement.md.
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

_AFTER_PASSES: Final = "the weights after every pass (the model is an average of them)"
_HISTOGRAMS: Final = (
    "histograms of the signed distances of labels from the location and, later, from predictions, noisy"
)
_WHERE: Final = "location of the labels (a median), noisy"
_LOCATION_COUNTS: Final = 12
_BELIEVED: Final = 4.0  # standard deviations from which one of some hundred counts is more than noise
_BIAS: Final = 8.0  # kappa
_KEPT: Final = 0.7  # share of the rows that a clip leaves as they are, at least
# names in the receipt
_CLIPS: Final = ("clip of the residuals in the first passes", "clip of the residuals in the others")


@dataclass(frozen=True, kw_only=True)
class RefinementPlan(Plan):
    """Plan of iterative refinement."""

    solver = "refinement"
    losses = (Squared,)
    mechanism = (
        "second moments of the rows once, then passes over clipped residuals: adaptive composition of Gaussian "
        "mechanisms on a grid, no subsampling"
    )
    proof = "docs/privacy/refinement.md"
    takes = Takes.SUMS

    n_passes: int | None = None  # public number of passes after the Gram matrix; None follows a rule

    def check(self) -> None:
        self.check_given(whole_number, "n_passes", at_least=1, at_most=10**6)
        self.refuse_many_weights()

    @cached_property
    def split(self) -> Split:
        """What the run spends, and on the length of the rows; the rest of it is divided here."""
        return Split(facts=self.facts, shortens=True)

    @property
    def is_located(self) -> bool:
        """Whether a location of the labels is released: an intercept takes it up."""
        return self.facts.constant > 0.0

    @cached_property
    def mu_passes(self) -> float:
        left = 1.0 - self.split.share_of_norm - _LOCATION * self.is_located - _DISTANCES - _RESIDUALS - _GRAM
        return self._share(left)

    @cached_property
    def passes(self) -> int:
        """Number of passes: what noise amplifies grows with their square, so more mu n pays for more of them."""
        if self.n_passes is not None:
            return self.n_passes
        seen = self.split.whole * self.n_units / (10.0 * self.n_weights**1.5)
        return round(min(max(_PASSES * math.sqrt(math.sqrt(seen * math.sqrt(self.n_weights))), _FEWEST), _MOST))

    def details(self) -> dict[str, object]:
        return {
            "mu (Gaussian DP) of the whole run": self.split.whole,
            "mu for the length of rows": self.split.norm,
            "mu for the location of the labels": self._share(_LOCATION) if self.is_located else 0.0,
            "mu for X'X": self._share(_GRAM),
            "mu for the distances of labels and residuals": self._share(_DISTANCES + _RESIDUALS),
            "mu for the passes": self.mu_passes,
            "passes": self.passes,
        }

    def _share(self, share: float) -> float:
        return self.split.whole * math.sqrt(share)

    def train(self) -> Asked[Solution]:
        assert self.label_bound is not None
        scales, location = (yield from self.split.scales()), 0.0
        if self.is_located:
            mu = self._share(_LOCATION) / math.sqrt(_LOCATION_COUNTS)
            counting = counts_mechanism(1, self.neighbours.count, mu)
            location = yield from median(self.n_samples, self.label_bound, counting, _WHERE)
        mechanism = gram_mechanism(self.n_weights, self.n_samples, self.neighbours, self._share(_GRAM))
        widest = self.label_bound + abs(location)
        matrix = yield from gram(mechanism, "X'X of the scaled rows, noisy")
        filtered = _Filter(matrix, mechanism.noise_std, self.alpha_scaled * self.n_samples, self.passes)
        yield BeginModel(0, location)
        clip = yield from self._clip(0, None, widest, filtered)
        later, multiplier = max(1, round(_FIRST_PART * self.passes)), math.sqrt(self.passes) / self.mu_passes
        sums = clipped_sum(self.neighbours, clip, multiplier)

        def step(number: int, state: State, done: tuple[int, int]) -> Asked[State]:
            nonlocal sums
            point, before = state
            if number == later:  # the residuals are looked at, now that they are small
                clip = yield from self._clip(1, point, 2.0 * widest, filtered)
                sums = clipped_sum(self.neighbours, clip, multiplier)
            ahead = point + number / (number + 3.0) * (point - before)
            # the clipped gradients are minus the residuals times rows
            slopes = ClippedSlopes(self.loss, ahead, sums.clip, sums.ticks_per_unit)
            noisy = yield Release(_AFTER_PASSES, slopes, sums.mechanism, done)
            return ahead + filtered.solve(-noisy - filtered.penalty * ahead), point

        zeros = np.zeros(filtered.n_weights)
        point = yield from averaged(step, (zeros, zeros), self.passes, _AVERAGED, apart=later)
        return self.solution([unshortened(point, scales.norm, self.n_features)], self.passes, offset=location)

    def _clip(self, number: int, w: Vector | None, widest: float, filtered: "_Filter") -> Asked[float]:
        """Release a histogram of distances from predictions, and return the clip that it asks for."""
        found = yield from distances(w, widest, self.neighbours, self._share((_DISTANCES, _RESIDUALS)[number]))

        def best() -> float:
            length = math.sqrt(min(1.0, max(_SHORTEST, filtered.trace / self.n_samples)))
            gain = filtered.gain * (self.neighbours.rows / self.mu_passes) ** 2
            return found.clip(self.n_samples, noise_gain=gain, length=length)

        def check(name: str, value: Any) -> float:
            clip = number_within(name, value, above=0.0)
            if not np.any(np.abs(clip_grid(widest) - clip) <= 1e-9 * clip_grid(widest)):
                raise ParameterError(f"a clip of {clip!r} is none that follows from the location of the labels.")
            return clip

        kept: float = yield Keep(_CLIPS[number], best, check, widest)
        return kept


class _Filter:
    """The noisy Gram matrix as a preconditioner that is stable whatever the noise was, within its spectrum's edge."""

    def __init__(self, matrix: Vector, noise_std: float, penalty: float, passes: int) -> None:
        values, self._vectors = eigh(matrix)
        edge = math.sqrt(2.0 * len(matrix)) * noise_std
        self.penalty, self.n_weights = penalty, len(values)
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


@dataclass(frozen=True)
class Distances:
    """A noisy histogram of signed distances."""

    clips: Vector  # from `clip_grid`; two for a bin
    # Noisy counts of positive distances, and of the others.
    above: Vector
    below: Vector
    noise_std: float

    def clip(self, n_public: int, *, noise_gain: float, length: float) -> float:
        """Return the clip with the least estimated error.

        ``noise_gain``: tr(M A M) / mu^2.
        ``length``: in (0, 1]; root mean square of the norms of the rows, estimated.
        """
        both = np.stack([self.above, self.below])
        counts = 0.5 * np.repeat(both, 2, axis=1)  # a bin's rows are taken to lie in its halves alike
        believed = np.where(np.repeat(both, 2, axis=1) > _BELIEVED * self.noise_std, counts, 0.0)
        middles, more = self.clips * 2.0**-0.25, believed[0] - believed[1]
        kept = 1.0 - _beyond(believed.sum(axis=0)) / n_public
        cut_off = (_beyond(more * middles) - _beyond(more) * self.clips) / n_public
        error = (self.clips / np.maximum(kept, _KEPT)) ** 2 * noise_gain / n_public + _BIAS * (cut_off / length) ** 2
        # what is not seen beyond must be seen within, or noise hides it all
        seen = np.cumsum(counts.sum(axis=0)) / n_public
        error[(kept < _KEPT) | (seen < 0.3 * _KEPT)] = math.inf
        return float(self.clips[error.argmin() if np.any(error < math.inf) else -1])


def _beyond(counts: Vector) -> Vector:
    """Return the sum of what comes after each entry."""
    return np.append(np.cumsum(counts[:0:-1])[::-1], 0.0)


def distances(w: Vector | None, widest: float, neighbours: Neighbours, mu: float) -> Asked[Distances]:
    """Release the histogram of signed distances; those beyond ``widest``, and NaN, count as ``widest``.

    ``w``: of shape (n_weights,); released; distances are from what it predicts. None: from 0.
    ``widest``: > 0; public.
    """
    mechanism = distances_mechanism(neighbours, mu)
    noisy = yield Release(_HISTOGRAMS, CountDistances(w, widest), mechanism)
    return Distances(clip_grid(widest), noisy[DISTANCE_BINS:], noisy[:DISTANCE_BINS], mechanism.noise_std)
