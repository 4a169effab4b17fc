r"""One release for the squared loss: sufficient statistics with noise (AdaSSP), or a mean.

*AdaSSP.* With rows |x_i| <= 1 and labels t_i in [-1, 1] (centred, clipped and scaled), u_i = (x_i, c t_i), the second
moments sum_i u_i u_i' + E are released once: X'X, X't and t't together, by one Gaussian mechanism in coordinates whose
length is the Frobenius norm. c^2 = 1/2 gives X'X and X't 4/9 of mu^2 each and t't the rest. Wang's AdaSSP [1]_ splits
it in three and spends a part on the smallest eigenvalue; here that is read off the released matrix. Labels are clipped
at a multiple of their released scale, which grows with the public sqrt(mu sqrt(n / d)), so that clipping fades as the
noise does.

What becomes of the matrix: `sottovoce.central.noisy_moments`. Privacy: ``docs/privacy/sufficient_statistics.md``.

*Where noise would hide every slope* the model is constant: one noisy mean of the labels. The whole budget goes into one
sum of labels, cut to their public bounds. Where mu n is small, passes over rows release more noise than a table can
tell, and their model is worse than this one by more than the noise of a mean.

References
----------
.. [1] Wang (2018). Revisiting differentially private linear regression: optimal and adaptive prediction & estimation in
   unbounded domain. UAI 2018, arXiv:1803.02596; algorithm AdaSSP.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Final

import numpy as np

from sottovoce._validation import number
from sottovoce.central.core import Asked, Keep, Release, Tell
from sottovoce.central.noisy_moments import NoisyMoments
from sottovoce.central.plan import Plan, Solution, Takes, Unpenalised
from sottovoce.central.split import Scales, Split
from sottovoce.central.sums.clipped_sums import ClippedSum, SumOfTargets, clipped_sum
from sottovoce.central.sums.whole_gram import LabelColumn, gram, moments_mechanism, most_rows
from sottovoce.exceptions import ParameterError
from sottovoce.losses import Squared
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.privacy.calibration import gaussian_mu
from sottovoce.privacy.mechanisms.gaussian import GridGaussian

_MEAN: Final = "a noisy mean of the labels: the model predicts it for every row"
_WORDS: Final = "X'X, X'y and y'y of the scaled rows and clipped labels, noisy"

_LABEL_WEIGHT: Final = math.sqrt(0.5)
_LENGTH: Final = 1.0 + _LABEL_WEIGHT**2  # bound on |u|^2
_ALPHA: Final = "alpha after AdaSSP's rule"  # its name in the receipt
_LEAST_CLIP: Final = 2.0  # in units of the released scale: 3.3 standard deviations of Gaussian labels, or more
_CLIP_GROWTH: Final = 0.5  # times sqrt(mu sqrt(n / d)): slower than the noise falls, so that its share vanishes too


@dataclass(frozen=True, kw_only=True)
class SufficientStatisticsPlan(Plan):
    """Plan of a release of the second moments."""

    solver = "adassp"
    losses = (Squared,)
    mechanism = (
        "second moments of rows and labels with Gaussian noise on a grid, released once; adaptive ridge (AdaSSP) "
        "afterwards"
    )
    proof = "docs/privacy/sufficient_statistics.md"
    takes = Takes.SUMS

    # Release a location and a scale of the labels first, and clip labels at a multiple of the scale: less noise where
    # the public bounds are wide. False takes the bounds themselves and spends nothing on scales.
    clip_labels: bool = True

    def check(self) -> None:
        if not isinstance(self.clip_labels, bool):
            raise ParameterError(f"clip_labels must be True or False; got {self.clip_labels!r}.")
        self.refuse_many_weights()

    @cached_property
    def split(self) -> Split:
        """How the budget is divided: labels may be clipped at a multiple of their scale."""
        return Split(facts=self.facts, labels=self.clip_labels)

    def details(self) -> dict[str, object]:
        return {
            "mu (Gaussian DP) of the whole run": self.split.whole,
            "mu for the labels": self.split.of_labels,
            "mu for the second moments": self.split.steps,
        }

    def gram_mechanism(self) -> GridGaussian:
        """Return the mechanism that releases (G_jj, sqrt(2) G_jk), j < k, in ticks; it follows from public facts."""
        return moments_mechanism(
            self.n_weights + 1,
            square=self.neighbours.square_factor * _LENGTH,  # a replaced row moves u u' by at most sqrt(2) |u|^2
            length=_LENGTH,
            n_rows=most_rows(self.n_samples, self.adjacency),
            mu=self.split.steps,
        )

    def train(self) -> Asked[Solution]:
        scales = yield from self.split.scales()
        clip, mechanism = self._label_clip_for(scales), self.gram_mechanism()
        yield Tell("labels clipped at this distance from the location", clip)
        yield Tell("noise of an entry of the diagonal of X'X", mechanism.noise_std)
        label = LabelColumn(scales.location, clip)
        matrix = yield from gram(mechanism, _WORDS, label=label, label_weight=_LABEL_WEIGHT)
        moments = NoisyMoments(matrix, _LABEL_WEIGHT, mechanism.noise_std)
        weights, penalty = moments.ridge(self.alpha_scaled * self.n_samples)
        yield Keep(_ALPHA, penalty / self.n_samples, partial(number, at_least=0.0), 0.0)
        solution = self.solution([clip * weights], 1, offset=scales.location)
        return replace(solution, unpenalised=self._least_squares(moments, clip))

    def _label_clip_for(self, scales: Scales) -> float:
        """Return the largest |y - location| that counts, for released scales of the labels."""
        assert self.label_bound is not None
        clip = self.label_bound + abs(scales.location)
        growth = math.sqrt(self.split.steps * math.sqrt(self.n_units / self.n_weights))
        multiple = max(_LEAST_CLIP, _CLIP_GROWTH * growth)
        return min(clip, multiple * scales.label) if self.clip_labels else clip

    def _least_squares(self, moments: NoisyMoments, clip: float) -> Unpenalised | None:
        """Return what intervals are made of, in the unit of the labels, or None where the secret n stands in the way.

        Under add-remove the released column of the intercept shows n. The quantiles of the labels, found with the
        public stand-in for n, may be far off and clip too much.
        """
        if self.max_rows_per_group is not None:
            return None  # rows of one person are not independent, and how many are used is secret
        n_rows: float = self.n_samples
        if self.adjacency is Adjacency.ADD_REMOVE:
            if self.clip_labels or self.facts.constant == 0.0:
                return None
            n_rows = float(moments.gram[-1, -1]) / self.facts.entry**2
        found = moments.least_squares(n_rows)
        return Unpenalised(clip * found.estimates, clip * found.standard_errors)


@dataclass(frozen=True, kw_only=True)
class ConstantPlan(Plan):
    """Plan of a noisy mean of the labels; it has no options."""

    solver = "constant"
    losses = (Squared,)
    mechanism = "one noisy sum of the labels, cut to their bounds: a Gaussian mechanism on a grid"
    proof = "docs/privacy/gaussian_on_a_grid.md"
    takes = Takes.SUMS

    def check(self) -> None:
        if self.intercept == 0.0:
            raise ParameterError(
                "solver='constant' predicts one number for every row, so it needs an intercept. Give "
                "fit_intercept=True, or use solver='auto'."
            )

    @property
    def total(self) -> ClippedSum:
        """The sum of labels, with all of mu^2 that a bound on the rows leaves."""
        assert self.label_bound is not None
        mu = gaussian_mu(self.epsilon, self.delta) * math.sqrt(1.0 - self.facts.share_of_norm)
        return clipped_sum(self.neighbours, self.label_bound, 1.0 / mu)

    def details(self) -> dict[str, object]:
        assert self.label_bound is not None
        return {"noise of the mean": self.total.mechanism.noise_std / self.n_samples / self.label_bound}

    def train(self) -> Asked[Solution]:
        total = self.total
        ask = SumOfTargets(total.clip, total.ticks_per_unit)
        (noisy,) = yield Release(_MEAN, ask, total.mechanism, (1, 1))
        mean = float(np.clip(noisy / self.n_samples, -total.clip, total.clip))
        return self.solution([np.zeros(1)], 1, offset=mean)
