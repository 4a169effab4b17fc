"""Tables of databases, read as Arrow batches: PostgreSQL through ADBC, DuckDB through its own streams.

Rows have the same order in each reading, and nothing else is trusted to give it:

* a table of PostgreSQL: that of its primary key; all readings see one snapshot (``REPEATABLE READ, READ ONLY``);
* a table of DuckDB: that of insertion; the file is opened for reading alone, and no other process can write then;
* a query: its own ``ORDER BY``.

A password is never shown: an address stands in texts with its user, host and database alone.
"""

from __future__ import annotations

import math
import re
import weakref
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import parse_qsl, unquote, urlsplit

from sottovoce._optional import Optional, pa
from sottovoce._validation import nearest
from sottovoce.exceptions import ParameterError, TableError
from sottovoce.tables.table import Table, refuse_repeated_names
from sottovoce.tables.text import first_line

_SCHEMES: Final = ("postgresql", "postgres", "duckdb")
_BATCH_BYTES: Final = 1 << 22
# texts, names and comments of SQL
_NO_CODE: Final = re.compile(r"(?s)'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/|\$(\w*)\$.*?\$\1\$")

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
    def told(self, what: str) -> Iterator[None]:
        """Tell what the database refuses, without what opens it."""
        try:
            yield
        except (ParameterError, TableError):
            raise
        except Exception as error:  # each driver has errors of its own, and of Arrow's
            text = first_line(error)
            for secret in self._secrets:
                text = text.replace(secret, "***")
            raise TableError(f"{self.shown}, {what}: the database says: {text}") from None

    def connect(self) -> Any:
        if self.file is None:
            connection = _adbc.dbapi.connect(self.address)
            with closing(connection.cursor()) as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            return connection
        if not self.file.is_file():
            raise TableError(f"{self.shown}: cannot read the file: there is no such file.")
        connection = _duckdb.connect(str(self.file), read_only=True)
        connection.execute("SET preserve_insertion_order = true")
        return connection


class DatabaseRows:
    """The columns of a table or a query, and its rows, some at a time.

    ``table``, ``query``: one of them; a table may be named with its schema, as in ``public.people``.
    ``most_rows``: of a table in memory.

    Raises TableError if the database cannot be asked, or the rows have no order.
    """

    def __init__(self, database: Database, table: str | None, query: str | None, most_rows: int) -> None:
        if (table is None) == (query is None):
            raise ParameterError(
                f"{database}: a database holds many tables: give --table NAME, or --query 'SELECT ... ORDER BY ...' "
                "(in Python table=, query=), one of them."
            )
        self._database, self._query, self._most_rows = database, query, most_rows
        self.source = f"{database}, {'the query' if table is None else f'table {table}'}"
        self._what = self.source.removeprefix(f"{database}, ")
        if query is not None and not _is_ordered(query):
            raise ParameterError(
                f"{self.source}: it gives rows in no order, and a model is the same again only in one. End it with "
                "ORDER BY and columns that tell each row from the others."
            )
        with database.told(self._what):
            self._connection = database.connect()
            weakref.finalize(self, self._connection.close)
            self._table, self._order = ("", "") if table is None else self._ordered(table)
            with self._reading("*") as reader:
                self.header = Table.of_rows(_without_extensions(reader.schema.empty_table()), self.source)
            self.names = list(self.header.column_names)
            refuse_repeated_names(self.names, self.source)
        self.size, self.counted = math.inf, self.names[:1]  # how large it is would be another question

    def tables(self, columns: Sequence[str]) -> Iterator[Table]:
        first_row = 0
        with self._database.told(self._what), self._reading(", ".join(map(_quoted, columns))) as reader:
            for batch in reader:
                data = _without_extensions(pa.Table.from_batches([batch]).select(list(columns)))
                for lo in range(0, data.num_rows, self._most_rows):
                    piece = data.slice(lo, self._most_rows)
                    yield Table.of_rows(piece, self.source, first_row)
                    first_row += piece.num_rows

    def _ordered(self, table: str) -> tuple[str, str]:
        """Return the table as SQL names it, and what says its order."""
        name = ".".join(map(_quoted, table.split(".")))
        if self._database.file is not None:
            try:
                with self._reading(f"rowid FROM {name} LIMIT 0", whole=True):
                    return name, ""
            except _duckdb.BinderException:
                key: list[str] = []
        else:
            key = self._primary_key(*reversed(table.split(".")))
        if not key:
            raise TableError(
                f"{self.source}: it has no primary key, so its rows have no order, and a model is the same again only "
                f"in one. Give --query 'SELECT * FROM {name} ORDER BY ...' with columns that tell each row from the "
                "others."
            )
        return name, f" ORDER BY {', '.join(map(_quoted, key))}"

    def _primary_key(self, table: str, schema: str | None = None) -> list[str]:
        space = schema or self._connection.adbc_current_db_schema
        tables = self._objects(space, table_name_filter=table)
        if table not in tables:
            near = nearest(table, sorted(self._objects(space, depth="tables")))
            raise TableError(f"{self.source}: the schema {space!r} of the database has no such table.{near}")
        rules = tables[table]["table_constraints"] or ()
        keys = [rule["constraint_column_names"] for rule in rules if rule["constraint_type"] == "PRIMARY KEY"]
        return list(keys[0]) if keys else []

    def _objects(self, schema: str, **asked: str) -> dict[str, Any]:
        """Return the tables of a schema by name."""
        with closing(self._connection.adbc_get_objects(db_schema_filter=schema, **asked)) as found:
            catalogs = found.read_all().to_pylist()
        return {
            each["table_name"]: each for catalog in catalogs for space in catalog["catalog_db_schemas"] or ()
            if space["db_schema_name"] == schema  # filters are patterns
            for each in space["db_schema_tables"] or ()
        }  # fmt: skip

    @contextmanager
    def _reading(self, columns: str, *, whole: bool = False) -> Iterator[Any]:
        sql = self._query or (f"SELECT {columns}" if whole else f"SELECT {columns} FROM {self._table}{self._order}")
        with closing(self._connection.cursor()) as cursor:
            if self._database.file is None:
                cursor.adbc_statement.set_options(**{"adbc.postgresql.batch_size_hint_bytes": str(_BATCH_BYTES)})
                cursor.execute(sql)
                yield cursor.fetch_record_batch()
            else:
                yield cursor.sql(sql).to_arrow_reader(self._most_rows)


def _is_ordered(query: str) -> bool:
    """Tell whether a query is one statement that is ordered itself: not a part of it, a text or a comment."""
    bare, before = _NO_CODE.sub(" ", query), ""
    while bare != before:
        bare, before = re.sub(r"\([^()]*\)", " ", bare), bare
    return ";" not in bare.rstrip("; \t\r\n") and re.search(r"\border\s+by\b", bare, re.IGNORECASE) is not None


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _without_extensions(data: Any) -> Any:
    """Return columns as they are stored where the driver has a type of its own: numeric of PostgreSQL is text."""
    for place, field in enumerate(data.schema):
        if isinstance(field.type, pa.BaseExtensionType):
            data = data.set_column(place, field.name, data.column(place).cast(field.type.storage_type))
    return data
