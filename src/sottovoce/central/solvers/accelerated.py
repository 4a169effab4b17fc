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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sottovoce._numerics import Vector
from sottovoce._validation import whole_number
from sottovoce.central.clipped_sums import sum_mechanism
from sottovoce.central.kernels import passes
from sottovoce.central.kernels.scaled import ScaledRows
from sottovoce.central.parallel import Team
from sottovoce.central.rows import Rows
from sottovoce.central.scaled_plan import Scales
from sottovoce.central.stepped_plan import SteppedPlan, Steps
from sottovoce.losses import Loss
from sottovoce.privacy.events import Event, GaussianEvent, RepeatedEvent, compose
from sottovoce.privacy.mechanisms.gaussian import GridGaussian
from sottovoce.randomness import Streams

__all__ = ["AcceleratedPlan"]

_MIN_PASSES: Final = 20
_MAX_PASSES: Final = 450


@dataclass(frozen=True, kw_only=True)
class AcceleratedPlan(SteppedPlan):
    """Plan of accelerated full-batch DP-SCD.

    Parameters
    ----------
    n_passes : int or None
        Public number of passes; None follows the rule `passes_for`.
    """

    solver = "scd"
    mechanism = (
        "accelerated full-batch DP-SCD with secret dual variables: adaptive composition of Gaussian mechanisms on "
        "a grid, no subsampling"
    )
    in_order = True

    n_passes: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_given(whole_number, "n_passes", at_least=1)

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
            "mu for the passes of each model": self.mu_model,
        }

    def summary(self) -> dict[str, object]:
        """Return the plan in plain words and numbers; a smaller lambda_max means fewer passes."""
        return {**super().summary(), "passes of each model, at most": self.passes_for(1.0)}

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
        wanted = _rule(self.loss)[1] * math.sqrt(eigenvalue * self.mu_model * self.n_samples) / self.n_weights**0.125
        # after a few times sqrt(condition number) passes acceleration has nothing left to gain
        most = min(float(_MAX_PASSES), 6.0 * math.sqrt(1.0 + eigenvalue / self.alpha_scaled))
        return int(max(_MIN_PASSES, min(wanted, most)))

    def damping(self, eigenvalue: float) -> float:
        """Return the share of the way to -l'(m) that a step goes; 0 means exact coordinate steps."""
        if not (math.isfinite(self.loss.lipschitz) and math.isfinite(self.loss.smoothness)):
            return 0.0
        return 1.0 / (1.0 + self.loss.smoothness * eigenvalue / self.alpha_scaled)

    def clip_for(self, scales: Scales) -> float:
        """Return C, the bound on a step times the norm of its row: a share of the step that a row takes from zero."""
        damping = self.damping(scales.eigenvalue)
        if damping > 0.0:
            first_step = damping * abs(float(self.loss.derivative(np.ones(1), np.zeros(1))[0]))
        else:
            first_step = scales.label / (1.0 + scales.eigenvalue / self.alpha_scaled)
        return _rule(self.loss)[0] * first_step

    def steps(self, rows: Rows, scales: Scales, streams: Streams, team: Team) -> Steps:
        """Return the passes that follow from the released scales."""
        n_passes, clip = self.passes_for(scales.eigenvalue), self.clip_for(scales)
        return _Passes(
            rows=rows, streams=streams, team=team, n_steps=n_passes, n_iterates=n_passes,
            unit=self.alpha_scaled * self.n_samples, plan=self, eigenvalue=scales.eigenvalue, clip=clip,
            mechanism=sum_mechanism(self.adjacency, clip, self._noise_multiplier(n_passes)),
        )  # fmt: skip

    def run(self, released: Mapping[str, object]) -> tuple[Event, dict[str, object]]:
        """Return the event of the passes that follow from the released lambda_max; see `Plan.run`."""
        scales = self.scales_of(released)
        n_passes = self.passes_for(scales.eigenvalue)
        passes = RepeatedEvent(GaussianEvent(self._noise_multiplier(n_passes)), n_passes * self.n_models)
        return self.with_counts(compose(*self.scale_events, passes)), self.chosen(scales)

    def _noise_multiplier(self, n_passes: int) -> float:
        return math.sqrt(n_passes * self.n_models) / self.mu_steps

    def chosen(self, scales: Scales) -> dict[str, object]:
        """Return the released values, and the passes that follow from them, for the receipt."""
        n_passes = self.passes_for(scales.eigenvalue)
        multiplier = self._noise_multiplier(n_passes)
        return {**super().chosen(scales), "passes": n_passes, "noise multiplier of a pass": multiplier}


def _rule(loss: Loss) -> tuple[float, float]:
    """Return the clip as a share of the first step, and the factor in the number of passes; measured on public data."""
    if not math.isfinite(loss.lipschitz):
        return 0.25, 10.0
    return (0.5, 10.0) if math.isfinite(loss.smoothness) else (1.0, 7.0)


@dataclass(frozen=True, kw_only=True)
class _Passes(Steps):
    """The passes of one fit."""

    averaged = 0.6

    plan: AcceleratedPlan
    eigenvalue: float
    clip: float
    mechanism: GridGaussian

    @property
    def events(self) -> tuple[Event, ...]:
        """The passes of all models."""
        return (RepeatedEvent(self.mechanism.event, self.n_steps * self.plan.n_models),)

    def iterates(self, y: Vector) -> Iterator[Vector]:
        """Do the passes for one target; yield v after each."""
        rows = self.rows
        a, a_before = np.zeros(rows.n_samples), np.zeros(rows.n_samples)
        v, v_before = np.zeros(rows.n_weights), np.zeros(rows.n_weights)
        for step in range(self.n_steps):
            momentum = step / (step + 3.0)
            v, v_before = v + momentum * (v - v_before), v
            sums = self._one_pass(y, a, a_before, momentum, rows.weights(v / self.unit))
            v = v + self.mechanism.release(sums, self.noise)[0]
            yield v

    def _one_pass(self, y: Vector, a: Vector, a_before: Vector, momentum: float, w: NDArray[Any]) -> NDArray[np.int64]:
        """Return the sum of the clipped terms of all rows, in ticks; the dual variables move."""
        ratio, damping = self.eigenvalue / self.plan.alpha_scaled, self.plan.damping(self.eigenvalue)
        ticks_per_unit, loss = 1.0 / self.mechanism.tick, self.plan.loss

        def one_range(
            rows: ScaledRows, y: Vector, a: Vector, a_before: Vector, lo: int, hi: int, sums: NDArray[np.int64]
        ) -> None:
            passes.accelerated_pass(
                rows, y, a, a_before, momentum, w, ratio, damping, self.clip, ticks_per_unit, loss, lo, hi, sums
            )

        return self.rows.total(self.team, one_range, y, a, a_before)
