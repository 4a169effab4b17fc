"""BatchedTable: the rows of a file in order, some at a time, so that no file is too large."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Protocol

from sottovoce._optional import pa
from sottovoce.tables.table import Cells, Table

__all__ = ["KEPT_BYTES", "MOST_ROWS", "BatchedTable"]

MOST_ROWS = 1 << 16
KEPT_BYTES = 1 << 24


class _Content(Protocol):
    names: list[str]

    @property
    def header(self) -> Any: ...

    def only(self, names: Collection[str]) -> None: ...

    def tables(self) -> Iterator[Table]: ...

    def line(self, row: int) -> str: ...


class BatchedTable:
    """The columns of a file whose rows are read some at a time, in order, as often as they are asked for.

    ``for table in batched`` gives tables of at most 65,536 rows and about 4 MiB of text. Each knows its first row
    (``first_row``), and its messages name the lines of the file. Opening reads the start of the file.

    Parameters
    ----------
    content
        What reads the file.
    source : str
        Name of the file, for messages.

    Notes
    -----
    A file that changes between two readings is refused. A table of at most 16 MiB is kept by the first reading of
    `n_rows`, and is not read again.
    """

    def __init__(self, content: _Content, source: str) -> None:
        self.source = source
        self.header = Table(content.header, source, content.line)
        self._content = content
        self._n_rows: int | None = None
        self._kept: list[Table] | None = None

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of the columns, in the order of the file."""
        return tuple(self._content.names)

    def __contains__(self, name: object) -> bool:
        return name in self._content.names

    def cells(self, name: str) -> Cells:
        """Return the column ``name`` without a cell: its type, and the error that there is no such column."""
        return self.header.cells(name)

    def only(self, names: Collection[str]) -> None:
        """Give no other columns from now on: the others are not decoded, where the format allows it."""
        self._content.only(names)

    @property
    def n_rows(self) -> int:
        """The number of rows. The first time the file is read for it, and refused where it is no table.

        No value is looked at: what a cell means is not asked.
        """
        if self._n_rows is None:
            kept: list[Table] | None = []
            size = count = 0
            for table in self._content.tables():
                count += table.n_rows
                size += table.data.nbytes
                if kept is not None:
                    kept = None if size > KEPT_BYTES else [*kept, table]
            self._n_rows, self._kept = count, kept
        return self._n_rows

    @property
    def is_small(self) -> bool:
        """Whether the rows are kept in memory, after they were counted."""
        return self._kept is not None

    def __iter__(self) -> Iterator[Table]:
        return iter(self._kept) if self._kept is not None else self._content.tables()

    def whole(self) -> Table:
        """Return all rows as one table in memory."""
        data = pa.concat_tables(table.data for table in self)
        return Table(data, self.source, self._content.line)
