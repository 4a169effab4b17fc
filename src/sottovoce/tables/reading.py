"""Read a table: CSV, Parquet or LIBSVM text, the text formats also as .gz and .bz2.

Reading is strict: what cannot be a table is refused with the file, the line, the column and the remedy, and no row is
ever dropped or repaired in silence. CSV cells are read as text; what a column means is the schema's business.
"""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
import scipy.sparse
from sklearn.datasets import load_svmlight_file

from sottovoce.exceptions import ParameterError, TableError
from sottovoce.tables.layout import Layout
from sottovoce.tables.table import Table, refuse_repeated_names

__all__ = ["FORMATS", "LibsvmTable", "LibsvmText", "file_format", "read_libsvm", "read_table"]

FORMATS = ("csv", "parquet", "libsvm")

_FORMAT_OF_SUFFIX = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".data": "csv",
    ".test": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".libsvm": "libsvm",
    ".svm": "libsvm",
    ".svmlight": "libsvm",
}
_COMPRESSIONS: dict[str, Callable[[Path], Any]] = {".gz": gzip.open, ".bz2": bz2.open}
_BINARY_STARTS = (
    (b"\x1f\x8b", "is compressed with gzip: name it with .gz at the end"),
    (b"BZh", "is compressed with bzip2: name it with .bz2 at the end"),
    (b"PAR1", 'is a Parquet file: name it with .parquet at the end, or give format="parquet"'),
    (b"PK\x03\x04", "is a zip archive or a spreadsheet: unpack it, or export it as CSV"),
    (b"\xff\xfe", "is UTF-16 text: save it as UTF-8"),
    (b"\xfe\xff", "is UTF-16 text: save it as UTF-8"),
)
_NEWLINE = b"\n"
_BLOCK_BYTES = 1 << 24


def file_format(path: str | Path, *, chosen: str | None = None) -> str:
    """Return ``"csv"``, ``"parquet"`` or ``"libsvm"``: the chosen format, or that of the file's name.

    Raises
    ------
    ParameterError
        If the chosen format is unknown.
    TableError
        If the name does not tell the format.
    """
    if chosen is not None:
        if chosen not in FORMATS:
            raise ParameterError(f"format must be one of {', '.join(map(repr, FORMATS))}; got {chosen!r}.")
        return chosen
    path = Path(path)
    suffix = Path(path.stem).suffix if path.suffix.lower() in _COMPRESSIONS else path.suffix
    found = _FORMAT_OF_SUFFIX.get(suffix.lower())
    if found is None:
        raise TableError(
            f"{path}: the name does not tell the format (known endings: {', '.join(_FORMAT_OF_SUFFIX)}, each text "
            'format also with .gz or .bz2). Give format="csv", format="parquet" or format="libsvm".'
        )
    return found


def read_table(
    path: str | Path,
    *,
    layout: Layout | None = None,
    format: str | None = None,  # noqa: A002
    names: Sequence[str] | None = None,
    may_lack: str | None = None,
    skip_rows: int = 0,
) -> Table:
    """Read a table with named columns from CSV or Parquet.

    Parameters
    ----------
    path : str or Path
        The file.
    layout : Layout or None, default=None
        How a CSV file is written. None: with a header, without comments.
    format : {"csv", "parquet"} or None, default=None
        None takes it from the name of the file.
    names : sequence of str or None, default=None
        The names of the columns of a CSV file without a header. None names them ``column_1``, ``column_2``, ...
    may_lack : str or None, default=None
        One of ``names`` that the file may leave out: the target, at prediction.
    skip_rows : int, default=0
        Lines to skip at the start of a CSV file, before the header.

    Returns
    -------
    Table
        CSV cells as text, Parquet cells as they are.

    Raises
    ------
    TableError
        If the file is missing, empty, binary, truncated, ragged or of another format, or repeats a column name.
    """
    path = Path(path)
    kind = file_format(path, chosen=format)
    if kind == "libsvm":
        raise TableError(f"{path}: LIBSVM text has no named columns; a table in CSV or Parquet is needed here.")
    if kind == "parquet":
        if skip_rows:
            raise ParameterError("skip_rows is for text tables: a Parquet file has no lines.")
        return _read_parquet(path)
    return _read_csv(path, layout or Layout(), names, may_lack, skip_rows)


