r"""Accountants: from events to epsilon and delta, never too small.

Each is right for every event it accepts, and refuses the others. None knows a kind of event: it asks what a release
offers (`sottovoce.privacy.event.Offers`), and the tightest that all releases of a run allow is taken: exact for
Gaussian releases and randomised responses, privacy loss distributions where rows are sampled, the optimal composition
of exponential mechanisms, the profile of one private search, and Renyi DP for all the rest.

Before anything is computed an event is flattened to "how often each basic event happened". Order and nesting are
therefore gone by construction, and n-fold composition is n times the single one.

*Exact.* Gaussian releases without sampling compose to one of mean shift mu (`sottovoce.privacy.profiles.gaussian`),
whose curve is rounded up in the last digits. With randomised responses beside them, whose privacy loss takes the value
l with probability P(l) (`sottovoce.privacy.profiles.response`), it is
:math:`\sum_l P(l) \, \delta(\varepsilon - l)`. Selections are mechanisms of bounded range, such as the exponential one
(`sottovoce.privacy.profiles.bounded_range`).

*Privacy loss distributions* are on a grid, by dp-accounting, rounded against ourselves (Doroshenko et al. 2022).
"""

import math
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import numpy as np

from sottovoce._numerics import Vector, least_root, nudge
from sottovoce._validation import number
from sottovoce.exceptions import AccountingError, ParameterError
from sottovoce.privacy.event import (
    Accountant,
    Basic,
    Counts,
    Event,
    dp_accounting,
    flatten,
    is_far,
    offered,
    ordered,
    protects,
    quiet,
    shift_squared,
)
from sottovoce.privacy.profiles.bounded_range import bounded_range_profile, is_affordable
from sottovoce.privacy.profiles.gaussian import MOST_NOISE, gaussian_delta, gaussian_divergence, gaussian_epsilon
from sottovoce.privacy.profiles.response import MOST_LOSSES, count_of_losses, response_losses
from sottovoce.privacy.trials import TrialCount

__all__ = [
    "Accountant", "BoundedRangeAccountant", "GaussianAccountant", "MOST_NOISE", "MOST_SAMPLED_STEPS",
    "MixedAccountant", "MixedSelectionAccountant", "PLDAccountant", "RenyiAccountant", "SelectionAccountant",
    "accountant_for", "epsilon_of", "flatten", "gaussian_delta", "gaussian_epsilon", "mu_of", "nudge",
]  # fmt: skip

MOST_SAMPLED_STEPS: Final = 2_000_000  # sampled steps on a grid: time and memory grow with their number


class RenyiAccountant(Accountant):
    """Renyi differential privacy, minimised over a list of orders.

    Parameters
    ----------
    orders : sequence of float or None
        Renyi orders, each above 1. None takes a dense list up to 1024.

    Notes
    -----
    From Renyi DP to epsilon: the tight conversion [1]_ together with delta <= sqrt(1 - exp(-divergence)) [2]_, as in
    dp-accounting.

    References
    ----------
    .. [1] Canonne, Kamath, Steinke (2020). The Discrete Gaussian for Differential Privacy. arXiv:2004.00010v4,
       Proposition 12.
    .. [2] Bretagnolle, Huber (1979). Estimation des densites: risque minimax. Theorem 2.1.
    """

    name = "Renyi DP"

    def __init__(self, orders: "tuple[float, ...] | None" = None) -> None:
        if orders is None:
            orders = (*(1 + x / 10 for x in range(1, 100)), *range(11, 65), 80, 96, 128, 192, 256, 512, 1024)
        self._orders = tuple(number("orders", order, above=1.0) for order in orders)
        if not self._orders:
            raise ParameterError("orders must hold at least one number above 1; got ().")

    def divergences(self, event: Event) -> Vector:
        """Return a bound on the Renyi divergence of ``event`` at each order, in both directions.

        Raises
        ------
        AccountingError
            If a part of the event is not known, or has no protection.
        """
        counts = flatten(event)
        if not protects(counts):
            raise AccountingError("a release without protection has no Renyi divergence.")
        return self._divergences(counts)

    @classmethod
    def covers(cls, counts: Counts) -> bool:
        return True

    def _epsilon(self, counts: Counts, delta: float) -> float:
        if delta == 0.0:
            return math.inf
        return max(0.0, float(np.min(self._epsilons_of(self._divergences(counts), delta))))

    def _epsilons_of(self, divergences: Vector, delta: float) -> Vector:
        """Return the epsilon that follows from the divergence at each order."""
        orders = np.array(self._orders)
        epsilons: Vector = divergences - math.log(delta) / (orders - 1)
        epsilons += np.log1p(-1 / orders) - np.log(orders) / (orders - 1)
        epsilons[-np.expm1(-divergences) < delta * delta] = 0.0
        return epsilons

    def _delta(self, counts: Counts, epsilon: float) -> float:
        return self._delta_of(self._divergences(counts), epsilon)

    def _delta_of(self, divergences: Vector, epsilon: float) -> float:
        orders = np.array(self._orders)
        logarithms = (orders - 1) * (divergences - epsilon)
        logarithms += (orders - 1) * np.log1p(-1 / orders) - np.log(orders)
        return min(math.exp(min(0.0, float(np.min(logarithms)))), math.sqrt(-math.expm1(-float(np.min(divergences)))))

    def _divergences(self, counts: Counts) -> Vector:
        """Return the divergences, with what double precision may have taken off those of releases added again."""
        total: Vector = np.zeros(len(self._orders))
        if is_far(counts):
            total[:] = math.inf
            return total
        orders = np.array(self._orders)
        with quiet():
            # Gaussian noise first, so that sums end in the digit that receipts on disk have
            for basic, times in sorted(
                ordered(counts), key=lambda item: item[0].offers.noise is None and item[0].offers.lost == 0.0
            ):
                if basic.offers.search is None:
                    total += times * basic.divergences(orders)
        total = np.maximum(total, 0.0) * (1.0 + 1e-12)
        total += 1e-14 * math.fsum(sorted(times * basic.offers.lost for basic, times in counts.items()))
        for basic, times in ordered(counts):
            if basic.offers.search is not None:
                run, trials = basic.offers.search
                total += times * trials.divergences(orders, self._divergences(flatten(run)))
        return total


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
    return _shift(counts)


