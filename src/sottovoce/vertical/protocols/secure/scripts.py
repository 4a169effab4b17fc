"""What a party does in a joint training, command by command: the same commands at every party, in the same order."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sottovoce._numerics import Vector
from sottovoce.vertical.engines.engine import Engine, EngineError, Whole
from sottovoce.vertical.engines.programs import CrossProduct, Mask, MoveDuals, Program

if TYPE_CHECKING:
    from sottovoce.vertical.protocols.secure.agreed_plan import AgreedPlan
    from sottovoce.vertical.protocols.secure.column_plan import ColumnPlan
    from sottovoce.vertical.protocols.secure.joint_plan import JointPlan


class Script(ABC):
    """One party as the holder of its rows inside the computation: asked for a step, it opens what the plan says.

    ``rank``: the party's place among all that compute.
    ``engine``: started.
    ``table``: the party's columns; None for a helper.
    ``labels``: of the label holder; None for all others.
    """

    plan: "AgreedPlan"

    def __init__(self, plan: "AgreedPlan", name: str, engine: Engine, table: Any, labels: Vector | None) -> None:
        self.plan, self.name, self.engine, self.rank = plan, name, engine, plan.ranks.index(name)
        self.data_parties = range(len(plan.blocks))
        self.holder = plan.holder
        self.rows = None if table is None else plan.rows(name, table)
        self.labels = None if labels is None else plan.whole_labels(labels)

    def margins(self, points: Mapping[str, Vector]) -> Whole | None:
        """Return this party's margins at its part of the released weights; None for a helper."""
        return None if self.rows is None else self.plan.margins(self.name, self.rows, points[self.name])

    @abstractmethod
    def open(self, step: int, points: Mapping[str, Vector], shares: Sequence[Whole]) -> Vector:
        """Do the next step, and return what it opens, one number after the other; step 0 shares the data first.

        ``points``: the weights to ask the rows at, by party; step 0 has none.
        ``shares``: this party's noise: `AgreedPlan.shares` of this step.
        """

    def add_up(self, program: Program, margins: Whole | None, *, kept: str | None = None) -> list[str]:
        """Run a program on all pieces at a point, and return its sums: one for each party's columns, and the total.

        ``margins``, of shape (n_samples,) or None: this party's; None for a helper.
        ``kept``: name of what each row keeps from pass to pass, which the program changes.
        """
        plan, engine = self.plan, self.engine
        sums = [*(f"sums{m}" for m in self.data_parties), "total"]
        for name, width in zip(sums, [*(block.n_features for block in plan.blocks), 1], strict=True):
            self.put_zeros(name, (width,))
        for p, place in enumerate(self.places()):
            z, tables = [f"z{m}.{p}" for m in self.data_parties], [f"rows{m}.{p}" for m in self.data_parties]
            for m, name in enumerate(z):
                self.put_piece(name, m, margins, place)
            rows = [] if kept is None else [f"{kept}.{p}"]
            engine.run(program, [*rows, f"y.{p}", *sums, *z, *tables], [*rows, *sums])
            engine.drop(*z)
        return sums

    def put_zeros(self, name: str, shape: tuple[int, ...]) -> None:
        """Make a variable of zeros, which all know."""
        self.engine.put(name, 0, shape, np.zeros(shape, np.int64) if self.rank == 0 else None)

    def put_piece(self, name: str, owner: int, whole: Whole | None, place: slice, *width: int) -> None:
        """Share a piece of what ``owner`` has of all rows."""
        mine = self.piece(whole, place) if self.rank == owner else None
        self.engine.put(name, owner, (self.plan.piece, *width), mine)

    def opened(self, program: Program, names: list[str], share: Whole) -> Whole:
        """Open variables as the program says, with the noise of all parties: nothing here is opened without.

        ``share``: this party's noise; that of the others has its shape.
        """
        noises = [f"noise{rank}" for rank in range(len(self.plan.ranks))]
        for rank, name in enumerate(noises):
            self.engine.put(name, rank, share.shape, share if rank == self.rank else None)
        self.engine.run(program, [*names, *noises], ["opened"])
        found = self.engine.reveal("opened")
        self.engine.drop("opened", *names, *noises)
        return found

    def places(self) -> Iterator[slice]:
        """Return the pieces of the rows, the last one filled up."""
        plan = self.plan
        return (slice(low, low + plan.piece) for low in range(0, plan.n_pieces * plan.piece, plan.piece))

    def piece(self, whole: Whole | None, place: slice) -> Whole:
        """Return a piece of rows, filled up with zeros."""
        assert whole is not None
        piece = whole[place]
        if len(piece) == self.plan.piece:
            return np.ascontiguousarray(piece)
        return np.concatenate([piece, np.zeros((self.plan.piece - len(piece), *whole.shape[1:]), np.int64)])


