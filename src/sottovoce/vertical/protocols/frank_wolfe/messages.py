"""Messages of Frank-Wolfe on the l1 ball."""

from sottovoce.vertical.wire import Count, Message, Vector

__all__ = [
    "BallChoice", "BallSelect", "BallStart", "BallStep", "BallVertex", "Chosen", "KeepWeights", "ShareColumn",
    "SharedColumn", "TrainOnBall",
]  # fmt: skip


class TrainOnBall(Message, code=60):
    """Take ``n_steps`` private steps of Frank-Wolfe alone, and keep the model under the name ``model``.

    Labels are in multiples of ``unit``; ``vertex`` is the size of a vertex of the party's ball
    for entries within [-1, 1]; ``clip`` bounds a record's slope;
    ``selection`` is the bounded range of each choice.
    """

    loss: str
    labels: Vector
    vertex: float
    clip: float
    n_steps: Count
    selection: float
    intercept: Count
    unit: float
    model: str


class Chosen(Message, code=61):
    """Signed columns in order, as one number (see its ``places``); the range of each choice."""

    places: bytes
    selection: float


class BallStart(Message, code=62):
    """Open steps of Frank-Wolfe that are taken together with other parties.

    ``score_noise`` and ``column_noise`` are noise multipliers; at most ``n_columns`` columns will be asked for. Columns
    are not sketched any more: ``sketch`` is empty, and what belongs to it 0.
    """

    loss: str
    labels: Vector
    vertex: float
    clip: float
    n_steps: Count
    selection: float
    intercept: Count
    score_noise: float
    column_noise: float
    n_columns: Count
    sketch: str
    sketch_rows: Count
    sketch_seed: Count


class BallSelect(Message, code=63):
    """What the released columns of all other parties predict, one number a record; choose a signed column."""

    others: Vector


class BallChoice(Message, code=64):
    """Twice the column, plus 1 for a step down; its score (0 where none was asked for)."""

    place: Count
    score: float


class BallStep(Message, code=65):
    """Step along ``place``, as chosen before, by one step of the plan."""

    place: Count


class ShareColumn(Message, code=66):
    """Release a column that was chosen, with noise."""

    column: Count


class SharedColumn(Message, code=67):
    """Whole ticks, of as many bytes each as the plan says, and the noise multiplier."""

    ticks: bytes
    noise_multiplier: float


class BallVertex(Message, code=68):
    """Derivative of the loss, one number a record: ask for the steepest signed column, without noise.

    ``intercept`` is the entry of a column behind the last one, which counts too; 0 for none.
    """

    slopes: Vector
    intercept: float


class KeepWeights(Message, code=71):
    """Keep a model of these columns' weights (the last column may be that of ones) under the name ``model``."""

    model: str
    columns: Vector
    weights: Vector
