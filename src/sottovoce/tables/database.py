"""Tables and queries of databases, read as Arrow batches: PostgreSQL through ADBC, DuckDB through its own streams.

Rows have the same order in each reading: that of a table's primary key in PostgreSQL, and of insertion in DuckDB. A
query runs once and is kept on scratch disk: its ``ORDER BY`` may leave ties. All readings of PostgreSQL see one
snapshot (``REPEATABLE READ, READ ONLY``); a file of DuckDB is opened for reading alone, and nobody can write then.

A password is never shown, and neither is a cell: an address stands in texts with its user, host and database alone,
and what a database says of values is not repeated.
"""

from __future__ import annotations

import math
import re
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import parse_qsl, unquote, urlsplit

import numpy as np

from sottovoce._optional import Optional, pa
from sottovoce.central.data.scratch import ScratchFile
from sottovoce.exceptions import ParameterError, SottovoceError, TableError
from sottovoce.tables.addresses import first_line
from sottovoce.tables.table import BatchedTable

_SCHEMES: Final = ("postgresql", "postgres", "duckdb")
_BATCH_BYTES: Final = 1 << 22
# texts, names and comments of SQL
_NO_CODE: Final = re.compile(r"(?s)'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/|\$(\w*)\$.*?\$\1\$")
# what a database says of the query and of itself, and not of a value: classes of DuckDB, beginnings of SQLSTATE
_PUBLIC_ERRORS: Final = {"BinderException", "CatalogException", "ConnectionException", "IOException",
                         "ParserException", "PermissionException", "SyntaxException"}  # fmt: skip
_PUBLIC_STATES: Final = ("08", "28", "3D", "42", "53", "57")

_KEY: Final = """
    SELECT attname FROM pg_index, unnest(indkey) WITH ORDINALITY AS part (number, place)
    JOIN pg_attribute ON attnum = number
    WHERE indrelid = $1::regclass AND attrelid = indrelid AND indisprimary ORDER BY place"""

_duckdb: Final[Any] = Optional("duckdb", purpose="tables of DuckDB need", extra="databases")
_adbc: Final[Any] = Optional("adbc_driver_postgresql", purpose="tables of PostgreSQL need", extra="databases")


class Database:
    """The address of a database, which is shown without what opens it.

    ``address``: ``postgresql://USER:PASSWORD@HOST/NAME``, ``duckdb:///FILE``; an absolute file has four slashes.

    Raises ParameterError if it names no database.
    """

    def __init__(self, address: str) -> None:
        try:
            parts = urlsplit(address)
            self.scheme, host = parts.scheme.replace("postgresql", "postgres"), parts.netloc.rpartition("@")[2]
            secrets = [parts.password or "", *(text for name, text in parse_qsl(parts.query) if "pass" in name)]
        except ValueError:  # the text may hold a password: it is not repeated
            raise ParameterError("the address of the database cannot be read: a part of it is malformed.") from None
        self.file = None
        self.address, self._secrets = address, {secret for each in secrets for secret in (each, unquote(each)) if each}
        user = f"{parts.username}@" if parts.username else ""
        self.shown = f"{parts.scheme}://{user}{host}{parts.path}"
        if self.scheme == "duckdb":
            if host or parts.path in ("", "/"):
                raise ParameterError(f"{self.shown}: a file of DuckDB is given as duckdb:///FILE.")
            self.file = Path(unquote(parts.path[1:]))
        self.name = Path(parts.path).name or self.shown

    def __str__(self) -> str:
        return self.shown

    @classmethod
    def of(cls, address: object) -> Self | None:
        """Return the database that an address names; None where it names none."""
        if isinstance(address, cls):
            return address
        scheme, found, _ = address.partition("://") if isinstance(address, str) else ("", "", "")
        if found and scheme not in _SCHEMES:
            raise ParameterError(
                f"{scheme}://... (the rest may hold a password): a table is a file of this machine, or in a database: "
                "postgresql://USER@HOST/NAME, duckdb:///FILE. Copy the file here first; in Python, "
                "sottovoce.ParquetTable reads s3://, gs://, abfs:// and hdfs://."
            )
        return cls(str(address)) if found else None

    def __fspath__(self) -> str:
        """Return the file that nothing may be written to; of a server, one that is nowhere."""
        return "/dev/null/database" if self.file is None else str(self.file)

    def resolve(self) -> Path:
        return Path(self).resolve()

    @contextmanager
    def told(self, *, connecting: bool = False) -> Iterator[None]:
        """Tell what the database refuses, without what opens it and without what it says of values."""
        try:
            yield
        except SottovoceError:
            raise
        except Exception as error:  # each driver has errors of its own, and of Arrow's
            kind, state = type(error).__name__, getattr(error, "sqlstate", None) or ""
            text = f"{kind}. Its words may hold cells, and are not repeated: run the query there to see them."
            if connecting or kind in _PUBLIC_ERRORS or state.startswith(_PUBLIC_STATES):
                text = first_line(error)
            for secret in self._secrets:
                text = text.replace(secret, "***")
            raise TableError(f"{self.shown}: the database says: {text}") from None

    def connect(self) -> Any:
        if self.file is None:
            connection = _adbc.dbapi.connect(self.address)
            with closing(connection.cursor()) as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            return connection
        if not self.file.is_file():
            raise TableError(f"{self.shown}: cannot read the file: there is no such file.")
        # a name of a query is that of a table, and not of a variable of this program
        return _duckdb.connect(str(self.file), read_only=True, config={"python_enable_replacements": False})


