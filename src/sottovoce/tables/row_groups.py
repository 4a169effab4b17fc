"""Row groups of Parquet files, as the files were when they were opened: found, cut into parts, read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import Any, Self

from sottovoce.central.data.streamed import StreamedTable
from sottovoce.exceptions import TableError
from sottovoce.tables.addresses import DataFile, Stamp
from sottovoce.tables.parquet_rows import opened_parquet

_AT_ONCE = 16  # footers that are read at the same time


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
            refuse_changed(own[0])


def row_groups(files: Sequence[DataFile], check: Callable[[Any, DataFile], None]) -> list[RowGroup]:
    """Look at the footers of files, at no value.

    ``check``: gets the Arrow schema of each file, and the file; refuses what cannot be used.
    """

    def look(file: DataFile) -> list[RowGroup]:
        stamp = file.stamp()
        with opened(file) as parquet:
            known = parquet.metadata
            check(parquet.schema_arrow, file)
            sizes = [known.row_group(number).num_rows for number in range(known.num_row_groups)]
            firsts = accumulate(sizes, initial=0)
            return [
                RowGroup(file, stamp, known.num_rows, number, size, first)
                for number, (size, first) in enumerate(zip(sizes, firsts, strict=False))
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


def batches(
    own: Sequence[RowGroup], names: Sequence[str], batch_rows: int, *, use_threads: bool = True
) -> Iterator[Any]:
    """Read some columns of some row groups of one file, in order; refuse a file that changed, before and after."""
    first, numbers = own[0], [group.number for group in own]
    refuse_changed(first)
    with opened(first.file) as file:
        if file.metadata.num_rows != first.rows_of_file:
            raise _changed(first.file)
        # what comes over a network is fetched a row group at a time, in few and large requests
        for some in [numbers] if first.file.is_local else [[number] for number in numbers]:
            yield from file.iter_batches(batch_rows, row_groups=some, columns=list(names), use_threads=use_threads)
    refuse_changed(first)


def refuse_changed(piece: RowGroup) -> None:
    """Refuse a file that is not what it was, by what its store says of it."""
    if piece.file.stamp()[: len(piece.stamp)] != piece.stamp:
        raise _changed(piece.file)


def opened(source: DataFile) -> AbstractContextManager[Any]:
    """Open a Parquet file; whatever goes wrong inside is told as an error about it."""
    return opened_parquet(source, source.path, source.filesystem, here=source.is_local, hidden=source.hidden)


def _changed(file: DataFile) -> TableError:
    return TableError(
        f"{file}: the file is not the one that was opened (another size, date or number of rows). Training reads it "
        "many times and is private only if it is the same each time: make a new ParquetTable, and let its files be."
    )
