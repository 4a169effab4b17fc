"""Messages of ADMM on clipped, noisy scores."""

from sottovoce.vertical.wire import Message, Vector

__all__ = [
    "NoisyScores",
    "NoisyStart",
    "NoisyStep",
]


class NoisyStart(Message, code=44):
    """Bounds of noisy ADMM (scores, coefficients, targets), for rows of norm at most 1; the budget of each release."""

    rho: float
    score_bound: float
    norm_bound: float
    target_bound: float
    mu: float


class NoisyStep(Message, code=45):
    """One number a record, from released values only; ``release`` 0 updates without sending, once, as the last step."""

    shift: Vector
    release: int


class NoisyScores(Message, code=46):
    """Clipped D x plus noise, one number a record (none on the last update), and the event."""

    scores: Vector
    event: str
