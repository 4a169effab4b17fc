r"""The privacy loss of bounded-range mechanisms, as accountants need it.

A mechanism is e-bounded-range when, for neighbours with output laws P and Q, all privacy losses log P(o)/Q(o) lie in
one window [t - e, t] of width e; t may depend on the neighbours, and 0 <= t <= e. The exponential mechanism is one.

Let V_k(x) be the largest hockey-stick divergence of order x that k such mechanisms can have, each chosen with the
results of those before it in sight. Then V_0(x) = max(0, 1 - x), every V_k is convex, and

.. math:: V_k(x) = \max_{0 \le t \le e} \; p_t \, V_{k-1}(x e^{-t}) + (1 - p_t) \, V_{k-1}(x e^{e - t}), \qquad
    p_t = \frac{1 - e^{t - e}}{1 - e^{-e}}:

given what went before, the last k - 1 see the order x Q(o)/P(o), a number with mean 1 under P within
[exp(-t), exp(e - t)], and the mean of a convex function is largest when all mass sits at the two ends. This is the
recursion of Dong, Durfee and Rogers [1]_ for adaptive composition, and it is exact for the family.

Here windows of width e + h with ends on a lattice of step h = e / `cells` stand for all windows of width e: every one
is inside one of them. On that lattice the recursion needs no interpolation, so the result is an upper bound.

Beside them let L be the privacy loss of all Gaussian releases and randomised responses together, whose law does not
depend on the data. Then the whole, in whatever order and with everything before in sight, has

.. math:: \delta(\varepsilon) \le E_L \big[ V_k(e^{\varepsilon - L}) \big].

It is what comes out when the selections come last, and no order costs more. V_k is known on a lattice of log x and is
convex in x; between two points the chord is taken, whose mean needs the mass of the cell under both laws of L alone.

Proof: ``docs/privacy/frank_wolfe.md``; ``docs/privacy/vertical_frank_wolfe.md``, section "Composition".

References
----------
.. [1] Dong, Durfee, Rogers (2020). Optimal Differential Privacy Composition for Exponential Mechanisms. ICML 2020,
   arXiv:1909.13830.
.. [2] Cesar, Rogers (2021). Bounding, Concentrating, and Truncating: Unifying Privacy Loss Composition for Data
   Analytics. ALT 2021, arXiv:2004.07223; bounded range e gives e^2/8 zCDP.
"""

import math
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Annotated, ClassVar, Final

import numpy as np
from scipy.special import ndtr

from sottovoce._lazy import jitted
from sottovoce._numerics import Vector
from sottovoce._validation import number
from sottovoce.privacy.event import Basic, Offers, Rule

_REACH: Final = 9.0  # standard deviations of the composed loss (at most); the mass beyond, 1e-17, is counted
_WORK: Final = 3e7  # multiplications that a profile may take
_MOST_CELLS: Final = 400
_FEWEST_CELLS: Final = 24
_MOST_WORK: Final = 6e8  # with the fewest cells; about 2,000 selections, fewer where each has a wide range
_ROUNDING: Final = 1e-9  # relative: far above what the differences of two chances lose against a whole cell
_FLOOR: Final = 1e-15  # absolute, a cell: chances are differences of numbers up to 1/2
_SUMMED: Final = 1e-10  # far above what thousands of sums of two positive terms lose


@dataclass(frozen=True)
class BoundedRangeEvent(Basic):
    """One release by the exponential mechanism, or any other whose privacy losses lie in one window of this width.

    For every pair of neighbours there is a t with log P(o)/Q(o) in [t - epsilon, t] for all outputs o; t may differ
    from pair to pair.

    Parameters
    ----------
    epsilon : float, in (0, 1e6]
        Width of the window. One release by itself is epsilon-DP.
    """

    epsilon: Annotated[float, Rule(partial(number, above=0.0, at_most=1e6))]
    kind: ClassVar[str] = "bounded-range"
    words: ClassVar[str] = "exponential mechanism of bounded range {epsilon:.6g}"

    @property
    def offers(self) -> Offers:
        return Offers(window=self.epsilon)

    def shift_squared(self, times: int) -> float:
        return times * self.epsilon * min(0.25 * self.epsilon, 2.0)

    def divergences(self, orders: Vector) -> Vector:
        """Return a bound on the divergence at each order a: the smaller of a e^2/8 (the module's [2]) and e."""
        return np.minimum(orders * (self.epsilon * self.epsilon / 8.0), self.epsilon)


