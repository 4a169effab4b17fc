r"""The random number K of trials of a private search: its law, and what the choice of the best trial adds to the cost.

K is geometric with the mean m, so that P(K = k) = gamma (1 - gamma)^(k - 1) with gamma = 1/m; its generating function f
has the slope

.. math:: f'(x) = m \Bigl(\frac{\gamma}{\gamma + (1-\gamma)(1-x)}\Bigr)^2.

If F(y) is the probability that one trial is worse than y, the best of K trials has the density f'(F(y)) relative to one
trial. All bounds here are bounds on that slope; the proofs are in ``docs/privacy/search.md``.

References
----------
.. [1] Papernot, Steinke (2022). Hyperparameter Tuning with Renyi Differential Privacy. arXiv:2110.03620, Theorem 2.
.. [2] Koskela, Redberg, Wang (2024). Privacy Profiles for Private Selection. arXiv:2402.06701.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from sottovoce._validation import number

MOST_TRIALS: Final = 1e6  # expected; more would not end
_SLACK: Final = 1.0 + 1e-9  # on the mean: covers the rounding of gamma and of the formulas below


@dataclass(frozen=True)
class TrialCount:
    """The law of K."""

    mean: float  # E[K], in [1, 1e6]; 1 means that K = 1 always

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", number("mean", self.mean, at_least=1.0, at_most=MOST_TRIALS))

    @property
    def gamma(self) -> float:
        """Probability of stopping."""
        return 1.0 / self.mean

    @property
    def rest(self) -> float:
        """Probability of going on."""
        return (self.mean - 1.0) / self.mean

    def draw(self, rng: np.random.Generator) -> int:
        """Draw K by inversion of one uniform number."""
        u = rng.random()
        return 1 if self.mean == 1.0 else 1 + int(math.log1p(-u) / math.log1p(-self.gamma))

    def log_ratio(self, delta: Callable[[float], float]) -> float:
        """Return r >= log f'(F) / f'(F') for every pair of probabilities that the profile of one trial allows.

        ``delta``: from epsilon >= 0 to the delta of one trial, not increasing.
        """

        def surplus(epsilon: float) -> float:
            return self.gamma * math.expm1(epsilon) - self.rest * delta(epsilon)

        # the least epsilon with surplus >= 0; at log(mean) it is rest * (1 - delta)
        if surplus(0.0) >= 0.0:
            return 0.0
        epsilon = float(brentq(surplus, 0.0, math.log(self.mean) * _SLACK, xtol=1e-300, rtol=1e-12))
        step = 1e-12
        while surplus(epsilon) < 0.0:  # growing steps, and from the subnormal numbers too
            epsilon = epsilon * (1.0 + step) + 1e-300
            step *= 2.0
        return 2.0 * epsilon * _SLACK

    def divergences(self, orders: NDArray[np.float64], one: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return Renyi divergences of the best of K trials.

        ``orders``: of shape (k,); Renyi orders, each above 1.
        ``one``: of shape (k,); divergence of one trial at each order.
        """
        if self.mean == 1.0:
            return one
        log_mean = math.log(self.mean)
        added = 2.0 * float(np.min((1.0 - 1.0 / orders) * one + log_mean / orders))
        best: NDArray[np.float64] = one + _SLACK * added + (log_mean + math.log(_SLACK)) / (orders - 1.0)
        # divergences do not fall with the order: a higher order's bound holds at the lower ones
        ranked = np.argsort(orders)
        best[ranked] = np.minimum.accumulate(best[ranked][::-1])[::-1]
        return best
