r"""Accountants: from events to epsilon and delta, never too small.

Six of them, each right for every event it accepts, refusing the others:

* `GaussianAccountant`: exact, for Gaussian releases without sampling. k releases with noise multipliers s_i compose to
  one Gaussian of mean shift mu = sqrt(sum 1/s_i^2), whose curve is [1]_

  .. math:: \delta(\varepsilon) = \Phi(-\varepsilon/\mu + \mu/2) - e^\varepsilon \Phi(-\varepsilon/\mu - \mu/2),

  rounded up in the last digits. With randomised responses beside them, whose privacy loss takes the value l with
  probability P(l) (`sottovoce.privacy.profiles.response`), it is :math:`\sum_l P(l) \, \delta(\varepsilon - l)`.

* `PLDAccountant`: privacy loss distributions on a grid, rounded against ourselves (dp-accounting [2]_); for
  compositions with Poisson sampling.
* `RenyiAccountant`: Renyi DP over a list of orders (dp-accounting), with the tight conversion to epsilon or with the
  one of the moments accountant [3]_, which is kept to reproduce older papers; also for private searches.
* `BoundedRangeAccountant`: exponential mechanisms of one kind, by the optimal adaptive composition of bounded-range
  mechanisms (`sottovoce.privacy.profiles.bounded_range`).
* `MixedSelectionAccountant`: the same beside Gaussian releases and randomised responses
  (`sottovoce.privacy.profiles.mixed`); beside other releases selections are accounted by Renyi DP.
* `SelectionAccountant`: the privacy profile of one private search, from the profile of one trial.

Before anything is computed an event is flattened to "how often each basic event happened". Order and nesting are
therefore gone by construction, and n-fold composition is n times the single one.

References
----------
.. [1] Dong, Roth, Su (2019). Gaussian Differential Privacy. arXiv:1905.02383, Corollary 2.13 and Corollary 3.3.
.. [2] Doroshenko, Ghazi, Kamath, Kumar, Manurangsi (2022). Connect the Dots: Tighter Discrete Approximations of Privacy
   Loss Distributions. arXiv:2207.04380.
.. [3] Abadi et al. (2016). Deep Learning with Differential Privacy. arXiv:1607.00133, Theorem 2.
"""

import contextlib
import math
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Final, TypeVar

import numpy as np
from absl import logging as absl_logging
from dp_accounting import dp_event
from dp_accounting.pld.pld_privacy_accountant import PLDAccountant as _PldAccountant
from dp_accounting.privacy_accountant import NeighboringRelation
from dp_accounting.rdp import rdp_privacy_accountant as _rdp
from scipy.optimize import brentq
from scipy.special import erfcx, ndtr

from sottovoce._validation import choice, number
from sottovoce.exceptions import AccountingError, ParameterError
from sottovoce.privacy.events import (
    BoundedRangeEvent,
    ComposedEvent,
    Event,
    GaussianEvent,
    NonPrivateEvent,
    PoissonSampledEvent,
    PureEvent,
    RandomizedResponseEvent,
    RepeatAndSelectEvent,
    RepeatedEvent,
    releases_of,
)
from sottovoce.privacy.profiles.bounded_range import (
    BoundedRangeProfile,
    bounded_range_divergences,
    bounded_range_profile,
    is_affordable,
)
from sottovoce.privacy.profiles.mixed import mixed_delta
from sottovoce.privacy.profiles.response import (
    MOST_LOSSES,
    count_of_losses,
    response_divergences,
    response_loss_distribution,
    response_losses,
)
from sottovoce.privacy.trials import TrialCount

__all__ = [
    "MOST_NOISE",
    "MOST_SAMPLED_STEPS",
    "Accountant",
    "BoundedRangeAccountant",
    "GaussianAccountant",
    "MixedSelectionAccountant",
    "PLDAccountant",
    "RenyiAccountant",
    "SelectionAccountant",
    "accountant_for",
    "gaussian_delta",
    "gaussian_epsilon",
]

Basic = (
    BoundedRangeEvent
    | GaussianEvent
    | PoissonSampledEvent
    | RandomizedResponseEvent
    | RepeatAndSelectEvent
    | NonPrivateEvent
)

_Kind = TypeVar("_Kind", bound=Event)
_Array = np.ndarray[tuple[int], np.dtype[np.float64]]

