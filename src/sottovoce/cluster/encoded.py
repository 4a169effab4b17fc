"""Tables that a schema describes, on a cluster: workers read Parquet and encode it, as one machine would."""

from collections.abc import Generator, Iterator, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sottovoce.tables import Table
from sottovoce.tables.addresses import DataFile
from sottovoce.tables.encoding import Encoder
from sottovoce.tables.row_groups import CutTable, row_groups, tables

_BATCH_ROWS: Final = 1 << 16  # decoded and encoded at once


class EncodedRows(CutTable):
    """Rows of Parquet files, through a schema.

    Each row is encoded by itself with public facts, so how rows are cut into partitions and batches changes nothing.

    ``encoder``: of a schema with a target.
    """

    dtype = np.dtype(np.float64)  # as one machine encodes
    feature_names: tuple[str, ...] = ()

    def __init__(self, files: Sequence[DataFile], encoder: Encoder) -> None:
        self.encoder, self.has_sparse_rows = encoder, encoder.sparse
        self.feature_names = encoder.feature_names
        self._of(row_groups(files, partial(_check_columns, encoder)))

    @property
    def shape(self) -> tuple[int, int]:
        return self._n_rows, self.encoder.n_features

    @property
    def entries_a_row(self) -> int:
        # an entry of CSR takes its number and its place
        return 2 * len(self.encoder.schema.feature_columns) if self.has_sparse_rows else self.shape[1]

    def labels(self) -> NDArray[Any]:
        return np.concatenate([self.encoder.labels(cells) for cells in self._tables([str(self.encoder.schema.target)])])

    def groups(self) -> NDArray[Any]:
        """Return whose row each is."""
        return np.concatenate([self.encoder.groups(cells) for cells in self._tables([str(self.encoder.schema.unit)])])

    def _read(self, n_threads: int) -> Generator[Any]:
        for cells in self._tables([column.name for column in self.encoder.schema.feature_columns]):
            yield self.encoder.features(cells)

    def _tables(self, names: Sequence[str]) -> Iterator[Table]:
        return tables(self._pieces, names, _BATCH_ROWS)


def _check_columns(encoder: Encoder, schema: Any, file: DataFile) -> None:
    cells = Table.of_rows(schema.empty_table(), file.shown)
    for name in (*(column.name for column in encoder.schema.feature_columns), str(encoder.schema.target)):
        cells.cells(name)  # says which columns there are
    if encoder.schema.unit is not None:
        cells.cells(encoder.schema.unit).refuse_as_names()
