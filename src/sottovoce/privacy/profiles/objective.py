r"""The privacy curve of objective perturbation, as accountants need it.

With D = 1/noise_multiplier, k = log(1 + curvature_ratio) and g(a) the hockey-stick divergence of order a of N(D, 1) and
N(0, 1), the release with a row (law P) and without it (law Q) satisfies, for every a > 0,

.. math:: E_a(P \| Q) \le h(a), \qquad E_a(Q \| P) \le 1 - a + a h(1/a), \qquad
    h(a) = g(a) \; (a \le 1), \quad g(\max(1, a e^{-k})) \; (a > 1).

No factor of two, because the derivative of the loss of one row has one sign; and the curvature helps one direction
only. Proof: ``docs/privacy/objective_perturbation.md``, Theorem 1.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, Final

import numpy as np
from dp_accounting.pld.pld_pmf import PLDPmf, create_pmf_pessimistic_connect_dots_fixed_gap
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
from numpy.typing import NDArray
from scipy.special import erfcx, log_ndtr, ndtr

from sottovoce._numerics import Vector
from sottovoce._validation import number
from sottovoce.privacy.event import Basic, Rule
from sottovoce.privacy.profiles.gaussian import MOST_NOISE

__all__ = ["ObjectivePerturbationEvent"]

_REACH: Final = 14.0  # standard deviations of the loss on the grid; the mass beyond, 1e-44, is counted as infinite
_MILLS: Final = math.sqrt(0.5)


@dataclass(frozen=True)
class ObjectivePerturbationEvent(Basic):
    """One release of the exact minimiser of a sum of losses plus a quadratic penalty plus a random linear term.

    For neighbours that differ by the presence of one row, whose loss is a convex function of one linear score with a
    derivative of one sign (``docs/privacy/objective_perturbation.md``).

    Parameters
    ----------
    noise_multiplier : float, > 0
        Standard deviation of the linear term divided by the largest gradient of one row's loss (no unit).
    curvature_ratio : float, >= 0
        Largest second derivative of one row's loss, in any direction, divided by the penalty (no unit).
    """

    noise_multiplier: Annotated[float, Rule(partial(number, above=0.0))]
    curvature_ratio: Annotated[float, Rule(partial(number, at_least=0.0))]
    kind: ClassVar[str] = "objective-perturbation"
    words: ClassVar[str] = (
        "minimiser of a perturbed objective, noise multiplier {noise_multiplier:.6g}, curvature ratio "
        "{curvature_ratio:.6g}"
    )

    @property
    def _kept(self) -> tuple[float, float]:
        """D and k, for noise that can be told apart."""
        return 1.0 / min(self.noise_multiplier, MOST_NOISE), math.log1p(self.curvature_ratio)

    def shift_squared(self, times: int) -> float:
        shift, bend = self._kept
        return times * (shift * shift + 2.0 * bend)

    def loss_step(self, times: int, shift: float) -> tuple[float, float]:
        return max(0.02 / min(self.noise_multiplier, MOST_NOISE), 1e-4 * self._kept[1]), 0.0

    def _profile(self, epsilons: Vector) -> Vector:
        """Return h at exp(``epsilons``), which increase and hold 0; as E is convex, the lower hull of h bounds it."""
        shift, bend = self._kept
        size = np.abs(epsilons)
        positive = epsilons > 0.0
        value = _gaussian_profile(shift, np.where(positive, np.maximum(size - bend, 0.0), size))
        value[~positive] = -np.expm1(-size[~positive]) + np.exp(-size[~positive]) * value[~positive]
        middle = int(np.searchsorted(epsilons, 0.0))
        beyond = slice(middle + 1, int(np.searchsorted(epsilons, 700.0)))
        orders = np.expm1(epsilons[beyond])
        if orders.size:
            # the hull leaves h at order 1 and meets it again where the chord is steepest
            slopes = (value[beyond] - value[middle]) / orders
            touch = int(np.argmin(slopes))
            value[beyond][:touch] = value[middle] + slopes[touch] * orders[:touch]
        return value

    def loss_distribution(self, times: int, step: float) -> PrivacyLossDistribution:
        """Return a privacy loss distribution that dominates so many releases, rounded up.

        The curve is evaluated on the grid and joined by straight lines in a, which bounds every convex function below
        it (Doroshenko et al. 2022, arXiv:2207.04380, Algorithm 1).
        """
        shift, bend = self._kept
        last = math.ceil((0.5 * shift * shift + _REACH * shift + bend) / step) + 1
        places = np.arange(-last, last + 1)
        epsilons = (places * step).astype(np.float64)
        with_row = self._profile(epsilons)
        factor = np.exp(np.minimum(epsilons, 700.0))
        # E_a(Q||P) = 1 - a + a E_(1/a)(P||Q); above order 1 it is g itself
        without_row = np.where(places < 0, 1.0 - factor + factor * with_row[::-1], 0.0)
        without_row[places >= 0] = _gaussian_profile(shift, epsilons[places >= 0])
        one = PrivacyLossDistribution(_connect(step, places, with_row), _connect(step, places, without_row))
        return one.self_compose(times)

    def divergences(self, orders: Vector) -> Vector:
        r"""Return the Renyi divergence at each order, the larger of both directions.

        Integrating a (a - 1) x^(a-2) h(x) gives, with R = exp(a (a - 1) D^2 / 2), c = (1 + curvature_ratio)^(a-1) - 1,

        .. math:: \frac{1}{a-1} \log ( R + c \, (R \, \Phi((a - 1/2) D) - \Phi(-D/2)) ).
        """
        shift, bend = self._kept
        gaussian = 0.5 * orders * (orders - 1.0) * shift * shift
        # divided by R, so that nothing overflows; c = e^x - 1 <= e^x where x is large
        x = (orders - 1.0) * bend
        body = np.maximum(0.0, ndtr((orders - 0.5) * shift) - np.exp(log_ndtr(-0.5 * shift) - gaussian))
        with np.errstate(over="ignore"):
            excess = np.where(x < 30.0, np.log1p(np.expm1(np.minimum(x, 30.0)) * body), x)
        divergences: Vector = (gaussian + excess) / (orders - 1.0)
        return divergences


def _gaussian_profile(shift: float, epsilons: Vector) -> Vector:
    """Return g at exp(``epsilons``), all >= 0, rounded up."""
    a = 0.5 * shift - epsilons / shift
    left = np.where(a > 0.0, ndtr(a), 0.5 * np.exp(-0.5 * a * a) * erfcx(-np.minimum(a, 0.0) * _MILLS))
    right = 0.5 * np.exp(-0.5 * a * a) * erfcx(-np.minimum(a - shift, 26.0) * _MILLS)
    # the two are close when the shift is small
    return np.clip((left - right) * (1.0 + 1e-9) + 1e-15 * left, 0.0, 1.0)


def _connect(grid: float, steps: NDArray[np.int64], deltas: Vector) -> PLDPmf:
    # from the right: rounding can break the order in the last digits only, and more is safe
    falling = np.maximum.accumulate(np.clip(deltas, 0.0, 1.0)[::-1])[::-1]
    return create_pmf_pessimistic_connect_dots_fixed_gap(grid, int(steps[0]), int(steps[-1]), falling)
