"""Passes over all rows: each row adds one clipped term, in whole ticks, and moves what is remembered of it.

What a pass is told is public: released weights, a clip, the size of a tick. The clip is the sensitivity that the
mechanism beside it is made with (`sottovoce.central.sums.clipped_sums`).
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sottovoce.central.data.operation import Columns, Effect, RowSum
from sottovoce.central.data.part import Part
from sottovoce.central.data.row_memory import DUAL, DUAL_BEFORE, TARGET, WEIGHT
from sottovoce.central.kernels import multinomial, passes
from sottovoce.central.kernels.persons import person_pass
from sottovoce.central.kernels.scaled import ScaledRows
from sottovoce.central.sums.clipped_sums import Ticks
from sottovoce.losses import Loss

_ALIKE: Final = np.empty(0)  # no weights

Views = Sequence[NDArray[Any]]


class UnitSum(RowSum):
    """A sum over rows; or over persons, where the unit is one of several rows: then what these add is cut together."""

    @abstractmethod
    def given(self, views: Views) -> tuple[Any, ...]:
        """Return what `person_pass` takes of each row, and how rows step."""

    def on(self, part: Part) -> Ticks:
        if part.persons is None:
            return super().on(part)
        # all rows are in memory and in one part
        rows, persons, done = part.rows, part.persons, self.within(part)
        given = done.given([part.memory.whole(name) for name in (*self.reads_of(part), *self.writes)])
        return part.team.total(
            lambda lo, hi, total: person_pass(rows.kernel, persons, *given, lo, hi, total),
            len(persons) - 1, rows.work, np.zeros(self.shape(part), np.int64),
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class AcceleratedPass(UnitSum):
    """One pass: it extrapolates and moves the dual variables, and returns by how much v moves.

    Where rows have weights, a row adds its part of a step.
    """

    loss: Loss
    w: NDArray[Any]  # of shape (n_weights,); released
    momentum: float
    ratio: float  # lambda_max / alpha
    damping: float  # share of the way that a step goes; 0 means exact coordinate steps
    clip: float  # bound on a row's term
    ticks_per_unit: float

    effect = Effect.STEP
    reads = (TARGET,)
    writes = (DUAL, DUAL_BEFORE)

    def reads_of(self, part: Part) -> tuple[str, ...]:
        return (TARGET, WEIGHT) if WEIGHT in part.memory else self.reads

    def add(self, rows: ScaledRows, views: Views, lo: int, hi: int, total: Ticks) -> None:
        passes.accelerated_pass(rows, *self.given(views), lo, hi, total)

    def given(self, views: Views) -> tuple[Any, ...]:
        y, *shares, a, a_before = views
        return (
            y, shares[0] if shares else _ALIKE, a, a_before, self.momentum, self.w, self.ratio, self.damping, self.clip,
            self.ticks_per_unit, self.loss,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class NewtonPass(RowSum):
    """Moves the dual variables at a point, and returns by how much v moves."""

    loss: Loss
    w: NDArray[Any]  # of shape (n_weights,); released
    share: float  # of the way to -l'(x.w)
    clip: float  # bound on a row's term
    ticks_per_unit: float

    effect = Effect.STEP
    reads = (TARGET,)
    writes = (DUAL,)

    def add(self, rows: ScaledRows, views: Views, lo: int, hi: int, total: Ticks) -> None:
        y, a = views
        passes.newton_pass(rows, y, a, self.w, self.share, self.clip, self.ticks_per_unit, self.loss, lo, hi, total)


@dataclass(frozen=True, eq=False)
class ClippedSlopes(RowSum):
    """The sum of the clipped gradients at a point."""

    loss: Loss
    w: NDArray[Any]  # of shape (n_weights,); released
    clip: float  # bound on a row's term
    ticks_per_unit: float

    reads = (TARGET,)

    def add(self, rows: ScaledRows, views: Views, lo: int, hi: int, total: Ticks) -> None:
        passes.gradient_at(rows, views[0], self.w, self.clip, self.ticks_per_unit, self.loss, lo, hi, total)


@dataclass(frozen=True, eq=False)
class JointPass(UnitSum):
    """One pass: it extrapolates and moves the dual vectors, and returns by how much V moves."""

    w: NDArray[Any]  # of shape (n_classes, n_weights); released
    momentum: float
    damping: float  # share of the way that a step goes
    clip: float  # bound on a row's term
    ticks_per_unit: float

    effect = Effect.STEP
    reads = (TARGET,)
    writes = (DUAL, DUAL_BEFORE)

    def shape(self, columns: Columns) -> tuple[int, ...]:
        return (len(self.w), columns.n_weights)

    def add(self, rows: ScaledRows, views: Views, lo: int, hi: int, total: Ticks) -> None:
        multinomial.joint_pass(
            rows, *views, self.momentum, self.w, self.damping, self.clip, self.ticks_per_unit, lo, hi, total
        )

    def given(self, views: Views) -> tuple[Any, ...]:
        y, *duals = views
        return y, _ALIKE, *duals, self.momentum, self.w, 0.0, self.damping, self.clip, self.ticks_per_unit, None


@dataclass(frozen=True, eq=False)
class JointSlopes(RowSum):
    """The sum of what the multinomial loss falls along at some weights, each row's cut as one vector."""

    w: NDArray[Any]  # of shape (n_classes, n_weights); released
    clip: float  # bound on a row's term
    ticks_per_unit: float

    reads = (TARGET,)

    def shape(self, columns: Columns) -> tuple[int, ...]:
        return (len(self.w), columns.n_weights)

    def add(self, rows: ScaledRows, views: Views, lo: int, hi: int, total: Ticks) -> None:
        multinomial.joint_gradient(rows, views[0], self.w, self.clip, self.ticks_per_unit, lo, hi, total)
