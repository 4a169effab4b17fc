"""What solvers share whose steps use Poisson samples of the rows, mini-batch DP-SCD and DP-SGD."""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce._numerics import Vector
from sottovoce._validation import number
from sottovoce.central.clipped_sums import sum_mechanism
from sottovoce.central.sampling import poisson_sample, refuse_rare_samples, sampled_noise, sampled_steps
from sottovoce.central.stepped_plan import SteppedPlan, Steps
from sottovoce.privacy.events import Event, PoissonSampledEvent, RepeatedEvent
from sottovoce.privacy.mechanisms.gaussian import GridGaussian
from sottovoce.randomness import Purpose

__all__ = ["AddTerms", "SampledPlan", "SampledSteps"]

# kernel(w, clip, ticks_per_unit, batch, lo, hi, sums) adds the clipped terms of the rows batch[lo:hi] at w
AddTerms = Callable[[NDArray[Any], float, float, NDArray[np.int64], int, int, NDArray[np.int64]], None]


@dataclass(frozen=True, kw_only=True)
class SampledPlan(SteppedPlan):
    """Plan of steps on Poisson samples, each of which takes every row with the same probability on its own.

    Parameters
    ----------
    batch_size : float or None
        Expected size L >= 1 of a batch (all rows when larger than n_samples); None follows a rule.
    epochs : float or None
        Expected number of times that a row is sampled; None follows a rule.
    """

    batch_size: float | None = None
    epochs: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_given(number, "batch_size", at_least=1.0)
        self.check_given(number, "epochs", above=0.0, at_most=1e6)
        if self.is_private:
            refuse_rare_samples(self.sampling_rate, self.n_steps * self.n_models)

    @property
    @abstractmethod
    def expected_size(self) -> float:
        """Expected size of a batch."""

    @property
    @abstractmethod
    def n_steps(self) -> int:
        """Number of steps of each model."""

    @property
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
        """The scales and the steps."""
        return sampled_steps(self.scale_events, self.sampling_rate, self.n_steps * self.n_models, self.noise_multiplier)


@dataclass(frozen=True, kw_only=True)
class SampledSteps(Steps):
    """Steps on Poisson samples; a solver adds how a row's term is made and clipped, and how the model moves.

    Parameters
    ----------
    plan : SampledPlan
    """

    plan: SampledPlan

    @abstractmethod
    def clip(self, step: int) -> float:
        """Return the bound on a row's term."""

    @abstractmethod
    def kernel(self, y: Vector) -> AddTerms:
        """Return the kernel that makes the terms for one target, with what it remembers of the rows."""

    @abstractmethod
    def moved(self, point: Vector, noisy: Vector) -> Vector:
        """Return the point after a step."""

    @property
    def events(self) -> tuple[Event, ...]:
        """The steps of each model."""
        event = PoissonSampledEvent(self.plan.sampling_rate, self._mechanism(self.clip(0)).event)
        return (RepeatedEvent(event, self.n_steps),) * self.plan.n_models

    def iterates(self, y: Vector) -> Iterator[Vector]:
        """Take the steps for one target; yield the points that are released."""
        kernel, point = self.kernel(y), np.zeros(self.rows.n_weights)
        clip = self.clip(0)
        mechanism = self._mechanism(clip)
        for step in range(self.n_steps):
            if self.clip(step) != clip:
                clip = self.clip(step)
                mechanism = self._mechanism(clip)
            noisy, _ = mechanism.release(self._sum(kernel, point, clip, 1.0 / mechanism.tick), self.noise)
            point = self.moved(point, noisy)
            yield point

    def _mechanism(self, clip: float) -> GridGaussian:
        return sum_mechanism(self.plan.adjacency, clip, self.plan.noise_multiplier)

    def _sum(self, kernel: AddTerms, point: Vector, clip: float, ticks_per_unit: float) -> NDArray[np.int64]:
        """Return the sum of the clipped terms of a fresh sample, in ticks."""
        rows, rate = self.rows, self.plan.sampling_rate
        batch = poisson_sample(rows.n_samples, rate, self.streams.generator(Purpose.SAMPLING))
        w = rows.weights(point / self.unit)
        return self.team.total(
            lambda lo, hi, sums: kernel(w, clip, ticks_per_unit, batch, lo, hi, sums),
            len(batch), rows.work * rate, np.zeros(rows.n_weights, np.int64),
        )  # fmt: skip
