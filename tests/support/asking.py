"""Drives the core by itself: a generator of releases, rows, and noise that a test has chosen."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from sottovoce.central.calibration import calibrated
from sottovoce.central.core import Asked, Driven, drive
from sottovoce.central.data.labels import hold
from sottovoce.central.data.operation import Holder
from sottovoce.central.data.part import Part, Rows
from sottovoce.central.parallel import Team
from sottovoce.central.plan import Plan, Solution, TrainingFacts
from sottovoce.central.sums.last_factors import slope_and_shift
from sottovoce.central.sums.shared_counts import Prior
from sottovoce.losses import Logistic
from sottovoce.privacy.adjacency import Adjacency, Neighbours
from sottovoce.randomness import Purpose, Streams
from support.many_parts import begun


class _Chosen(Streams):
    """Streams of which the one for noise is given."""

    def __init__(self, noise: np.random.Generator) -> None:
        super().__init__(0)
        self._streams[Purpose.NOISE] = noise


def answered(asks: Callable[[], Asked[Any]], holder: Holder, noise: "np.random.Generator | int") -> Driven[Any]:
    """Return what becomes of a generator of releases, with noise from a generator, or from one of a seed."""
    rng = np.random.default_rng(noise) if isinstance(noise, int) else noise
    return drive(asks, holder, _Chosen(rng))


def calibrating(
    rows: Rows, y: Any, w: Any, mu: float, prior: Prior, noise: Any, *, adjacency: Adjacency = Adjacency.ZERO_OUT,
    n_public: int | None = None, team: Team | None = None,
) -> Driven[Any]:  # fmt: skip
    """Release slope and shift of some weights from scaled rows with labels -1 and +1."""
    facts = TrainingFacts(
        loss=Logistic(), n_samples=n_public or rows.n_samples, n_features=rows.raw.shape[1], n_models=1, alpha=1e-4,
        constant=rows.constant / math.sqrt(1.0 - rows.constant**2), epsilon=1.0, delta=1e-6, adjacency=adjacency,
        label_bound=None,
    )  # fmt: skip
    return answered(lambda: calibrated(w, prior, mu, facts, 0), begun(rows, y, team), noise)


def straightened(
    rows: Rows, y: Any, w: Any, cut: float, mu: float, noise: Any, *, neighbours: Neighbours | None = None,
    n_public: int | None = None, team: Team | None = None,
) -> Driven[Any]:  # fmt: skip
    """Release slope and shift of the predictions of numbers from scaled rows."""
    neighbours = neighbours or Neighbours(Adjacency.ZERO_OUT)
    asks = partial(slope_and_shift, np.asarray(w), cut, n_public or rows.n_samples, neighbours, mu)
    return answered(asks, begun(rows, y, team), noise)


def table_of(X: Any) -> Part:
    """Return a holder of raw rows in memory."""
    return Part(X, Team(1, None))


def trained(plan: Plan, rows: Rows, targets: Any, streams: Streams, team: Team) -> Driven[Solution]:
    """Train one model for each target on scaled rows in memory."""
    return drive(plan.train, hold(rows, targets, team), streams)
