"""What solvers share that go in noisy steps: the scales first, then one model for each target, averaged over steps."""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from sottovoce._numerics import Vector
from sottovoce._validation import magnitude
from sottovoce.central.core import Asked, Tell
from sottovoce.central.data.targets import BeginModel
from sottovoce.central.plan import Solution
from sottovoce.central.scaled_plan import ScaledPlan, Scales
from sottovoce.central.sums.clipped_sums import ClippedSum, clipped_sum

__all__ = ["FirstOrderPlan", "State", "SteppedPlan", "unshortened"]

State = tuple[Vector, ...]
AFTER_STEPS: Final = "the weights after every step (the model is an average of them)"

_HORIZON: Final = 8.0  # c, for losses with a bound on |l'|
_HORIZON_SQUARED: Final = 4.0  # c, for squared loss


class SteppedPlan(ScaledPlan):
    """Plan of a solver that releases clipped sums, step by step; the solver says how a step is taken (`step`)."""

    # Share of the released points, the last ones, that a model is averaged over.
    averaged: ClassVar[float]
    # Where steps begin: the point itself, and whatever else a step needs. One entry stands for all weights.
    start: ClassVar[State] = (np.zeros(1),)
    # Whether n_models models are trained one after the other, each with a share of the budget.
    one_by_one: ClassVar[bool] = True

    @property
    def duals(self) -> tuple[tuple[str, int | None], ...]:
        """Columns of dual variables, zeros when a model is begun, and how many numbers each has for a row."""
        return ()

    @property
    def unit(self) -> float:
        """What a released point is divided by to be weights: v is alpha n times as long."""
        return self.alpha_scaled * self.n_samples

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

    def told(self, scales: Scales) -> dict[str, object]:
        """Return what follows from the scales by a public rule, for the receipt."""
        return {}

    @abstractmethod
    def step(self, number: int, state: State, scales: Scales, sums: ClippedSum, done: tuple[int, int]) -> Asked[State]:
        """Take a step for the model at work; ``done`` is what a progress bar is told with it."""

    def train(self) -> Asked[Solution]:
        scales = yield from self.scales(keeps_whole=not self.one_by_one and self.is_noisy)
        n_points, sums = self.points_for(scales), self.sums_for(scales)
        for name, value in self.told(scales).items():
            yield Tell(name, value)
        averaged, n_targets, weights = max(1, round(self.averaged * n_points)), self.n_targets, []
        for model in range(n_targets):
            yield BeginModel(model, scales.location, self.duals)
            state, total = self.start, np.zeros(1)
            for number in range(n_points):
                done = model * n_points + number + 1, n_points * n_targets
                state = yield from self.step(number, state, scales, sums, done)
                if number >= n_points - averaged:
                    total = total + state[0]
            weights.append((yield from self.finished(total / (averaged * self.unit), scales, model)))
        return self.solution(weights, self.steps_for(scales), offset=scales.location)

    @property
    def n_targets(self) -> int:
        return self.n_models if self.one_by_one else 1

    def finished(self, weights: Vector, scales: Scales, model: int) -> Asked[Vector]:
        """Make of the average of the last points the weights of a model, for rows as they were before shortening."""
        found = yield from self.calibrated(weights, scales.eigenvalue, model)
        return unshortened(found, scales.norm, self.n_features)


def unshortened(weights: Vector, norm: float, n_features: int) -> Vector:
    """Return weights for rows as they were before they were shortened to ``norm``."""
    found = np.array(weights)
    found[..., :n_features] /= norm
    return found


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

    def check(self) -> None:
        super().check()
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

    def told(self, scales: Scales) -> dict[str, object]:
        return {"clipping norm": self.clip_for(scales)}
