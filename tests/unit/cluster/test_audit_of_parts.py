"""Audits of what a driver releases of rows in parts, while workers die: less noise is found, and so is a double count.

The adversary sees released values. At the planned noise the audits find nothing, with workers dying all the time. At
0.7 of the noise they do, and they do where the answer of a worker that was held to be lost is added up as well.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from sottovoce.audit import gaussian_lower_bound
from sottovoce.central.data.operation import Operation, RowSum
from sottovoce.cluster.holder import ClusterHolder
from sottovoce.cluster.partitions import Partitions
from sottovoce.cluster.pool import Call
from sottovoce.privacy.accounting import gaussian_epsilon
from sottovoce.privacy.mechanisms.gaussian import GridGaussian
from sottovoce.randomness import Purpose, Streams
from support.noise import scale_gaussians
from support.parts_pool import FATES, PartsPool
from support.pooled_table import inline

MU, DELTA = 1.0, 0.05
EPSILON = gaussian_epsilon(MU, DELTA)
MECHANISM = GridGaussian(1.0, 1.0 / MU, 2.0**-10)


@dataclass(frozen=True)
class AddUp(RowSum):
    """The sum of each column of entries within [-1, 1], in ticks of the mechanism; each sum is a run of its own."""

    def add(self, rows: Any, views: Any, lo: int, hi: int, total: Any) -> None:
        """Add."""
        total += np.clip(rows.X[lo:hi] / MECHANISM.tick, -(2.0**10), 2.0**10).astype(np.int64).sum(axis=0)


class Naive(ClusterHolder):
    """Adds up what a worker answers that was held to be lost, beside the answer of who took its place."""

    def ask(self, operation: Operation[Any]) -> Any:
        """Ask, and listen to all who speak."""
        total, pool = super().ask(operation), self.partitions.pool
        assert isinstance(pool, PartsPool)
        for keeper, call in pool.late:
            if call.method == "do":
                total = operation.merged([total, *getattr(keeper, call.method)(*call.arguments).value.values()])
        return total


class Fates:
    """What happens to workers; the same in every run on both tables."""

    def __init__(self, kind: str) -> None:
        self._kind, self._coins, self._hung = kind, np.random.default_rng(0), set[int]()

    def __call__(self, keeper: str, call: Call) -> str:
        """Return the fate of a call."""
        if call.method != "do":
            return "done"
        if self._kind == "any":
            return str(self._coins.choice(FATES)) if self._coins.random() < 0.1 else "done"
        number, places = call.arguments[1], call.arguments[3]
        if 2 in places and number not in self._hung:  # whoever has the canary hangs in each pass, and goes on later
            self._hung.add(number)
            return "late"
        return "done"


def scores(kind: type[ClusterHolder], X: np.ndarray, fates: str, runs: int) -> np.ndarray:
    """Release the sum of a table again and again, in three partitions on two workers; the last row is the canary."""
    noise, pool = Streams(int(X[-1, 0])).generator(Purpose.NOISE), PartsPool(2, Fates(fates))
    holder = kind(Partitions(pool, inline(X, None, (4, 8)), max_rebuilds=1000))
    found = []
    for _ in range(runs):
        found.append(holder.release(AddUp(), MECHANISM, noise))
        pool.late.clear()
    return np.concatenate(found)


def bound(kind: type[ClusterHolder], fates: str, runs: int) -> float:
    X = np.full((12, 10), 0.25)
    X[-1] = 1.0
    without = np.vstack([X[:-1], np.zeros((1, 10))])  # zeroed out
    return gaussian_lower_bound(scores(kind, X, fates, runs), scores(kind, without, fates, runs), delta=DELTA)


def test_with_the_planned_noise_nothing_is_found_while_workers_die() -> None:
    assert 0.4 * EPSILON < bound(ClusterHolder, "any", 500) < EPSILON


def test_less_noise_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    scale_gaussians(monkeypatch, 0.7)
    assert bound(ClusterHolder, "any", 500) > EPSILON


def test_a_double_count_is_found() -> None:
    """The same workers hang as in the test of the real holder below; here their late answers are taken."""
    assert bound(Naive, "late", 60) > EPSILON


def test_late_answers_are_not_counted() -> None:
    assert bound(ClusterHolder, "late", 60) < EPSILON
