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

from sottovoce._numerics import PIECE, Vector


class Columns:
    """A dense or CSR table and, where ``intercept`` is set, a column of ones behind it.

    ``table``: of shape (n_rows, n_features).
    """

    def __init__(self, table: Any, *, intercept: bool = False) -> None:
        self.table = table
        self._sparse: bool = sp.issparse(table)
        self.intercept = intercept
        self.n_rows, self.n_features = table.shape
        self.n_columns = self.n_features + intercept

    def times(self, x: Vector) -> Vector:
        """Return D x, one number a row."""
        features = x[: self.n_features]
        if self._sparse:
            out = np.asarray(self.table @ features, dtype=np.float64)
        else:
            out = np.concatenate([piece @ features for _, piece in self._pieces()])
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

    def gram(self, weights: Vector | None = None) -> Vector:
        """Return D'WD for a diagonal W of non-negative ``weights`` (1 where None)."""
        out = np.zeros((self.n_columns, self.n_columns))
        d = self.n_features
        if self._sparse:
            table = self._double()
            heavy = table if weights is None else sp.diags_array(weights) @ table
            out[:d, :d] = (table.T @ heavy).toarray()
        else:
            root = None if weights is None else np.sqrt(weights)
            for place, piece in self._pieces():
                scaled = piece if root is None else piece * root[place, None]
                out[:d, :d] += scaled.T @ scaled
        if self.intercept:
            ones = np.ones(self.n_rows) if weights is None else weights
            out[d] = out[:, d] = self.back(ones)
        return out

    def features_gram(self) -> Vector:
        """Return F F' of the features without the column of ones, one line and column a row of the table."""
        if self._sparse:
            table = self._double()
            return np.asarray((table @ table.T).toarray())
        table = np.asarray(self.table, dtype=np.float64)  # fewer rows than columns: the product is what is large
        return np.asarray(table @ table.T)

    def _pieces(self) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """Yield places and rows of a dense table in double precision: one in single precision piece by piece."""
        size = max(1, self.n_rows) if self.table.dtype == np.float64 else PIECE
        for low in range(0, max(1, self.n_rows), size):
            place = slice(low, min(low + size, self.n_rows))
            yield place, np.asarray(self.table[place], dtype=np.float64)

    def _double(self) -> Any:
        """Return the sparse table in double precision: scipy would sum products of float32 in float32."""
        return self.table.astype(np.float64, copy=False)


def bounded_pieces(table: Any, data_norm: float) -> Iterator[tuple[slice, NDArray[np.float64]]]:
    """Yield pieces of the table and their places: each row divided by ``data_norm``, or by its norm if that is larger.

    ``table``, of shape (n_rows, n_features): finite numbers.
    ``data_norm``, > 0: public bound on the norm of a row.

    Notes
    -----
    What is yielded is dense and in double precision; a row is longer than 1 by rounding only, by less than 2^-20 for up
    to 2^30 columns. It is a function of that row alone.
    """
    for low in range(0, table.shape[0], PIECE):
        place = slice(low, min(low + PIECE, table.shape[0]))
        piece: Any = table[place]
        rows = np.asarray(piece if isinstance(piece, np.ndarray) else piece.toarray(), dtype=np.float64)
        # by its largest entry first, so that no square overflows or vanishes
        largest = np.maximum(np.abs(rows).max(axis=1, initial=0.0), data_norm)[:, None]
        rows = rows / largest
        yield place, rows / np.maximum(data_norm / largest, np.linalg.norm(rows, axis=1, keepdims=True))


# ------------------------------------------------------------------ what a party is given


def table_of(X: Any, what: str) -> Any:
    """Return a table of finite numbers; what a site has read is one: without scikit-learn, half of all imports."""
    read = type(X) is np.ndarray and X.dtype in (np.float64, np.float32) and X.ndim == 2 and X.size > 0
    if read and X.flags.c_contiguous and X.dtype.isnative and np.isfinite(X).all():
        return X
    from sklearn.utils.validation import check_array

    return check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32], order="C", input_name=what)


def one_a_place(table: Any) -> Any:
    """Return a CSR table with one entry a place: a bound on entries is one on what a place adds up to."""
    out = sp.csr_array(table)
    if not out.has_canonical_format:
        out = out.copy()
        out.sum_duplicates()
    return out
