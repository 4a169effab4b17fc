"""Messages about people who are scored, or whose columns are shown as they are."""

from sottovoce.vertical.wire import Count, Message, Vector

__all__ = [
    "Score", "Scores", "ShowColumn", "ShownColumn",
]  # fmt: skip


class Score(Message, code=7):
    """Ask for the party's part of the prediction of the model ``model`` for each of its rows."""

    model: str


class Scores(Message, code=8):
    """One number a row."""

    scores: Vector


class ShowColumn(Message, code=69):
    """Ask for a column without noise."""

    column: Count


class ShownColumn(Message, code=70):
    """The entries of a column."""

    entries: Vector
