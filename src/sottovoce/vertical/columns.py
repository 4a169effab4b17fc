"""The columns of one party as numbers: products, their transposes and Gram matrices, in pieces that fit the cache.

Dense tables stay in the type they came in (float32 takes half the memory); products are summed in double precision,
piece by piece, so that most products make no double copy of a float32 table. (Gram matrices of a sparse one do, and so
does F F' of a wide dense one.)
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

__all__ = ["Columns"]

_PIECE = 2**17  # entries: a megabyte in double precision
_GRAM_ROWS = 8192  # at least, in a piece of a Gram matrix, so that adding up does not cost more than multiplying

Vector = NDArray[np.float64]


class Columns:
    """A dense or CSR table and, where ``intercept`` is set, a column of ones behind it.

    Parameters
    ----------
    table : ndarray or csr_array of shape (n_rows, n_features)
    intercept : bool
    """

    def __init__(self, table: Any, *, intercept: bool = False) -> None:
        self.table = table
        self._sparse: bool = sp.issparse(table)
        self.intercept = intercept
        self.n_rows, self.n_features = table.shape
        self.n_columns = self.n_features + intercept

    def times(self, x: Vector) -> Vector:
        """Return D x, one number a row."""
        if self._sparse:
            out = np.asarray(self.table @ x[: self.n_features], dtype=np.float64)
        else:
            out = np.empty(self.n_rows)
            for place, piece in self._pieces():
                np.matmul(piece, x[: self.n_features], out=out[place])
        if self.intercept:
            out += x[-1]
        return out

    def back(self, v: Vector) -> Vector:
        """Return D'v, one number a column."""
        out = np.zeros(self.n_columns)
        if self._sparse:
            out[: self.n_features] = self.table.T @ v
        else:
            for place, piece in self._pieces():
                out[: self.n_features] += v[place] @ piece
        if self.intercept:
            out[-1] = v.sum()
        return out

    def gram(self, weights: Vector | None = None) -> NDArray[np.float64]:
        """Return D'WD for a diagonal W of non-negative ``weights`` (1 where None)."""
        out = np.zeros((self.n_columns, self.n_columns))
        d = self.n_features
        if self._sparse:
            table = self._double()
            heavy = table if weights is None else sp.diags_array(weights) @ table
            out[:d, :d] = (table.T @ heavy).toarray()
        else:
            root = None if weights is None else np.sqrt(weights)
            for place, piece in self._pieces(_GRAM_ROWS):
                scaled = piece if root is None else piece * root[place, None]
                out[:d, :d] += scaled.T @ scaled
        if self.intercept:
            ones = np.ones(self.n_rows) if weights is None else weights
            out[d] = out[:, d] = self.back(ones)
        return out

    def features_gram(self) -> NDArray[np.float64]:
        """Return F F' of the features without the column of ones, one line and column a row of the table."""
        if self._sparse:
            table = self._double()
            return np.asarray((table @ table.T).toarray())
        table = np.asarray(self.table, dtype=np.float64)  # fewer rows than columns: the product is what is large
        return np.asarray(table @ table.T)

    def squares(self) -> Vector:
        """Return the sum of squares of each column."""
        out = np.zeros(self.n_columns)
        if self._sparse:
            table = self._double()
            out[: self.n_features] = table.multiply(table).sum(axis=0)
        else:
            for _, piece in self._pieces():
                out[: self.n_features] += np.einsum("ij,ij->j", piece, piece)
        if self.intercept:
            out[-1] = self.n_rows
        return out

    def dense_by_column(self) -> NDArray[np.float64]:
        """Return the whole table in double precision, column by column in memory."""
        table = self.table.toarray() if self._sparse else self.table
        if self.intercept:
            table = np.column_stack([table, np.ones(self.n_rows)])
        return np.asfortranarray(table, dtype=np.float64)

    def _double(self) -> Any:
        """Return the sparse table in double precision: scipy would sum products of float32 in float32."""
        return self.table.astype(np.float64, copy=False)

    def _pieces(self, least: int = 1) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """Yield places and their rows in double precision; the memory of a piece is used again for the next."""
        rows = max(least, _PIECE // max(1, self.n_features))
        single = self.table.dtype != np.float64
        buffer = np.empty((min(rows, self.n_rows), self.n_features)) if single else None
        for lo in range(0, self.n_rows, rows):
            place = slice(lo, min(lo + rows, self.n_rows))
            piece = self.table[place]
            if buffer is not None:
                np.copyto(buffer[: len(piece)], piece)
                piece = buffer[: len(piece)]
            yield place, piece
