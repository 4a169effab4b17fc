r"""Frank-Wolfe on the l1 ball without noise, over the columns of all parties in one place. No protection of anybody.

The steepest signed column is stepped to, as far as a search on the line says; the run ends when the duality gap is at
most ``tol`` times the mean loss of the model without columns.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import brentq

from sottovoce._numerics import Vector
from sottovoce._validation import magnitude
from sottovoce.losses import SmoothLoss, Squared
from sottovoce.vertical.coordinator.plan import History, Words
from sottovoce.vertical.protocols.exact.newton import Optimum
from sottovoce.vertical.protocols.exact.plan import InOnePlacePlan
from sottovoce.vertical.protocols.frank_wolfe.ball_plan import BallPlan
from sottovoce.vertical.table.columns import Columns


@dataclass(frozen=True, kw_only=True)
class ExactBallPlan(BallPlan, InOnePlacePlan):
    """Training without noise."""

    mechanism: ClassVar[str] = "Frank-Wolfe on the l1 ball with all columns in one place, without noise"

    max_iter: int = 1000
    tol: float = 1e-3

    def __post_init__(self) -> None:
        magnitude("radius", self.radius)
        super().__post_init__()

    def optimum(self, table: Any, y: Vector) -> Optimum:
        y, bound = y - self.middle, self.data_bound(self.facts.label_holder)
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
        features = columns.n_features
        return Optimum(weights[:features], constant * float(weights[features:].sum()), history)

    @property
    def words(self) -> Words:
        own = {"radius": self.radius, "fit_intercept": self.fit_intercept}
        return replace(super().words, of_holder=self.of_holder, details={**own, **super().words.details})


def _best_step(loss: SmoothLoss, y: Vector, predicted: Vector, direction: Vector, gap: float) -> float:
    """Return the step in [0, 1] along ``direction`` after which the loss is least; ``gap`` > 0 is how fast it falls."""
    if isinstance(loss, Squared):
        return min(1.0, gap / float(direction @ direction))

    def slope(step: float) -> float:
        return float(np.asarray(loss.derivative(y, predicted + step * direction)) @ direction)

    return 1.0 if slope(1.0) <= 0.0 else float(brentq(slope, 0.0, 1.0, xtol=1e-12))
