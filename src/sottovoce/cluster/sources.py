"""Where the rows of a partition come from: row groups that a worker reads once, to memory or to its scratch disk."""

import hashlib
import socket
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import uuid4
from weakref import WeakValueDictionary

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sottovoce._validation import choice, whole_number
from sottovoce.central.data.streamed import ScratchTable, joined
from sottovoce.exceptions import TableError
from sottovoce.tables.parquet import ParquetTable

STORAGES: Final = ("memory", "scratch")

_A_WORKER: Final = 6  # partitions: when it dies, others share them
_REMEMBERED: Final = 56  # bytes of what a fit remembers of a row: its label, its scale, dual variables
_SHARE: Final = 0.5  # of a worker's memory that rows may fill; the rest is for those of a worker that dies


@dataclass(frozen=True)
class LoadedRows:
    """The rows of one partition, in the worker that holds them. It is never sent anywhere."""

    raw: Any  # ndarray, CSR matrix or StreamedTable of shape (n_rows, n_features)
    # As they are in the table: numbers, booleans or texts. None where the table names no target.
    labels: NDArray[Any] | None
    # Fingerprint of the decoded rows, their labels, the names of the columns and the type of the entries. A rebuilt
    # partition must have the same one, or it is not the same rows.
    digest: str
    n_rows: int

    def close(self) -> None:
        close = getattr(self.raw, "close", None)
        if close is not None:
            close()


class RowsDigest:
    """Takes rows block by block, however they are cut, then their labels.

    ``names``: of the columns.
    """

    def __init__(self, names: tuple[str, ...], shape: tuple[int, int], dtype: Any) -> None:
        self._hash = hashlib.blake2b(repr((tuple(names), tuple(shape), str(dtype))).encode(), digest_size=16)

    def add(self, piece: NDArray[Any]) -> None:
        self._hash.update(np.ascontiguousarray(piece).view(np.uint8).data)

    def add_rows(self, rows: Any) -> None:
        for piece in (rows.data, rows.indices, rows.indptr) if hasattr(rows, "indptr") else (rows,):
            self.add(piece)

    def add_labels(self, labels: NDArray[Any] | None) -> None:
        if labels is not None:
            self._hash.update(str(labels.dtype).encode())
            self.add(labels if labels.dtype != object else np.frombuffer(repr(labels.tolist()).encode(), np.uint8))

    @property
    def value(self) -> str:
        return self._hash.hexdigest()


class Source:
    """Rows of one partition, before they are read: it can be sent to a worker, and holds no open file.

    What the driver knows of them before is public, and no worker is asked for it.

    ``table``: these row groups; pickled without rows, and read where it arrives.
    ``storage``, {"memory", "scratch"}: whether the worker keeps the rows in memory or on its scratch disk.
    ``first_row``: place of the first row in the whole table, for messages.
    """

    storage: str = "memory"

    def __init__(self, table: ParquetTable, storage: str) -> None:
        self.table, self.storage, self.first_row = table, storage, table.first_row
        self.shape, self.dtype, self.has_labels = table.shape, table.dtype, table.has_labels
        self.entries_a_row = table.entries_a_row

    def __repr__(self) -> str:
        first, *others = self.table.files
        return f"{self.n_rows} rows from row {self.first_row} on, of {first}{f' to {others[-1]}' if others else ''}"

    @property
    def n_rows(self) -> int:
        return self.shape[0]

    @property
    def n_bytes(self) -> int:
        """How much memory the rows take at most, where they are held."""
        return self.n_rows * self.entries_a_row * self.dtype.itemsize if self.storage == "memory" else 0

    @property
    def key(self) -> str:
        """Name of these rows, the same in every process that the source was sent to."""
        key: str = self.__dict__.setdefault("_key", uuid4().hex)
        return key

    def __getstate__(self) -> dict[str, Any]:
        assert self.key
        return self.__dict__

    def load(self, scratch: Path | None) -> LoadedRows:
        """Read the rows, in the worker, once; a second call gives the same rows, or raises.

        ``scratch``: folder on the worker's disk where a private folder may be made; None: where temporary files are.

        Raises DataError if the rows cannot be read, or are not those that the table was opened with.
        """
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
        """Return the rows for one look at them in order, where nobody holds them; they are not kept, nor hashed."""
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
        whole = joined((block for block, _ in blocks), table.shape, table.dtype, is_sparse=table.has_sparse_rows)
        return sp.csr_array(whole) if table.has_sparse_rows else whole


def partitions_of(
    table: ParquetTable, memory_limits: Sequence[int], partitions: int | None = None, storage: str | None = None
) -> list[Source]:
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
    return [Source(part, chosen) for part in table.split(partitions or _A_WORKER * max(1, len(memory_limits)))]


def storage_for(n_rows: int, n_features: int, dtype: np.dtype[Any], memory_limits: Sequence[int]) -> str:
    """Return "memory" if half of the workers' memory holds all rows with what is remembered of them, else "scratch"."""
    if not all(memory_limits):
        return "memory"
    return "memory" if n_rows * bytes_a_row(n_features, dtype) <= _SHARE * sum(memory_limits) else "scratch"


def bytes_a_row(n_features: int, dtype: np.dtype[Any]) -> int:
    return n_features * dtype.itemsize + _REMEMBERED


_HELD: Final[WeakValueDictionary[str, LoadedRows]] = WeakValueDictionary()


def load(source: Source, scratch: Path | None) -> LoadedRows:
    """Read the rows of a source, and let whoever looks for them in this process find them while they are held."""
    loaded = source.load(scratch)
    _HELD[source.key] = loaded
    return loaded


def held(source: Source) -> LoadedRows | None:
    return _HELD.get(source.key)
