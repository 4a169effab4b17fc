"""ParquetTable: columns of Parquet files as a matrix that is read from disk in each pass."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sottovoce._files import check_writable, whole_file
from sottovoce._optional import pa
from sottovoce._validation import choice, in_order
from sottovoce.central.data.row_memory import OnDisk, RowMemory
from sottovoce.central.data.scratch import check_room
from sottovoce.exceptions import ParameterError, TableError
from sottovoce.tables.addresses import DataFile, found_files
from sottovoce.tables.row_groups import CutTable, opened, row_groups, tables
from sottovoce.tables.table import Table, is_text, refuse_repeated_names

_BLOCK_BYTES = 1 << 24
_BATCH_BYTES = 1 << 22  # decoded at once
_LABEL_ROWS = 1 << 16


class ParquetTable(CutTable):
    """Numeric columns of one or several Parquet files, for training and prediction from disk.

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
        filesystem: Any = None,
        row_memory: str = "memory",
        scratch: str | Path | None = None,
    ) -> None:
        self._on_disk = choice("row_memory", row_memory, ("memory", "disk")) == "disk"
        self.scratch = scratch
        if self._on_disk or scratch is not None:
            check_room(0, scratch, "what is remembered of the rows")
        self._dtype = np.dtype(choice("dtype", dtype, ("float32", "float64")))
        files = found_files(path, ".parquet", filesystem)
        self._target = target
        self._features = in_order("features", features) if features is not None else _all_but(target, files[0])
        _check_names(self._features, target)

        self._of(row_groups(files, lambda schema, file: _check_columns(schema, file, self._features, target)))

    def __repr__(self) -> str:
        first, *others = dict.fromkeys(piece.file.shown for piece in self._pieces)
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

    def labels(self) -> npt.NDArray[Any]:
        """Read the target column into memory.

        Returns
        -------
        ndarray of shape (n_rows,)
            Numbers, booleans or texts, as they are in the files. Texts take 4 bytes a character of the longest one,
            for each row: whole numbers are better for large tables.

        Raises
        ------
        ParameterError
            If the table was made without ``target``.
        TableError
            If a label is missing; the message names the first such row.
        """
        return np.concatenate([block for _, block in self.label_blocks()])

    def label_blocks(self) -> Generator[tuple[slice, npt.NDArray[Any]]]:
        """Read the target column piece by piece; what is refused, and how, is as for `labels`."""
        if self._target is None:
            raise ParameterError(
                "y is missing, and the ParquetTable names no target: give y, or ParquetTable(..., target=NAME)."
            )
        columns = partial(self._columns, (self._target,), batch_rows=_LABEL_ROWS, n_threads=1)
        start = 0
        for (column,) in columns():
            if column.null_count:
                row = self.first_row + start + pa.compute.index(pa.compute.is_null(column), True).as_py()
                missing = sum(other.null_count for (other,) in columns())
                raise TableError(
                    f"column {self._target!r}: row {row} has no label ({missing} row(s) in all). Drop those rows "
                    "before."
                )
            try:
                labels = _labels(column)
            except UnicodeDecodeError:
                raise TableError(f"column {self._target!r}: a label is not UTF-8 text. Write the file again.") from None
            yield slice(start, start + len(labels)), labels
            start += len(labels)

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
                file.write(block.data)
        mapped: npt.NDArray[Any] = np.load(path, mmap_mode="r")
        return mapped

    def _read(self, n_threads: int) -> Generator[npt.NDArray[Any]]:
        width = len(self._features) * self._dtype.itemsize
        most, left = max(1, _BLOCK_BYTES // width), self._n_rows
        block = np.empty((min(most, left), len(self._features)), self._dtype)
        filled = 0
        batch_rows = max(64, _BATCH_BYTES // width)
        for batch in self._columns(self._features, batch_rows=batch_rows, n_threads=n_threads):
            columns = [_numbers(column) for column in batch]
            lo = 0
            while lo < len(columns[0]) and left > 0:
                count = min(len(columns[0]) - lo, len(block) - filled)
                into = block[filled : filled + count]
                with np.errstate(over="ignore"):  # beyond float32 is infinity, which is refused with its row
                    for k, column in enumerate(columns):
                        into[:, k] = column[lo : lo + count]
                lo, filled = lo + count, filled + count
                if filled == len(block):
                    left -= filled
                    yield block
                    block, filled = np.empty((min(most, left), len(self._features)), self._dtype), 0

    def _columns(self, names: tuple[str, ...], *, batch_rows: int, n_threads: int) -> Iterator[list[Any]]:
        """Yield some rows of these columns, as Arrow arrays, until the end of the last file."""
        # Arrow has one pool of threads for the whole process, which is not ours to resize
        use_threads = n_threads > 1 and n_threads >= pa.cpu_count()
        for table in tables(self._pieces, names, batch_rows, use_threads=use_threads):
            yield [table.data.column(name).chunk(0) for name in names]


def _all_but(target: str | None, file: DataFile) -> tuple[str, ...]:
    with opened(file) as parquet:
        refuse_repeated_names(parquet.schema_arrow.names, str(file))
        return tuple(name for name in parquet.schema_arrow.names if name != target)


def _check_names(features: tuple[str, ...], target: str | None) -> None:
    if not features:
        raise ParameterError("features must name at least one column besides the target; got none.")
    if len(set(features)) != len(features):
        raise ParameterError(f"features must not repeat a column; got {list(features)!r}.")
    if target in features:
        raise ParameterError(f"target {target!r} is also among features: a model would learn to copy it. Leave it out.")


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


def _numbers(column: Any) -> npt.NDArray[Any]:
    """Return an Arrow array as numpy's, missing values as NaN; whole numbers as doubles, whether some miss or not."""
    if not pa.types.is_floating(column.type):
        column = pa.compute.cast(column, pa.float64(), safe=False)
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _labels(column: Any) -> npt.NDArray[Any]:
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    column = pa.compute.cast(column, pa.string() if is_text(kind) else kind)
    if not is_text(kind):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    coded = column.dictionary_encode()
    return np.asarray(np.array(coded.dictionary.to_pylist())[coded.indices.to_numpy()])
