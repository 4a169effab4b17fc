"""Parquet files as tables of some ten thousand rows, one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

from sottovoce._optional import pa
from sottovoce.exceptions import TableError
from sottovoce.tables.table import Table, refuse_repeated_names
from sottovoce.tables.text import COMPRESSIONS, Source, first_line, unreadable

_BATCH_BYTES = 1 << 22
_TEXT_BYTES = 16
_BUFFER_BYTES = 1 << 16  # of each column while it is read; without it (and pre_buffer=False) a row group is read whole


class ParquetRows:
    """The columns of a Parquet file, and its rows, some at a time.

    ``most_rows``: of a table.

    Raises TableError if it is no Parquet file.
    """

    def __init__(self, source: Source, most_rows: int) -> None:
        self._source, self.size = source, source.size
        path = source.path
        if path.suffix.lower() in COMPRESSIONS:
            raise TableError(f"{path}: a Parquet file is compressed inside. Unpack it first.")
        if source.size == 0:
            raise TableError(f"{path}: the file is empty.")
        with self._opened() as file:
            refuse_repeated_names(file.schema_arrow.names, str(path))
            self.header = Table.of_rows(file.schema_arrow.empty_table(), str(path))
            self.names = list(self.header.column_names)
            self.n_rows, self.counted = None, self.names  # all are decoded: a file that is damaged is refused
            n_rows = file.metadata.num_rows
            decoded = sum(map(_width, file.schema_arrow.types))
            groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
            stored = max((group.total_byte_size / max(group.num_rows, 1) for group in groups), default=0.0)
            self._batch_rows = max(1, min(most_rows, int(_BATCH_BYTES / max(decoded, stored, 1.0))))
        if n_rows == 0:
            raise TableError(f"{path}: the table has columns, but no row of data.")

    def tables(self, columns: Sequence[str]) -> Iterator[Table]:
        self._source.refuse_changed()
        first_row = 0
        with self._opened() as file:
            for batch in file.iter_batches(self._batch_rows, columns=list(columns), use_threads=False):
                yield Table.of_rows(pa.Table.from_batches([batch]), str(self._source.path), first_row)
                first_row += batch.num_rows
        self._source.refuse_changed()

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        path, hint = self._source.path, ' Give format="..." if it is of another format.'
        try:
            with closing(self._source.open()) as file, opened_parquet(path, file, hint=hint) as parquet:
                yield parquet
        except OSError as error:
            raise unreadable(path, error) from None


def _width(kind: Any) -> float:
    return kind.bit_width / 8 if pa.types.is_primitive(kind) else _TEXT_BYTES


@contextmanager
def opened_parquet(
    shown: object, file: Any, filesystem: Any = None, *, here: bool = True, hidden: Callable[[str], str] = str,
    hint: str = "",
) -> Iterator[Any]:  # fmt: skip
    """Open a Parquet file, or its path: here so that large row groups are decoded a page at a time, elsewhere ahead.

    ``hidden``: what is kept out of errors about ``shown``.
    """
    try:
        with pa.parquet.ParquetFile(
            file, filesystem=filesystem, buffer_size=_BUFFER_BYTES if here else 0, pre_buffer=not here
        ) as parquet:
            yield parquet
    except UnicodeDecodeError:
        raise TableError(f"{shown}: cannot be read as Parquet: the name of a column is not UTF-8 text.") from None
    except (pa.ArrowException, OSError) as error:
        raise TableError(f"{shown}: cannot be read as Parquet: {first_line(hidden(str(error)))}{hint}") from None
