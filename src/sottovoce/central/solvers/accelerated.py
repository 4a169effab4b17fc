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
hinge. Short clips pay: the noise is in proportion, and a row that has further to go takes several passes. For squared
loss the clip grows where the cap on T would keep residuals of ten times r out of reach, and the cap itself where mu n
is so large that noise does not matter.

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
from sottovoce.central.clipped_sums import ClippedSum, Ticks
from sottovoce.central.kernels import passes
from sottovoce.central.kernels.scaled import ScaledRows
from sottovoce.central.plan import Fit
from sottovoce.central.scaled_plan import Scales
from sottovoce.central.stepped_plan import SteppedPlan
from sottovoce.losses import Loss
from sottovoce.privacy.events import Event, GaussianEvent, compose

__all__ = ["AcceleratedPlan"]

_MIN_PASSES: Final = 20
_MAX_PASSES: Final = 450
_MAX_PASSES_SQUARED: Final = 4000  # reached at budgets that hardly are any: the squared loss must tend to its optimum
_FARTHEST: Final = 10.0  # residuals of the squared loss that must be within reach, in units of the scale of the labels
_FEWER: Final = 8.0  # the cap of the squared loss is at least what the noise allows over this


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
    averaged = 0.6

    n_passes: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_given(whole_number, "n_passes", at_least=1)

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
        wanted = self._wanted_passes(eigenvalue)
        # after a few times sqrt(condition number) passes acceleration has nothing left to gain
        cap, few = float(_MAX_PASSES), 6.0
        if not math.isfinite(self.loss.lipschitz):
            cap = max(cap, min(wanted / _FEWER, float(_MAX_PASSES_SQUARED)))
            few *= math.sqrt(max(1.0, wanted / _MAX_PASSES))
        most = min(cap, few * math.sqrt(1.0 + eigenvalue / self.alpha_scaled))
        return int(max(_MIN_PASSES, min(wanted, most)))

    def _wanted_passes(self, eigenvalue: float) -> float:
        """Return the number of passes that the noise allows, were they free."""
        factor = _rule(self.loss)[1]
        return (
            factor
            * math.sqrt(eigenvalue * self.mu_model * self.n_samples)
            / math.sqrt(math.sqrt(math.sqrt(self.n_weights)))
        )

    def steps_for(self, scales: Scales) -> int:
        """Return the number of passes."""
        return self.passes_for(scales.eigenvalue)

    def multiplier_for(self, scales: Scales) -> float:
        """Return the noise of a pass divided by its sensitivity."""
        return math.sqrt(self.steps_for(scales) * self.n_models) / self.mu_steps

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
        if not math.isfinite(self.loss.lipschitz) and self.n_passes is None:
            # where a cap cuts passes short, residuals beyond the scale of the labels could not be reached at all
            passes = self.steps_for(scales)
            short = self._wanted_passes(scales.eigenvalue) / passes
            # acceleration carries a dual variable over some passes^2 / 6 steps
            needed = _FARTHEST * 6.0 * (1.0 + scales.eigenvalue / self.alpha_scaled) / (_rule(self.loss)[0] * passes**2)
            first_step *= max(1.0, min(short**2, needed))
        return _rule(self.loss)[0] * first_step

    def chosen(self, scales: Scales) -> dict[str, object]:
        """Return the released values, and the passes that follow from them, for the receipt."""
        passes, multiplier = self.steps_for(scales), self.multiplier_for(scales)
        return {**super().chosen(scales), "passes": passes, "noise multiplier of a pass": multiplier}

    def run(self, released: Mapping[str, object]) -> tuple[Event, dict[str, object]]:
        """Return the event of the passes that follow from the released lambda_max; see `Plan.run`."""
        scales = self.scales_of(released)
        spent = self.spent(GaussianEvent(self.multiplier_for(scales)), self.steps_for(scales))
        return self.with_counts(compose(*self.scale_events, *spent)), self.chosen(scales)

    def iterates(self, fit: Fit, y: Vector, scales: Scales, sums: ClippedSum) -> Iterator[Vector]:
        """Do the passes for one target; yield v after each."""
        rows, mechanism = fit.rows, sums.mechanism
        ratio, damping = scales.eigenvalue / self.alpha_scaled, self.damping(scales.eigenvalue)
        a, a_before = np.zeros(rows.n_samples), np.zeros(rows.n_samples)
        v, v_before = np.zeros(self.n_weights), np.zeros(self.n_weights)

        def one_pass(momentum: float, w: NDArray[Any]) -> Ticks:
            def add(block: ScaledRows, y: Vector, a: Vector, a_before: Vector, lo: int, hi: int, total: Ticks) -> None:
                passes.accelerated_pass(
                    block, y, a, a_before, momentum, w, ratio, damping, sums.clip, sums.ticks_per_unit, self.loss, lo,
                    hi, total,
                )  # fmt: skip

            return rows.total(fit.team, add, y, a, a_before)

        for step in range(self.steps_for(scales)):
            momentum = step / (step + 3.0)
            v, v_before = v + momentum * (v - v_before), v
            v = v + mechanism.release(one_pass(momentum, rows.weights(v / self.unit)), fit.noise)[0]
            yield v


def _rule(loss: Loss) -> tuple[float, float]:
    """Return the clip as a share of the first step, and the factor in the number of passes; measured on public data."""
    if not math.isfinite(loss.lipschitz):
        return 0.25, 10.0
    return (0.5, 10.0) if math.isfinite(loss.smoothness) else (1.0, 7.0)
