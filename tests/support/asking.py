"""Drives the core by itself: a generator of releases, rows, and noise that a test has chosen."""

from collections.abc import Callable
from typing import Any

import numpy as np

from sottovoce.central.core import Asked, Driven, drive
from sottovoce.central.data.holder import Holder, LocalHolder, hold
from sottovoce.central.data.part import Part
from sottovoce.central.data.rows import Rows
from sottovoce.central.parallel import Team
from sottovoce.central.plan import Plan, Solution
from sottovoce.randomness import Purpose, Streams

__all__ = ["answered", "table_of", "trained"]


class _Chosen(Streams):
    """Streams of which the one for noise is given."""

    def __init__(self, noise: np.random.Generator) -> None:
        super().__init__(0)
        self._streams[Purpose.NOISE] = noise


def answered(asks: Callable[[], Asked[Any]], holder: Holder, noise: "np.random.Generator | int") -> Driven[Any]:
    """Return what becomes of a generator of releases, with noise from a generator, or from one of a seed."""
    rng = np.random.default_rng(noise) if isinstance(noise, int) else noise
    return drive(asks, holder, _Chosen(rng))


def table_of(X: Any) -> LocalHolder:
    """Return a holder of raw rows in memory."""
    return LocalHolder(Part(X, Team(1, None)))


def trained(plan: Plan, rows: Rows, targets: Any, streams: Streams, team: Team, **given: Any) -> Driven[Solution]:
    """Train one model for each target on scaled rows in memory; ``given`` are those of `hold`."""
    return drive(plan.train, hold(rows, targets, team, **given), streams)
