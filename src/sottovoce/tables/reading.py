"""Read a table: CSV, also as .gz and .bz2, or Parquet.

Reading is strict: what cannot be a table is refused with the file, the line, the column and the remedy, and no row is
ever dropped or repaired in silence. CSV cells are read as text; what a column means is the schema's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from sottovoce.exceptions import ParameterError, TableError
from sottovoce.tables.database import Database, database_rows
from sottovoce.tables.layout import Layout
from sottovoce.tables.parquet import parquet_rows
from sottovoce.tables.table import BatchedTable, Table
from sottovoce.tables.text import COMPRESSIONS, CsvText

MOST_ROWS = 1 << 16
FORMATS = ("csv", "parquet")
_FORMAT_OF_SUFFIX = {
    **dict.fromkeys((".csv", ".tsv", ".txt", ".data", ".test"), "csv"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
}
_OTHERWISE: Final = (
    'Give format="csv" or format="parquet" if it is one of these; anything else has to be saved as one of them. LIBSVM '
    "text, which has no named columns, is read in Python, with sklearn.datasets.load_svmlight_file."
)
_REMEDY_OF_SUFFIX: Final = {
    **dict.fromkeys(
        (".xlsx", ".xlsm", ".xls", ".ods"), "This is a workbook: save the sheet as CSV (in Excel: CSV UTF-8)."
    ),
    **dict.fromkeys((".duckdb", ".ddb"), "This is a database of DuckDB: give duckdb:///{}, with a table or a query."),
    **dict.fromkeys(
        (".db", ".sqlite", ".sqlite3"),
        "If this is a database of SQLite, export the table: sqlite3 -header -csv {0} 'SELECT ...' > table.csv. A "
        "database of DuckDB is duckdb:///{0}, with a table or a query.",
    ),
}


def file_format(path: str | Path, *, chosen: str | None = None) -> str:
    """Return ``"csv"`` or ``"parquet"``: the chosen format, or that of the file's name.

    Raises ParameterError if the chosen format is unknown.
    Raises TableError if it is a folder, or its name does not tell the format.
    """
    path = Path(path)
    if path.is_dir():
        raise TableError(
            f"{path}: cannot read the file: it is a folder. Give a file in it; sottovoce.ParquetTable reads folders "
            "of Parquet files, in Python."
        )
    if chosen is not None:
        if chosen not in FORMATS:
            raise ParameterError(f"format must be one of {', '.join(map(repr, FORMATS))}; got {chosen!r}.")
        return chosen
    suffix = Path(path.stem).suffix if path.suffix.lower() in COMPRESSIONS else path.suffix
    found = _FORMAT_OF_SUFFIX.get(suffix.lower())
    if found is None:
        raise TableError(
            f"{path}: the name does not tell the format (known endings: {', '.join(_FORMAT_OF_SUFFIX)}, text also "
            f"with .gz or .bz2). {_REMEDY_OF_SUFFIX.get(path.suffix.lower(), _OTHERWISE).format(path)}"
        )
    return found


def read_table(
    path: str | Path | Database,
    *,
    layout: Layout | None = None,
    format: str | None = None,  # noqa: A002
    names: Sequence[str] | None = None,
    may_lack: str | None = None,
    skip_rows: int = 0,
    table: str | None = None,
    query: str | None = None,
) -> Table:
    """Read a table with named columns from CSV or Parquet, or a database, into memory.

    Parameters
    ----------
    path : str or Path
        The file; or the address of a database, ``postgresql://USER@HOST/NAME`` or ``duckdb:///FILE``.
    layout : Layout or None, default=None
        How a CSV file is written. None: with a header, without comments.
    format : {"csv", "parquet"} or None, default=None
        None takes it from the name of the file.
    names : sequence of str or None, default=None
        The names of the columns of a CSV file without a header. None names them ``column_1``, ``column_2``, ...
    may_lack : str or None, default=None
        One of ``names`` that the file may leave out: the target, at prediction.
    skip_rows : int, default=0
        Lines to skip at the start of a CSV file, before the header.
    table : str or None, default=None
        Of a database: the table, also as ``schema.table``, in the order of its primary key (DuckDB: of insertion).
    query : str or None, default=None
        Of a database, in place of a table: what is read, such as ``SELECT * FROM people ORDER BY id``; it ends with
        ``ORDER BY``.

    Returns
    -------
    Table
        CSV cells as text, Parquet cells as they are.

    Raises
    ------
    TableError
        If the file is missing, empty, binary, truncated, ragged or of another format, or repeats a column name.
    """
    return open_table(
        path, layout=layout, format=format, names=names, may_lack=may_lack, skip_rows=skip_rows, table=table,
        query=query,
    ).whole()  # fmt: skip


def open_table(
    path: str | Path | Database,
    *,
    layout: Layout | None = None,
    format: str | None = None,  # noqa: A002
    names: Sequence[str] | None = None,
    may_lack: str | None = None,
    skip_rows: int = 0,
    table: str | None = None,
    query: str | None = None,
    most_rows: int = MOST_ROWS,
    scratch: str | Path | None = None,
) -> BatchedTable:
    """Open a table with named columns, whose rows are then read some at a time; see `read_table`.

    ``most_rows``: in a table.
    ``scratch``: the folder for what can be read once, a query or a large pipe; None: where temporary files are.

    Raises TableError if the file is missing, empty, or does not start like a table. Its rows are looked at when they
    are read.
    """
    if (database := Database.of(path)) is not None:
        if skip_rows or format is not None:
            raise ParameterError("skip_rows and format are for files: a database has neither lines nor a format.")
        return database_rows(database, table, query, most_rows, scratch)
    if table is not None or query is not None:
        raise ParameterError(f"{path}: table and query are for databases (postgresql://..., duckdb:///FILE).")
    path = Path(str(path))
    if file_format(path, chosen=format) == "csv":
        text = CsvText(path, layout or Layout(), skip_rows=skip_rows, names=names, may_lack=may_lack, scratch=scratch)
        return text.rows(most_rows)
    if skip_rows:
        raise ParameterError("skip_rows is for text tables: a Parquet file has no lines.")
    return parquet_rows(path, most_rows)
