"""Operations on one row of a matrix, dense or CSR, resolved while compiling: kernels are written once for both.

A dense matrix is a C-contiguous 2-d array; a sparse one is a `CSR`. Only these functions know the difference.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit, types
from numba.extending import overload
from numpy.typing import NDArray

__all__ = ["CSR", "add_ticks", "axpy", "buffer_size", "dot", "flush", "row_norm"]

# What a sum of products may be reordered by; NaN and infinity keep their meaning.
_REORDER = {"reassoc", "contract", "nsz", "arcp"}


class CSR(NamedTuple):
    """A sparse matrix in compressed rows: the three arrays of `scipy.sparse.csr_array` and the width."""

    data: NDArray[Any]
    indices: NDArray[Any]
    indptr: NDArray[Any]
    n_columns: int


def _is_csr(X: Any) -> bool:
    return getattr(X, "instance_class", None) is CSR


def _is_dense(X: Any) -> bool:
    return isinstance(X, types.Array) and X.ndim == 2


@njit(fastmath=_REORDER)
def _dot_dense(x, w):  # type: ignore[no-untyped-def]
    total = w.dtype.type(0.0)
    for k in range(x.shape[0]):
        total += x[k] * w[k]
    return total


@njit(fastmath=_REORDER)
def _dot_sparse(data, indices, lo, hi, w):  # type: ignore[no-untyped-def]
    total = w.dtype.type(0.0)
    for p in range(lo, hi):
        total += data[p] * w[indices[p]]
    return total


def dot(X: Any, i: int, w: Any) -> Any:
    """Return row i times w, in the precision of w."""
    raise NotImplementedError("for compiled code only")


@overload(dot)
def _overload_dot(X, i, w):  # type: ignore[no-untyped-def]
    if _is_csr(X):
        return lambda X, i, w: _dot_sparse(X.data, X.indices, X.indptr[i], X.indptr[i + 1], w)
    if _is_dense(X):
        return lambda X, i, w: _dot_dense(X[i], w)
    return None


@njit
def _axpy_dense(x, f, w):  # type: ignore[no-untyped-def]
    for k in range(x.shape[0]):
        w[k] += f * x[k]


@njit
def _axpy_sparse(data, indices, lo, hi, f, w):  # type: ignore[no-untyped-def]
    for p in range(lo, hi):
        w[indices[p]] += f * data[p]


def axpy(X: Any, i: int, f: float, w: Any) -> None:
    """Add f times row i to w."""
    raise NotImplementedError("for compiled code only")


@overload(axpy)
def _overload_axpy(X, i, f, w):  # type: ignore[no-untyped-def]
    if _is_csr(X):
        return lambda X, i, f, w: _axpy_sparse(X.data, X.indices, X.indptr[i], X.indptr[i + 1], f, w)
    if _is_dense(X):
        return lambda X, i, f, w: _axpy_dense(X[i], f, w)
    return None


# Whole ticks. Each entry of f x is cut toward zero to a whole number, which can only shorten the row's term, and the
# sum is a sum of integers: exact, in any order, on any number of threads. Dense rows are added in 32 bits, which the
# processor does on whole vectors, and carried over to 64 bits every 64 rows (64 x 2^24 < 2^31); sparse rows go straight
# to 64 bits.


@njit
def _add_ticks_dense(x, f, buffer):  # type: ignore[no-untyped-def]
    for k in range(x.shape[0]):
        buffer[k] += np.int32(f * x[k])


@njit
def _add_ticks_sparse(data, indices, lo, hi, f, total):  # type: ignore[no-untyped-def]
    for p in range(lo, hi):
        total[indices[p]] += np.int64(f * data[p])


def add_ticks(X: Any, i: int, f: float, buffer: Any, total: Any) -> None:
    """Add f times row i, cut to whole ticks, to ``buffer`` (dense) or ``total`` (sparse)."""
    raise NotImplementedError("for compiled code only")


@overload(add_ticks)
def _overload_add_ticks(X, i, f, buffer, total):  # type: ignore[no-untyped-def]
    if _is_csr(X):
        return lambda X, i, f, buffer, total: _add_ticks_sparse(
            X.data, X.indices, X.indptr[i], X.indptr[i + 1], X.data.dtype.type(f), total
        )
    if _is_dense(X):
        return lambda X, i, f, buffer, total: _add_ticks_dense(X[i], X.dtype.type(f), buffer)
    return None


def buffer_size(X: Any) -> int:
    """Return the length of the 32-bit buffer that `add_ticks` needs."""
    raise NotImplementedError("for compiled code only")


@overload(buffer_size)
def _overload_buffer_size(X):  # type: ignore[no-untyped-def]
    if _is_csr(X):
        return lambda X: 0
    if _is_dense(X):
        return lambda X: X.shape[1]
    return None


@njit
def flush(buffer, total):  # type: ignore[no-untyped-def]
    """Carry the 32-bit buffer over to the 64-bit total."""
    for k in range(buffer.shape[0]):
        total[k] += buffer[k]
        buffer[k] = 0


@njit
def _norm_of(values):  # type: ignore[no-untyped-def]
    total = 0.0
    for k in range(values.shape[0]):
        value = np.float64(values[k])
        total += value * value
    if 1e-280 < total < np.inf:
        return np.sqrt(total)
    # the squares over- or underflowed, or an entry is not finite: once more, scaled (NaN and infinity come out as NaN)
    largest = 0.0
    for k in range(values.shape[0]):
        value = abs(np.float64(values[k]))
        if not value < np.inf:
            return np.nan
        largest = max(largest, value)
    if largest == 0.0:
        return 0.0
    total = 0.0
    for k in range(values.shape[0]):
        value = np.float64(values[k]) / largest
        total += value * value
    return largest * np.sqrt(total)


def row_norm(X: Any, i: int) -> float:
    """Return the Euclidean norm of row i; NaN when an entry is NaN or infinite, ``inf`` when the norm overflows."""
    raise NotImplementedError("for compiled code only")


@overload(row_norm)
def _overload_row_norm(X, i):  # type: ignore[no-untyped-def]
    if _is_csr(X):
        return lambda X, i: _norm_of(X.data[X.indptr[i] : X.indptr[i + 1]])
    if _is_dense(X):
        return lambda X, i: _norm_of(X[i])
    return None
