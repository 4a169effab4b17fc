r"""What a privacy curve means: bounds on every attacker, from :math:`\delta(\varepsilon)` at a few points.

P and Q are the laws of all that was released under two neighbouring tables. A curve says that for each of its points,
each set of outputs S and both orders of the tables :math:`P(S) \le e^\varepsilon Q(S) + \delta(\varepsilon)`. From
this alone, and hence for every attacker with any knowledge and any computer:

* **Detection.** A test with false-positive rate a = Q(S) has a true-positive rate of at most [1]_

  .. math:: \min_\varepsilon \min(\delta + e^\varepsilon a,\; 1 - e^{-\varepsilon} (1 - \delta - a)).

* **Guessing** which of two equally likely tables is the true one succeeds with probability at most

  .. math:: \frac12 + \frac12 \min_\varepsilon \frac{e^\varepsilon - 1 + 2 \delta}{e^\varepsilon + 1}.

  (The bound above is symmetric and concave in a, so TPR - a is largest where TPR = 1 - a.)

* **Belief.** Let B be the outputs with P/Q above :math:`e^t`. Then :math:`Q(B) \le e^{-t} P(B)`, so
  :math:`P(B) (1 - e^{\varepsilon - t}) \le \delta(\varepsilon)` for :math:`\varepsilon < t`. Outside B a prior belief p
  becomes at most :math:`p e^t / (p e^t + 1 - p)`, and B happens with probability at most
  :math:`\min_{\varepsilon < t} \delta(\varepsilon) / (1 - e^{\varepsilon - t})`, under Q still less.

Fewer points give looser bounds, never wrong ones.

References
----------
.. [1] Kairouz, Oh, Viswanath (2015). The Composition Theorem for Differential Privacy. arXiv:1311.0776, Theorem 2.1.
"""

import math
from dataclasses import dataclass
from typing import Final

from sottovoce._validation import number
from sottovoce.exceptions import AccountingError, ParameterError
from sottovoce.privacy.guarantee import Guarantee

_POINTS: Final = 48
_SMALLEST: Final = (1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2)


@dataclass(frozen=True)
class PrivacyCurve:
    """Points (epsilon, delta) that all hold at once, for both orders of each two neighbours.

    Parameters
    ----------
    points : tuple of (float, float)
        By growing epsilon.
    """

    points: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        if not self.points:
            raise ParameterError("points must hold at least one (epsilon, delta).")
        for epsilon, delta in self.points:
            number("epsilon", epsilon, at_least=0.0)
            number("delta", delta, at_least=0.0, at_most=1.0)

    def detection(self, false_positive_rate: float) -> float:
        """Return the largest true-positive rate of any test with this false-positive rate."""
        a = number("false_positive_rate", false_positive_rate, at_least=0.0, at_most=1.0)
        best = 1.0
        for epsilon, delta in self.points:
            rising = delta + a * math.exp(epsilon) if epsilon < 700.0 else 1.0
            best = min(best, rising, 1.0 - math.exp(-epsilon) * (1.0 - delta - a))
        return max(a, best)

    def guess(self) -> float:
        """Return how often the best guess between two equally likely tables is right, at most."""
        advantage = min(
            (math.tanh(0.5 * epsilon) + 2.0 * delta / (math.exp(min(epsilon, 700.0)) + 1.0))
            for epsilon, delta in self.points
        )
        return min(1.0, 0.5 + 0.5 * advantage)

    def loss(self, exception: float) -> float:
        """Return a bound on log(P/Q) that is broken with probability at most ``exception``; ``inf`` for none.

        Over the points of the curve, delta(epsilon) / (1 - e^(epsilon - t)) = exception is solved for t.
        """
        exception = number("exception", exception, at_least=0.0, at_most=1.0)
        return min(
            (
                epsilon - math.log1p(-delta / exception) if delta > 0.0 else epsilon
                for epsilon, delta in self.points
                if delta < exception or delta == 0.0
            ),
            default=math.inf,
        )

    def belief(self, prior: float, exception: float) -> float:
        """Return what a prior belief becomes at most, but for outcomes of probability ``exception``."""
        prior = number("prior", prior, above=0.0, below=1.0)
        return 1.0 / (1.0 + (1.0 - prior) / prior * math.exp(-self.loss(exception)))


def privacy_curve(guarantee: Guarantee) -> PrivacyCurve | None:
    """Account the event of a receipt again at about fifty epsilons, with the promised one; None where it keeps to none.

    Parameters
    ----------
    guarantee : Guarantee
    """
    last = _last_epsilon(guarantee)
    if last is None:
        return None
    epsilons = {last * step / _POINTS for step in range(_POINTS + 1)}
    if math.isfinite(guarantee.epsilon):
        epsilons.add(guarantee.epsilon)
    points = tuple((epsilon, guarantee.delta_at(epsilon)) for epsilon in sorted(epsilons))
    return PrivacyCurve(points) if any(delta < 1.0 for _, delta in points) else None


def _last_epsilon(guarantee: Guarantee) -> float | None:
    for delta in sorted({*_SMALLEST, guarantee.delta} - {0.0}):
        try:
            epsilon = guarantee.epsilon_at(delta)
        except AccountingError:
            continue
        if math.isfinite(epsilon):
            return epsilon
    return None