@dataclass(frozen=True, slots=True, eq=False)
class LibsvmTable:
    """The rows of a LIBSVM text file.

    Parameters
    ----------
    X : scipy.sparse.csr_matrix of shape (n_rows, n_features), float64
        The features; the index 1 of the file is column 0.
    y : ndarray of shape (n_rows,), float64
        The labels.
    source : str
        Name of the file, for messages.
    line : callable
        Maps row numbers, counted from 0, to texts such as ``"line 17"``.
    """

    X: scipy.sparse.csr_matrix[Any]
    y: npt.NDArray[np.float64]
    source: str
    line: Callable[[int], str]


@dataclass(frozen=True, slots=True, eq=False)
class LibsvmText:
    """A LIBSVM text file of which the lines were counted, and no number was read yet.

    Attributes
    ----------
    path : Path
    skip_rows : int
        Lines that were skipped at the start.
    n_rows : int
    """

    path: Path
    skip_rows: int
    n_rows: int
    _raw: bytes

    @classmethod
    def open(cls, path: str | Path, *, skip_rows: int = 0) -> LibsvmText:
        """Read the lines of a file; parameters and errors as for `read_libsvm`, but for those of a line."""
        path = Path(path)
        raw = _skip_lines(_read_text(path), skip_rows, path)
        n_rows = sum(map(_is_libsvm_data, raw.split(_NEWLINE)))
        if n_rows == 0:
            raise TableError(f"{path}: the file holds no row of data.")
        return cls(path, skip_rows, n_rows, raw)

    def text(self, chosen: npt.NDArray[np.bool_]) -> str:
        """Return the lines of some rows."""
        lines = filter(_is_libsvm_data, self._raw.split(_NEWLINE))
        return "".join(f"{line.decode().rstrip()}\n" for line, taken in zip(lines, chosen, strict=True) if taken)

    def table(self, n_features: int) -> LibsvmTable:
        """Return the numbers; see `read_libsvm`."""
        path, raw = self.path, self._raw
        line = partial(_line_of_row, path, self.skip_rows, 0, _is_libsvm_data)
        try:
            X, y = load_svmlight_file(io.BytesIO(raw), n_features=n_features, zero_based=False)
        except (ValueError, OverflowError) as error:
            raise _first_bad_libsvm_line(path, raw, n_features, self.skip_rows, error) from None
        X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32 if X.nnz < 2**31 else np.int64)
        for values, rows_of in ((X.data, lambda entry: np.searchsorted(X.indptr, entry, side="right") - 1), (y, int)):
            bad = np.flatnonzero(~np.isfinite(values))
            if bad.size:
                row = int(rows_of(bad[0]))
                what = "label" if values is y else f"value of feature {X.indices[bad[0]] + 1}"
                raise TableError(
                    f"{path}, {line(row)}: the {what} is {values[bad[0]]:g}. Remove the row, or write a number."
                )
        return LibsvmTable(X, y, str(path), line)


def read_libsvm(path: str | Path, *, n_features: int, skip_rows: int = 0) -> LibsvmTable:
    """Read LIBSVM text: ``label index:value index:value ...``, indices from 1 and ascending.

    Parameters
    ----------
    path : str or Path
        The file, also as .gz or .bz2.
    n_features : int, >= 1
        Public. The number of features; it is never taken from the data.
    skip_rows : int, default=0
        Lines to skip at the start.

    Raises
    ------
    TableError
        If the file is missing, empty, binary, truncated, or a line is not LIBSVM text; naming the first such line.
    """
    return LibsvmText.open(path, skip_rows=skip_rows).table(n_features)


def _read_parquet(path: Path) -> Table:
    if path.suffix.lower() in _COMPRESSIONS:
        raise TableError(f"{path}: a Parquet file is compressed inside. Unpack it first.")
    try:
        if path.stat().st_size == 0:
            raise TableError(f"{path}: the file is empty.")
        with pyarrow.parquet.ParquetFile(path) as file:
            refuse_repeated_names(file.schema_arrow.names, str(path))
            data = file.read()
    except FileNotFoundError:
        raise TableError(f"{path}: cannot read the file: No such file or directory.") from None
    except UnicodeDecodeError:
        raise TableError(f"{path}: cannot be read as Parquet: the name of a column is not UTF-8 text.") from None
    except (pa.ArrowException, OSError) as error:
        raise TableError(
            f'{path}: cannot be read as Parquet: {_first_line(error)} Give format="..." if it is of another format.'
        ) from None
    if data.num_rows == 0:
        raise TableError(f"{path}: the table has columns, but no row of data.")
    return Table(data, str(path), lambda row: f"row {row + 1}")


