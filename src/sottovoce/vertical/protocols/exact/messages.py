"""Messages of a training without noise, by ADMM sharing or L-BFGS."""

from sottovoce.vertical.wire import Message, Vector

__all__ = [
    "AdmmReply",
    "AdmmStart",
    "AdmmStep",
    "LbfgsDirection",
    "LbfgsGradient",
    "LbfgsMove",
    "LbfgsProducts",
    "LbfgsScores",
    "LbfgsStart",
    "Spectrum",
    "SpectrumReply",
    "Structure",
]


class Spectrum(Message, code=9):
    """Ask for the extreme eigenvalues of the Gram matrix."""


class SpectrumReply(Message, code=10):
    """Smallest and largest eigenvalue of D'D."""

    smallest: float
    largest: float


class Structure(Message, code=23, unbounded=("radius",)):
    """Tie coefficients of the training that was opened: sizes of groups of columns, and a ball that they stay in.

    With groups the L1 penalty is one on the norms of the groups, each times the root of its size; empty for none. The
    ball's norm is ``"l1"``, ``"l2"`` or empty for none, its radius then infinite.
    """

    groups: Vector
    ball: str
    radius: float


class AdmmStart(Message, code=20):
    """Penalty parameter rho, proximal weight tau and relaxation of the updates to come; the sharing form where set."""

    rho: float
    proximal: float
    relaxation: float
    sharing: int


class AdmmStep(Message, code=21):
    """One number a record: what the coordinator's residual and dual variable come down to for this update."""

    shift: Vector


class AdmmReply(Message, code=22):
    """D x, the party's term of the Lyapunov function before the update, and its penalty after it."""

    scores: Vector
    stationarity: float
    penalty: float


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
