"""Histograms of the rows, and the mechanisms that release them: lengths, signed distances, entries of columns.

In each of them a row is in a fixed number of bins, so how far it moves the counts does not depend on their number.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from sottovoce._numerics import PIECE, Vector
from sottovoce.central.data.operation import Columns, Count, Counted, Operation, RowSum, Ticks, are_counts
from sottovoce.central.data.part import Part
from sottovoce.central.data.row_memory import DIVISOR, KEPT, LENGTH, TARGET
from sottovoce.central.data.streamed import is_sparse
from sottovoce.central.kernels.calls import ScaledRows, passes
from sottovoce.privacy.adjacency import Neighbours
from sottovoce.privacy.mechanisms.gaussian import GridGaussian, counts_mechanism

_FARTHEST: Final = 166  # powers of 2 on either side of 1: 2^166 is 9.4e49
_LENGTH_STEPS: Final = 8  # of the narrowest bins to a factor of 2
LENGTH_BINS: Final = 2 * _FARTHEST * _LENGTH_STEPS
LENGTH_EDGES: Final = 2.0 ** (np.arange(1, LENGTH_BINS + 1) / _LENGTH_STEPS - _FARTHEST)
_ROUNDED: Final = 1.000001  # rows of the same length, exactly that of an edge, are within it
LENGTH_WIDTHS: Final = (16, 4, 1)  # of the bins of each histogram, in narrowest ones


@dataclass(frozen=True)
class CountLengths(Count):
    """The counts of all bins."""

    reads = (LENGTH,)
    size, times = sum(LENGTH_BINS // width for width in LENGTH_WIDTHS), len(LENGTH_WIDTHS)

    def counts(self, part: "Part", views: Sequence[NDArray[Any]]) -> Ticks:
        """Return the counts of all bins, those of the widest first."""
        (norms,) = views
        places = np.minimum(np.searchsorted(LENGTH_EDGES * _ROUNDED, norms[norms > 0.0]), LENGTH_BINS - 1)
        narrow: NDArray[np.int64] = np.bincount(places, minlength=LENGTH_BINS)
        return np.concatenate([narrow.reshape(-1, width).sum(axis=1) for width in LENGTH_WIDTHS])


def lengths_mechanism(neighbours: Neighbours, mu: float) -> GridGaussian:
    """Return the mechanism of these counts: a row is in one bin of each width."""
    return counts_mechanism(CountLengths.size, math.sqrt(len(LENGTH_WIDTHS)) * neighbours.square_factor, mu)


@dataclass(frozen=True)
class LargestLength(Operation[float]):
    """The largest length of a row."""

    def on(self, part: "Part") -> float:
        """Return that of a part; 0 where there are no rows."""
        return max(float(np.max(length, initial=0.0)) for _, (length,) in part.columns([LENGTH]))

    def merged(self, answers: Sequence[float]) -> float:
        return max(answers)

    def allows(self, answer: object, n_rows: int, columns: Columns) -> bool:
        return isinstance(answer, float) and answer >= 0.0

    def blank(self) -> float:
        return 0.0


DISTANCE_BINS: Final = 12  # of each sign: the smallest edge is 1 / 2048 of the largest


def clip_grid(widest: float) -> Vector:
    """Return the clips that can be chosen: the edges of the bins up to ``widest``, each after one in its middle."""
    return widest * 2.0 ** (-np.arange(2 * DISTANCE_BINS - 1, -1, -1) / 2.0)


def distances_mechanism(neighbours: Neighbours, mu: float, size: int = 2 * DISTANCE_BINS) -> GridGaussian:
    """Return the mechanism that releases the counts of all bins; a replaced row moves two of them."""
    return counts_mechanism(size, neighbours.square_factor, mu)


@dataclass(frozen=True, eq=False)
class CountDistances(Counted, RowSum):
    """How many rows lie in each bin of the signed distance of target and prediction, times a bound on their norm."""

    w: Vector | None  # of shape (n_weights,); released, in double precision; None predicts 0
    widest: float  # > 0; public; those beyond it, and NaN, count as this
    parts: int = 0  # even number of bins that are as wide, in which a row's norm does not count; 0: powers of two

    reads = (TARGET,)
    counted = 1

    @property
    def edges(self) -> Vector:
        """Upper edges of the bins of each sign."""
        half = self.parts // 2
        return np.linspace(0.0, self.widest, half + 1)[1:] if half else clip_grid(self.widest)[1::2]

    def shape(self, columns: Columns) -> tuple[int, ...]:
        return (self.parts or 2 * DISTANCE_BINS,)

    def within(self, part: Part) -> "CountDistances":
        """Return the same: predictions are made in double precision."""
        return self if self.w is None else replace(self, w=np.broadcast_to(self.w, part.n_weights))

    def on(self, part: Part) -> Ticks:
        """Count the rows of a part; the table is read for predictions only."""
        if self.w is not None:
            return super().on(part)
        total = np.zeros(self.shape(part), np.int64)
        for _, (target, divisor) in part.columns([TARGET, DIVISOR]):
            total += self.counts(target if self.parts else target * divisor)
        return total

    def add(self, rows: ScaledRows, views: Sequence[NDArray[Any]], lo: int, hi: int, total: Ticks) -> None:
        assert self.w is not None
        margins = np.empty(len(views[0]))
        for first in range(lo, hi, PIECE):
            here = slice(first, min(first + PIECE, hi))
            passes.margins(rows, self.w, here.start, here.stop, margins)
            total += self.counts((views[0][here] - margins[here]) * rows.divisor[here])

    def counts(self, distances: Vector) -> Ticks:
        size = np.minimum(np.nan_to_num(np.abs(distances), nan=self.widest, posinf=self.widest), self.widest)
        edges = self.edges
        place = np.searchsorted(edges[:-1], size) + len(edges) * (distances > 0.0)
        return np.bincount(place, minlength=2 * len(edges))


LOW, HIGH = -40, 40  # powers of two
OCTAVES: Final = HIGH - LOW
CELLS: Final = 2 * OCTAVES + 1  # negative ones, far to near, what is next to 0, positive ones, near to far
ZOOM_CELLS: Final = 32


@dataclass(frozen=True)
class CountMagnitudes(Counted):
    """Counts of the entries of each column by sign and power of two."""

    def on(self, part: Part) -> Ticks:
        return _of_blocks(part, lambda X: _by_magnitude(X).ravel())

    def shape(self, columns: Columns) -> tuple[int, int]:
        """Return the numbers of columns and of cells, before there is a constant."""
        return columns.n_weights, CELLS

    def allows(self, answer: object, n_rows: int, columns: Columns) -> bool:
        width, cells = self.shape(columns)
        return are_counts(answer, (width * cells,), n_rows * width)

    def blank(self) -> Vector:
        return np.zeros(CELLS)


@dataclass(frozen=True, eq=False)
class CountCells(CountMagnitudes):
    """Counts of the entries of some columns in cells of the width ``unit`` from ``low`` on."""

    columns: tuple[int, ...] | None  # None: all
    low: Vector  # of shape (columns,) or (1,), as is unit; public or released
    unit: Vector

    def shape(self, columns: Columns) -> tuple[int, int]:
        return columns.n_weights if self.columns is None else len(self.columns), ZOOM_CELLS

    def on(self, part: Part) -> Ticks:
        def counts(X: Any) -> Ticks:
            columns = np.arange(X.shape[1]) if self.columns is None else np.array(self.columns, np.intp)
            low, unit = (np.broadcast_to(one, len(columns)) for one in (self.low, self.unit))
            return _in_cells(X, columns, low, unit).ravel()

        return _of_blocks(part, counts)

    def blank(self) -> Vector:
        return np.zeros(ZOOM_CELLS)


def _of_blocks(part: Part, counts: Callable[[Any], Ticks]) -> Ticks:
    total: Any = 0
    with closing(part.blocks()) as blocks:
        for place, block in blocks:
            total = total + counts(block.raw[part.memory.get(KEPT, place)] if KEPT in part.memory else block.raw)
    return cast("Ticks", total)


def columns_mechanism(n_columns: int, size: int, per_column: float, mu: float) -> GridGaussian:
    """Return the mechanism of histograms of so many columns, ``size`` counts in all.

    ``per_column``: how far a row, or the rows of a person, can move the histogram of one column (L2).
    """
    return counts_mechanism(size, per_column * math.sqrt(n_columns), mu)


def _entries(X: Any, columns: NDArray[np.intp] | None = None) -> Iterator[tuple[NDArray[np.intp], Vector]]:
    """Yield places of columns and values of entries, some rows at a time; of a sparse matrix the stored ones."""
    step = max(1, PIECE * 64 // X.shape[1])
    for lo in range(0, X.shape[0], step):
        piece = X[lo : lo + step]
        if is_sparse(piece):
            yield piece.indices.astype(np.intp), piece.data.astype(np.float64)
            continue
        taken = np.asarray(piece if columns is None else piece[:, columns], dtype=np.float64)
        yield np.broadcast_to(np.arange(taken.shape[1]), taken.shape).ravel(), taken.ravel()


def _by_magnitude(X: Any) -> NDArray[np.int64]:
    """Return exact counts by sign and power of two; total for all finite numbers."""
    width = X.shape[1]
    total = np.zeros(width * CELLS, np.int64)
    for place, value in _entries(X):
        exponent = np.frexp(value)[1].astype(np.int64) - 1  # 2^exponent <= |value| < 2^(exponent + 1)
        octave = np.clip(exponent - LOW, 0, OCTAVES - 1)
        near = np.abs(value) < 2.0**LOW
        cell = OCTAVES + np.where(near, 0, np.where(value > 0.0, octave + 1, -octave - 1))
        total += np.bincount(place * CELLS + cell, minlength=len(total))
    counts = total.reshape(width, CELLS)
    if is_sparse(X):
        counts[:, OCTAVES] += X.shape[0] - counts.sum(axis=1)
    return counts


def _in_cells(X: Any, columns: NDArray[np.intp], low: Vector, unit: Vector) -> NDArray[np.int64]:
    """Return exact counts in cells of the width ``unit`` from ``low`` on; what is beyond is in the first or last."""
    dense = X[:, columns].toarray() if is_sparse(X) else X
    total = np.zeros(len(columns) * ZOOM_CELLS, np.int64)
    for place, value in _entries(dense, None if is_sparse(X) else columns):
        with np.errstate(over="ignore"):  # cut before the cast: infinity is beyond the last cell
            cell = np.clip(np.floor((value - low[place]) / unit[place]), 0, ZOOM_CELLS - 1).astype(np.int64)
        total += np.bincount(place * ZOOM_CELLS + cell, minlength=len(total))
    return total.reshape(len(columns), ZOOM_CELLS)