_MOST_RELEASES: Final = 2**53  # more cannot be told apart in double precision
MOST_NOISE: Final = 1e12  # the square of more overflows or is lost against 1; less noise is the safe side
_MOST_SHIFT: Final = 1e5  # mu^2 of a composition; epsilon is then about 5e4: not worth the memory, so infinite
MOST_SAMPLED_STEPS: Final = 2_000_000  # sampled steps on a grid: time and memory grow with their number
_ON_A_GRID: Final = (PoissonSampledEvent, RandomizedResponseEvent)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)


def flatten(event: Event) -> Counter[Basic]:
    """Count how often each basic event happens; sampling at rate 1 is no sampling, at rate 0 no release."""
    counts: Counter[Basic] = Counter()
    for release, times in releases_of(event):
        for basic, often in _basic(release):
            counts[basic] += times * often
    for basic, times in counts.items():
        if times > _MOST_RELEASES:
            raise AccountingError(f"more than 2**53 releases of one kind cannot be accounted: {basic!r}.")
    return counts


def _basic(event: Event) -> "Iterable[tuple[Basic, int]]":
    """Return what one release is accounted as."""
    match event:
        case PoissonSampledEvent():
            if event.sampling_rate == 1.0:
                return _basic(event.event)
            return ((event, 1),) if event.sampling_rate > 0.0 and math.isfinite(event.event.noise_multiplier) else ()
        case GaussianEvent():
            return ((event, 1),) if math.isfinite(event.noise_multiplier) else ()
        case RepeatAndSelectEvent():
            inner = flatten(event.event)
            if NonPrivateEvent() in inner:
                return ((NonPrivateEvent(), 1),)
            if event.mean == 1.0 or not inner:  # one run, always
                return inner.items()
            runs = tuple(RepeatedEvent(basic, often) for basic, often in _ordered(inner))
            return ((RepeatAndSelectEvent(ComposedEvent(runs), event.mean, event.shape), 1),)
        case PureEvent():  # a randomised response of this epsilon dominates it
            return ((RandomizedResponseEvent(event.epsilon), 1),)
        case NonPrivateEvent() | RandomizedResponseEvent() | BoundedRangeEvent():
            return ((event, 1),)
        case _:
            raise AccountingError(f"no accountant knows events of type {type(event).__name__}: {event!r}.")


class Accountant(ABC):
    """Turns an event into a bound on epsilon at a delta, or on delta at an epsilon."""

    name: str

    def epsilon(self, event: Event, delta: float) -> float:
        """Return an epsilon such that ``event`` is (epsilon, delta)-DP; ``inf`` when there is none.

        Raises
        ------
        ParameterError
            If ``delta`` is not in [0, 1).
        AccountingError
            If this accountant does not know a part of the event.
        """
        delta = number("delta", delta, at_least=0.0, below=1.0)
        counts = flatten(event)
        if not counts:
            return 0.0
        if any(isinstance(basic, NonPrivateEvent) for basic in counts):
            return math.inf
        return self._epsilon(counts, delta)

    def delta(self, event: Event, epsilon: float) -> float:
        """Return a delta such that ``event`` is (epsilon, delta)-DP, at most 1.

        Raises
        ------
        ParameterError
            If ``epsilon`` is not a finite number >= 0.
        AccountingError
            If this accountant does not know a part of the event.
        """
        epsilon = number("epsilon", epsilon, at_least=0.0)
        counts = flatten(event)
        if not counts:
            return 0.0
        if any(isinstance(basic, NonPrivateEvent) for basic in counts):
            return 1.0
        return min(1.0, max(0.0, self._delta(counts, epsilon)))

    @abstractmethod
    def _epsilon(self, counts: "Counter[Basic]", delta: float) -> float: ...

    @abstractmethod
    def _delta(self, counts: "Counter[Basic]", epsilon: float) -> float: ...


