"""LIBSVM text as sparse rows, all at once or some at a time."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse
from sklearn.datasets import load_svmlight_file

from sottovoce.exceptions import TableError
from sottovoce.tables.batches import KEPT_BYTES
from sottovoce.tables.text import BLOCK_BYTES, Lines, Reported, Source, TextFile, first_line

__all__ = ["LibsvmTable", "LibsvmText", "read_libsvm"]


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

    def rows(self, lo: int, hi: int) -> LibsvmTable:
        """Return some of the rows."""
        return LibsvmTable(self.X[lo:hi], self.y[lo:hi], self.source, lambda row: self.line(lo + row))


class LibsvmText:
    """A LIBSVM text file of which no number was read yet.

    Parameters
    ----------
    file : TextFile
    """

    def __init__(self, file: TextFile) -> None:
        self.path = file.source.path
        self._file = file
        self._n_rows: int | None = None
        self._kept: list[Lines] | None = None

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        skip_rows: int = 0,
        once: bool = False,
        report: Reported | None = None,
        block_bytes: int = BLOCK_BYTES,
    ) -> LibsvmText:
        """Open a file; parameters as for `read_libsvm` and `open_table`."""
        return cls(TextFile(Source(Path(path), once=once), skip_rows, block_bytes, report))

    @property
    def n_rows(self) -> int:
        """The number of rows. The first time the file is read for it; no number is looked at.

        Raises
        ------
        TableError
            As `read_libsvm` does, but for the errors of a line.
        """
        if self._n_rows is None:
            kept: list[Lines] | None = []
            size = count = 0
            for lines in self._lines():
                count += lines.count(_is_data)
                size += len(lines.raw)
                if kept is not None:
                    kept = None if size > KEPT_BYTES else [*kept, lines]
            self._refuse_none(count)
            self._n_rows, self._kept = count, kept
        return self._n_rows

    @property
    def is_small(self) -> bool:
        """Whether the text is kept in memory."""
        return self._kept is not None

    def texts(self, chosen: npt.NDArray[np.bool_]) -> Iterator[str]:
        """Yield the lines of some rows, some at a time."""
        row = 0
        for lines in self._lines():
            texts = [text for text in lines.raw.splitlines() if _is_data(text)]
            taken = chosen[row : row + len(texts)]
            row += len(texts)
            yield "".join(f"{text.decode().rstrip()}\n" for text, use in zip(texts, taken, strict=True) if use)

    def tables(self, n_features: int, *, most_rows: int | None = None) -> Iterator[LibsvmTable]:
        """Yield the numbers of some rows after those of others; errors as for `read_libsvm`."""
        count = 0
        for lines in self._lines():
            table = self._table(lines, n_features, count)
            n_rows = table.X.shape[0]
            for lo in range(0, n_rows, most_rows or max(n_rows, 1)):
                yield table if most_rows is None or n_rows <= most_rows else table.rows(lo, lo + most_rows)
            count += n_rows
        self._refuse_none(count)

    def _refuse_none(self, n_rows: int) -> None:
        if n_rows == 0:
            raise TableError(f"{self.path}: the file holds no row of data.")

    def table(self, n_features: int) -> LibsvmTable:
        """Return the numbers; see `read_libsvm`."""
        tables = list(self.tables(n_features))
        if len(tables) == 1:
            return tables[0]
        X: Any = scipy.sparse.vstack([table.X for table in tables], format="csr")
        X = scipy.sparse.csr_matrix(X)
        X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32 if X.nnz < 2**31 else np.int64)
        return LibsvmTable(X, np.concatenate([table.y for table in tables]), str(self.path), self._line)

    def _lines(self) -> Iterator[Lines]:
        if self._kept is not None:
            yield from self._kept
            return
        if self._n_rows is not None:
            self._file.source.refuse_changed()
        yield from self._file.lines()
        self._file.source.refuse_changed()

    def _line(self, row: int) -> str:
        left = row
        if not self._file.source.again:
            return f"row {row + 1}"
        for lines in self._lines():
            if (number := lines.number_of(left, _is_data)) is not None:
                return f"line {number}"
            left -= lines.count(_is_data)
        return f"row {row + 1}"

    def _table(self, lines: Lines, n_features: int, first_row: int) -> LibsvmTable:
        path = self.path
        line = partial(_line_of, lines, first_row)
        try:
            X, y = load_svmlight_file(io.BytesIO(lines.raw), n_features=n_features, zero_based=False)
        except (ValueError, OverflowError) as error:
            raise _first_bad_line(path, lines, n_features, error) from None
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
    return LibsvmText.open(path, skip_rows=skip_rows, once=True).table(n_features)


def _line_of(lines: Lines, first_row: int, row: int) -> str:
    number = lines.number_of(row, _is_data)
    return f"row {first_row + row + 1}" if number is None else f"line {number}"


def _first_bad_line(path: Path, lines: Lines, n_features: int, error: Exception) -> TableError:
    """Return the error for the first line that is not LIBSVM text, ``error`` being that of the parser."""
    for number, text in enumerate(lines.raw.splitlines(), start=lines.first):
        fault = _fault_of_line(text, n_features)
        if fault is not None:
            return TableError(f"{path}, line {number}: {fault}")
    return TableError(f"{path}: cannot be read as LIBSVM text: {first_line(error)}")


def _fault_of_line(text: bytes, n_features: int) -> str | None:
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


def _is_data(text: bytes) -> bool:
    return bool(text.partition(b"#")[0].strip())
