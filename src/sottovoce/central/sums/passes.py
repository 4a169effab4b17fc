"""Passes over all rows: each row adds one clipped term, in whole ticks, and moves what is remembered of it.

What a pass is told is public: released weights, a clip, the size of a tick. The clip is the sensitivity that the
mechanism beside it is made with (`sottovoce.central.sums.clipped_sums`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sottovoce.central.data.operation import Columns, Effect, RowSum
from sottovoce.central.data.part import Part
from sottovoce.central.data.row_memory import DUAL, DUAL_BEFORE, TARGET, WEIGHT
from sottovoce.central.kernels import multinomial, passes
from sottovoce.central.kernels.gradient import full_gradient
from sottovoce.central.kernels.newton import newton_pass
from sottovoce.central.kernels.persons import person_joint_pass, person_pass
from sottovoce.central.kernels.scaled import ScaledRows
from sottovoce.central.sums.clipped_sums import Ticks
from sottovoce.losses import Loss

__all__ = ["AcceleratedPass", "ClippedSlopes", "JointPass", "JointSlopes", "NewtonPass"]


@dataclass(frozen=True, eq=False)
class AcceleratedPass(RowSum):
    """One pass: it extrapolates and moves the dual variables, and returns by how much v moves.

    Where rows have weights, a row adds its part of a step; where the unit is a person of several rows, their steps are
    cut together.
    """

    loss: Loss
    w: NDArray[Any]  # of shape (n_weights,); released
    momentum: float
    ratio: float  # lambda_max / alpha
    damping: float  # share of the way that a step goes; 0 means exact coordinate steps
    clip: float  # bound on a row's term
    ticks_per_unit: float

    effect = Effect.STEP
    reads: ClassVar[tuple[str, ...]] = (TARGET,)
    writes = (DUAL, DUAL_BEFORE)

    def on(self, part: Part) -> Ticks:
        if part.persons is not None:
            return self._on_persons(part, part.persons)
        return super().on(part)

    def within(self, part: Part) -> "AcceleratedPass":
        kind = WeightedPass if WEIGHT in part.memory else AcceleratedPass
        return kind(
            self.loss, part.weights(self.w), self.momentum, self.ratio, self.damping, self.clip, self.ticks_per_unit
        )

    def add(self, rows: ScaledRows, views: Sequence[NDArray[Any]], lo: int, hi: int, total: Ticks) -> None:
        y, a, a_before = views
        passes.accelerated_pass(
            rows, y, a, a_before, self.momentum, self.w, self.ratio, self.damping, self.clip, self.ticks_per_unit,
            self.loss, lo, hi, total,
        )  # fmt: skip

    def _on_persons(self, part: Part, persons: NDArray[np.int64]) -> Ticks:
        """Do it on rows that are all in memory and in one part."""
        rows, memory, w = part.rows, part.memory, part.weights(self.w)
        y, a, a_before = memory.whole(TARGET), memory.whole(DUAL), memory.whole(DUAL_BEFORE)
        shares = memory.whole(WEIGHT) if WEIGHT in memory else np.ones(part.n_samples)

        def add(lo: int, hi: int, total: Ticks) -> None:
            person_pass(
                rows.kernel, persons, y, shares, a, a_before, self.momentum, w, self.ratio, self.damping, self.clip,
                self.ticks_per_unit, self.loss, lo, hi, total,
            )  # fmt: skip

        return part.team.total(add, len(persons) - 1, rows.work, np.zeros(part.n_weights, np.int64))


class WeightedPass(AcceleratedPass):
    """The same on a part whose rows have weights."""

    reads = (TARGET, WEIGHT)

    def add(self, rows: ScaledRows, views: Sequence[NDArray[Any]], lo: int, hi: int, total: Ticks) -> None:
        y, shares, a, a_before = views
        passes.weighted_pass(
            rows, y, shares, a, a_before, self.momentum, self.w, self.ratio, self.damping, self.clip,
            self.ticks_per_unit, self.loss, lo, hi, total,
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

    def add(self, rows: ScaledRows, views: Sequence[NDArray[Any]], lo: int, hi: int, total: Ticks) -> None:
        y, a = views
        newton_pass(rows, y, a, self.w, self.share, self.clip, self.ticks_per_unit, self.loss, lo, hi, total)


@dataclass(frozen=True, eq=False)
class ClippedSlopes(RowSum):
    """The sum of the clipped gradients at a point."""

    loss: Loss
    w: NDArray[Any]  # of shape (n_weights,); released
    clip: float  # bound on a row's term
    ticks_per_unit: float

    reads = (TARGET,)

    def add(self, rows: ScaledRows, views: Sequence[NDArray[Any]], lo: int, hi: int, total: Ticks) -> None:
        full_gradient(rows, views[0], self.w, self.clip, self.ticks_per_unit, self.loss, lo, hi, total)


@dataclass(frozen=True, eq=False)
class JointPass(RowSum):
    """One pass: it extrapolates and moves the dual vectors, and returns by how much V moves."""

    w: NDArray[Any]  # of shape (n_classes, n_weights); released, in the precision of the matrix
    momentum: float
    damping: float  # share of the way that a step goes
    clip: float  # bound on a row's term
    ticks_per_unit: float

    effect = Effect.STEP
    reads = (TARGET,)
    writes = (DUAL, DUAL_BEFORE)

    def shape(self, columns: Columns) -> tuple[int, ...]:
        return (len(self.w), columns.n_weights)

    def add(self, rows: ScaledRows, views: Sequence[NDArray[Any]], lo: int, hi: int, total: Ticks) -> None:
        y, a, a_before = views
        multinomial.joint_pass(
            rows, y, a, a_before, self.momentum, self.w, self.damping, self.clip, self.ticks_per_unit, lo, hi, total
        )

    def on(self, part: Part) -> Ticks:
        return super().on(part) if part.persons is None else self._on_persons(part, part.persons)

    def _on_persons(self, part: Part, persons: NDArray[np.int64]) -> Ticks:
        """Do it on rows that are all in memory and in one part; the steps of a person's rows are cut together."""
        rows, memory, w = part.rows, part.memory, part.weights(self.w)
        y, a, a_before = memory.whole(TARGET), memory.whole(DUAL), memory.whole(DUAL_BEFORE)

        def add(lo: int, hi: int, total: Ticks) -> None:
            person_joint_pass(
                rows.kernel, persons, y, a, a_before, self.momentum, w, self.damping, self.clip, self.ticks_per_unit,
                lo, hi, total,
            )  # fmt: skip

        return part.team.total(add, len(persons) - 1, rows.work, np.zeros(self.shape(part), np.int64))


@dataclass(frozen=True, eq=False)
class JointSlopes(RowSum):
    """The sum of what the multinomial loss falls along at some weights, each row's cut as one vector."""

    w: NDArray[Any]  # of shape (n_classes, n_weights); released, in the precision of the matrix
    clip: float  # bound on a row's term
    ticks_per_unit: float

    reads = (TARGET,)

    def shape(self, columns: Columns) -> tuple[int, ...]:
        return (len(self.w), columns.n_weights)

    def add(self, rows: ScaledRows, views: Sequence[NDArray[Any]], lo: int, hi: int, total: Ticks) -> None:
        multinomial.joint_gradient(rows, views[0], self.w, self.clip, self.ticks_per_unit, lo, hi, total)
