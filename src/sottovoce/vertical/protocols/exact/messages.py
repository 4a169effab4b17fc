"""Messages of a training without noise, by L-BFGS. Whoever asks learns the columns, so no budget covers it."""

from copy import copy
from typing import Any

import numpy as np

from sottovoce._numerics import Vector
from sottovoce.privacy.events import NonPrivateEvent
from sottovoce.vertical.protocol import Answered, PartyFacts, RefusalError, Request, opened
from sottovoce.vertical.protocols.exact.worker import LbfgsWorker, Subproblem
from sottovoce.vertical.table.columns import Columns
from sottovoce.vertical.wire import Count, Done, Payload


class LbfgsStart(Request, code=36):
    """Open a training: L2 penalty for the *sum* of losses, 1 for an intercept here, number of pairs to remember."""

    l2: float
    intercept: Count
    memory: Count

    def answer(self, facts: PartyFacts, worker: Any) -> Answered[Done]:
        if not self.l2 >= 0.0:
            raise RefusalError("a penalty needs l2 >= 0")
        desk = yield NonPrivateEvent()
        desk.worker = self.begun(desk.table)
        return Done()

    def begun(self, table: Any) -> LbfgsWorker:
        return LbfgsWorker(Subproblem(Columns(table, intercept=bool(self.intercept)), self.l2), self.memory)


class LbfgsGradient(Request, code=31):
    """Move by ``step`` along the last direction; then the derivative of the loss, one number a record.

    ``curvature`` makes the preconditioner again: one number, or the second derivative of the loss for each record;
    empty keeps it. The answer is inner products within the party, in the order of
    `sottovoce.vertical.protocols.exact.lbfgs.ProductTable.read`.
    """

    step: float
    slopes: Vector
    curvature: Vector

    def answer(self, facts: PartyFacts, worker: Any) -> Answered[Payload]:
        held = opened(LbfgsWorker, worker, self)
        facts.one_a_row(self, "slopes")
        if len(self.curvature) > 1:
            facts.one_a_row(self, "curvature")
        yield None
        return self.on(held)

    def on(self, worker: LbfgsWorker) -> Payload:
        return Payload(worker.gradient(self.step, self.slopes, self.curvature))


class LbfgsDirection(Request, code=33):
    """Coefficients of the next direction: those of the steps, then those of the gradient differences.

    The answer is D p for this direction p; then x'Rp, p'Rp and x'Rx / 2 for the penalty R.
    """

    coefficients: Vector

    def answer(self, facts: PartyFacts, worker: Any) -> Answered[Payload]:
        held = opened(LbfgsWorker, worker, self)
        yield None
        return self.on(held)

    def on(self, worker: LbfgsWorker) -> Payload:
        scores, *terms = worker.direction(self.coefficients)
        return Payload(np.append(scores, terms))


class LbfgsKeep(Request, code=37):
    """Move by ``step`` along the last direction, and keep the coefficients under the name ``model``."""

    step: float
    model: str

    def answer(self, facts: PartyFacts, worker: Any) -> Answered[Done]:
        end = copy(opened(LbfgsWorker, worker, self))  # where it cannot be kept, the step is taken again
        desk = yield None
        self.on(end)
        desk.keep(self.model, *end.coefficients, released=False)
        return Done()

    def on(self, worker: LbfgsWorker) -> Done:
        worker.move(self.step)
        return Done()
