"""Training without noise: the optimum of the joint problem. No protection of anybody.

Every party shows its columns to the coordinator, who trains one table and gives each party its weights back. To train
on slopes and scores in rounds hid nothing: whoever asks for enough of them computes the columns.
"""

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from sottovoce._numerics import Vector
from sottovoce._validation import number, whole_number
from sottovoce.exceptions import PartyError
from sottovoce.losses import SmoothLoss
from sottovoce.privacy.events import Event, NonPrivateEvent
from sottovoce.randomness import Streams
from sottovoce.vertical.columns import Columns
from sottovoce.vertical.coordinator.parties import Parties
from sottovoce.vertical.coordinator.plan import (
    History,
    PublicFacts,
    SumOfScores,
    Term,
    VerticalPlan,
    VerticalSolution,
    Words,
    checked,
)
from sottovoce.vertical.protocol import Part
from sottovoce.vertical.requests.general import KeepWeights, ShowColumns, table_from
from sottovoce.vertical.wire import Done, Payload

# ------------------------------------------------------------------ one table

_LINE_SEARCH: Final = 50
_LEAST_CURVATURE: Final = 1e-12  # of the largest: a row with less says nothing in double precision
_FARTHER: Final = 16.0  # times a step, in one guess: where a loss is nearly straight its parabola ends nowhere
_ROUNDING: Final = 1e-14  # of the objective at 0: what is closer to the optimum is there in double precision


class Optimum(NamedTuple):
    """What a training on one table ends with."""

    coef: Vector
    intercept: float
    history: History


def minimise(
    table: Any,
    loss: SmoothLoss,
    y: Vector,
    *,
    l2: float,
    intercept: bool,
    max_iter: int = 200,
    tol: float = 1e-6,
) -> Optimum:
    r"""Train on one table, by Newton steps with an exact line search.

    .. math:: \sum_i l(y_i, x_i^\top w + b) + \tfrac\lambda2 |w|^2, \qquad
       (\lambda I + X'WX) \, \Delta = -(X'l'(z) + \lambda w), \quad W = \mathrm{diag}(l''(z)),

    with a free intercept b as a column of ones without penalty. Only rows with a second derivative count in the system:
    the smoothed hinge has none on its straight pieces. Of no more columns than such rows it is solved by a Cholesky
    factor; else by the identity of Woodbury through the rows' Gram matrix K = F F' (F without the column of ones),
    :math:`(\lambda I + F'WF)^{-1} = (I - F'(\lambda W^{-1} + K)^{-1} F) / \lambda`, the intercept bordered around it.

    ``table``: dense or CSR, of shape (n, d).
    ``l2``, > 0: penalty for the sum of losses.
    ``tol``: stop when |g|^2 / (2 l2) is at most ``tol`` times the objective. By strong convexity it bounds how far the
    objective is from its optimum. A free intercept has no l2 behind it: g_0^2 / (2 sum_i l''(z_i)) is added for it, g_0
    = sum_i l'(z_i), and the sum is an estimate, not a bound. Where rounding hides the way, it ends without it.
    """
    columns = Columns(table, intercept=intercept)
    y = np.ascontiguousarray(y, dtype=np.float64)
    penalty = np.full(columns.n_columns, l2)
    if intercept:
        penalty[-1] = 0.0
    x, z, history = np.zeros(columns.n_columns), np.zeros(len(y)), History()
    nothing = _ROUNDING * float(loss.value(y, z).sum())
    for _ in range(max_iter):
        slopes, bent = np.asarray(loss.derivative(y, z)), np.asarray(loss.curvature(y, z))
        gradient = columns.back(slopes) + penalty * x
        distance = float(gradient @ gradient) / (2.0 * l2)
        if intercept:
            distance += _above_least(float(slopes.sum()), float(bent.sum()))
        if not bent.any():  # every row on a straight piece of the loss, as at the start of a smoothed hinge
            bent = np.full(len(y), loss.smoothness)
        try:
            direction = -_solve(columns, bent, l2, gradient)
        except LinAlgError:  # the penalty is lost beside columns so large
            direction = -gradient
        change = columns.times(direction)
        pull = penalty * direction
        step = _line_search(loss, y, z, change, float(x @ pull), float(direction @ pull))
        if step > 0.0:
            x, z = x + step * direction, z + step * change
        history.add(float(loss.value(y, z).sum()) + 0.5 * float(x @ (penalty * x)), distance)
        history.converged = distance <= max(tol * history.objective[-1], nothing)
        if history.converged or step == 0.0:  # no descent in double precision: there, or lost in rounding
            break
    features = columns.n_features
    return Optimum(x[:features], float(x[features:].sum()), history)


