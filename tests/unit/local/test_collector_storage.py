"""The storage, on SQLite and on a real PostgreSQL: one report a token, counted right, streamed whole."""

import sqlite3
import threading

import pytest

from sottovoce.exceptions import ParameterError, StorageError
from sottovoce.local import Protocol
from sottovoce.local.collector.answers import Reason
from sottovoce.local.collector.storage import ReportStore, Row
from support.collector import PROTOCOL

KINDS = ["sqlite", "postgresql"]
OTHER = Protocol(epsilon=1.0, n_features=4)


@pytest.fixture(params=KINDS)
def database(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'reports.db'}"
    return request.getfixturevalue("postgres_url")


@pytest.fixture
def store(database):
    with ReportStore(database, PROTOCOL, create=True) as opened:
        yield opened


def row(number, content=b"r"):
    return Row(number.to_bytes(32, "big"), content * 22)


def everything(store):
    text = b"".join(store.reports())
    return [text[at : at + 22] for at in range(0, len(text), 22)]


def test_one_report_a_token(store):
    assert (store.insert([]), everything(store)) == ([], [])
    assert store.insert([row(1), row(2)]) == [None] * 2
    assert store.insert([row(1), row(2, b"x"), row(3)]) == [None, Reason.TOKEN_USED, None]
    assert store.count() == 3
    assert everything(store) == [b"r" * 22] * 3


def test_one_report_a_token_within_a_group(store):
    outcomes = store.insert([row(5, b"a"), row(5, b"b"), row(5, b"a"), row(4)])
    assert outcomes == [None, Reason.TOKEN_USED, None, None]
    assert store.count() == 2
    assert everything(store) == [b"r" * 22, b"a" * 22]


def test_the_database_itself_refuses_a_second_report(store, database):
    store.insert([row(1)])
    statement = "INSERT INTO collector_reports (protocol, token_hash, report) SELECT protocol, token_hash, "
    if database.startswith("sqlite"):
        connection = sqlite3.connect(database.removeprefix("sqlite:///"))
        with pytest.raises(sqlite3.IntegrityError):
            connection.execute(statement + "zeroblob(22) FROM collector_reports")
        connection.close()
    else:
        import psycopg

        with psycopg.connect(database) as connection, pytest.raises(psycopg.errors.UniqueViolation):
            connection.execute(statement + "'x'::bytea FROM collector_reports")


def test_protocols_do_not_mix(store, database):
    store.insert([row(1)])
    with ReportStore(database, OTHER, create=True) as other:
        assert other.insert([row(1, b"o")]) == [None]
        assert everything(other) == [b"o" * 22]
    assert everything(store) == [b"r" * 22]


def test_refusals_add_up(store):
    store.add_refusals({})
    store.add_refusals({"malformed": 2})
    store.add_refusals({"malformed": 3, "busy": 1})
    assert store.refusals() == {"malformed": 5, "busy": 1}


def test_many_reports_come_in_the_order_of_the_hashes(store):
    numbers = [(n * 7_919) % 11_000 for n in range(11_000)]
    store.insert([Row(n.to_bytes(32, "big"), n.to_bytes(22, "big")) for n in numbers])
    assert [int.from_bytes(text, "big") for text in everything(store)] == sorted(numbers)
    again = store.insert([Row(n.to_bytes(32, "big"), n.to_bytes(22, "big")) for n in numbers])
    assert again == [None] * 11_000
    assert store.count() == 11_000


def test_two_collectors_on_one_database(store, database):
    """Both insert the same tokens, in opposite order and with different reports: each token ends with one of them."""
    rounds, size = 5, 600
    outcomes = {"a": [], "b": []}
    both = threading.Barrier(2, timeout=60)

    def insert(name, opened):
        for k in range(rounds):
            both.wait()
            rows = [row(k * size + place, name.encode()) for place in range(size)]
            outcomes[name] += opened.insert(rows if name == "a" else rows[::-1])[:: 1 if name == "a" else -1]

    with ReportStore(database, PROTOCOL) as second:
        threads = [threading.Thread(target=insert, args=args) for args in (("a", store), ("b", second))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(outcomes["a"]) == len(outcomes["b"]) == rounds * size
    kept = everything(store)
    for a, b, text in zip(outcomes["a"], outcomes["b"], kept, strict=True):
        assert {a, b} == {None, Reason.TOKEN_USED}
        assert text == (b"a" if a is None else b"b") * 22


def test_two_collectors_start_at_once(database):
    errors = []

    def start():
        try:
            ReportStore(database, PROTOCOL, create=True).close()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def test_another_version_is_refused(store, database):
    from sqlalchemy import text

    with store._writer.begin() as connection:
        connection.execute(text("UPDATE collector_schema SET version = 2"))
    for create in (False, True):
        with pytest.raises(StorageError, match="version 2, this sottovoce reads version 1"):
            ReportStore(database, PROTOCOL, create=create)


def test_a_protocol_without_reports_is_refused(store, database):
    with pytest.raises(StorageError, match=f"no reports of protocol {OTHER.id.hex()}; it has those of"):
        ReportStore(database, OTHER)


def test_a_database_of_something_else_is_refused(tmp_path):
    path = tmp_path / "other.db"
    sqlite3.connect(path).close()
    path.touch()
    with pytest.raises(StorageError, match=r"^database .*: this is not a database of a collector"):
        ReportStore(str(path), PROTOCOL)
    path.write_text("this is not a database, this is a text that somebody wrote" * 20)
    with pytest.raises(StorageError, match="file is not a database"):
        ReportStore(str(path), PROTOCOL, create=True)


def test_a_missing_file_is_not_made_by_reading(tmp_path):
    with pytest.raises(StorageError, match=r"^database .*: no such file"):
        ReportStore(str(tmp_path / "missing.db"), PROTOCOL)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "database",
    ["sqlite://", "sqlite:///:memory:", "mysql://me:secret@host/x", "postgresql+asyncpg://h/x", "", "x://y:z"],
)
def test_other_databases_are_refused(database):
    with pytest.raises(ParameterError, match=r"^database must be a SQLite file") as caught:
        ReportStore(database, PROTOCOL, create=True)
    assert "secret" not in str(caught.value)


def test_a_server_out_of_reach_is_told_without_the_password(tmp_path):
    with pytest.raises(StorageError, match=r"^database .*: cannot connect") as caught:
        ReportStore(f"postgresql://me:secret@/x?host={tmp_path}", PROTOCOL, create=True)
    assert "secret" not in str(caught.value)


def test_sqlite_commits_to_the_disk(tmp_path):
    path = tmp_path / "reports.db"
    with ReportStore(str(path), PROTOCOL, create=True) as store, store._engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar_one() == 2
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar_one() == "wal"
    assert path.stat().st_mode & 0o777 == 0o600


def test_postgresql_commits_to_the_disk(postgres_url):
    """Also where the server is set to acknowledge first."""
    import psycopg

    with psycopg.connect(postgres_url, autocommit=True) as connection:
        name = connection.info.dbname
        connection.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
    with ReportStore(postgres_url, PROTOCOL, create=True) as store, store._engine.connect() as connection:
        assert connection.exec_driver_sql("SHOW synchronous_commit").scalar_one() == "on"
        assert connection.exec_driver_sql("SHOW fsync").scalar_one() == "on"


def test_nothing_else_is_stored(store):
    """No time, no address, no serial number, no token."""
    from sqlalchemy import inspect

    columns = {column["name"] for column in inspect(store._engine).get_columns("collector_reports")}
    assert columns == {"protocol", "token_hash", "report"}
