"""Tables that a schema describes, on a cluster: workers read Parquet and encode it, as one machine would."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sottovoce._optional import pa
from sottovoce._validation import choice, whole_number
from sottovoce.cluster.dask_pool import DaskPool
from sottovoce.cluster.digest import RowsDigest
from sottovoce.cluster.parquet import A_WORKER, RowsOnScratch, refuse_unreached, storage_for
from sottovoce.cluster.sources import LoadedRows, Source
from sottovoce.cluster.table import DaskTable
from sottovoce.tables import Encoder, Table
from sottovoce.tables.addresses import DataFile, found_files
from sottovoce.tables.row_groups import RowGroups, batches, cut, row_groups, written

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["EncodedRows", "EncodedTable", "encoded_sources"]

_BATCH_ROWS: Final = 1 << 16  # decoded and encoded at once
_DTYPE: Final = np.dtype(np.float64)  # as one machine encodes


class EncodedRows(Source):
    """Rows of Parquet files, through a schema.

    Each row is encoded by itself with public facts, so how rows are cut into partitions and batches changes nothing.

    ``pieces``: in order.
    ``encoder``: of a schema with a target.
    ``storage``, {"memory", "scratch"}: where the worker keeps the rows.
    """

    def __init__(self, pieces: tuple[RowGroups, ...], encoder: Encoder, storage: str, first_row: int) -> None:
        self.pieces, self.encoder, self.storage = pieces, encoder, storage
        self.size = sum(piece.n_rows for piece in pieces)
        self.n_rows, self.first_row = self.size, first_row

    def __repr__(self) -> str:
        files = list(dict.fromkeys(piece.file.shown for piece in self.pieces))
        more = f" to {files[-1]}" if len(files) > 1 else ""
        return f"{self.n_rows} rows from row {self.first_row} on, of {files[0]}{more}"

    @property
    def stamps(self) -> tuple[tuple[str, int], ...]:
        return written(self.pieces)

    def load(self, scratch: Path | None) -> LoadedRows:
        """Read and encode the rows; a file that is not what it was when the table was opened is refused."""
        refuse_unreached(piece.file.path for piece in self.pieces if piece.file.is_local)
        encoder, labels = self.encoder, list[NDArray[Any]]()
        shape = (self.size, encoder.n_features)
        digest = RowsDigest((*encoder.feature_names, str(encoder.schema.target)), shape, _DTYPE)

        def blocks() -> Iterator[Any]:
            for rows, some in self._batches():
                for part in (rows.data, rows.indices, rows.indptr) if encoder.sparse else (rows,):
                    digest.add(part)
                labels.append(some)
                yield rows

        raw: Any
        if self.storage == "scratch":
            raw = RowsOnScratch.write(((block, None) for block in blocks()), encoder.n_features, _DTYPE, scratch)
        elif encoder.sparse:
            raw = sp.csr_array(sp.vstack(list(blocks()), format="csr"))
        else:
            raw = np.concatenate(list(blocks()))
        y = np.concatenate(labels)
        digest.add_labels(y)
        return LoadedRows(raw, y, digest.value, self.size)

    def _batches(self) -> Iterator[tuple[Any, NDArray[Any]]]:
        encoder = self.encoder
        names = _names(encoder)
        for piece in self.pieces:
            first = piece.first_row
            for batch in batches(piece, names, _BATCH_ROWS):
                cells = Table(pa.Table.from_batches([batch]), piece.file.shown, partial(_line, first))
                yield encoder.features(cells), encoder.labels(cells)
                first += batch.num_rows


class EncodedTable(DaskTable):
    """Parquet files through a schema, as X of ``fit``.

    Its sizes are public and known at once; values are read when a fit opens the table, which is after the charge. So an
    error about a cell is an answer that was paid for.
    """

    encoder: Encoder
    sources: Sequence[EncodedRows]
    dtype: np.dtype[Any] = _DTYPE
    has_labels: bool = True
    feature_names: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        client: Client,
        path: str | Path,
        encoder: Encoder,
        *,
        partitions: int | None = None,
        storage: str | None = None,
        **options: Any,
    ) -> Self:
        """Return a table of which the driver has read footers only, and workers nothing.

        ``path``: A file, a folder or a pattern: an address, or a path that leads to the same files on all machines.
        ``encoder``: of a schema with a target.
        ``partitions``: how many are wanted; None: 6 a worker. There are fewer where there are fewer row groups.
        ``storage``, {"memory", "scratch"} or None: where workers keep encoded rows. None: in memory if all of them take
          less than half of it, else on scratch disk.
        ``**options``: of `DaskTable`.

        Raises TableError if a file cannot be read, lacks a column of the schema, or there is no row.
        """
        limits = [worker.memory_limit for worker in DaskPool(client).workers()]
        if partitions is not None:
            partitions = whole_number("partitions", partitions, at_least=1)
        sources = encoded_sources(path, encoder, partitions=partitions, storage=storage, memory_limits=limits)
        table = cls(client, sources, encoder.feature_names, encoder.schema.target, read=False, **options)
        table.encoder, table.sources = encoder, sources
        return table

    def _about(self) -> dict[str, object]:
        return {**super()._about(), "schema": self.encoder.schema.to_toml()}

    @property
    def shape(self) -> tuple[int, int]:
        return sum(source.n_rows or 0 for source in self.partitions.sources), self.encoder.n_features

    @property
    def groups(self) -> Callable[[], Any] | None:
        """What the driver reads itself, when a fit has paid for it: whose row each is; None where the unit is a row."""
        return None if self.encoder.schema.unit is None else self._persons

    def _persons(self) -> NDArray[Any]:
        encoder, pieces = self.encoder, [piece for source in self.sources for piece in source.pieces]
        return np.concatenate([
            encoder.groups(Table(pa.Table.from_batches([batch]), piece.file.shown, partial(_line, piece.first_row)))
            for piece in pieces for batch in batches(piece, [str(encoder.schema.unit)], _BATCH_ROWS)
        ])  # fmt: skip


def encoded_sources(
    path: str | Path,
    encoder: Encoder,
    *,
    memory_limits: Sequence[int],
    partitions: int | None = None,
    storage: str | None = None,
) -> list[EncodedRows]:
    """Return the partitions of Parquet files, whose footers alone are read.

    ``path``, ``encoder``, ``partitions``, ``storage``: see `EncodedTable.of`.
    ``memory_limits``: bytes that each worker may use; 0 where there is no limit.
    """
    if storage is not None:
        storage = choice("storage", storage, ("memory", "scratch"))
    pieces = row_groups(found_files(path, ".parquet"), partial(_check_columns, encoder))
    # an entry of CSR takes its number and its place
    width = 2 * len(encoder.schema.feature_columns) if encoder.sparse else encoder.n_features
    chosen = storage or storage_for(sum(piece.n_rows for piece in pieces), width, _DTYPE, memory_limits)
    sources: list[EncodedRows] = []
    first = 0
    for some in cut(pieces, partitions or A_WORKER * max(1, len(memory_limits))):
        sources.append(EncodedRows(some, encoder, chosen, first))
        first += sources[-1].size
    return sources


def _names(encoder: Encoder) -> list[str]:
    return [*(column.name for column in encoder.schema.feature_columns), str(encoder.schema.target)]


def _check_columns(encoder: Encoder, schema: Any, file: DataFile) -> None:
    cells = Table(schema.empty_table(), file.shown, partial(_line, 0))
    for name in _names(encoder):
        cells.cells(name)  # says which columns there are
    if encoder.schema.unit is not None:
        cells.cells(encoder.schema.unit).refuse_as_names()


def _line(first: int, row: int) -> str:
    return f"row {first + row + 1}"
