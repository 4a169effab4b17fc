"""What a table of labels and predictions says: shares, losses, the ROC curve, calibration, errors of numbers."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np
from scipy.special import expit

from sottovoce._numerics import Vector
from sottovoce.evaluation.axes import Axis
from sottovoce.evaluation.intervals import Measure, mean_of, ratio, share
from sottovoce.evaluation.tables import MOST_LOSS, MOST_ODDS, Table

_ROC_POINTS: Final = 41


def of_binary(table: Table, level: float, *, probabilities: bool) -> dict[str, Measure]:
    """Return the measures of two classes from counts by label and score."""
    axis = _axis(table)
    found = of_classes(table, level)
    found["auc"] = _auc(table, axis, level)
    if probabilities:
        found["log_loss"] = _mean(table, _both(axis, lambda z: np.logaddexp(0.0, -z)), (0.0, MOST_ODDS), level)
        found["brier"] = _mean(table, _both(axis, lambda z: expit(-z) ** 2), (0.0, 1.0), level)
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
    found = {
        "accuracy": share(table, said, whole, level),
        "balanced_accuracy": mean_of(recalls).within(0.0, 1.0),
    }
    if len(said) == 2:
        return {**found, "precision": precisions[1], "recall": recalls[1]}
    return {**found, "precision": mean_of(precisions).within(0.0, 1.0), "recall": found["balanced_accuracy"]}


def of_losses(table: Table, level: float) -> dict[str, Measure]:
    """Return log loss and Brier score from counts by log loss and squared loss."""
    first, second = table.axes
    assert first is not None and second is not None
    size = np.ones(table.cells.shape)
    return {
        "log_loss": _mean(table, size * first.nodes[:, None], (0.0, MOST_LOSS), level),
        "brier": _mean(table, size * second.nodes, (0.0, 2.0), level),
    }


def of_numbers(table: Table, level: float) -> dict[str, Measure]:
    """Return the measures of a regression from counts by label and residual."""
    of_labels, of_residuals = table.axes
    assert of_labels is not None and of_residuals is not None
    size = np.ones(table.cells.shape)
    squares = size * of_residuals.nodes**2  # exact: shares are linear in them
    largest = float(np.abs(of_residuals.nodes).max())
    mse = _mean(table, squares, (0.0, largest**2), level)
    mae = _mean_of_sizes(table, of_residuals, level)
    n = max(float(table.cells.sum()), 1.0)
    away = of_labels.nodes - (of_labels.centre or 0.0)
    # the centre is nearly the mean of the labels: what it is off by is a small part of the spread
    off = float(np.sum(table.cells * of_labels.project(lambda y: y - (of_labels.centre or 0.0))[:, None])) / n
    off = float(np.clip(off, *np.array([-0.25, 0.25]) * (away[-1] - away[0]) / 16.0))
    spread = size * (away**2 - off**2)[:, None]
    sums = float(np.sum(table.cells * squares)), float(np.sum(table.cells * spread))
    lost = ratio(table, sums, (squares, spread), (0.0, math.inf), level)
    r2 = Measure(1.0 - lost.value, 1.0 - lost.high, 1.0 - lost.low)
    return {"mse": mse, "rmse": mse.map(np.sqrt), "mae": mae, "r2": r2}


def _mean_of_sizes(table: Table, axis: Axis, level: float) -> Measure:
    """Return the mean absolute residual; half of what lies between even density and the least possible is added."""
    size, largest = np.ones(table.cells.shape), float(np.abs(axis.nodes).max())
    even, least = (
        _mean(table, size * sizes, (0.0, largest), level) for sizes in (axis.project(np.abs, 0.0), abs(axis.nodes))
    )
    unsure = 0.5 * max(even.value - least.value, 0.0)
    return Measure(even.value, max(even.low - unsure, 0.0), min(even.high + unsure, largest))


def roc_of(table: Table, level: float) -> Vector:
    """Return threshold, false-positive rate, true-positive rate, and the ends of the latter's interval, line by line.

    The rates grow from line to line: what the noise turned around is put right.
    """
    axis = _axis(table)
    nodes = axis.nodes
    lines = [(math.inf, 0.0, 0.0, 0.0, 0.0)]
    for threshold in np.linspace(nodes[-1], nodes[0], _ROC_POINTS)[1:-1].tolist():
        above = axis.project(lambda z, at=threshold: (z > at).astype(np.float64), threshold)  # type: ignore[misc]
        false, true = (_rate(table, label, above, level) for label in (0, 1))
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


def _mean(table: Table, values: Vector, limits: tuple[float, float], level: float) -> Measure:
    ones = np.ones(table.cells.shape)
    sums = float(np.sum(table.cells * values)), float(table.cells.sum())
    return ratio(table, sums, (values, ones), limits, level)


def _rate(table: Table, label: int, values: Vector, level: float) -> Measure:
    line = np.zeros(table.cells.shape)
    line[label] = 1.0
    sums = float(table.cells[label] @ values), float(table.cells[label].sum())
    return ratio(table, sums, (line * values, line), (0.0, 1.0), level)


def _auc(table: Table, axis: Axis, level: float) -> Measure:
    negative, positive = table.cells
    above = axis.above
    pairs, right = float(negative.sum() * positive.sum()), float(positive @ above @ negative)
    slopes = (
        np.stack([positive @ above, above @ negative]),
        np.stack([np.full(len(axis), positive.sum()), np.full(len(axis), negative.sum())]),
    )
    if min(negative.sum(), positive.sum()) <= 0.0:
        return Measure(math.nan, 0.0, 1.0)
    return ratio(table, (right, pairs), slopes, (0.0, 1.0), level)
