r"""A party's own problem where coefficients are tied to each other: groups that are 0 all or not, and balls.

.. math:: \min_x \; R(x) + \tfrac{\rho}{2} |D x|^2 - \rho\, b^\top x \quad\text{for } x \text{ in a ball}, b = D^\top v.

The free intercept is put in first: it makes the scores centred, so it leaves the problem with centred columns.

Groups are taken one after the other, each exactly: in the eigenvectors of its part of D'D a group's problem is one
equation in the length of its coefficients (`sottovoce.vertical.table.kernels`).

A ball is a penalty whose strength is sought: with the multiplier mu of its constraint, |x|_1 <= r adds mu |x|_1, and
|x|_2 <= r adds mu/2 |x|_2^2. The norm of the solution falls continuously as mu grows, so either mu = 0 will do, or
there is a mu at which the norm is r, and that solution is the one in the ball (the conditions of Kuhn and Tucker).
With an L2 ball alone all columns are one group, and each mu costs one product.
"""

from collections.abc import Callable

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import brentq

from sottovoce._numerics import Vector
from sottovoce.vertical.table.columns import Columns
from sottovoce.vertical.table.kernels import (
    descend_columns,
    descend_gram,
    descend_groups,
    descend_groups_by_column,
)
from sottovoce.vertical.table.penalty import Penalty

__all__ = ["StructuredProblem"]

_TOLERANCE = 1e-12  # of the largest coefficient, on the change of a sweep
_SWEEPS = 10_000
_NEAR = 1.1  # how far the multiplier is first looked for around the last one


class StructuredProblem:
    """The party's quadratic with groups or a ball.

    Parameters
    ----------
    columns : Columns
    penalty : Penalty
        Of the features; an intercept is free.
    """

    def __init__(self, columns: Columns, penalty: Penalty) -> None:
        self._penalty = penalty
        self._d = d = columns.n_features
        self._intercept = columns.intercept
        self._n_rows = columns.n_rows
        self._wide = d > columns.n_rows
        self._means = np.zeros(d)
        if self._wide:
            self._D = Columns(columns.table).dense_by_column()
            if columns.intercept:
                self._means = self._D.mean(axis=0)
                self._D -= self._means
            self._squares = np.einsum("ij,ij->j", self._D, self._D)
        else:
            gram = columns.gram()
            self._G = gram[:d, :d]
            if columns.intercept:
                self._means = gram[:d, d] / columns.n_rows
                self._G = self._G - np.outer(gram[:d, d], self._means)
        self._multiplier = 0.0
        self._sizes, self._weights = np.array(penalty.groups, dtype=np.int64), penalty.weights
        if not penalty.groups and penalty.l1 == 0.0 and penalty.ball == "l2":
            self._sizes, self._weights = np.array([d]), np.zeros(1)
        self._make_groups()

    def solve(self, b: Vector, rho: float, start: Vector) -> Vector:
        """Return the minimiser; ``start`` is near it."""
        d = self._d
        x = start[:d].copy()
        centred = b[:d] - self._means * b[-1] if self._intercept else b
        p = self._penalty
        if p.ball:
            x = self._in_ball(centred, rho, x)
        else:
            self._descend(centred, x, rho, p.l2, p.l1)
        if not self._intercept:
            return x
        return np.append(x, b[-1] / self._n_rows - self._means @ x)

    def _in_ball(self, b: Vector, rho: float, x: Vector) -> Vector:
        p = self._penalty

        def excess(multiplier: float) -> float:
            if p.ball == "l1":
                self._descend(b, x, rho, p.l2, p.l1 + multiplier)
            else:
                self._descend(b, x, rho, p.l2 + multiplier, p.l1)
            return p.norm(x) - p.radius

        # the multiplier moves little from round to round, and 0 is where the solution takes longest
        low = self._multiplier / _NEAR
        above = excess(low)
        if above <= 0.0 and low > 0.0:
            low = 0.0
            above = excess(low)
        if above > 0.0:
            pull = rho * (np.abs(b).max() if p.ball == "l1" else np.linalg.norm(b) / p.radius)
            self._multiplier = _root(excess, low, above, self._multiplier * _NEAR, 2.0 * float(pull))
            excess(self._multiplier)
        else:
            self._multiplier = 0.0
        return x * min(1.0, p.radius / max(p.norm(x), p.radius))

    def _descend(self, b: Vector, x: Vector, rho: float, l2: float, l1: float) -> None:
        if len(self._sizes):
            shared = (self._sizes, self._ranks, self._vectors, self._values, b, x, rho, l2, self._weights)
            if self._wide:
                descend_groups_by_column(self._D, *shared, _TOLERANCE, _SWEEPS)
            else:
                descend_groups(self._G, *shared, _TOLERANCE, _SWEEPS)
            return
        free = (rho, l2, l1, -np.inf, np.inf, _TOLERANCE, _SWEEPS)
        if self._wide:
            descend_columns(self._D, self._squares, b, x, self._d, *free)
        else:
            descend_gram(self._G, b, x, self._d, *free)

    def _make_groups(self) -> None:
        """Take each group's part of D'D apart; what is 0 but for rounding is left out, as b has nothing there."""
        vectors, values, ranks = [], [], []
        for low, high in zip(np.cumsum(self._sizes) - self._sizes, np.cumsum(self._sizes), strict=True):
            if not self._wide:
                s, V = eigh(self._G[low:high, low:high])
            elif high - low <= self._n_rows:
                s, V = eigh(self._D[:, low:high].T @ self._D[:, low:high])
            else:
                s, U = eigh(self._D[:, low:high] @ self._D[:, low:high].T)
                V = self._D[:, low:high].T @ U / np.sqrt(np.maximum(s, np.finfo(np.float64).tiny))
            kept = s > len(s) * np.finfo(np.float64).eps * max(float(s[-1]), np.finfo(np.float64).tiny)
            vectors.append(np.ascontiguousarray(V[:, kept]).ravel())
            values.append(s[kept])
            ranks.append(int(kept.sum()))
        self._ranks = np.array(ranks, dtype=np.int64)
        self._vectors = np.concatenate([np.zeros(0), *vectors])
        self._values = np.concatenate([np.zeros(0), *values])


def _root(falling: Callable[[float], float], low: float, above: float, near: float, high: float) -> float:
    """Return where a function that is ``above`` > 0 at ``low``, and not at ``high``, comes to 0; ``near`` may be past.

    Signs at the ends are taken from the first look: each look starts from the solution of the last one, and a second
    one may differ by rounding errors.
    """
    seen = {low: above}
    if low < near < high:
        seen[near] = falling(near)
        if seen[near] <= 0.0:
            high = near

    def look(at: float) -> float:
        return seen[at] if at in seen else falling(at)

    return float(brentq(look, low, high, xtol=1e-14 * high, rtol=1e-14, maxiter=200))
