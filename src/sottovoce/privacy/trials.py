r"""The random number K of trials of a private search: its law, and what the choice of the best trial adds to the cost.

With K from the truncated negative binomial distribution of shape eta >= 0 and continuation 1 - gamma [1]_,

.. math:: P(K = k) \propto (1-\gamma)^k \prod_{l=0}^{k-1} \frac{l + \eta}{l + 1}, \qquad k = 1, 2, \dots

(eta = 1: geometric; eta = 0: logarithmic; eta = inf, in the limit of equal mean: Poisson given K > 0), the generating
function f of K has the slope

.. math:: f'(x) = E[K] \Bigl(\frac{\gamma}{\gamma + (1-\gamma)(1-x)}\Bigr)^{1+\eta}
          \quad\text{or}\quad E[K] \, e^{-m(1-x)} \text{ for Poisson}.

If F(y) is the probability that one trial is worse than y, the best of K trials has the density f'(F(y)) relative to one
trial. All bounds here are bounds on that slope; the proofs are in ``docs/privacy/search.md``.

References
----------
.. [1] Papernot, Steinke (2022). Hyperparameter Tuning with Renyi Differential Privacy. arXiv:2110.03620, Definition 1,
   Theorems 2 and 6.
.. [2] Koskela, Redberg, Wang (2024). Privacy Profiles for Private Selection. arXiv:2402.06701.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from sottovoce._validation import number
from sottovoce.exceptions import ParameterError

MOST_TRIALS: Final = 1e6  # expected; more would not end
_MOST_SHAPE: Final = 1e6  # closer to Poisson than doubles can tell
_LOST: Final = -60.0 * math.log(2.0)  # log of probabilities that no uniform double can reach
_SLACK: Final = 1.0 + 1e-9  # on the mean: covers the rounding of gamma and of the formulas below


@dataclass(frozen=True)
class TrialCount:
    """The law of K."""

    mean: float  # E[K], in [1, 1e6]; 1 means that K = 1 always
    # eta, in [0, 1e6]: 0 is the logarithmic, 1 the geometric, ``inf`` the zero-truncated Poisson distribution.
    shape: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", number("mean", self.mean, at_least=1.0, at_most=MOST_TRIALS))
        object.__setattr__(self, "shape", number("shape", self.shape, at_least=0.0, infinite=True))
        if not (self.shape <= _MOST_SHAPE or self.is_poisson):
            raise ParameterError(f"shape must be at most {_MOST_SHAPE:g}, or infinite for Poisson; got {self.shape!r}.")

    @property
    def is_poisson(self) -> bool:
        """True for the limit of infinite shape."""
        return math.isinf(self.shape)

    @cached_property
    def _t(self) -> float:
        """Return log(1 / gamma), or the rate m of the Poisson distribution: 0 at mean 1, and growing with it."""
        if self.mean == 1.0:
            return 0.0
        high = 1.0
        while self._mean_at(high) < self.mean:
            high *= 2.0
        return float(brentq(lambda t: self._mean_at(t) - self.mean, 0.0, high, xtol=1e-300, rtol=1e-15, maxiter=500))

    def _mean_at(self, t: float) -> float:
        if t == 0.0:
            return 1.0
        if self.is_poisson:
            return t / -math.expm1(-t)
        return math.expm1(t) / (t if self.shape == 0.0 else -math.expm1(-self.shape * t) / self.shape)

    @property
    def gamma(self) -> float:
        """Probability of stopping; not defined for Poisson."""
        return math.exp(-self._t)

    @property
    def rate(self) -> float:
        """Rate m of the Poisson distribution, before K = 0 is ruled out."""
        return self._t

    def draw(self, rng: np.random.Generator) -> int:
        """Draw K by inversion of one uniform number."""
        if self.mean == 1.0:
            return 1
        log_probability = math.log(self.mean) - self._t * (1.0 if self.is_poisson else 1.0 + self.shape)  # of K = 1
        u, k = rng.random(), 1
        total = math.exp(log_probability)
        while u >= total and (k < self.mean or log_probability > _LOST):
            weight = self.rate if self.is_poisson else -math.expm1(-self._t) * (k + self.shape)
            log_probability += math.log(weight / (k + 1))
            k += 1
            total += math.exp(log_probability)
        return k

    def log_ratio(self, delta: Callable[[float], float]) -> float:
        """Return r >= log f'(F) / f'(F') for every pair of probabilities that the profile of one trial allows.

        ``delta``: from epsilon >= 0 to the delta of one trial, not increasing.
        """
        if self.mean == 1.0:
            return 0.0
        if self.is_poisson:
            return self.rate * _SLACK * delta(0.0)
        gamma, rest = self.gamma, -math.expm1(-self._t)

        def surplus(epsilon: float) -> float:
            return gamma * math.expm1(epsilon) - rest * delta(epsilon)

        # the least epsilon with surplus >= 0; at log(1 / gamma) it is rest * (1 - delta)
        if surplus(0.0) >= 0.0:
            return 0.0
        epsilon = float(brentq(surplus, 0.0, self._t * _SLACK, xtol=1e-300, rtol=1e-12))
        step = 1e-12
        while surplus(epsilon) < 0.0:  # growing steps, and from the subnormal numbers too
            epsilon = epsilon * (1.0 + step) + 1e-300
            step *= 2.0
        return (1.0 + self.shape) * epsilon * _SLACK

    def divergences(
        self, orders: NDArray[np.float64], one: NDArray[np.float64], delta: Callable[[float], float]
    ) -> NDArray[np.float64]:
        """Return Renyi divergences of the best of K trials.

        ``orders``: of shape (k,); Renyi orders, each above 1.
        ``one``: of shape (k,); divergence of one trial at each order.
        ``delta``: from epsilon >= 0 to a delta of one trial (used for Poisson).
        """
        if self.mean == 1.0:
            return one
        if self.is_poisson:
            added = np.array([self.rate * delta(math.log1p(1.0 / (order - 1.0))) for order in orders])
        else:
            added = np.full(len(orders), (1.0 + self.shape) * np.min((1.0 - 1.0 / orders) * one + self._t / orders))
        best: NDArray[np.float64] = one + _SLACK * added + math.log(self.mean * _SLACK) / (orders - 1.0)
        # divergences do not fall with the order: a higher order's bound holds at the lower ones
        ranked = np.argsort(orders)
        best[ranked] = np.minimum.accumulate(best[ranked][::-1])[::-1]
        return best