class GaussianAccountant(Accountant):
    """Exact curve of any number of Gaussian releases without sampling, and of randomised responses beside them.

    Responses may have up to 1,024 different losses (one more than their number, if all are of one kind).
    """

    name = "exact Gaussian DP"

    def mu(self, event: Event) -> float:
        """Return the mean shift of the one Gaussian release that ``event`` is equivalent to."""
        counts = flatten(event)
        if _only(counts, RandomizedResponseEvent):
            raise AccountingError("no one Gaussian release is equivalent to a randomised response: ask for delta.")
        return self._mu(counts)

    def _mu(self, counts: "Counter[Basic]") -> float:
        """Return the mean shift of the Gaussian releases; responses are counted apart."""
        shifts = []
        for basic, times in counts.items():
            if isinstance(basic, RandomizedResponseEvent):
                continue
            if not isinstance(basic, GaussianEvent):
                others = "" if isinstance(basic, RepeatAndSelectEvent | BoundedRangeEvent) else "PLDAccountant or "
                raise AccountingError(
                    f"exact Gaussian accounting does not cover {basic!r}; use {others}RenyiAccountant."
                )
            shifts.append(math.sqrt(times) / basic.noise_multiplier)
        return math.hypot(*sorted(shifts))

    def _epsilon(self, counts: "Counter[Basic]", delta: float) -> float:
        responses = _only(counts, RandomizedResponseEvent)
        mu = self._mu(counts)
        if not responses:
            return gaussian_epsilon(mu, delta)
        losses, shares = response_losses(responses)
        # beyond the largest loss by the Gaussian's epsilon, each term is within delta; without a Gaussian it is 0
        high = float(losses.max()) + gaussian_epsilon(mu, delta)
        return _least_epsilon(lambda epsilon: _mixed_delta(mu, losses, shares, epsilon), delta, high)

    def _delta(self, counts: "Counter[Basic]", epsilon: float) -> float:
        responses = _only(counts, RandomizedResponseEvent)
        mu = self._mu(counts)
        return _mixed_delta(mu, *response_losses(responses), epsilon) if responses else gaussian_delta(mu, epsilon)


class _MixedAccountant(GaussianAccountant):
    """The same accountant, under the name for receipts of runs with responses."""

    name = "exact Gaussian DP and randomised response"


def gaussian_delta(mu: float, epsilon: float) -> float:
    r"""Return delta(epsilon) of a Gaussian release with mean shift ``mu`` (Dong, Roth, Su 2019, Corollary 2.13).

    With a = mu/2 - epsilon/mu, b = a - mu and the Mills ratio R = Phi/phi, the two terms are phi(a) R(a) and
    phi(a) R(b), which neither overflow nor lose their leading digits; for small mu their difference is
    phi(a) times the integral of R'(x) = 1 + x R(x) from b to a. The relative error, below 1e-11, is added.
    """
    mu = number("mu", mu, at_least=0.0, infinite=True)
    epsilon = number("epsilon", epsilon, at_least=0.0)
    if mu == 0.0:
        return 0.0
    if mu == math.inf:
        return 1.0
    a = (0.5 * mu - epsilon / mu) + 2.0**-50 * (0.5 * mu + epsilon / mu)  # a larger a is a larger delta
    if not a >= -40.0:
        return 0.0  # below the smallest double; NaN where epsilon / mu overflows
    scale = math.exp(-0.5 * a * a)
    if mu < 0.0625:
        x = a - 0.5 * mu * (1.0 - _NODES)
        value = scale * 0.5 * mu * float(_WEIGHTS @ (1.0 / math.sqrt(2.0 * math.pi) + 0.5 * x * _mills(x)))
    else:
        value = (float(ndtr(a)) if a > 0.0 else 0.5 * scale * float(_mills(a))) - 0.5 * scale * float(_mills(a - mu))
    return min(1.0, value * (1.0 + 1e-11))


