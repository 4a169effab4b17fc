"""The reports of one protocol in a database: one for each device token, and none lost once it is acknowledged."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from sqlalchemy import (
    BigInteger,
    Column,
    Engine,
    Insert,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    func,
    insert,
    inspect,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL
from sqlalchemy.exc import SQLAlchemyError

from sottovoce._database import WRITES, make_private_file, open_engine, parse_address
from sottovoce.exceptions import ParameterError, StorageError
from sottovoce.local.collector.answers import Reason
from sottovoce.local.protocol import Protocol

_LOOKED_UP: Final = 500  # values in one IN (...)
_FETCHED: Final = 10_000  # reports in memory at a time
_BUSY_SECONDS: Final = 30  # to wait for another writer of a file
_CONNECT_SECONDS: Final = 5
_STATEMENT_MILLISECONDS: Final = 30_000

_SCHEMA_VERSION: Final = 1

_METADATA: Final = MetaData()

# one row: the version of everything below
_SCHEMA: Final = Table("collector_schema", _METADATA, Column("version", Integer, primary_key=True, autoincrement=False))

_PROTOCOLS: Final = Table(
    "collector_protocols",
    _METADATA,
    Column("id", LargeBinary(8), primary_key=True),
    Column("json", Text, nullable=False),
)

# The key is the rule "one report per device token", kept by the database itself. No time, no address, no serial number:
# nothing here tells when a report came or from where. SQLite stores the rows in the order of the key.
_REPORTS: Final = Table(
    "collector_reports",
    _METADATA,
    Column("protocol", LargeBinary(8), primary_key=True),
    Column("token_hash", LargeBinary(32), primary_key=True),
    Column("report", LargeBinary(22), nullable=False),
    sqlite_with_rowid=False,
)

_REFUSALS: Final = Table(
    "collector_refusals",
    _METADATA,
    Column("protocol", LargeBinary(8), primary_key=True),
    Column("reason", String(40), primary_key=True),
    Column("count", BigInteger, nullable=False),
)


class Row(NamedTuple):
    """One report to store."""

    token_hash: bytes
    report: bytes


Outcome = Reason | None  # of a row: None where the report is stored, now or the same one before


class ReportStore:
    """The reports of one protocol.

    ``database``: ``sqlite:///FILE`` or the path of a file, or ``postgresql://USER:PASSWORD@HOST/NAME``.
    ``create``: whether tables and the protocol are added where they are missing, and a SQLite file is made; a
      PostgreSQL database is never made.

    Raises ParameterError if this names no such database.
    Raises StorageError if the database cannot be reached, would lose what it commits, has tables of another version, or
    lacks what ``create=False`` needs.
    """

    def __init__(self, database: str, protocol: Protocol, *, create: bool = False) -> None:
        address = database if "://" in database else f"sqlite:///{database}"
        url = parse_address(address, name="database", error=ParameterError)
        self._folder = Path(str(url.database)).parent if url.get_backend_name() == "sqlite" else None
        name = url.render_as_string(hide_password=True)
        self._engine: Engine = _open(url, name, create=create)
        self._writer = self._engine.execution_options(**{WRITES: True})
        self._id = protocol.id
        try:
            if create:
                self._create(protocol)
            self._check(name)
        except SQLAlchemyError as error:
            self.close()
            raise StorageError(f"database {name}: {_cause(error)}.") from None
        except StorageError:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._engine.dispose()

    def insert(self, rows: Sequence[Row]) -> list[Outcome]:
        """Store rows in one transaction and say what became of each, in order; all is on the disk on return.

        The first report of a token stays. The same report again counts as stored, a different one is refused.
        """
        first: dict[bytes, bytes] = {}
        for row in rows:
            first.setdefault(row.token_hash, row.report)
        # sorted: two collectors on one database never wait for each other in a circle
        values = [{"protocol": self._id, "token_hash": key, "report": first[key]} for key in sorted(first)]
        kept: dict[bytes, bytes | None] = dict(first)
        with self._writer.begin() as connection:
            statement = self._insert(_REPORTS).on_conflict_do_nothing().returning(_REPORTS.c.token_hash)
            new = {bytes(key) for key in connection.execute(statement, values).scalars()} if values else set()
            old = [key for key in kept if key not in new]
            for start in range(0, len(old), _LOOKED_UP):
                found = select(_REPORTS.c.token_hash, _REPORTS.c.report).where(
                    _REPORTS.c.protocol == self._id, _REPORTS.c.token_hash.in_(old[start : start + _LOOKED_UP])
                )
                part = {bytes(key): bytes(report) for key, report in connection.execute(found)}
                kept.update((key, part.get(key)) for key in old[start : start + _LOOKED_UP])
        if None in kept.values():
            raise StorageError("somebody deleted a report while it was looked up. Send the reports again.")
        return [None if kept[row.token_hash] == row.report else Reason.TOKEN_USED for row in rows]

    def add_refusals(self, counts: Mapping[str, int]) -> None:
        values = [{"protocol": self._id, "reason": reason, "count": counts[reason]} for reason in sorted(counts)]
        if not values:
            return
        statement = self._insert(_REFUSALS)
        statement = statement.on_conflict_do_update(
            index_elements=[_REFUSALS.c.protocol, _REFUSALS.c.reason],
            set_={"count": _REFUSALS.c["count"] + statement.excluded["count"]},
        )
        with self._writer.begin() as connection:
            connection.execute(statement, values)

    def count(self) -> int:
        with self._engine.begin() as connection:
            return connection.execute(
                select(func.count()).select_from(_REPORTS).where(_REPORTS.c.protocol == self._id)
            ).scalar_one()

    def refusals(self) -> dict[str, int]:
        with self._engine.begin() as connection:
            rows = connection.execute(
                select(_REFUSALS.c.reason, _REFUSALS.c["count"]).where(_REFUSALS.c.protocol == self._id)
            )
            return {str(reason): int(count) for reason, count in rows}

    def ping(self) -> None:
        """Ask the database for an answer.

        Raises SQLAlchemyError if there is none.
        """
        with self._engine.begin() as connection:
            connection.execute(select(_SCHEMA.c.version)).scalar_one()

    def disk_free(self) -> int | None:
        return None if self._folder is None else shutil.disk_usage(self._folder).free

    def reports(self) -> Iterator[bytes]:
        """Yield all reports, concatenated by the thousands, as they were at one moment.

        They come in the order of the hashed tokens, which tells nothing of the order in which they arrived.
        """
        statement = select(_REPORTS.c.report).where(_REPORTS.c.protocol == self._id).order_by(_REPORTS.c.token_hash)
        try:
            with self._engine.connect() as connection:
                if connection.dialect.name == "postgresql":  # to sort all reports may take a while
                    connection.exec_driver_sql("SET LOCAL statement_timeout = 0")
                found = connection.execute(statement, execution_options={"yield_per": _FETCHED})
                for part in found.scalars().partitions():
                    yield b"".join(part)
        except SQLAlchemyError as error:
            raise StorageError(f"the reports cannot be read: {_cause(error)}.") from None

    def _insert(self, table: Any) -> Any:
        dialects = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}
        return dialects[self._engine.dialect.name](table)

    def _create(self, protocol: Protocol) -> None:
        with self._writer.begin() as connection:
            if connection.dialect.name == "postgresql":  # several collectors may start at once
                connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7306086869)")
            empty = not inspect(connection).has_table(_SCHEMA.name)
            if empty:
                _METADATA.create_all(connection)
                connection.execute(insert(_SCHEMA), {"version": _SCHEMA_VERSION})
            elif connection.execute(select(_SCHEMA.c.version)).scalar_one() != _SCHEMA_VERSION:
                return  # the check tells it
            add: Insert = self._insert(_PROTOCOLS).on_conflict_do_nothing()
            connection.execute(add, {"id": protocol.id, "json": protocol.to_json()})

    def _check(self, name: str) -> None:
        with self._engine.begin() as connection:
            if not inspect(connection).has_table(_SCHEMA.name):
                raise StorageError(f"database {name}: this is not a database of a collector.")
            version = connection.execute(select(_SCHEMA.c.version)).scalar_one()
            if version != _SCHEMA_VERSION:
                raise StorageError(
                    f"database {name}: its tables have version {version}, this sottovoce reads version "
                    f"{_SCHEMA_VERSION}. Use the version of sottovoce that made it."
                )
            known = connection.execute(select(_PROTOCOLS.c.id)).scalars()
            ids = [bytes(value).hex() for value in known]
        if self._id.hex() not in ids:
            raise StorageError(
                f"database {name}: it has no reports of protocol {self._id.hex()}; it has those of {', '.join(ids)}."
            )


def _open(url: URL, name: str, *, create: bool) -> Engine:
    """Return an engine whose database is there; a SQLite file is made if it may be."""
    if url.get_backend_name() == "sqlite":
        path = Path(str(url.database))
        try:
            if create:
                make_private_file(path)
        except OSError as error:
            raise StorageError(f"database {path}: cannot make the file: {error.strerror}.") from None
        if not path.is_file():
            raise StorageError(f"database {path}: no such file. Start the collector once to make it.")
        pragma = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL"
        return open_engine(url, error=StorageError, extra="collector", timeout=_BUSY_SECONDS, pragma=pragma)
    engine = open_engine(
        url, error=StorageError, extra="collector", timeout=_CONNECT_SECONDS, pragma="",
        server=f"-c statement_timeout={_STATEMENT_MILLISECONDS}", pool_pre_ping=True, pool_timeout=_CONNECT_SECONDS,
    )  # fmt: skip
    try:
        engine.connect().close()
    except SQLAlchemyError as error:
        engine.dispose()
        raise StorageError(
            f"database {name}: cannot connect ({type(error).__name__}). Check that the server runs, and the user, "
            "the password and the name of the database."
        ) from None
    return engine


def _cause(error: SQLAlchemyError) -> str:
    """Return what went wrong without a value of a row: the driver's words on opening a file or a connection."""
    origin = getattr(error, "orig", None)
    return str(origin or type(error).__name__).strip().rstrip(".")
