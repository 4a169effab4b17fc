"""Accountants: from events to epsilon and delta, never too small.

Each is right for every event it accepts, and refuses the others. None knows a kind of event: it asks what a release
offers (`sottovoce.privacy.event.Offers`), and the tightest that all releases of a run allow is taken: exact for
Gaussian releases and randomised responses, privacy loss distributions where rows are sampled, the optimal composition
of exponential mechanisms, the profile of one private search, and Renyi DP for all the rest.

Before anything is computed an event is flattened to "how often each basic event happened". Order and nesting are
therefore gone by construction, and n-fold composition is n times the single one.
"""

from collections import Counter
from functools import lru_cache
from typing import Final

from sottovoce._numerics import nudge
from sottovoce.privacy.accountants.exact import (
    BoundedRangeAccountant,
    GaussianAccountant,
    MixedAccountant,
    MixedSelectionAccountant,
)
from sottovoce.privacy.accountants.pld import MOST_SAMPLED_STEPS, PLDAccountant
from sottovoce.privacy.accountants.renyi import RenyiAccountant
from sottovoce.privacy.event import Accountant, Counts, Event, flatten, offered
from sottovoce.privacy.profiles.gaussian import MOST_NOISE, gaussian_delta, gaussian_epsilon
from sottovoce.privacy.trials import TrialCount

__all__ = [
    "MOST_NOISE", "MOST_SAMPLED_STEPS", "Accountant", "BoundedRangeAccountant", "GaussianAccountant",
    "MixedSelectionAccountant", "PLDAccountant", "RenyiAccountant", "SelectionAccountant", "accountant_for",
    "epsilon_of", "flatten", "gaussian_delta", "gaussian_epsilon", "nudge",
]  # fmt: skip


class SelectionAccountant(Accountant):
    r"""The privacy profile of one private search, by itself, from the profile of one trial.

    .. math:: \delta_{search}(\varepsilon) \le E[K] \, \delta_{trial}(\varepsilon - r),

    where r bounds the logarithm of the ratio of the slopes that the choice of the best trial has under the two tables
    (`sottovoce.privacy.trials.TrialCount.log_ratio`). Tighter than Renyi DP, but it does not compose.
    """

    name = "privacy profile of private selection"

    @classmethod
    def covers(cls, counts: Counts) -> bool:
        searches = offered(counts, "search")
        return counts.total() == 1 and any(not offered(flatten(run), "search") for run, _ in searches)

    def _epsilon(self, counts: Counts, delta: float) -> float:
        run, trials, trial, shift = self._trial(counts)
        return shift + trial.epsilon(run, delta / trials.mean * (1.0 - 1e-12))

    def _delta(self, counts: Counts, epsilon: float) -> float:
        run, trials, trial, shift = self._trial(counts)
        if epsilon < shift:
            return 1.0
        return trials.mean * trial.delta(run, (epsilon - shift) * (1.0 - 1e-12)) * (1.0 + 1e-12)

    def _trial(self, counts: Counts) -> tuple[Event, TrialCount, Accountant, float]:
        self._check(counts, "one search by itself, without a search inside")
        ((run, trials),) = offered(counts, "search")
        trial = accountant_for(run)
        return run, trials, trial, trials.log_ratio(lambda epsilon: trial.delta(run, epsilon))


# the tightest first
_ACCOUNTANTS: Final[tuple[type[Accountant], ...]] = (
    GaussianAccountant, MixedAccountant, BoundedRangeAccountant, MixedSelectionAccountant, SelectionAccountant,
    PLDAccountant, RenyiAccountant,
)  # fmt: skip


@lru_cache(maxsize=4096)
def epsilon_of(event: Event, delta: float) -> float:
    """Return what the tightest accountant says of ``event``; remembered, since many fits have the same event."""
    return accountant_for(event).epsilon(event, delta)


def accountant_for(event: Event) -> Accountant:
    """Return the tightest accountant that covers ``event``: exact for Gaussians and a few responses, else PLD.

    Above 2 million steps of one kind that are not plain Gaussians it is Renyi DP, whose work does not grow with them.
    A private search by itself has an accountant of its own, as have exponential mechanisms of one kind, also beside
    Gaussians and a few responses; together with other releases it is Renyi DP.
    """
    protected = Counter({basic: times for basic, times in flatten(event).items() if basic.offers.protected})
    return next(accountant() for accountant in _ACCOUNTANTS if accountant.covers(protected))
