"""ScratchTable: encoded rows that are kept on scratch disk, once, and read from there in each pass."""

from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sottovoce.central.data.row_memory import OnDisk, RowMemory
from sottovoce.central.data.scratch import ScratchFile
from sottovoce.central.data.streamed import StreamedTable, is_sparse
from sottovoce.exceptions import ParameterError

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

    def label_blocks(self) -> Generator[tuple[slice, NDArray[Any]]]:
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