def _above_least(first: float, second: float) -> float:
    """Return how far a parabola with this slope and curvature is above its least value."""
    if first == 0.0:
        return 0.0
    return first * first / (2.0 * second) if second > 0.0 else math.inf


def _solve(columns: Columns, weights: Vector, l2: float, v: Vector) -> Vector:
    """Return (L2 + D' W D)^-1 v for weights of rows, not all 0; the column of ones has no l2."""
    rows = np.flatnonzero(weights > _LEAST_CURVATURE * weights.max())
    d = columns.n_features
    if d <= len(rows):
        matrix = columns.gram(weights)
        matrix[np.arange(d), np.arange(d)] += l2
        return np.asarray(cho_solve(cho_factor(matrix, lower=True, overwrite_a=True), v))
    few, weights = Columns(columns.table[rows]), weights[rows]
    matrix = few.features_gram()
    matrix[np.diag_indices(len(rows))] += l2 / weights
    factor = cho_factor(matrix, lower=True, overwrite_a=True)

    def without_intercept(v: Vector) -> Vector:
        return np.asarray((v - few.back(cho_solve(factor, few.times(v)))) / l2)

    if not columns.intercept:
        return without_intercept(v)
    border = without_intercept(few.back(weights))
    schur = float(weights.sum() - weights @ few.times(border))
    last = (v[-1] - float(border @ v[:-1])) / schur
    return np.append(without_intercept(v[:-1]) - last * border, last)


def _line_search(loss: SmoothLoss, y: Vector, z: Vector, change: Vector, slope: float, square: float) -> float:
    """Return the step that minimises loss and penalty along the line: Newton, bisection where it leaves the bracket.

    ``slope`` and ``square``: of the penalty.
    """
    low, high, step = 0.0, math.inf, 1.0
    if not float(loss.derivative(y, z) @ change) + slope < 0.0:
        return 0.0  # no descent left in double precision
    for _ in range(_LINE_SEARCH):
        at = z + step * change
        first = float(loss.derivative(y, at) @ change) + slope + step * square
        second = float(loss.curvature(y, at) @ (change * change)) + square
        low, high = (low, step) if first > 0.0 else (step, high)
        moved = min(step - first / second, _FARTHER * step) if second > 0.0 else math.inf
        if not low < moved < high:
            moved = 0.5 * (low + high) if math.isfinite(high) else 2.0 * step
        close = abs(moved - step) <= 1e-4 * step
        step = moved
        if close:
            break
    return step


# ------------------------------------------------------------------ the parties


def own_model_name(model: str) -> str:
    """Return the name under which the label holder keeps its own exact model beside the joint one."""
    return f"{model} alone"


def train_alone(parties: Parties, plan: VerticalPlan, y: Vector, *models: str) -> None:
    """Train the label holder's own exact model on its own columns and keep it by these names: no message is sent.

    Raises `PartyError` if it does not live where the coordinator runs, or fails; no word of the failure tells of a row.
    """
    party = parties.own(plan.facts.label_holder)
    found = _optimum(party.table, plan, y, f"party {party.name!r} failed at its own model")
    for model in models:
        party.adopt(model, Part(found.coef, found.intercept, party.feature_names))


