"""Processes that charge a ledger until they are killed or its budget is spent, and a clock: for tests and benchmark."""

import os
import random
import signal
import time
import warnings
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

from sottovoce.exceptions import BudgetError
from sottovoce.ledger import ChargeRecord, Ledger
from sottovoce.privacy.events import GaussianEvent
from sottovoce.privacy.filters import Release

NOISE = 25.0
EVENT = GaussianEvent(NOISE)


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


class Worker:
    """A fork of this process that charges; a hundred of them start in a moment."""

    def __init__(self, ledger: Ledger, dataset: str, count: int, journal: Path, go: Path | None = None) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside a test runner's threads
            self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                work(ledger, dataset, count, journal, go)
                status = 0
            finally:
                os._exit(status)

    def wait(self) -> int:
        """Return the exit code, negative for a signal."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def kill(self) -> None:
        """End it as a crash would."""
        os.kill(self.pid, signal.SIGKILL)
        assert self.wait() == -signal.SIGKILL


def wait_until_ready(journal: Path) -> None:
    """Wait until a process has begun."""
    deadline = time.monotonic() + 120
    while not (journal.exists() and journal.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.002)


def kill_at_random(ledger: Ledger, dataset: str, journal: Path, moments: random.Random, longest: float) -> None:
    """Start a process and kill it (signal 9) at a random moment."""
    worker = Worker(ledger, dataset, 10**6, journal)
    wait_until_ready(journal)
    time.sleep(moments.uniform(0.0, longest))
    worker.kill()


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


class Clock:
    """A clock that goes on by itself, in place of that of the ledger."""

    def __init__(self, monkeypatch: Any, start: str) -> None:
        self.time = datetime.fromisoformat(start).replace(tzinfo=UTC)
        monkeypatch.setattr("sottovoce.ledger.ledger.datetime", self)

    def now(self, zone: tzinfo) -> datetime:
        """Return the time, a microsecond later than the last one."""
        self.time += timedelta(microseconds=1)
        return self.time.astimezone(zone)
