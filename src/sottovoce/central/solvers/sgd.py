r"""DP-SGD on Poisson samples (Abadi et al. 2016); and plain SGD for runs without noise.

Step t samples each row with probability q = L / n on its own, clips each gradient l'(x_i.w) x_i to norm C, and goes

    w <- (w - eta (sum of them + N(0, (s C)^2 I)) / L) / (1 + eta alpha):

divided by the *expected* batch size L, because the realised one is secret, with the step of the L2 term implicit (it is
a function of w, which is public, and the step stays bounded for every eta). The model is the average of the last w's.

Where nothing is given, C, eta, T and L follow from public facts. T steps of learning rate eta move w by at most
P = eta T C, and their noise has standard deviation P / (mu n) in each direction, however P is divided into steps. So
P = c mu n, whatever the number of weights; c, and C as a share of the bound on |l'| (of the scale of the labels), were
taken from what tuning chose on public tables. C grows to the whole bound with mu n, so that no clip stays where there
is no noise to avoid. ``docs/guide/solvers.md`` says how near a tuned run this comes.

Privacy: ``docs/privacy/dp_sgd.md``. Differences from the paper [1]_: Poisson samples, as its accountant assumes; the
budget is kept by privacy loss distributions in place of the moments accountant; noise on a grid; averaging.

References
----------
.. [1] Abadi et al. (2016). Deep Learning with Differential Privacy. arXiv:1607.00133; Algorithm 1.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from sottovoce._numerics import Vector
from sottovoce.central.data.part import Part
from sottovoce.central.data.row_memory import TARGET
from sottovoce.central.kernels import sequential
from sottovoce.central.sampled_plan import SampledPlan
from sottovoce.central.scaled_plan import Scales
from sottovoce.central.stepped_plan import FirstOrderPlan
from sottovoce.central.sums.clipped_sums import ClippedSum
from sottovoce.central.sums.samples import SampledGradient, SampledSum
from sottovoce.central.without_noise import Exact, UnprotectedPlan
from sottovoce.exceptions import ParameterError
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.randomness import Purpose

__all__ = ["PlainSGDPlan", "SGDPlan"]

_MIN_STEPS: Final = 400
_MAX_STEPS: Final = 10_000
_PATH: Final = 2.0  # c, for losses with a bound on |l'|
_PATH_SQUARED: Final = 0.75
_WIDE: Final = 1000.0  # weights beyond which the path is shorter and the clip smaller
_CLIP: Final = 0.5  # of the bound on |l'|, or of the released scale of the labels
_PLENTY_OF_ROWS: Final = 40_000.0  # mu n beyond which nothing needs a smaller clip than the loss asks for
_PLENTY: Final = 2.0  # noise multiplier of a step beyond which larger batches save hardly any noise


@dataclass(frozen=True, kw_only=True)
class SGDPlan(SampledPlan, FirstOrderPlan):
    """Plan of DP-SGD; with batches of all rows nothing is sampled, and the account is exact Gaussian DP.

    Without `clipping_norm`, C is half the bound on |l'|, or half the released scale of the labels; less for wide tables
    and more, up to the whole bound, where mu n is large.
    """

    solver = "sgd"
    mechanism = "DP-SGD: adaptive composition of Poisson-subsampled Gaussian mechanisms on a grid"
    proof = "docs/privacy/dp_sgd.md"
    averaged = 0.5
    takes_persons = True

    def check(self) -> None:
        super().check()
        if self.adjacency is Adjacency.REPLACE_ONE and self.is_private and self.sampling_rate < 1.0:
            raise ParameterError(
                "adjacency must be 'zero-out' or 'add-remove' for solver='sgd' with batches smaller than the table: "
                "there is no tight accountant for replacing a row under Poisson sampling here; got 'replace-one'. Give "
                "solver_options={'batch_size': n_samples}, or use solver='scd'."
            )
        if self.max_rows_per_group is not None and self.is_private and self.sampling_rate < 1.0:
            raise ParameterError(
                "max_rows_per_group must be None for solver='sgd' with batches smaller than the table: rows are "
                "sampled one by one, and several rows of a person make the account another one. Give "
                "solver_options={'batch_size': n_samples}, or use solver='scd'."
            )

    @property
    def horizon(self) -> float:
        """Learning rate times number of steps, P / C, by rule; ten time constants of the L2 term are enough."""
        factor = _PATH if math.isfinite(self.loss.lipschitz) else _PATH_SQUARED
        path = factor * self._width * self.mu_model * self.n_units
        return min(path / self._share_of_bound, 10.0 / self.alpha_scaled)

    @property
    def _width(self) -> float:
        """The eighth root of 1,000 / d, at most 1."""
        return math.sqrt(math.sqrt(math.sqrt(min(1.0, _WIDE / self.n_weights))))

    @property
    def _share_of_bound(self) -> float:
        """C over the bound on |l'|, or over the scale of the labels (their bound, where C is given)."""
        bounded = math.isfinite(self.loss.lipschitz)
        if self.clipping_norm is not None:
            return self.clipping_norm / (self.loss.lipschitz if bounded else 1.0)
        share = max(_CLIP * self._width**2, self.mu_model * self.n_units / _PLENTY_OF_ROWS)
        return min(1.0, share) if bounded else share

    def clip_for(self, scales: Scales) -> float:
        if self.clipping_norm is not None:
            return super().clip_for(scales)
        if math.isfinite(self.loss.lipschitz):
            return self._share_of_bound * self.loss.lipschitz
        return min(self._share_of_bound * scales.label, self.label_bound or math.inf)

    @property
    def _wanted_steps(self) -> int:
        return round(min(_MAX_STEPS, max(_MIN_STEPS, self.horizon / self.safe_rate)))

    @cached_property
    def expected_size(self) -> float:
        n = float(self.n_samples)
        if self.batch_size is not None:
            return min(self.batch_size, n)
        # s is about q sqrt(T) / mu
        quiet = _PLENTY * self.mu_model * self.n_units / math.sqrt(self._wanted_steps)
        return max(1.0, min(n, max(2.0 * math.sqrt(n), quiet)))

    @cached_property
    def n_steps(self) -> int:
        return self._wanted_steps if self.epochs is None else max(1, round(self.epochs / self.sampling_rate))

    @cached_property
    def rate(self) -> float:
        return min(self.safe_rate, self.horizon / self.n_steps) if self.learning_rate is None else self.learning_rate

    @property
    def noise_multiplier(self) -> float:
        if self.sampling_rate == 1.0:
            return math.sqrt(self.n_steps * self.n_models) / self.mu_steps
        return super().noise_multiplier

    def details(self) -> dict[str, object]:
        return {
            "mu for the labels": self.mu_scale if self.estimates_labels else 0.0,
            "expected batch size": self.expected_size,
            "sampling rate": self.sampling_rate,
            "steps of each model": self.n_steps,
            "learning rate": self.rate,
            "noise multiplier of a step": self.noise_multiplier,
        }

    def terms(self, w: Vector, scales: Scales, sums: ClippedSum) -> SampledSum:
        return SampledGradient(self.loss, w, sums.clip, sums.ticks_per_unit, self.sampling_rate)

    def moved(self, point: Vector, noisy: Vector) -> Vector:
        return (point - (self.rate / self.expected_size) * noisy) / (1.0 + self.rate * self.alpha_scaled)


