"""Messages of a training without noise, by L-BFGS."""

from sottovoce.vertical.wire import Message, Vector

__all__ = [
    "LbfgsDirection", "LbfgsGradient", "LbfgsMove", "LbfgsProducts", "LbfgsScores", "LbfgsStart",
]  # fmt: skip


class LbfgsStart(Message, code=30):
    """Number of pairs to remember; 1 to precondition with the party's own second moments."""

    memory: int
    precondition: int


class LbfgsGradient(Message, code=31):
    """Move by ``step`` along the last direction; then the derivative of the loss, one number a record.

    ``curvature`` makes the preconditioner again: one number, or the second derivative of the loss for each record;
    empty keeps it.
    """

    step: float
    slopes: Vector
    curvature: Vector


class LbfgsProducts(Message, code=32):
    """Inner products within the party, in the order of `sottovoce.vertical.protocols.exact.lbfgs.ProductTable.read`."""

    products: Vector


class LbfgsDirection(Message, code=33):
    """Coefficients of the next direction: those of the steps, then those of the gradient differences."""

    coefficients: Vector


class LbfgsScores(Message, code=34):
    """D p for the new direction p; x'Rp, p'Rp and x'Rx / 2 for the penalty R."""

    scores: Vector
    slope: float
    square: float
    penalty: float


class LbfgsMove(Message, code=35):
    """Move by ``step`` along the last direction, and end."""

    step: float
