"""Row groups of Parquet files, as the files were when they were opened: found, cut into parts, read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from itertools import accumulate, groupby
from pathlib import Path
from typing import Any, Final, Self

from sottovoce._optional import pa
from sottovoce.central.data.streamed import StreamedTable
from sottovoce.exceptions import TableError
from sottovoce.tables.addresses import DataFile, Stamp, file_here, words_of
from sottovoce.tables.table import Table, refuse_repeated_names
from sottovoce.tables.text import COMPRESSIONS, changed, unreadable

_AT_ONCE: Final = 16  # footers that are read at the same time
_BATCH_BYTES: Final = 1 << 22
_TEXT_BYTES: Final = 16
# of each column while it is read; without it (and pre_buffer=False) a row group is read whole
_BUFFER_BYTES: Final = 1 << 16


@dataclass(frozen=True)
class RowGroup:
    """One row group of a file."""

    file: DataFile
    # what the store said of the file; once sent to another machine, without what a machine says of its own disks
    stamp: Stamp
    rows_of_file: int
    number: int
    n_rows: int
    first_row: int  # place in the file of the first of them
    n_bytes: int  # that they take, decompressed

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "stamp": self.file.portable(self.stamp)}


class CutTable(StreamedTable):
    """A table that is read from row groups, and can be cut between them."""

    def _of(self, pieces: Sequence[RowGroup]) -> None:
        self._pieces, self._n_rows = pieces, sum(piece.n_rows for piece in pieces)

    @property
    def entries_a_row(self) -> int:
        """How many entries a row takes in memory at most."""
        return self.shape[1]

    @property
    def is_local(self) -> bool:
        """Whether all files are paths of this machine."""
        return all(piece.file.is_local for piece in self._pieces)

    @property
    def files(self) -> tuple[str, ...]:
        """Paths and addresses of the files, in order, as messages show them."""
        return tuple(dict.fromkeys(piece.file.shown for piece in self._pieces))

    def split(self, parts: int) -> list[Self]:
        """Cut the table into consecutive ones of about as many rows each, between row groups of its files.

        Parameters
        ----------
        parts : int
            How many are wanted, at least 1; there are fewer where there are fewer row groups.

        Returns
        -------
        list of tables
            None without rows. Their files are not opened again, and are refused where they have changed since. Each
            can be pickled and read by a process that reaches the files; its `first_row` is its place in the whole.
        """
        tables, first = [], self.first_row
        for pieces in _cut(self._pieces, parts):
            table = copy(self)
            table.first_row = first
            table._of(pieces)
            first += table._n_rows
            tables.append(table)
        return tables

    def refuse_changed(self) -> None:
        """Refuse a file that is not what it was when the table was opened, by what its store says of it.

        Raises
        ------
        TableError
        """
        for own in by_file(self._pieces):
            own[0].file.refuse_changed(own[0].stamp)


def row_groups(files: Sequence[DataFile], check: Callable[[Any, DataFile], None]) -> list[RowGroup]:
    """Look at the footers of files, at no value.

    ``check``: gets the Arrow schema of each file, and the file; refuses what cannot be used.
    """

    def look(file: DataFile) -> list[RowGroup]:
        stamp = file.stamp()
        with opened(file) as parquet:
            known = parquet.metadata
            check(parquet.schema_arrow, file)
            groups = [known.row_group(number) for number in range(known.num_row_groups)]
            firsts = accumulate((group.num_rows for group in groups), initial=0)
            return [
                RowGroup(file, stamp, known.num_rows, number, group.num_rows, first, group.total_byte_size)
                for number, (group, first) in enumerate(zip(groups, firsts, strict=False))
            ]

    with ThreadPoolExecutor(min(_AT_ONCE, len(files)), thread_name_prefix="sottovoce-footers") as threads:
        found = [group for own in (threads.map(look, files) if len(files) > 1 else map(look, files)) for group in own]
    if not any(each.n_rows for each in found):
        raise TableError(f"{files[0]}: the table has columns, but no row of data.")
    return found


def _cut(pieces: Sequence[RowGroup], parts: int) -> list[list[RowGroup]]:
    """Cut row groups into consecutive parts of about as many rows each; fewer where there are fewer row groups."""
    total = sum(piece.n_rows for piece in pieces)
    by_part: dict[int, list[RowGroup]] = {}
    done = 0
    for group in pieces:
        if group.n_rows:
            # it goes to the part that its middle falls into, so that parts differ by a group at most
            by_part.setdefault((2 * done + group.n_rows) * parts // (2 * total), []).append(group)
            done += group.n_rows
    return list(by_part.values())


def by_file(pieces: Sequence[RowGroup]) -> Iterator[list[RowGroup]]:
    """Yield the row groups of one file after another."""
    return (list(own) for _, own in groupby(pieces, lambda piece: id(piece.file)))


def tables(
    pieces: Sequence[RowGroup], names: Sequence[str], batch_rows: int, *, use_threads: bool = False
) -> Iterator[Table]:
    """Read some columns of row groups, in order; refuse a file that changed, before and after.

    Each table knows where its rows are in their file.
    """
    for own in by_file(pieces):
        first, numbers, row = own[0], [group.number for group in own], own[0].first_row
        first.file.refuse_changed(first.stamp)
        with opened(first.file) as file:
            if file.metadata.num_rows != first.rows_of_file:
                raise changed(first.file)
            # what comes over a network is fetched a row group at a time, in few and large requests
            for some in [numbers] if first.file.is_local else [[number] for number in numbers]:
                for batch in file.iter_batches(
                    batch_rows, row_groups=some, columns=list(names), use_threads=use_threads
                ):
                    yield Table.of_rows(pa.Table.from_batches([batch]), first.file.shown, row)
                    row += batch.num_rows
        first.file.refuse_changed(first.stamp)


@contextmanager
def opened(source: DataFile) -> Iterator[Any]:
    """Open a Parquet file; whatever goes wrong inside is told as an error about it.

    Here large row groups are decoded a page at a time, elsewhere ahead.
    """
    buffer, ahead, path = 0, True, source.path
    if source.is_local:  # Arrow takes a:b for an address, unless it begins with a slash
        buffer, ahead, path = _BUFFER_BYTES, False, str(Path(path).absolute())
    try:
        with pa.parquet.ParquetFile(path, filesystem=source.filesystem, buffer_size=buffer, pre_buffer=ahead) as file:
            yield file
    except UnicodeDecodeError:
        raise TableError(f"{source}: cannot be read as Parquet: the name of a column is not UTF-8 text.") from None
    except (pa.ArrowException, OSError) as error:
        if source.is_local and getattr(error, "errno", None):
            raise unreadable(Path(source.path), error) from None
        raise TableError(f"{source}: cannot be read as Parquet: {words_of(error)}") from None


class ParquetRows:
    """The columns of a Parquet file, and its rows, some at a time.

    ``most_rows``: of a table.

    Raises TableError if it is no Parquet file.
    """

    def __init__(self, path: Path, most_rows: int) -> None:
        if path.suffix.lower() in COMPRESSIONS:
            raise TableError(f"{path}: a Parquet file is compressed inside. Unpack it first.")
        if path.is_fifo():
            raise TableError(f"{path}: a Parquet file is read from its end. Give a file, or CSV through a pipe.")
        file = file_here(path)
        self.size = file.stamp()[0]
        if self.size == 0:
            raise TableError(f"{path}: the file is empty.")
        self._pieces = row_groups([file], self._look)
        stored = max(piece.n_bytes / max(piece.n_rows, 1) for piece in self._pieces)
        self._batch_rows = max(1, min(most_rows, int(_BATCH_BYTES / max(self._width, stored))))

    def _look(self, schema: Any, file: DataFile) -> None:
        refuse_repeated_names(schema.names, str(file))
        self.header = Table.of_rows(schema.empty_table(), str(file))
        self.names = list(schema.names)
        self.counted = self.names  # all are decoded: a file that is damaged is refused
        self._width = sum(kind.bit_width / 8 if pa.types.is_primitive(kind) else _TEXT_BYTES for kind in schema.types)

    def tables(self, columns: Sequence[str]) -> Iterator[Table]:
        return tables(self._pieces, columns, self._batch_rows)
