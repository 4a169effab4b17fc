"""What announces the published noise to a party."""

from sottovoce.vertical.wire import Message

__all__ = [
    "PublishedStart",
]


class PublishedStart(Message, code=47):
    """Add the published noise to the replies of ADMM: its claimed epsilon and delta a round, and its bounds."""

    epsilon: float
    delta: float
    norm_bound: float
    n_parties: int
