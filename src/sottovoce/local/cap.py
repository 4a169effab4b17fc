r"""What a cap report is worth: how the reported candidate leans toward the person's vector, and the best sizes.

The score of a candidate g is t + b (t^2 - 1)/sqrt(2), t = <g, z>; one of the m best of K is reported with high
probability (see `sottovoce.local.odds`). Across the line of z the reported candidate stays standard Gaussian; along it,
t has density

.. math:: \phi(t) \, K \, [p_0 + (p_1 - p_0) \Pr(\mathrm{Bin}(K-1, Q(t)) \le m - 1)],

where p_1 and p_0 are the probabilities of one index inside and outside the top group and Q(t) is the probability that
another candidate scores better. With A_k = E He_k(t), for every unit vector z,

.. math:: E[g] = A_1 z, \qquad E[g g' - I] = A_2 z z',

so that sums over many reports are corrected by two divisions. One report is worth one observation of z with noise of
variance v1 = 1/A_1^2 a coordinate, and one of z z' with noise v2 = 2/A_2^2 (in a direction of unit Frobenius norm).
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import betainc, ndtr, ndtri

from sottovoce.exceptions import ParameterError
from sottovoce.local.odds import Odds

Array = NDArray[np.float64]

_REACH: Final = 14.0  # the density of a Gaussian beyond it is below 1e-43, against at least e^-32 / K
_COARSE: Final = np.linspace(-_REACH, _REACH, 57)
_X, _W = np.polynomial.legendre.leggauss(12)
_BENDS: Final = (0.0, 0.5, 1.0, 2.0)
_LARGEST: Final = 256  # number of candidates
_SLACK: Final = 0.97  # the smallest K whose variance is within 3 % of the best
EDGE_OF_DEGREE_0: Final = 0.2


@dataclass(frozen=True)
class CapConstants:
    """The law of t = <g, z> for a reported candidate g.

    Attributes
    ----------
    A : tuple of 4 floats
        E He_k(t) for k = 1, 2, 3, 4.
    v1, v2 : float
        Noise of one report: variance of a coordinate of the first moment, and of a unit direction of the second.
    """

    A: tuple[float, float, float, float]

    @property
    def v1(self) -> float:
        """1 / A_1^2."""
        return _inverse(self.A[0] ** 2)

    @property
    def v2(self) -> float:
        """2 / A_2^2."""
        return 2.0 * _inverse(self.A[1] ** 2)


@dataclass(frozen=True)
class Sizes:
    """The public sizes of a mechanism: K candidates, m of them in the top group, bend b of the score."""

    K: int
    m: int
    b: float


@lru_cache(maxsize=4096)
def constants(epsilon: float, K: int, m: int, b: float) -> CapConstants:
    """Return the constants of a cap report, by quadrature; absolute error below 1e-12 times their size."""
    t, weight = _nodes(K, m, b)
    lean = weight * _membership(t, K, m, b)
    odds = Odds(epsilon, K, m)
    factor = K * float(odds.top - odds.rest)
    square = t * t
    polynomials = (t, square - 1.0, t * (square - 3.0), square * (square - 6.0) + 3.0)
    first, second, third, fourth = (factor * math.fsum(lean * values) for values in polynomials)
    return CapConstants((first, second, third, fourth))


@lru_cache(maxsize=256)
def design(epsilon: float, degree: int = 1) -> Sizes:
    """Return the sizes that make a report worth most.

    They minimise v1 + v2 (degree 1) or v1 (degree 0); the smallest K within 3 % of the best is taken, since the work of
    a device grows with K.

    ``degree``, {0, 1}: degree of the model's gradient in the coefficients: 0 needs the first moment only.
    """
    choices = [_best(epsilon, 2**power, degree) for power in range(1, _LARGEST.bit_length())]
    least = min(loss for loss, _ in choices)
    if not math.isfinite(least):
        raise ParameterError(f"epsilon {epsilon!r} is too small for any report to say something. Choose a larger one.")
    return next(size for loss, size in choices if loss <= least / _SLACK)


def planned_edge(n: int, d: int, v2: float) -> float:
    """Return the noise edge 2 sqrt(d v2 / (2 n)): eigenvalues of the second moment below it are lost in noise."""
    return 2.0 * math.sqrt(d * v2 / (2.0 * n))


def _best(epsilon: float, K: int, degree: int) -> tuple[float, Sizes]:
    """Return the best sizes with K candidates: the bend from a few, then the exact size of the group."""

    def choice(m: int, b: float) -> tuple[float, Sizes]:
        c = constants(epsilon, K, m, b)
        return c.v1 + c.v2 if degree else c.v1, Sizes(K, m, b)

    groups = sorted({round(value) for value in np.geomspace(1, max(1, K // 2), 10)})
    found = [choice(m, b) for b in ((0.0,) if degree == 0 else _BENDS) for m in groups]
    best = min(found, key=lambda entry: entry[0])
    step = max(1, best[1].m // 3)
    while step:
        near = [m for m in (best[1].m - step, best[1].m + step) if 0 < m < K]
        better = min((choice(m, best[1].b) for m in near), key=lambda entry: entry[0], default=best)
        if better[0] < best[0]:
            best = better
        else:
            step //= 2
    return best


def _better(t: Array, b: float) -> Array:
    """Probability Q(t) that a standard normal scores better than t."""
    if b == 0.0:
        return np.asarray(ndtr(-t), np.float64)
    vertex = -1.0 / (math.sqrt(2.0) * b)  # the score falls on its left and rises on its right
    reach = np.abs(t - vertex)
    return np.asarray(ndtr(-(vertex + reach)) + ndtr(vertex - reach), np.float64)


def _membership(t: Array, K: int, m: int, b: float) -> Array:
    """Probability that a candidate at t is among the m best of K."""
    return np.asarray(1.0 - betainc(m, K - m, _better(t, b)), np.float64)


def _nodes(K: int, m: int, b: float) -> tuple[Array, Array]:
    vertex = -1.0 / (math.sqrt(2.0) * b) if b else -math.inf
    share = m / K
    if b == 0.0:
        edges = [float(-ndtri(share))]
        slope = math.exp(-0.5 * edges[0] ** 2)
    else:
        reach = brentq(lambda h: ndtr(-(vertex + h)) + ndtr(vertex - h) - share, 0.0, _REACH - vertex)
        edges = [vertex - reach, vertex + reach]
        slope = math.exp(-0.5 * edges[0] ** 2) + math.exp(-0.5 * edges[1] ** 2)
    width = math.sqrt(2.0 * math.pi * share * (1.0 - share) / K) / max(slope, 1e-12)
    narrow = [edge + width * np.linspace(-12.0, 12.0, 25) for edge in edges]
    ends = np.unique(np.clip(np.concatenate([_COARSE, *narrow, [vertex]]), -_REACH, _REACH))
    half = 0.5 * np.diff(ends)[:, None]
    t = (0.5 * (ends[1:] + ends[:-1])[:, None] + half * _X).ravel()
    return t, (half * _W).ravel() * np.exp(-0.5 * t * t) / math.sqrt(2.0 * math.pi)


def _inverse(value: float) -> float:
    return 1.0 / value if value > 0.0 else math.inf
