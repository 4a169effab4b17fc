"""Poisson samples of the rows, sums over them, and the noise of steps that each take a fresh one."""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sottovoce.central.data.operation import AtHome
from sottovoce.central.data.part import Part
from sottovoce.central.data.row_memory import TARGET
from sottovoce.central.kernels.calls import passes
from sottovoce.central.sums.clipped_sums import Ticks
from sottovoce.exceptions import ParameterError
from sottovoce.losses import Loss
from sottovoce.privacy.accounting import MOST_SAMPLED_STEPS, PLDAccountant
from sottovoce.privacy.calibration import least_noise
from sottovoce.privacy.events import Event, GaussianEvent, PoissonSampledEvent, RepeatedEvent, compose
from sottovoce.randomness import Purpose

_LEAST_RATE: Final = 1e-6


def refuse_rare_samples(rate: float, steps: int) -> None:
    """Refuse a plan of sampled steps that are too rare or too many for the accountant; it follows from public facts."""
    if rate < _LEAST_RATE or (rate < 1.0 and steps > MOST_SAMPLED_STEPS):
        raise ParameterError(
            f"batch_size and epochs make {steps} steps that sample each row with probability {rate:.3g}; the "
            f"accountant takes at most {MOST_SAMPLED_STEPS}, of probability {_LEAST_RATE:g} or more. Raise "
            "solver_options['batch_size'], or lower solver_options['epochs']."
        )


def poisson_sample(n: int, rate: float, sampling: np.random.Generator) -> NDArray[np.int64]:
    """Return the sorted indices of a Poisson sample: each of 0..n-1 with probability ``rate``, on its own.

    Drawn as geometric gaps, in time proportional to the size of the sample.
    """
    if rate >= 1.0:
        return np.arange(n, dtype=np.int64)
    drawn: list[NDArray[np.int64]] = []
    last = -1
    while last < n:
        expected = (n - 1 - last) * rate
        gaps = sampling.geometric(rate, size=int(expected + 4.0 * math.sqrt(expected) + 8.0))
        places = last + np.cumsum(np.minimum(gaps, n + 1), dtype=np.int64)
        drawn.append(places)
        last = int(places[-1])
    sample = np.concatenate(drawn)
    return sample[sample < n]


def sampled_steps(before: tuple[Event, ...], rate: float, steps: int, noise_multiplier: float) -> Event:
    """Return the event of ``steps`` Gaussian releases on Poisson samples, after the releases ``before``."""
    return compose(*before, RepeatedEvent(PoissonSampledEvent(rate, GaussianEvent(noise_multiplier)), steps))


@lru_cache(maxsize=1024)
def sampled_noise(
    before: tuple[Event, ...], rate: float, steps: int, epsilon: float, delta: float, mu_steps: float
) -> float:
    """Find the least noise multiplier of the steps that keeps the budget of the whole run.

    It takes a second or so, so the same plan is not calibrated twice. ``mu_steps`` is the Gaussian-DP parameter that
    is about left for the steps: where the search starts.
    """
    # the central limit of the composition, exact for many steps
    start = 1.0 / math.sqrt(math.log1p(mu_steps**2 / (rate**2 * steps)))
    accountant = PLDAccountant()
    return least_noise(lambda noise: sampled_steps(before, rate, steps, noise), accountant, epsilon, delta, start=start)


@dataclass(frozen=True, eq=False)
class SampledSum(AtHome[Ticks]):
    """The sum of the clipped terms of a Poisson sample of the rows; the holder draws it, and nobody sees it."""

    loss: Loss
    w: NDArray[Any]  # of shape (n_weights,); released
    clip: float  # bound on a row's term
    ticks_per_unit: float
    sampling_rate: float = 1.0

    @abstractmethod
    def terms(self, part: Part, w: NDArray[Any]) -> Callable[[NDArray[np.int64], int, int, Ticks], None]:
        """Return what adds the terms of the rows batch[lo:hi] at ``w`` to a total."""

    def on(self, part: Part) -> Ticks:
        batch = poisson_sample(part.n_samples, self.sampling_rate, part.coins.generator(Purpose.SAMPLING))
        add = self.terms(part, part.weights(self.w))
        return part.team.total(
            lambda lo, hi, total: add(batch, lo, hi, total),
            len(batch), part.work * self.sampling_rate, np.zeros(part.n_weights, np.int64),
        )  # fmt: skip


class SampledGradient(SampledSum):
    """The sum of the clipped gradients of a sample."""

    def terms(self, part: Part, w: NDArray[Any]) -> Callable[[NDArray[np.int64], int, int, Ticks], None]:
        rows, y = part.rows, part.memory.whole(TARGET)
        return lambda batch, lo, hi, total: passes.gradient_of(
            rows.kernel, y, w, self.clip, self.ticks_per_unit, self.loss, batch, lo, hi, total
        )
