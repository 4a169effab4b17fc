"""Privacy loss distributions on a grid, by dp-accounting, rounded against ourselves (Doroshenko et al. 2022)."""

import math
from functools import lru_cache
from typing import Final

from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution, identity

from sottovoce._validation import number
from sottovoce.exceptions import AccountingError
from sottovoce.privacy.accountants.exact import mu_of
from sottovoce.privacy.event import Accountant, Basic, Counts, is_far, offered, ordered, quiet, shift_squared
from sottovoce.privacy.profiles.gaussian import gaussian_delta, gaussian_epsilon

__all__ = ["MOST_SAMPLED_STEPS", "PLDAccountant"]

MOST_SAMPLED_STEPS: Final = 2_000_000  # sampled steps on a grid: time and memory grow with their number


class PLDAccountant(Accountant):
    """Privacy loss distributions, rounded up: Gaussians with and without sampling, perturbed objectives, responses.

    Parameters
    ----------
    grid : float or None
        Step of the privacy loss grid. None takes 1e-4, or finer where a step's own loss is finer: a tenth of the
        standard deviation of the loss of one sampled step, q sqrt(exp(1/s^2) - 1), but not below 2e-6, or a fiftieth
        of the width of a perturbed objective's loss where nothing is sampled, or a tenth of the loss of a randomised
        response where there are so many that rounding each would show, but not below 2e-6; coarser where epsilon is
        large, about 1e-5 of it.

    Notes
    -----
    Compositions that are far from private (epsilon of some 5e4 and more) are given epsilon = inf and delta = 1; those
    of Gaussian releases and responses the exact Gaussian epsilon plus the epsilons of all responses. More than 2
    million steps of one kind (other than plain Gaussians) are refused.
    """

    name = "privacy loss distribution"

    def __init__(self, grid: float | None = None) -> None:
        self._grid = None if grid is None else number("grid", grid, above=0.0, at_most=0.1)

    @classmethod
    def covers(cls, counts: Counts) -> bool:
        return all(
            basic.loss_step(times, 0.0) is not None and (times <= MOST_SAMPLED_STEPS or basic.offers.noise is not None)
            for basic, times in counts.items()
        )

    def _epsilon(self, counts: Counts, delta: float) -> float:
        if is_far(counts):
            pure = _pure_epsilon(counts)
            return pure if math.isinf(pure) else pure + gaussian_epsilon(mu_of(counts), delta)
        return _epsilon(tuple(ordered(counts)), self._step(counts), delta)

    def _delta(self, counts: Counts, epsilon: float) -> float:
        if is_far(counts):
            pure = _pure_epsilon(counts)
            return gaussian_delta(mu_of(counts), (epsilon - pure) * (1.0 - 2.0**-50)) if pure <= epsilon else 1.0
        return float(_composed(tuple(ordered(counts)), self._step(counts)).get_delta_for_epsilon(epsilon))

    def _step(self, counts: Counts) -> float:
        if self._grid is not None:
            return self._grid
        shift = shift_squared(counts)
        steps = [step for basic, times in counts.items() if (step := basic.loss_step(times, shift)) is not None]
        fine = min((wanted for wanted, _ in steps if math.isfinite(wanted)), default=1e-4)
        return min(max(fine, 1e-6 * shift, *(least for _, least in steps)), 0.1)


def _pure_epsilon(counts: Counts) -> float:
    """Return the epsilons of all responses added up; ``inf`` without any, or beside more than Gaussian releases."""
    responses = offered(counts, "response")
    if not responses or any(basic.offers.response is None and basic.offers.noise is None for basic in counts):
        return math.inf
    return math.fsum(times * epsilon for epsilon, times in responses.items()) * (1.0 + 2.0**-50)


@lru_cache(maxsize=16)
def _composed(counts: tuple[tuple[Basic, int], ...], grid: float) -> PrivacyLossDistribution:
    """Compose once for several questions about the same run; the result is only read."""
    for basic, times in counts:
        if times > MOST_SAMPLED_STEPS and basic.offers.noise is None:
            raise AccountingError(
                f"{times} steps of one kind are too many for a privacy loss distribution (at most "
                f"{MOST_SAMPLED_STEPS}); use RenyiAccountant."
            )
    with quiet():
        composed = identity(grid)
        for basic, times in counts:
            composed = composed.compose(basic.loss_distribution(times, grid))
    return composed


@lru_cache(maxsize=256)
def _epsilon(counts: tuple[tuple[Basic, int], ...], grid: float, delta: float) -> float:
    # plans, receipts and copies of a receipt all ask the same
    return float(_composed(counts, grid).get_epsilon_for_delta(delta))
