r"""The stochastic intermediate gradient method of Dvurechensky and Gasnikov, one report a step, in the unit ball.

Their parameter p = 1 (weights alpha_i = 1, A_k = k + 1), as the journal version of the paper restates it [1]_, [2]_:

.. math::

    b_k = L + 2^{3/4} \frac{\sigma}{R} \sqrt{k + 2}, \quad
    z_k = \Pi\Big(-\frac{1}{b_k} \sum_{i \le k} G_i(x_i)\Big), \quad x_{k+1} = z_k, \quad
    \bar y = \operatorname{mean}_k \, \Pi\big(z_{k-1} - G_k(x_k) / b_k\big),

with x_0 = z_{-1} = 0 and R = 1. L is the smoothness of the surrogate and sigma a bound on the root mean square of G,
both from public parameters (`Oracle.smoothness`, `Oracle.gradient_std`). After k steps the expected excess risk of the
surrogate is at most about L / k + 1.44 sigma / sqrt(k).

References
----------
.. [1] Dvurechensky, Gasnikov (2016). Stochastic Intermediate Gradient Method for Convex Problems with Stochastic
   Inexact Oracle. J. Optim. Theory Appl. 171.
.. [2] Wang, Gaboardi, Smith, Xu (2020). Empirical Risk Minimization in the Non-interactive Local Model of Differential
   Privacy. JMLR 21(253), Algorithms 4, 5 and 9.
"""

import math
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sottovoce._compiling import njit
from sottovoce.papers.ldp.oracle import Oracle

__all__ = ["STEP_FACTOR", "expected_noise_error", "gradients", "sigm"]

Array = NDArray[np.float64]

STEP_FACTOR: Final = 2.0**0.75


def sigm(
    reports: NDArray[np.int32],
    tick: float,
    oracle: Oracle,
    gradient_std: float,
    order: NDArray[np.int64],
    shares: Array,
) -> Array:
    """Return the weights after one pass over the reports.

    Parameters
    ----------
    reports : ndarray of shape (n, M, d + 1), int32
        Whole ticks; y is the last column.
    tick : float
    oracle : Oracle
    gradient_std : float, > 0
        sigma.
    order : ndarray of shape (n,)
        Which report each step takes.
    shares : ndarray of shape (n,)
        One uniform number a report, for s of Algorithm 2.

    Returns
    -------
    ndarray of shape (d,)
        Within the unit ball.
    """
    weights: Array = _pass(
        reports,
        _Surrogate.of(oracle, tick),
        oracle.shifts(shares),
        oracle.smoothness,
        STEP_FACTOR * gradient_std,
        order,
    )
    return weights


def gradients(reports: NDArray[np.int32], tick: float, oracle: Oracle, w: Array, shares: Array) -> Array:
    """Return G(w) of every report, of shape (n, d)."""
    out = np.empty((len(reports), reports.shape[2] - 1))
    _gradients(reports, _Surrogate.of(oracle, tick), oracle.shifts(shares), w, out)
    return out


def expected_noise_error(gradient_std: float, n: int) -> float:
    """Return the part of the bound on SIGM's expected excess risk that is due to noise, 1.44 sigma / sqrt(n)."""
    return (0.5 * STEP_FACTOR + 1.0 / STEP_FACTOR) * gradient_std / math.sqrt(n)


class _Surrogate(NamedTuple):
    """What the compiled loops know of the oracle, and the unit of a report's numbers."""

    weighted: Array
    slope: float
    scale: float
    offset: float
    tick: float
    residual: bool

    @classmethod
    def of(cls, oracle: Oracle, tick: float) -> "_Surrogate":
        return cls(oracle.weighted, oracle.slope, oracle.scale, oracle.offset, tick, oracle.residual)


@njit(cache=True)
def _gradient(report: Any, q: _Surrogate, shift: float, w: Any, out: Any) -> None:
    degree = len(q.weighted) - 1
    d = len(w)
    total = 0.0
    row = 1
    for j in range(degree + 1):
        term = q.weighted[j]
        for k in range(degree):
            product = 0.0
            for i in range(d):
                product += w[i] * report[row, i]
            if q.residual:
                v = shift + q.slope * ((product - report[row, d]) * q.tick)
            else:
                v = shift + q.slope * (product * q.tick) * (report[row, d] * q.tick)
            term *= v if k < j else 1.0 - v
            row += 1
        total += term
    if q.residual:
        factor = (q.scale * total + q.offset) * q.tick
    else:
        factor = (q.scale * total + q.offset) * (report[0, d] * q.tick) * q.tick
    for i in range(d):
        out[i] = factor * report[0, i]


@njit(cache=True)
def _gradients(reports: Any, q: _Surrogate, shifts: Array, w: Any, out: Any) -> None:
    for i in range(len(reports)):
        _gradient(reports[i], q, shifts[i], w, out[i])


@njit(cache=True)
def _project(v: Any) -> None:
    norm = math.sqrt(np.sum(v * v))
    if norm > 1.0:
        v /= norm


@njit(cache=True)
def _pass(reports: Any, q: _Surrogate, shifts: Array, smoothness: float, noise: float, order: Any) -> Any:
    d = reports.shape[2] - 1
    gradient, total, z, mean, moved = np.zeros(d), np.zeros(d), np.zeros(d), np.zeros(d), np.zeros(d)
    for k in range(len(order)):
        b = smoothness + noise * math.sqrt(k + 2.0)
        i = order[k]
        _gradient(reports[i], q, shifts[i], z, gradient)
        moved[:] = z - gradient / b
        _project(moved)
        mean += (moved - mean) / (k + 1.0)
        total += gradient
        z[:] = -total / b
        _project(z)
    return mean
