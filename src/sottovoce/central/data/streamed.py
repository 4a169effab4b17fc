"""Tables that are no matrix in memory: rows on disk, read in blocks, once for each pass; and rows that are elsewhere.

Rows may go through a step block by block, each time that they are read: nothing is written.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sottovoce.central.data.row_memory import OnDisk, RowMemory
from sottovoce.central.data.scratch import ScratchFile
from sottovoce.central.parallel import default_threads
from sottovoce.exceptions import DataError, ParameterError

if TYPE_CHECKING:
    from sottovoce.central.data.operation import Holder


class OutsideTable(ABC):
    """Rows on disk or in other processes: sizes, type and names are known, values come when a fit asks."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Public numbers of rows and of columns."""

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[Any]:
        """Type of the entries: float32 or float64."""

    @property
    @abstractmethod
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns, in order; none where columns have no names."""

    @property
    @abstractmethod
    def has_labels(self) -> bool:
        """Whether the table names its target."""

    @property
    def groups(self) -> "Callable[[], Any] | None":
        """What returns the person of each row, where the table can tell."""
        return None

    @property
    def size(self) -> int:
        """Number of entries."""
        return self.shape[0] * self.shape[1]

    def __len__(self) -> int:
        return self.shape[0]


class RemoteTable(OutsideTable):
    """Rows, and their labels, that stay where they are: a fit asks their holder.

    There is no y beside it, and no other value for each row: a row's label is in the same place as the row.
    """

    @abstractmethod
    def opened(self) -> "AbstractContextManager[Holder]":
        """Open the table for one fit: its parts have raw labels (`Part.labels`), and nothing else is remembered yet."""

    @abstractmethod
    def predicted(self, model: Any, method: str) -> Any:
        """Return what a method of a fitted model says of each row, as an array that is made when it is asked for."""

    @abstractmethod
    def counted(self, model: Any, method: str) -> Sequence[Any]:
        """Return what a method of a fitted model says of each part of the rows and of their labels together, now."""


class StreamedTable(OutsideTable):
    """A matrix that need not fit into memory.

    Subclasses read; this class checks the shape of what comes and reads ahead: the next block is made on a thread of
    its own while the current one is worked on. Two blocks are in memory at any time, besides what the reader holds.
    """

    # where the rows are in a larger table, for messages and for sums of products that are rounded as those of the whole
    first_row: int = 0
    # folder of what a fit has to write down; None: where temporary files are
    scratch: "str | Path | None" = None
    has_sparse_rows: bool = False  # whether blocks are CSR

    @property
    def whole_rows(self) -> int:
        """Number of rows of that larger table."""
        return self.first_row + self.shape[0]

    @property
    def has_labels(self) -> bool:
        """Whether the table names its target; `labels` says what to do if not."""
        return True

    @abstractmethod
    def labels(self) -> NDArray[Any]: ...

    def label_blocks(self, *, missing: bool = False) -> Generator[tuple[slice, NDArray[Any]]]:
        """Yield the target of consecutive rows; tables that can read it piece by piece do.

        ``missing``: whether a table that can miss labels yields None for them, and refuses none.
        """
        yield slice(0, self.shape[0]), self.labels()

    def row_memory(self, n_rows: int) -> RowMemory:
        """Return where a fit remembers what belongs to each row: memory, unless the table knows a disk for it."""
        return RowMemory(n_rows)

    @abstractmethod
    def _read(self, n_threads: int) -> Generator[Any]:
        """Read the table once: yield fresh blocks of rows, of any sizes, in order: C-contiguous arrays, or CSR.

        It must yield the same rows each time, or raise: the solvers rely on it for the privacy of the result.
        """

    def blocks(self, n_threads: int | None = None, ahead: Executor | None = None) -> Generator[tuple[slice, Any]]:
        """Read the table once, in order.

        Parameters
        ----------
        n_threads : int or None
            Threads for decoding; None means ``SOTTOVOCE_NUM_THREADS``, else all processors of this process.
        ahead : Executor or None
            Makes the next block while the current one is used. None starts a thread for it; for many passes one and
            the same is better, because memory allocators keep some memory for each thread that there was.

        Yields
        ------
        slice
            The rows of the block.
        ndarray or CSR matrix of shape (n_rows_of_the_block, n_columns)
            C-contiguous, or in canonical form.

        Raises
        ------
        DataError
            If the table cannot be read, or is not the one that was opened.
        """
        if ahead is None:
            with ThreadPoolExecutor(1, thread_name_prefix="sottovoce-ahead") as own:
                yield from self.blocks(n_threads, own)
            return
        reader = self._read(default_threads() if n_threads is None else n_threads)
        coming = ahead.submit(next, reader, None)
        start = 0
        try:
            while (block := coming.result()) is not None:
                coming = ahead.submit(next, reader, None)
                place = slice(start, start + block.shape[0])
                start = place.stop
                yield place, block
        finally:
            wait([coming])
            reader.close()
        if start != self.shape[0]:
            raise DataError(f"{self!r} gave {start} rows: it changed while it was read.")

    def finite_blocks(self, n_threads: int | None = None) -> Generator[tuple[slice, Any]]:
        """Read the table as `blocks` does, and refuse the first entry that is NaN or infinite.

        Raises
        ------
        DataError
            Naming the row and the column.
        """
        with closing(self.blocks(n_threads)) as blocks:
            for place, block in blocks:
                finite = np.isfinite(block.data if is_sparse(block) else block)
                if not finite.all():
                    at = int(np.argmin(_by_row(block, finite)))
                    raise DataError(
                        not_finite(_dense_row(block, at), self.first_row + place.start + at, self.feature_names or None)
                    )
                yield place, block

    def row(self, number: int) -> NDArray[Any]:
        """Return one row; reads the table up to it."""
        with closing(self.blocks()) as blocks:
            for place, block in blocks:
                if number < place.stop:
                    return _dense_row(block, number - place.start)
        raise IndexError(number)


def is_sparse(block: Any) -> bool:
    return bool(sp.issparse(block))


def _by_row(block: Any, good: NDArray[np.bool_]) -> NDArray[np.bool_]:
    if not is_sparse(block):
        return np.asarray(good.all(axis=1))
    rows = np.ones(block.shape[0], np.bool_)
    rows[np.repeat(np.arange(block.shape[0]), np.diff(block.indptr))[~good]] = False
    return rows


def _dense_row(block: Any, at: int) -> NDArray[Any]:
    row: NDArray[Any] = block[[at], :].toarray().ravel() if is_sparse(block) else block[at].copy()
    return row


def not_finite(values: NDArray[Any], row: int, names: "tuple[str, ...] | list[str] | None") -> str:
    column = int(np.flatnonzero(~np.isfinite(values))[0])
    kind = "NaN" if np.isnan(values[column]) else "infinity"
    name = f"column {names[column]!r}" if names is not None else f"column {column}"
    return f"Input X contains {kind}: row {row}, {name}."


class SteppedTable(StreamedTable):
    """The rows of another table after a step that treats each row by itself; its labels are beside them.

    ``step``: from some rows to as many. What comes of a row of ones says how many columns there are, and of what type.
    """

    # known at once, where others have to look
    shape: tuple[int, int] = (0, 0)
    dtype: np.dtype[Any] = np.dtype(np.float64)
    feature_names: tuple[str, ...] = ()  # columns are no longer those of the table
    whole_rows: int = 0
    has_labels: bool = False

    def __init__(self, table: StreamedTable, step: Callable[[Any], Any]) -> None:
        self._table, self._step = table, step
        self.first_row, self.whole_rows = table.first_row, table.whole_rows
        self.scratch, self.has_labels = table.scratch, table.has_labels
        like = rows_after(step, np.ones((1, table.shape[1]), table.dtype))
        self.shape, self.dtype, self.has_sparse_rows = (table.shape[0], like.shape[1]), like.dtype, is_sparse(like)

    def __repr__(self) -> str:
        return f"{self._table!r}, after a step"

    @property
    def groups(self) -> "Callable[[], Any] | None":
        return self._table.groups

    def labels(self) -> NDArray[Any]:
        return self._table.labels()

    def label_blocks(self, *, missing: bool = False) -> Generator[tuple[slice, NDArray[Any]]]:
        return self._table.label_blocks(missing=missing)

    def row_memory(self, n_rows: int) -> RowMemory:
        return self._table.row_memory(n_rows)

    def _read(self, n_threads: int) -> Generator[Any]:
        with closing(self._table._read(n_threads)) as blocks:
            for block in blocks:
                rows = rows_after(self._step, block)
                if rows.shape[1] != self.shape[1]:
                    raise DataError(
                        f"a step made {rows.shape[1]} columns of some rows, and {self.shape[1]} of a row of ones: "
                        "it does not treat each row by itself."
                    )
                yield rows.astype(self.dtype, copy=False)


def rows_after(step: Callable[[Any], Any], rows: Any) -> Any:
    """Return what a step makes of some rows, as kernels take it: C-contiguous floats, or canonical CSR."""
    with np.errstate(all="ignore"):  # a warning of a quotient by 0, say, would tell of a row
        made = step(rows) if rows.shape[0] else step(np.ones((1, rows.shape[1]), rows.dtype))[:0]
    if made.shape[0] != rows.shape[0]:
        raise DataError(f"a step made {made.shape[0]} rows of {rows.shape[0]}: it does not treat each row by itself.")
    dtype = made.dtype if made.dtype in (np.float32, np.float64) else np.dtype(np.float64)
    if not is_sparse(made):
        return np.ascontiguousarray(made, dtype)
    made = sp.csr_array(made.astype(dtype, copy=False))
    made.sum_duplicates()
    return made


BLOCK_BYTES = 1 << 22  # of a block of rows; two or three are in memory at any time

_LABELS = 1 << 16  # read at once


class ScratchTable(StreamedTable):
    """Rows and labels on scratch disk; what is remembered of each row during a fit is there too.

    Made once from batches of rows, dense or CSR, by `write`. Blocks are the same in each pass. Estimators take it in
    place of X and release the same model, bit by bit, as for the same rows in memory.

    ``dtype``: float32 or float64.
    ``folder``: where the files take their room; None: where temporary files are.
    """

    dtype: np.dtype[Any] = np.dtype(np.float64)
    feature_names: tuple[str, ...] = ()  # these are encoded rows

    def __init__(self, n_features: int, dtype: Any = np.float64, folder: "str | Path | None" = None) -> None:
        self._n_features, self.scratch = n_features, folder
        self.dtype = np.dtype(dtype)
        self._rows, self._labels = ScratchFile(folder), ScratchFile(folder)
        self._blocks: list[tuple[int, int | None]] = []  # rows of each block, and entries where it is CSR
        self._kind: np.dtype[Any] | None = None  # of labels
        self._n_rows, self._n_labels = 0, 0

    @classmethod
    def write(
        cls,
        batches: Iterable[tuple[Any, Any]],
        n_features: int,
        dtype: Any = np.float64,
        folder: "str | Path | None" = None,
    ) -> Self:
        """Return the table of these batches of rows and labels (None: no labels), one after another.

        Raises StorageError if the disk is full; its room is given back.
        """
        table = cls(n_features, dtype, folder)
        try:
            for X, y in batches:
                table.add(X, y)
        except BaseException:
            table.close()
            raise
        return table

    def add(self, X: Any, y: Any = None) -> None:
        n_rows = int(X.shape[0])
        if X.shape[1] != self._n_features or (y is not None and len(y) != n_rows):
            raise ParameterError(f"rows of {self._n_features} features, and a label each; got {X.shape}.")
        for block in _blocks_of(X, self.dtype):
            if is_sparse(block):
                self.has_sparse_rows = True
                for part in (block.indptr.astype(np.int32), block.indices.astype(np.int32), block.data):
                    self._rows.write(part)
                self._blocks.append((block.shape[0], int(block.nnz)))
            else:
                self._rows.write(block)
                self._blocks.append((block.shape[0], None))
        self._n_rows += n_rows
        if y is not None:
            y = np.asarray(y)
            if self._kind is None:
                self._kind = y.dtype
            self._labels.write(np.asarray(y, self._kind))
            self._n_labels += n_rows

    def __repr__(self) -> str:
        return f"ScratchTable({self._n_rows} rows x {self._n_features} columns)"

    @property
    def shape(self) -> tuple[int, int]:
        return self._n_rows, self._n_features

    @property
    def has_labels(self) -> bool:
        return self._n_labels == self._n_rows

    def labels(self) -> NDArray[Any]:
        return self._labels_at(0, self._n_rows)

    def label_blocks(self, *, missing: bool = False) -> Generator[tuple[slice, NDArray[Any]]]:
        for start in range(0, self._n_rows, _LABELS):
            place = slice(start, min(start + _LABELS, self._n_rows))
            yield place, self._labels_at(place.start, place.stop)

    def row_memory(self, n_rows: int) -> RowMemory:
        return OnDisk(n_rows, self.scratch)

    def close(self) -> None:
        self._rows.close()
        self._labels.close()

    def _labels_at(self, start: int, stop: int) -> NDArray[Any]:
        if self._kind is None or not self.has_labels:
            raise ParameterError("y is missing: the rows came without labels.")
        return self._labels.read(start * self._kind.itemsize, stop - start, self._kind)

    def _read(self, n_threads: int) -> Generator[Any]:
        at = 0
        for n_rows, n_entries in self._blocks:
            if n_entries is None:
                block = self._rows.read(at, n_rows * self._n_features, self.dtype)
                at += block.nbytes
                yield block.reshape(n_rows, self._n_features)
                continue
            parts = []
            for count, kind in ((n_rows + 1, np.int32), (n_entries, np.int32), (n_entries, self.dtype)):
                parts.append(self._rows.read(at, count, kind))
                at += parts[-1].nbytes
            indptr, indices, data = parts
            entries: Any = (data, indices, indptr)
            yield sp.csr_array(entries, shape=(n_rows, self._n_features), copy=False)


def joined(blocks: Iterable[Any], shape: tuple[int, int], dtype: Any, *, is_sparse: bool) -> Any:
    """Return consecutive blocks of rows as one matrix in memory: no copy of the whole is made."""
    if is_sparse:
        return sp.csr_matrix(sp.vstack(list(blocks), format="csr"))
    whole, start = np.empty(shape, dtype), 0
    for block in blocks:
        whole[start : start + len(block)] = block
        start += len(block)
    return whole


def _blocks_of(X: Any, dtype: np.dtype[Any]) -> Generator[Any]:
    """Cut rows into blocks of bounded size: C-contiguous arrays, or canonical CSR."""
    if is_sparse(X):
        X = sp.csr_array(X.astype(dtype, copy=False))
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        width = 4 + (4 + dtype.itemsize) * X.nnz / max(1, X.shape[0])
    else:
        X = np.ascontiguousarray(X, dtype)
        width = float(dtype.itemsize * X.shape[1])
    most = max(1, int(BLOCK_BYTES / width))
    for lo in range(0, X.shape[0], most):
        yield X[lo : lo + most]
