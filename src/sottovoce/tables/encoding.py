"""Encoder: from a table to the matrix that a model is trained on, row by row and by public facts alone."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse

from sottovoce.exceptions import SchemaError
from sottovoce.tables.column import Block
from sottovoce.tables.schema import Schema
from sottovoce.tables.table import Table

_DENSE_FEATURES = 32
_DENSE_SHARE = 0.2

# text: before scipy 1.16 the class takes no subscript at run time
Features: TypeAlias = "npt.NDArray[Any] | scipy.sparse.csr_matrix[Any]"


@dataclass(frozen=True, slots=True)
class Encoder:
    r"""Encodes tables that a schema describes: what `SchemaEncoder` and the commands do.

    Each of the :math:`k` feature columns becomes a block of the row with at most one entry that is not zero, and that
    within [-1, 1]: a number on its public scale, or a 1 for its bin or its category. So :math:`\|x\|_2 \le \sqrt k`
    whatever the data: this is ``data_norm``. Every row is encoded by itself.

    ``labelled``: False for a table without labels, such as that of an organisation beside the one that holds them.
    """

    schema: Schema
    labelled: bool = True

    def __post_init__(self) -> None:
        if self.labelled and self.schema.target is None:
            raise SchemaError('the schema names no target. Write target = "NAME" at its start, or give target="NAME".')

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the features, in order."""
        return tuple(name for column in self.schema.feature_columns for name in column.feature_names)

    @property
    def n_features(self) -> int:
        """The number of features."""
        return len(self.feature_names)

    @property
    def data_norm(self) -> float:
        """The public bound on the norm of an encoded row."""
        return math.sqrt(len(self.schema.feature_columns))

    @property
    def nonnegative(self) -> bool:
        """Whether no entry of an encoded row can be negative, whatever the data."""
        return all(column.nonnegative for column in self.schema.feature_columns)

    @property
    def sparse(self) -> bool:
        """Whether rows are encoded as CSR: when they are wide, and less than a fifth of a row can be filled."""
        return self.n_features > _DENSE_FEATURES and (len(self.schema.feature_columns) < _DENSE_SHARE * self.n_features)

    def features(self, table: Table, *, dtype: npt.DTypeLike = np.float64) -> Features:
        """Return the feature columns of a table, as CSR if ``sparse``; further columns do not matter.

        Raises TableError if a column is missing, or a cell breaks what the schema says.
        """
        columns = self.schema.feature_columns
        cells = [table.cells(column.name) for column in columns]
        blocks = (column.encode(some, self.schema.layout.missing) for column, some in zip(columns, cells, strict=True))
        starts = itertools.accumulate((len(column.feature_names) for column in columns), initial=0)
        if self.sparse:
            return self._sparse(table.n_rows, blocks, starts, dtype)
        rows: npt.NDArray[Any] = np.zeros((table.n_rows, self.n_features), dtype)
        for block, start in zip(blocks, starts, strict=False):
            present = np.flatnonzero(block.positions >= 0)
            if len(present) == table.n_rows and not block.positions.any():
                rows[:, start] = block.values
            else:
                rows[present, start + block.positions[present]] = block.values[present]
        return rows

    def _sparse(self, n_rows: int, blocks: Iterator[Block], starts: Iterator[int], dtype: npt.DTypeLike) -> Features:
        width = len(self.schema.feature_columns)
        positions, values = np.empty((n_rows, width), np.int32), np.empty((n_rows, width), dtype)
        for number, (block, start) in enumerate(zip(blocks, starts, strict=False)):
            absent = block.positions < 0
            positions[:, number] = start + np.where(absent, 0, block.positions)
            values[:, number] = np.where(absent, 0.0, block.values)
        small = values.size < 2**31
        places = np.arange(0, values.size + 1, width, dtype=np.int32 if small else np.int64)
        parts: Any = (values.ravel(), positions.ravel(), places)
        rows: scipy.sparse.csr_matrix[Any] = scipy.sparse.csr_matrix(parts, shape=(n_rows, self.n_features))
        rows.eliminate_zeros()
        return rows

    def labels(self, table: Table) -> npt.NDArray[Any]:
        """Return the target column of a table: classes with the type they have in the schema, or float64 numbers.

        Raises TableError if the column is missing, or a label is missing, unknown or out of bounds.
        """
        column = self.schema[str(self.schema.target)]
        return column.labels(table.cells(column.name), self.schema.layout.missing)

    def groups(self, table: Table) -> npt.NDArray[np.object_]:
        """Return whose row each is, None where that is missing.

        Raises SchemaError if the schema names no unit.
        Raises TableError if the column is not in the table, or holds neither texts nor numbers.
        """
        if self.schema.unit is None:
            raise SchemaError('the schema names no unit. Write unit = "COLUMN", the column that says whose row it is.')
        return table.cells(self.schema.unit).named(self.schema.layout.missing)
