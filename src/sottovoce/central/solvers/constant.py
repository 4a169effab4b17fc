"""A constant model of numbers: one noisy mean of the labels, for tables on which noise would hide every slope.

The whole budget goes into one sum of labels, cut to their public bounds. Where mu n is small, passes over rows release
more noise than a table can tell, and their model is worse than this one by more than the noise of a mean.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.central.data.operation import Columns, RowSum, Ticks
from sottovoce.central.data.row_memory import LABEL
from sottovoce.central.data.targets import Targets
from sottovoce.central.kernels.rows import MOST_TICKS
from sottovoce.central.kernels.scaled import ScaledRows
from sottovoce.central.plan import Fit, Plan, Solution
from sottovoce.central.sums.clipped_sums import ClippedSum, clipped_sum
from sottovoce.exceptions import ParameterError
from sottovoce.privacy.calibration import gaussian_mu
from sottovoce.privacy.events import Event, compose

__all__ = ["ConstantPlan"]


@dataclass(frozen=True, kw_only=True)
class ConstantPlan(Plan):
    """Plan of a noisy mean of the labels; it has no options."""

    solver = "constant"
    mechanism = "one noisy sum of the labels, cut to their bounds: a Gaussian mechanism on a grid"
    proof = "docs/privacy/gaussian_on_a_grid.md"
    releases = ("a noisy mean of the labels: the model predicts it for every row",)
    in_order = True
    takes_persons = True
    takes_released_norm = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.loss.name != "squared" or self.intercept == 0.0:
            raise ParameterError(
                f"solver='constant' predicts one number for every row: it needs the squared loss and an intercept; got "
                f"the {self.loss.name} loss and fit_intercept={self.intercept > 0.0}. Use DPRidge, or solver='auto'."
            )

    @property
    def total(self) -> ClippedSum:
        """The sum of labels, with all of mu^2 that a bound on the rows leaves."""
        assert self.label_bound is not None
        mu = gaussian_mu(self.epsilon, self.delta) * math.sqrt(1.0 - self.facts.share_of_norm)
        return clipped_sum(self.neighbours, self.label_bound, 1.0 / mu)

    @property
    def event(self) -> Event:
        """One Gaussian release, and the bound on the rows where that is released."""
        return compose(*self.facts.norm_events, self.total.mechanism.event)

    def details(self) -> dict[str, object]:
        assert self.label_bound is not None
        return {"noise of the mean": self.total.mechanism.noise_std / self.n_samples / self.label_bound}

    def train(self, fit: Fit) -> Solution:
        self.settle()
        total = self.total
        noisy = fit.holder.release(
            SumOfTargets(fit.targets, total.clip, total.ticks_per_unit), total.mechanism, fit.noise
        )
        mean = float(np.clip(noisy[0] / self.n_samples, -total.clip, total.clip))
        event = compose(*fit.spent_before, total.mechanism.event)
        return Solution(np.zeros((1, self.n_weights)), 1, event, {}, offset=mean)


@dataclass(frozen=True)
class SumOfTargets(RowSum):
    """The sum of the targets of the first model, each cut to a bound and then to whole ticks."""

    targets: Targets
    bound: float
    ticks_per_unit: float

    reads = (LABEL,)

    def shape(self, columns: Columns) -> tuple[int, ...]:
        return (1,)

    def add(self, rows: ScaledRows, views: Sequence[NDArray[Any]], lo: int, hi: int, total: Ticks) -> None:
        cut = np.clip(self.targets.of(views[0][lo:hi], 0), -self.bound, self.bound) * self.ticks_per_unit
        total += np.trunc(np.clip(cut, -MOST_TICKS, MOST_TICKS)).astype(np.int64).sum()
