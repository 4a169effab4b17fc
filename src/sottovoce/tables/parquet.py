"""Parquet files, read by their row groups: in batches of cells, or as a matrix that is read from disk in each pass.

A file is what it was when it was opened, by what its store says of it, or it is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from copy import copy
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, groupby
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from sottovoce._files import check_writable, whole_file
from sottovoce._optional import pa
from sottovoce._validation import choice, in_order
from sottovoce.central.data.row_memory import OnDisk, RowMemory
from sottovoce.central.data.scratch import check_room
from sottovoce.central.data.streamed import StreamedTable
from sottovoce.exceptions import ParameterError, TableError
from sottovoce.tables.addresses import DataFile, Stamp, changed, file_here, found_files, unreadable, words_of
from sottovoce.tables.cells import is_text
from sottovoce.tables.schema import Schema
from sottovoce.tables.table import BatchedTable, Table, refuse_repeated_names
from sottovoce.tables.text import COMPRESSIONS

_AT_ONCE: Final = 16  # footers that are read at the same time
_BLOCK_BYTES = 1 << 22  # decoded at once
_TEXT_BYTES: Final = 16
# of each column while it is read; without it (and pre_buffer=False) a row group is read whole
_BUFFER_BYTES: Final = 1 << 16
_LABEL_ROWS = 1 << 16


@dataclass(frozen=True)
class RowGroup:
    """One row group of a file."""

    file: DataFile
    # what the store said of the file; once sent to another machine, without what a machine says of its own disks
    stamp: Stamp
    rows_of_file: int
    number: int
    n_rows: int
    first_row: int  # place in the file of the first of them
    n_bytes: int  # that they take, decompressed

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "stamp": self.file.portable(self.stamp)}


def row_groups(files: Sequence[DataFile], check: Callable[[Any, DataFile], None]) -> list[RowGroup]:
    """Look at the footers of files, at no value.

    ``check``: gets the Arrow schema of each file, and the file; refuses what cannot be used.
    """

    def look(file: DataFile) -> list[RowGroup]:
        stamp = file.stamp()
        with opened(file) as parquet:
            known = parquet.metadata
            check(parquet.schema_arrow, file)
            groups = [known.row_group(number) for number in range(known.num_row_groups)]
            firsts = accumulate((group.num_rows for group in groups), initial=0)
            return [
                RowGroup(file, stamp, known.num_rows, number, group.num_rows, first, group.total_byte_size)
                for number, (group, first) in enumerate(zip(groups, firsts, strict=False))
            ]

    with ThreadPoolExecutor(min(_AT_ONCE, len(files)), thread_name_prefix="sottovoce-footers") as threads:
        found = [group for own in (threads.map(look, files) if len(files) > 1 else map(look, files)) for group in own]
    if not any(each.n_rows for each in found):
        raise TableError(f"{files[0]}: the table has columns, but no row of data.")
    return found


def tables(
    pieces: Sequence[RowGroup], names: Sequence[str], batch_rows: int, *, use_threads: bool = False
) -> Iterator[Table]:
    """Read some columns of row groups, in order; refuse a file that changed, before and after.

    Each table knows where its rows are in their file.
    """
    for _, groups in groupby(pieces, lambda piece: id(piece.file)):
        first, *others = groups
        numbers, row = [first.number, *(group.number for group in others)], first.first_row
        first.file.refuse_changed(first.stamp)
        with opened(first.file) as file:
            if file.metadata.num_rows != first.rows_of_file:
                raise changed(first.file)
            # what comes over a network is fetched a row group at a time, in few and large requests
            for some in [numbers] if first.file.is_local else [[number] for number in numbers]:
                for batch in file.iter_batches(
                    batch_rows, row_groups=some, columns=list(names), use_threads=use_threads
                ):
                    _refuse_other_encodings(batch, first.file)
                    yield Table.of_rows(pa.Table.from_batches([batch]), first.file.shown, row)
                    row += batch.num_rows
        first.file.refuse_changed(first.stamp)


def _refuse_other_encodings(batch: Any, file: DataFile) -> None:
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:  # whose words repeat a text
            raise TableError(
                f"{file}, column {name!r}: a cell is not UTF-8 text, or damaged. Write the file again."
            ) from None


@contextmanager
def opened(source: DataFile) -> Iterator[Any]:
    """Open a Parquet file; whatever goes wrong inside is told as an error about it.

    Large row groups of this machine are decoded a page at a time, others ahead.
    """
    buffer, ahead, path = 0, True, source.path
    if source.is_local:  # Arrow takes a:b for an address, unless it begins with a slash
        buffer, ahead, path = _BUFFER_BYTES, False, str(Path(path).absolute())
    try:
        with pa.parquet.ParquetFile(path, filesystem=source.filesystem, buffer_size=buffer, pre_buffer=ahead) as file:
            yield file
    except UnicodeDecodeError:
        raise TableError(f"{source}: cannot be read as Parquet: the name of a column is not UTF-8 text.") from None
    except (pa.ArrowException, OSError) as error:
        if source.is_local and getattr(error, "errno", None):
            raise unreadable(Path(source.path), error) from None
        raise TableError(f"{source}: cannot be read as Parquet: {words_of(error)}") from None


def parquet_rows(path: Path, most_rows: int) -> BatchedTable:
    """Return the rows of a Parquet file, at most so many at a time; raises TableError if it is none."""
    if path.suffix.lower() in COMPRESSIONS:
        raise TableError(f"{path}: a Parquet file is compressed inside. Unpack it first.")
    if path.is_fifo():
        raise TableError(f"{path}: a Parquet file is read from its end. Give a file, or CSV through a pipe.")
    size = (file := file_here(path)).stamp()[0]
    if size == 0:
        raise TableError(f"{path}: the file is empty.")
    schemas: list[Any] = []
    pieces = row_groups([file], lambda schema, _: schemas.append(schema))
    width = sum(kind.bit_width / 8 if pa.types.is_primitive(kind) else _TEXT_BYTES for kind in schemas[0].types)
    stored = max(piece.n_bytes / max(piece.n_rows, 1) for piece in pieces)
    at_once = max(1, min(most_rows, int(_BLOCK_BYTES / max(width, stored))))

    def read(columns: Sequence[str]) -> Iterator[Any]:
        return (table.data for table in tables(pieces, columns, at_once))

    # all columns are decoded where rows are counted: a file that is damaged is refused
    return BatchedTable(schemas[0], str(path), read, most_rows=at_once, size=size, counted=schemas[0].names)


class ParquetTable(StreamedTable):
    """Columns of one or several Parquet files, for training and prediction from disk.

    The files are never held in memory: each pass reads them again in order, a few thousand rows at a time (large row
    groups are cut), decodes only the chosen columns, and reads ahead while the solver works. Estimators take the
    table in place of X and release the same model, bit by bit, as for the same numbers in memory.

    Parameters
    ----------
    path : str, Path or sequence of them
        A file, a folder (its ``*.parquet`` files in the order of their names), a pattern with ``*``, or several of
        them, one after another. Each is a path or an address: ``s3://``, ``gs://``, ``abfs://`` or ``hdfs://``.
    features : sequence of str or None, default=None
        The columns of the matrix, in this order. None: all but the target, in the order of the first file.
    target : str or None, default=None
        The column that `labels` reads.
    dtype : {"float32", "float64"}, default="float32"
        Type of the entries. Columns may be of any width of integers, floats and booleans.
    schema : sottovoce.tables.Schema or None, default=None
        What is publicly known of the columns, in place of ``features``, ``target`` and ``dtype``: rows are encoded by
        it, as float64, each time that they are read. Its target has the labels, its unit says whose row each is.
    filesystem : pyarrow.fs.FileSystem or None, default=None
        Where the paths are, with keys and endpoints, such as ``pyarrow.fs.S3FileSystem(endpoint_override=...)``; they
        begin with the bucket then. None: on this machine, or where an address says, with keys and regions as the
        store's own tools find them. No message and no receipt shows them.
    row_memory : {"memory", "disk"}, default="memory"
        Where a fit keeps what it remembers of each row (some 48 bytes: the label, the scale, dual variables). With
        ``"disk"`` no number of rows fills the memory, and a pass takes longer.
    scratch : str, Path or None, default=None
        The folder that ``"disk"`` means, and where rows are copied to for persons (``groups``) and for solvers that
        take them in another order. None: where temporary files are. What is kept there is private, in clear.

    Raises
    ------
    TableError
        If a file is missing, empty or no Parquet, or a column is missing or not numeric.
    ParameterError
        If another argument is wrong.

    Notes
    -----
    The training is private only if each pass sees the same table. A file whose size, date or row count is not what it
    was when the table was opened is refused, at the start of a pass and again at its end.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import numpy as np, pyarrow as pa, pyarrow.parquet as pq
    >>> import sottovoce as sv
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "people.parquet"
    >>> x = np.random.default_rng(0).uniform(-1, 1, (3, 5000))
    >>> pq.write_table(pa.table({"a": x[0], "b": x[1], "id": x[2], "old": x[0] > x[1]}), path)
    >>> table = sv.ParquetTable(path, features=["a", "b"], target="old")
    >>> table.shape
    (5000, 2)
    >>> model = sv.DPLinearSVC(epsilon=1.0, delta=1e-6, data_norm=2**0.5, classes=[False, True], random_state=0)
    >>> model.fit(table).score(table, table.labels()) > 0.9
    True
    """

    def __init__(
        self,
        path: str | Path | Sequence[str | Path],
        *,
        features: Sequence[str] | None = None,
        target: str | None = None,
        dtype: str = "float32",
        schema: Schema | None = None,
        filesystem: Any = None,
        row_memory: str = "memory",
        scratch: str | Path | None = None,
    ) -> None:
        self._on_disk = choice("row_memory", row_memory, ("memory", "disk")) == "disk"
        self.scratch = scratch
        if self._on_disk or scratch is not None:
            check_room(0, scratch, "what is remembered of the rows")
        self._dtype = np.dtype(choice("dtype", dtype, ("float32", "float64")))
        self._schema = schema
        if schema is not None:
            if (features, target, dtype) != (None, None, "float32"):
                raise ParameterError("features, target and dtype are for a table without a schema, which says them.")
            schema.require_confirmed()
            self._features, self._target, self._dtype = schema.feature_names, schema.target, np.dtype(np.float64)
            self.has_sparse_rows = schema.sparse
            self._look(found_files(path, ".parquet", filesystem), partial(_check_described, schema))
            return
        files = found_files(path, ".parquet", filesystem)
        self._target = target
        self._features = in_order("features", features) if features is not None else _all_but(target, files[0])
        if not self._features:
            raise ParameterError("features must name at least one column besides the target; got none.")
        if len(set(self._features)) != len(self._features):
            raise ParameterError(f"features must not repeat a column; got {list(self._features)!r}.")
        if target in self._features:
            raise ParameterError(
                f"target {target!r} is also among features: a model would learn to copy it. Leave it out."
            )
        self._look(files, lambda schema, file: _check_columns(schema, file, self._features, target))

    def _look(self, files: Sequence[DataFile], check: Callable[[Any, DataFile], None]) -> None:
        self._pieces = row_groups(files, check)
        self._n_rows = sum(piece.n_rows for piece in self._pieces)

    def __repr__(self) -> str:
        first, *others = self.files
        more = f" and {len(others)} more" if others else ""
        return f"ParquetTable({first!r}{more}, {self._n_rows} rows x {len(self._features)} columns)"

    @property
    def shape(self) -> tuple[int, int]:
        return self._n_rows, len(self._features)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._dtype

    @property
    def feature_names(self) -> tuple[str, ...]:
        return self._features

    @property
    def target(self) -> str | None:
        """Name of the column that `labels` reads."""
        return self._target

    @property
    def has_labels(self) -> bool:
        return self._target is not None

    @property
    def entries_a_row(self) -> int:
        """How many entries a row takes in memory at most: of CSR one is a number and its place."""
        if self._schema is not None and self.has_sparse_rows:
            return 2 * len(self._schema.feature_columns)
        return self.shape[1]

    @property
    def groups(self) -> Callable[[], npt.NDArray[Any]] | None:
        """What reads whose row each is, by the unit of the schema; None where the unit is a row."""
        return None if self._schema is None or self._schema.unit is None else self._people

    def _people(self) -> npt.NDArray[Any]:
        assert self._schema is not None
        read = tables(self._pieces, [str(self._schema.unit)], _LABEL_ROWS)
        return np.concatenate([self._schema.groups(table) for table in read])

    @property
    def is_local(self) -> bool:
        """Whether all files are paths of this machine."""
        return all(piece.file.is_local for piece in self._pieces)

    @property
    def files(self) -> tuple[str, ...]:
        """Paths and addresses of the files, in order, as messages show them."""
        return tuple(dict.fromkeys(piece.file.shown for piece in self._pieces))

    def split(self, parts: int) -> list[Self]:
        """Cut the table into consecutive ones of about as many rows each, between row groups of its files.

        Parameters
        ----------
        parts : int
            How many are wanted, at least 1; there are fewer where there are fewer row groups.

        Returns
        -------
        list of tables
            None without rows. Their files are not opened again, and are refused where they have changed since. Each
            can be pickled and read by a process that reaches the files; its `first_row` is its place in the whole.
        """
        by_part: dict[int, list[RowGroup]] = {}
        done = 0
        for group in self._pieces:
            if group.n_rows:
                # it goes to the part that its middle falls into, so that parts differ by a group at most
                by_part.setdefault((2 * done + group.n_rows) * parts // (2 * self._n_rows), []).append(group)
                done += group.n_rows
        found, first = list[Self](), self.first_row
        for pieces in by_part.values():
            table = copy(self)
            table.first_row = first
            table._pieces, table._n_rows = pieces, sum(piece.n_rows for piece in pieces)
            first += table._n_rows
            found.append(table)
        return found

    def labels(self) -> npt.NDArray[Any]:
        """Read the target column into memory.

        Returns
        -------
        ndarray of shape (n_rows,)
            Numbers, booleans or texts, as they are in the files; texts are objects.

        Raises
        ------
        ParameterError
            If the table was made without ``target``.
        TableError
            If a label is missing; the message names the first such row.
        """
        return np.concatenate([block for _, block in self.label_blocks()])

    def label_blocks(self, *, missing: bool = False) -> Generator[tuple[slice, npt.NDArray[Any]]]:
        """Read the target column piece by piece; what is refused, and how, is as for `labels`.

        ``missing``: whether a label that is missing is None, and not refused.
        """
        if self._target is None:
            raise ParameterError(
                "y is missing, and the ParquetTable names no target: give y, or ParquetTable(..., target=NAME)."
            )
        start = 0
        for table in tables(self._pieces, [self._target], _LABEL_ROWS):
            if self._schema is not None:
                yield slice(start, start + table.n_rows), self._schema.labels(table)
                start += table.n_rows
                continue
            column = table.data.column(0).chunk(0)
            if column.null_count and not missing:
                row = self.first_row + start + pa.compute.index(pa.compute.is_null(column), True).as_py()
                raise TableError(f"column {self._target!r}: row {row} has no label. Drop rows without one before.")
            yield slice(start, start + len(column)), _labels(column)
            start += len(column)

    def row_memory(self, n_rows: int) -> RowMemory:
        return OnDisk(n_rows, self.scratch) if self._on_disk else super().row_memory(n_rows)

    def to_npy(self, path: str | Path) -> npt.NDArray[Any]:
        """Write the matrix as a ``.npy`` file, decoded once and for all, and return it as a memory map.

        The map takes less time a pass than Parquet, and serves every solver. It takes 4 bytes an entry on disk
        (float64: 8).

        Parameters
        ----------
        path : str or Path
            Written whole or not at all, for its owner alone; an existing file is replaced.

        Returns
        -------
        numpy.memmap of shape (n_rows, n_columns)
            Read-only; the same as ``numpy.load(path, mmap_mode="r")``.

        Raises
        ------
        DataError
            If an entry is missing, NaN or infinite, naming row and column; nothing is written then.
        ParameterError
            If the path cannot be written to, or is one of the table's files.
        """
        check_writable("path", path, overwrite=True)
        if any(piece.file.same_file(Path(path)) for piece in self._pieces):
            raise ParameterError(f"path {path}: this is a file to read from. Choose another path.")
        header = {"descr": np.lib.format.dtype_to_descr(self._dtype), "fortran_order": False, "shape": self.shape}
        with whole_file(path, private=True) as file, closing(self.finite_blocks()) as blocks:
            np.lib.format.write_array_header_1_0(file, header)
            for _, block in blocks:
                file.write(block.toarray().data if self.has_sparse_rows else block.data)
        mapped: npt.NDArray[Any] = np.load(path, mmap_mode="r")
        return mapped

    def _read(self, n_threads: int) -> Generator[Any]:
        rows = max(64, _BLOCK_BYTES // (self.entries_a_row * self._dtype.itemsize))
        # Arrow has one pool of threads for the whole process, which is not ours to resize
        use_threads = n_threads > 1 and n_threads >= pa.cpu_count()
        if self._schema is not None:
            names = [column.name for column in self._schema.feature_columns]
            for table in tables(self._pieces, names, min(rows, _LABEL_ROWS), use_threads=use_threads):
                yield self._schema.features(table)
            return
        for table in tables(self._pieces, self._features, rows, use_threads=use_threads):
            block = np.empty((table.n_rows, len(self._features)), self._dtype)
            with np.errstate(over="ignore"):  # beyond float32 is infinity, which is refused with its row
                for k, name in enumerate(self._features):
                    block[:, k] = _numbers(table.data.column(name).chunk(0))
            yield block


def _all_but(target: str | None, file: DataFile) -> tuple[str, ...]:
    with opened(file) as parquet:
        refuse_repeated_names(parquet.schema_arrow.names, str(file))
        return tuple(name for name in parquet.schema_arrow.names if name != target)


def _check_columns(schema: Any, path: DataFile, features: tuple[str, ...], target: str | None) -> None:
    refuse_repeated_names(schema.names, str(path))
    table = Table(schema.empty_table(), str(path), str)
    for name in (*features, *(() if target is None else (target,))):
        table.cells(name)  # says which columns there are
    for name in features:
        kind = schema.field(name).type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
            raise TableError(
                f"{path}, column {name!r}: values of type {kind} are not numbers. Name the columns to use in features, "
                "or encode text and categories first (sottovoce.SchemaEncoder)."
            )
    if target is not None:
        kind = schema.field(target).type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        if not (pa.types.is_primitive(kind) or is_text(kind)) or pa.types.is_temporal(kind):
            raise TableError(f"{path}, column {target!r}: values of type {kind} cannot be labels. Convert them before.")


def _check_described(schema: Schema, found: Any, path: DataFile) -> None:
    cells = Table.of_rows(found.empty_table(), str(path))
    schema.refuse_unreadable(cells, labelled=schema.target is not None)


def _numbers(column: Any) -> npt.NDArray[Any]:
    """Return an Arrow array as numpy's, missing values as NaN; whole numbers as doubles, whether some miss or not."""
    if not pa.types.is_floating(column.type):
        column = pa.compute.cast(column, pa.float64(), safe=False)
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _labels(column: Any) -> npt.NDArray[Any]:
    """Return labels of their own type; texts, and all where some are missing, as objects.

    In an array of texts each would take the room of the longest one: that of one row could fill the memory.
    """
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    column = pa.compute.cast(column, pa.string() if is_text(kind) else kind)
    if not (is_text(kind) or column.null_count):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    coded = column.dictionary_encode()
    texts = np.array([*coded.dictionary.to_pylist(), None], object)
    return np.asarray(texts[pa.compute.fill_null(coded.indices, -1).to_numpy()])
