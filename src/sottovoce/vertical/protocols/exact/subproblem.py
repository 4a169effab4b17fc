r"""A party's own problem, min_x R(x) + rho/2 |D x|^2 - rho b'x with b = D'v, solved exactly from cached factorisations.

With an L2 penalty it is one linear system, (R + rho D'D) x = rho b. It is factorised once for each rho:

* no more columns than rows: a Cholesky factor of R + rho D'D;
* more columns than rows: by the identity of Woodbury through the rows' Gram matrix K = F F' (F without the column of
  ones), :math:`(\lambda I + \rho F'F)^{-1} = (I - \rho F'(\lambda I + \rho K)^{-1} F) / \lambda`; the unpenalised
  intercept is bordered around it.

With groups of columns or a ball it is that of `sottovoce.vertical.protocols.exact.structured`.

With an L1 penalty or bounds it is solved by cyclic coordinate descent, warm-started from the last solution: on the Gram
matrix, or on the columns themselves where there are more of them than rows.
"""

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from sottovoce._numerics import Vector
from sottovoce.vertical.protocols.exact.structured import StructuredProblem
from sottovoce.vertical.table.columns import Columns
from sottovoce.vertical.table.kernels import descend_columns, descend_gram
from sottovoce.vertical.table.penalty import Penalty

__all__ = ["Subproblem"]

_TOLERANCE = 1e-12  # of the largest coefficient, on the change of a sweep
_SWEEPS = 10_000


class Subproblem:
    """The party's quadratic with its penalty; the factor of the last rho is kept.

    Parameters
    ----------
    columns : Columns
    penalty : Penalty
        Of the features; an intercept is free.
    """

    def __init__(self, columns: Columns, penalty: Penalty) -> None:
        self.columns = columns
        self.penalty = penalty
        self.l2 = np.full(columns.n_columns, penalty.l2)
        if columns.intercept:
            self.l2[-1] = 0.0
        self.wide = columns.n_features > columns.n_rows
        self._gram: Vector | None = None
        self._rho: float | Vector = 0.0
        self._factor: _Cholesky | _Woodbury | None = None
        self._by_column: tuple[Vector, Vector] | None = None
        self._structured: StructuredProblem | None = None

    @property
    def gram(self) -> Vector:
        """D'D."""
        if self._gram is None:
            self._gram = self.columns.gram()
        return self._gram

    def gram_times(self, x: Vector, scores: Vector) -> Vector:
        """Return D'D x, given ``scores`` = D x."""
        return self.columns.back(scores) if self.wide else self.gram @ x

    def penalty_of(self, x: Vector) -> float:
        """Return R(x)."""
        return self.penalty.value(x[: self.columns.n_features])

    def prox_residual(self, x: Vector, gradient: Vector) -> Vector:
        """Return x - prox_R(x - gradient), zero exactly where 0 is in gradient + dR(x)."""
        d = self.columns.n_features
        moved = x - gradient
        moved[:d] = self.penalty.prox(moved[:d])
        return x - moved

    def solve(self, b: Vector, rho: float, start: Vector) -> Vector:
        """Return argmin R(x) + rho/2 |Dx|^2 - rho b'x, b = D'v; ``start`` is near it."""
        if self.penalty.is_quadratic:
            return self.inverse_times(rho * b, rho)
        if self.penalty.is_structured:
            if self._structured is None:
                self._structured = StructuredProblem(self.columns, self.penalty)
            return self._structured.solve(b, rho, start)
        x = start.copy()
        d, p = self.columns.n_features, self.penalty
        if self.wide:
            if self._by_column is None:
                self._by_column = self.columns.dense_by_column(), self.columns.squares()
            D, squares = self._by_column
            descend_columns(D, squares, b, x, d, rho, p.l2, p.l1, p.low, p.high, _TOLERANCE, _SWEEPS)
        else:
            descend_gram(self.gram, b, x, d, rho, p.l2, p.l1, p.low, p.high, _TOLERANCE, _SWEEPS)
        return x

    def inverse_times(self, v: Vector, rho: "float | Vector") -> Vector:
        """Return (L2 + D' rho D)^-1 v for a number or one positive number a row; the factor of the last rho is kept."""
        same = rho is self._rho or (isinstance(rho, float) and isinstance(self._rho, float) and rho == self._rho)
        if self._factor is None or not same:
            self._factor = None  # so that only one is in memory
            if self.wide:
                self._factor = _Woodbury(self.columns, self._row_gram(), self.penalty.l2, rho)
            elif isinstance(rho, float):
                self._factor = _Cholesky(rho * self.gram, self.l2)
            else:
                self._factor = _Cholesky(self.columns.gram(rho), self.l2)
            self._rho = rho
        return self._factor.solve(v)

    def _row_gram(self) -> Vector:
        if self._gram is None:
            self._gram = self.columns.features_gram()
        return self._gram


class _Cholesky:
    """Factor of ``matrix`` + diag(``l2``)."""

    def __init__(self, matrix: Vector, l2: Vector) -> None:
        matrix[np.diag_indices(len(matrix))] += l2
        self._factor = cho_factor(matrix, lower=True, overwrite_a=True)

    def solve(self, v: Vector) -> Vector:
        """Return the inverse times v."""
        return np.asarray(cho_solve(self._factor, v))


class _Woodbury:
    """Inverse of l2 I + F' rho F through the rows' Gram matrix, bordered by the free intercept."""

    def __init__(self, columns: Columns, gram: Vector, l2: float, rho: "float | Vector") -> None:
        self._features = Columns(columns.table)
        self._l2 = l2
        matrix = gram.copy()
        matrix[np.diag_indices(len(matrix))] += l2 / rho
        self._factor = cho_factor(matrix, lower=True, overwrite_a=True)
        self._border: Vector | None = None
        if columns.intercept:
            ones = np.full(columns.n_rows, rho)
            self._border = self._without(self._features.back(ones))
            self._schur = float(ones.sum() - ones @ self._features.times(self._border))

    def _without(self, v: Vector) -> Vector:
        inner = cho_solve(self._factor, self._features.times(v))
        return np.asarray((v - self._features.back(inner)) / self._l2)

    def solve(self, v: Vector) -> Vector:
        """Return the inverse times v."""
        if self._border is None:
            return self._without(v)
        last = (v[-1] - float(self._border @ v[:-1])) / self._schur
        return np.append(self._without(v[:-1]) - last * self._border, last)