def _mills(x: "float | _Array") -> "_Array":
    """Return 2 Phi(x) exp(x^2 / 2), the Mills ratio Phi/phi times sqrt(2 / pi)."""
    return erfcx(-np.asarray(x) / math.sqrt(2.0))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the smallest epsilon with gaussian_delta(mu, epsilon) <= ``delta``, rounded up in the last digits."""
    delta = number("delta", delta, at_least=0.0, below=1.0)
    high = max(1.0, mu * mu)
    return _least_epsilon(lambda epsilon: gaussian_delta(mu, epsilon), delta, math.inf if delta == 0.0 else high)


def _mixed_delta(mu: float, losses: "_Array", shares: "_Array", epsilon: float) -> float:
    """Return delta(epsilon) of a Gaussian release of mean shift ``mu`` beside a discrete privacy loss, rounded up."""
    terms = (
        share * _gaussian_divergence(mu, epsilon - loss)
        for loss, share in zip(losses.tolist(), shares.tolist(), strict=True)
    )
    return min(1.0, math.fsum(terms) * (1.0 + 1e-11))


def _gaussian_divergence(mu: float, epsilon: float) -> float:
    """Return delta of a Gaussian release at an epsilon of any sign: E_(1/a) = 1 - 1/a + E_a / a."""
    if epsilon >= 0.0:
        return gaussian_delta(mu, epsilon)
    return -math.expm1(epsilon) + math.exp(epsilon) * gaussian_delta(mu, -epsilon)


def _least_epsilon(curve: Callable[[float], float], delta: float, high: float) -> float:
    """Return the smallest epsilon with ``curve(epsilon) <= delta``, rounded up; ``high`` is a guess that is enough."""
    if curve(0.0) <= delta:
        return 0.0
    if high == math.inf:
        return math.inf
    while curve(high) > delta:
        high *= 2.0
    if curve(high) == delta == 0.0:  # no root but an end: the largest loss
        return high
    epsilon = float(brentq(lambda value: curve(value) - delta, 0.0, high, xtol=1e-30, rtol=1e-14, maxiter=1000))
    return min(high, nudge(epsilon, lambda value: curve(value) <= delta, up=True))


def nudge(value: float, good: Callable[[float], bool], *, up: bool) -> float:
    """Move ``value`` in tiny relative steps until ``good(value)``: a solver's last digit never favours us."""
    step = 1e-14
    while not good(value):
        value = value * (1 + step) + 1e-300 if up else value * (1 - step)
        step *= 2.0
    return value


class PLDAccountant(Accountant):
    """Privacy loss distributions, rounded up: Gaussians with and without sampling, responses.

    Parameters
    ----------
    grid : float or None
        Step of the privacy loss grid. None takes 1e-4, or finer where a step's own loss is finer: a tenth of the
        standard deviation of the loss of one sampled step, q sqrt(exp(1/s^2) - 1), but not below 2e-6, or a tenth of
        the loss of a randomised response where there are so many that rounding each would show, but not below 2e-6;
        coarser where epsilon is large, about 1e-5 of it.

    Notes
    -----
    Compositions that are far from private (epsilon of some 5e4 and more) are given epsilon = inf and delta = 1; those
    of Gaussian releases and responses the exact Gaussian epsilon plus the epsilons of all responses. More than 2
    million steps of one kind (other than plain Gaussians) are refused.
    """

    name = "privacy loss distribution"

    def __init__(self, grid: float | None = None) -> None:
        self._grid = None if grid is None else number("grid", grid, above=0.0, at_most=0.1)

    def _epsilon(self, counts: "Counter[Basic]", delta: float) -> float:
        if _shift_squared(counts) > _MOST_SHIFT:
            return _added_epsilon(counts, delta)
        return _pld_epsilon(tuple(_ordered(counts)), self._step(counts), delta)

    def _delta(self, counts: "Counter[Basic]", epsilon: float) -> float:
        if _shift_squared(counts) > _MOST_SHIFT:
            return _added_delta(counts, epsilon)
        return float(_composed_pld(tuple(_ordered(counts)), self._step(counts)).get_delta(epsilon))

    def _step(self, counts: "Counter[Basic]") -> float:
        if self._grid is not None:
            return self._grid
        shift = _shift_squared(counts)
        coarse = 1e-6 * shift
        step = 1e-4
        for basic, times in counts.items():
            if isinstance(basic, PoissonSampledEvent):
                step = min(step, 1e-4, 0.1 * math.sqrt(_sampled_variance(basic)))
                # epsilon is too large by a millionth of itself at most then, measured
                coarse = max(coarse, 2e-6, 1e-5 * _inverse_square(basic.event), 2e-5 * shift)
            elif isinstance(basic, RandomizedResponseEvent):
                step = min(step, 1e-4, max(0.1 * basic.epsilon, 1e-4 / times))
                coarse = max(coarse, 2e-6, 1e-5 * basic.epsilon)
            elif isinstance(basic, GaussianEvent):  # many of them are one with less noise
                coarse = max(coarse, 1e-5 * times * _inverse_square(basic))
        return min(max(step, coarse), 0.1)


