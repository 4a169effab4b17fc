"""What all joint trainings do alike at a party: steps in their order, rows in pieces, shapes that the plan says."""

from collections.abc import Iterator

import numpy as np

from sottovoce.vertical.engines.engine import Engine, EngineError, Whole
from sottovoce.vertical.engines.programs import Program
from sottovoce.vertical.protocols.secure.agreed_plan import AgreedPlan

__all__ = ["PlannedSteps"]


class PlannedSteps:
    """One party's part of a joint training.

    Parameters
    ----------
    plan : AgreedPlan
    rank : int
        The party's place among all that compute.
    engine : Engine
        Started.
    """

    def __init__(self, plan: AgreedPlan, rank: int, engine: Engine) -> None:
        self._agreed, self.rank, self.engine = plan, rank, engine
        self.data_parties = range(len(plan.blocks))
        self.holder = plan.holder
        self._done = -1

    def follow(self, step: int) -> None:
        """Refuse a step that is not the next one."""
        if step != self._done + 1 or step > self._agreed.n_steps:
            raise EngineError(f"step {step} does not come after step {self._done} of this joint training.")
        self._done = step

    def check(self, rows: Whole | None, labels: Whole | None) -> None:
        """Refuse rows and labels that are not what this party shares by the plan."""
        n = self._agreed.n_samples
        wanted = (n, self._agreed.blocks[self.rank].n_features) if self.rank in self.data_parties else None
        if (None if rows is None else rows.shape) != wanted:
            raise EngineError("the rows to share do not have the shape of the plan.")
        if (None if labels is None else labels.shape) != ((n,) if self.rank == self.holder else None):
            raise EngineError("the labels to share do not have the shape of the plan.")

    def add_up(self, program: Program, margins: Whole | None, *, kept: str | None = None) -> list[str]:
        """Run a program on all pieces at a point, and return its sums: one for each party's columns, and the total.

        Parameters
        ----------
        program : Program
        margins : ndarray of shape (n_samples,) or None
            This party's; None for a helper.
        kept : str or None
            Name of what each row keeps from pass to pass, which the program changes.
        """
        plan, engine = self._agreed, self.engine
        sums = [*(f"sums{m}" for m in self.data_parties), "total"]
        for name, width in zip(sums, [*(block.n_features for block in plan.blocks), 1], strict=True):
            self.put_zeros(name, (width,))
        for p, place in enumerate(self.places()):
            z, tables = [f"z{m}.{p}" for m in self.data_parties], [f"rows{m}.{p}" for m in self.data_parties]
            for m, name in enumerate(z):
                engine.put(name, m, (plan.piece,), self.piece(margins, place) if self.rank == m else None)
            rows = [] if kept is None else [f"{kept}.{p}"]
            engine.run(program, [*rows, f"y.{p}", *sums, *z, *tables], [*rows, *sums])
            engine.drop(*z)
        return sums

    def put_zeros(self, name: str, shape: tuple[int, ...]) -> None:
        """Make a variable of zeros, which all know."""
        self.engine.put(name, 0, shape, np.zeros(shape, np.int64) if self.rank == 0 else None)

    def places(self) -> Iterator[slice]:
        """Return the pieces of the rows, the last one filled up."""
        plan = self._agreed
        return (slice(low, low + plan.piece) for low in range(0, plan.n_pieces * plan.piece, plan.piece))

    def piece(self, whole: Whole | None, place: slice) -> Whole:
        """Return a piece of rows, filled up with zeros."""
        plan = self._agreed
        if whole is None or len(whole) != plan.n_samples:
            raise EngineError("what is to be shared does not have the shape of the plan.")
        piece = whole[place]
        if len(piece) == plan.piece:
            return np.ascontiguousarray(piece)
        return np.concatenate([piece, np.zeros((plan.piece - len(piece), *whole.shape[1:]), np.int64)])