class SumScript(Script):
    """A training that opens noisy sums: second moments, then passes."""

    plan: "JointPlan"

    def open(self, step: int, points: Mapping[str, Vector], shares: Sequence[Whole]) -> Vector:
        if step == 0:
            self._add_moments()
            return self._open(0, shares)
        program = self.plan.training.program(step)
        self.add_up(program, self.margins(points), kept="a" if isinstance(program, MoveDuals) else None)
        opened = self._open(step, shares)
        if not self.plan.constant:
            self.engine.drop("total")
        return opened

    def _add_moments(self) -> None:
        plan, engine, moments = self.plan, self.engine, self.plan.moments
        for m in self.data_parties:
            opening = moments.openings[m]
            own: Whole | None = None
            if self.rank == m:  # added up over pieces: no second copy of the table is made
                own = np.sum([moments.own(self._columns(place)) for place in self.places()], axis=0)
            engine.put(opening.name, m, opening.scales.shape, own)
        pairs = list(zip(moments.pairs, moments.openings[len(plan.blocks) :], strict=True))
        for _, opening in pairs:
            self.put_zeros(opening.name, opening.scales.shape)
        # piece by piece: where no passes follow, the engine never holds more than one
        for p, place in enumerate(self.places()):
            mine = None if self.rows is None else self._columns(place)
            for m, width in enumerate(moments.all_widths):
                engine.put(self._wide(m, p), m, (plan.piece, width), mine if self.rank == m else None)
            for (a, b), opening in pairs:
                engine.run(CrossProduct(), [opening.name, self._wide(a, p), self._wide(b, p)], [opening.name])
            self._keep_rows(p, place)

    def _columns(self, place: slice) -> Whole:
        """Return what second moments are made of, in one piece: this party's columns, the label's where it is one."""
        piece = self.piece(self.rows, place)
        if self.labels is None or not self.plan.training.with_labels:
            return piece
        return np.column_stack([piece, self.piece(self.labels, place)])

    def _wide(self, m: int, p: int) -> str:
        """Return the name of a party's columns, the label's among them where it is one."""
        return f"rows and label.{p}" if self.plan.training.with_labels and m == self.holder else f"rows{m}.{p}"

    def _keep_rows(self, p: int, place: slice) -> None:
        """Keep, or share, what the passes run on, for one piece of rows; without passes everything goes."""
        plan, engine = self.plan, self.engine
        if not plan.n_steps:
            engine.drop(*(self._wide(m, p) for m in self.data_parties))
            return
        holder = f"rows{self.holder}.{p}"
        if self._wide(self.holder, p) != holder:
            engine.drop(self._wide(self.holder, p))
            self.put_piece(holder, self.holder, self.rows, place, plan.blocks[self.holder].n_features)
        self.put_piece(f"y.{p}", self.holder, self.labels, place)
        if plan.training.has_duals:
            self.put_zeros(f"a.{p}", (plan.piece,))

    def _open(self, step: int, shares: Sequence[Whole]) -> Vector:
        openings = zip(self.plan.openings(step), shares, strict=True)
        found = [self.opened(Mask(), [opening.name], share) for opening, share in openings]
        return np.concatenate([each.astype(np.float64).ravel() for each in found])


class ColumnScript(Script):
    """A training that chooses signed columns on the l1 ball: tables are shared once, then a step opens one place."""

    plan: "ColumnPlan"

    def open(self, step: int, points: Mapping[str, Vector], shares: Sequence[Whole]) -> Vector:
        plan = self.plan
        if step == 0:
            for p, place in enumerate(self.places()):
                for m, block in enumerate(plan.blocks):
                    self.put_piece(f"rows{m}.{p}", m, self.rows, place, block.n_features)
                self.put_piece(f"y.{p}", self.holder, self.labels, place)
        # the first choice is for the model 0
        margins = self.margins(points) if step else np.zeros(plan.n_samples, np.int64)
        sums = self.add_up(plan.scores, margins)
        opened = self.opened(plan.choice, sums, shares[0])
        if not 0 <= int(opened[0]) < 2 * plan.n_columns:
            raise EngineError("what was opened is no place of a column; a party computes something else")
        return opened.astype(np.float64)
