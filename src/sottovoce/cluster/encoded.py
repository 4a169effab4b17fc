"""Partitions of columns that a schema describes: workers read Parquet and encode it, as one machine would."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import scipy.sparse as sp
from numpy.typing import NDArray

from sottovoce.cluster.sources import LoadedRows, Source
from sottovoce.exceptions import TableError
from sottovoce.tables import Encoder, Table
from sottovoce.tables.addresses import DataFile, Stamp

__all__ = ["EncodedRows", "encoded_sources"]

_BATCH_ROWS = 1 << 16  # decoded and encoded at once
_AT_ONCE = 16  # files whose footers are read at a time


@dataclass(frozen=True)
class _Groups:
    """Some consecutive row groups of a file."""

    file: DataFile
    stamp: Stamp
    rows_of_file: int
    numbers: tuple[int, ...]
    n_rows: int
    first_row: int  # in the file


@dataclass(frozen=True, kw_only=True)
class EncodedRows(Source):
    """Rows of Parquet files, through a schema.

    Each row is encoded by itself with public facts, so the cut into partitions and batches changes nothing.

    Attributes
    ----------
    pieces : tuple
        Row groups, in order.
    encoder : Encoder
    n_rows, first_row : int
    """

    pieces: tuple[_Groups, ...]
    encoder: Encoder
    n_rows: int
    first_row: int = 0

    def load(self, scratch: Path | None) -> LoadedRows:
        """Read and encode the rows; a file that is not what it was when the table was opened is refused."""
        blocks, labels = zip(*self._batches(), strict=True)
        raw = sp.csr_array(sp.vstack(blocks, format="csr")) if self.encoder.sparse else np.concatenate(blocks)
        if raw.shape[0] != self.n_rows:
            raise _changed(self.pieces[0].file)
        y = np.concatenate(labels)
        return LoadedRows(raw, y, _digest(self.encoder, raw, y), self.n_rows)

    def _batches(self) -> Iterator[tuple[Any, NDArray[Any]]]:
        encoder = self.encoder
        names = [*(column.name for column in encoder.schema.feature_columns), str(encoder.schema.target)]
        for piece in self.pieces:
            _refuse_changed(piece)
            with _opened(piece.file) as file:
                if file.metadata.num_rows != piece.rows_of_file:
                    raise _changed(piece.file)
                first = piece.first_row
                for batch in file.iter_batches(_BATCH_ROWS, row_groups=list(piece.numbers), columns=names):
                    cells = Table(pa.Table.from_batches([batch]), piece.file.shown, partial(_line, first))
                    yield encoder.features(cells), encoder.labels(cells)
                    first += batch.num_rows
            _refuse_changed(piece)


def encoded_sources(files: Sequence[DataFile], encoder: Encoder, partitions: int) -> list[EncodedRows]:
    """Cut the row groups of files into partitions of about as many rows each; no value is read.

    Parameters
    ----------
    files : sequence of DataFile
    encoder : Encoder
        Of a schema with a target.
    partitions : int
        How many are wanted; there are fewer where there are fewer row groups.

    Raises
    ------
    TableError
        If a file cannot be read, lacks a column of the schema, or there is no row.
    """
    look = partial(_groups, encoder=encoder)
    with ThreadPoolExecutor(min(_AT_ONCE, len(files)), thread_name_prefix="sottovoce-footers") as threads:
        groups = [group for found in threads.map(look, files) for group in found]
    n_rows = sum(group.n_rows for group in groups)
    if n_rows == 0:
        raise TableError(f"{files[0]}: the table has columns, but no row of data.")
    cut: dict[int, list[_Groups]] = {}
    done = 0
    for group in groups:
        # a group goes to the part that its middle falls into, so that parts differ by a group at most
        cut.setdefault((2 * done + group.n_rows) * partitions // (2 * n_rows), []).append(group)
        done += group.n_rows
    sources: list[EncodedRows] = []
    first = 0
    for some in cut.values():
        size = sum(group.n_rows for group in some)
        sources.append(EncodedRows(pieces=_joined(some), encoder=encoder, n_rows=size, first_row=first))
        first += size
    return sources


def _groups(file: DataFile, encoder: Encoder) -> list[_Groups]:
    """Look at the footer of a file."""
    stamp = file.stamp()
    with _opened(file) as opened:
        known = opened.metadata
        # says which columns there are, and which lack
        cells = Table(opened.schema_arrow.empty_table(), file.shown, partial(_line, 0))
        for column in (*encoder.schema.feature_columns, encoder.schema[str(encoder.schema.target)]):
            cells.cells(column.name)
        sizes = [known.row_group(number).num_rows for number in range(known.num_row_groups)]
        first, found = 0, []
        for number, size in enumerate(sizes):
            if size:
                found.append(_Groups(file, stamp, known.num_rows, (number,), size, first))
            first += size
        return found


def _joined(groups: Sequence[_Groups]) -> tuple[_Groups, ...]:
    """Return consecutive groups with those of one file as one."""
    joined: list[_Groups] = []
    for group in groups:
        last = joined[-1] if joined else None
        if last is not None and last.file is group.file:
            numbers = (*last.numbers, *group.numbers)
            joined[-1] = _Groups(
                last.file, last.stamp, last.rows_of_file, numbers, last.n_rows + group.n_rows, last.first_row
            )
        else:
            joined.append(group)
    return tuple(joined)


def _line(first: int, row: int) -> str:
    return f"row {first + row + 1}"


def _refuse_changed(piece: _Groups) -> None:
    if piece.file.stamp() != piece.stamp:
        raise _changed(piece.file)


def _changed(file: DataFile) -> TableError:
    return TableError(
        f"{file}: the file is not the one that was opened (another size, date or number of rows). A fit is private "
        "only if it sees the same rows from its start to its end: let the files be, and start again."
    )


@contextmanager
def _opened(file: DataFile) -> Iterator[Any]:
    try:
        with pyarrow.parquet.ParquetFile(file.path, filesystem=file.filesystem, pre_buffer=not file.is_local) as opened:
            yield opened
    except UnicodeDecodeError:
        raise TableError(f"{file}: cannot be read as Parquet: the name of a column is not UTF-8 text.") from None
    except (pa.ArrowException, OSError) as error:
        text = file.hidden(str(error)).partition("\n")[0].rstrip(".")
        raise TableError(f"{file}: cannot be read as Parquet: {text}.") from None


def _digest(encoder: Encoder, raw: Any, labels: NDArray[Any]) -> str:
    """Return the fingerprint of encoded rows, their labels and what the columns are called."""
    total = hashlib.blake2b(digest_size=16)
    parts = (raw.data, raw.indices, raw.indptr) if encoder.sparse else (raw,)
    texts = (*encoder.feature_names, str(encoder.schema.target), str(raw.dtype), str(raw.shape), str(labels.dtype))
    total.update("\0".join(texts).encode())
    for part in parts:
        total.update(np.ascontiguousarray(part).data)
    total.update("\0".join(map(repr, labels.tolist())).encode() if labels.dtype.hasobject else labels.tobytes())
    return total.hexdigest()
