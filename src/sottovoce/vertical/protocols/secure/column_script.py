"""What a party does to choose signed columns jointly: tables are shared once, then a step opens one place."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from sottovoce._numerics import Vector
from sottovoce.vertical.engines.engine import Engine, EngineError, Whole
from sottovoce.vertical.protocols.secure.planned_steps import PlannedSteps

if TYPE_CHECKING:
    from sottovoce.vertical.protocols.secure.column_plan import ColumnPlan

__all__ = ["ColumnScript"]


class ColumnScript(PlannedSteps):
    """One party's part of a joint training on the l1 ball.

    Parameters
    ----------
    plan : ColumnPlan
    rank : int
        The party's place among all that compute.
    engine : Engine
        Started.
    """

    def __init__(self, plan: "ColumnPlan", rank: int, engine: Engine) -> None:
        super().__init__(plan, rank, engine)
        self._plan = plan

    def begin(self, rows: Whole | None, labels: Whole | None, shares: Sequence[Whole]) -> Vector:
        """Share columns and labels, and choose for the model 0; see `ColumnPlan` for what these are."""
        self.follow(0)
        self.check(rows, labels)
        plan, engine = self._plan, self.engine
        for p, place in enumerate(self.places()):
            for m, block in enumerate(plan.blocks):
                mine = self.piece(rows, place) if self.rank == m else None
                engine.put(f"rows{m}.{p}", m, (plan.piece, block.n_features), mine)
            mine = self.piece(labels, place) if self.rank == self.holder else None
            engine.put(f"y.{p}", self.holder, (plan.piece,), mine)
        nothing = None if rows is None else np.zeros(len(rows), np.int64)
        return self._choose(nothing, shares)

    def step(self, step: int, margins: Whole | None, shares: Sequence[Whole]) -> Vector:
        """Choose at released weights; ``margins`` is None for a helper."""
        self.follow(step)
        return self._choose(margins, shares)

    def _choose(self, margins: Whole | None, shares: Sequence[Whole]) -> Vector:
        plan, engine = self._plan, self.engine
        n_candidates = 2 * plan.n_columns
        if [share.shape for share in shares] != [(n_candidates,)]:
            raise EngineError("the noise to share does not have the shape of the plan.")
        sums = self.add_up(plan.scores, margins)
        noises = [f"noise{rank}" for rank in range(len(plan.ranks))]
        for rank, name in enumerate(noises):
            engine.put(name, rank, (n_candidates,), shares[0] if rank == self.rank else None)
        engine.run(plan.choice, [*sums, *noises], ["place"])
        place_ = engine.reveal("place")
        if not 0 <= int(place_[0]) < n_candidates:
            raise EngineError("what was opened is no place of a column; a party computes something else")
        engine.drop("place", *sums, *noises)
        return place_.astype(np.float64)
