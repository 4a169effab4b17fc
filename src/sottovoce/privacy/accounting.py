r"""Accountants: from events to epsilon and delta, never too small.

Three of them, each right for every event it accepts, refusing the others:

* `GaussianAccountant`: exact, for Gaussian releases without sampling. k releases with noise multipliers s_i compose to
  one Gaussian of mean shift mu = sqrt(sum 1/s_i^2), whose curve is [1]_

  .. math:: \delta(\varepsilon) = \Phi(-\varepsilon/\mu + \mu/2) - e^\varepsilon \Phi(-\varepsilon/\mu - \mu/2).

* `PLDAccountant`: privacy loss distributions on a grid, rounded against ourselves (dp-accounting [2]_); for
  compositions with Poisson sampling.
* `RenyiAccountant`: Renyi DP over a list of orders (dp-accounting), with the tight conversion to epsilon or with the
  one of the moments accountant [3]_, which is kept to reproduce older papers.

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
from collections.abc import Iterator

import numpy as np
from absl import logging as absl_logging
from dp_accounting import dp_event
from dp_accounting.pld.pld_privacy_accountant import PLDAccountant as _PldAccountant
from dp_accounting.privacy_accountant import NeighboringRelation
from dp_accounting.rdp.rdp_privacy_accountant import RdpAccountant as _RdpAccountant
from scipy.optimize import brentq
from scipy.special import log_ndtr

from sottovoce._validation import choice, number
from sottovoce.exceptions import AccountingError, ParameterError
from sottovoce.privacy.events import (
    ComposedEvent,
    Event,
    GaussianEvent,
    NonPrivateEvent,
    NothingReleased,
    PoissonSampledEvent,
    RepeatedEvent,
)

__all__ = [
    "Accountant",
    "GaussianAccountant",
    "PLDAccountant",
    "RenyiAccountant",
    "accountant_for",
    "gaussian_delta",
    "gaussian_epsilon",
]

Basic = GaussianEvent | PoissonSampledEvent | NonPrivateEvent


def flatten(event: Event) -> Counter[Basic]:
    """Count how often each basic event happens; sampling at rate 1 is no sampling, at rate 0 no release."""
    counts: Counter[Basic] = Counter()
    _collect(event, 1, counts)
    return counts


def _collect(event: Event, times: int, counts: "Counter[Basic]") -> None:
    match event:
        case NothingReleased():
            return
        case ComposedEvent():
            for part in event.events:
                _collect(part, times, counts)
        case RepeatedEvent():
            if event.count:
                _collect(event.event, times * event.count, counts)
        case PoissonSampledEvent():
            if event.sampling_rate == 1.0:
                _collect(event.event, times, counts)
            elif event.sampling_rate > 0.0 and math.isfinite(event.event.noise_multiplier):
                counts[event] += times
        case GaussianEvent():
            if math.isfinite(event.noise_multiplier):
                counts[event] += times
        case NonPrivateEvent():
            counts[event] += times
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
    """Exact curve of any number of Gaussian releases without sampling."""

    name = "exact Gaussian DP"

    def mu(self, event: Event) -> float:
        """Return the mean shift of the one Gaussian release that ``event`` is equivalent to."""
        return self._mu(flatten(event))

    def _mu(self, counts: "Counter[Basic]") -> float:
        terms = []
        for basic, times in counts.items():
            if not isinstance(basic, GaussianEvent):
                raise AccountingError(
                    f"exact Gaussian accounting does not cover {basic!r}; use PLDAccountant or RenyiAccountant."
                )
            terms.append(times / basic.noise_multiplier**2)
        return math.sqrt(math.fsum(sorted(terms)))

    def _epsilon(self, counts: "Counter[Basic]", delta: float) -> float:
        return gaussian_epsilon(self._mu(counts), delta)

    def _delta(self, counts: "Counter[Basic]", epsilon: float) -> float:
        return gaussian_delta(self._mu(counts), epsilon)


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Return delta(epsilon) of a Gaussian release with mean shift ``mu`` (Dong, Roth, Su 2019, Corollary 2.13)."""
    mu = number("mu", mu, at_least=0.0, infinite=True)
    if mu == 0.0:
        return 0.0
    if mu == math.inf:
        return 1.0
    log_first = float(log_ndtr(-epsilon / mu + mu / 2))
    log_second = epsilon + float(log_ndtr(-epsilon / mu - mu / 2))
    # first - second without cancellation; the second is never larger
    return math.exp(log_first) * -math.expm1(min(0.0, log_second - log_first))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the smallest epsilon with gaussian_delta(mu, epsilon) <= ``delta``, rounded up in the last digits."""
    if gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    if delta == 0.0 or mu == math.inf:
        return math.inf
    high = max(1.0, mu * mu)
    while gaussian_delta(mu, high) > delta:
        high *= 2.0
    epsilon = float(brentq(lambda value: gaussian_delta(mu, value) - delta, 0.0, high, xtol=1e-14, rtol=1e-14))
    return nudge(epsilon, lambda value: gaussian_delta(mu, value) <= delta, up=True)


def nudge(value: float, good: "object", *, up: bool) -> float:
    """Move ``value`` in tiny relative steps until ``good(value)``: a solver's last digit never favours us."""
    step = 1e-14
    while not good(value):  # type: ignore[operator]
        value = value * (1 + step) + 1e-300 if up else value * (1 - step)
        step *= 2.0
    return value


