r"""Gaussian releases, on all rows and on a secret sample of them, and the exact privacy curve of the former.

k releases with noise multipliers s_i compose to one Gaussian of mean shift mu = sqrt(sum 1/s_i^2), whose curve is [1]_

.. math:: \delta(\varepsilon) = \Phi(-\varepsilon/\mu + \mu/2) - e^\varepsilon \Phi(-\varepsilon/\mu - \mu/2).

References
----------
.. [1] Dong, Roth, Su (2019). Gaussian Differential Privacy. arXiv:1905.02383, Corollary 2.13 and Corollary 3.3.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, Final

import numpy as np
from scipy.special import erfcx, ndtr

from sottovoce._numerics import Vector, least_root
from sottovoce._validation import number
from sottovoce.exceptions import ParameterError
from sottovoce.privacy.event import MOST_SHIFT, Basic, Offers, Rule, dp_accounting

MOST_NOISE: Final = 1e12  # the square of more overflows or is lost against 1; less noise is the safe side
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)


@dataclass(frozen=True)
class GaussianEvent(Basic):
    """One release of a vector plus Gaussian noise.

    Parameters
    ----------
    noise_multiplier : float, > 0
        Standard deviation of the noise divided by the L2 sensitivity (no unit). ``inf`` releases nothing.
    """

    noise_multiplier: Annotated[float, Rule(partial(number, above=0.0, infinite=True))]
    kind: ClassVar[str] = "gaussian"
    words: ClassVar[str] = "Gaussian release, noise multiplier {noise_multiplier:.6g}"

    def basics(self) -> Iterable[tuple[Basic, int]]:
        return ((self, 1),) if math.isfinite(self.noise_multiplier) else ()

    @property
    def offers(self) -> Offers:
        return Offers(noise=self.noise_multiplier)

    @property
    def kept(self) -> float:
        """The noise multiplier, cut to what can be told apart."""
        return min(self.noise_multiplier, MOST_NOISE)

    @property
    def inverse_square(self) -> float:
        return (1.0 / self.kept) * (1.0 / self.kept)

    def divergences(self, orders: Vector) -> Vector:
        return orders / (2.0 * self.kept**2)

    def shift_squared(self, times: int) -> float:
        return times * self.inverse_square

    def loss_step(self, times: int, shift: float) -> tuple[float, float]:
        return math.inf, 1e-5 * times * self.inverse_square  # many of them are one with less noise

    def loss_distribution(self, times: int, step: float) -> Any:
        losses = dp_accounting("pld.privacy_loss_distribution")
        return losses.from_gaussian_mechanism(self.kept / math.sqrt(times), value_discretization_interval=step)

    def to_dp_event(self, conservative: bool) -> Any:
        events = dp_accounting("dp_event")
        return events.GaussianDpEvent(self.kept) if math.isfinite(self.noise_multiplier) else events.NoOpDpEvent()


def _gaussian(name: str, value: object) -> GaussianEvent:
    if not isinstance(value, GaussianEvent):
        raise ParameterError(
            f"{name} must be a GaussianEvent (amplification by sampling is accounted for no other); got {value!r}."
        )
    return value


@dataclass(frozen=True)
class PoissonSampledEvent(Basic):
    """A Gaussian release computed on a secret sample: each row is in it with probability ``sampling_rate``, on its own.

    Parameters
    ----------
    sampling_rate : float, in [0, 1]
    event : GaussianEvent
    """

    sampling_rate: Annotated[float, Rule(partial(number, at_least=0.0, at_most=1.0))]
    event: Annotated[GaussianEvent, Rule(_gaussian, GaussianEvent.from_dict)]
    kind: ClassVar[str] = "poisson-sampled"

    def describe(self) -> str:
        return f"{self.event.describe()}, on a secret Poisson sample at rate {self.sampling_rate:.6g}"

    def basics(self) -> Iterable[tuple[Basic, int]]:
        if self.sampling_rate == 1.0:
            return self.event.basics()
        return ((self, 1),) if self.sampling_rate > 0.0 and math.isfinite(self.event.noise_multiplier) else ()

    def divergences(self, orders: Vector) -> Vector:
        accountant = dp_accounting("rdp.rdp_privacy_accountant").RdpAccountant(list(orders))
        divergences: Vector = accountant.compose(self.to_dp_event(False)).rdp
        return divergences

    @property
    def offers(self) -> Offers:
        return Offers(lost=self.sampling_rate)

    @property
    def _variance(self) -> float:
        """Variance of the likelihood ratio of one step, q^2 (exp(1/s^2) - 1)."""
        return self.sampling_rate**2 * math.expm1(min(self.event.inverse_square, 700.0))

    def shift_squared(self, times: int) -> float:
        seldom = min(self.sampling_rate * self.event.inverse_square, self._variance)
        # the losses of a step that is far from private by itself take that memory, however seldom there are any
        return times * max(seldom, self.event.inverse_square if self.event.inverse_square > MOST_SHIFT else 0.0)

    def loss_step(self, times: int, shift: float) -> tuple[float, float]:
        # epsilon is too large by a millionth of itself at most then, measured
        coarse = max(2e-6, 1e-5 * self.event.inverse_square, 2e-5 * shift)
        return min(1e-4, 0.1 * math.sqrt(self._variance)), coarse

    def loss_distribution(self, times: int, step: float) -> Any:
        return dp_accounting("pld.privacy_loss_distribution").from_gaussian_mechanism(
            self.event.kept, value_discretization_interval=step, sampling_prob=self.sampling_rate
        ).self_compose(times)  # fmt: skip

    def to_dp_event(self, conservative: bool) -> Any:
        events, inner = dp_accounting("dp_event"), self.event.to_dp_event(conservative)
        nothing = self.sampling_rate == 0.0 or isinstance(inner, events.NoOpDpEvent)
        return events.NoOpDpEvent() if nothing else events.PoissonSampledDpEvent(self.sampling_rate, inner)


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


def _mills(x: float | Vector) -> Vector:
    """Return 2 Phi(x) exp(x^2 / 2), the Mills ratio Phi/phi times sqrt(2 / pi)."""
    return erfcx(-np.asarray(x) / math.sqrt(2.0))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the smallest epsilon with gaussian_delta(mu, epsilon) <= ``delta``, rounded up in the last digits."""
    delta = number("delta", delta, at_least=0.0, below=1.0)
    high = max(1.0, mu * mu)
    return least_root(lambda epsilon: gaussian_delta(mu, epsilon), delta, math.inf if delta == 0.0 else high)


def gaussian_divergence(mu: float, epsilon: float) -> float:
    """Return delta of a Gaussian release at an epsilon of any sign: E_(1/a) = 1 - 1/a + E_a / a."""
    if epsilon >= 0.0:
        return gaussian_delta(mu, epsilon)
    return -math.expm1(epsilon) + math.exp(epsilon) * gaussian_delta(mu, -epsilon)
