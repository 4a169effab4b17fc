"""From scored rows to tables of whole counts, in each of which a row counts as exactly one, and to where nodes are."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from sottovoce._numerics import Vector
from sottovoce.central.data.operation import AtHome, Ticks
from sottovoce.evaluation.axes import Axis
from sottovoce.evaluation.plan import PARTS, RANGE_CELLS, EvaluationPlan

MOST_ODDS: Final = 8.0  # logarithm of the odds to which probabilities are cut: those within 0.0003 and 0.9997
MOST_LOSS: Final = 8.0  # the same for the loss of a row where there are several classes
_LEAST_SHARE: Final = 0.02  # of the rows, on either side of the part that is looked for first
_MOST_SHARE: Final = 0.25
_WIDE: Final = 4.0  # standard deviations on both sides of the middle that nodes reach, were scores normal
_FAR: Final = 2.0  # times as far as the other nodes, the last ones of residuals: what is beyond counts as there
_LABEL_NODES: Final = 1  # on each side of the middle
PLACING: Final = ("range", "labels")  # the tables that place the nodes of others

Placed = Mapping[str, tuple[Vector, float]]  # their released counts, and the noise in them
BYTES_A_ROW: Final = 4 * 8 + 1  # at most
_AT_ONCE: Final = 1 << 16


@dataclass(frozen=True)
class ScoredRows:
    """The rows of an evaluation; all of it is private, and nothing of it is refused."""

    labels: Vector  # of shape (n,); places in the list of classes, or numbers
    # Of shape (n,): logarithms of odds, decision scores, places of predicted classes, or predicted numbers.
    scores: Vector
    left_out: NDArray[np.bool_]  # of shape (n,); rows without a label of the list, or without a score
    losses: tuple[Vector, Vector] | None = None  # log loss and squared loss of each row, for several classes

    def at(self, some: Any) -> "ScoredRows":
        """Return rows in a slice, or chosen by a mask."""
        losses = None if self.losses is None else (self.losses[0][some], self.losses[1][some])
        return ScoredRows(self.labels[some], self.scores[some], self.left_out[some], losses)


@dataclass(frozen=True)
class Table:
    """A released table."""

    cells: Vector  # of shape (n, m); noisy counts, in rows of the evaluation
    left_out: float  # noisy count of the rows that are left out
    noise_std: float  # of each count
    axes: tuple[Axis | None, Axis | None]  # None where the places are classes


def placing_cells(plan: EvaluationPlan, name: str, rows: ScoredRows) -> NDArray[np.int64]:
    """Return the counts of a table that places nodes: where scores or residuals are, or labels."""
    if name == "labels":
        assert plan.label_bounds is not None
        low, high = plan.label_bounds
        at = 2.0 * ((rows.labels[~rows.left_out] - low) / (high - low)) - 1.0
    else:
        there, _ = _ruler(plan)
        at = there(_measured(plan, rows)[~rows.left_out])
    cell = np.clip(np.floor((at + 1.0) * (RANGE_CELLS / 2)), 0, RANGE_CELLS - 1).astype(np.int64)
    return np.bincount(cell, minlength=RANGE_CELLS).astype(np.int64) * PARTS


def axes_of(plan: EvaluationPlan, name: str, placed: Placed) -> tuple[Axis | None, Axis | None]:
    """Return the axes of a table, from public facts and the released counts of the tables that place its nodes."""
    if name == "losses":
        odd = 2.0 if plan.n_classes > 2 else 0.5  # the squared loss is at most 2
        return Axis(((0.0, 0.35, 1.0, 1.75, 2.75, 4.5, MOST_LOSS),)), Axis(((0.0, 0.25 * odd, 2.0),))
    if plan.task.startswith("classes"):
        return None, None
    low, high = _ends(plan, *placed["range"])
    if plan.task == "regression":
        assert plan.label_bounds is not None
        least, most = plan.label_bounds
        width = most - least
        half = plan.n_nodes  # near 0 nodes cost little: what the noise moves are the far ones
        far = min(width, _FAR * max(-low, high))  # a noisy count so far away is multiplied by the square of it
        return _centred(least, _mean_label(plan, placed["labels"][0]), most, _LABEL_NODES), _centred(
            -far, 0.0, far, half, near=(max(low, -far), min(high, far))
        )
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


@dataclass(frozen=True)
class CellCounts(AtHome[Ticks]):
    """The counts of a table; ``axes`` is None for one that places the nodes of others."""

    plan: EvaluationPlan
    name: str
    axes: tuple[Axis | None, Axis | None] | None = None

    def on(self, part: ScoredRows) -> Ticks:  # type: ignore[override]
        starts = range(0, len(part.labels) or 1, _AT_ONCE)
        return reduce(np.add, (self._of(part.at(slice(start, start + _AT_ONCE))) for start in starts))

    def _of(self, rows: ScoredRows) -> Ticks:
        if self.axes is None:
            return placing_cells(self.plan, self.name, rows)
        return count(self.plan, self.name, self.axes, rows)

    def blank(self) -> Vector:
        if self.axes is None:
            return np.zeros(RANGE_CELLS)
        lines, width = (self.plan.n_classes if axis is None else len(axis) for axis in self.axes)
        return np.zeros(lines * width + 1)


def _shares(axis: Axis | None, values: Vector, parts: int) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Return the places to which each row adds, and how much, as pairs of arrays."""
    if axis is None:
        return [(values.astype(np.int64), np.ones(len(values), np.int64))]
    left, right = axis.places(values, parts)
    return [(left, parts - right), (left + 1, right)]


