"""Messages of a training without noise, by L-BFGS. Whoever asks learns the columns, so no budget covers it."""

from sottovoce._numerics import Vector
from sottovoce.privacy.events import NonPrivateEvent
from sottovoce.vertical.protocol import Answered, PartyFacts, Request, Training
from sottovoce.vertical.protocols.exact.worker import LbfgsWorker, Subproblem
from sottovoce.vertical.wire import Done, Message


class LbfgsProducts(Message, code=32):
    """Inner products within the party, in the order of `sottovoce.vertical.protocols.exact.lbfgs.ProductTable.read`."""

    products: Vector


class LbfgsScores(Message, code=34):
    """D p for the new direction p; x'Rp, p'Rp and x'Rx / 2 for the penalty R."""

    scores: Vector
    slope: float
    square: float
    penalty: float


class LbfgsStart(Request, code=30):
    """Number of pairs to remember."""

    memory: int

    def worker(self, problem: Subproblem) -> LbfgsWorker:
        return LbfgsWorker(problem, self.memory)

    def answer(self, facts: PartyFacts, training: Training) -> Answered[Done]:
        desk = yield NonPrivateEvent()
        training.worker = self.worker(Subproblem(desk.columns(intercept=training.intercept), training.l2))
        return Done()


class LbfgsGradient(Request, code=31):
    """Move by ``step`` along the last direction; then the derivative of the loss, one number a record.

    ``curvature`` makes the preconditioner again: one number, or the second derivative of the loss for each record;
    empty keeps it.
    """

    step: float
    slopes: Vector
    curvature: Vector

    def answer(self, facts: PartyFacts, training: Training) -> Answered[LbfgsProducts]:
        worker = training.open(LbfgsWorker, self)
        facts.one_a_row(self, "slopes")
        if len(self.curvature) > 1:
            facts.one_a_row(self, "curvature")
        yield None
        return self.on(worker)

    def on(self, worker: LbfgsWorker) -> LbfgsProducts:
        return LbfgsProducts(worker.gradient(self.step, self.slopes, self.curvature))


class LbfgsDirection(Request, code=33):
    """Coefficients of the next direction: those of the steps, then those of the gradient differences."""

    coefficients: Vector

    def answer(self, facts: PartyFacts, training: Training) -> Answered[LbfgsScores]:
        worker = training.open(LbfgsWorker, self)
        yield None
        return self.on(worker)

    def on(self, worker: LbfgsWorker) -> LbfgsScores:
        return LbfgsScores(*worker.direction(self.coefficients))


class LbfgsMove(Request, code=35):
    """Move by ``step`` along the last direction, and end."""

    step: float

    def answer(self, facts: PartyFacts, training: Training) -> Answered[Done]:
        worker = training.open(LbfgsWorker, self)
        yield None
        return self.on(worker)

    def on(self, worker: LbfgsWorker) -> Done:
        worker.move(self.step)
        return Done()
