"""What solvers share that go in noisy steps: the scales first, then one model for each target, averaged over steps."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sottovoce._numerics import Vector
from sottovoce.central.parallel import Team
from sottovoce.central.plan import Progress, Report, Solution, one_vs_rest
from sottovoce.central.rows import Rows
from sottovoce.central.scaled_plan import ScaledPlan, Scales
from sottovoce.privacy.events import Event, compose
from sottovoce.randomness import Purpose, Streams

__all__ = ["SteppedPlan", "Steps"]


@dataclass(frozen=True, kw_only=True)
class Steps(ABC):
    """The steps of one fit: settings that are the same for each model.

    Parameters
    ----------
    rows : Rows
    streams : Streams
    team : Team
    n_steps : int
        Noisy steps of each model.
    n_iterates : int
        Released points of each model that may enter its average; each is a report to the progress bar.
    unit : float
        What a released point is divided by to be weights.
    """

    # Share of the released points, the last ones, that a model is averaged over.
    averaged: ClassVar[float]

    rows: Rows
    streams: Streams
    team: Team
    n_steps: int
    n_iterates: int
    unit: float

    @property
    def noise(self) -> np.random.Generator:
        """The stream that noise is drawn from."""
        return self.streams.generator(Purpose.NOISE)

    @property
    @abstractmethod
    def events(self) -> tuple[Event, ...]:
        """What the steps of all models emit."""

    @abstractmethod
    def iterates(self, y: Vector) -> Iterator[Vector]:
        """Take the steps for one target; yield the points that are released."""

    def train(self, y: Vector, report: Report) -> Vector:
        """Return the averaged weights for one target."""
        total = np.zeros(self.rows.n_weights)
        averaged = max(1, round(self.averaged * self.n_iterates))
        for step, point in enumerate(self.iterates(y)):
            if step >= self.n_iterates - averaged:
                total += point
            report(step + 1)
        return total / (averaged * self.unit)


class SteppedPlan(ScaledPlan):
    """Plan of a solver that goes in noisy steps."""

    @abstractmethod
    def steps(self, rows: Rows, scales: Scales, streams: Streams, team: Team) -> Steps:
        """Return the steps that follow from the released scales."""

    @property
    def releases(self) -> tuple[str, ...]:
        """What the statement covers, for the receipt."""
        return (*self.scale_releases, "the weights after every step (the model is an average of them)")

    def solve(
        self, rows: Rows, targets: Sequence[Vector], streams: Streams, team: Team, progress: Progress
    ) -> Solution:
        """Release the scales, and train one model for each target as planned."""
        self.settle()  # calibrated from public facts before anything is released
        scales = self.release_scales(rows, targets, streams.generator(Purpose.NOISE))
        steps = self.steps(rows, scales, streams, team)
        # a classifier's location is 0: no second copy of its labels
        weights = one_vs_rest(
            targets, steps.n_iterates, progress,
            lambda y, report: steps.train(y - scales.location if scales.location else y, report),
        )  # fmt: skip
        event = compose(*scales.events, *steps.events)
        return Solution(weights, steps.n_steps, event, self.chosen(scales), offset=scales.location)