def _added_epsilon(counts: "Counter[Basic]", delta: float) -> float:
    """Return the exact epsilon of the Gaussian releases plus those of the responses; ``inf`` if there are others."""
    pure = _pure_epsilon(counts)
    if math.isinf(pure):
        return math.inf
    return pure + gaussian_epsilon(GaussianAccountant()._mu(counts), delta)


def _added_delta(counts: "Counter[Basic]", epsilon: float) -> float:
    """Return delta of the Gaussian releases at what the responses leave of epsilon; 1 if there are others."""
    pure = _pure_epsilon(counts)
    if not pure <= epsilon:
        return 1.0
    return gaussian_delta(GaussianAccountant()._mu(counts), (epsilon - pure) * (1.0 - 2.0**-50))


def _pure_epsilon(counts: "Counter[Basic]") -> float:
    """Return the epsilons of all responses added up; ``inf`` without any, or beside more than Gaussian releases."""
    responses = _only(counts, RandomizedResponseEvent)
    if not responses or not all(isinstance(basic, GaussianEvent | RandomizedResponseEvent) for basic in counts):
        return math.inf
    return math.fsum(times * basic.epsilon for basic, times in responses.items()) * (1.0 + 2.0**-50)


def _inverse_square(event: GaussianEvent) -> float:
    inverse = 1.0 / min(event.noise_multiplier, MOST_NOISE)
    return inverse * inverse


def _sampled_variance(event: PoissonSampledEvent) -> float:
    """Return the variance of the likelihood ratio of one sampled step, q^2 (exp(1/s^2) - 1)."""
    return event.sampling_rate**2 * math.expm1(min(_inverse_square(event.event), 700.0))


def _shift_squared(counts: "Counter[Basic]") -> float:
    """Return mu^2 of the Gaussian that the composition is like, or twice its mean loss where noise is low; roughly."""
    total = 0.0
    for basic, times in counts.items():
        if isinstance(basic, PoissonSampledEvent):
            total += times * min(basic.sampling_rate * _inverse_square(basic.event), _sampled_variance(basic))
        elif isinstance(basic, GaussianEvent):
            total += times * _inverse_square(basic)
        elif isinstance(basic, RandomizedResponseEvent):
            total += times * 2.0 * basic.epsilon * math.tanh(0.5 * basic.epsilon)
        elif isinstance(basic, BoundedRangeEvent):
            total += times * basic.epsilon * min(0.25 * basic.epsilon, 2.0)
    return total


@lru_cache(maxsize=16)
def _composed_pld(counts: tuple[tuple[Basic, int], ...], grid: float) -> _PldAccountant:
    """Compose once for several questions about the same run; the result is only read."""
    for basic, times in counts:
        if isinstance(basic, _ON_A_GRID) and times > MOST_SAMPLED_STEPS:
            raise AccountingError(
                f"{times} steps of one kind are too many for a privacy loss distribution (at most "
                f"{MOST_SAMPLED_STEPS}); use RenyiAccountant."
            )
    with _quiet():
        accountant = _PldAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE, value_discretization_interval=grid)
        for basic, times in counts:
            if isinstance(basic, RandomizedResponseEvent):
                one = response_loss_distribution(basic, grid)  # dp-accounting's own event forgets the count
            else:
                accountant.compose(_translate(basic), times)
                continue
            accountant._pld = accountant._pld.compose(one.self_compose(times))
    return accountant


@lru_cache(maxsize=256)
def _pld_epsilon(counts: tuple[tuple[Basic, int], ...], grid: float, delta: float) -> float:
    """Ask once for each run: plans, receipts and copies of a receipt all ask the same."""
    return float(_composed_pld(counts, grid).get_epsilon(delta))


