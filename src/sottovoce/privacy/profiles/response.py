r"""The privacy loss of binary randomised responses, as accountants need it.

One response with loss e keeps the bit with probability 1 - p and flips it with probability p = 1/(1 + exp(e)). Between
two bits that differ its privacy loss is e with probability 1 - p and -e with probability p, in both directions, so k
responses have the loss e (k - 2 J) with J binomial (k, p), and responses of several kinds have the sum.

Proof of what this dominates, beside later releases too: ``docs/privacy/randomized_response.md``.
"""

import math
from collections.abc import Mapping
from typing import Final

import numpy as np
from dp_accounting.pld.pld_pmf import create_pmf_pessimistic_connect_dots
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
from numpy.typing import NDArray

from sottovoce.exceptions import AccountingError
from sottovoce.privacy.events import RandomizedResponseEvent

__all__ = ["count_of_losses", "response_divergences", "response_loss_distribution", "response_losses"]

MOST_LOSSES: Final = 1024  # also keeps binomial coefficients within the doubles
_LEAST: Final = 1e-300  # stands for probabilities that may have underflowed

Array = NDArray[np.float64]


def count_of_losses(responses: Mapping[RandomizedResponseEvent, int]) -> int:
    """Return how many values the composed loss is listed with: the product of count + 1 over the kinds."""
    return math.prod(times + 1 for times in responses.values())


def response_losses(responses: Mapping[RandomizedResponseEvent, int]) -> tuple[Array, Array]:
    """Return the values of the composed privacy loss and their probabilities, both rounded up.

    The loss of one response by itself is exact. Raises AccountingError if there are more than 1,024 values.
    """
    if count_of_losses(responses) > MOST_LOSSES:
        raise AccountingError(
            f"{sum(responses.values())} randomised responses of {len(responses)} kinds have more than {MOST_LOSSES} "
            "different losses, too many for exact accounting; use PLDAccountant."
        )
    losses, logarithms = np.zeros(1), np.zeros(1)
    for event, times in sorted(responses.items(), key=lambda item: item[0].epsilon):
        flips = np.arange(times + 1)
        ways = np.log([float(math.comb(times, flipped)) for flipped in range(times + 1)])
        chance = ways - times * math.log1p(math.exp(-event.epsilon)) - flips * event.epsilon
        losses = np.add.outer(losses, event.epsilon * (times - 2.0 * flips)).ravel()
        logarithms = np.add.outer(logarithms, chance).ravel()
    if sum(responses.values()) > 1:
        losses = losses + 2.0**-50 * float(losses.max())
    return losses, np.maximum(np.exp(logarithms), _LEAST) * (1.0 + 1e-11)


def response_loss_distribution(event: RandomizedResponseEvent, grid: float) -> PrivacyLossDistribution:
    """Return a privacy loss distribution on multiples of ``grid`` that dominates one response.

    The curve, which is piecewise linear in exp(loss) with corners at -e and e, is joined by straight lines between the
    grid's neighbours of the corners (Doroshenko et al. 2022, arXiv:2207.04380, Algorithm 1).
    """
    high = math.ceil(event.epsilon / grid)
    steps = np.unique([-high, 1 - high, high - 1, high])
    gaps = np.minimum(0.0, np.subtract.outer(steps * grid, [event.epsilon, -event.epsilon]))
    flip = math.exp(-event.epsilon) / (1.0 + math.exp(-event.epsilon))
    deltas = np.clip(-np.expm1(gaps) @ np.array([1.0 - flip, flip]), 0.0, 1.0)
    return PrivacyLossDistribution(create_pmf_pessimistic_connect_dots(grid, steps, deltas))


def response_divergences(event: RandomizedResponseEvent, orders: Array) -> Array:
    r"""Return the Renyi divergence of one response at each order.

    .. math:: \frac{1}{a-1} \log \frac{\cosh((a - 1/2) e)}{\cosh(e/2)}
              = \frac{1}{a-1} \log \Bigl(1 + \frac{2 \sinh(a e/2) \sinh((a-1) e/2)}{\cosh(e/2)}\Bigr),

    by the left side where a e is large and by the right side, which loses no digits, where it is small.
    """
    e, small = event.epsilon, orders * event.epsilon < 1.0
    bounded = np.where(small, orders, 1.0)  # so that nothing overflows where the other form is taken
    half = 0.5 * min(e, 1.0)
    near = np.log1p(2.0 * np.sinh(bounded * half) * np.sinh((bounded - 1.0) * half) / math.cosh(half))
    far = (orders - 1.0) * e + np.log1p(np.exp(-(2.0 * orders - 1.0) * e)) - math.log1p(math.exp(-e))
    divergences: Array = np.where(small, near, far) / (orders - 1.0)
    return divergences