@dataclass(frozen=True, kw_only=True)
class PlainSGDPlan(UnprotectedPlan, SGDPlan):
    """Plan of SGD without noise: shuffled epochs, no clip (``clipping_norm`` is not used), a fading learning rate.

    ``batch_size`` is 1, ``epochs`` 50 and ``learning_rate`` 1 / smoothness by default; the run takes all its epochs.
    """

    solver = "sgd (no privacy)"
    mechanism = "stochastic gradient descent without noise"

    def details(self) -> dict[str, object]:
        return {"batch size": self._size, "epochs": self._epochs, "first learning rate": self.rate}

    @property
    def _size(self) -> int:
        return 1 if self.batch_size is None else min(self.n_samples, max(1, round(self.batch_size)))

    @property
    def _epochs(self) -> int:
        return 50 if self.epochs is None else max(1, round(self.epochs))

    @cached_property
    def rate(self) -> float:
        return self.safe_rate if self.learning_rate is None else self.learning_rate

    def exact(self, part: Part) -> Exact:
        shuffling, rows, y = part.coins.generator(Purpose.SHUFFLING), part.rows, part.memory.whole(TARGET)
        w, average = np.zeros(self.n_weights), np.zeros(self.n_weights)
        done = before = 0
        for epoch in range(self._epochs):
            if epoch == self._epochs // 2:
                average[:], before = 0.0, done
            done = sequential.sgd_epoch(
                rows.kernel, y, w, self.alpha_scaled, self.rate, done, self._size, self.loss,
                shuffling.permutation(rows.n_samples), average,
            )  # fmt: skip
            part.progress(epoch + 1, self._epochs)
        return Exact(average / (done - before), self._epochs)
