"""Open a database so that what is committed stays committed: SQLite with a synchronous log, or PostgreSQL."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from sottovoce.exceptions import ParameterError, StorageError

__all__ = ["WRITES", "describe", "open_engine"]

WRITES: Final = "sottovoce_writes"  # execution option of a connection whose transaction will write
_BUSY_SECONDS: Final = 30
_CONNECT_SECONDS: Final = 5
_STATEMENT_MILLISECONDS: Final = 30_000


def open_engine(database: str, *, create: bool) -> Engine:
    """Return an engine for a database, every connection of which commits to the disk.

    Parameters
    ----------
    database : str
        ``sqlite:///FILE`` or the path of a file, or ``postgresql://USER:PASSWORD@HOST/NAME``.
    create : bool
        Whether a SQLite file that does not exist is made; a PostgreSQL database is never made.

    Raises
    ------
    ParameterError
        If this names no such database.
    StorageError
        If it cannot be reached, or would lose what it has committed.
    """
    url = _url(database)
    if url.get_backend_name() == "sqlite":
        return _sqlite(url, create=create)
    return _postgresql(url)


def describe(database: str | URL) -> str:
    """Return the address of a database without its password."""
    return _url(database).render_as_string(hide_password=True) if isinstance(database, str) else str(database)


def _url(database: str) -> URL:
    try:
        url = make_url(database if "://" in database else f"sqlite:///{database}")
    except (ArgumentError, ValueError):
        url = None
    if url is not None and url.drivername in ("postgresql", "postgres", "postgresql+psycopg"):
        return url.set(drivername="postgresql+psycopg")
    if url is not None and url.drivername == "sqlite" and url.database not in (None, "", ":memory:") and not url.query:
        return url
    # the text may hold a password: it is not repeated
    raise ParameterError(
        "--database must be a SQLite file (sqlite:///reports.db, or its path), or a PostgreSQL database "
        "(postgresql://USER@HOST/NAME). A database in memory would lose the reports."
    )


def _sqlite(url: URL, *, create: bool) -> Engine:
    path = Path(str(url.database))
    if create and not path.exists():
        _make_private_file(path)
    if not path.is_file():
        raise StorageError(f"--database {path}: no such file. Start the collector once to make it.")
    engine = create_engine(
        url, connect_args={"timeout": _BUSY_SECONDS, "check_same_thread": False}, hide_parameters=True
    )

    @event.listens_for(engine, "connect")
    def _set_up(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # the driver must not begin transactions by itself
        cursor = connection.cursor()
        cursor.execute("PRAGMA journal_mode = WAL")
        cursor.execute("PRAGMA synchronous = FULL")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        # a transaction that first reads and then writes could find the file changed: take the lock at once
        writes = connection.get_execution_options().get(WRITES, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _make_private_file(path: Path) -> None:
    """Make an empty file that only its owner can read; SQLite gives its log the same permissions."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    except OSError as error:
        raise StorageError(f"--database {path}: cannot make the file: {error.strerror}.") from None


def _postgresql(url: URL) -> Engine:
    engine = create_engine(
        url,
        pool_pre_ping=True,
        pool_timeout=_CONNECT_SECONDS,
        hide_parameters=True,
        connect_args={
            "connect_timeout": _CONNECT_SECONDS,
            "options": f"-c statement_timeout={_STATEMENT_MILLISECONDS}",
        },
    )

    @event.listens_for(engine, "connect")
    def _set_up(connection: Any, _: Any) -> None:
        with connection.cursor() as cursor:
            # a server may be set to acknowledge before the disk does; stronger settings are left alone
            cursor.execute(
                "SELECT set_config('synchronous_commit', 'on', false) "
                "WHERE current_setting('synchronous_commit') = 'off'"
            )
        connection.commit()

    try:
        with engine.connect() as connection:
            fsync = connection.execute(text("SHOW fsync")).scalar_one()
    except SQLAlchemyError as error:
        engine.dispose()
        raise StorageError(
            f"--database {describe(url)}: cannot connect ({type(error).__name__}). Check that the server runs, and the "
            "user, the password and the name of the database."
        ) from None
    if fsync != "on":
        engine.dispose()
        raise StorageError(
            f"--database {describe(url)}: the server runs with fsync = {fsync} and would lose acknowledged reports in "
            "a crash. Set fsync = on."
        )
    return engine
