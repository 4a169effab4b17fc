"""Calibration: the least noise that keeps a target, rounded so that it never overspends."""

import math
from collections.abc import Callable
from functools import lru_cache

from scipy.optimize import brentq

from sottovoce._validation import number, whole_number
from sottovoce.exceptions import AccountingError
from sottovoce.privacy.accounting import Accountant, GaussianAccountant, accountant_for, gaussian_delta, nudge
from sottovoce.privacy.events import BoundedRangeEvent, Event, GaussianEvent, RepeatedEvent, compose


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the largest mean shift mu of Gaussian releases that is (``epsilon``, ``delta``)-DP, rounded down.

    Raises ParameterError if epsilon or delta is out of range, and AccountingError if the target is so small that no
    positive mu can be represented.
    """
    return _gaussian_mu(*_target(epsilon, delta))


def _target(epsilon: float, delta: float) -> tuple[float, float]:
    return number("epsilon", epsilon, above=0.0), number("delta", delta, above=0.0, below=1.0)


@lru_cache(maxsize=1024)
def _gaussian_mu(epsilon: float, delta: float) -> float:
    return _largest_mu(lambda mu: gaussian_delta(mu, epsilon), epsilon, delta)


def gaussian_mu_beside(epsilon: float, delta: float, *others: Event) -> float:
    """Return the largest mean shift mu that Gaussian releases may have beside ``others``, rounded down.

    All together are (``epsilon``, ``delta``)-DP, exactly accounted (`sottovoce.privacy.accounting.GaussianAccountant`).
    Raises ParameterError if epsilon or delta is out of range, and AccountingError if the others alone overspend the
    target or leave no positive mu that can be represented, or if they hold a release of another kind.

    ``*others``: randomised responses and Gaussian releases on the same people, before or after.
    """
    epsilon, delta = _target(epsilon, delta)
    accountant = GaussianAccountant()
    event = compose(*others)
    if not accountant.delta(event, epsilon) <= delta:
        raise AccountingError(
            f"the other releases alone cost epsilon={accountant.epsilon(event, delta)!r} at delta={delta!r}, more than "
            f"epsilon={epsilon!r}: give them less, or raise epsilon or delta."
        )
    return _largest_mu(lambda mu: accountant.delta(compose(event, GaussianEvent(1.0 / mu)), epsilon), epsilon, delta)


def _largest_mu(spent: Callable[[float], float], epsilon: float, delta: float) -> float:
    """Return the largest mu with ``spent(mu) <= delta``, rounded down."""

    def excess(log_mu: float) -> float:
        return spent(math.exp(log_mu)) - delta

    low, high = math.log(1e-12), 1.0
    if excess(low) > 0.0:
        raise AccountingError(f"no Gaussian noise meets epsilon={epsilon!r}, delta={delta!r}: raise one of them.")
    while excess(math.log(high)) <= 0.0:  # asked as the search will ask: exp(log(8)) is less than 8
        low, high = math.log(high), 2.0 * high
    log_mu = brentq(excess, low, math.log(high))
    return nudge(math.exp(float(log_mu)), lambda value: spent(value) <= delta, up=False)


def bounded_range(epsilon: float, delta: float, count: int) -> float:
    """Return the largest range that each of ``count`` bounded-range releases may have, rounded down.

    Raises ParameterError if a parameter is out of range, and AccountingError if the target is so small that no range
    can be found.

    ``count``: >= 1.
    """
    return _bounded_range(*_target(epsilon, delta), whole_number("count", count, at_least=1))


@lru_cache(maxsize=1024)
def _bounded_range(epsilon: float, delta: float, count: int) -> float:
    # a Gaussian of mean shift mu costs about as much as selections of ranges 2 mu / sqrt(count)
    start = min(math.sqrt(count) / (2.0 * _gaussian_mu(epsilon, delta)), count / epsilon)
    return 1.0 / least_noise(
        lambda noise: RepeatedEvent(BoundedRangeEvent(1.0 / noise), count), None, epsilon, delta, start=start
    )


def least_scale(make_event: Callable[[float], Event], epsilon: float, delta: float) -> float:
    """Return the least factor of all noise that keeps a target, as the accountant of a receipt will count it.

    Raises ParameterError if epsilon or delta is out of range, and AccountingError if no factor meets the target.

    ``make_event``: from a factor to the event of the whole run; a larger factor is more noise in every part of it that
        has any.
    """
    epsilon, delta = _target(epsilon, delta)
    return least_noise(make_event, None, epsilon, delta, start=1.0 / _gaussian_mu(epsilon, delta))


def least_noise(
    make_event: Callable[[float], Event],
    accountant: Accountant | None,
    epsilon: float,
    delta: float,
    *,
    start: float = 1.0,
    tolerance: float = 1e-3,
) -> float:
    """Return a noise multiplier s such that ``make_event(s)`` costs at most ``epsilon`` at ``delta``.

    It is the least one up to the relative ``tolerance``, and the returned value itself was accounted: the target is
    never overspent. Raises AccountingError if even a noise multiplier of 1e9 times ``start`` does not meet the target.

    ``make_event``: from a noise multiplier to the event of the whole run.
    ``accountant``: None takes the one that a receipt will take, which may change with the noise.
    ``start``: > 0; first guess, for speed.
    ``tolerance``: >= 1e-9; relative.
    """
    epsilon, delta = _target(epsilon, delta)
    start = number("start", start, above=0.0)
    tolerance = number("tolerance", tolerance, at_least=1e-9)

    def good(noise_multiplier: float) -> bool:
        event = make_event(noise_multiplier)
        return (accountant or accountant_for(event)).epsilon(event, delta) <= epsilon

    low = high = start
    factor = 1.05
    if good(start):
        low = start / factor
        while low > 1e-9 * start and good(low):
            factor *= factor
            low, high = low / factor, low
    else:
        high = start * factor
        while not good(high):
            if high >= 1e9 * start:
                raise AccountingError(
                    f"epsilon={epsilon!r} at delta={delta!r} cannot be met: other parts of the same run spend it "
                    f"already, or the accountant ({(accountant or accountant_for(make_event(high))).name}) cannot "
                    "resolve so small a delta."
                )
            factor *= factor
            low, high = high, min(high * factor, 1e9 * start)
    while high > low * (1.0 + tolerance):
        middle = math.sqrt(low * high)
        if good(middle):
            high = middle
        else:
            low = middle
    return high
