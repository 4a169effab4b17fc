"""Columns that are released once, with noise."""

from sottovoce.vertical.wire import Message, Vector

__all__ = [
    "Features",
    "SendFeatures",
]


class SendFeatures(Message, code=42):
    """Release columns and their second moments with noise, at a cost of at most ``mu``."""

    mu: float


class Features(Message, code=43):
    """Noisy columns (row by row), noisy Gram matrix, the standard deviations of the noise in both, and the event.

    In units of the party's bound on its rows, and of its square.
    """

    rows: Vector
    gram: Vector
    rows_noise_std: float
    gram_noise_std: float
    event: str
