"""What solvers share whose steps use Poisson samples of the rows, mini-batch DP-SCD and DP-SGD."""

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property

from sottovoce._numerics import Vector
from sottovoce._validation import number
from sottovoce.central.core import Asked, Release, replay
from sottovoce.central.sampling import refuse_rare_samples, sampled_noise
from sottovoce.central.scaled_plan import Scales
from sottovoce.central.stepped_plan import AFTER_STEPS, State, SteppedPlan
from sottovoce.central.sums.clipped_sums import ClippedSum, clipped_sum
from sottovoce.central.sums.samples import SampledSum
from sottovoce.privacy.events import Event

__all__ = ["SampledPlan", "SampledSum"]


@dataclass(frozen=True, kw_only=True)
class SampledPlan(SteppedPlan):
    """Plan of steps on Poisson samples, each of which takes every row with the same probability on its own."""

    # Expected size L >= 1 of a batch (all rows when larger than n_samples); None follows a rule.
    batch_size: float | None = None
    epochs: float | None = None  # expected number of times that a row is sampled; None follows a rule

    def check(self) -> None:
        super().check()
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

    @cached_property
    def before(self) -> tuple[Event, ...]:
        """What is released before the steps."""

        def asks() -> Asked[None]:
            yield from self.facts.norm()
            yield from self.scales()

        return (replay(asks).event,)

    @property
    def noise_multiplier(self) -> float:
        """Noise of a step divided by its sensitivity: the least that keeps the budget of the whole run."""
        return sampled_noise(
            self.before, self.sampling_rate, self.n_steps * self.n_models, self.epsilon, self.delta, self.mu_steps
        )

    def steps_for(self, scales: Scales) -> int:
        """Return the number of steps, which follows from public facts alone."""
        return self.n_steps

    def multiplier_for(self, scales: Scales) -> float:
        """Return the noise of a step divided by its sensitivity, which follows from public facts alone."""
        return self.noise_multiplier

    def share_of_clip(self, step: int) -> float:
        """Return the clip of a step over that of the first one."""
        return 1.0

    @abstractmethod
    def terms(self, w: Vector, scales: Scales, sums: ClippedSum) -> SampledSum:
        """Return what a step asks of a sample of the rows."""

    @abstractmethod
    def moved(self, point: Vector, noisy: Vector) -> Vector: ...

    def step(self, number: int, state: State, scales: Scales, sums: ClippedSum, done: tuple[int, int]) -> Asked[State]:
        share = self.share_of_clip(number)
        if share != 1.0:
            sums = clipped_sum(self.neighbours, sums.clip * share, sums.mechanism.noise_multiplier)
        noisy = yield Release(AFTER_STEPS, self.terms(state[0] / self.unit, scales, sums), sums.mechanism, done)
        return (self.moved(state[0], noisy),)
