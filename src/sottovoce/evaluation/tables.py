"""From scored rows to tables of whole counts, in each of which a row counts as exactly one, and to where nodes are."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.isotonic import isotonic_regression

from sottovoce._numerics import Vector
from sottovoce.evaluation.axes import Axis
from sottovoce.evaluation.plan import PARTS, RANGE_CELLS, EvaluationPlan

__all__ = ["MOST_LOSS", "MOST_ODDS", "ScoredRows", "Table", "axes_of", "count", "range_cells"]

MOST_ODDS: Final = 8.0  # logarithm of the odds to which probabilities are cut: those within 0.0003 and 0.9997
MOST_LOSS: Final = 8.0  # the same for the loss of a row where there are several classes
_LEAST_SHARE: Final = 0.02  # of the rows, on either side of the part that is looked for first
_MOST_SHARE: Final = 0.25
_WIDE: Final = 3.2  # standard deviations on both sides of the middle that nodes reach, were scores normal
_WIDER: Final = 4.0  # the same for residuals, whose squares are added up
_LABEL_NODES: Final = 5


@dataclass(frozen=True)
class ScoredRows:
    """The rows of an evaluation; all of it is private, and nothing of it is refused.

    Attributes
    ----------
    labels : ndarray of shape (n,)
        Places in the list of classes, or numbers.
    scores : ndarray of shape (n,)
        Logarithms of odds, decision scores, places of predicted classes, or predicted numbers.
    left_out : ndarray of bool of shape (n,)
        Rows without a label of the list, or without a score.
    losses : (ndarray, ndarray) or None
        Log loss and squared loss of each row, for several classes.
    """

    labels: Vector
    scores: Vector
    left_out: NDArray[np.bool_]
    losses: tuple[Vector, Vector] | None = None


@dataclass(frozen=True)
class Table:
    """A released table.

    Attributes
    ----------
    cells : ndarray of shape (n, m)
        Noisy counts, in rows of the evaluation.
    left_out : float
        Noisy count of the rows that are left out.
    noise_std : float
        Of each count.
    axes : (Axis or None, Axis or None)
        None where the places are classes.
    """

    cells: Vector
    left_out: float
    noise_std: float
    axes: tuple[Axis | None, Axis | None]


def range_cells(plan: EvaluationPlan, rows: ScoredRows) -> NDArray[np.int64]:
    """Return the counts of the first table: where the scores, or residuals, are."""
    there, _ = _ruler(plan)
    at = there(_measured(plan, rows)[~rows.left_out])
    cell = np.clip(np.floor((at + 1.0) * (RANGE_CELLS / 2)), 0, RANGE_CELLS - 1).astype(np.int64)
    return np.bincount(cell, minlength=RANGE_CELLS).astype(np.int64) * PARTS


def axes_of(plan: EvaluationPlan, name: str, found: Vector | None, noise_std: float) -> tuple[Axis | None, Axis | None]:
    """Return the axes of a table, from public facts and the released counts of the first table."""
    if name == "losses":
        odd = 2.0 if plan.n_classes > 2 else 0.5  # the squared loss is at most 2
        return Axis(((0.0, 0.35, 1.0, 2.5, MOST_LOSS),)), Axis(((0.0, 0.25 * odd, 2.0),))
    if plan.task.startswith("classes"):
        return None, None
    assert found is not None
    low, high = _ends(plan, found, noise_std)
    if plan.task == "regression":
        assert plan.label_bounds is not None
        labels = Axis((tuple(np.linspace(*plan.label_bounds, _LABEL_NODES).tolist()),))
        return labels, Axis((tuple(np.linspace(low, high, plan.n_nodes).tolist()),))
    return None, _split_at_zero(low, high, plan.n_nodes)


def count(
    plan: EvaluationPlan, name: str, axes: tuple[Axis | None, Axis | None], rows: ScoredRows
) -> NDArray[np.int64]:
    """Return the counts of a table in ticks, cells line by line, then those of the rows that are left out.

    A row adds `PARTS` ticks, in whole numbers, whatever it holds.
    """
    pair = rows.losses if name == "losses" else (rows.labels, _measured(plan, rows))
    assert pair is not None
    soft = sum(axis is not None for axis in axes)
    parts = round(PARTS ** (1 / max(1, soft)))  # of each axis: exact, as PARTS is a square
    width = plan.n_classes if axes[1] is None else len(axes[1])
    lines = plan.n_classes if axes[0] is None else len(axes[0])
    ticks = np.zeros(lines * width + 1, np.int64)
    for first, of_first in _shares(axes[0], pair[0][~rows.left_out], parts):
        for second, of_second in _shares(axes[1], pair[1][~rows.left_out], parts):
            np.add.at(ticks, first * width + second, of_first * of_second * (1 if soft else PARTS))
    ticks[-1] = PARTS * int(rows.left_out.sum())
    return ticks


def _shares(axis: Axis | None, values: Vector, parts: int) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Return the places to which each row adds, and how much, as pairs of arrays."""
    if axis is None:
        return [(values.astype(np.int64), np.ones(len(values), np.int64))]
    left, right = axis.places(values, parts)
    return [(left, parts - right), (left + 1, right)]


