r"""Frank-Wolfe on the l1 ball without noise, over columns at several parties. No protection of anybody.

With ``aggregation="global"`` it is distributed Frank-Wolfe [1]_: each party names its steepest signed column, the
steepest of all is stepped to, and every column crosses once, when it is first used. With ``"product"`` every party
steps in its own ball. With ``"local"`` each party is trained by itself. Steps are as long as a search on the line says,
and the run ends when the duality gap is at most ``tol`` times the mean loss of the model without columns.

References
----------
.. [1] Bellet, Liang, Garakani, Balcan, Sha (2015). A Distributed Frank-Wolfe Algorithm for Communication-Efficient
   Sparse Learning. SIAM International Conference on Data Mining.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

import numpy as np
from scipy.optimize import brentq

from sottovoce._numerics import Vector
from sottovoce._validation import choice, magnitude, number, whole_number
from sottovoce.losses import SmoothLoss, Squared
from sottovoce.optimize import NiceSampling
from sottovoce.privacy.events import Event, NonPrivateEvent
from sottovoce.randomness import Streams
from sottovoce.vertical.coordinator.attendance import Attendance
from sottovoce.vertical.coordinator.history import History
from sottovoce.vertical.coordinator.parties import Parties
from sottovoce.vertical.coordinator.plan import VerticalSolution
from sottovoce.vertical.coordinator.replies import checked
from sottovoce.vertical.protocols.frank_wolfe.ball_plan import BallPlan, kept_weights
from sottovoce.vertical.protocols.frank_wolfe.messages import BallChoice, BallVertex
from sottovoce.vertical.protocols.scoring.messages import ShowColumn, ShownColumn
from sottovoce.vertical.wire import Done

__all__ = ["AGGREGATIONS", "ExactBallPlan"]

AGGREGATIONS = ("local", "product", "global")

_PATIENCE: Final = 20  # rounds in a row in which somebody does not answer, and nobody else has anything left to do


@dataclass
class _Model:
    """Weights by column, and what they predict, of one party."""

    weights: dict[int, float] = field(default_factory=dict)
    columns: dict[int, Vector] = field(default_factory=dict)
    predicted: Vector = field(default_factory=lambda: np.zeros(0))

    def move(self, step: float, column: int | None, vertex: float) -> None:
        """Shrink by 1 - ``step`` and step to a vertex, if there is one."""
        self.weights = {key: (1.0 - step) * weight for key, weight in self.weights.items()}
        self.predicted = (1.0 - step) * self.predicted
        if column is not None:
            self.weights[column] = self.weights.get(column, 0.0) + step * vertex
            self.predicted += step * vertex * self.columns[column]


@dataclass(frozen=True, kw_only=True)
class ExactBallPlan(BallPlan):
    """Training without noise.

    Attributes
    ----------
    aggregation : {"local", "product", "global"}
    max_iter : int
        Rounds at most; of each party, where they are trained by themselves.
    tol : float
    """

    name: ClassVar[str] = "none"

    aggregation: str = "local"
    max_iter: int = 1000
    tol: float = 1e-3

    def __post_init__(self) -> None:
        magnitude("radius", self.radius)
        choice("aggregation", self.aggregation, AGGREGATIONS)
        whole_number("max_iter", self.max_iter, at_least=1)
        number("tol", self.tol, above=0.0)
        self.check_attendance(self.aggregation)
        self.shares  # noqa: B018  refuses wrong shares before anything crosses

    @property
    def event(self) -> Event:
        """No protection."""
        return NonPrivateEvent()

    def constant(self, name: str) -> float:
        """Return the entry of the intercept's column at a party; 0 for none."""
        bound = self.data_bound(name)
        return self.intercept_at(name) * (bound if math.isfinite(bound) else 1.0)

    def ball(self, name: str) -> float:
        """Return the radius that a party may step to."""
        return self.radius * (1.0 if self.aggregation == "global" else self.shares[name])

    def solve(self, parties: Parties, y: Vector, model: str, streams: Streams) -> VerticalSolution:
        """Train; see `VerticalPlan.solve`."""
        names = self.facts.names
        targets = y - self.middle
        history = History(converged=True)
        attendance = self.attendance(parties)
        models: dict[str, _Model] = {}
        for together in [(name,) for name in names] if self.aggregation == "local" else [names]:
            models |= self._train(parties, attendance, targets, together, history)
        weights = {name: self._split(name, models[name]) for name in names}
        attendance.settle(names)
        keeping = {name: kept_weights(model, *weights[name]) for name in attendance.free(names)}
        kept = attendance.ask(keeping, Done)
        return self.solution_over(
            attendance,
            weights,
            set(names) - set(kept),
            {},
            party_events=dict.fromkeys(names, self.event),
            n_rounds=history.n_rounds,
            history=history,
            chosen={
                "converged": history.converged,
                "columns shared": sum(len(each.columns) for each in models.values()),
            },
        )

    def _train(
        self, parties: Parties, attendance: Attendance, y: Vector, names: Sequence[str], history: History
    ) -> dict[str, _Model]:
        models = {name: _Model(predicted=np.zeros(len(y))) for name in names}
        limit = self.tol * float(np.mean(self.loss.value(y, np.zeros(len(y))))) * len(y)
        sampling = NiceSampling(len(names), min(self.parties_at_once, len(names)))
        rng = np.random.Generator(np.random.PCG64(self.parties_seed))
        silent = 0  # rounds in a row in which those who answered had nothing to do, and somebody did not answer
        for _ in range(self.max_iter):
            attendance.round += 1
            predicted = np.sum([model.predicted for model in models.values()], axis=0)
            slopes = np.asarray(self.loss.derivative(y, predicted))
            drawn = [names[place] for place in sampling.draw(rng)]
            choices = self._choices(attendance, drawn, slopes, models)
            vertices = self._vertices(attendance, {name: choices[name] for name in self._winners(choices)}, models)
            # with one ball all weights shrink toward the vertex; of a product those of the parties that step
            moved = {
                name: model for name, model in models.items() if vertices and (self._is_global or name in vertices)
            }
            direction, gap = np.zeros(len(y)), 0.0
            if vertices:
                target = np.sum(
                    [size * models[name].columns[column] for name, (column, size) in vertices.items()], axis=0
                )
                direction = target - np.sum([model.predicted for model in moved.values()], axis=0)
                gap = -float(slopes @ direction)
            history.add(parties, float(np.sum(self.loss.value(y, predicted))), gap / len(y))
            if gap > limit:
                silent = 0
            else:  # is it so for those who were not asked?
                rest = [name for name in names if name not in drawn]
                heard = {**choices, **self._choices(attendance, rest, slopes, models)}
                seen = len(choices) if self._is_global and vertices else len(vertices)
                whole = gap if seen == len(names) else self._gap(heard, slopes, models)
                silent = silent + 1 if whole <= limit else 0
                if silent and len(heard) == len(names):
                    return models
                if silent == _PATIENCE:
                    history.converged = False
                    return models
            if gap > 0.0:
                size = _best_step(self.loss, y, predicted, direction, gap)
                for name, model in moved.items():
                    model.move(size, *vertices.get(name, (None, 0.0)))
        history.converged = False
        return models

    @property
    def _is_global(self) -> bool:
        return self.aggregation == "global"

    def _gap(self, choices: Mapping[str, BallChoice], slopes: Vector, models: Mapping[str, _Model]) -> float:
        """Return how far the loss could fall, as the slopes of those who answered tell it."""
        falls = {name: self.ball(name) * reply.score for name, reply in choices.items()}
        if self._is_global:
            return max(falls.values(), default=0.0) + sum(float(slopes @ model.predicted) for model in models.values())
        return math.fsum(float(slopes @ models[name].predicted) + fall for name, fall in falls.items())

    def _choices(
        self, attendance: Attendance, names: Sequence[str], slopes: Vector, models: Mapping[str, _Model]
    ) -> dict[str, BallChoice]:
        """Return the steepest columns of those who answer; of what they owe from before a column can still be used."""
        for name, (request, reply) in attendance.settle(names).items():
            if isinstance(request, ShowColumn) and isinstance(reply, ShownColumn):
                models[name].columns[request.column] = checked(name, reply.entries, self.facts.n_samples)
        free = attendance.free(names)
        return attendance.ask({name: BallVertex(slopes, self.constant(name)) for name in free}, BallChoice)

    def _winners(self, choices: dict[str, BallChoice]) -> tuple[str, ...]:
        if not self._is_global or not choices:
            return tuple(choices)
        return (max(choices, key=lambda name: choices[name].score),)

    def _vertices(
        self, attendance: Attendance, choices: dict[str, BallChoice], models: dict[str, _Model]
    ) -> dict[str, tuple[int, float]]:
        """Return columns and signed sizes of the vertices whose columns are here; a new one is fetched."""
        n, found, new = self.facts.n_samples, dict[str, tuple[int, float]](), dict[str, int]()
        for name, reply in choices.items():
            column, sign = self.checked_place(name, reply.place)
            found[name] = column, sign * self.ball(name)
            if column in models[name].columns:
                continue
            if column == self.facts.descriptions[name].n_features:
                models[name].columns[column] = np.full(n, self.constant(name))
            else:
                new[name] = column
        for name, shown in attendance.ask({name: ShowColumn(new[name]) for name in new}, ShownColumn).items():
            models[name].columns[new[name]] = checked(name, shown.entries, n)
        return {name: vertex for name, vertex in found.items() if vertex[0] in models[name].columns}

    def _split(self, name: str, model: _Model) -> tuple[Vector, float]:
        features = self.facts.descriptions[name].n_features
        weights = np.zeros(features + 1)
        for column, weight in model.weights.items():
            weights[column] = weight
        return weights[:features], float(weights[features]) * self.constant(name)

    @property
    def mechanism(self) -> str:
        """The algorithm in one sentence, for the receipt."""
        ball = "the l1 ball" if self.aggregation == "global" else "a product of l1 balls"
        return f"Frank-Wolfe on {ball} ({self.aggregation}) with exact slopes and columns, without noise"

    @property
    def releases(self) -> tuple[str, ...]:
        """What leaves whom for whom, for the receipt."""
        return (
            "to every party: the derivative of the loss for each record in every round, from which labels and "
            "predictions can be told",
            "to the coordinator: each party's steepest column in every round, its slope, and the columns of the model",
        )

    def details(self) -> dict[str, object]:
        """Return the solver's parameters for the receipt."""
        return {
            "aggregation": self.aggregation,
            "radius": self.radius,
            "fit_intercept": self.fit_intercept,
            "max_iter": self.max_iter,
            "tol": self.tol,
            **self.attendance_details(),
        }


def _best_step(loss: SmoothLoss, y: Vector, predicted: Vector, direction: Vector, gap: float) -> float:
    """Return the step in [0, 1] along ``direction`` after which the loss is least; ``gap`` > 0 is how fast it falls."""
    if isinstance(loss, Squared):
        return min(1.0, gap / float(direction @ direction))

    def slope(step: float) -> float:
        return float(np.asarray(loss.derivative(y, predicted + step * direction)) @ direction)

    return 1.0 if slope(1.0) <= 0.0 else float(brentq(slope, 0.0, 1.0, xtol=1e-12))
