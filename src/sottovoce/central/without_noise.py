"""What solvers share that train without noise, for ``epsilon=inf``: what the private ones approach."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sottovoce._numerics import Vector
from sottovoce._validation import number
from sottovoce.central.plan import Fit, Plan, Solution
from sottovoce.privacy.events import Event, NonPrivateEvent

__all__ = ["GapPlan", "UnprotectedPlan"]


@dataclass(frozen=True, kw_only=True)
class UnprotectedPlan(Plan):
    """Plan of a run without noise."""

    releases = ("the weights, unprotected",)
    takes_persons = True
    takes_released_norm = True
    proof = "none: this run is not private"

    @property
    def event(self) -> Event:
        return NonPrivateEvent()

    def run(self, released: Mapping[str, object]) -> tuple[Event, dict[str, object]]:
        return self.event, {}


@dataclass(frozen=True, kw_only=True)
class GapPlan(UnprotectedPlan):
    """Plan of a run that ends when a bound on the distance to the optimum is small."""

    # Name of the gap in the receipt, and the least number that it can be.
    gap: ClassVar[str]
    least_gap: ClassVar[float | None] = None

    tol: float  # stop when the gap is at most this share of the objective
    max_iter: int  # cap on the number of iterations

    @abstractmethod
    def approach(self, fit: Fit, y: Vector) -> tuple[Vector, int, float]:
        """Return the weights for one target, the iterations done and the gap that was reached."""

    def train(self, fit: Fit) -> Solution:
        weights, steps, gaps = zip(
            *(self.approach(fit, fit.target(model)) for model in range(fit.targets.n_models)), strict=True
        )
        return Solution(np.stack(weights), max(steps), self.event, {self.gap: max(gaps)})

    def run(self, released: Mapping[str, object]) -> tuple[Event, dict[str, object]]:
        """Return the event and the gap that was reached; see `Plan.run`."""
        return self.event, {self.gap: number(self.gap, released.get(self.gap), at_least=self.least_gap)}
