"""Columns of a table, dense or sparse, with products by some of them at a cost of those only."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from sottovoce.exceptions import ParameterError
from sottovoce.optimize._arrays import Array, Indices, matrix

__all__ = ["Columns"]


class Columns:
    """A table A of shape (n_rows, n_columns), kept by columns.

    Parameters
    ----------
    A : array-like or sparse matrix
    """

    def __init__(self, A: Any) -> None:
        given: Any = A
        self._rows: Any  # of the transposed table
        if sp.issparse(A):
            if given.ndim != 2 or 0 in given.shape:
                raise ParameterError(f"A must be a matrix with rows and columns; got shape {given.shape}.")
            self._rows = sp.csr_array(given.T.astype(np.float64))
            self._rows.sum_duplicates()
            if not np.isfinite(self._rows.data).all():
                raise ParameterError("A holds NaN or infinite entries; remove or replace them.")
        else:
            self._rows = np.ascontiguousarray(matrix("A", A).T)
        self.shape: tuple[int, int] = (self._rows.shape[1], self._rows.shape[0])

    def times(self, x: Array, chosen: Indices | slice) -> Array:
        """Return A[:, chosen] x."""
        out: Array = self._part(chosen).T @ x
        return out

    def transposed_times(self, r: Array, chosen: Indices | slice) -> Array:
        """Return A[:, chosen]' r."""
        out: Array = self._part(chosen) @ r
        return out

    def gram(self) -> Array:
        """Return A'A as a dense matrix."""
        product: Any = self._rows @ self._rows.T
        out: Array = product if isinstance(product, np.ndarray) else product.toarray()
        return out

    def _part(self, chosen: Indices | slice) -> Any:
        return self._rows if isinstance(chosen, slice) and chosen == slice(None) else self._rows[chosen]
