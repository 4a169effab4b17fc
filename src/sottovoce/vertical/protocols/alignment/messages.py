"""Messages by which a party takes the people whom all parties hold, in their common order."""

from sottovoce.vertical.wire import Message

__all__ = ["AlignAgain", "AlignRespond", "AlignResponse", "AlignSet", "AlignSetup", "AlignTo", "AllRows"]


class AlignSetup(Message, code=80):
    """Begin a private set intersection, in which the party is the server; ask for its set as encrypted points."""


class AlignSet(Message, code=81):
    """The party's identifiers as points of the curve under a key that it drew for this, sorted."""

    points: bytes


class AlignRespond(Message, code=82):
    """The coordinator's points; ask for the same under the party's key too, once for each setup."""

    points: bytes


class AlignResponse(Message, code=83):
    """The points of the request under the party's key, in the order of the request."""

    points: bytes


class AlignTo(Message, code=84):
    """Announce the people in common (a JSON list of texts, sorted): the party has their rows only, in that order."""

    people: bytes


class AlignAgain(Message, code=85):
    """Take the people of an earlier `AlignTo`, by the SHA-256 of its list, as the party's table has them now."""

    digest: bytes


class AllRows(Message, code=86):
    """Let the party have all its rows again, as they are: a run without an alignment begins with it."""