def _optimum(table: Any, plan: VerticalPlan, y: Vector, fails: str, **options: Any) -> Optimum:
    l2 = plan.alpha * plan.facts.n_samples
    try:
        return minimise(table, plan.loss, y, l2=l2, intercept=plan.fit_intercept, **options)
    except Exception as error:  # its message could quote a row
        raise PartyError(f"{fails} ({type(error).__name__}): scale the columns, or raise alpha.") from None


def joined_columns(parties: Parties, facts: PublicFacts) -> Any:
    """Ask every party for its columns, and return them as one table, CSR where one of them is."""
    tables = []
    for name, told in parties.exchange(dict.fromkeys(facts.names, ShowColumns()), Payload).items():
        checked(name, told.numbers, len(told.numbers))
        try:
            tables.append(table_from(told, facts.n_samples, facts.descriptions[name].n_features))
        except ValueError:
            raise PartyError(f"party {name!r} showed what is no table of its columns.") from None
    if any(map(sp.issparse, tables)):
        return sp.csr_array(sp.hstack(tables))
    return np.hstack(tables)


def keep_weights(parties: Parties, model: str, weights: Mapping[str, tuple[Vector, float]]) -> None:
    """Have each party keep its coefficients and intercept."""
    parties.exchange({name: KeepWeights(model, np.append(*each)) for name, each in weights.items()}, Done)


@dataclass(frozen=True, kw_only=True)
class InOnePlacePlan(VerticalPlan):
    """What every training without noise has: all columns come to the coordinator, and weights go back."""

    name: ClassVar[str] = "none"
    mechanism: ClassVar[str]

    max_iter: int  # steps at most
    tol: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_iter", whole_number("max_iter", self.max_iter, at_least=1))
        object.__setattr__(self, "tol", number("tol", self.tol, above=0.0))

    @property
    def event(self) -> Event:
        return NonPrivateEvent()

    @property
    def scorer(self) -> SumOfScores:
        return SumOfScores({name: Term() for name in self.facts.names})

    @abstractmethod
    def optimum(self, table: Any, y: Vector) -> Optimum: ...

    def solve(self, parties: Parties, y: Vector, model: str, streams: Streams) -> VerticalSolution:
        found, holder = self.optimum(joined_columns(parties, self.facts), y), self.facts.label_holder
        ends = np.cumsum([each.n_features for each in self.facts.descriptions.values()])
        parts = zip(self.facts.names, np.split(found.coef, ends[:-1]), strict=True)
        weights = {name: (part, found.intercept * (name == holder)) for name, part in parts}
        keep_weights(parties, model, weights)
        return VerticalSolution(
            scorer=self.scorer,
            event=self.event,
            weights=weights,
            n_rounds=2,
            history=found.history,
            chosen={"converged": found.history.converged},
        )

    @property
    def words(self) -> Words:
        return Words(
            mechanism=self.mechanism,
            releases=(
                "to the coordinator: all columns of every party, as they are",
                "to every party: its own weights, from which labels and other columns can be told in part",
            ),
            details={"max_iter": self.max_iter, "tol": self.tol},
        )


@dataclass(frozen=True, kw_only=True)
class ExactPlan(InOnePlacePlan):
    """Training without noise."""

    proof: ClassVar[str] = "docs/privacy/published_vertical_noise.md"
    mechanism: ClassVar[str] = "Newton's method on all columns in one place, without noise"

    max_iter: int = 200
    tol: float = 1e-6

    def solve(self, parties: Parties, y: Vector, model: str, streams: Streams) -> VerticalSolution:
        train_alone(parties, self, y, own_model_name(model))
        return super().solve(parties, y, model, streams)

    def optimum(self, table: Any, y: Vector) -> Optimum:
        return _optimum(table, self, y, "the training on all columns failed", max_iter=self.max_iter, tol=self.tol)