class PLDAccountant(Accountant):
    """Privacy loss distributions, rounded up, for Gaussian releases with and without Poisson sampling.

    Parameters
    ----------
    grid : float or None
        Step of the privacy loss grid. None takes 1e-4, or finer where a step's own loss is finer: a tenth of the
        standard deviation of the loss of one sampled step, q sqrt(exp(1/s^2) - 1), but not below 2e-6.
    """

    name = "privacy loss distribution"

    def __init__(self, grid: float | None = None) -> None:
        self._grid = None if grid is None else number("grid", grid, above=0.0, at_most=0.1)

    def _epsilon(self, counts: "Counter[Basic]", delta: float) -> float:
        return float(self._compose(counts).get_epsilon(delta))

    def _delta(self, counts: "Counter[Basic]", epsilon: float) -> float:
        return float(self._compose(counts).get_delta(epsilon))

    def _compose(self, counts: "Counter[Basic]") -> _PldAccountant:
        with _quiet():
            accountant = _PldAccountant(
                NeighboringRelation.ADD_OR_REMOVE_ONE, value_discretization_interval=self._step(counts)
            )
            for basic, times in _ordered(counts):
                accountant.compose(_translate(basic), times)
        return accountant

    def _step(self, counts: "Counter[Basic]") -> float:
        if self._grid is not None:
            return self._grid
        step = 1e-4
        for basic in counts:
            if isinstance(basic, PoissonSampledEvent):
                exponent = min(basic.event.noise_multiplier**-2, 700.0)
                step = min(step, 0.1 * basic.sampling_rate * math.sqrt(math.expm1(exponent)))
        return max(step, 2e-6)


class RenyiAccountant(Accountant):
    """Renyi differential privacy, minimised over a list of orders.

    Parameters
    ----------
    orders : sequence of float or None
        Renyi orders, each above 1. None takes a dense list up to 1024.
    conversion : {"tight", "moments"}
        From Renyi DP to epsilon: the tight one of dp-accounting, or log(1/delta)/(order - 1) as in the moments
        accountant, whose published form uses the whole orders 2 to 129.
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

    def _epsilon(self, counts: "Counter[Basic]", delta: float) -> float:
        if delta == 0.0:
            return math.inf
        accountant = self._compose(counts)
        if self._conversion == "tight":
            return float(accountant.get_epsilon(delta))
        return max(0.0, float(np.min(self._divergences(accountant) + math.log(1 / delta) / (self._alphas() - 1))))

    def _delta(self, counts: "Counter[Basic]", epsilon: float) -> float:
        accountant = self._compose(counts)
        if self._conversion == "tight":
            return float(accountant.get_delta(epsilon))
        return float(np.exp(np.min((self._alphas() - 1) * (self._divergences(accountant) - epsilon))))

    def _alphas(self) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
        return np.array(self._orders)

    def _divergences(self, accountant: _RdpAccountant) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
        return np.array(accountant._rdp)

    def _compose(self, counts: "Counter[Basic]") -> _RdpAccountant:
        with _quiet():
            accountant = _RdpAccountant(list(self._orders), NeighboringRelation.ADD_OR_REMOVE_ONE)
            for basic, times in _ordered(counts):
                accountant.compose(_translate(basic), times)
        return accountant


def accountant_for(event: Event) -> Accountant:
    """Return the tightest accountant that covers ``event``: exact where nothing is sampled, else PLD."""
    sampled = any(isinstance(basic, PoissonSampledEvent) for basic in flatten(event))
    return PLDAccountant() if sampled else GaussianAccountant()


def _ordered(counts: "Counter[Basic]") -> "list[tuple[Basic, int]]":
    """Sort the basic events, so that the order of composition cannot change a rounding."""
    return sorted(counts.items(), key=lambda item: repr(item[0]))


def _translate(basic: Basic) -> dp_event.DpEvent:
    match basic:
        case GaussianEvent():
            return dp_event.GaussianDpEvent(basic.noise_multiplier)
        case PoissonSampledEvent():
            inner = dp_event.GaussianDpEvent(basic.event.noise_multiplier)
            return dp_event.PoissonSampledDpEvent(basic.sampling_rate, inner)
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
