"""Renyi differential privacy over a list of orders, for everything that is protected at all."""

import math

import numpy as np

from sottovoce._numerics import Vector
from sottovoce._validation import choice, number
from sottovoce.exceptions import AccountingError, ParameterError
from sottovoce.privacy.event import Accountant, Counts, Event, flatten, is_far, ordered, protects, quiet
from sottovoce.privacy.trials import TrialCount

__all__ = ["RenyiAccountant"]


class RenyiAccountant(Accountant):
    """Renyi differential privacy, minimised over a list of orders.

    Parameters
    ----------
    orders : sequence of float or None
        Renyi orders, each above 1. None takes a dense list up to 1024.
    conversion : {"tight", "moments"}
        From Renyi DP to epsilon: the tight one [1]_ together with delta <= sqrt(1 - exp(-divergence)) [2]_, as in
        dp-accounting, or log(1/delta)/(order - 1) as in the moments accountant [3]_, which is kept to
        reproduce older papers, here with the whole orders 2 to 129.

    References
    ----------
    .. [1] Canonne, Kamath, Steinke (2020). The Discrete Gaussian for Differential Privacy. arXiv:2004.00010v4,
       Proposition 12.
    .. [2] Bretagnolle, Huber (1979). Estimation des densites: risque minimax. Theorem 2.1.
    .. [3] Abadi et al. (2016). Deep Learning with Differential Privacy. arXiv:1607.00133, Theorem 2.
    """

    name = "Renyi DP"

    def __init__(self, orders: "tuple[float, ...] | None" = None, conversion: str = "tight") -> None:
        if orders is None:
            orders = (
                tuple(float(order) for order in range(2, 130))
                if conversion == "moments"
                else (*(1 + x / 10 for x in range(1, 100)), *range(11, 65), 80, 96, 128, 192, 256, 512, 1024)
            )
        self._orders = tuple(number("orders", order, above=1.0) for order in orders)
        self._conversion = choice("conversion", conversion, ("tight", "moments"))
        if not self._orders:
            raise ParameterError("orders must hold at least one number above 1; got ().")

    def divergences(self, event: Event) -> Vector:
        """Return a bound on the Renyi divergence of ``event`` at each order, in both directions.

        Raises
        ------
        AccountingError
            If a part of the event is not known, or has no protection.
        """
        counts = flatten(event)
        if not protects(counts):
            raise AccountingError("a release without protection has no Renyi divergence.")
        return self._divergences(counts)

    @classmethod
    def covers(cls, counts: Counts) -> bool:
        return True

    def _epsilon(self, counts: Counts, delta: float) -> float:
        if delta == 0.0:
            return math.inf
        orders, divergences = np.array(self._orders), self._divergences(counts)
        epsilons = divergences - math.log(delta) / (orders - 1)
        if self._conversion == "tight":
            epsilons += np.log1p(-1 / orders) - np.log(orders) / (orders - 1)
            epsilons[-np.expm1(-divergences) < delta * delta] = 0.0
        return max(0.0, float(np.min(epsilons)))

    def _delta(self, counts: Counts, epsilon: float) -> float:
        return self._delta_of(self._divergences(counts), epsilon)

    def _delta_of(self, divergences: Vector, epsilon: float) -> float:
        orders = np.array(self._orders)
        logarithms = (orders - 1) * (divergences - epsilon)
        if self._conversion == "moments":
            return math.exp(min(0.0, float(np.min(logarithms))))
        logarithms += (orders - 1) * np.log1p(-1 / orders) - np.log(orders)
        return min(math.exp(min(0.0, float(np.min(logarithms)))), math.sqrt(-math.expm1(-float(np.min(divergences)))))

    def _divergences(self, counts: Counts) -> Vector:
        """Return the divergences, with what double precision may have taken off those of releases added again."""
        total: Vector = np.zeros(len(self._orders))
        if is_far(counts):
            total[:] = math.inf
            return total
        orders = np.array(self._orders)
        with quiet():
            # Gaussian noise first, so that sums end in the digit that receipts on disk have
            for basic, times in sorted(
                ordered(counts), key=lambda item: item[0].offers.noise is None and item[0].offers.lost == 0.0
            ):
                if basic.offers.search is None:
                    total += times * basic.divergences(orders)
        total = np.maximum(total, 0.0) * (1.0 + 1e-12)
        total += 1e-14 * math.fsum(sorted(times * basic.offers.lost for basic, times in counts.items()))
        for basic, times in ordered(counts):
            if basic.offers.search is not None:
                total += times * self._best_of(*basic.offers.search)
        return total

    def _best_of(self, run: Event, trials: TrialCount) -> Vector:
        one = self._divergences(flatten(run))
        return trials.divergences(np.array(self._orders), one, lambda epsilon: self._delta_of(one, epsilon))
