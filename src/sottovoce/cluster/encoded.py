"""Tables that a schema describes, on a cluster: workers read Parquet and encode it, as one machine would."""

from collections.abc import Generator, Iterator, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sottovoce.tables import Schema, Table
from sottovoce.tables.addresses import DataFile
from sottovoce.tables.parquet import CutTable, row_groups, tables

_BATCH_ROWS: Final = 1 << 16  # decoded and encoded at once


class EncodedRows(CutTable):
    """Rows of Parquet files, through a schema.

    Each row is encoded by itself with public facts, so how rows are cut into partitions and batches changes nothing.
    """

    dtype = np.dtype(np.float64)  # as one machine encodes
    feature_names: tuple[str, ...] = ()

    def __init__(self, files: Sequence[DataFile], schema: Schema) -> None:
        self.schema, self.has_sparse_rows = schema, schema.sparse
        self.feature_names = schema.feature_names
        self._of(row_groups(files, partial(_check_columns, schema)))

    @property
    def shape(self) -> tuple[int, int]:
        return self._n_rows, self.schema.n_features

    @property
    def entries_a_row(self) -> int:
        # an entry of CSR takes its number and its place
        return 2 * len(self.schema.feature_columns) if self.has_sparse_rows else self.shape[1]

    def labels(self) -> NDArray[Any]:
        return np.concatenate([self.schema.labels(cells) for cells in self._tables([str(self.schema.target)])])

    def groups(self) -> NDArray[Any]:
        """Return whose row each is."""
        return np.concatenate([self.schema.groups(cells) for cells in self._tables([str(self.schema.unit)])])

    def _read(self, n_threads: int) -> Generator[Any]:
        for cells in self._tables([column.name for column in self.schema.feature_columns]):
            yield self.schema.features(cells)

    def _tables(self, names: Sequence[str]) -> Iterator[Table]:
        return tables(self._pieces, names, _BATCH_ROWS)


def _check_columns(schema: Schema, found: Any, file: DataFile) -> None:
    cells = Table.of_rows(found.empty_table(), file.shown)
    for name in (*(column.name for column in schema.feature_columns), schema.require_target().name):
        cells.cells(name)  # says which columns there are
    if schema.unit is not None:
        cells.cells(schema.unit).refuse_as_names()
