"""Crashes and crowds: what a ledger loses and overspends when processes are killed, and when many charge at once.

    python -m benchmarks.ledger.crashes [--quick] [--kills 1000] [--processes 50] [--longest 0.1] [--only sqlite]

For each database (a file of SQLite; a real PostgreSQL server, started for this and stopped):

1. kills: a process charges and commits in a loop and is killed (signal 9) at a random moment; again and again on the
   same ledger. Before each answer is acted on the process writes it to a journal. A charge that a process was told of
   and that the ledger does not hold is lost.
2. crowd: many processes charge one small budget at once until all are refused. More charges than fit would overspend.

Both numbers must be 0. Charges per second are those of the crowd (a charge is two entries, reserve and commit, each on
disk before the answer).
"""

import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.driver import benchmark, option
from sottovoce.ledger import Ledger
from sottovoce.privacy.filters import PrivacyFilter, Release
from support.ledger import EVENT, Worker, faults, kill_at_random, wait_until_ready
from support.postgres import running_server, why_not

CROWD = {"epsilon": 4.0, "delta": 1e-6, "composition": "gaussian"}


@contextmanager
def database(kind: str, folder: Path) -> Iterator[str]:
    """Yield the address of an empty database."""
    if kind == "sqlite":
        yield f"sqlite:///{folder / 'budget.db'}"
        return
    with running_server() as server:
        yield server.make_database("budget")


def most_that_fit() -> int:
    """Return how many charges the budget of the crowd holds."""
    rule, count = PrivacyFilter(**CROWD), 0
    while rule.admits([Release(EVENT, 1e-6)] * (count + 1)):
        count += 1
    return count


def kills(ledger: Ledger, folder: Path, count: int, longest: float) -> dict[str, object]:
    ledger.create("kills", epsilon=1e5, delta=1e-6, composition="gaussian")
    moments = random.Random(0)
    journals = [folder / f"kill{trial}" for trial in range(count)]
    begun = time.perf_counter()
    for journal in journals:
        kill_at_random(ledger, "kills", journal, moments, longest)
    seconds = time.perf_counter() - begun
    lost, overspent, history = faults(ledger, "kills", journals)
    return {
        "kills": count, "charges": len(history), "left reserved": sum(record.state == "reserved" for record in history),
        "lost": lost, "overspends": overspent, "seconds": seconds,
    }  # fmt: skip


def crowd(ledger: Ledger, folder: Path, count: int) -> dict[str, object]:
    """Let many processes charge at once until everybody is refused."""
    ledger.create("crowd", **CROWD)
    journals = [folder / f"crowd{place}" for place in range(count)]
    processes = [Worker(ledger, "crowd", 10**6, journal, folder / "go") for journal in journals]
    for journal in journals:
        wait_until_ready(journal)
    begun = time.perf_counter()
    (folder / "go").touch()
    codes = [process.wait() for process in processes]
    seconds = time.perf_counter() - begun
    assert codes == [0] * count
    lost, overspent, history = faults(ledger, "crowd", journals)
    return {
        "processes": count, "charges": len(history), "charges that fit": most_that_fit(),
        "processes that were served": len({record.who for record in history}), "lost": lost,
        "overspends": overspent + max(0, len(history) - most_that_fit()), "charges per second": len(history) / seconds,
    }  # fmt: skip


@benchmark(
    kills=(1000, 20), processes=(50, 8), longest=option(0.3, help="seconds that a process lives at most"),
    only=option(choices=["sqlite", "postgresql"]),
)  # fmt: skip
def main(run) -> None:
    rows = []
    for kind in [run.only] if run.only else ["sqlite", "postgresql"]:
        if kind == "postgresql" and why_not() is not None:
            print(f"PostgreSQL left out: {why_not()}")
            continue
        with tempfile.TemporaryDirectory() as name, database(kind, Path(name)) as url:
            ledger = Ledger(url, timeout=300.0)
            for trial, found in (
                ("kills", kills(ledger, Path(name), run.kills, run.longest)),
                ("crowd", crowd(ledger, Path(name), run.processes)),
            ):
                overspends, lost = found.pop("overspends"), found.pop("lost")
                words = (f"{key} {one:.1f}" if isinstance(one, float) else f"{key} {one}" for key, one in found.items())
                rows.append((kind, trial, overspends, lost, ", ".join(words)))
    run.table("Ledger under crashes and crowds", ("database", "trial", "overspends", "lost", "figures"), rows)
