"""What every conversation with a party has: facts, what may be spent, a training opened and kept, farewell."""

import math

from sottovoce._version import RELEASE
from sottovoce.vertical.wire import Count, Message

__all__ = [
    "Afford", "Close", "Describe", "Description", "Equipped", "Keep", "Prepare",
]  # fmt: skip


class Describe(Message, code=14):
    """Ask for the public facts of a party; with ``engines`` 1 for those of secure computation that it may use, too."""

    engines: Count = 0


class Description(Message, code=2, unbounded=("data_norm", "data_bound")):
    """Sizes of the party's table, and what it declares publicly of its rows.

    ``data_norm`` bounds the length of a row, ``data_bound`` the size of an entry; ``inf`` when the party gave none.
    ``nonnegative`` is 0 or 1. ``other_rows`` are those that an alignment may take people from and the present one
    did not, and ``version`` is that of its software (`sottovoce._version.RELEASE`).
    """

    n_rows: Count
    n_features: Count
    data_norm: float
    nonnegative: Count
    data_bound: float = math.inf
    other_rows: Count = 0
    version: Count = RELEASE


class Equipped(Description, Message, code=13, unbounded=("data_norm", "data_bound")):
    """A description, and the engines of secure computation that the party may use, by name and version, as JSON."""

    engines: str = "{}"


class Prepare(Message, code=12):
    """Open a training: its L2 penalty for the *sum* of losses, 1 for an intercept here."""

    l2: float
    intercept: int


class Keep(Message, code=6):
    """Keep the present coefficients under the name ``model``."""

    model: str


class Afford(Message, code=39):
    """Ask whether the party's budget covers an event (JSON) about its columns; nothing is spent yet."""

    event: str


class Close(Message, code=11):
    """End the session: free what the party holds for it."""