def _shift(counts: Counts) -> float:
    return math.hypot(*sorted(math.sqrt(times) / noise for noise, times in offered(counts, "noise").items()))


def _pure_epsilon(counts: Counts) -> float:
    """Return the epsilons of responses and selections added up; ``inf`` beside more than Gaussian releases."""
    each = [(times, *basic.offers[:3]) for basic, times in ordered(counts)]
    pure = [n * (math.inf if noise is one is width is None else one or width or 0.0) for n, noise, one, width in each]
    return sum(pure) * (1.0 + 2.0**-50 * len(pure))


def _basic_epsilon(counts: Counts, delta: float) -> float:
    """Return what follows from adding up: the exact epsilon of Gaussian releases and the epsilons of pure ones."""
    return _pure_epsilon(counts) + gaussian_epsilon(_shift(counts), delta)


def _basic_delta(counts: Counts, epsilon: float) -> float:
    pure = _pure_epsilon(counts)
    return gaussian_delta(_shift(counts), (epsilon - pure) * (1.0 - 2.0**-50)) if pure <= epsilon else 1.0


def _mixed_delta(mu: float, losses: Vector, shares: Vector, epsilon: float) -> float:
    total = _beside(lambda value: gaussian_divergence(mu, value), losses, shares, epsilon)
    return min(1.0, total * (1.0 + 1e-11))


def _beside(curve: Callable[[float], float], losses: Vector, shares: Vector, epsilon: float) -> float:
    """Return delta(epsilon) of what has this ``curve``, beside releases whose losses take values with these shares."""
    pairs = zip(losses.tolist(), shares.tolist(), strict=True)
    return math.fsum(share * curve(epsilon - loss) for loss, share in pairs)


class MixedSelectionAccountant(Accountant):
    """Bounded-range releases of one width, about 2,000 or fewer, beside Gaussians and 1,023 losses of responses."""

    name = "optimal composition of bounded-range, Gaussian and randomised-response releases"

    @classmethod
    def covers(cls, counts: Counts) -> bool:
        widths = offered(counts, "window")
        others = Counter({basic: times for basic, times in counts.items() if basic.offers.window is None})
        affordable = len(widths) == 1 and all(is_affordable(*each) for each in widths.items())
        return affordable and MixedAccountant.covers(others)

    def _epsilon(self, counts: Counts, delta: float) -> float:
        most = _basic_epsilon(counts, delta)
        if is_far(counts) or delta == 0.0:
            return most
        most = min(most, RenyiAccountant()._epsilon(counts, delta))  # resolves a delta that a lattice cannot
        curve = self._curve(counts)
        return min(most, least_root(curve, delta, max(most, 1e-6))) if curve(most) <= delta else most

    def _delta(self, counts: Counts, epsilon: float) -> float:
        most = _basic_delta(counts, epsilon)
        if is_far(counts):
            return most
        return min(most, self._curve(counts)(epsilon), RenyiAccountant()._delta(counts, epsilon))

    def _curve(self, counts: Counts) -> Callable[[float], float]:
        self._check(counts, "releases of one BoundedRangeEvent, about 2,000 if they are narrow, beside a few others")
        ((width, times),) = offered(counts, "window").items()
        profile, mu = bounded_range_profile(width, times), _shift(counts)
        losses, shares = response_losses(offered(counts, "response"))
        return lambda epsilon: min(1.0, _beside(lambda value: profile.beside(mu, value), losses, shares, epsilon))


class BoundedRangeAccountant(MixedSelectionAccountant):
    """The same accountant, under the name for receipts of selections alone, each with those before it in sight."""

    name = "optimal adaptive composition of bounded-range mechanisms"

    @classmethod
    def covers(cls, counts: Counts) -> bool:
        return super().covers(counts) and len(counts) == 1