def _read_csv(path: Path, layout: Layout, names: Sequence[str] | None, may_lack: str | None, skip_rows: int) -> Table:
    raw = _skip_lines(_read_text(path), skip_rows, path)
    comment = None if layout.comment is None else layout.comment.encode()
    if comment is not None:
        raw = re.sub(rb"(?m)^" + re.escape(comment) + rb"[^\r\n]*", b"", raw)
    raw = raw.lstrip(b"\r\n")
    if not raw:
        raise TableError(f"{path}: the file holds no data.")
    line = partial(_line_of_row, path, skip_rows, int(layout.header), partial(_is_csv_data, comment))
    delimiter = layout.delimiter or ("\t" if ".tsv" in path.suffixes else ",")
    first = _cells_of_line(path, raw, delimiter)
    if layout.header:
        names = [name.strip() for name in first]
        raw = raw.partition(b"\n")[2]
    else:
        names = _given_names(path, line, first, names, may_lack)
    refuse_repeated_names(names, str(path))
    if not raw.lstrip(b"\r\n"):
        raise TableError(f"{path}: the table has a header, but no row of data.")
    data = _parse_csv(path, raw, names, delimiter, line)
    if b'"' in raw:
        _refuse_line_breaks(path, data, line)
    return Table(data, str(path), line)


def _parse_csv(path: Path, raw: bytes, names: Sequence[str], delimiter: str, line: Callable[[int], str]) -> Any:
    """Return the lines as an Arrow table of texts."""
    ragged: list[Any] = []

    def stop(row: Any) -> str:
        ragged.append(row)
        return "error"

    try:
        return pyarrow.csv.read_csv(
            pa.BufferReader(raw),
            # one thread: only then does a ragged row know its number
            read_options=pyarrow.csv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES, column_names=list(names)),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=delimiter, newlines_in_values=b'"' in raw, invalid_row_handler=stop
            ),
            convert_options=pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
        )
    except pa.ArrowInvalid as error:
        if ragged:
            row = ragged[0]
            raise TableError(
                f"{path}, {line(row.number - 1)}: {row.actual_columns} cells instead of {row.expected_columns}. "
                'Correct the line, put cells that hold the delimiter between quotes (""), or give delimiter="...".'
            ) from None
        raise TableError(f"{path}: cannot be read as CSV: {_first_line(error)}") from None


def _cells_of_line(path: Path, raw: bytes, delimiter: str) -> list[str]:
    """Return the cells of the first line."""
    text = raw.partition(b"\n")[0].rstrip(b"\r").decode()
    try:
        return next(csv.reader([text], delimiter=delimiter))
    except csv.Error as error:
        raise TableError(f"{path}: the first line cannot be read as CSV: {error}.") from None


def _given_names(
    path: Path,
    line: Callable[[int], str],
    cells: Sequence[str],
    names: Sequence[str] | None,
    may_lack: str | None,
) -> list[str]:
    """Return the names of the columns of a file without a header, ``cells`` being those of its first line."""
    if names is None:
        return [f"column_{position + 1}" for position in range(len(cells))]
    if len(cells) == len(names):
        return list(names)
    if may_lack in names and len(cells) == len(names) - 1:
        return [name for name in names if name != may_lack]
    raise TableError(
        f"{path}, {line(0)}: {len(cells)} cells, but the schema describes {len(names)} columns. A file without a "
        'header needs one section a column, in its order; write type = "ignore" for those to leave out. If the cells '
        'are separated otherwise, give delimiter="...".'
    )


def _refuse_line_breaks(path: Path, data: Any, line: Callable[[int], str]) -> None:
    """Refuse a cell that runs over several lines: mostly a quote that is never closed, which would swallow rows."""
    broken = [
        (pc.index(pc.match_substring_regex(column, "[\r\n]"), True).as_py(), name)
        for name, column in zip(data.column_names, data.columns, strict=True)
    ]
    rows = [(row, name) for row, name in broken if row >= 0]
    if rows:
        row, name = min(rows)
        raise TableError(
            f"{path}, {line(row)}, column {name!r}: the quoted cell runs over several lines. Close the quote, or "
            "remove the line break."
        )


def _first_bad_libsvm_line(path: Path, raw: bytes, n_features: int, skip_rows: int, error: Exception) -> TableError:
    """Return the error for the first line that is not LIBSVM text, ``error`` being that of the parser."""
    for number, text in enumerate(raw.splitlines(), start=skip_rows + 1):
        fault = _fault_of_libsvm_line(text, n_features)
        if fault is not None:
            return TableError(f"{path}, line {number}: {fault}")
    return TableError(f"{path}: cannot be read as LIBSVM text: {_first_line(error)}")