class RenyiAccountant(Accountant):
    """Renyi differential privacy, minimised over a list of orders.

    Parameters
    ----------
    orders : sequence of float or None
        Renyi orders, each above 1. None takes a dense list up to 1024.
    conversion : {"tight", "moments"}
        From Renyi DP to epsilon: the tight one [1]_ together with delta <= sqrt(1 - exp(-divergence)) [2]_, as in
        dp-accounting, or log(1/delta)/(order - 1) as in the moments accountant, here with the
        whole orders 2 to 129.

    References
    ----------
    .. [1] Canonne, Kamath, Steinke (2020). The Discrete Gaussian for Differential Privacy. arXiv:2004.00010v4,
       Proposition 12.
    .. [2] Bretagnolle, Huber (1979). Estimation des densites: risque minimax. Theorem 2.1.
    """

    name = "Renyi DP"

    def __init__(self, orders: "tuple[float, ...] | None" = None, conversion: str = "tight") -> None:
        if orders is None:
            orders = (
                tuple(float(order) for order in range(2, 130))
                if conversion == "moments"
                else (*(1 + x / 10 for x in range(1, 100)), *range(11, 65), 80, 96, 128, 192, 256, 512, 1024)
            )
        self._orders = tuple(number("orders", order, above=1.0) for order in orders)
        self._conversion = choice("conversion", conversion, ("tight", "moments"))
        if not self._orders:
            raise ParameterError("orders must hold at least one number above 1; got ().")

    def divergences(self, event: Event) -> "_Array":
        """Return a bound on the Renyi divergence of ``event`` at each order, in both directions.

        Raises
        ------
        AccountingError
            If a part of the event is not known, or has no protection.
        """
        counts = flatten(event)
        if NonPrivateEvent() in counts:
            raise AccountingError("a release without protection has no Renyi divergence.")
        return self._divergences(counts)

    def _epsilon(self, counts: "Counter[Basic]", delta: float) -> float:
        if delta == 0.0:
            return math.inf
        orders, divergences = np.array(self._orders), self._divergences(counts)
        epsilons = divergences - math.log(delta) / (orders - 1)
        if self._conversion == "tight":
            epsilons += np.log1p(-1 / orders) - np.log(orders) / (orders - 1)
            epsilons[-np.expm1(-divergences) < delta * delta] = 0.0
        return max(0.0, float(np.min(epsilons)))

    def _delta(self, counts: "Counter[Basic]", epsilon: float) -> float:
        return self._delta_of(self._divergences(counts), epsilon)

    def _delta_of(self, divergences: "_Array", epsilon: float) -> float:
        orders = np.array(self._orders)
        logarithms = (orders - 1) * (divergences - epsilon)
        if self._conversion == "moments":
            return math.exp(min(0.0, float(np.min(logarithms))))
        logarithms += (orders - 1) * np.log1p(-1 / orders) - np.log(orders)
        return min(math.exp(min(0.0, float(np.min(logarithms)))), math.sqrt(-math.expm1(-float(np.min(divergences)))))

    def _divergences(self, counts: "Counter[Basic]") -> "_Array":
        searches = _only(counts, RepeatAndSelectEvent)
        total = self._plain_divergences(Counter({key: often for key, often in counts.items() if key not in searches}))
        for basic, times in _ordered(searches):
            total = total + times * self._search_divergences(basic)
        return total

    def _search_divergences(self, event: RepeatAndSelectEvent) -> "_Array":
        one = self._divergences(flatten(event.event))
        best: _Array = TrialCount(event.mean, event.shape).divergences(
            np.array(self._orders), one, lambda epsilon: self._delta_of(one, epsilon)
        )
        return best

    def _plain_divergences(self, counts: "Counter[Basic]") -> "_Array":
        """Return the divergences without searches, with what double precision may have taken off added again."""
        if _shift_squared(counts) > _MOST_SHIFT:
            return np.full(len(self._orders), np.inf)
        with _quiet():
            accountant = _rdp.RdpAccountant(list(self._orders), NeighboringRelation.ADD_OR_REMOVE_ONE)
            for basic, times in _ordered(counts):
                if not isinstance(basic, (RandomizedResponseEvent, BoundedRangeEvent)):
                    accountant.compose(_translate(basic), times)
        sampled = [
            times * basic.sampling_rate for basic, times in counts.items() if isinstance(basic, PoissonSampledEvent)
        ]
        divergences: _Array = np.array(accountant._rdp)
        for basic, times in _ordered(counts):
            if isinstance(basic, RandomizedResponseEvent):
                divergences += times * response_divergences(basic, np.array(self._orders))
            elif isinstance(basic, BoundedRangeEvent):
                divergences += times * bounded_range_divergences(basic, np.array(self._orders))
        return np.maximum(divergences, 0.0) * (1.0 + 1e-12) + 1e-14 * math.fsum(sorted(sampled))


