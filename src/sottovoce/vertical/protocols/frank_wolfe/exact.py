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
from dataclasses import dataclass, field
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
from sottovoce.vertical.protocols.frank_wolfe.messages import BallChoice, BallVertex
from sottovoce.vertical.protocols.scoring.messages import Scores, ShowColumn


@dataclass
class _Model:
    """Weights by column, and what they predict, of one party."""

    weights: dict[int, float] = field(default_factory=dict)
    columns: dict[int, Vector] = field(default_factory=dict)
    predicted: Vector = field(default_factory=lambda: np.zeros(0))

    def shrink(self, step: float) -> None:
        self.weights = {key: (1.0 - step) * weight for key, weight in self.weights.items()}
        self.predicted = (1.0 - step) * self.predicted

    def move(self, step: float, column: int, vertex: float) -> None:
        self.weights[column] = self.weights.get(column, 0.0) + step * vertex
        self.predicted += step * vertex * self.columns[column]


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
        history = History()
        models = self._train(parties, y - self.middle, history)
        weights = {name: self._split(name, own) for name, own in models.items()}
        self.keep(parties, model, weights)
        return VerticalSolution(
            scorer=self.scorer,
            event=self.event,
            weights=weights,
            n_rounds=history.n_rounds,
            history=history,
            chosen={
                "converged": history.converged,
                "columns shared": sum(len(each.columns) for each in models.values()),
            },
        )

    def _train(self, parties: Parties, y: Vector, history: History) -> dict[str, _Model]:
        models = {name: _Model(predicted=np.zeros(len(y))) for name in self.facts.names}
        limit = self.tol * float(np.mean(self.loss.value(y, np.zeros(len(y))))) * len(y)
        for _ in range(self.max_iter):
            predicted = np.sum([model.predicted for model in models.values()], axis=0)
            slopes = np.asarray(self.loss.derivative(y, predicted))
            requests = {name: BallVertex(slopes, self.constant(name)) for name in models}
            choices = parties.exchange(requests, BallChoice)
            steepest = max(choices, key=lambda name: choices[name].score)
            column, sign = self.checked_place(steepest, choices[steepest].place)
            vertex, stepping = sign * self.radius, models[steepest]
            if column not in stepping.columns:
                stepping.columns[column] = self._column(parties, steepest, column)
            direction = vertex * stepping.columns[column] - predicted
            gap = -float(slopes @ direction)
            history.add(parties, float(np.sum(self.loss.value(y, predicted))), gap / len(y))
            if gap <= limit:
                history.converged = True
                break
            if gap > 0.0:
                size = _best_step(self.loss, y, predicted, direction, gap)
                for model in models.values():
                    model.shrink(size)
                stepping.move(size, column, vertex)
        return models

    def _column(self, parties: Parties, name: str, column: int) -> Vector:
        """Return the entries of a column, which cross unless it is that of an intercept."""
        n = self.facts.n_samples
        if column == self.facts.descriptions[name].n_features:
            return np.full(n, self.constant(name))
        return checked(name, parties.ask(name, ShowColumn(column), Scores).scores, n)

    def _split(self, name: str, model: _Model) -> tuple[Vector, float]:
        features = self.facts.descriptions[name].n_features
        weights = np.zeros(features + 1)
        for column, weight in model.weights.items():
            weights[column] = weight
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
