"""Tables that a schema describes, on a cluster: workers read Parquet and encode it, as one machine would."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from sottovoce._optional import pa
from sottovoce.cluster.dask_pool import DaskPool
from sottovoce.cluster.parquet import partitions_of
from sottovoce.cluster.table import DaskTable
from sottovoce.tables import Encoder, Table
from sottovoce.tables.addresses import DataFile, found_files
from sottovoce.tables.row_groups import CutTable, batches, row_groups

if TYPE_CHECKING:
    from distributed import Client

_BATCH_ROWS: Final = 1 << 16  # decoded and encoded at once


class EncodedRows(CutTable):
    """Rows of Parquet files, through a schema.

    Each row is encoded by itself with public facts, so how rows are cut into partitions and batches changes nothing.

    ``encoder``: of a schema with a target.
    """

    dtype = np.dtype(np.float64)  # as one machine encodes
    feature_names = ()

    def __init__(self, path: str | Path, encoder: Encoder) -> None:
        self.encoder, self.has_sparse_rows = encoder, encoder.sparse
        self._of(row_groups(found_files(path, ".parquet"), partial(_check_columns, encoder)))

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
        for piece in self._pieces:
            first = piece.first_row
            for batch in batches(piece, names, _BATCH_ROWS):
                yield Table.of_rows(pa.Table.from_batches([batch]), piece.file.shown, first)
                first += batch.num_rows


class EncodedTable(DaskTable):
    """Parquet files through a schema, as X of ``fit``.

    Its sizes are public and known at once; values are read when a fit opens the table, which is after the charge. So an
    error about a cell is an answer that was paid for.
    """

    rows: EncodedRows
    feature_names: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, client: Client, path: str | Path, encoder: Encoder, *, partitions: int | None = None, **options: Any
    ) -> Self:
        """Return a table of which the driver has read footers only, and workers nothing."""
        limits = [worker.memory_limit for worker in DaskPool(client).workers()]
        rows = EncodedRows(path, encoder)
        sources = partitions_of(rows, limits, partitions)
        table = cls(client, sources, encoder.feature_names, encoder.schema.target, read=False, **options)
        table.rows = rows
        return table

    @property
    def groups(self) -> Callable[[], Any] | None:
        """What the driver reads itself, when a fit has paid for it: whose row each is; None where the unit is a row."""
        return None if self.rows.encoder.schema.unit is None else self.rows.groups


def _check_columns(encoder: Encoder, schema: Any, file: DataFile) -> None:
    cells = Table.of_rows(schema.empty_table(), file.shown)
    for name in (*(column.name for column in encoder.schema.feature_columns), str(encoder.schema.target)):
        cells.cells(name)  # says which columns there are
    if encoder.schema.unit is not None:
        cells.cells(encoder.schema.unit).refuse_as_names()
