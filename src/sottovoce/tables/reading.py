"""Read a table: CSV, also as .gz and .bz2, or Parquet.

Reading is strict: what cannot be a table is refused with the file, the line, the column and the remedy, and no row is
ever dropped or repaired in silence. CSV cells are read as text; what a column means is the schema's business.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from sottovoce._optional import pa
from sottovoce.exceptions import ParameterError, TableError
from sottovoce.tables.csv_text import CsvText
from sottovoce.tables.database import Database, DatabaseRows
from sottovoce.tables.layout import Layout
from sottovoce.tables.row_groups import ParquetRows
from sottovoce.tables.table import Cells, Table
from sottovoce.tables.text import COMPRESSIONS, Source

MOST_ROWS = 1 << 16
KEPT_BYTES = 1 << 24
FORMATS = ("csv", "parquet")
_FORMAT_OF_SUFFIX = {
    **dict.fromkeys((".csv", ".tsv", ".txt", ".data", ".test"), "csv"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
}

_Content: TypeAlias = CsvText | ParquetRows | DatabaseRows


class BatchedTable:
    """The columns of a file whose rows are read some at a time, in order, as often as they are asked for.

    ``for table in batched`` gives tables of at most 65,536 rows and about 1 MiB of text. Each knows its first row
    (``first_row``), and its messages name the lines of the file. Opening reads the start of the file. One that changes
    between two readings is refused. A table of at most 16 MiB is kept by the first reading of `n_rows`.
    """

    def __init__(self, content: _Content, source: str) -> None:
        self.source = source
        self.header = content.header
        self._content = content
        self._n_rows: int | None = None
        self._kept: list[Table] | None = None
        self.told: Callable[[int], object] = lambda rows: None  # gets how many rows more were read

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of the columns, in the order of the file."""
        return tuple(self._content.names)

    def __contains__(self, name: object) -> bool:
        return name in self._content.names

    def cells(self, name: str) -> Cells:
        """Return the column ``name`` without a cell: its type, and the error that there is no such column."""
        return self.header.cells(name)

    @property
    def n_rows(self) -> int:
        """The number of rows. The first time the file is read for it, and refused where it is no table.

        No value is looked at: what a cell means is not asked.
        """
        if self._n_rows is None:
            is_large = self._content.size > KEPT_BYTES
            kept: list[Table] | None = None if is_large else []
            held = count = 0
            for table in self._telling(self._content.tables(self._content.counted if is_large else self.column_names)):
                count += table.n_rows
                held += table.data.nbytes
                if kept is not None:
                    kept = None if held > KEPT_BYTES else [*kept, table]
            self._n_rows, self._kept = count, kept
        return self._n_rows

    def _telling(self, tables: Iterable[Table]) -> Iterator[Table]:
        n_rows = 0
        for table in tables:
            yield table
            n_rows += table.n_rows
            self.told(table.n_rows)
        if not n_rows:
            raise TableError(f"{self.source}: the table has columns, but no row of data.")

    def __iter__(self) -> Iterator[Table]:
        return self.batches(self._content.names)

    def batches(self, names: Collection[str]) -> Iterator[Table]:
        """Give these columns alone, and maybe others: the others need not be decoded."""
        if self._kept is not None:
            return self._telling(self._kept)
        return self._telling(self._content.tables([name for name in self._content.names if name in names]))

    def whole(self) -> Table:
        """Return all rows as one table in memory."""
        return replace(self.header, data=pa.concat_tables(table.data for table in self))


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
            'with .gz or .bz2). Give format="csv" or format="parquet". Another format has to be saved as one of these; '
            "LIBSVM text, which has no named columns, is read in Python, with sklearn.datasets.load_svmlight_file."
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
    table, query : str or None, default=None
        Of a database: the name of a table, or a query that ends with ``ORDER BY``.

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
) -> BatchedTable:
    """Open a table with named columns, whose rows are then read some at a time; see `read_table`.

    ``most_rows``: in a table.

    Raises TableError if the file is missing, empty, or does not start like a table. Its rows are looked at when they
    are read.
    """
    database = Database.of(path)
    if database is not None:
        if skip_rows or format is not None:
            raise ParameterError("skip_rows and format are for files: a database has neither lines nor a format.")
        rows = DatabaseRows(database, table, query, most_rows)
        return BatchedTable(rows, rows.source)
    if table is not None or query is not None:
        raise ParameterError(f"{path}: table and query are for databases (postgresql://..., duckdb:///FILE).")
    path = Path(str(path))
    kind = file_format(path, chosen=format)
    if kind == "parquet":
        if skip_rows:
            raise ParameterError("skip_rows is for text tables: a Parquet file has no lines.")
        return BatchedTable(ParquetRows(path, most_rows), str(path))
    layout = layout or Layout()
    delimiter = layout.delimiter or ("\t" if ".tsv" in path.suffixes else ",")
    text = CsvText(
        Source(path), layout, delimiter, skip_rows=skip_rows, names=names, may_lack=may_lack, most_rows=most_rows
    )  # fmt: skip
    return BatchedTable(text, str(path))
