"""Poisson sampling, and the noise of steps on Poisson samples: what the mini-batch solvers share."""

import math
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sottovoce.exceptions import ParameterError
from sottovoce.privacy.accounting import MOST_SAMPLED_STEPS, PLDAccountant
from sottovoce.privacy.calibration import least_noise
from sottovoce.privacy.events import Event, GaussianEvent, PoissonSampledEvent, RepeatedEvent, compose

__all__ = ["poisson_sample", "refuse_rare_samples", "sampled_noise", "sampled_steps"]

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
