"""What a party does in a joint training, command by command: the same commands at every party, in the same order."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sottovoce._numerics import Vector
from sottovoce.vertical.engines.engine import Engine, EngineError, Whole
from sottovoce.vertical.engines.programs import CrossProduct, Mask, MoveDuals

if TYPE_CHECKING:
    from sottovoce.vertical.protocols.secure.joint_plan import JointPlan

__all__ = ["Script"]


class Script:
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
        self._plan, self._rank, self._engine = plan, rank, engine
        self._data_parties = range(len(plan.blocks))
        self._holder = plan.ranks.index(plan.label_holder)
        self._done = -1

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
        self._follow(0)
        plan, engine, moments = self._plan, self._engine, self._plan.moments
        self._check(rows, labels)
        for m in self._data_parties:
            opening = moments.openings[m]
            own = self._own(rows, labels) if self._rank == m else None
            engine.put(opening.name, m, opening.scales.shape, own)
        pairs = list(zip(moments.pairs, moments.openings[len(plan.blocks) :], strict=True))
        for _, opening in pairs:
            self._put_zeros(opening.name, opening.scales.shape)
        # piece by piece: where no passes follow, the engine never holds more than one
        for p, place in enumerate(self._places()):
            mine = None if rows is None else self._columns(rows, labels, place)
            for m, width in enumerate(moments.all_widths):
                engine.put(self._wide(m, p), m, (plan.piece, width), mine if self._rank == m else None)
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
        self._follow(step)
        plan, engine = self._plan, self._engine
        program = plan.training.program(step)
        sums = [f"sums{m}" for m in self._data_parties]
        for name, block in zip(sums, plan.blocks, strict=True):
            self._put_zeros(name, (block.n_features,))
        self._put_zeros("total", (1,))
        for p, place in enumerate(self._places()):
            z, tables = [f"z{m}.{p}" for m in self._data_parties], [f"rows{m}.{p}" for m in self._data_parties]
            for m, name in enumerate(z):
                mine = self._piece(margins, place) if self._rank == m else None
                engine.put(name, m, (plan.piece,), mine)
            duals = [f"a.{p}"] if isinstance(program, MoveDuals) else []
            engine.run(program, [*duals, f"y.{p}", *sums, "total", *z, *tables], [*duals, *sums, "total"])
            engine.drop(*z)
        opened = self._open(step, shares)
        if not plan.constant:
            engine.drop("total")
        return opened

    def _follow(self, step: int) -> None:
        if step != self._done + 1 or step > self._plan.n_steps:
            raise EngineError(f"step {step} does not come after step {self._done} of this joint training.")
        self._done = step

    def _check(self, rows: Whole | None, labels: Whole | None) -> None:
        """Refuse what is not of the plan's shape."""
        plan, rank = self._plan, self._rank
        n, is_holder = plan.n_samples, rank == self._holder
        wanted = (n, plan.blocks[rank].n_features) if rank in self._data_parties else None
        if (None if rows is None else rows.shape) != wanted:
            raise EngineError("the rows to share do not have the shape of the plan.")
        if (None if labels is None else labels.shape) != ((n,) if is_holder else None):
            raise EngineError("the labels to share do not have the shape of the plan.")

    def _columns(self, rows: Whole | None, labels: Whole | None, place: slice) -> Whole:
        """Return what second moments are made of, in one piece: this party's columns, the label's where it is one."""
        piece = self._piece(rows, place)
        if labels is None or not self._plan.moments.with_labels:
            return piece
        return np.column_stack([piece, self._piece(labels, place)])

    def _own(self, rows: Whole | None, labels: Whole | None) -> Whole:
        """Return this party's own products, added up over pieces: no second copy of the table is made."""
        pieces = (self._plan.moments.own(self._columns(rows, labels, place)) for place in self._places())
        total: Whole = np.sum(list(pieces), axis=0, dtype=np.int64)
        return total

    def _wide(self, m: int, p: int) -> str:
        """Return the name of a party's columns, the label's among them where it is one."""
        return f"rows and label.{p}" if self._plan.moments.with_labels and m == self._holder else f"rows{m}.{p}"

    def _keep_rows(self, p: int, place: slice, rows: Whole | None, labels: Whole | None) -> None:
        """Keep, or share, what the passes run on, for one piece of rows; without passes everything goes."""
        plan, engine = self._plan, self._engine
        if not plan.n_steps:
            engine.drop(*(self._wide(m, p) for m in self._data_parties))
            return
        is_holder, holder = self._rank == self._holder, f"rows{self._holder}.{p}"
        if self._wide(self._holder, p) != holder:
            engine.drop(self._wide(self._holder, p))
            width = plan.blocks[self._holder].n_features
            engine.put(holder, self._holder, (plan.piece, width), self._piece(rows, place) if is_holder else None)
        engine.put(f"y.{p}", self._holder, (plan.piece,), self._piece(labels, place) if is_holder else None)
        if plan.training.has_duals:
            self._put_zeros(f"a.{p}", (plan.piece,))

    def _open(self, step: int, shares: Sequence[Whole]) -> Vector:
        """Add the noise of all parties to each opening of a step, and open it."""
        plan, engine = self._plan, self._engine
        openings = plan.openings(step)
        if [share.shape for share in shares] != [opening.scales.shape for opening in openings]:
            raise EngineError("the noise to share does not have the shape of the plan.")
        opened = []
        for opening, share in zip(openings, shares, strict=True):
            noises = [f"noise{rank}" for rank in range(len(plan.ranks))]
            for rank, name in enumerate(noises):
                engine.put(name, rank, opening.scales.shape, share if rank == self._rank else None)
            engine.run(Mask(), [opening.name, *noises], ["opened"])
            opened.append(engine.reveal("opened").astype(np.float64).ravel())
            engine.drop("opened", opening.name, *noises)
        return np.concatenate(opened)

    def _put_zeros(self, name: str, shape: tuple[int, ...]) -> None:
        self._engine.put(name, 0, shape, np.zeros(shape, np.int64) if self._rank == 0 else None)

    def _places(self) -> Iterator[slice]:
        plan = self._plan
        return (slice(low, low + plan.piece) for low in range(0, plan.n_pieces * plan.piece, plan.piece))

    def _piece(self, whole: Whole | None, place: slice) -> Whole:
        """Return a piece of rows, filled up with zeros."""
        plan = self._plan
        if whole is None or len(whole) != plan.n_samples:
            raise EngineError("what is to be shared does not have the shape of the plan.")
        piece = whole[place]
        if len(piece) == plan.piece:
            return np.ascontiguousarray(piece)
        return np.concatenate([piece, np.zeros((plan.piece - len(piece), *whole.shape[1:]), np.int64)])
