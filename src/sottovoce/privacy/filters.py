r"""Privacy filters: whether one more release fits a budget when each is chosen with all results so far in sight.

Composing privacy curves needs releases that were fixed beforehand. A budget on disk serves analysts who look at one
model and then choose the next fit, so only rules are used that hold for such *fully adaptive* choices
(``docs/privacy/ledger.md``):

* ``"gaussian"``: Gaussian releases only; the sum of mu_i^2 stays below mu^2 of the budget [1]_ [2]_;
* ``"renyi"``: everything; Renyi divergences of fixed orders add up [3]_, with delta split over the orders;
* ``"basic"``: everything; epsilons and deltas add up [4]_;
* ``"mixed"``: a charge fits if one of the three admits the whole history, each with its own share of delta.

A history of one release needs no rule: it is accounted by the tightest accountant. Budgets outlive versions: the shares
and orders of a rule never change once it was released, a new choice is a new name.

References
----------
.. [1] Smith, Thakurta (2022). Fully Adaptive Composition for Gaussian Differential Privacy. arXiv:2210.17520.
.. [2] Koskela, Tobaben, Honkela (2023). Individual Privacy Accounting with Gaussian Differential Privacy. ICLR 2023;
   arXiv:2209.15596.
.. [3] Feldman, Zrnic (2021). Individual Privacy Accounting via a Renyi Filter. NeurIPS 2021; arXiv:2008.11193.
.. [4] Rogers, Roth, Ullman, Vadhan (2016). Privacy Odometers and Filters: Pay-as-you-Go Composition. NIPS 2016;
   arXiv:1605.08294.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

import numpy as np

from sottovoce._validation import MAX_EPSILON, choice, number
from sottovoce.exceptions import AccountingError
from sottovoce.privacy.accounting import GaussianAccountant, RenyiAccountant, epsilon_of, flatten, gaussian_epsilon
from sottovoce.privacy.event import Event, protects
from sottovoce.privacy.events import NothingReleased

# shares of delta for the basic, the Gaussian and the Renyi rule
COMPOSITIONS: Final[dict[str, tuple[float, float, float]]] = {
    "mixed": (0.25, 0.5, 0.25),
    "gaussian": (0.0, 1.0, 0.0),
    "renyi": (0.0, 0.0, 1.0),
    "basic": (1.0, 0.0, 0.0),
}
# orders around the one that is best for Gaussian releases that fill the budget: multiples of (order - 1), and the parts
# of delta; a small part costs a high order next to nothing
_ORDERS: Final = ((1, 1 / 2), (0.5, 1 / 8), (2, 1 / 8), (0.25, 1 / 16), (4, 1 / 16), (16, 1 / 16), (64, 1 / 16))
_MOST_ORDER: Final = 4096.0
_LAST_DIGITS: Final = 1e-9  # as for receipts: sums and square roots may differ in the last digits
_UP: Final = 1.0 + 2.0**-50


@dataclass(frozen=True)
class Release:
    """One charge as a filter sees it.

    Parameters
    ----------
    event : Event
    delta : float
        At which the release enters the basic rule; chosen with it, before it is drawn.
    """

    event: Event
    delta: float


@dataclass(frozen=True)
class PrivacyFilter:
    """The rule of one budget, fixed when the budget is made.

    Parameters
    ----------
    epsilon : float, in (0, 1e6]
    delta : float, in [0, 1)
    composition : {"mixed", "gaussian", "renyi", "basic"}, default "mixed"
        See the module.

    Examples
    --------
    >>> from sottovoce.privacy.events import GaussianEvent
    >>> filter = PrivacyFilter(epsilon=1.0, delta=1e-6, composition="gaussian")
    >>> filter.admits([Release(GaussianEvent(10.0), 1e-6)] * 5)
    True
    >>> filter.admits([Release(GaussianEvent(10.0), 1e-6)] * 6)
    False
    """

    epsilon: float
    delta: float
    composition: str = "mixed"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", number("epsilon", self.epsilon, above=0.0, at_most=MAX_EPSILON))
        object.__setattr__(self, "delta", number("delta", self.delta, at_least=0.0, below=1.0))
        choice("composition", self.composition, COMPOSITIONS)

    def spent(self, releases: Iterable[Release]) -> float:
        """Return the least epsilon for which this rule would have admitted ``releases``; ``inf`` if there is none."""
        tally = Tally(self)
        for release in releases:
            tally.add(release)
        return tally.spent()

    def admits(self, releases: Iterable[Release]) -> bool:
        """Tell whether ``releases`` fit the budget, the last digits (1e-9 relative) aside."""
        return self.covers(self.spent(releases))

    def covers(self, spent: float) -> bool:
        """Tell whether ``spent`` is within epsilon, the last digits aside."""
        return spent <= self.epsilon * (1.0 + _LAST_DIGITS)

    @cached_property
    def orders(self) -> tuple[tuple[float, float], ...]:
        """The Renyi orders, each with its part of delta."""
        delta = COMPOSITIONS[self.composition][2] * self.delta
        if delta == 0.0:
            return ()
        logarithm = -math.log(delta)
        # Gaussian releases of rho-zCDP reach epsilon = rho + 2 sqrt(rho log(1/delta)) at order 1 + sqrt(log / rho)
        best = math.sqrt(logarithm) / (math.sqrt(logarithm + self.epsilon) - math.sqrt(logarithm))
        return tuple((_order(1.0 + factor * best), share * delta) for factor, share in _ORDERS)


class Tally:
    """The sums that a filter keeps of a history, one release at a time.

    Parameters
    ----------
    rule : PrivacyFilter
    """

    def __init__(self, rule: PrivacyFilter) -> None:
        self.rule = rule
        self._basic_share, self._gaussian_share, _ = (share * rule.delta for share in COMPOSITIONS[rule.composition])
        self._uses = COMPOSITIONS[rule.composition]
        self._first: Release | None = None
        self._n = 0
        self._epsilons = self._deltas = self._mu_squared = 0.0
        self._divergences = np.zeros(len(rule.orders))

    def add(self, release: Release) -> None:
        if isinstance(release.event, NothingReleased):
            return
        self._n += 1
        self._first = release if self._n == 1 else None
        if self._uses[0]:
            self._deltas += release.delta
            # an epsilon at its own delta can take a second to account, and is not needed once the deltas are used up
            within = self._deltas <= self._basic_share * (1.0 + _LAST_DIGITS)
            self._epsilons = self._epsilons + epsilon_of(release.event, release.delta) if within else math.inf
        if self._uses[1]:
            self._mu_squared += _mu(release.event) * _mu(release.event)  # beyond the doubles infinity, and no error
        if self.rule.orders:
            self._divergences += _divergences(release.event, tuple(order for order, _ in self.rule.orders))

    def copy(self) -> "Tally":
        """Return the same sums, to be added to apart."""
        other = Tally(self.rule)
        other.__dict__.update(self.__dict__)
        other._divergences = self._divergences.copy()
        return other

    def spent(self) -> float:
        """Return the least epsilon for which the rule admits what was counted."""
        if self._n == 0:
            return 0.0
        found = [math.inf]
        if self._first is not None and self.rule.composition != "gaussian":
            found.append(epsilon_of(self._first.event, self.rule.delta))
        if self._uses[0]:
            found.append(self._epsilons * _UP)
        if self._uses[1] and math.isfinite(self._mu_squared):
            found.append(gaussian_epsilon(math.sqrt(self._mu_squared) * _UP, self._gaussian_share))
        for divergence, (order, delta) in zip(self._divergences, self.rule.orders, strict=True):
            found.append(max(0.0, _converted(float(divergence) * _UP, order, delta)))
        return min(found)


def costs_at_most(release: Release, other: Release, rule: PrivacyFilter) -> bool:
    """Tell whether a release costs no more than another, alone and by each sum of ``rule``, the last digits aside."""
    basic, gaussian, _ = COMPOSITIONS[rule.composition]
    room = 1.0 + _LAST_DIGITS
    alone = () if rule.composition == "gaussian" else ((rule.delta, rule.delta),)
    for one, two in (*alone, *([(release.delta, other.delta)] if basic else [])):
        if not epsilon_of(release.event, one) <= epsilon_of(other.event, two) * room:
            return False
    if gaussian and not _mu(release.event) <= _mu(other.event) * room:
        return False
    orders = tuple(order for order, _ in rule.orders)
    return bool((_divergences(release.event, orders) <= _divergences(other.event, orders) * room).all())


def _converted(divergence: float, order: float, delta: float) -> float:
    """Return the epsilon at ``delta`` of a Renyi divergence (Canonne, Kamath, Steinke 2020, Proposition 12)."""
    return divergence + math.log1p(-1.0 / order) - math.log(delta * order) / (order - 1.0)


def _order(value: float) -> float:
    """Return a whole order where they are many: sampled releases are accounted faster there."""
    value = min(max(value, 1.05), _MOST_ORDER)
    return float(round(value)) if value > 8.0 else round(value, 2)


@lru_cache(maxsize=4096)
def _mu(event: Event) -> float:
    """Return the Gaussian-DP parameter of ``event``; ``inf`` if it holds anything but Gaussian releases."""
    try:
        return GaussianAccountant().mu(event)
    except AccountingError:
        return math.inf


@lru_cache(maxsize=4096)
def _divergences(event: Event, orders: tuple[float, ...]) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    if not orders or not protects(flatten(event)):
        return np.full(len(orders), np.inf)
    return RenyiAccountant(orders).divergences(event)
