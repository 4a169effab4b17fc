r"""Accelerated full-batch DP-SCD, the default: T noisy passes over all rows, dual variables kept secret.

With rows |x_i| <= 1, dual variables a_i and v = sum_i a_i x_i, w = v / (alpha n), pass t = 0, 1, ... does

1. extrapolate with beta_t = t / (t + 3): a_i <- a_i + beta_t (a_i - a_i^before), likewise v;
2. for each row a step zeta_i at m = x_i.w, clipped to |zeta_i| |x_i| <= C; a_i <- a_i + zeta_i;
3. release v <- v + sum_i zeta_i x_i + N(0, (s C)^2 I), s = sqrt(T n_models) / mu.

The step is safe for all rows at once because of the aggregation constant s' = n lambda_max. For losses whose derivative
is bounded and smooth (logistic, smoothed hinge; l'' <= L) it goes part of the way to the dual variable that the
prediction asks for [2]_: zeta_i = d (-l'(m) - a_i), d = 1 / (1 + L lambda_max / alpha). For the others (hinge, squared
loss) it is the exact coordinate step. The clip C is a fixed share of the step that a row takes from zero: half of
d |l'(0)|, a quarter of r / (1 + lambda_max / alpha) for squared loss, all of 1 / (1 + lambda_max / alpha) for the
hinge. Short clips pay: the noise is in proportion, and a row that has further to go takes several passes.

The model is the average of the last w's. A row's own memory a_i is never released; given the released v's the sum moves
by at most C between neighbours, so the T passes compose to a Gaussian of mean shift mu, whatever T is. T and C follow
from public facts and from lambda_max and r, which are released first with 2 % of mu^2 each (r = 1 for classification;
for ridge a quantile of the distances of the labels from a median, which also centres them).

Privacy: ``docs/privacy/dp_scd.md``. Differences from the paper [1]_: the duals are secret and need no noise; full
batches, acceleration, averaging; s' = n lambda_max in place of the batch size; the steps.

References
----------
.. [1] Damaskinos et al. (2021). Differentially Private Stochastic Coordinate Descent. AAAI 2021; Algorithm 1.
.. [2] Shalev-Shwartz (2016). SDCA without Duality, Regularization, and Individual Convexity. ICML 2016; Algorithm 1.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from sottovoce._validation import whole_number
from sottovoce.central.kernels import passes
from sottovoce.central.parallel import Team
from sottovoce.central.plan import Progress, Solution
from sottovoce.central.rows import Rows
from sottovoce.central.scaled_plan import ScaledPlan, Scales, sum_mechanism
from sottovoce.losses import Loss
from sottovoce.privacy.events import Event, GaussianEvent, RepeatedEvent, compose
from sottovoce.privacy.mechanisms.gaussian import GridGaussian
from sottovoce.randomness import Purpose, Streams

__all__ = ["AcceleratedPlan"]

_MIN_PASSES: Final = 20
_MAX_PASSES: Final = 450
_AVERAGED: Final = 0.6  # share of the passes, the last ones, that the model is averaged over


@dataclass(frozen=True, kw_only=True)
class AcceleratedPlan(ScaledPlan):
    """Plan of accelerated full-batch DP-SCD.

    Parameters
    ----------
    n_passes : int or None
        Public number of passes; None follows the rule `passes_for`.
    """

    in_order: ClassVar[bool] = True

    n_passes: int | None = None

    def __post_init__(self) -> None:
        if self.n_passes is not None:
            whole_number("n_passes", self.n_passes, at_least=1)

    @property
    def solver(self) -> str:
        """Name of the solver as users give it."""
        return "scd"

    @property
    def event(self) -> Event:
        """The scales and the passes; the passes count as one Gaussian, whatever their number."""
        return compose(*self.scale_events, GaussianEvent(1.0 / self.mu_steps))

    def details(self) -> dict[str, object]:
        """Return how the budget is split."""
        return {
            "mu (Gaussian DP) of the whole run": self.mu,
            "mu for lambda_max": self.mu_scale,
            "mu for the labels": self.mu_scale if self.estimates_labels else 0.0,
            "mu for the passes of all models": self.mu_steps,
            "mu for the passes of each model": self.mu_steps / math.sqrt(self.n_models),
        }

    def summary(self) -> dict[str, object]:
        """Return the plan in plain words and numbers; a smaller lambda_max means fewer passes."""
        return {**super().summary(), "passes of each model, at most": self.passes_for(1.0)}

    @property
    def mechanism(self) -> str:
        """The algorithm in one sentence, for the receipt."""
        return (
            "accelerated full-batch DP-SCD with secret dual variables: adaptive composition of Gaussian mechanisms on "
            "a grid, no subsampling"
        )

    @property
    def releases(self) -> tuple[str, ...]:
        """What the statement covers, for the receipt."""
        return (
            *self.scale_releases,
            "the weights after every pass (the model is an average of them)",
            "the number of passes",
        )

    def passes_for(self, eigenvalue: float) -> int:
        """Return the number of passes for a (noisy) largest eigenvalue: more noise, fewer passes."""
        if self.n_passes is not None:
            return self.n_passes
        mu = self.mu_steps / math.sqrt(self.n_models)
        wanted = _rule(self.loss)[1] * math.sqrt(eigenvalue * mu * self.n_samples) / self.n_weights**0.125
        # after a few times sqrt(condition number) passes acceleration has nothing left to gain
        most = min(float(_MAX_PASSES), 6.0 * math.sqrt(1.0 + eigenvalue / self.alpha_scaled))
        return int(max(_MIN_PASSES, min(wanted, most)))

    def damping(self, eigenvalue: float) -> float:
        """Return the share of the way to -l'(m) that a step goes; 0 means exact coordinate steps."""
        if not (math.isfinite(self.loss.lipschitz) and math.isfinite(self.loss.smoothness)):
            return 0.0
        return 1.0 / (1.0 + self.loss.smoothness * eigenvalue / self.alpha_scaled)

    def solve(
        self, rows: Rows, targets: list[NDArray[np.float64]], streams: Streams, team: Team, progress: Progress
    ) -> Solution:
        """Train one model for each target as planned."""
        noise = streams.generator(Purpose.NOISE)
        scales = self.release_scales(rows, targets, noise)
        n_passes = self.passes_for(scales.eigenvalue)
        damping = self.damping(scales.eigenvalue)
        if damping > 0.0:
            first_step = damping * abs(float(self.loss.derivative(np.ones(1), np.zeros(1))[0]))
        else:
            first_step = scales.label / (1.0 + scales.eigenvalue / self.alpha_scaled)
        clip = _rule(self.loss)[0] * first_step
        mechanism = sum_mechanism(self.adjacency, clip, self._noise_multiplier(n_passes))
        run = _Run(self, rows, scales.eigenvalue, damping, clip, n_passes, mechanism, noise, team)
        weights = []
        for model, y in enumerate(targets):

            def report(step: int, done: int = model * n_passes) -> None:
                progress(done + step, n_passes * self.n_models)

            # a classifier's location is 0: no second copy of its labels
            weights.append(run.train(y - scales.location if scales.location else y, report))
        return Solution(
            np.stack(weights),
            n_passes,
            compose(*scales.events, RepeatedEvent(mechanism.event, n_passes * self.n_models)),
            self._chosen(scales, n_passes),
            offset=scales.location,
        )

    def run(self, released: Mapping[str, object]) -> tuple[Event, dict[str, object]]:
        """Return the event of the passes that follow from the released lambda_max; see `Plan.run`."""
        scales = self.scales_of(released)
        n_passes = self.passes_for(scales.eigenvalue)
        passes = RepeatedEvent(GaussianEvent(self._noise_multiplier(n_passes)), n_passes * self.n_models)
        return self.with_counts(compose(*self.scale_events, passes)), self._chosen(scales, n_passes)

    def _noise_multiplier(self, n_passes: int) -> float:
        return math.sqrt(n_passes * self.n_models) / self.mu_steps

    def _chosen(self, scales: Scales, n_passes: int) -> dict[str, object]:
        multiplier = self._noise_multiplier(n_passes)
        return {**scales.chosen(self), "passes": n_passes, "noise multiplier of a pass": multiplier}


