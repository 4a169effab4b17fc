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
from sottovoce._validation import number, whole_number
from sottovoce.central.calibration import share_for
from sottovoce.central.clipped_sums import ClippedSum, Ticks
from sottovoce.central.kernels import passes
from sottovoce.central.kernels.scaled import ScaledRows
from sottovoce.central.plan import Fit
from sottovoce.central.scaled_plan import Scales
from sottovoce.central.stepped_plan import SteppedPlan
from sottovoce.exceptions import ParameterError
from sottovoce.losses import Logistic, Loss
from sottovoce.privacy.events import Event, GaussianEvent, compose

__all__ = ["AcceleratedPlan"]

_MIN_PASSES: Final = 20
_MAX_PASSES: Final = 450
_SHORT_BY_WISH: Final = 1e-3  # alpha beyond which the length of the weights is what was asked for


@dataclass(frozen=True, kw_only=True)
class AcceleratedPlan(SteppedPlan):
    """Plan of accelerated full-batch DP-SCD.

    Parameters
    ----------
    n_passes : int or None
        Public number of passes; None follows the rule `passes_for`.
    calibration_share : float or None
        Share of mu^2, from 0 to 0.5, for slope and shift of the finished models (`sottovoce.central.calibration`); None
        follows a rule for one model with the logistic loss, and is 0 for others (among one-vs-rest models the noise of
        the shifts would decide) and for an alpha above 1e-3, which asks for shorter predictions than honest ones.
    """

    solver = "scd"
    mechanism = (
        "accelerated full-batch DP-SCD with secret dual variables: adaptive composition of Gaussian mechanisms on "
        "a grid, no subsampling"
    )
    in_order = True
    averaged = 0.6

    n_passes: int | None = None
    calibration_share: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_given(whole_number, "n_passes", at_least=1)
        self.check_given(number, "calibration_share", at_least=0.0, at_most=0.5)
        if self.calibration_share and not self.loss.is_classification:
            raise ParameterError(
                f"calibration_share must be 0 or None for the {self.loss.name} loss: only the predictions of "
                f"classifiers have a slope and a shift to fit; got {self.calibration_share!r}."
            )

    @property
    def share_of_calibration(self) -> float:
        """Share of mu^2 for slope and shift of the finished models."""
        if self.calibration_share is not None:
            return self.calibration_share
        if self.n_models > 1 or not isinstance(self.loss, Logistic) or self.alpha > _SHORT_BY_WISH:
            return 0.0
        return share_for(self.mu * self.n_samples)

    def details(self) -> dict[str, object]:
        """Return how the budget is split."""
        return {
            "mu (Gaussian DP) of the whole run": self.mu,
            "mu for lambda_max": self.mu_scale,
            "mu for the labels": self.mu_scale if self.estimates_labels else 0.0,
            "mu for the passes of all models": self.mu_steps,
            "mu for the passes of each model": self.mu_model,
            "mu for slopes and shifts": self.mu_calibration,
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
            *self.calibration_releases,
        )

    def passes_for(self, eigenvalue: float) -> int:
        """Return the number of passes for a (noisy) largest eigenvalue: more noise, fewer passes."""
        if self.n_passes is not None:
            return self.n_passes
        wanted = _rule(self.loss)[1] * math.sqrt(eigenvalue * self.mu_model * self.n_samples) / self.n_weights**0.125
        # after a few times sqrt(condition number) passes acceleration has nothing left to gain
        most = min(float(_MAX_PASSES), 6.0 * math.sqrt(1.0 + eigenvalue / self.alpha_scaled))
        return int(max(_MIN_PASSES, min(wanted, most)))

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
        return _rule(self.loss)[0] * first_step

    def chosen(self, scales: Scales) -> dict[str, object]:
        """Return the released values, and the passes that follow from them, for the receipt."""
        passes, multiplier = self.steps_for(scales), self.multiplier_for(scales)
        return {**super().chosen(scales), "passes": passes, "noise multiplier of a pass": multiplier}

    def run(self, released: Mapping[str, object]) -> tuple[Event, dict[str, object]]:
        """Return the event of the passes that follow from the released lambda_max; see `Plan.run`."""
        scales = self.scales_of(released)
        spent = self.spent(GaussianEvent(self.multiplier_for(scales)), self.steps_for(scales))
        event = self.with_counts(compose(*self.scale_events, *spent, *self.calibration_events))
        return event, self.chosen(scales) | self.calibration_of(released)

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