def database_rows(
    database: Database, table: str | None, query: str | None, most_rows: int, scratch: str | Path | None = None
) -> BatchedTable:
    """Return the rows of a table or a query, at most so many at a time.

    Raises ParameterError without one of them, and TableError if the database cannot be asked, or the rows have no
    order.
    """
    if (table is None) == (query is None):
        raise ParameterError(
            f"{database}: a database holds many tables: give --table NAME, or --query 'SELECT ... ORDER BY ...' (in "
            "Python table=, query=), one of them."
        )
    source = f"{database}, {'the query' if table is None else f'table {table}'}"
    if query is not None and not _is_ordered(query):
        raise ParameterError(
            f"{source}: it gives rows in no order, and another order makes another model. End it with ORDER BY and "
            "columns that tell each row from the others."
        )
    with database.told(connecting=True):
        connection = database.connect()

    @contextmanager
    def reading() -> Iterator[Any]:
        with database.told(), closing(connection.cursor()) as cursor:
            if database.file is None:
                cursor.adbc_statement.set_options(**{"adbc.postgresql.batch_size_hint_bytes": str(_BATCH_BYTES)})
                cursor.execute(query)
                yield cursor.fetch_record_batch()
            else:
                yield cursor.sql(query).to_arrow_reader(most_rows)

    def run() -> Iterator[Any]:
        with reading() as reader:
            for batch in reader:
                yield _without_extensions(pa.Table.from_batches([batch]))

    batches = run if query is None else _Once(run, scratch)

    def read(columns: Sequence[str]) -> Iterator[Any]:
        return (batch.select(list(columns)) for batch in batches())

    try:
        if table is not None:
            with database.told(connecting=True):
                query = _query_of(connection, database, table)
        with reading() as reader:
            schema = _without_extensions(reader.schema.empty_table()).schema
        # how large it is would be another question
        rows = BatchedTable(schema, source, read, most_rows=most_rows, size=math.inf, counted=schema.names[:1])
    except BaseException:
        connection.close()
        raise
    weakref.finalize(rows, connection.close)
    return rows


class _Once:
    """What a query gives, kept in a private file when it is read first.

    Where its order leaves ties, or it draws a number, each run gives other rows in a place. Those of a second reading,
    as the names of persons are, would belong to others.
    """

    def __init__(self, run: Callable[[], Iterator[Any]], scratch: str | Path | None) -> None:
        self._run, self._file = run, ScratchFile(scratch)
        self._places: list[tuple[int, int]] | None = None

    def __call__(self) -> Iterator[Any]:
        if self._places is None:
            places = []
            for batch in self._run():
                sink = pa.BufferOutputStream()
                with pa.ipc.new_stream(sink, batch.schema) as stream:
                    stream.write_table(batch)
                piece = np.frombuffer(sink.getvalue(), np.uint8)
                places.append((self._file.size, len(piece)))
                self._file.write(piece)
            self._places = places
        for place, size in self._places:
            yield pa.ipc.open_stream(pa.py_buffer(self._file.read(place, size, np.uint8))).read_all()


def _query_of(connection: Any, database: Database, table: str) -> str:
    """Return the query of a table in its own order; a view has none."""
    name, key = ".".join(map(_quoted, table.split("."))), []
    if database.file is not None:
        with suppress(_duckdb.BinderException):
            connection.sql(f"SELECT rowid FROM {name} LIMIT 0")
            return f"SELECT * FROM {name}"  # preserve_insertion_order is DuckDB's default
    else:
        with closing(connection.cursor()) as cursor:
            cursor.execute(_KEY, (name,))
            key = [_quoted(column) for (column,) in cursor.fetchall()]
    if not key:
        raise TableError(
            f"{database}, table {table}: it has no primary key, so its rows have no order, and another order makes "
            f"another model. Give --query 'SELECT * FROM {name} ORDER BY ...' with columns that tell each row from the "
            "others."
        )
    return f"SELECT * FROM {name} ORDER BY {', '.join(key)}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _is_ordered(query: str) -> bool:
    """Tell whether a query is one statement that is ordered itself: not a part of it, a text or a comment."""
    bare, before = _NO_CODE.sub(" ", query), ""
    while bare != before:
        bare, before = re.sub(r"\([^()]*\)", " ", bare), bare
    return ";" not in bare.rstrip("; \t\r\n") and re.search(r"\border\s+by\b", bare, re.IGNORECASE) is not None


def _without_extensions(data: Any) -> Any:
    """Return columns as they are stored where the driver has a type of its own: numeric of PostgreSQL is text."""
    for place, field in enumerate(data.schema):
        if isinstance(field.type, pa.BaseExtensionType):
            data = data.set_column(place, field.name, data.column(place).cast(field.type.storage_type))
    return data