def _measured(plan: EvaluationPlan, rows: ScoredRows) -> Vector:
    """Return what the axis with the nodes is about."""
    return rows.labels - rows.scores if plan.task == "regression" else rows.scores


def _ruler(plan: EvaluationPlan) -> tuple[Callable[[Vector], Vector], Callable[[Vector], Vector]]:
    """Return the map of scores or residuals onto [-1, 1], and back."""
    if plan.task == "binary, probabilities":
        return lambda z: np.clip(z / MOST_ODDS, -1.0, 1.0), lambda t: t * MOST_ODDS
    if plan.task == "regression":
        assert plan.label_bounds is not None
        unit, fine = plan.label_bounds[1] - plan.label_bounds[0], 256.0
        most = math.log2(1.0 + fine)
    else:  # scores without a unit: up to 1024 on either side
        unit, fine, most = 1.0, 64.0, 16.0

    def there(z: Vector) -> Vector:
        size = np.log2(1.0 + fine * np.minimum(np.abs(z) / unit, 2.0**20)) / most
        return np.clip(np.sign(z) * size, -1.0, 1.0)

    def back(t: Vector) -> Vector:
        return np.asarray(np.sign(t) * unit * (np.exp2(most * np.abs(t)) - 1.0) / fine)

    return there, back


def _ends(plan: EvaluationPlan, found: Vector, noise_std: float) -> tuple[float, float]:
    """Return where the nodes begin and end, from the released counts of the first table.

    A part between two quantiles, which the noise lets us see, is made wider as if scores were normal.
    """
    _, back = _ruler(plan)
    edges = np.linspace(-1.0, 1.0, RANGE_CELLS + 1)
    sums = np.concatenate([[0.0], isotonic_regression(np.cumsum(found), y_min=0.0)])
    total = max(float(sums[-1]), 1.0)
    share = 3.0 * noise_std * math.sqrt(RANGE_CELLS / 2) / total
    share = min(_MOST_SHARE, max(_LEAST_SHARE, share))
    growing = sums + 1e-9 * total * np.arange(RANGE_CELLS + 1)
    low, high = back(np.interp([share * total, (1.0 - share) * total], growing, edges))
    least, most = back(np.array([-1.0, 1.0]))
    wide = _WIDER if plan.task == "regression" else _WIDE
    beyond = 0.5 * (wide / float(norm.isf(share)) - 1.0) * max(high - low, (most - least) * 2.0**-10)
    return max(float(least), float(low - beyond)), min(float(most), float(high + beyond))


def _split_at_zero(low: float, high: float, n_nodes: int) -> Axis:
    """Return an axis from low to high with a cut at 0, where one class is predicted instead of the other."""
    width = high - low
    if low < -0.05 * width and high > 0.05 * width:
        left = min(n_nodes - 2, max(2, round(n_nodes * -low / width)))
        return Axis((_nodes(low, 0.0, left), _nodes(0.0, high, n_nodes - left)))
    # all on one side, or nearly: what is on the other side has an interval of its own
    if high <= 0.05 * width:
        return Axis((_nodes(low, min(high, 0.0), n_nodes - 2, end=0.0), (0.0, max(0.5 * width, high))))
    return Axis(((min(-0.5 * width, low), 0.0), _nodes(max(low, 0.0), high, n_nodes - 2, start=0.0)))


def _nodes(
    low: float, high: float, size: int, *, start: float | None = None, end: float | None = None
) -> tuple[float, ...]:
    """Return evenly spaced nodes, and one more at ``start`` or ``end`` if that is not next to the others."""
    between = 0.25 * (high - low) / size
    before = [start] if start is not None and start < low - between else []
    after = [end] if end is not None and end > high + between else []
    nodes = np.linspace(low if before or start is None else start, high if after or end is None else end, size)
    return (*before, *nodes.tolist(), *after)