def _rule(loss: Loss) -> tuple[float, float]:
    """Return the clip as a share of the first step, and the factor in the number of passes; measured on public data."""
    if not math.isfinite(loss.lipschitz):
        return 0.25, 10.0
    return (0.5, 10.0) if math.isfinite(loss.smoothness) else (1.0, 7.0)


@dataclass(frozen=True)
class _Run:
    """The settings of the passes, the same for each model."""

    plan: AcceleratedPlan
    rows: Rows
    eigenvalue: float
    damping: float
    clip: float
    n_passes: int
    mechanism: GridGaussian
    noise: np.random.Generator
    team: Team

    def train(self, y: NDArray[np.float64], report: Callable[[int], None]) -> NDArray[np.float64]:
        """Do the passes for one target and return the averaged weights."""
        plan, rows = self.plan, self.rows
        alpha_n = plan.alpha_scaled * plan.n_samples
        a, a_before = np.zeros(rows.n_samples), np.zeros(rows.n_samples)
        v, v_before, total = np.zeros(plan.n_weights), np.zeros(plan.n_weights), np.zeros(plan.n_weights)
        sums = np.empty((rows.n_parts(self.team), plan.n_weights), np.int64)
        averaged = max(1, round(_AVERAGED * self.n_passes))
        for step in range(self.n_passes):
            momentum = step / (step + 3.0)
            v, v_before = v + momentum * (v - v_before), v
            w = rows.weights(v / alpha_n)
            sums[:] = 0

            def one_range(
                part: int, lo: int, hi: int, block: Rows, y: NDArray[Any], a: NDArray[Any], a_before: NDArray[Any],
                w: NDArray[Any] = w, momentum: float = momentum,
            ) -> None:  # fmt: skip
                passes.accelerated_pass(
                    block.kernel, block.scale, block.norm, block.constant, y, a, a_before, momentum, w,
                    self.eigenvalue / plan.alpha_scaled, self.damping, self.clip, 1.0 / self.mechanism.tick,
                    plan.loss, lo, hi, sums[part],
                )  # fmt: skip

            rows.sweep(self.team, one_range, y, a, a_before)
            noisy, _ = self.mechanism.release(sums.sum(axis=0), self.noise)
            v = v + noisy
            if step >= self.n_passes - averaged:
                total += v
            report(step + 1)
        return total / (averaged * alpha_n)
