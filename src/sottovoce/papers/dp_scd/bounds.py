r"""What can be said of Algorithm 1 as printed: its privacy, its sensitivity, and its theorem on utility.

*Privacy.* Step 5 draws L of N rows at random in each of T steps, and the noised dual variables show which. So a row is
in K ~ Binomial(T, L/N) Gaussian mechanisms of multiplier sigma, K is seen, and what holds is the mixture of
sqrt(K)/sigma-Gaussian mechanisms (`epsilon_of_printed_sampling`). Shuffle and cut, which `Published` does, has
K = T L/N always.

*Sensitivity.* Lemma 1 says sqrt(2) C. Its proof sets the column of a row to zero, and counts the step of the row alone.
But a zero column still moves alpha: sqrt(5) C (`lemma_1`). For a row that contributes nothing it is sqrt(2) C.

*Utility.* Theorem 2 says that a step multiplies the dual suboptimality S of the noised dual variables by at most
A = 1 - (1 - kappa) mu lambda L / (mu lambda N + L), and adds L sigma^2 / (2 lambda N^2), for 1/mu-smooth losses, where
L (2 (1 - kappa) mu lambda - 1) > mu lambda N. What is wrong with it, number by number: ``docs/papers/dp_scd.md``.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.stats import binom

from sottovoce.losses import Loss, dual_step
from sottovoce.privacy.accounting import gaussian_delta, gaussian_epsilon


def epsilon_of_printed_sampling(n_samples: int, batch_size: int, steps: int, sigma: float, delta: float) -> float:
    """Return the epsilon of Algorithm 1 with the printed sampling, exactly, for an adversary who sees alpha.

    N rows, L of them in each of T steps; ``sigma`` is the noise over the sensitivity of Lemma 1.
    """
    visits = np.arange(steps + 1)
    chances = binom.pmf(visits, steps, batch_size / n_samples)
    kept = chances > 1e-18  # what is left out is at most 1e-18 (T + 1)
    visits, chances = visits[kept], chances[kept]

    def excess(epsilon: float) -> float:
        each = [gaussian_delta(math.sqrt(count) / sigma, epsilon) if count else 0.0 for count in visits]
        return float(chances @ np.array(each)) - delta

    most = gaussian_epsilon(math.sqrt(float(visits[-1])) / sigma, delta)
    return float(brentq(excess, 0.0, most, xtol=1e-9)) if excess(0.0) > 0.0 else 0.0


def epsilon_of_fixed_visits(visits: int, sigma: float, delta: float) -> float:
    """Return the epsilon where each row is in as many batches as any other: shuffle and cut, ``visits`` epochs."""
    return gaussian_epsilon(math.sqrt(visits) / sigma, delta)


def lemma_1(loss: Loss, a: float, y: float, m: float, ratio: float, clip: float) -> tuple[float, float]:
    """Return how far one row moves (alpha, v): if its column is set to zero, and if it contributes nothing.

    The row has norm 1, the noised dual variable a, the label y and the prediction m; ``ratio`` is L / (lambda N).
    """
    step = min(max(dual_step(loss, a, y, m, ratio), -clip), clip)
    zeroed = min(max(dual_step(loss, a, y, 0.0, 0.0 if math.isfinite(loss.smoothness) else 1e-12), -clip), clip)
    return math.hypot(step - zeroed, step), math.hypot(step, step)


def theorem_2(loss: Loss, n: int, width: int, alpha: float, mu: float, passes: int) -> float:
    """Return our own Theorem 2: a bound on the excess risk of DP-SCD (``docs/privacy/dp_scd_utility.md``)."""
    theta = 1.0 / math.sqrt(1.0 + loss.smoothness / alpha)
    ell, start = theta * passes, float(loss.value(np.ones(1), np.zeros(1))[0])
    noise = ell**2 * (1.0 + theta) ** 2 / (1.0 - theta / 2.0) + 4.0 * ell
    return 2.0 * math.exp(-ell / 2.0) * start + width * (loss.lipschitz / (mu * n)) ** 2 / (2.0 * alpha) * noise


@dataclass(frozen=True, kw_only=True)
class PrintedUtility:
    """What Theorem 2 says of a run, number by number."""

    n_samples: int  # N
    batch_size: int  # L
    alpha: float  # lambda of the paper
    smoothness: float  # bound on the second derivative of the loss: 1 / mu of the paper
    shortened: float = 0.0  # kappa: what the scaling of steps costs; 0 where no step is scaled

    @property
    def curvature(self) -> float:
        """The paper's mu lambda."""
        return self.alpha / self.smoothness

    @property
    def condition(self) -> tuple[float, float]:
        """The two sides of the theorem's condition: the first must be larger."""
        left = self.batch_size * (2.0 * (1.0 - self.shortened) * self.curvature - 1.0)
        return left, self.curvature * self.n_samples

    @property
    def holds(self) -> bool:
        left, right = self.condition
        return left > right

    @property
    def contraction(self) -> float:
        """A: what a step is said to multiply S by."""
        gain = (1.0 - self.shortened) * self.curvature * self.batch_size
        return 1.0 - gain / (self.curvature * self.n_samples + self.batch_size)

    def increase(self, variance: float) -> float:
        """Return what noise of this variance in each dual variable of a batch is said to add to S (Lemma 3).

        The lemma has sigma^2 for ``variance``; Algorithm 1 adds noise of 2 C^2 sigma^2.
        """
        return self.batch_size * variance / (2.0 * self.alpha * self.n_samples**2)

    def bound(self, start: float, steps: int, variance: float) -> float:
        """Return the bound on S after the steps, from its value at the start."""
        rate = self.contraction
        decay = rate**steps
        return decay * start + self.increase(variance) * (1.0 - decay) / (1.0 - rate)
