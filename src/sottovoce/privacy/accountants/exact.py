r"""Compositions whose worst case is known exactly: Gaussian releases, randomised responses and selections.

Gaussian releases without sampling compose to one of mean shift mu (`sottovoce.privacy.profiles.gaussian`), whose curve
is rounded up in the last digits. With randomised responses beside them, whose privacy loss takes the value l with
probability P(l) (`sottovoce.privacy.profiles.response`), it is :math:`\sum_l P(l) \, \delta(\varepsilon - l)`.
Selections are mechanisms of bounded range, such as the exponential one (`sottovoce.privacy.profiles.bounded_range`).
"""

import math
from collections import Counter
from collections.abc import Callable

from sottovoce._numerics import Vector, least_root
from sottovoce.exceptions import AccountingError
from sottovoce.privacy.accountants.renyi import RenyiAccountant
from sottovoce.privacy.event import Accountant, Counts, Event, flatten, is_far, offered
from sottovoce.privacy.profiles.bounded_range import BoundedRangeProfile, bounded_range_profile, is_affordable
from sottovoce.privacy.profiles.gaussian import gaussian_delta, gaussian_divergence, gaussian_epsilon
from sottovoce.privacy.profiles.response import MOST_LOSSES, count_of_losses, response_losses

__all__ = ["BoundedRangeAccountant", "GaussianAccountant", "MixedAccountant", "MixedSelectionAccountant", "mu_of"]


class GaussianAccountant(Accountant):
    """Exact curve of any number of Gaussian releases without sampling, and of randomised responses beside them.

    Responses may have up to 1,024 different losses (one more than their number, if all are of one kind).
    """

    name = "exact Gaussian DP"

    @classmethod
    def covers(cls, counts: Counts) -> bool:
        return all(basic.offers.noise is not None for basic in counts)

    def mu(self, event: Event) -> float:
        """Return the mean shift of the one Gaussian release that ``event`` is equivalent to."""
        counts = flatten(event)
        if offered(counts, "response"):
            raise AccountingError("no one Gaussian release is equivalent to a randomised response: ask for delta.")
        return mu_of(counts)

    def _epsilon(self, counts: Counts, delta: float) -> float:
        mu, responses = mu_of(counts), offered(counts, "response")
        if not responses:
            return gaussian_epsilon(mu, delta)
        listed = response_losses(responses)
        # beyond the largest loss by the Gaussian's epsilon, each term is within delta; without a Gaussian it is 0
        high = float(listed[0].max()) + gaussian_epsilon(mu, delta)
        return least_root(lambda epsilon: _mixed_delta(mu, *listed, epsilon), delta, high)

    def _delta(self, counts: Counts, epsilon: float) -> float:
        mu, responses = mu_of(counts), offered(counts, "response")
        return _mixed_delta(mu, *response_losses(responses), epsilon) if responses else gaussian_delta(mu, epsilon)


class MixedAccountant(GaussianAccountant):
    """The same accountant, under the name for receipts of runs with responses."""

    name = "exact Gaussian DP and randomised response"

    @classmethod
    def covers(cls, counts: Counts) -> bool:
        known = all(basic.offers.noise is not None or basic.offers.response is not None for basic in counts)
        return known and count_of_losses(offered(counts, "response")) <= MOST_LOSSES


def mu_of(counts: Counts) -> float:
    """Return the mean shift of the Gaussian releases; responses are counted apart."""
    for basic, times in counts.items():
        if basic.offers.noise is None and basic.offers.response is None:
            others = "" if basic.loss_step(times, 0.0) is None else "PLDAccountant or "
            raise AccountingError(f"exact Gaussian accounting does not cover {basic!r}; use {others}RenyiAccountant.")
    return math.hypot(*sorted(math.sqrt(times) / noise for noise, times in offered(counts, "noise").items()))


def _mixed_delta(mu: float, losses: Vector, shares: Vector, epsilon: float) -> float:
    total = _beside(lambda value: gaussian_divergence(mu, value), losses, shares, epsilon)
    return min(1.0, total * (1.0 + 1e-11))


def _beside(curve: Callable[[float], float], losses: Vector, shares: Vector, epsilon: float) -> float:
    """Return delta(epsilon) of what has this ``curve``, beside releases whose losses take values with these shares."""
    pairs = zip(losses.tolist(), shares.tolist(), strict=True)
    return math.fsum(share * curve(epsilon - loss) for loss, share in pairs)


def _are_of_one_width(widths: Counter[float]) -> bool:
    return len(widths) == 1 and all(is_affordable(*each) for each in widths.items())


def _others(counts: Counts) -> Counts:
    return Counter({basic: times for basic, times in counts.items() if basic.offers.window is None})


class BoundedRangeAccountant(Accountant):
    """Bounded-range releases of one width, each chosen with those before it in sight: about 2,000 of them, or fewer."""

    name = "optimal adaptive composition of bounded-range mechanisms"

    @classmethod
    def covers(cls, counts: Counts) -> bool:
        return all(basic.offers.window is not None for basic in counts) and _are_of_one_width(offered(counts, "window"))

    def _epsilon(self, counts: Counts, delta: float) -> float:
        profile, most = self._profile(counts)
        return min(most, profile.epsilon(delta)) if profile is not None else most

    def _delta(self, counts: Counts, epsilon: float) -> float:
        profile, most = self._profile(counts)
        if epsilon >= most:
            return 0.0
        return profile.delta(epsilon) if profile is not None else 1.0

    def _profile(self, counts: Counts) -> tuple[BoundedRangeProfile | None, float]:
        """Return the profile (None where it is not worth the memory), and the pure epsilon of basic composition."""
        self._check(counts, "releases of one BoundedRangeEvent, about 2,000 if they are narrow")
        ((width, times),) = offered(counts, "window").items()
        most = times * width * (1.0 + 2.0**-50)
        return (None if is_far(counts) else bounded_range_profile(width, times)), most


class MixedSelectionAccountant(Accountant):
    """Bounded-range releases of one width beside Gaussian releases and up to 1,023 losses of randomised responses."""

    name = "optimal composition of bounded-range, Gaussian and randomised-response releases"

    @classmethod
    def covers(cls, counts: Counts) -> bool:
        return _are_of_one_width(offered(counts, "window")) and MixedAccountant.covers(_others(counts))

    def _epsilon(self, counts: Counts, delta: float) -> float:
        if is_far(counts):
            return math.inf
        renyi = RenyiAccountant()._epsilon(counts, delta)  # it can resolve a delta that a lattice cannot
        curve = self._curve(counts)
        if delta == 0.0 or curve(renyi) > delta:
            return renyi
        return min(renyi, least_root(curve, delta, max(renyi, 1e-6)))

    def _delta(self, counts: Counts, epsilon: float) -> float:
        if is_far(counts):
            return 1.0
        return min(self._curve(counts)(epsilon), RenyiAccountant()._delta(counts, epsilon))

    def _curve(self, counts: Counts) -> Callable[[float], float]:
        self._check(counts, "releases of one BoundedRangeEvent beside Gaussian releases and a few randomised responses")
        ((width, times),) = offered(counts, "window").items()
        profile, mu = bounded_range_profile(width, times), mu_of(_others(counts))
        losses, shares = response_losses(offered(counts, "response"))
        return lambda epsilon: min(1.0, _beside(lambda value: profile.beside(mu, value), losses, shares, epsilon))
