"""Poisson samples of the rows, for solvers whose steps each take every row with the same probability on its own."""

import math
from dataclasses import dataclass
from functools import cached_property

from sottovoce.central.core import Asked, replay
from sottovoce.central.sampling import refuse_rare_samples, sampled_noise
from sottovoce.central.split import Split
from sottovoce.privacy.events import Event

__all__ = ["Batches"]


@dataclass(frozen=True)
class Batches:
    """How large a sample is, and the noise of a step: both follow from public facts."""

    split: Split
    expected_size: float  # L >= 1, at most the number of rows
    n_steps: int  # of one model

    def check(self) -> None:
        """Refuse samples that are too rare or too many for the accountant."""
        refuse_rare_samples(self.sampling_rate, self.n_steps * self.split.facts.n_models)

    @property
    def sampling_rate(self) -> float:
        """Probability that a step uses a given row."""
        return min(1.0, self.expected_size / self.split.facts.n_samples)

    @cached_property
    def before(self) -> tuple[Event, ...]:
        """What is released before the steps."""

        def asks() -> Asked[None]:
            yield from self.split.facts.norm()
            yield from self.split.scales()

        return (replay(asks).event,)

    @cached_property
    def noise_multiplier(self) -> float:
        """Noise of a step divided by its sensitivity: the least that keeps the budget of the whole run.

        With samples of all rows nothing is sampled, and the account is exact Gaussian DP.
        """
        facts, steps = self.split.facts, self.n_steps * self.split.facts.n_models
        if self.sampling_rate == 1.0:
            return math.sqrt(steps) / self.split.steps
        return sampled_noise(self.before, self.sampling_rate, steps, facts.epsilon, facts.delta, self.split.steps)
