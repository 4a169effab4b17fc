"""Passes over all rows: each row adds one clipped term, in whole ticks, and moves what is remembered of it.

What a pass is told is public: released weights, a clip, the size of a tick. The clip is the sensitivity that the
mechanism beside it is made with (`sottovoce.central.sums.clipped_sums`).
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sottovoce._numerics import Vector
from sottovoce.central.data.operation import Columns, Effect, Holder, RowSum, StepRule
from sottovoce.central.data.part import Part
from sottovoce.central.data.row_memory import DUAL, DUAL_BEFORE, TARGET, WEIGHT
from sottovoce.central.kernels.calls import ScaledRows, multinomial, passes, persons
from sottovoce.central.sums.clipped_sums import Ticks
from sottovoce.losses import Loss

_ALIKE: Final = np.empty(0)  # no weights
_STEPS: Final = 32  # that are taken at once, at most: so often progress is told,
_NOISE: Final = 2**16  # and those with noise of so many numbers,
_WORK: Final = 2.0**26  # or that touch so many entries: nothing interrupts them, and one thread takes any table at once

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
        rows, starts, done = part.rows, part.persons, self.within(part)
        given = done.given([part.memory.whole(name) for name in (*self.reads_of(part), *self.writes)])
        return part.team.total(
            lambda lo, hi, total: persons.person_pass(rows.kernel, starts, *given, lo, hi, total),
            len(starts) - 1, rows.work, np.zeros(self.shape(part), np.int64),
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


class Slopes(RowSum):
    """The sum of the clipped slopes of a loss at a point; steps on few rows are compiled, whatever the loss is."""

    w: NDArray[Any]
    clip: float
    ticks_per_unit: float

    reads = (TARGET,)

    def descend(
        self, holder: Holder, mechanism: Any, rule: StepRule, noise: np.random.Generator,
        progress: Callable[[int, int], None],
    ) -> Vector:  # fmt: skip
        """Do the same for few rows in compiled steps: a step of Python takes longer than such rows."""
        if not isinstance(holder, Part) or (rows := holder.few) is None:
            return super().descend(holder, mechanism, rule, noise, progress)
        shape, dtype = self.shape(holder), holder.dtype
        loss = (self.loss,) if isinstance(self, ClippedSlopes) else ()
        kernel = passes.descend if loss else multinomial.joint_descend
        state = np.broadcast_to(self.w, shape).copy(), np.zeros(shape), np.zeros(shape)
        given = rows, holder.memory.whole(TARGET), self.clip, self.ticks_per_unit, *loss, mechanism.tick
        room = float(np.finfo(dtype).max), np.empty(shape, dtype), np.empty(shape, np.int64)
        work = max(1.0, holder.work) * state[0].size / shape[-1]
        at_once = max(1, min(_STEPS, _NOISE // state[0].size, int(_WORK / work)))
        for first in range(0, rule.n_steps, at_once):
            n_steps = min(at_once, rule.n_steps - first)
            kernel(*given, mechanism.drawn((n_steps, *shape), noise), rule, first, *room, *state)
            progress(first + n_steps, rule.n_steps)
        return np.asarray(state[2] / rule.n_last)


@dataclass(frozen=True, eq=False)
class ClippedSlopes(Slopes):
    """The sum of the clipped gradients at a point."""

    loss: Loss
    w: NDArray[Any]  # of shape (n_weights,); released
    clip: float  # bound on a row's term
    ticks_per_unit: float

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
class JointSlopes(Slopes):
    """The sum of what the multinomial loss falls along at some weights, each row's cut as one vector."""

    w: NDArray[Any]  # of shape (n_classes, n_weights); released
    clip: float  # bound on a row's term
    ticks_per_unit: float

    def shape(self, columns: Columns) -> tuple[int, ...]:
        return (len(self.w), columns.n_weights)

    def add(self, rows: ScaledRows, views: Views, lo: int, hi: int, total: Ticks) -> None:
        multinomial.joint_gradient(rows, views[0], self.w, self.clip, self.ticks_per_unit, lo, hi, total)
