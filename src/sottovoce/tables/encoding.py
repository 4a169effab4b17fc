"""From the columns of a table to the matrix that a model is trained on, row by row and by public facts alone."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse

from sottovoce.tables.column import Block, Column
from sottovoce.tables.table import Table

# text: before scipy 1.16 the class takes no subscript at run time
Features: TypeAlias = "npt.NDArray[Any] | scipy.sparse.csr_matrix[Any]"


def encoded(
    table: Table, columns: Sequence[Column], missing: Collection[str], *, sparse: bool, dtype: npt.DTypeLike
) -> Features:
    """Return the features of these columns, as CSR if ``sparse``.

    Raises TableError if a column is missing, or a cell breaks what its description says.
    """
    cells = [table.cells(column.name) for column in columns]
    blocks = (column.encode(some, missing) for column, some in zip(columns, cells, strict=True))
    *starts, n_features = itertools.accumulate((len(column.feature_names) for column in columns), initial=0)
    if sparse:
        return _sparse((table.n_rows, n_features), blocks, starts, dtype)
    rows: npt.NDArray[Any] = np.zeros((table.n_rows, n_features), dtype)
    for block, start in zip(blocks, starts, strict=True):
        present = np.flatnonzero(block.positions >= 0)
        if len(present) == table.n_rows and not block.positions.any():
            rows[:, start] = block.values
        else:
            rows[present, start + block.positions[present]] = block.values[present]
    return rows


def _sparse(shape: tuple[int, int], blocks: Iterator[Block], starts: Sequence[int], dtype: npt.DTypeLike) -> Features:
    n_rows, width = shape[0], len(starts)
    positions, values = np.empty((n_rows, width), np.int32), np.empty((n_rows, width), dtype)
    for number, (block, start) in enumerate(zip(blocks, starts, strict=True)):
        absent = block.positions < 0
        positions[:, number] = start + np.where(absent, 0, block.positions)
        values[:, number] = np.where(absent, 0.0, block.values)
    small = values.size < 2**31
    places = np.arange(0, values.size + 1, width, dtype=np.int32 if small else np.int64)
    parts: Any = (values.ravel(), positions.ravel(), places)
    rows: scipy.sparse.csr_matrix[Any] = scipy.sparse.csr_matrix(parts, shape=shape)
    rows.eliminate_zeros()
    return rows
