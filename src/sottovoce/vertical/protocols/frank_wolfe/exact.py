r"""Frank-Wolfe on the l1 ball without noise, over columns at several parties. No protection of anybody.

It is distributed Frank-Wolfe [1]_: each party names its steepest signed column, the steepest of all is stepped to, and
every column crosses once, when it is first used. Steps are as long as a search on the line says, and the run ends when
the duality gap is at most ``tol`` times the mean loss of the model without columns.

References
----------
.. [1] Bellet, Liang, Garakani, Balcan, Sha (2015). A Distributed Frank-Wolfe Algorithm for Communication-Efficient
   Sparse Learning. SIAM International Conference on Data Mining.
"""

import math
from collections.abc import Mapping
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
from sottovoce.vertical.coordinator.plan import History, VerticalSolution, checked
from sottovoce.vertical.protocols.frank_wolfe.ball_plan import BallPlan
from sottovoce.vertical.protocols.frank_wolfe.messages import BallVertex
from sottovoce.vertical.protocols.scoring.messages import ShowColumn
from sottovoce.vertical.wire import Payload


@dataclass(frozen=True, kw_only=True)
class ExactBallPlan(BallPlan):
    """Training without noise."""

    name: ClassVar[str] = "none"
    mechanism: ClassVar[str] = "Frank-Wolfe on the l1 ball with exact slopes and columns, without noise"

    max_iter: int = 1000  # rounds at most
    tol: float = 1e-3

    def __post_init__(self) -> None:
        magnitude("radius", self.radius)
        whole_number("max_iter", self.max_iter, at_least=1)
        number("tol", self.tol, above=0.0)

    @property
    def event(self) -> Event:
        return NonPrivateEvent()

    def constant(self, name: str) -> float:
        bound = self.data_bound(name)
        return self.intercept_at(name) * (bound if math.isfinite(bound) else 1.0)

    def solve(self, parties: Parties, y: Vector, model: str, streams: Streams) -> VerticalSolution:
        y, n = y - self.middle, len(y)
        columns: dict[tuple[str, int], Vector] = {}  # of each party
        taken: dict[tuple[str, int], float] = {}
        predicted, history = np.zeros(n), History()
        limit = self.tol * float(np.mean(self.loss.value(y, predicted))) * n
        for _ in range(self.max_iter):
            slopes = np.asarray(self.loss.derivative(y, predicted))
            requests = {name: BallVertex(slopes, self.constant(name)) for name in self.facts.names}
            replies = parties.exchange(requests, Payload)
            choices = {name: checked(name, reply.numbers, 2) for name, reply in replies.items()}
            steepest = max(choices, key=lambda name: choices[name][1])
            column, sign = self.checked_place(steepest, choices[steepest][0])
            place, vertex = (steepest, column), sign * self.radius
            if place not in columns:
                columns[place] = self._column(parties, steepest, column)
            direction = vertex * columns[place] - predicted
            gap = -float(slopes @ direction)
            history.add(parties, float(np.sum(self.loss.value(y, predicted))), gap / n)
            if gap <= limit:
                history.converged = True
                break
            if gap > 0.0:
                step = _best_step(self.loss, y, predicted, direction, gap)
                taken = {each: (1.0 - step) * weight for each, weight in taken.items()}
                taken[place] = taken.get(place, 0.0) + step * vertex
                predicted = (1.0 - step) * predicted + step * vertex * columns[place]
        weights = {name: self._weights(name, taken) for name in self.facts.names}
        self.keep(parties, model, weights)
        return VerticalSolution(
            scorer=self.scorer,
            event=self.event,
            weights=weights,
            n_rounds=history.n_rounds,
            history=history,
            chosen={"converged": history.converged, "columns shared": len(columns)},
        )

    def _column(self, parties: Parties, name: str, column: int) -> Vector:
        """Return the entries of a column, which cross unless it is that of an intercept."""
        n = self.facts.n_samples
        if column == self.facts.descriptions[name].n_features:
            return np.full(n, self.constant(name))
        return checked(name, parties.ask(name, ShowColumn(column), Payload).numbers, n)

    def _weights(self, name: str, taken: Mapping[tuple[str, int], float]) -> tuple[Vector, float]:
        features = self.facts.descriptions[name].n_features
        weights = np.array([taken.get((name, column), 0.0) for column in range(features + 1)])
        return weights[:features], float(weights[features]) * self.constant(name)

    @property
    def releases(self) -> tuple[str, ...]:
        return (
            "to every party: the derivative of the loss for each record in every round, from which labels and "
            "predictions can be told",
            "to the coordinator: each party's steepest column in every round, its slope, and the columns of the model",
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
