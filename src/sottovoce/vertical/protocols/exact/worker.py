"""The party's side of L-BFGS (`sottovoce.vertical.protocols.exact.lbfgs`): its own coefficients, pairs and metric."""

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from sottovoce._numerics import Vector
from sottovoce.vertical.table.columns import Columns


class Subproblem:
    r"""A party's own linear system, (R + D'WD) x = v with R the L2 penalty, solved exactly from a cached factorisation.

    It is the preconditioner of its block, factorised once for each W:

    * no more columns than rows: a Cholesky factor of R + D'WD;
    * more columns than rows: by the identity of Woodbury through the rows' Gram matrix K = F F' (F without the column
      of ones), :math:`(\lambda I + \rho F'F)^{-1} = (I - \rho F'(\lambda I + \rho K)^{-1} F) / \lambda`; the
      unpenalised intercept is bordered around it.

    ``l2``, >= 0: penalty of the features, for the sum of losses; an intercept is free.
    """

    def __init__(self, columns: Columns, l2: float) -> None:
        self.columns = columns
        self.l2 = np.full(columns.n_columns, l2)
        if columns.intercept:
            self.l2[-1] = 0.0
        self._penalty = l2
        self.wide = columns.n_features > columns.n_rows
        self._gram: Vector | None = None
        self._rho: float | Vector = 0.0
        self._factor: _Cholesky | _Woodbury | None = None

    @property
    def gram(self) -> Vector:
        """D'D."""
        if self._gram is None:
            self._gram = self.columns.gram()
        return self._gram

    def penalty_of(self, x: Vector) -> float:
        w = x[: self.columns.n_features]
        return float(0.5 * self._penalty * (w @ w))

    def inverse_times(self, v: Vector, rho: "float | Vector") -> Vector:
        """Return (L2 + D' rho D)^-1 v for a number or one positive number a row; the factor of the last rho is kept."""
        same = rho is self._rho or (isinstance(rho, float) and isinstance(self._rho, float) and rho == self._rho)
        if self._factor is None or not same:
            self._factor = None  # so that only one is in memory
            if self.wide:
                if self._gram is None:
                    self._gram = self.columns.features_gram()
                self._factor = _Woodbury(self.columns, self._gram, self._penalty, rho)
            elif isinstance(rho, float):
                self._factor = _Cholesky(rho * self.gram, self.l2)
            else:
                self._factor = _Cholesky(self.columns.gram(rho), self.l2)
            self._rho = rho
        return self._factor.solve(v)


class _Cholesky:
    """Factor of ``matrix`` + diag(``l2``)."""

    def __init__(self, matrix: Vector, l2: Vector) -> None:
        matrix[np.diag_indices(len(matrix))] += l2
        self._factor = cho_factor(matrix, lower=True, overwrite_a=True)

    def solve(self, v: Vector) -> Vector:
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
        if self._border is None:
            return self._without(v)
        last = (v[-1] - float(self._border @ v[:-1])) / self._schur
        return np.append(self._without(v[:-1]) - last * self._border, last)


class LbfgsWorker:
    """The party's side: its coefficients, its part of the last pairs, and the preconditioner.

    ``memory``: pairs kept.
    """

    def __init__(self, problem: Subproblem, memory: int) -> None:
        self.problem = problem
        self._memory = memory
        self._curvature: float | Vector = 0.0
        n_columns = problem.columns.n_columns
        self.x = np.zeros(n_columns)
        self._direction = np.zeros(n_columns)
        self._gradient = np.zeros(n_columns)
        self._scaled_gradient = np.zeros(n_columns)
        self._steps: list[Vector] = []
        self._differences: list[Vector] = []
        self._scaled_differences: list[Vector] = []

    @property
    def coefficients(self) -> tuple[Vector, float]:
        """Those of the features, and the intercept."""
        features = self.problem.columns.n_features
        return self.x[:features].copy(), float(self.x[features:].sum())

    def gradient(self, step: float, slopes: Vector, curvature: Vector) -> Vector:
        """Move along the last direction, take the gradient there, and return the inner products that are new."""
        moved, again = step != 0.0, len(curvature) > 0
        if again:
            self._curvature = float(curvature[0]) if len(curvature) == 1 else curvature
        if moved:
            self.move(step)
        gradient = self.problem.columns.back(slopes) + self.problem.l2 * self.x
        if moved:
            difference = gradient - self._gradient
            self._steps.append(step * self._direction)
            self._differences.append(difference)
            self._scaled_differences.append(self._scaled(difference))
            if len(self._steps) > self._memory:
                del self._steps[0], self._differences[0], self._scaled_differences[0]
        if again:
            self._scaled_differences = [self._scaled(y) for y in self._differences]
        self._gradient, self._scaled_gradient = gradient, self._scaled(gradient)
        s, y, hy = self._steps, self._differences, self._scaled_differences
        products = [a @ gradient for a in s]
        products += [a @ self._scaled_gradient for a in y]
        products += [gradient @ gradient]
        if moved:
            products += [s[-1] @ b for b in y]
            products += [a @ y[-1] for a in s[:-1]]
        if again:
            products += [a @ b for a in y for b in hy]
        elif moved:
            products += [a @ hy[-1] for a in y]
        return np.array(products)

    def move(self, step: float) -> None:
        self.x = self.x + step * self._direction

    def direction(self, coefficients: Vector) -> tuple[Vector, float, float, float]:
        """Put the direction p together and return D p, and for the penalty R x'Rp, p'Rp and R(x)."""
        k = len(self._steps)
        scale, steps, differences = coefficients[0], coefficients[1 : k + 1], coefficients[k + 1 :]
        p = scale * self._scaled_gradient
        for a, s in zip(steps, self._steps, strict=True):
            p += a * s
        for a, hy in zip(differences, self._scaled_differences, strict=True):
            p += a * hy
        self._direction = p
        weighted = self.problem.l2 * p
        penalty = self.problem.penalty_of(self.x)
        return self.problem.columns.times(p), float(self.x @ weighted), float(p @ weighted), penalty

    def _scaled(self, v: Vector) -> Vector:
        return self.problem.inverse_times(v, self._curvature)
