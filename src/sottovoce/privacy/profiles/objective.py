r"""The privacy curve of objective perturbation, as accountants need it.

With D = 1/noise_multiplier, k = log(1 + curvature_ratio) and g(a) the hockey-stick divergence of order a of N(D, 1) and
N(0, 1), the release with a row (law P) and without it (law Q) satisfies, for every a > 0,

.. math:: E_a(P \| Q) \le h(a), \qquad E_a(Q \| P) \le 1 - a + a h(1/a), \qquad
    h(a) = g(a) \; (a \le 1), \quad g(\max(1, a e^{-k})) \; (a > 1).

No factor of two, because the derivative of the loss of one row has one sign; and the curvature helps one direction
only. Proof: ``docs/privacy/objective_perturbation.md``, Theorem 1.
"""

import math
from typing import Final

import numpy as np
from dp_accounting.pld.pld_pmf import PLDPmf, create_pmf_pessimistic_connect_dots_fixed_gap
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
from numpy.typing import NDArray
from scipy.special import erfcx, log_ndtr, ndtr

from sottovoce.privacy.events import ObjectivePerturbationEvent

__all__ = ["objective_divergences", "objective_loss_distribution"]

_REACH: Final = (
    14.0  # standard deviations of the loss on the grid; what lies beyond has mass 1e-44, counted as infinite
)
_MILLS: Final = math.sqrt(0.5)

Array = NDArray[np.float64]


def _gaussian_profile(shift: float, epsilons: Array) -> Array:
    """Return g at exp(``epsilons``), all >= 0, rounded up."""
    a = 0.5 * shift - epsilons / shift
    left = np.where(a > 0.0, ndtr(a), 0.5 * np.exp(-0.5 * a * a) * erfcx(-np.minimum(a, 0.0) * _MILLS))
    right = 0.5 * np.exp(-0.5 * a * a) * erfcx(-np.minimum(a - shift, 26.0) * _MILLS)
    # the two are close when the shift is small
    return np.clip((left - right) * (1.0 + 1e-9) + 1e-15 * left, 0.0, 1.0)


def _profile(event: ObjectivePerturbationEvent, epsilons: Array) -> Array:
    """Return h at exp(``epsilons``), which increase and hold 0; E is convex, so the lower hull of h bounds it too."""
    shift, bend = 1.0 / event.noise_multiplier, math.log1p(event.curvature_ratio)
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


def objective_loss_distribution(event: ObjectivePerturbationEvent, grid: float) -> PrivacyLossDistribution:
    """Return a privacy loss distribution on multiples of ``grid`` that dominates the release, rounded up.

    The curve is evaluated on the grid and joined by straight lines in a, which bounds every convex function below it
    (Doroshenko et al. 2022, arXiv:2207.04380, Algorithm 1).
    """
    shift, bend = 1.0 / event.noise_multiplier, math.log1p(event.curvature_ratio)
    last = math.ceil((0.5 * shift * shift + _REACH * shift + bend) / grid) + 1
    steps = np.arange(-last, last + 1)
    epsilons = (steps * grid).astype(np.float64)
    with_row = _profile(event, epsilons)
    factor = np.exp(np.minimum(epsilons, 700.0))
    # E_a(Q||P) = 1 - a + a E_(1/a)(P||Q); above order 1 it is g itself
    without_row = np.where(steps < 0, 1.0 - factor + factor * with_row[::-1], 0.0)
    without_row[steps >= 0] = _gaussian_profile(shift, epsilons[steps >= 0])
    return PrivacyLossDistribution(_connect(grid, steps, with_row), _connect(grid, steps, without_row))


def _connect(grid: float, steps: NDArray[np.int64], deltas: Array) -> PLDPmf:
    # from the right: rounding can break the order in the last digits only, and more is safe
    falling = np.maximum.accumulate(np.clip(deltas, 0.0, 1.0)[::-1])[::-1]
    return create_pmf_pessimistic_connect_dots_fixed_gap(grid, int(steps[0]), int(steps[-1]), falling)


def objective_divergences(event: ObjectivePerturbationEvent, orders: Array) -> Array:
    r"""Return the Renyi divergence at each order, the larger of both directions.

    Integrating a (a - 1) x^(a-2) h(x) gives, with R = exp(a (a - 1) D^2 / 2) and c = (1 + curvature_ratio)^(a-1) - 1,

    .. math:: \frac{1}{a-1} \log ( R + c \, (R \, \Phi((a - 1/2) D) - \Phi(-D/2)) ).
    """
    shift, bend = 1.0 / event.noise_multiplier, math.log1p(event.curvature_ratio)
    gaussian = 0.5 * orders * (orders - 1.0) * shift * shift
    # divided by R, so that nothing overflows; c = e^x - 1 <= e^x where x is large
    x = (orders - 1.0) * bend
    body = np.maximum(0.0, ndtr((orders - 0.5) * shift) - np.exp(log_ndtr(-0.5 * shift) - gaussian))
    with np.errstate(over="ignore"):
        excess = np.where(x < 30.0, np.log1p(np.expm1(np.minimum(x, 30.0)) * body), x)
    divergences: Array = (gaussian + excess) / (orders - 1.0)
    return divergences