def _measured(plan: EvaluationPlan, rows: ScoredRows) -> Vector:
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
    from sklearn.isotonic import isotonic_regression  # nobody who reads a receipt waits for it

    sums = np.concatenate([[0.0], isotonic_regression(np.cumsum(found), y_min=0.0)])
    total = max(float(sums[-1]), 1.0)
    share = 3.0 * noise_std * math.sqrt(RANGE_CELLS / 2) / total
    share = min(_MOST_SHARE, max(_LEAST_SHARE, share))
    growing = sums + 1e-9 * total * np.arange(RANGE_CELLS + 1)
    low, high = back(np.interp([share * total, (1.0 - share) * total], growing, edges))
    least, most = back(np.array([-1.0, 1.0]))
    beyond = 0.5 * (-_WIDE / float(ndtri(share)) - 1.0) * max(high - low, (most - least) * 2.0**-10)
    return max(float(least), float(low - beyond)), min(float(most), float(high + beyond))


def _mean_label(plan: EvaluationPlan, found: Vector) -> float:
    """Return the mean of the labels as the released histogram has it, away from the ends of their bounds."""
    assert plan.label_bounds is not None
    least, most = plan.label_bounds
    middles = least + (most - least) * (np.arange(RANGE_CELLS) + 0.5) / RANGE_CELLS
    mean = float(found @ middles) / max(float(found.sum()), 1.0)
    edge = (most - least) / RANGE_CELLS
    return min(max(mean, least + edge), most - edge)


def _centred(least: float, centre: float, most: float, half: int, *, near: tuple[float, float] | None = None) -> Axis:
    """Return an axis of exact squares about a centre; evenly spaced nodes on both sides, up to ``near`` or the ends."""
    width = most - least
    low, high = (least, most) if near is None else near
    low, high = min(low, centre - 2.0**-10 * width), max(high, centre + 2.0**-10 * width)
    nodes = [
        *np.linspace(low, centre, half + 1)[:-1].tolist(),
        centre,
        *np.linspace(centre, high, half + 1)[1:].tolist(),
    ]
    before = [least] if nodes[0] > least + 2.0**-12 * width else []
    after = [most] if nodes[-1] < most - 2.0**-12 * width else []
    return Axis(((*before, *nodes, *after),), centre)


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
