"""A party of twenty people with a journal, and an account on disk: what copies, kills and full disks are tried on."""

import numpy as np

from sottovoce.ledger import Ledger
from sottovoce.vertical import Party
from sottovoce.vertical.mechanisms import PRIVATE
from sottovoce.vertical.party.budget import LedgerBudget
from sottovoce.vertical.party.journal import Journal
from sottovoce.vertical.wire import Frame
from support.noisy_rounds import ROUNDS

N = 20
TABLE = np.random.default_rng(3).uniform(-0.5, 0.5, (N, 2))
NAME = bytes(range(16))


def frames(*messages, name=NAME):
    """Return requests of one session."""
    return [Frame(name, message.encode()).encode() for message in messages]


def shift(value):
    """Return what a round asks: the same of every person."""
    return np.full(N, value)


def new_ledger(folder):
    """Return a ledger that gives each answer of these tests what it costs."""
    ledger = Ledger(f"sqlite:///{folder / 'ledger.db'}")
    ledger.create("people", epsilon=3.0, delta=1e-6, adjacency="replace-one", allow_nonprivate=True)
    return ledger


def clinic(folder, ledger=None, *, table=TABLE, coordinator="insurer", name="clinic", more=(), **options):
    """Start the party; its journal is in a folder of its own, and ``more`` are forms for study that it answers too."""
    budget = ledger and LedgerBudget(ledger.url, "people", name=name, coordinator=coordinator)
    answers = None if budget is None else PRIVATE | {"noisy-rounds", *(each.name for each in more)}
    return Party(
        table, name=name, data_norm=1.0, data_bound=1.0, budget=budget, journal=Journal(folder / "clinic"),
        answers=answers, protocols=[ROUNDS, *more], **options,
    )  # fmt: skip
