"""What an audit is: an adversary's scores of many runs on two neighbouring tables, and the promise they are held to.

The adversary knows all other rows and sees everything that is listed under "releases", unless an audit says otherwise.
The best score is the exact log-likelihood ratio of what was seen. Seeds are fixed, so outcomes are too; over them a
bound is too high with probability 0.001.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.stats import beta

from sottovoce.audit import epsilon_lower_bound, gaussian_lower_bound
from sottovoce.privacy.accounting import GaussianAccountant
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
        bound_by = gaussian_lower_bound if self.gaussian else epsilon_lower_bound
        return bound_by(np.asarray(self.first), np.asarray(self.second), delta=self.delta)


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
        draws = 2 * self.n_runs
        least = float(beta.ppf(1e-3, self.right, draws - self.right + 1))
        one = RandomizedResponseEvent(math.log(least / (1.0 - least)))
        return GaussianAccountant().epsilon(RepeatedEvent(one, self.n_steps), DELTA)


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
    run: Callable[[float, pytest.MonkeyPatch], Scores | Answers]
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
    return seen


def scale_choices(patch: pytest.MonkeyPatch, factor: float) -> None:
    """Scale the noise of every exponential mechanism from here on."""
    rate = ExponentialMechanism.rate.fget
    patch.setattr(ExponentialMechanism, "rate", property(lambda self: rate(self) / factor))


def along_difference(
    seen: list[Shown], runs: Iterable[Iterable[Callable[[], Any]]], *, epsilon: float = 1.0
) -> Scores:  # fmt: skip
    """Run on the one table and on the other, and score all that a run released by its projection on the difference.

    Parameters
    ----------
    seen : list of Shown
        Where the releases of a run are noted.
    runs : iterable of iterable of callable
        The runs on each of the two tables. What a table would release without noise must be the same in all of them.
    epsilon : float
        What was promised.
    """
    released, exact = [], []
    for on_table in runs:
        values = []
        for run in on_table:
            seen.clear()
            run()
            values.append(np.concatenate([np.ravel(one.value) for one in seen]))
        released.append(np.array(values))
        exact.append(np.concatenate([np.ravel(one.exact) for one in seen]))
    direction = exact[0] - exact[1]
    return Scores(released[0] @ direction, released[1] @ direction, epsilon)
