"""Processes that charge a ledger until the budget is spent or they are killed: for the tests and the benchmark.

They are forked from a small server that has imported everything, so that a hundred of them start in a moment.
"""

import multiprocessing
import os
import random
import time
from collections.abc import Iterable
from multiprocessing.process import BaseProcess
from pathlib import Path

from sottovoce.exceptions import BudgetError
from sottovoce.ledger import ChargeRecord, Ledger
from sottovoce.privacy.events import GaussianEvent
from sottovoce.privacy.filters import Release

NOISE = 25.0
EVENT = GaussianEvent(NOISE)


PRELOADED = ["sottovoce.ledger.ledger", "sqlalchemy.dialects.sqlite.pysqlite", "sqlalchemy.dialects.postgresql.psycopg"]


def work(ledger: Ledger, dataset: str, count: int, journal: Path, go: Path | None) -> None:
    """Charge and commit once ``go`` exists; one line in the journal for each answer of the ledger, written after it."""
    ledger.who = f"process {os.getpid()}"
    with journal.open("a") as file:

        def note(text: str) -> None:
            file.write(f"{text}\n")
            file.flush()

        note("ready")
        while go is not None and not go.exists():
            time.sleep(0.01)
        for _ in range(count):
            try:
                charge = ledger.reserve(dataset, EVENT, delta=1e-6, adjacency="zero-out")
            except BudgetError:
                note("refused")
                break
            note(f"reserved {charge.charge}")
            ledger.commit(charge, EVENT)
            note(f"committed {charge.charge}")
        note("done")


def start(ledger: Ledger, dataset: str, count: int, journal: Path, go: Path | None = None) -> BaseProcess:
    """Start one process."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*PRELOADED, "psycopg"])
    process = context.Process(target=work, args=(ledger, dataset, count, journal, go), daemon=True)
    process.start()
    return process


def wait_until_ready(journal: Path) -> None:
    """Wait until a process has begun."""
    deadline = time.monotonic() + 120
    while not (journal.exists() and journal.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.002)


def kill_at_random(ledger: Ledger, dataset: str, journal: Path, moments: random.Random, longest: float) -> None:
    """Start a process and kill it (signal 9) at a random moment."""
    process = start(ledger, dataset, 10**6, journal)
    wait_until_ready(journal)
    time.sleep(moments.uniform(0.0, longest))
    process.kill()
    process.join()


def answers(journals: Iterable[Path]) -> dict[str, set[str]]:
    """Return the charges that processes had an answer for, by what they were told."""
    told: dict[str, set[str]] = {"reserved": set(), "committed": set()}
    for journal in journals:
        for line in journal.read_text().splitlines() if journal.exists() else []:
            kind, _, charge = line.partition(" ")
            if kind in told:
                told[kind].add(charge)
    return told


def faults(ledger: Ledger, dataset: str, journals: Iterable[Path]) -> tuple[int, int, list[ChargeRecord]]:
    """Return the numbers of lost charges and of overspends (a broken chain counts as one), and the history."""
    history = ledger.history(dataset)
    states = {record.charge: record.state for record in history}
    told = answers(journals)
    lost = len(told["reserved"] - set(states))
    lost += sum(states.get(charge) != "committed" for charge in told["committed"])
    rule = ledger.datasets()[dataset].filter
    overspent = int(not rule.admits(Release(record.event, record.delta) for record in history))
    return lost, overspent + len(ledger.verify().problems), history
