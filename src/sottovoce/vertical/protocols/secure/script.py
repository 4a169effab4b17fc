"""What a party does in a joint training, command by command: the same commands at every party, in the same order."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from sottovoce._numerics import Vector
from sottovoce.vertical.engines.engine import Engine, EngineError, Whole
from sottovoce.vertical.engines.programs import CrossProduct, Mask, MoveDuals
from sottovoce.vertical.protocols.secure.planned_steps import PlannedSteps

if TYPE_CHECKING:
    from sottovoce.vertical.protocols.secure.joint_plan import JointPlan

__all__ = ["Script"]


class Script(PlannedSteps):
    """One party's part of a joint training.

    Parameters
    ----------
    plan : JointPlan
    rank : int
        The party's place among all that compute.
    engine : Engine
        Started.
    """

    def __init__(self, plan: "JointPlan", rank: int, engine: Engine) -> None:
        super().__init__(plan, rank, engine)
        self._plan = plan

    def begin(self, rows: Whole | None, labels: Whole | None, shares: Sequence[Whole]) -> Vector:
        """Share the rows, and open the second moments.

        Parameters
        ----------
        rows : ndarray of shape (n_samples, n_features) or None
            From `JointPlan.rows`; None for a helper.
        labels : ndarray of shape (n_samples,) or None
            From `JointPlan.whole_labels`; None for all but the label holder.
        shares : sequence of ndarray
            This party's noise: `JointPlan.shares` of step 0.

        Returns
        -------
        ndarray
            What was opened, one after the other.
        """
        self.follow(0)
        plan, engine, moments = self._plan, self.engine, self._plan.moments
        self.check(rows, labels)
        for m in self.data_parties:
            opening = moments.openings[m]
            own = self._own(rows, labels) if self.rank == m else None
            engine.put(opening.name, m, opening.scales.shape, own)
        pairs = list(zip(moments.pairs, moments.openings[len(plan.blocks) :], strict=True))
        for _, opening in pairs:
            self.put_zeros(opening.name, opening.scales.shape)
        # piece by piece: where no passes follow, the engine never holds more than one
        for p, place in enumerate(self.places()):
            mine = None if rows is None else self._columns(rows, labels, place)
            for m, width in enumerate(moments.all_widths):
                engine.put(self._wide(m, p), m, (plan.piece, width), mine if self.rank == m else None)
            for (a, b), opening in pairs:
                engine.run(CrossProduct(), [opening.name, self._wide(a, p), self._wide(b, p)], [opening.name])
            self._keep_rows(p, place, rows, labels)
        return self._open(0, shares)

    def step(self, step: int, margins: Whole | None, shares: Sequence[Whole]) -> Vector:
        """Do a pass at released weights.

        Parameters
        ----------
        step : int
            From 1 on.
        margins : ndarray of shape (n_samples,) or None
            From `JointPlan.margins`; None for a helper.
        shares : sequence of ndarray
            `JointPlan.shares` of this step.
        """
        self.follow(step)
        program = self._plan.training.program(step)
        self.add_up(program, margins, kept="a" if isinstance(program, MoveDuals) else None)
        opened = self._open(step, shares)
        if not self._plan.constant:
            self.engine.drop("total")
        return opened

    def _columns(self, rows: Whole | None, labels: Whole | None, place: slice) -> Whole:
        """Return what second moments are made of, in one piece: this party's columns, the label's where it is one."""
        piece = self.piece(rows, place)
        if labels is None or not self._plan.moments.with_labels:
            return piece
        return np.column_stack([piece, self.piece(labels, place)])

    def _own(self, rows: Whole | None, labels: Whole | None) -> Whole:
        """Return this party's own products, added up over pieces: no second copy of the table is made."""
        pieces = (self._plan.moments.own(self._columns(rows, labels, place)) for place in self.places())
        total: Whole = np.sum(list(pieces), axis=0, dtype=np.int64)
        return total

    def _wide(self, m: int, p: int) -> str:
        """Return the name of a party's columns, the label's among them where it is one."""
        return f"rows and label.{p}" if self._plan.moments.with_labels and m == self.holder else f"rows{m}.{p}"

    def _keep_rows(self, p: int, place: slice, rows: Whole | None, labels: Whole | None) -> None:
        """Keep, or share, what the passes run on, for one piece of rows; without passes everything goes."""
        plan, engine = self._plan, self.engine
        if not plan.n_steps:
            engine.drop(*(self._wide(m, p) for m in self.data_parties))
            return
        is_holder, holder = self.rank == self.holder, f"rows{self.holder}.{p}"
        if self._wide(self.holder, p) != holder:
            engine.drop(self._wide(self.holder, p))
            width = plan.blocks[self.holder].n_features
            engine.put(holder, self.holder, (plan.piece, width), self.piece(rows, place) if is_holder else None)
        engine.put(f"y.{p}", self.holder, (plan.piece,), self.piece(labels, place) if is_holder else None)
        if plan.training.has_duals:
            self.put_zeros(f"a.{p}", (plan.piece,))

    def _open(self, step: int, shares: Sequence[Whole]) -> Vector:
        """Add the noise of all parties to each opening of a step, and open it."""
        plan, engine = self._plan, self.engine
        openings = plan.openings(step)
        if [share.shape for share in shares] != [opening.scales.shape for opening in openings]:
            raise EngineError("the noise to share does not have the shape of the plan.")
        opened = []
        for opening, share in zip(openings, shares, strict=True):
            noises = [f"noise{rank}" for rank in range(len(plan.ranks))]
            for rank, name in enumerate(noises):
                engine.put(name, rank, opening.scales.shape, share if rank == self.rank else None)
            engine.run(Mask(), [opening.name, *noises], ["opened"])
            opened.append(engine.reveal("opened").astype(np.float64).ravel())
            engine.drop("opened", opening.name, *noises)
        return np.concatenate(opened)
