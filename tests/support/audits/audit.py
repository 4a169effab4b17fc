"""What an audit is: an adversary's scores of many runs on two neighbouring tables, and the promise they are held to.

The adversary knows all other rows and sees everything that is listed under "releases", unless an audit says otherwise.
The best score is the exact log-likelihood ratio of what was seen. Seeds are fixed, so outcomes are too; over them a
bound is too high with probability 0.001.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import beta, binom, norm

from sottovoce.audit import epsilon_lower_bound
from sottovoce.central.data.operation import RowSum
from sottovoce.central.sums.passes import Slopes
from sottovoce.privacy.accounting import GaussianAccountant, gaussian_epsilon
from sottovoce.privacy.events import RandomizedResponseEvent, RepeatedEvent
from sottovoce.privacy.mechanisms.gaussian import GridGaussian
from sottovoce.privacy.mechanisms.noisy_max import ExponentialMechanism
from support.noise import Scaled

DELTA = 0.05  # an audit has more power at a large delta


@dataclass(frozen=True)
class Scores:
    """A score of each run on a table and on its neighbour.

    Attributes
    ----------
    first, second : array_like of shape (n_runs,)
    epsilon, delta : float
        What was promised.
    gaussian : bool
        Whether only Gaussian mechanisms were run, adaptively composed: their bound needs fewer runs.
    """

    first: Any
    second: Any
    epsilon: float = 1.0
    delta: float = DELTA
    gaussian: bool = True

    @property
    def n_runs(self) -> int:
        """On each table."""
        return min(len(self.first), len(self.second))

    def bound(self) -> float:
        """Return a lower bound on epsilon, of confidence 0.999."""
        scores = np.asarray(self.first), np.asarray(self.second)
        return epsilon_lower_bound(*scores, delta=self.delta, gaussian=self.gaussian)


@dataclass(frozen=True)
class Ratios:
    """The exact log-likelihood ratio of each run, table : neighbour, of Gaussian mechanisms adaptively composed.

    Whoever names the table by its sign is right in at most Phi(mu / 2) of the runs, if half of them are on each table,
    so how often he is bounds mu. No threshold is looked for on a half of the runs: fewer of them do, see
    `power_of_ratios`.
    """

    first: Any
    second: Any
    epsilon: float = 1.0

    @property
    def n_runs(self) -> int:
        """On each table."""
        return min(len(self.first), len(self.second))

    def bound(self) -> float:
        """Return a lower bound on epsilon, of confidence 0.999."""
        right = np.sum(np.asarray(self.first) > 0.0) + np.sum(np.asarray(self.second) < 0.0)
        return gaussian_epsilon(max(0.0, 2.0 * float(norm.ppf(_share_at_least(int(right), 2 * self.n_runs)))), DELTA)


def _share_at_least(hits: int, draws: int) -> float:
    return float(beta.ppf(1e-3, hits, draws - hits + 1))


def power_of_ratios(mu: float, n_runs: int, *, factor: float = 0.7, tight: float = 1.0) -> float:
    """Return how probably `Ratios` see noise of ``factor`` times what mu takes, of which the attack sees a share."""
    draws = 2 * n_runs
    shares = beta.ppf(1e-3, np.arange(1, draws), draws - np.arange(1, draws) + 1)
    enough = 1 + np.argmax(shares > norm.cdf(mu / 2.0))
    return float(binom.sf(enough - 1, draws, norm.cdf(tight * mu / factor / 2.0)))


@dataclass(frozen=True)
class Answers:
    """How often one of many choices went in the direction of the person's row.

    It is a randomised response, so a lower bound on its loss is one on the epsilon of all steps, exactly composed.
    """

    right: int
    n_runs: int
    n_steps: int
    epsilon: float = 1.0

    def bound(self) -> float:
        """Return a lower bound on epsilon of all steps, of confidence 0.999."""
        least = _share_at_least(self.right, 2 * self.n_runs)
        one = RandomizedResponseEvent(math.log(least / (1.0 - least)))
        return GaussianAccountant().epsilon(RepeatedEvent(one, self.n_steps), DELTA)


@dataclass(frozen=True)
class Steps:
    """How often the steps of all runs on either table went in the direction of the person's row; each may, alike.

    The bound is that of all steps of a run, exactly composed.
    """

    first: int
    second: int
    n_runs: int
    n_steps: int
    epsilon: float = 1.0

    def bound(self) -> float:
        """Return a lower bound on epsilon of all steps, of confidence 0.999."""
        draws = self.n_runs * self.n_steps
        least = float(beta.ppf(5e-4, self.first, draws - self.first + 1))
        most = float(beta.ppf(1.0 - 5e-4, self.second + 1, draws - self.second))
        count = np.arange(self.n_steps + 1)
        p, q = (binom.pmf(count, self.n_steps, share) for share in (max(least, most), most))

        def excess(epsilon: float) -> float:
            left, right = p - math.exp(epsilon) * q, q - math.exp(epsilon) * p
            return float(max(np.maximum(left, 0.0).sum(), np.maximum(right, 0.0).sum())) - DELTA

        return float(brentq(excess, 0.0, 30.0)) if excess(0.0) > 0.0 else 0.0


@dataclass(frozen=True)
class Audit:
    """A mechanism, or a whole training, at the planned noise and at less.

    Attributes
    ----------
    name : str
    run : callable
        Takes what the noise is multiplied by and the test's patches, and returns what the adversary makes of the runs.
    least : float
        The share of the promise that the bound exceeds at the planned noise: near it, staying below says something.
    factors, slow : tuple of float
        Of the noise: those of `make test`, and those of `make test-slow`.
    """

    name: str
    run: Callable[[float, pytest.MonkeyPatch], Scores | Ratios | Answers | Steps]
    least: float = 0.5
    factors: tuple[float, ...] = (1.0, 0.7)
    slow: tuple[float, ...] = ()


# where `contracts/test_core.py` and the grey box notice the same faults without thousands of runs
SLOW: dict[str, Any] = {"factors": (), "slow": (1.0, 0.7)}


class Shown(NamedTuple):
    """A Gaussian release: what came out, its planned noise and sensitivity, and what went in."""

    value: Any
    std: float
    sensitivity: float
    exact: Any


def note_releases(patch: pytest.MonkeyPatch, factor: float) -> list[Shown]:
    """Scale the noise of every Gaussian release from here on, and return the list that they are noted in."""
    original, seen = GridGaussian.release, []

    def release(self, ticks, noise):
        value, event = original(self, ticks, Scaled(noise, factor))
        seen.append(Shown(value, self.noise_std, self.l2_sensitivity, ticks * self.tick))
        return value, event

    patch.setattr(GridGaussian, "release", release)
    patch.setattr(Slopes, "descend", RowSum.descend)  # step by step, where each release is by itself
    return seen


def scale_choices(patch: pytest.MonkeyPatch, factor: float) -> None:
    """Scale the noise of every exponential mechanism from here on."""
    rate = ExponentialMechanism.rate.fget
    patch.setattr(ExponentialMechanism, "rate", property(lambda self: rate(self) / factor))
