"""Partitions of Parquet files: row groups that a worker reads once, into memory or onto its scratch disk."""

import socket
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import numpy as np
import scipy.sparse as sp

from sottovoce._validation import choice, whole_number
from sottovoce.central.data.streamed import ScratchTable
from sottovoce.cluster.sources import LoadedRows, RowsDigest, Source
from sottovoce.exceptions import TableError
from sottovoce.tables.row_groups import CutTable

STORAGES: Final = ("memory", "scratch")

_A_WORKER: Final = 6  # partitions: when it dies, others share them
_REMEMBERED: Final = 56  # bytes of what a fit remembers of a row: its label, its scale, dual variables
_SHARE: Final = 0.5  # of a worker's memory that rows may fill; the rest is for those of a worker that dies


class ParquetSource(Source):
    """Some row groups of Parquet files.

    ``table``: these row groups; pickled without rows, and read where it arrives.
    ``storage``, {"memory", "scratch"}: whether the worker keeps the rows in memory or on its scratch disk.
    """

    def __init__(self, table: CutTable, storage: str) -> None:
        self.table, self.storage, self.first_row = table, storage, table.first_row
        self.shape, self.dtype, self.has_labels = table.shape, table.dtype, table.has_labels
        self.entries_a_row = table.entries_a_row

    def __repr__(self) -> str:
        first, *others = self.table.files
        return f"{self.n_rows} rows from row {self.first_row} on, of {first}{f' to {others[-1]}' if others else ''}"

    def load(self, scratch: Path | None) -> LoadedRows:
        """Read the rows; a file that is not what it was when the table was opened is refused."""
        table, labels = self.table, self.opened(scratch).labels
        digest = RowsDigest(table.feature_names, table.shape, table.dtype)

        def blocks() -> Iterator[tuple[Any, None]]:
            with closing(table.blocks()) as read:
                for _, block in read:
                    digest.add_rows(block)
                    yield block, None

        raw = self._kept(blocks(), scratch)
        digest.add_labels(labels)
        return LoadedRows(raw, labels, digest.value, table.shape[0])

    def opened(self, scratch: Path | None) -> LoadedRows:
        table = self.table
        for file in table.files if table.is_local else ():
            if not Path(file).exists():
                raise TableError(
                    f"{file}: a worker on {socket.gethostname()} finds no such file. A path must lead to the same file "
                    "on all machines (a shared disk); else give an address (s3://...)."
                )
        return LoadedRows(table, table.labels() if table.has_labels else None, "", table.shape[0])

    def _kept(self, blocks: Iterator[tuple[Any, None]], scratch: Path | None) -> Any:
        table = self.table
        if self.storage == "scratch":
            raw = ScratchTable.write(blocks, table.shape[1], table.dtype, scratch)
            raw.feature_names, raw.first_row = table.feature_names, table.first_row
            return raw
        if table.has_sparse_rows:
            return sp.csr_array(sp.vstack([block for block, _ in blocks], format="csr"))
        whole, start = np.empty(table.shape, table.dtype), 0
        for block, _ in blocks:
            whole[start : start + len(block)] = block
            start += len(block)
        return whole


def partitions_of(
    table: CutTable, memory_limits: Sequence[int], partitions: int | None = None, storage: str | None = None
) -> list[ParquetSource]:
    """Return the partitions of a table of which footers alone were read.

    ``memory_limits``: bytes that each worker may use; 0 where there is no limit.
    ``partitions``: how many are wanted; None: 6 a worker. There are fewer where files have fewer row groups.
    ``storage``: where workers keep rows, one of `STORAGES`; None: see `storage_for`.
    """
    if storage is not None:
        storage = choice("storage", storage, STORAGES)
    if partitions is not None:
        partitions = whole_number("partitions", partitions, at_least=1)
    chosen = storage or storage_for(table.shape[0], table.entries_a_row, table.dtype, memory_limits)
    return [ParquetSource(part, chosen) for part in table.split(partitions or _A_WORKER * max(1, len(memory_limits)))]


def storage_for(n_rows: int, n_features: int, dtype: np.dtype[Any], memory_limits: Sequence[int]) -> str:
    """Return "memory" if half of the workers' memory holds all rows with what is remembered of them, else "scratch"."""
    if not all(memory_limits):
        return "memory"
    return "memory" if n_rows * bytes_a_row(n_features, dtype) <= _SHARE * sum(memory_limits) else "scratch"


def bytes_a_row(n_features: int, dtype: np.dtype[Any]) -> int:
    return n_features * dtype.itemsize + _REMEMBERED
