"""A constant model of numbers: one noisy mean of the labels, for tables on which noise would hide every slope.

The whole budget goes into one sum of labels, cut to their public bounds. Where mu n is small, passes over rows release
more noise than a table can tell, and their model is worse than this one by more than the noise of a mean.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from sottovoce.central.core import Asked, Release
from sottovoce.central.plan import Plan, Solution, Takes
from sottovoce.central.sums.clipped_sums import ClippedSum, SumOfTargets, clipped_sum
from sottovoce.exceptions import ParameterError
from sottovoce.losses import Squared
from sottovoce.privacy.calibration import gaussian_mu

_WORDS: Final = "a noisy mean of the labels: the model predicts it for every row"


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
        (noisy,) = yield Release(_WORDS, ask, total.mechanism, (1, 1))
        mean = float(np.clip(noisy / self.n_samples, -total.clip, total.clip))
        return self.solution([np.zeros(1)], 1, offset=mean)