class PLDAccountant(Accountant):
    """Privacy loss distributions, rounded up: Gaussians with and without sampling, and randomised responses.

    Parameters
    ----------
    grid : float or None
        Step of the privacy loss grid. None takes 1e-4, or finer where a step's own loss is finer: a tenth of the
        standard deviation of the loss of one sampled step, q sqrt(exp(1/s^2) - 1), or a tenth of the loss of a
        randomised response where there are so many that rounding each would show, but not below 2e-6; coarser where
        epsilon is large, about 1e-5 of it.

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
            return _basic_epsilon(counts, delta)
        return _epsilon(tuple(ordered(counts)), self._step(counts), delta)

    def _delta(self, counts: Counts, epsilon: float) -> float:
        if is_far(counts):
            return _basic_delta(counts, epsilon)
        return float(_composed(tuple(ordered(counts)), self._step(counts)).get_delta_for_epsilon(epsilon))

    def _step(self, counts: Counts) -> float:
        if self._grid is not None:
            return self._grid
        shift = shift_squared(counts)
        steps = [step for basic, times in counts.items() if (step := basic.loss_step(times, shift)) is not None]
        fine = min((wanted for wanted, _ in steps if math.isfinite(wanted)), default=1e-4)
        return min(max(fine, 1e-6 * shift, *(least for _, least in steps)), 0.1)


@lru_cache(maxsize=16)
def _composed(counts: tuple[tuple[Basic, int], ...], grid: float) -> Any:
    """Compose once for several questions about the same run; the result is only read."""
    for basic, times in counts:
        if times > MOST_SAMPLED_STEPS and basic.offers.noise is None:
            raise AccountingError(
                f"{times} steps of one kind are too many for a privacy loss distribution (at most "
                f"{MOST_SAMPLED_STEPS}); use RenyiAccountant."
            )
    with quiet():
        composed = dp_accounting("pld.privacy_loss_distribution").identity(grid)
        for basic, times in counts:
            composed = composed.compose(basic.loss_distribution(times, grid))
    return composed


@lru_cache(maxsize=256)
def _epsilon(counts: tuple[tuple[Basic, int], ...], grid: float, delta: float) -> float:
    # plans, receipts and copies of a receipt all ask the same
    composed = _composed(counts, grid)
    with quiet():  # beyond epsilon = 709 a quotient overflows, to infinity
        return float(composed.get_epsilon_for_delta(delta))


class SelectionAccountant(Accountant):
    r"""The privacy profile of one private search, by itself, from the profile of one trial.

    .. math:: \delta_{search}(\varepsilon) \le E[K] \, \delta_{trial}(\varepsilon - r),

    where r bounds the logarithm of the ratio of the slopes that the choice of the best trial has under the two tables
    (`sottovoce.privacy.trials.TrialCount.log_ratio`). Tighter than Renyi DP, but it does not compose.
    """

    name = "privacy profile of private selection"

    @classmethod
    def covers(cls, counts: Counts) -> bool:
        searches = offered(counts, "search")
        return counts.total() == 1 and any(not offered(flatten(run), "search") for run, _ in searches)

    def _epsilon(self, counts: Counts, delta: float) -> float:
        run, trials, trial, shift = self._trial(counts)
        return shift + trial.epsilon(run, delta / trials.mean * (1.0 - 1e-12))

    def _delta(self, counts: Counts, epsilon: float) -> float:
        run, trials, trial, shift = self._trial(counts)
        if epsilon < shift:
            return 1.0
        return trials.mean * trial.delta(run, (epsilon - shift) * (1.0 - 1e-12)) * (1.0 + 1e-12)

    def _trial(self, counts: Counts) -> tuple[Event, TrialCount, Accountant, float]:
        self._check(counts, "one search by itself, without a search inside")
        ((run, trials),) = offered(counts, "search")
        trial = accountant_for(run)
        return run, trials, trial, trials.log_ratio(lambda epsilon: trial.delta(run, epsilon))


# the tightest first
_ACCOUNTANTS: Final[tuple[type[Accountant], ...]] = (
    GaussianAccountant, MixedAccountant, BoundedRangeAccountant, MixedSelectionAccountant, SelectionAccountant,
    PLDAccountant, RenyiAccountant,
)  # fmt: skip


@lru_cache(maxsize=4096)
def epsilon_of(event: Event, delta: float) -> float:
    """Return what the tightest accountant says of ``event``; remembered, since many fits have the same event."""
    return accountant_for(event).epsilon(event, delta)


@lru_cache(maxsize=4096)
def accountant_for(event: Event) -> Accountant:
    """Return the tightest accountant that covers ``event``: exact for Gaussians and a few responses, else PLD.

    Above 2 million steps of one kind that are not plain Gaussians it is Renyi DP, whose work does not grow with them.
    A private search by itself has an accountant of its own, as have exponential mechanisms of one kind, also beside
    Gaussians and a few responses; together with other releases it is Renyi DP.
    """
    protected = Counter({basic: times for basic, times in flatten(event).items() if basic.offers.protected})
    return next(accountant() for accountant in _ACCOUNTANTS if accountant.covers(protected))
