r"""The privacy loss of binary randomised responses, as accountants need it.

One response with loss e keeps the bit with probability 1 - p and flips it with probability p = 1/(1 + exp(e)). Between
two bits that differ its privacy loss is e with probability 1 - p and -e with probability p, in both directions, so k
responses have the loss e (k - 2 J) with J binomial (k, p), and responses of several kinds have the sum.

Proof of what this dominates, beside later releases too: ``docs/privacy/randomized_response.md``.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, Final

import numpy as np

from sottovoce._numerics import Vector
from sottovoce._validation import number
from sottovoce.exceptions import AccountingError
from sottovoce.privacy.event import Basic, Offers, Rule, dp_accounting

MOST_LOSSES: Final = 1024  # also keeps binomial coefficients within the doubles
_LEAST: Final = 1e-300  # stands for probabilities that may have underflowed


@dataclass(frozen=True)
class RandomizedResponseEvent(Basic):
    """One release of one bit a person, kept with probability e^epsilon / (1 + e^epsilon) and flipped otherwise.

    For neighbours in which the person has a bit in both tables, which may differ; everybody's coin is their own.

    Parameters
    ----------
    epsilon : float, in (0, 1e300]
        Logarithm of the ratio of the two probabilities. Public bits (``inf``) are no event and are refused.
    """

    epsilon: Annotated[float, Rule(partial(number, above=0.0, at_most=1e300))]
    kind: ClassVar[str] = "randomized-response"
    words: ClassVar[str] = "randomised response of one bit, epsilon {epsilon:.6g}"

    @property
    def offers(self) -> Offers:
        return Offers(response=self.epsilon)

    def shift_squared(self, times: int) -> float:
        return times * 2.0 * self.epsilon * math.tanh(0.5 * self.epsilon)

    def loss_step(self, times: int, shift: float) -> tuple[float, float]:
        return min(1e-4, max(0.1 * self.epsilon, 1e-4 / times)), max(2e-6, 1e-5 * self.epsilon)

    def loss_distribution(self, times: int, step: float) -> Any:
        """Return a privacy loss distribution that dominates so many responses; dp-accounting's own forgets how many.

        The curve, which is piecewise linear in exp(loss) with corners at -e and e, is joined by straight lines between
        the grid's neighbours of the corners (Doroshenko et al. 2022, arXiv:2207.04380, Algorithm 1).
        """
        high = math.ceil(self.epsilon / step)
        corners = np.unique([-high, 1 - high, high - 1, high])
        gaps = np.minimum(0.0, np.subtract.outer(corners * step, [self.epsilon, -self.epsilon]))
        flip = math.exp(-self.epsilon) / (1.0 + math.exp(-self.epsilon))
        deltas = np.clip(-np.expm1(gaps) @ np.array([1.0 - flip, flip]), 0.0, 1.0)
        losses = dp_accounting("pld.pld_pmf").create_pmf_pessimistic_connect_dots(step, corners, deltas)
        return dp_accounting("pld.privacy_loss_distribution").PrivacyLossDistribution(losses).self_compose(times)

    def divergences(self, orders: Vector) -> Vector:
        r"""Return the Renyi divergence of one response at each order.

        .. math:: \frac{1}{a-1} \log \frac{\cosh((a - 1/2) e)}{\cosh(e/2)}
                  = \frac{1}{a-1} \log \Bigl(1 + \frac{2 \sinh(a e/2) \sinh((a-1) e/2)}{\cosh(e/2)}\Bigr),

        by the left side where a e is large and by the right side, which loses no digits, where it is small.
        """
        e, small = self.epsilon, orders * self.epsilon < 1.0
        bounded = np.where(small, orders, 1.0)  # so that nothing overflows where the other form is taken
        half = 0.5 * min(e, 1.0)
        near = np.log1p(2.0 * np.sinh(bounded * half) * np.sinh((bounded - 1.0) * half) / math.cosh(half))
        far = (orders - 1.0) * e + np.log1p(np.exp(-(2.0 * orders - 1.0) * e)) - math.log1p(math.exp(-e))
        divergences: Vector = np.where(small, near, far) / (orders - 1.0)
        return divergences


@dataclass(frozen=True)
class PureEvent(Basic):
    """One release that is epsilon-DP with delta = 0, whatever else it is; such as a report under local privacy.

    Every such release is post-processing of a randomised response of the same epsilon (Kairouz, Oh, Viswanath 2015),
    and is accounted as one.

    Parameters
    ----------
    epsilon : float, in (0, 1e300]
        Bound on ``|log P(o)/Q(o)|`` over all outputs o and all neighbours.
    """

    epsilon: Annotated[float, Rule(partial(number, above=0.0, at_most=1e300))]
    kind: ClassVar[str] = "pure"
    words: ClassVar[str] = "one release of pure differential privacy, epsilon {epsilon:.6g}"

    @property
    def offers(self) -> Offers:
        return Offers(response=self.epsilon)

    def basics(self) -> Iterable[tuple[Basic, int]]:
        return ((RandomizedResponseEvent(self.epsilon), 1),)  # which dominates it


def count_of_losses(responses: Mapping[float, int]) -> int:
    """Return how many values the composed loss is listed with: the product of count + 1 over the kinds."""
    return math.prod(times + 1 for times in responses.values())


def response_losses(responses: Mapping[float, int]) -> tuple[Vector, Vector]:
    """Return the values of the composed privacy loss and their probabilities, both rounded up.

    ``responses``: how many there are of each epsilon; the loss of one by itself is exact. Raises AccountingError if
    there are more than 1,024 values.
    """
    if count_of_losses(responses) > MOST_LOSSES:
        raise AccountingError(
            f"{sum(responses.values())} randomised responses of {len(responses)} kinds have more than {MOST_LOSSES} "
            "different losses, too many for exact accounting; use PLDAccountant."
        )
    losses, logarithms = np.zeros(1), np.zeros(1)
    for epsilon, times in sorted(responses.items()):
        flips = np.arange(times + 1)
        ways = np.log([float(math.comb(times, flipped)) for flipped in range(times + 1)])
        chance = ways - times * math.log1p(math.exp(-epsilon)) - flips * epsilon
        losses = np.add.outer(losses, epsilon * (times - 2.0 * flips)).ravel()
        logarithms = np.add.outer(logarithms, chance).ravel()
    if sum(responses.values()) > 1:
        losses = losses + 2.0**-50 * float(losses.max())
    return losses, np.maximum(np.exp(logarithms), _LEAST) * (1.0 + 1e-11)
