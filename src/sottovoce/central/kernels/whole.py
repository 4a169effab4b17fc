"""Scaled rows in whole steps, and the sums of their products that machine words hold exactly."""

import numpy as np

from sottovoce._compiling import ALLOCATING, JIT, njit
from sottovoce._numerics import Vector
from sottovoce.central.kernels.calls import CSR, FEW, ScaledRows
from sottovoce.central.kernels.vectors import cut


@njit(inline="always")
def whole_steps(x, grid):  # type: ignore[no-untyped-def]
    """Cut a number of at most ``grid`` steps toward zero to whole ones; total: NaN becomes 0."""
    kept = x if x == x else 0.0  # NaN is the one value that differs from itself
    return np.trunc(cut(kept, grid))  # type: ignore[call-arg]


@njit(**JIT)
def _fill_dense(X, scale, grid, lo, hi, out):  # type: ignore[no-untyped-def]
    for i in range(lo, hi):
        f = scale[i] * grid
        for k in range(X.shape[1]):
            out[i - lo, k] = whole_steps(np.float64(X[i, k]) * f, grid)


@njit(**JIT)
def _fill_sparse(data, indices, indptr, width, scale, grid, lo, hi, out):  # type: ignore[no-untyped-def]
    for i in range(lo, hi):
        f = scale[i] * grid
        out[i - lo, :width] = 0.0
        for p in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            out[i - lo, np.uint64(indices[p])] = whole_steps(np.float64(data[p]) * f, grid)


def fill(rows: ScaledRows, border: Vector, grid: float, lo: int, hi: int, out: Vector) -> None:
    """Write the rows lo to hi to the first lines of ``out`` in whole steps: ``grid`` of them are 1.

    Features, then the constant where there is one, then the columns of ``border``, whose lines are those of ``out``.
    """
    X, scale, _, constant = rows
    if isinstance(X, CSR):
        _fill_sparse(*X, scale, grid, lo, hi, out)
    elif X.size <= FEW:
        steps = np.nan_to_num(X[lo:hi] * (scale[lo:hi, None] * grid), nan=0.0)
        np.trunc(np.clip(steps, -grid, grid), out=out[: hi - lo, : X.shape[1]])
    else:
        _fill_dense(X, scale, grid, lo, hi, out)
    end = out.shape[1] - border.shape[1]
    if constant > 0.0:
        out[: hi - lo, end - 1] = np.trunc(min(constant * grid, grid))
    out[: hi - lo, end:] = np.trunc(np.clip(np.where(np.isnan(border), 0.0, border) * grid, -grid, grid))


@njit(**ALLOCATING)
def add_pairs(rows, border, grid, lo, hi, total):  # type: ignore[no-untyped-def]
    """Add the products of all pairs of entries of the sparse rows lo to hi to the upper triangle of ``total``."""
    X, scale, _, constant = rows
    width, extra, longest = total.shape[0], border.shape[1], np.int64(0)
    for i in range(lo, hi):
        longest = max(longest, np.int64(X.indptr[i + 1]) - np.int64(X.indptr[i]))
    places, steps = np.empty(longest + extra + 1, np.int64), np.empty(longest + extra + 1, np.int64)
    for i in range(lo, hi):
        f, count = scale[i] * grid, 0
        for p in range(np.uint64(X.indptr[i]), np.uint64(X.indptr[i + 1])):
            value = whole_steps(np.float64(X.data[p]) * f, grid)
            if value != 0.0:
                places[count], steps[count] = X.indices[p], np.int64(value)
                count += 1
        if constant > 0.0:
            places[count], steps[count] = width - extra - 1, np.int64(whole_steps(constant * grid, grid))
            count += 1
        for k in range(extra):
            places[count], steps[count] = width - extra + k, np.int64(whole_steps(border[i - lo, k] * grid, grid))
            count += 1
        for p in range(count):
            j, step = places[p], steps[p]
            for q in range(p, count):
                k = places[q]
                total[np.uint64(min(j, k)), np.uint64(max(j, k))] += step * steps[q]
