r"""Frank-Wolfe on the l1 ball without noise, over the columns of all parties in one place. No protection of anybody.

The steepest signed column is stepped to, as far as a search on the line says; the run ends when the duality gap is at
most ``tol`` times the mean loss of the model without columns.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.optimize import brentq

from sottovoce._numerics import Vector
from sottovoce._validation import magnitude, number, whole_number
from sottovoce.losses import SmoothLoss, Squared
from sottovoce.privacy.events import Event, NonPrivateEvent
from sottovoce.randomness import Streams
from sottovoce.vertical.coordinator.parties import Parties
from sottovoce.vertical.coordinator.plan import History, VerticalSolution
from sottovoce.vertical.protocols.exact.plan import SHOWN, joined_columns, keep_weights
from sottovoce.vertical.protocols.frank_wolfe.ball_plan import BallPlan
from sottovoce.vertical.table.columns import Columns


@dataclass(frozen=True, kw_only=True)
class ExactBallPlan(BallPlan):
    """Training without noise."""

    name: ClassVar[str] = "none"
    mechanism: ClassVar[str] = "Frank-Wolfe on the l1 ball with all columns in one place, without noise"
    releases: ClassVar[tuple[str, ...]] = SHOWN

    max_iter: int = 1000  # steps at most
    tol: float = 1e-3

    def __post_init__(self) -> None:
        magnitude("radius", self.radius)
        whole_number("max_iter", self.max_iter, at_least=1)
        number("tol", self.tol, above=0.0)

    @property
    def event(self) -> Event:
        return NonPrivateEvent()

    def solve(self, parties: Parties, y: Vector, model: str, streams: Streams) -> VerticalSolution:
        table, y, holder = joined_columns(parties, self.facts), y - self.middle, self.facts.label_holder
        bound = self.data_bound(holder)
        constant = bound if math.isfinite(bound) else 1.0
        columns, history = Columns(table, intercept=self.fit_intercept), History()
        sizes = np.ones(columns.n_columns)  # the intercept's column is of the holder's bound
        sizes[columns.n_features :] = constant
        weights, predicted = np.zeros(columns.n_columns), np.zeros(len(y))
        limit = self.tol * float(np.sum(self.loss.value(y, predicted)))
        for _ in range(self.max_iter):
            slopes = np.asarray(self.loss.derivative(y, predicted))
            gradient = sizes * columns.back(slopes)
            steepest = int(np.argmax(np.abs(gradient)))
            corner = np.zeros(columns.n_columns)
            corner[steepest] = -math.copysign(self.radius, gradient[steepest])
            direction = columns.times(sizes * corner) - predicted
            gap = -float(slopes @ direction)
            history.add(float(np.sum(self.loss.value(y, predicted))), gap / len(y))
            if gap <= limit:
                history.converged = True
                break
            step = _best_step(self.loss, y, predicted, direction, gap)
            weights = (1.0 - step) * weights + step * corner
            predicted = predicted + step * direction
        ends = np.cumsum([each.n_features for each in self.facts.descriptions.values()])
        parts = dict(zip(self.facts.names, np.split(weights, ends), strict=False))
        intercept = constant * float(weights[columns.n_features :].sum())
        found = {name: (part, intercept * (name == holder)) for name, part in parts.items()}
        keep_weights(parties, model, found)
        return VerticalSolution(
            scorer=self.scorer,
            event=self.event,
            weights=found,
            n_rounds=2,
            history=history,
            chosen={"converged": history.converged},
        )

    def details(self) -> dict[str, object]:
        names = ("radius", "fit_intercept", "max_iter", "tol")
        return {name: getattr(self, name) for name in names}


def _best_step(loss: SmoothLoss, y: Vector, predicted: Vector, direction: Vector, gap: float) -> float:
    """Return the step in [0, 1] along ``direction`` after which the loss is least; ``gap`` > 0 is how fast it falls."""
    if isinstance(loss, Squared):
        return min(1.0, gap / float(direction @ direction))

    def slope(step: float) -> float:
        return float(np.asarray(loss.derivative(y, predicted + step * direction)) @ direction)

    return 1.0 if slope(1.0) <= 0.0 else float(brentq(slope, 0.0, 1.0, xtol=1e-12))
