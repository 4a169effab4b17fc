"""What solvers share that go in noisy steps: the scales first, then one model for each target, averaged over steps."""

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from sottovoce._numerics import Vector
from sottovoce._validation import magnitude
from sottovoce.central.calibration import Calibration
from sottovoce.central.data.targets import BeginModel
from sottovoce.central.plan import Fit, Report, Solution
from sottovoce.central.scaled_plan import ScaledPlan, Scales
from sottovoce.central.sums.clipped_sums import ClippedSum, clipped_sum
from sottovoce.privacy.events import Event, GaussianEvent, RepeatedEvent, compose

__all__ = ["FirstOrderPlan", "SteppedPlan"]

_HORIZON: Final = 8.0  # c, for losses with a bound on |l'|
_HORIZON_SQUARED: Final = 4.0  # c, for squared loss


class SteppedPlan(ScaledPlan):
    """Plan of a solver that releases clipped sums, step by step; the solver says how a step is taken (`iterates`)."""

    # Share of the released points, the last ones, that a model is averaged over.
    averaged: ClassVar[float]
    # Columns of dual variables, which are zeros when a model is begun, and how many numbers each has for a row.
    duals: ClassVar[tuple[tuple[str, int | None], ...]] = ()

    @property
    def unit(self) -> float:
        """What a released point is divided by to be weights: v is alpha n times as long."""
        return self.alpha_scaled * self.n_samples

    @property
    def releases(self) -> tuple[str, ...]:
        steps = "the weights after every step (the model is an average of them)"
        return (*self.scale_releases, steps, *self.calibration_releases)

    @abstractmethod
    def steps_for(self, scales: Scales) -> int: ...

    def points_for(self, scales: Scales) -> int:
        """Return the number of released points that may enter the average of a model."""
        return self.steps_for(scales)

    @abstractmethod
    def clip_for(self, scales: Scales) -> float:
        """Return the bound on a row's term (of the first step, where it falls)."""

    @abstractmethod
    def multiplier_for(self, scales: Scales) -> float: ...

    def sums_for(self, scales: Scales) -> ClippedSum:
        """Return how a step is released: its clip, and the mechanism that is made for it."""
        return clipped_sum(self.neighbours, self.clip_for(scales), self.multiplier_for(scales))

    @abstractmethod
    def iterates(self, fit: Fit, scales: Scales, sums: ClippedSum) -> Iterator[Vector]:
        """Take the steps for the model at work, each a release of ``sums``; yield the released points."""

    def spent(self, event: GaussianEvent, n_steps: int) -> tuple[Event, ...]:
        return (RepeatedEvent(event, n_steps * self.n_models),)

    def last_points(self, fit: Fit, scales: Scales, sums: ClippedSum, report: Report) -> tuple[Vector, int]:
        """Take the steps for the model at work; return the sum of the points to average over, and their number."""
        n_points = self.points_for(scales)
        averaged, total = max(1, round(self.averaged * n_points)), np.zeros(1)
        for step, point in enumerate(self.iterates(fit, scales, sums)):
            if step >= n_points - averaged:
                total = total + point
            report(step + 1)
        return total, averaged

    def train(self, fit: Fit) -> Solution:
        self.settle()  # calibrated from public facts before anything is released
        _ = fit.noise  # the first stream to be opened, also where no scale is released
        scales = self.release_scales(fit)
        n_steps, sums = self.steps_for(scales), self.sums_for(scales)
        calibrations = list[Calibration]()

        def train_one(model: int, report: Report) -> Vector:
            fit.holder.ask(BeginModel(fit.targets, model, scales.location, self.duals))
            total, averaged = self.last_points(fit, scales, sums, report)
            return self.calibrate(fit, total / (averaged * self.unit), scales.eigenvalue, calibrations)

        weights = fit.each_model(self.points_for(scales), train_one)
        weights[:, : self.n_features] /= scales.norm
        event = compose(*scales.events, *self.spent(sums.mechanism.event, n_steps), *self.calibration_events)
        chosen = self.chosen(scales) | self.told(calibrations)
        return Solution(weights, n_steps, event, chosen, offset=scales.location)


@dataclass(frozen=True, kw_only=True)
class FirstOrderPlan(SteppedPlan):
    """Plan of a solver that follows clipped noisy gradients, with labels centred for squared loss.

    With n rows, d weights and the Gaussian-DP parameter mu of one model, steps of learning rate eta on gradients
    clipped to C add noise of norm about H C sqrt(d) / (mu n) to the weights, where H = eta T is the *horizon* of T
    steps, however H is divided into steps. So H = c mu n / sqrt(d), with c measured once on public data: more noise, a
    shorter way.
    """

    estimates_eigenvalue = False
    unit = 1.0

    # Step eta on the gradient of the mean loss, for rows scaled to norm 1; None follows a public rule.
    learning_rate: float | None = None
    # Bound C on the norm of a row's gradient, for squared loss in units of the label bound. None takes the bound on
    # |l'|, or, for squared loss, location and scale of the labels are released with 2 % of the budget, the labels are
    # centred, and C is their scale.
    clipping_norm: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_given(magnitude, "learning_rate", "clipping_norm")

    @property
    def estimates_labels(self) -> bool:
        """True for losses without a Lipschitz bound, unless the clip is given."""
        return self.clipping_norm is None and not math.isfinite(self.loss.lipschitz)

    @property
    def horizon(self) -> float:
        """Learning rate times number of steps, by rule; ten time constants of the L2 term are enough."""
        factor = _HORIZON if math.isfinite(self.loss.lipschitz) else _HORIZON_SQUARED
        return min(factor * self.mu_model * self.n_units / math.sqrt(self.n_weights), 10.0 / self.alpha_scaled)

    @property
    def spread(self) -> float:
        """Share of a row's length that a step may see."""
        return 1.0

    @property
    def safe_rate(self) -> float:
        """Learning rate that converges for rows of norm at most 1."""
        smoothness = self.loss.smoothness if math.isfinite(self.loss.smoothness) else 1.0
        return 1.0 / (smoothness * self.spread**2 + self.alpha_scaled)

    def clip_for(self, scales: Scales) -> float:
        if self.clipping_norm is not None:
            return self.clipping_norm * (self.label_bound or 1.0)
        return self.spread * (self.loss.lipschitz if math.isfinite(self.loss.lipschitz) else scales.label)

    def chosen(self, scales: Scales) -> dict[str, object]:
        return {"clipping norm": self.clip_for(scales), **super().chosen(scales)}
