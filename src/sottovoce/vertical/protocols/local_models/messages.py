"""Labels that were released or are public, and what a training on them cost."""

from sottovoce.vertical.wire import Message, Vector

__all__ = [
    "TrainOnLabels",
    "Trained",
]


class TrainOnLabels(Message, code=40):
    """Train a private model of the party's own columns on labels that are not secret.

    ``flip_probability`` is that of the randomised response behind labels of -1 and +1 (0 for public ones),
    ``label_bound`` a bound on labels that are other numbers (0 for none), ``mu`` the mean shift of the equivalent
    Gaussian release that the training may spend.
    """

    labels: Vector
    loss: str
    flip_probability: float
    label_bound: float
    alpha: float
    mu: float


class Trained(Message, code=41):
    """The event that was spent, as JSON."""

    event: str
