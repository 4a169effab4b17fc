r"""Mini-batch DP-SCD with secret dual variables, on Poisson samples.

Step t samples each row with probability q = L / n on its own, takes the exact coordinate step of each sampled row at
the released w, clips |zeta_i| |x_i| <= C_t, and releases v <- v + sum zeta_i x_i + N(0, (s C_t)^2 I). A row's step may
depend on how often it was sampled before, which is secret; by Theorem 2 of ``docs/privacy/dp_scd.md`` the releases are
still dominated by T Poisson-subsampled Gaussian mechanisms of sensitivity C_t, which the accountant composes.

q, T and s are fixed by public facts before any release, as that theorem asks. lambda_max and the label scale decide
C_t, to which noise is proportional. Against the paper: the aggregation constant is 1 + (L - 1) lambda_max, and the last
w's are averaged.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sottovoce._validation import number as number_within
from sottovoce.central.core import Asked, Release
from sottovoce.central.data.part import Part
from sottovoce.central.data.row_memory import DUAL, TARGET
from sottovoce.central.plan import Plan, Solution, Takes
from sottovoce.central.solvers.sgd import Batches
from sottovoce.central.split import AFTER_STEPS, Scales, Split, State, one_by_one
from sottovoce.central.sums.clipped_sums import Ticks, clipped_sum
from sottovoce.central.sums.samples import SampledSum
from sottovoce.exceptions import ParameterError
from sottovoce.losses import Loss
from sottovoce.papers.dp_scd import kernels
from sottovoce.privacy.adjacency import Adjacency

_TYPICAL_EIGENVALUE: Final = 0.5  # public guess of lambda_max for the size of a batch and the number of epochs
_MIN_EPOCHS: Final = 3.0
_MAX_EPOCHS: Final = 200.0
_AVERAGED: Final = 0.4  # share of the steps, the last ones


@dataclass(frozen=True, kw_only=True)
class Minibatch(Plan):
    """Mini-batch DP-SCD with secret dual variables, for ``solver=``; None follows a rule.

    Parameters
    ----------
    batch_size : float, >= 1, or None
        Expected size of a batch.
    epochs : float, > 0, or None
        Expected visits of a row.
    """

    solver = "papers.dp_scd.Minibatch"
    mechanism = (
        "mini-batch DP-SCD with secret dual variables: adaptive composition of Poisson-subsampled Gaussian "
        "mechanisms on a grid"
    )
    takes = Takes.RELEASED_NORM

    batch_size: float | None = None
    epochs: float | None = None

    def check(self) -> None:
        if self.adjacency is Adjacency.REPLACE_ONE:
            raise ParameterError(
                f"adjacency must be 'zero-out' or 'add-remove' for {self.solver}: there is no tight accountant "
                "for replacing a row under Poisson sampling here; got 'replace-one'. Use solver='scd', which does not "
                "sample."
            )
        self.check_given(number_within, "batch_size", at_least=1.0)
        self.check_given(number_within, "epochs", above=0.0, at_most=1e6)
        if self.is_private:
            self.batches.check()

    @cached_property
    def split(self) -> Split:
        """How the budget is divided."""
        return Split(facts=self.facts, eigenvalue=True, labels=not math.isfinite(self.loss.lipschitz))

    @cached_property
    def batches(self) -> Batches:
        """Size and number of the samples."""
        return Batches(self.split, self.expected_size, self.n_steps)

    @cached_property
    def expected_size(self) -> float:
        n = self.n_samples
        if self.batch_size is not None:
            return min(self.batch_size, float(n))
        noise_limited = 5.0 * math.sqrt(self.n_weights) / (_rule(self.loss)[0] * self.split.model)
        useful = 1.0 + (noise_limited - self.alpha_scaled * n) / _TYPICAL_EIGENVALUE
        return max(1.0, min(n / 10.0, max(2.0 * math.sqrt(n), useful)))

    @cached_property
    def n_steps(self) -> int:
        epochs = self.epochs
        if epochs is None:
            slope, cap, _ = _rule(self.loss)
            alpha_n = self.alpha_scaled * self.n_samples
            aggregation = 1.0 + (self.expected_size - 1.0) * _TYPICAL_EIGENVALUE
            step = alpha_n / (alpha_n + aggregation)
            wanted = slope * self.split.model * (alpha_n + aggregation) / math.sqrt(self.n_weights)
            epochs = min(_MAX_EPOCHS, max(_MIN_EPOCHS, wanted), max(_MIN_EPOCHS, cap / step))
        return max(1, round(epochs / min(1.0, self.expected_size / self.n_samples)))

    def details(self) -> dict[str, object]:
        return {
            "mu for lambda_max": self.split.scale,
            "mu for the labels": self.split.of_labels,
            "expected batch size": self.expected_size,
            "sampling rate": self.batches.sampling_rate,
            "steps of each model": self.n_steps,
            "noise multiplier of a step": self.batches.noise_multiplier,
        }

    @property
    def unit(self) -> float:
        """What v is divided by to be weights, alpha n."""
        return self.alpha_scaled * self.n_samples

    def clip_for(self, scales: Scales) -> float:
        """Return C_0, the step that a row takes from zero."""
        return scales.label * self.unit / (self.unit + 1.0 + self._shared(scales))

    def _shared(self, scales: Scales) -> float:
        return (self.expected_size - 1.0) * scales.eigenvalue  # what other rows of a batch add to the constant

    def train(self) -> Asked[Solution]:
        scales, batches, unit = (yield from self.split.scales()), self.batches, self.unit
        clip, shared, last = self.clip_for(scales), self._shared(scales) / unit, _rule(self.loss)[2]

        def step(number: int, state: State, done: tuple[int, int]) -> Asked[State]:
            (v,), share = state, last + (1.0 - last) * (1.0 - number / batches.n_steps)
            sums = clipped_sum(self.neighbours, clip * share, batches.noise_multiplier)
            ask = SampledSteps(
                self.loss, v / unit, sums.clip, sums.ticks_per_unit, batches.sampling_rate, shared, 1.0 / unit
            )
            return (v + (yield Release(AFTER_STEPS, ask, sums.mechanism, done)),)

        duals = ((DUAL, None),)
        weights = yield from one_by_one(self.split, scales, step, batches.n_steps, _AVERAGED, duals=duals, unit=unit)
        return self.solution(weights, batches.n_steps, offset=scales.location)


@dataclass(frozen=True, eq=False)
class SampledSteps(SampledSum):
    """The sum of the clipped coordinate steps of a sample, whose dual variables move."""

    ratio: float = 0.0  # what other rows of a batch add to the aggregation constant, over alpha n
    ratio_norm: float = 0.0  # 1 / (alpha n)

    def terms(self, part: Part, w: NDArray[Any]) -> Callable[[NDArray[np.int64], int, int, Ticks], None]:
        rows, y, duals = part.rows, part.memory.whole(TARGET), part.memory.whole(DUAL)
        return lambda batch, lo, hi, total: kernels.batch_pass(
            rows.kernel, y, duals, w, self.ratio, self.ratio_norm, self.clip, self.ticks_per_unit, self.loss,
            batch, lo, hi, total,
        )  # fmt: skip


def _rule(loss: Loss) -> tuple[float, float, float]:
    """Return (slope, cap, last clip as a fraction of the first): constants that were measured once on public data."""
    return (25.0, 6.0, 1.0) if math.isfinite(loss.lipschitz) else (10.0, 3.0, 0.5)