class BoundedRangeAccountant(Accountant):
    """Bounded-range releases of one width, each chosen with those before it in sight: about 2,000 of them, or fewer."""

    name = "optimal adaptive composition of bounded-range mechanisms"

    def _epsilon(self, counts: "Counter[Basic]", delta: float) -> float:
        profile, most = self._profile(counts)
        return min(most, profile.epsilon(delta)) if profile is not None else most

    def _delta(self, counts: "Counter[Basic]", epsilon: float) -> float:
        profile, most = self._profile(counts)
        if epsilon >= most:
            return 0.0
        return profile.delta(epsilon) if profile is not None else 1.0

    def _profile(self, counts: "Counter[Basic]") -> tuple[BoundedRangeProfile | None, float]:
        """Return the profile (None where it is not worth the memory), and the pure epsilon of basic composition."""
        (basic, times), *others = counts.items()
        if others or not isinstance(basic, BoundedRangeEvent) or not is_affordable(basic, times):
            raise AccountingError(
                "BoundedRangeAccountant covers releases of one BoundedRangeEvent, about 2,000 if they are narrow, not "
                f"{dict(counts)!r}; use RenyiAccountant."
            )
        most = times * basic.epsilon * (1.0 + 2.0**-50)
        return (None if _shift_squared(counts) > _MOST_SHIFT else bounded_range_profile(basic, times)), most


class MixedSelectionAccountant(Accountant):
    """Bounded-range releases of one width beside Gaussian releases and up to 1,023 losses of randomised responses."""

    name = "optimal composition of bounded-range, Gaussian and randomised-response releases"

    def _epsilon(self, counts: "Counter[Basic]", delta: float) -> float:
        if _shift_squared(counts) > _MOST_SHIFT:
            return math.inf
        renyi = RenyiAccountant()._epsilon(counts, delta)  # it can resolve a delta that a lattice cannot
        parts = self._parts(counts)
        if delta == 0.0 or self._curve(parts, renyi) > delta:
            return renyi
        return min(renyi, _least_epsilon(lambda epsilon: self._curve(parts, epsilon), delta, max(renyi, 1e-6)))

    def _delta(self, counts: "Counter[Basic]", epsilon: float) -> float:
        if _shift_squared(counts) > _MOST_SHIFT:
            return 1.0
        return min(self._curve(self._parts(counts), epsilon), RenyiAccountant()._delta(counts, epsilon))

    @staticmethod
    def covers(counts: "Counter[Basic]") -> bool:
        """Return whether the releases are of these kinds, and few enough."""
        selections = list(_only(counts, BoundedRangeEvent).items())
        kinds = (BoundedRangeEvent, GaussianEvent, RandomizedResponseEvent)
        return (
            len(selections) == 1
            and all(isinstance(basic, kinds) for basic in counts)
            and is_affordable(*selections[0])
            and count_of_losses(_only(counts, RandomizedResponseEvent)) <= MOST_LOSSES
        )

    def _parts(self, counts: "Counter[Basic]") -> "tuple[BoundedRangeProfile, float, _Array, _Array]":
        if not self.covers(counts):
            raise AccountingError(
                "MixedSelectionAccountant covers releases of one BoundedRangeEvent beside Gaussian releases and a few "
                f"randomised responses, not {dict(counts)!r}; use RenyiAccountant."
            )
        others: Counter[Basic] = Counter({**_only(counts, GaussianEvent)})
        ((selection, count),) = _only(counts, BoundedRangeEvent).items()
        losses, shares = response_losses(_only(counts, RandomizedResponseEvent))
        return bounded_range_profile(selection, count), GaussianAccountant()._mu(others), losses, shares

    @staticmethod
    def _curve(parts: "tuple[BoundedRangeProfile, float, _Array, _Array]", epsilon: float) -> float:
        return mixed_delta(*parts, epsilon)


