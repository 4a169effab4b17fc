r"""The utility theorem of DP-SCD as printed (Damaskinos et al. 2021, Theorem 2, Lemmas 2 and 3); it does not hold.

It says of the dual suboptimality S of the noised dual variables that a step of Algorithm 1 multiplies it by

.. math:: A = 1 - \frac{(1 - \kappa)\, \mu \lambda L}{\mu \lambda N + L}

at most and adds L sigma^2 / (2 lambda N^2), for losses that are 1/mu-smooth. The proof asks for A < 1/2, which is the
condition L (2 (1 - kappa) mu lambda - 1) > mu lambda N.

``docs/papers/dp_scd_utility.md`` shows what breaks: the condition asks for mu lambda > 1; Lemma 2 fails where v has
noise of its own; Lemma 3 forgets the conjugates, and the factor 2 C^2 of the noise; and none of it is about v, which is
what is released.

References
----------
.. [1] Damaskinos et al. (2021). Differentially Private Stochastic Coordinate Descent. AAAI 2021; Section 4.
"""

from dataclasses import dataclass

from sottovoce._validation import magnitude, number, whole_number

__all__ = ["PrintedUtility"]


@dataclass(frozen=True, kw_only=True)
class PrintedUtility:
    """What Theorem 2 says of a run, number by number.

    Parameters
    ----------
    n_samples, batch_size : int
        N and L.
    alpha : float, > 0
        lambda of the paper.
    smoothness : float, > 0
        Bound on the second derivative of the loss: 1 / mu of the paper.
    shortened : float, 0 <= shortened < 1
        kappa: what the scaling of steps costs; 0 where no step is scaled.
    """

    n_samples: int
    batch_size: int
    alpha: float
    smoothness: float
    shortened: float = 0.0

    def __post_init__(self) -> None:
        whole_number("n_samples", self.n_samples, at_least=1)
        whole_number("batch_size", self.batch_size, at_least=1, at_most=self.n_samples)
        magnitude("alpha", self.alpha)
        magnitude("smoothness", self.smoothness)
        number("shortened", self.shortened, at_least=0.0, below=1.0)

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
        """Whether the condition is met."""
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
        return self.batch_size * number("variance", variance, at_least=0.0) / (2.0 * self.alpha * self.n_samples**2)

    def bound(self, start: float, steps: int, variance: float) -> float:
        """Return the bound on S after the steps, from its value at the start."""
        rate, left = self.contraction, number("start", start, at_least=0.0)
        decay = rate ** whole_number("steps", steps, at_least=1)
        return decay * left + self.increase(variance) * (1.0 - decay) / (1.0 - rate)
