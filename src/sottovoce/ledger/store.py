"""The database under a ledger: one table that only grows, written by one process at a time.

An entry is added in one transaction that holds the writer's lock (SQLite: ``BEGIN IMMEDIATE``; PostgreSQL: a
transaction-level advisory lock), after everything before it was read. Should a lock ever fail, the primary key does
not: two writers who saw the same last entry would both write the next number, and one of them is refused. Triggers
refuse to change, delete or overwrite an entry.

Every operation opens its own connection, so that a ledger can be used after a fork and by many threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sottovoce._database import WRITES, make_private_file, open_engine, parse_address
from sottovoce.exceptions import LedgerError

if TYPE_CHECKING:
    import sqlalchemy as sa

Row = tuple[int, str, str, str]  # number, hash of the entry before, hash, text

_TABLE: Final = "sottovoce_ledger"
_LOCK: Final = 7_306_085_693_518_923_621  # any fixed number: the advisory lock of ledgers in this database
_SQLITE: Final = (
    f"""CREATE TABLE IF NOT EXISTS {_TABLE} (
        seq INTEGER PRIMARY KEY, previous TEXT NOT NULL, hash TEXT NOT NULL, entry TEXT NOT NULL)""",
    f"""CREATE TRIGGER IF NOT EXISTS {_TABLE}_no_update BEFORE UPDATE ON {_TABLE}
        BEGIN SELECT RAISE(ABORT, 'a privacy ledger is append-only'); END""",
    f"""CREATE TRIGGER IF NOT EXISTS {_TABLE}_no_delete BEFORE DELETE ON {_TABLE}
        BEGIN SELECT RAISE(ABORT, 'a privacy ledger is append-only'); END""",
    # INSERT OR REPLACE deletes without asking the trigger above
    f"""CREATE TRIGGER IF NOT EXISTS {_TABLE}_in_order BEFORE INSERT ON {_TABLE}
        WHEN NEW.seq IS NOT (SELECT COALESCE(MAX(seq), -1) + 1 FROM {_TABLE})
        BEGIN SELECT RAISE(ABORT, 'a privacy ledger grows at its end only'); END""",
)
_POSTGRESQL: Final = (
    f"""CREATE TABLE IF NOT EXISTS {_TABLE} (
        seq BIGINT PRIMARY KEY, previous TEXT NOT NULL, hash TEXT NOT NULL, entry TEXT NOT NULL)""",
    f"""CREATE OR REPLACE FUNCTION {_TABLE}_refuse() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'a privacy ledger is append-only'; END $$""",
    f"""CREATE OR REPLACE TRIGGER {_TABLE}_no_change BEFORE UPDATE OR DELETE ON {_TABLE}
        FOR EACH ROW EXECUTE FUNCTION {_TABLE}_refuse()""",
    f"""CREATE OR REPLACE TRIGGER {_TABLE}_no_truncate BEFORE TRUNCATE ON {_TABLE}
        FOR EACH STATEMENT EXECUTE FUNCTION {_TABLE}_refuse()""",
)
_GUARDS: Final = {
    "sqlite": (
        f"SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = '{_TABLE}'",
        {f"{_TABLE}_no_update", f"{_TABLE}_no_delete", f"{_TABLE}_in_order"},
    ),
    "postgresql": (
        f"SELECT tgname FROM pg_trigger WHERE tgrelid = '{_TABLE}'::regclass AND tgenabled <> 'D'",
        {f"{_TABLE}_no_change", f"{_TABLE}_no_truncate"},
    ),
}


class Store:
    """The table of a ledger.

    ``url``: ``sqlite:///PATH``, or ``postgresql://USER@HOST/DATABASE``.
    ``timeout``: seconds to wait for other writers.

    Raises LedgerError if the address is none of these, or SQLAlchemy or the driver is missing.
    """

    def __init__(self, url: str, timeout: float) -> None:
        sa = _alchemy()
        parsed = parse_address(url, name="a ledger", error=LedgerError)
        self.kind = parsed.get_backend_name()
        self.url = parsed.render_as_string(hide_password=True)
        self.address = parsed.render_as_string(hide_password=False)
        self.collision: type[Exception] = sa.exc.IntegrityError
        self._path = Path(str(parsed.database)) if self.kind == "sqlite" else None
        self._timeout = timeout
        self._is_there = False
        self._last = threading.local()  # the last connection of each thread
        self._engine = open_engine(
            parsed, error=LedgerError, extra="ledger", timeout=timeout, poolclass=sa.pool.NullPool,
            pragma="PRAGMA synchronous = EXTRA",  # not only the file but the folder, before a commit ends
        )  # fmt: skip

    def create(self) -> None:
        if self._path is not None and not self._path.parent.is_dir():
            raise LedgerError(f"{self.url}: the folder {self._path.parent} does not exist. Make it first.")
        if self._path is not None:
            try:
                make_private_file(self._path)
            except OSError as error:
                raise LedgerError(f"{self.url}: cannot make the file: {error.strerror}.") from None
        with self._writer() as connection:
            for statement in _SQLITE if self._path is not None else _POSTGRESQL:
                connection.exec_driver_sql(statement)

    def read(self, after: int = 0) -> list[Row]:
        """Return the rows whose number is at least ``after``, in order, as they were at one moment."""
        with self._connected() as connection:
            self._check_table(connection)
            return _rows(connection, after)

    @contextmanager
    def writing(self) -> Iterator[tuple[Callable[[int], list[Row]], Callable[[Row], None]]]:
        """Be the only writer, and get what reads rows after a number and what appends one.

        What was appended is on disk when the block ends, and is not there if it fails.
        """
        with self._writer() as connection:
            self._check_table(connection)
            yield partial(_rows, connection), partial(_append, connection)

    def missing_guards(self) -> set[str]:
        statement, wanted = _GUARDS[self.kind]
        with self._connected() as connection:
            self._check_table(connection)
            return wanted - {str(name) for (name,) in connection.exec_driver_sql(statement)}

    @contextmanager
    def _connected(self, **options: object) -> Iterator[sa.Connection]:
        sa = _alchemy()
        if self._path is not None and not self._path.exists():
            raise LedgerError(self._missing())  # connecting would leave an empty file
        try:
            if left := getattr(self._last, "connection", None):
                left.close()  # an interrupt can have left it open, with its lock
            with self._engine.connect() as connection:
                self._last.connection = connection
                yield connection.execution_options(**options)
        except (sa.exc.IntegrityError, LedgerError):
            raise
        except sa.exc.SQLAlchemyError as error:
            reason = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
            raise LedgerError(
                f"the ledger {self.url} cannot be used now: {reason}. Nothing was released; if a charge was being "
                "made, `sottovoce ledger show` says whether it counts."
            ) from None

    @contextmanager
    def _writer(self) -> Iterator[sa.Connection]:
        """Connect with the writer's lock held; SQLite takes it as the transaction begins."""
        with self._connected(**{WRITES: True}) as connection:
            if self._path is None:
                connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{int(1000 * self._timeout)}ms'")
                connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
            try:
                yield connection
            except BaseException:
                connection.rollback()
                raise
            connection.commit()

    def _check_table(self, connection: sa.Connection) -> None:
        if self._is_there:
            return
        if not _alchemy().inspect(connection).has_table(_TABLE):
            raise LedgerError(self._missing())
        self._is_there = True

    def _missing(self) -> str:
        return (
            f"there is no ledger at {self.url}. Make one, with its first data set, by Ledger(...).create(...) or "
            "`sottovoce ledger create`; or correct the address."
        )


def _rows(connection: sa.Connection, after: int) -> list[Row]:
    """Return the rows from a number on, and those whose numbers no ledger has: who reads them refuses them."""
    statement = f"SELECT seq, previous, hash, entry FROM {_TABLE} WHERE seq >= :after OR seq < 0 ORDER BY seq"
    return [tuple(row) for row in connection.execute(_alchemy().text(statement), {"after": after})]


def _append(connection: sa.Connection, row: Row) -> None:
    statement = f"INSERT INTO {_TABLE} (seq, previous, hash, entry) VALUES (:seq, :previous, :hash, :entry)"
    connection.execute(_alchemy().text(statement), dict(zip(("seq", "previous", "hash", "entry"), row, strict=True)))


def _alchemy() -> Any:
    try:
        import sqlalchemy
    except ImportError:
        raise LedgerError('a ledger needs SQLAlchemy 2: pip install "sottovoce[ledger]".') from None
    return sqlalchemy
