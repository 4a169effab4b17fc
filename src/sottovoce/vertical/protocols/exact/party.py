"""The party's side of training without noise. Whoever asks learns the columns, so no budget covers it."""

from sottovoce.vertical.protocol import Answer, Desk, PartyFacts, Step, Training, Unprotected
from sottovoce.vertical.protocols.exact.lbfgs import LbfgsWorker
from sottovoce.vertical.protocols.exact.messages import (
    LbfgsDirection,
    LbfgsGradient,
    LbfgsMove,
    LbfgsProducts,
    LbfgsScores,
    LbfgsStart,
)
from sottovoce.vertical.protocols.exact.subproblem import Subproblem
from sottovoce.vertical.wire import Done

__all__ = [
    "EXACT", "LbfgsDirectionHandler", "LbfgsGradientHandler", "LbfgsMoveHandler", "LbfgsStartHandler",
]  # fmt: skip

EXACT = Answer("exact", "train without noise, and show slopes: whoever asks learns the columns")


class LbfgsStartHandler(Unprotected[LbfgsStart]):
    """L-BFGS's party."""

    request = LbfgsStart

    def run(self, desk: Desk, request: LbfgsStart) -> Done:
        training = desk.training
        problem = Subproblem(desk.columns(intercept=training.intercept), training.l2)
        training.worker = LbfgsWorker(problem, request)
        return Done()


class LbfgsGradientHandler(Step[LbfgsGradient]):
    """A move and the gradient there."""

    request, worker, by_row = LbfgsGradient, LbfgsWorker, "slopes"

    def plan(self, facts: PartyFacts, training: Training, request: LbfgsGradient) -> None:
        super().plan(facts, training, request)
        if len(request.curvature) > 1:
            facts.one_a_row(request, "curvature")

    def run(self, desk: Desk, request: LbfgsGradient) -> LbfgsProducts:
        return desk.training.open(LbfgsWorker, request).gradient(request)


class LbfgsDirectionHandler(Step[LbfgsDirection]):
    """The next direction."""

    request, worker = LbfgsDirection, LbfgsWorker

    def run(self, desk: Desk, request: LbfgsDirection) -> LbfgsScores:
        return desk.training.open(LbfgsWorker, request).direction(request)


class LbfgsMoveHandler(Step[LbfgsMove]):
    """The last step."""

    request, worker = LbfgsMove, LbfgsWorker

    def run(self, desk: Desk, request: LbfgsMove) -> Done:
        return desk.training.open(LbfgsWorker, request).move(request)
