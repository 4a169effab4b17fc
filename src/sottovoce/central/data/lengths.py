"""Lengths of rows: measured once, made scales by public numbers, counted, and shortened to a released bound."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sottovoce.central.data.operation import Change, Columns, Count, Effect, Holder, Operation, Ticks, is_number
from sottovoce.central.data.part import (
    Matrix,
    Part,
    Rows,
    RowUnit,
    describe_not_finite,
    norm_bounds,
    norms_within,
)
from sottovoce.central.data.row_memory import DIVISOR, LENGTH, SCALE
from sottovoce.central.data.streamed import is_sparse
from sottovoce.central.kernels.calls import passes
from sottovoce.central.parallel import Team
from sottovoce.exceptions import DataError


class BadRows(NamedTuple):
    """Rows that hold NaN or infinity: how many, and the message about the first one."""

    number: int
    first: str


@dataclass(frozen=True)
class MeasureRows(Operation[BadRows | None]):
    """Measures the norm of each row, infinite where it overflows; tells of rows with NaN or infinity."""

    names: tuple[str, ...] | None = None  # names of the columns, for the message

    effect = Effect.LASTING

    def on(self, part: Part) -> BadRows | None:
        part.memory.new(LENGTH)

        def measure(_: int, lo: int, hi: int, block: Any, out: NDArray[Any]) -> None:
            passes.norms(block.kernel.X, lo, hi, out)

        part.sweep(measure, writes=[LENGTH])
        count, first = 0, -1
        for place, (length,) in part.columns([LENGTH]):
            bad = np.flatnonzero(np.isnan(length))
            if bad.size and first < 0:
                first = place.start + int(bad[0])
            count += bad.size
        return BadRows(count, describe_not_finite(part.raw, first, part.first_row, self.names)) if count else None

    def merged(self, answers: Sequence[BadRows | None]) -> BadRows | None:
        """Return the message about the first row of all, and the number of such rows."""
        bad = [answer for answer in answers if answer is not None]
        return BadRows(sum(one.number for one in bad), bad[0].first) if bad else None

    def allows(self, answer: object, n_rows: int, columns: Columns) -> bool:
        """Allow None, or a message about some of the rows."""
        if answer is None:
            return True
        return type(answer) is BadRows and is_number(answer.number, n_rows) and type(answer.first) is str


def measure_rows(holder: Holder, names: Sequence[str] | None) -> None:
    """Have the rows measured; those with NaN or infinity are refused, whose columns have these names."""
    bad = holder.ask(MeasureRows(None if names is None else tuple(names)))
    if bad is not None:
        raise DataError(
            f"{bad.first} ({bad.number} row(s) hold NaN or infinity). Replace missing values by a public constant "
            "(sottovoce.SchemaEncoder does), or drop those rows, before fit; a value computed from the data would need "
            "a share of the budget."
        )


@dataclass(frozen=True)
class ScaleRows(Change):
    """Divides measured rows by a bound, shortens those beyond it, appends the constant, and scales all to norm 1."""

    data_norm: float  # > 0; public or released bound on the norm of a raw row
    constant: float  # >= 0; value of the intercept's column in units of ``data_norm``; 0 for none

    effect = Effect.LASTING

    @property
    def entry(self) -> float:
        """The constant in units of the longest row with it."""
        return RowUnit(self.data_norm, self.constant).entry

    def on(self, part: Part) -> None:
        unit = RowUnit(self.data_norm, self.constant)
        part.constant = unit.entry
        for _, (length, scale, divisor) in part.columns([LENGTH], [SCALE, DIVISOR]):
            # at most 1 long with their constant
            scale[:] = np.minimum(unit.scale, 1.0 / np.maximum(length, 1e-300) / unit.whole)
            divisor[:] = norm_bounds(scale, length, unit.entry)
        part.memory.drop(LENGTH)


@dataclass(frozen=True)
class BoundEntries(Change):
    """Cuts entries of measured rows in memory to a bound, divides by it, and appends the constant.

    The divisor bounds the largest entry and not the length: it is 1. A copy is made only where an entry is beyond the
    bound and the matrix is not the fit's own.
    """

    data_bound: float  # > 0; public bound on the absolute value of an entry
    constant: float  # in [0, 1]; value of the intercept's column; 0 for none

    effect = Effect.LASTING

    @property
    def entry(self) -> float:
        return self.constant

    def on(self, part: Part) -> None:
        raw: Any = part.raw
        values, bound = raw.data if is_sparse(raw) else raw, self.data_bound
        if values.size and not max(float(values.max()), -float(values.min())) <= bound:
            values = np.clip(values, -bound, bound, out=values if part.is_copy else None)
            part.raw = sp.csr_array((values, raw.indices, raw.indptr), shape=raw.shape) if is_sparse(raw) else values
        part.constant = self.constant
        part.memory.fill(SCALE, 1.0 / bound)
        part.memory.fill(DIVISOR, 1.0)
        part.memory.drop(LENGTH)


def make_rows(raw: Matrix, *, data_norm: float, constant: float, names: Sequence[str] | None, team: Team) -> Rows:
    """Return rows in memory after `ScaleRows`; those with NaN or infinity are refused as by `measure_rows`."""
    return _made(ScaleRows(data_norm, constant), raw, names, team)


def make_bounded_rows(
    raw: Matrix, *, data_bound: float, constant: float, names: Sequence[str] | None, team: Team
) -> Rows:
    """Return rows in memory after `BoundEntries`; those with NaN or infinity are refused as by `measure_rows`."""
    return _made(BoundEntries(data_bound, constant), raw, names, team)


def _made(change: Change, raw: Matrix, names: Sequence[str] | None, team: Team) -> Rows:
    part = Part(raw, team)
    measure_rows(part, names)
    change.on(part)
    return part.rows


@dataclass(frozen=True)
class Shorten(Change):
    """Shortens rows to a released bound."""

    bound: float  # in (0, 1); in units of the present bound

    effect = Effect.LASTING

    def on(self, part: Part) -> None:
        most = math.sqrt(max(1.0 - part.constant**2, 0.0))  # length of the longest row without its constant
        for _, (scale, divisor) in part.columns([], [SCALE, DIVISOR]):
            norms = norms_within(divisor, part.constant)
            factor = 1.0 / np.maximum(norms, self.bound)
            scale *= factor
            divisor[:] = norm_bounds(factor, norms * most, part.constant)


@dataclass(frozen=True)
class CountWithin(Count):
    """The number of rows that are no longer than a bound, in units of the longest that a row can be."""

    bound: float

    reads = (DIVISOR,)

    def counts(self, part: Part, views: Sequence[NDArray[Any]]) -> Ticks:
        return np.array([np.count_nonzero(views[0] <= _largest_within(self.bound, part.constant))], np.int64)


@lru_cache(maxsize=256)
def _largest_within(bound: float, constant: float) -> float:
    """Return the largest divisor of a row that is within the bound: `norms_within` never falls from one to the next."""
    low, high = 0, int(np.float64(1.0).view(np.int64))  # doubles of one sign are in the order of their bits
    while low < high:
        middle = (low + high + 1) // 2
        is_within = norms_within(np.array(middle).view(np.float64), constant) <= bound
        low, high = (middle, high) if is_within else (low, middle - 1)
    return float(np.int64(low).view(np.float64))
