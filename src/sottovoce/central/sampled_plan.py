"""What solvers share whose steps use Poisson samples of the rows, mini-batch DP-SCD and DP-SGD."""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce._numerics import Vector
from sottovoce._validation import number
from sottovoce.central import sampling
from sottovoce.central.data.rows import Rows
from sottovoce.central.plan import Fit
from sottovoce.central.sampling import refuse_rare_samples, sampled_noise, sampled_steps
from sottovoce.central.scaled_plan import Scales
from sottovoce.central.stepped_plan import SteppedPlan
from sottovoce.central.sums.clipped_sums import ClippedSum, Ticks, clipped_sum
from sottovoce.privacy.events import Event, GaussianEvent, PoissonSampledEvent, RepeatedEvent
from sottovoce.randomness import Purpose

__all__ = ["AddTerms", "SampledPlan"]

# kernel(w, clip, ticks_per_unit, batch, lo, hi, total) adds the clipped terms of the rows batch[lo:hi] at w
AddTerms = Callable[[NDArray[Any], float, float, NDArray[np.int64], int, int, Ticks], None]


@dataclass(frozen=True, kw_only=True)
class SampledPlan(SteppedPlan):
    """Plan of steps on Poisson samples, each of which takes every row with the same probability on its own."""

    # Expected size L >= 1 of a batch (all rows when larger than n_samples); None follows a rule.
    batch_size: float | None = None
    epochs: float | None = None  # expected number of times that a row is sampled; None follows a rule

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_given(number, "batch_size", at_least=1.0)
        self.check_given(number, "epochs", above=0.0, at_most=1e6)
        if self.is_private:
            refuse_rare_samples(self.sampling_rate, self.n_steps * self.n_models)

    @property
    @abstractmethod
    def expected_size(self) -> float: ...

    @property
    @abstractmethod
    def n_steps(self) -> int: ...

    @cached_property
    def sampling_rate(self) -> float:
        """Probability that a step uses a given row."""
        return min(1.0, self.expected_size / self.n_samples)

    @property
    def noise_multiplier(self) -> float:
        """Noise of a step divided by its sensitivity: the least that keeps the budget of the whole run."""
        return sampled_noise(
            self.scale_events, self.sampling_rate, self.n_steps * self.n_models, self.epsilon, self.delta, self.mu_steps
        )

    @property
    def event(self) -> Event:
        return sampled_steps(self.scale_events, self.sampling_rate, self.n_steps * self.n_models, self.noise_multiplier)

    def steps_for(self, scales: Scales) -> int:
        """Return the number of steps, which follows from public facts alone."""
        return self.n_steps

    def multiplier_for(self, scales: Scales) -> float:
        """Return the noise of a step divided by its sensitivity, which follows from public facts alone."""
        return self.noise_multiplier

    def spent(self, event: GaussianEvent, n_steps: int) -> tuple[Event, ...]:
        return (RepeatedEvent(PoissonSampledEvent(self.sampling_rate, event), n_steps),) * self.n_models

    def share_of_clip(self, step: int) -> float:
        """Return the clip of a step over that of the first one."""
        return 1.0

    @abstractmethod
    def kernel(self, rows: Rows, y: Vector, scales: Scales) -> AddTerms:
        """Return the kernel that makes the terms for one target, with what it remembers of the rows."""

    @abstractmethod
    def moved(self, point: Vector, noisy: Vector) -> Vector: ...

    def iterates(self, fit: Fit, scales: Scales, sums: ClippedSum) -> Iterator[Vector]:
        kernel, point = self.kernel(fit.rows, fit.current_target, scales), np.zeros(self.n_weights)
        first_clip = sums.clip
        for step in range(self.n_steps):
            clip = first_clip * self.share_of_clip(step)
            if clip != sums.clip:
                sums = clipped_sum(self.neighbours, clip, self.noise_multiplier)
            noisy, _ = sums.mechanism.release(self._sum(fit, kernel, point, sums), fit.noise)
            point = self.moved(point, noisy)
            yield point

    def _sum(self, fit: Fit, kernel: AddTerms, point: Vector, sums: ClippedSum) -> Ticks:
        rows, rate = fit.rows, self.sampling_rate
        batch = sampling.poisson_sample(rows.n_samples, rate, fit.streams.generator(Purpose.SAMPLING))
        w, clip, ticks_per_unit = rows.weights(point / self.unit), sums.clip, sums.ticks_per_unit
        return fit.team.total(
            lambda lo, hi, total: kernel(w, clip, ticks_per_unit, batch, lo, hi, total),
            len(batch), rows.work * rate, np.zeros(self.n_weights, np.int64),
        )  # fmt: skip
