"""Ledger and collector open databases by one rule: on the disk before it is acknowledged, for the owner alone."""

import os
from pathlib import Path

import psycopg
import pytest

from sottovoce.exceptions import LedgerError, StorageError
from sottovoce.ledger import Ledger
from sottovoce.local.collector.storage import ReportStore
from support.collector import PROTOCOL
from support.postgres import running_server, why_not

BUDGET = {"epsilon": 1.0, "delta": 1e-6}


def make_ledger(address):
    Ledger(address).create("people", **BUDGET)


def make_store(address):
    ReportStore(address, PROTOCOL, create=True).close()


both = pytest.mark.parametrize("make", [make_ledger, make_store])


@both
@pytest.mark.parametrize("mask", [0o000, 0o022])
def test_a_file_is_made_for_its_owner_alone(make, mask, tmp_path):
    before = os.umask(mask)
    try:
        make(f"sqlite:///{tmp_path / 'made.db'}")
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


@both
def test_who_shares_a_file_is_the_owners_decision(make, tmp_path):
    make(f"sqlite:///{tmp_path / 'made.db'}")
    (tmp_path / "made.db").chmod(0o660)
    make_again = make_store if make is make_store else lambda address: Ledger(address).create("others", **BUDGET)
    make_again(f"sqlite:///{tmp_path / 'made.db'}")
    assert (tmp_path / "made.db").stat().st_mode & 0o777 == 0o660


@both
def test_a_file_that_cannot_be_made_is_named(make, tmp_path):
    if not Path("/proc").is_dir():
        pytest.skip("needs a folder in which nobody can make a file")
    with pytest.raises((LedgerError, StorageError), match=r"/proc/made\.db: cannot make the file"):
        make("sqlite:////proc/made.db")


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_a_server_that_would_lose_what_it_acknowledges_is_refused():
    with running_server(fsync="off") as server:
        address = server.make_database("careless")
        for make, error in ((make_ledger, LedgerError), (make_store, StorageError)):
            with pytest.raises(error, match=r"runs with fsync = off .* Set fsync = on"):
                make(address)
        with psycopg.connect(address) as connection:
            assert connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (0,)


def test_a_ledger_commits_to_the_disk_also_where_the_server_is_set_to_answer_first(postgres_url):
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {connection.info.dbname} SET synchronous_commit = off")
        connection.execute(f"ALTER DATABASE {connection.info.dbname} SET default_transaction_isolation = serializable")
    make_ledger(postgres_url)
    with Ledger(postgres_url)._store._writer() as connection:
        assert connection.exec_driver_sql("SHOW synchronous_commit").scalar_one() == "on"
        assert connection.exec_driver_sql("SHOW transaction_isolation").scalar_one() == "read committed"
    with ReportStore(postgres_url, PROTOCOL, create=True) as store, store._writer.begin() as connection:
        assert connection.exec_driver_sql("SHOW transaction_isolation").scalar_one() == "read committed"


def test_a_ledger_in_a_file_commits_to_the_disk(tmp_path):
    make_ledger(f"sqlite:///{tmp_path / 'budget.db'}")
    with Ledger(f"sqlite:///{tmp_path / 'budget.db'}")._store._writer() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar_one() == 3  # EXTRA
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar_one() == "delete"