def _fault_of_libsvm_line(text: bytes, n_features: int) -> str | None:
    """Return what is wrong with one line and what to do about it, or None if it is good."""
    words = text.partition(b"#")[0].decode().split()
    if not words:
        return None
    if not _reads_as(float, words[0]):
        return f"the label {words[0]!r} is not a number. Write label index:value index:value ..."
    previous = 0
    for word in words[1:]:
        index, colon, value = word.partition(":")
        if index == "qid":
            continue
        if not colon or not _reads_as(int, index) or not _reads_as(float, value):
            return f"{word!r} is not index:value with two numbers."
        if int(index) < 1:
            return f"the index {int(index)} is below 1: LIBSVM counts features from 1. Add 1 to all indices."
        if int(index) > n_features:
            return f"the index {int(index)} is above the number of features, {n_features}. Correct one of them."
        if int(index) <= previous:
            return (
                f"the index {int(index)} follows {previous}: indices must ascend. Sort the line, and drop repetitions."
            )
        previous = int(index)
    return None


def _reads_as(kind: Callable[[str], object], text: str) -> bool:
    try:
        kind(text)
    except ValueError:
        return False
    return True


def _read_text(path: Path) -> bytes:
    """Return the decompressed bytes of a text file; refuse what is empty, binary or truncated."""
    raw = _read_bytes(path)
    if not raw:
        raise TableError(f"{path}: the file is empty.")
    for start, remedy in _BINARY_STARTS:
        if raw.startswith(start):
            raise TableError(f"{path}: the file {remedy}.")
    zero = raw.find(b"\0")
    if zero >= 0:
        raise TableError(
            f"{path}, line {raw.count(_NEWLINE, 0, zero) + 1}: a NUL byte: this is a binary file, or damaged. Give a "
            "text file (CSV or LIBSVM) or a Parquet file."
        )
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        raise TableError(
            f"{path}, line {raw.count(_NEWLINE, 0, error.start) + 1}: the byte 0x{raw[error.start]:02x} is not UTF-8: "
            "this is a binary file, or text in another encoding. Save it as UTF-8."
        ) from None
    return raw.removeprefix(codecs.BOM_UTF8)


def _read_bytes(path: Path) -> bytes:
    compression = _COMPRESSIONS.get(path.suffix.lower())
    try:
        if compression is None:
            return path.read_bytes()
        with compression(path) as file:
            return bytes(file.read())
    except EOFError:
        raise TableError(f"{path}: the compressed file ends too early: it is truncated. Copy it again.") from None
    except (OSError, zlib.error) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise TableError(f"{path}: cannot read the file: {error.strerror}.") from None
        raise TableError(
            f"{path}: cannot be decompressed: {_first_line(error)} The file is damaged, or not what its name says."
        ) from None


def _skip_lines(raw: bytes, skip_rows: int, path: Path) -> bytes:
    if isinstance(skip_rows, bool) or not isinstance(skip_rows, int) or skip_rows < 0:
        raise ParameterError(f"skip_rows must be a whole number >= 0; got {skip_rows!r}.")
    for skipped in range(skip_rows):
        _, newline, raw = raw.partition(_NEWLINE)
        if not newline:
            raise TableError(f"{path}: skip_rows = {skip_rows}, but the file has only {skipped + 1} lines.")
    return raw


def _line_of_row(path: Path, skip_rows: int, header: int, is_data: Callable[[bytes], bool], row: int) -> str:
    """Return where ``row`` (counted from 0) stands in the file. Reads the file again: it is called for errors only."""
    seen = -header
    try:
        lines = _read_text(path).splitlines()
    except TableError:  # a pipe, or the file has gone: the row is the best that can be told
        lines = []
    for number, text in enumerate(lines, start=1):
        if number > skip_rows and is_data(text):
            if seen == row:
                return f"line {number}"
            seen += 1
    return f"row {row + 1}"


def _is_csv_data(comment: bytes | None, text: bytes) -> bool:
    return bool(text) and (comment is None or not text.startswith(comment))


def _is_libsvm_data(text: bytes) -> bool:
    return bool(text.partition(b"#")[0].strip())


def _first_line(error: Exception) -> str:
    text = str(error).partition("\n")[0].rstrip(".")
    return f"{text}."
