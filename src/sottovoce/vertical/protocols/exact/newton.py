r"""The optimum of a convex smooth loss with an L2 penalty on one table, by Newton steps with an exact line search.

.. math:: \sum_i l(y_i, x_i^\top w + b) + \tfrac\lambda2 |w|^2, \qquad
   (\lambda I + X'WX) \, \Delta = -(X'l'(z) + \lambda w), \quad W = \mathrm{diag}(l''(z)),

with a free intercept b as a column of ones without penalty. Only rows with a second derivative count in the system:
the smoothed hinge has none on its straight pieces. Of no more columns than such rows it is solved by a Cholesky factor;
else by the identity of Woodbury through the rows' Gram matrix K = F F' (F without the column of ones),
:math:`(\lambda I + F'WF)^{-1} = (I - F'(\lambda W^{-1} + K)^{-1} F) / \lambda`, the intercept bordered around it.
"""

import math
from typing import Any, Final, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from sottovoce._numerics import Vector
from sottovoce.losses import SmoothLoss
from sottovoce.vertical.coordinator.plan import History
from sottovoce.vertical.table.columns import Columns

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
    """Train on one table.

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
