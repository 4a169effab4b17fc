r"""What a table of labels and predictions says, each measure with an interval for noise and sampling.

A measure is a ratio :math:`\theta = A / B` of two functions of the released counts. An interval holds all values for
which :math:`A - \theta B` is not further from 0 than its standard deviation allows (Fieller [1]_):

.. math:: (A - \theta B)^2 \le z^2\, \mathrm{Var}(A - \theta B).

The variance is that of the noise, which is known, plus that of the rows, which is estimated from the counts; for a
share of counts it is that of a share :math:`\theta` (Wilson [2]_). Where the noise hides the denominator every value is
possible, and the interval says so. Means of measures of different rows are put together from their intervals (Zou,
Donner [3]_).

References
----------
.. [1] Fieller (1954). Some Problems in Interval Estimation. JRSS B 16(2).
.. [2] Wilson (1927). Probable Inference, the Law of Succession, and Statistical Inference. JASA 22(158).
.. [3] Zou, Donner (2008). Construction of confidence limits about effect measures. Statistics in Medicine 27(10).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from scipy.special import expit, ndtri

from sottovoce._numerics import Vector
from sottovoce.evaluation.axes import Axis
from sottovoce.evaluation.tables import MOST_LOSS, MOST_ODDS, Table

_ROC_POINTS: Final = 41


@dataclass(frozen=True)
class Measure:
    """An estimate with its interval."""

    value: float
    low: float
    high: float

    def map(self, function: "np.ufunc") -> "Measure":
        """Return a growing function of the measure."""
        return Measure(*(float(function(number)) for number in (self.value, self.low, self.high)))

    def within(self, least: float, most: float) -> "Measure":
        """Return the part of it that is possible."""
        return Measure(*(min(max(number, least), most) for number in (self.value, self.low, self.high)))


def in_words(value: float, low: float, high: float) -> tuple[str, str]:
    """Return an estimate, which the noise can hide, and its interval as texts."""
    return "unknown" if math.isnan(value) else f"{value:.4g}", f"{low:.4g} to {high:.4g}"


def share(table: Table, part: Vector, whole: Vector, level: float) -> Measure:
    """Return the share of the rows of some cells (``whole``) that is in some of them (``part``); both hold 0 and 1."""
    n = max(float(np.sum(table.cells * whole)), 0.0)
    return _interval(
        float(np.sum(table.cells * part)), n, np.array([[0.0, -0.5 * n], [-0.5 * n, -n]]) + _noise(table, part, whole),
        (0.0, 1.0), level,
    )  # fmt: skip


def ratio(
    table: Table,
    part: Vector,
    whole: Vector | float,
    limits: tuple[float, float],
    level: float,
    values: tuple[float, float] | None = None,
) -> Measure:
    """Return a ratio of two functions of the counts, of these slopes; ``values``: theirs, where they are not linear."""
    slopes = part, np.broadcast_to(whole, table.cells.shape)
    a, b = values or [float(np.sum(table.cells * slope)) for slope in slopes]
    return _interval(a, b, _sampling(table, *slopes) + _noise(table, *slopes), limits, level)


def mean_of(measures: Sequence[Measure]) -> Measure:
    """Return the mean of shares of different rows.

    Of one that the noise hides the middle counts; it may be anything, so its whole interval is added to that of the
    others, where errors are independent and lessen each other.
    """
    hidden = [one.low <= 0.0 and one.high >= 1.0 for one in measures]
    measures = [replace(one, value=0.5) if unseen else one for one, unseen in zip(measures, hidden, strict=True)]
    value = sum(one.value for one in measures) / len(measures)

    def reach(lengths: Sequence[float]) -> float:
        seen = math.hypot(*(length for length, unseen in zip(lengths, hidden, strict=True) if not unseen))
        return (seen + 0.5 * sum(hidden)) / len(measures)

    low, high = reach([one.value - one.low for one in measures]), reach([one.high - one.value for one in measures])
    return Measure(value, value - low, value + high)


def _noise(table: Table, *slopes: Vector) -> Vector:
    flat = np.stack([slope.ravel() for slope in slopes])
    return np.asarray(table.noise_std**2 * flat @ flat.T)


def _sampling(table: Table, *slopes: Vector) -> Vector:
    """Return the sums over rows of products of what they add, as if each were on one node, less what sharing takes."""
    flat = np.stack([slope.ravel() for slope in slopes])
    sums = flat * table.cells.ravel() @ flat.T
    for side, axis in enumerate(table.axes):
        if axis is None:
            continue
        lines = np.moveaxis(table.cells, side, -1).reshape(-1, len(axis))
        kept = axis.between(lines)
        jumps = [
            np.diff(np.moveaxis(slope, side, -1).reshape(-1, len(axis)), axis=1)[:, axis.starts] for slope in slopes
        ]
        sums -= np.array([[np.sum(kept * one * other) for other in jumps] for one in jumps])
    values, vectors = np.linalg.eigh(sums)
    return np.asarray(vectors * np.maximum(values, 0.0) @ vectors.T)


def _interval(a: float, b: float, variance: Vector, limits: tuple[float, float], level: float) -> Measure:
    """Return all theta with (a - theta b)^2 <= z^2 Var(a - theta b), as far as they are within the limits."""
    least, most = limits
    z2 = float(ndtri(0.5 * (1.0 - level))) ** 2
    square = b * b - z2 * variance[1, 1]
    middle, last = a * b - z2 * variance[0, 1], a * a - z2 * variance[0, 0]
    value = a / b if b > 0.0 and least <= a / b <= most else math.nan
    if not (b > 0.0 and square > 0.0):
        return Measure(value, least, most)
    root = math.sqrt(max(middle * middle - square * last, 0.0))
    low, high = (middle - root) / square, (middle + root) / square
    if math.isnan(value):  # what noise can do at the limit it led beyond: an interval of no length would tell too much
        limit = np.array([1.0, -least if a < least * b else -most])
        reach = math.sqrt(max(z2 * (limit @ variance @ limit), 0.0)) / b
        low, high = min(low, -limit[1] - reach), max(high, -limit[1] + reach)
    low, high = max(low, least), min(high, most)
    value = 0.5 * (low + high) if math.isnan(value) else value  # noise led beyond the limits: the middle within them
    return Measure(value, min(low, value), max(high, value))


def of_binary(table: Table, level: float, *, probabilities: bool) -> dict[str, Measure]:
    """Return the measures of two classes from counts by label and score."""
    axis = _axis(table)
    found = of_classes(table, level)
    found["auc"] = _auc(table, axis, level)
    if probabilities:
        found["log_loss"] = ratio(table, _both(axis, lambda z: np.logaddexp(0.0, -z)), 1.0, (0.0, MOST_ODDS), level)
        found["brier"] = ratio(table, _both(axis, lambda z: expit(-z) ** 2), 1.0, (0.0, 1.0), level)
    return found


def predicted(table: Table) -> Vector:
    """Return for each class the columns of a table in which it is predicted; a score above 0 is class 1."""
    axis = table.axes[1]
    if axis is None:
        return np.eye(len(table.cells))
    positive = np.arange(len(axis)) >= len(axis.pieces[0])
    return np.stack([~positive, positive]).astype(np.float64)


def of_classes(table: Table, level: float) -> dict[str, Measure]:
    """Return the measures of labels, which are the lines, against predictions."""
    said, whole = predicted(table), np.ones(table.cells.shape)
    recalls, precisions = [], []
    for label, columns in enumerate(said > 0.0):
        line, column = np.s_[label : label + 1], table.cells[:, columns]
        recalls.append(share(replace(table, cells=table.cells[line]), said[line], whole[line], level))
        hit = np.zeros(column.shape)
        hit[label] = 1.0
        precisions.append(share(replace(table, cells=column), hit, whole[:, columns], level))
    found = {"accuracy": share(table, said, whole, level), "balanced_accuracy": mean_of(recalls).within(0.0, 1.0)}
    if len(said) == 2:
        return {**found, "precision": precisions[1], "recall": recalls[1]}
    return {**found, "precision": mean_of(precisions).within(0.0, 1.0), "recall": found["balanced_accuracy"]}


def of_losses(table: Table, level: float) -> dict[str, Measure]:
    """Return log loss and Brier score from counts by log loss and squared loss."""
    first, second = table.axes
    assert first is not None and second is not None
    size = np.ones(table.cells.shape)
    return {
        "log_loss": ratio(table, size * first.nodes[:, None], 1.0, (0.0, MOST_LOSS), level),
        "brier": ratio(table, size * second.nodes, 1.0, (0.0, 2.0), level),
    }


def of_numbers(table: Table, level: float) -> dict[str, Measure]:
    """Return the measures of a regression from counts by label and residual."""
    of_labels, of_residuals = table.axes
    assert of_labels is not None and of_residuals is not None
    size = np.ones(table.cells.shape)
    squares = size * of_residuals.nodes**2  # exact: shares are linear in them
    largest = float(np.abs(of_residuals.nodes).max())
    mse = ratio(table, squares, 1.0, (0.0, largest**2), level)
    mae = _mean_of_sizes(table, of_residuals, level)
    n = max(float(table.cells.sum()), 1.0)
    away = of_labels.nodes - (of_labels.centre or 0.0)
    # the centre is nearly the mean of the labels: what it is off by is a small part of the spread
    off = float(np.sum(table.cells * of_labels.project(lambda y: y - (of_labels.centre or 0.0))[:, None])) / n
    off = float(np.clip(off, *np.array([-0.25, 0.25]) * (away[-1] - away[0]) / 16.0))
    spread = size * (away**2 - off**2)[:, None]
    lost = ratio(table, squares, spread, (0.0, math.inf), level)
    r2 = Measure(1.0 - lost.value, 1.0 - lost.high, 1.0 - lost.low)
    return {"mse": mse, "rmse": mse.map(np.sqrt), "mae": mae, "r2": r2}


def _mean_of_sizes(table: Table, axis: Axis, level: float) -> Measure:
    """Return the mean absolute residual; half of what lies between even density and the least possible is added."""
    size, largest = np.ones(table.cells.shape), float(np.abs(axis.nodes).max())
    even, least = (
        ratio(table, size * sizes, 1.0, (0.0, largest), level) for sizes in (axis.project(np.abs, 0.0), abs(axis.nodes))
    )
    unsure = 0.5 * max(0.0, even.value - least.value)  # 0 where the noise hides both
    return Measure(even.value, max(even.low - unsure, 0.0), min(even.high + unsure, largest))


def roc_of(table: Table, level: float) -> Vector:
    """Return threshold, false-positive rate, true-positive rate, and the ends of the latter's interval, line by line.

    The rates grow from line to line: what the noise turned around is put right.
    """
    axis = _axis(table)
    nodes, lines = axis.nodes, [(math.inf, 0.0, 0.0, 0.0, 0.0)]
    for threshold in np.linspace(nodes[-1], nodes[0], _ROC_POINTS)[1:-1].tolist():
        above = axis.project(lambda z, at=threshold: (z > at).astype(np.float64), threshold)  # type: ignore[misc]
        false, true = (ratio(table, line * above, line, (0.0, 1.0), level) for line in np.eye(2)[:, :, None])
        lines.append((threshold, false.value, true.value, true.low, true.high))
    lines.append((-math.inf, 1.0, 1.0, 1.0, 1.0))
    curve = np.array(lines)
    curve[:, 1:] = np.maximum.accumulate(np.clip(np.nan_to_num(curve[:, 1:]), 0.0, 1.0), axis=0)
    return curve


def calibration_of(table: Table, level: float) -> Vector:
    """Return predicted probability, observed share, the ends of its interval, and rows, of each node of the scores."""
    axis = _axis(table)
    chances = axis.averages(expit)
    lines = []
    for node in range(len(axis)):
        here = np.zeros(table.cells.shape)
        here[:, node] = 1.0
        part = here * np.array([[0.0], [1.0]])
        observed = share(table, part, here, level)
        rows = max(float(table.cells[:, node].sum()), 0.0)
        lines.append((float(chances[node]), observed.value, observed.low, observed.high, rows))
    return np.array(lines)


def _axis(table: Table) -> Axis:
    axis = table.axes[1]
    assert axis is not None
    return axis


def _both(axis: Axis, loss: Callable[[Vector], Vector]) -> Vector:
    """Return the loss of both classes at the nodes; ``loss`` is that of class 1, and class 0 mirrors it."""
    return np.stack([axis.project(lambda z: loss(-z)), axis.project(loss)])


def _auc(table: Table, axis: Axis, level: float) -> Measure:
    negative, positive = table.cells
    above = axis.above
    pairs, right = float(negative.sum() * positive.sum()), float(positive @ above @ negative)
    slopes = np.stack([positive @ above, above @ negative]), np.array([[positive.sum()], [negative.sum()]])
    if min(negative.sum(), positive.sum()) <= 0.0:
        return Measure(math.nan, 0.0, 1.0)
    return ratio(table, *slopes, (0.0, 1.0), level, (right, pairs))