@dataclass(frozen=True)
class BoundedRangeProfile:
    """Upper bounds on the divergence at the orders exp(``step`` i), i = -size..size; convex between them."""

    step: float
    values: Vector  # of shape (2 size + 1,)

    def delta(self, epsilon: float) -> float:
        """Return delta at any ``epsilon``: the chord in exp(epsilon) between two points lies above a convex curve."""
        size = len(self.values) // 2
        place = math.floor(min(epsilon / self.step, epsilon / self.step * (1.0 + 2.0**-50)))
        if place >= size:
            return float(self.values[-1])
        if place < -size:
            return 1.0
        left, right = float(self.values[size + place]), float(self.values[size + place + 1])
        share = math.expm1(max(0.0, epsilon - place * self.step)) / math.expm1(self.step)
        return min(1.0, max(right, left + min(1.0, share) * (right - left)) * (1.0 + 1e-12))

    def beside(self, mu: float, epsilon: float) -> float:
        """Return E V(exp(epsilon - L)) for L of a Gaussian release of mean shift ``mu``, as the mean of the chords."""
        if mu == 0.0:
            return self.delta(epsilon)
        size = len(self.values) // 2
        points = self.step * np.arange(-size, size + 1)
        # L falls as the order rises: cell i holds L in [epsilon - points[i + 1], epsilon - points[i]]
        ends = np.asarray((epsilon - points[::-1]) / mu, dtype=np.float64)
        chance, other = _between(ends - 0.5 * mu)[::-1], _between(ends + 0.5 * mu)[::-1]
        # mean of x = exp(epsilon - L) over the cell, in units of the order at its left end
        with np.errstate(over="ignore", invalid="ignore"):  # an infinite factor of a cell without any chance
            moved = np.exp(epsilon - points[:-1]) * other
        width = math.expm1(self.step)
        moved[~np.isfinite(moved)] = 0.0  # the value at the left end is the larger one
        right = np.clip((moved - chance) / width, 0.0, chance)
        inside = self.values[:-1] * (chance - right) + self.values[1:] * right
        above = float(ndtr((epsilon - points[-1]) / mu - 0.5 * mu)) * float(self.values[-1])
        low = float(points[0])
        # below the lattice: the chord from V(0) = 1 to the first value
        left = float(ndtr((low - epsilon) / mu + 0.5 * mu))
        far = math.exp(min(700.0, epsilon - low)) * float(ndtr((low - epsilon) / mu - 0.5 * mu))
        below = left - (1.0 - float(self.values[0])) * min(left, far)
        total = float(inside.sum()) + above + max(0.0, below)
        return total * (1.0 + _ROUNDING) + _FLOOR * float(np.sum(self.values) + 2.0)


def _between(ends: Vector) -> Vector:
    """Return the standard normal chances between neighbouring ``ends``, by the tail in which they are smaller."""
    upper = ends[:-1] > 0.0
    return np.where(upper, ndtr(-ends[:-1]) - ndtr(-ends[1:]), ndtr(ends[1:]) - ndtr(ends[:-1]))


def is_affordable(epsilon: float, times: int) -> bool:
    """Return whether the profile of so many releases of this range takes a second at most."""
    return 2.0 * times * _width(epsilon, times, _FEWEST_CELLS) * _FEWEST_CELLS <= _MOST_WORK


@lru_cache(maxsize=64)
def bounded_range_profile(epsilon: float, times: int) -> BoundedRangeProfile:
    """Return the profile of so many releases of this range."""
    cells = min(_MOST_CELLS, max(_FEWEST_CELLS, int(math.sqrt(_WORK / times / _width(epsilon, times, 1)))))
    step = epsilon / cells
    size = _width(epsilon, times, cells + 1)
    # p_t of the window [t - e', t] with e' = (cells + 1) step, for t = step j
    ends = np.arange(cells + 2)
    chance = -np.expm1((ends - (cells + 1.0)) * step) / -math.expm1(-(cells + 1.0) * step)
    values = _compose(times, size, cells + 1, step, chance)
    return BoundedRangeProfile(step, np.minimum(1.0, values * (1.0 + _SUMMED)))


def _width(epsilon: float, times: int, cells: int) -> int:
    """Return how many lattice steps each way hold the composed loss."""
    # mean at most e^2/8 each, and Hoeffding's inequality: sub-Gaussian with standard deviation e/2 each
    reach = times * epsilon * min(1.0, epsilon / 8.0) + _REACH * 0.5 * epsilon * math.sqrt(times)
    return math.ceil(min(float(times) * cells, reach / epsilon * cells)) + 2


@jitted(cache=True, error_model="numpy")
def _compose(times, size, window, step, chance):  # type: ignore[no-untyped-def]
    """Apply the recursion ``times`` times on the lattice -size..size of logarithms of orders."""
    n = 2 * size + 1
    # beyond the right end the last value is kept, which falls no further; beyond the left end, where the order x is
    # small, the chord from (0, 1) to the first value lies above the convex curve
    padded = np.empty(n + 2 * window)
    values = np.empty(n)
    for i in range(n):
        values[i] = max(0.0, -np.expm1((i - size) * step))
    fade = np.exp(-step * np.arange(1, window + 1))
    for _ in range(times):
        first, last = values[0], values[n - 1]
        for i in range(n):
            padded[window + i], values[i] = values[i], 0.0
        padded[window + n :] = last
        for i in range(window):
            padded[window - 1 - i] = 1.0 + fade[i] * (first - 1.0)
        for j in range(window + 1):
            p, q = chance[j], 1.0 - chance[j]
            right = padded[window - j : window - j + n]
            left = padded[2 * window - j : 2 * window - j + n]
            for i in range(n):
                bound = p * right[i] + q * left[i]
                values[i] = bound if bound > values[i] else values[i]  # max() is not vectorised
    return values
