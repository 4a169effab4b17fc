"""Processes that charge one ledger at once, and processes that are killed at any moment: nothing is lost or overspent.

The full trial (1,000 kills, 50 processes) is ``benchmarks/ledger/crashes.py``.
"""

import random

import pytest

from sottovoce.ledger import Ledger
from sottovoce.privacy.filters import PrivacyFilter, Release
from support.ledger import EVENT, Worker, faults, kill_at_random, wait_until_ready

BUDGET = {"epsilon": 1.0, "delta": 1e-6, "composition": "gaussian"}


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger(request, tmp_path):
    url = (
        f"sqlite:///{tmp_path / 'budget.db'}" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    )
    made = Ledger(url)
    made.create("people", **BUDGET)
    made.create("many", **{**BUDGET, "epsilon": 1e3})
    return made


def test_processes_at_once_never_overspend(ledger, tmp_path):
    journals = [tmp_path / f"journal{place}" for place in range(8)]
    processes = [Worker(ledger, "people", 1000, journal, tmp_path / "go") for journal in journals]
    for journal in journals:
        wait_until_ready(journal)
    (tmp_path / "go").touch()
    assert [process.wait() for process in processes] == [0] * 8
    assert all("refused" in journal.read_text() for journal in journals)
    lost, overspent, history = faults(ledger, "people", journals)
    assert (lost, overspent) == (0, 0)
    rule = PrivacyFilter(**BUDGET)
    most = next(n for n in range(1, 1000) if not rule.admits([Release(EVENT, 1e-6)] * n)) - 1
    assert len(history) == most  # and the whole budget was used
    assert len({record.who for record in history}) > 1


def test_killed_processes_lose_nothing(ledger, tmp_path):
    moments = random.Random(0)
    journals = [tmp_path / f"kill{trial}" for trial in range(10)]
    for journal in journals:
        kill_at_random(ledger, "many", journal, moments, 0.15)
    lost, overspent, history = faults(ledger, "many", journals)
    assert (lost, overspent) == (0, 0)
    assert len(history) > 0
    ledger.reserve("many", EVENT, delta=1e-6, adjacency="zero-out")  # no lock was left behind