class SelectionAccountant(Accountant):
    r"""The privacy profile of one private search, by itself, from the profile of one trial.

    .. math:: \delta_{search}(\varepsilon) \le E[K] \, \delta_{trial}(\varepsilon - r),

    where r bounds the logarithm of the ratio of the slopes that the choice of the best trial has under the two tables
    (`sottovoce.privacy.trials.TrialCount.log_ratio`). Tighter than Renyi DP, but it does not compose.
    """

    name = "privacy profile of private selection"

    def _epsilon(self, counts: "Counter[Basic]", delta: float) -> float:
        event, trial, shift = self._trial(counts)
        return shift + trial.epsilon(event.event, delta / event.mean * (1.0 - 1e-12))

    def _delta(self, counts: "Counter[Basic]", epsilon: float) -> float:
        event, trial, shift = self._trial(counts)
        if epsilon < shift:
            return 1.0
        return event.mean * trial.delta(event.event, (epsilon - shift) * (1.0 - 1e-12)) * (1.0 + 1e-12)

    def _trial(self, counts: "Counter[Basic]") -> tuple[RepeatAndSelectEvent, Accountant, float]:
        (event, times), *others = counts.items()
        if (
            others
            or times > 1
            or not isinstance(event, RepeatAndSelectEvent)
            or _only(flatten(event.event), RepeatAndSelectEvent)
        ):
            raise AccountingError(
                f"SelectionAccountant covers one search by itself, without a search inside, not {dict(counts)!r}; use "
                "RenyiAccountant."
            )
        trial = accountant_for(event.event)
        law = TrialCount(event.mean, event.shape)
        return event, trial, law.log_ratio(lambda epsilon: trial.delta(event.event, epsilon))


def accountant_for(event: Event) -> Accountant:
    """Return the tightest accountant that covers ``event``: exact for Gaussians and a few responses, else PLD.

    Above 2 million steps of one kind that are not plain Gaussians it is Renyi DP, whose work does not grow with them.
    A private search by itself has an accountant of its own, as have exponential mechanisms of one kind, also beside
    Gaussians and a few responses; together with other releases it is Renyi DP.
    """
    counts = flatten(event)
    searches = _only(counts, RepeatAndSelectEvent)
    if searches:
        (first, *_), alone = searches, counts.total() == 1
        return (
            SelectionAccountant()
            if alone and not _only(flatten(first.event), RepeatAndSelectEvent)
            else RenyiAccountant()
        )
    selections = list(_only(counts, BoundedRangeEvent).items())
    if selections:
        if len(counts) == 1 and is_affordable(*selections[0]):
            return BoundedRangeAccountant()
        return MixedSelectionAccountant() if MixedSelectionAccountant.covers(counts) else RenyiAccountant()
    responses = _only(counts, RandomizedResponseEvent)
    steps = [times for basic, times in counts.items() if isinstance(basic, _ON_A_GRID)]
    if len(steps) == len(responses) and count_of_losses(responses) <= MOST_LOSSES:
        return _MixedAccountant() if responses else GaussianAccountant()
    return PLDAccountant() if max(steps) <= MOST_SAMPLED_STEPS else RenyiAccountant()


def _only(counts: "Counter[Basic]", kind: type[_Kind]) -> "Counter[_Kind]":
    return Counter({basic: times for basic, times in counts.items() if isinstance(basic, kind)})


def _ordered(counts: "Counter[_Kind]") -> "list[tuple[_Kind, int]]":
    """Sort the basic events, so that the order of composition cannot change a rounding."""
    return sorted(counts.items(), key=lambda item: repr(item[0]))


def _translate(basic: Basic) -> dp_event.DpEvent:
    match basic:
        case GaussianEvent():
            return dp_event.GaussianDpEvent(min(basic.noise_multiplier, MOST_NOISE))
        case PoissonSampledEvent():
            inner = dp_event.GaussianDpEvent(min(basic.event.noise_multiplier, MOST_NOISE))
            return dp_event.PoissonSampledDpEvent(basic.sampling_rate, inner)
        case RepeatAndSelectEvent() | BoundedRangeEvent():
            raise AccountingError(f"privacy loss distributions do not cover {basic!r}; use RenyiAccountant.")
        case _:
            raise AccountingError(f"no translation of {basic!r} for this accountant.")


@contextlib.contextmanager
def _quiet() -> "Iterator[None]":
    """Silence dp-accounting's chatter about orders and truncation: none of it says that a bound is wrong."""
    level = absl_logging.get_verbosity()
    absl_logging.set_verbosity(absl_logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        absl_logging.set_verbosity(level)
