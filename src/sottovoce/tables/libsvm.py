"""LIBSVM text as sparse rows."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse
from sklearn.datasets import load_svmlight_file

from sottovoce.exceptions import TableError
from sottovoce.tables.text import BLOCK_BYTES, Source, TextStream, first_line

__all__ = ["LibsvmTable", "read_libsvm"]


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
    source = Source(Path(path))
    start = partial(TextStream, source, skip_rows, block_bytes=BLOCK_BYTES)
    try:
        X, y = load_svmlight_file(io.BufferedReader(start()), n_features=n_features, zero_based=False)
    except TableError:
        raise
    except (ValueError, OverflowError) as error:
        raise _first_bad_line(source.path, start(), n_features, error) from None
    source.refuse_changed()
    if not len(y):
        raise TableError(f"{path}: the file holds no row of data.")
    X = _with_small_indices(X)
    line = partial(_line_of, start)
    for values, rows_of in ((X.data, lambda entry: np.searchsorted(X.indptr, entry, side="right") - 1), (y, int)):
        bad = np.flatnonzero(~np.isfinite(values))
        if bad.size:
            row = int(rows_of(bad[0]))
            what = "label" if values is y else f"value of feature {X.indices[bad[0]] + 1}"
            raise TableError(
                f"{path}, {line(row)}: the {what} is {values[bad[0]]:g}. Remove the row, or write a number."
            )
    return LibsvmTable(X, y, str(path), line)


def _with_small_indices(X: Any) -> Any:
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32 if X.nnz < 2**31 else np.int64)
    return X


def _line_of(start: Callable[[], TextStream], row: int) -> str:
    """Return the line of a row, for which the file is read once more."""
    try:
        data = (number for number, text in _lines(start()) if _is_data(text))
        return f"line {next(islice(data, row, None))}"
    except (TableError, StopIteration):  # the file has gone
        return f"row {row + 1}"


def _lines(stream: TextStream) -> Iterator[tuple[int, bytes]]:
    return chain.from_iterable(lines.numbered() for lines in stream.lines())


def _first_bad_line(path: Path, stream: TextStream, n_features: int, error: Exception) -> TableError:
    """Return the error for the first line that is not LIBSVM text, ``error`` being that of the parser."""
    for number, text in _lines(stream):
        fault = _fault_of_line(text, n_features)
        if fault is not None:
            return TableError(f"{path}, line {number}: {fault}")
    return TableError(f"{path}: cannot be read as LIBSVM text: {first_line(error)}")


def _fault_of_line(text: bytes, n_features: int) -> str | None:
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


def _is_data(text: bytes) -> bool:
    return bool(text.partition(b"#")[0].strip())
