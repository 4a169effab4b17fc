"""Private Frank-Wolfe on the l1 ball."""

from sottovoce.vertical.protocol import Protocol
from sottovoce.vertical.protocols.exact.party import EXACT
from sottovoce.vertical.protocols.frank_wolfe.party import (
    FOREIGN_WEIGHTS,
    FRANK_WOLFE,
    BallSelectHandler,
    BallStartHandler,
    BallStepHandler,
    BallVertexHandler,
    KeepWeightsHandler,
    ShareColumnHandler,
    TrainOnBallHandler,
)

__all__ = ["PROTOCOLS"]

PROTOCOLS = (
    Protocol(
        FRANK_WOLFE,
        handlers=(
            TrainOnBallHandler,
            BallStartHandler,
            BallSelectHandler,
            BallStepHandler,
            ShareColumnHandler,
            KeepWeightsHandler,
        ),
    ),
    Protocol(EXACT, handlers=(BallVertexHandler,)),
    Protocol(FOREIGN_WEIGHTS, handlers=(KeepWeightsHandler,)),
)
