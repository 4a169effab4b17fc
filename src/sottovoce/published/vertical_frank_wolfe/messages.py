"""Messages of Frank-Wolfe with the published noise."""

from sottovoce.vertical.wire import Count, Message, Vector

__all__ = [
    "PublishedBallReply",
    "PublishedBallStart",
    "PublishedBallStep",
]


class PublishedBallStart(Message, code=72):
    """Open steps of Frank-Wolfe with the published noise.

    ``clip`` bounds a record's slope, ``selection`` is the scale of the Laplace noise on a mean of slopes times entries,
    ``column_noise`` the noise multiplier of a shared column. Of ``sampled`` columns, drawn again for each step, one is
    chosen. ``sketch_rows`` is 0 for raw columns.
    """

    loss: str
    labels: Vector
    clip: float
    selection: float
    column_noise: float
    n_steps: Count
    sampled: Count
    intercept: Count
    sketch_rows: Count
    sketch_seed: Count


class PublishedBallStep(Message, code=73):
    """What the released columns predict: one number a record, or a row of the sketch; take one step."""

    predicted: Vector


class PublishedBallReply(Message, code=74):
    """Twice the column, plus 1 for a step down; the noisy column in whole ticks; pure epsilon and noise multiplier."""

    place: Count
    ticks: bytes
    selection_epsilon: float
    column_noise: float
