"""Operations on one row of a matrix, dense or CSR, resolved while compiling: kernels are written once for both.

A dense matrix is a C-contiguous 2-d array; a sparse one is a `CSR`. Only these functions know the difference.
"""

from typing import Any

import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic, overload
from numba.np.arrayobj import populate_array

from sottovoce._compiling import INSIDE
from sottovoce.central.kernels.calls import CSR, MOST_TICKS
from sottovoce.central.kernels.vectors import ROWS, VECTOR_BYTES, add_rows, cut, dot_four_rows

BLOCK = 64  # rows that a kernel handles at a time: they stay in the processor's first cache between two uses

# What a sum of products may be reordered by; NaN and infinity keep their meaning.
_REORDER = {"reassoc", "contract", "nsz", "arcp"}


def is_csr(X: Any) -> bool:
    """Tell, while compiling, whether a matrix is a `CSR`."""
    return getattr(X, "instance_class", None) is CSR


def is_dense(X: Any) -> bool:
    """Tell, while compiling, whether a matrix is a C-contiguous array."""
    return isinstance(X, types.Array) and X.ndim == 2 and X.layout == "C"


# A row of a matrix is never taken as an array of its own: that counts a reference, which takes longer than a short row.


@njit(fastmath=_REORDER, **INSIDE)
def _dot_dense(X, i, w):  # type: ignore[no-untyped-def]
    total = w.dtype.type(0.0)
    for k in range(X.shape[1]):
        total += X[i, k] * w[k]
    return total


# Places in sparse rows are counted without a sign: numba asks each signed one whether it counts from the end, and that
# takes half of the time. They were checked to be in range when the matrix was taken.


@njit(fastmath=_REORDER, **INSIDE)
def _dot_sparse(data, indices, lo, hi, w):  # type: ignore[no-untyped-def]
    total = w.dtype.type(0.0)
    for p in range(np.uint64(lo), np.uint64(hi)):
        total += data[p] * w[np.uint64(indices[p])]
    return total


def dot(X: Any, i: int, w: Any) -> Any:
    raise NotImplementedError("for compiled code only")


@overload(dot, jit_options=INSIDE)
def _overload_dot(X, i, w):  # type: ignore[no-untyped-def]
    if is_csr(X):
        return lambda X, i, w: _dot_sparse(X.data, X.indices, X.indptr[i], X.indptr[i + 1], w)
    if is_dense(X):
        return lambda X, i, w: _dot_dense(X, i, w)
    return None


@njit(**INSIDE)
def _axpy_dense(X, i, f, w):  # type: ignore[no-untyped-def]
    for k in range(X.shape[1]):
        w[k] += f * X[i, k]


@njit(**INSIDE)
def _axpy_sparse(data, indices, lo, hi, f, w):  # type: ignore[no-untyped-def]
    for p in range(np.uint64(lo), np.uint64(hi)):
        w[np.uint64(indices[p])] += f * data[p]


def axpy(X: Any, i: int, f: float, w: Any) -> None:
    """Add f times row i to w."""
    raise NotImplementedError("for compiled code only")


@overload(axpy, jit_options=INSIDE)
def _overload_axpy(X, i, f, w):  # type: ignore[no-untyped-def]
    if is_csr(X):
        return lambda X, i, f, w: _axpy_sparse(X.data, X.indices, X.indptr[i], X.indptr[i + 1], f, w)
    if is_dense(X):
        return lambda X, i, f, w: _axpy_dense(X, i, f, w)
    return None


# Whole ticks. Each entry of f x is cut to +-2^24 and then, toward zero, to a whole number. Both can only shorten the
# row's term, and the first comes before the cast, so that no number of any size, and no NaN, wraps around.
# The sum is a sum of integers: exact, in any order, on any number of threads. Dense rows are added in 32 bits, which
# the processor does on whole vectors, and carried over to 64 bits after every block of 64 rows (64 x 2^24 < 2^31);
# sparse rows go straight to 64 bits.

_LARGEST_FACTOR = 1e300  # keep the factor of a row finite; shortening a factor shortens the term
_LARGEST_SINGLE_FACTOR = 1e38


@njit(inline="always")
def whole_ticks(x):  # type: ignore[no-untyped-def]
    """Cut a number to whole ticks, at most `MOST_TICKS` of either sign."""
    return np.int64(cut(x, float(MOST_TICKS)))  # type: ignore[call-arg]


@njit(inline="always")
def shortened(f, factors):  # type: ignore[no-untyped-def]
    """Keep the factor of a row finite in the precision of the array ``factors``; total: NaN becomes a bound."""
    return cut(f, _LARGEST_SINGLE_FACTOR if factors.itemsize == 4 else _LARGEST_FACTOR)  # type: ignore[call-arg]


# The sparse blocks take the three arrays apart once: done for each row, the counting of references takes half the time.


@njit(fastmath=_REORDER, **INSIDE)
def _dot_sparse_block(data, indices, indptr, rows, count, w, out):  # type: ignore[no-untyped-def]
    for k in range(count):
        i = rows[k]
        total = w.dtype.type(0.0)
        for p in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            total += data[p] * w[np.uint64(indices[p])]
        out[k] = total


@njit(**INSIDE)
def _add_sparse_block(data, indices, indptr, rows, count, factor, total):  # type: ignore[no-untyped-def]
    for k in range(count):
        i = rows[k]
        f = factor[k]
        for p in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            total[np.uint64(indices[p])] += whole_ticks(f * data[p])


def dot_block(X: Any, rows: Any, count: int, w: Any, out: Any) -> None:
    """Write the products of ``rows[:count]`` with w to ``out``.

    ``rows`` and ``out`` hold `BLOCK` entries; some of those after ``count`` are overwritten.
    """
    raise NotImplementedError("for compiled code only")


@overload(dot_block, jit_options=INSIDE)
def _overload_dot_block(X, rows, count, w, out):  # type: ignore[no-untyped-def]
    if is_csr(X):
        return lambda X, rows, count, w, out: _dot_sparse_block(X.data, X.indices, X.indptr, rows, count, w, out)
    if is_dense(X):
        lanes = VECTOR_BYTES // (X.dtype.bitwidth // 8)

        def dense(X, rows, count, w, out):  # type: ignore[no-untyped-def]
            if X.shape[1] < lanes:
                for k in range(count):
                    out[k] = _dot_dense(X, rows[k], w)
                return
            for k in range(count, (count + ROWS - 1) & -ROWS):
                rows[k] = rows[count - 1]
            for k in range(0, count, ROWS):
                dot_four_rows(X, rows[k], rows[k + 1], rows[k + 2], rows[k + 3], w, out, k)  # type: ignore[call-arg]

        return dense
    return None


def add_block(X: Any, rows: Any, count: int, factor: Any, total: Any) -> None:
    """Add factor[k] times row rows[k], k < count <= `BLOCK`, cut to whole ticks, to ``total``."""
    raise NotImplementedError("for compiled code only")


@overload(add_block, jit_options=INSIDE)
def _overload_add_block(X, rows, count, factor, total):  # type: ignore[no-untyped-def]
    if is_csr(X):
        return lambda X, rows, count, factor, total: _add_sparse_block(
            X.data, X.indices, X.indptr, rows, count, factor, total
        )
    if is_dense(X):
        return lambda X, rows, count, factor, total: add_rows(X, rows, count, factor, total)  # type: ignore[call-arg]
    return None


# Arrays of a block lie on the stack and hold anything at first: `numpy.empty` is some functions to compile.


def _on_the_stack(context: Any, builder: Any, kind: Any) -> Any:
    array, each = context.make_array(kind)(context, builder), context.get_constant(types.intp, kind.dtype.bitwidth // 8)
    room = cgutils.alloca_once(builder, context.get_data_type(kind.dtype), BLOCK)
    room.align = VECTOR_BYTES
    shape = [context.get_constant(types.intp, BLOCK)]
    populate_array(array, data=room, shape=shape, strides=[each], itemsize=each, meminfo=None)
    return array._getvalue()


def _numbers(typingctx):  # type: ignore[no-untyped-def]
    """Return room for `BLOCK` doubles."""
    return types.Array(types.float64, 1, "C")(), lambda context, builder, signature, args: _on_the_stack(
        context, builder, signature.return_type
    )


def _workspace(typingctx, X):  # type: ignore[no-untyped-def]
    """Return what a kernel needs for a block: places of rows, a number for each, and factors in the precision of X."""
    dtype = X.types[0].dtype if is_csr(X) else X.dtype
    arrays = [types.Array(each, 1, "C") for each in (types.int64, types.float64, dtype)]

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        made = [_on_the_stack(context, builder, each) for each in arrays]
        return context.make_tuple(builder, signature.return_type, made)

    return types.Tuple(arrays)(X), generate


numbers: Any = intrinsic(_numbers)
workspace: Any = intrinsic(_workspace)


@njit(**INSIDE)
def norm_of(values, lo, hi):  # type: ignore[no-untyped-def]
    """Return the Euclidean norm of some entries; NaN where one is NaN or infinite, ``inf`` where the norm overflows."""
    total = 0.0
    for k in range(lo, hi):
        value = np.float64(values[k])
        total += value * value
    if 1e-280 < total < np.inf:
        return np.sqrt(total)
    # the squares over- or underflowed, or an entry is not finite: once more, scaled (NaN and infinity come out as NaN)
    largest = 0.0
    for k in range(lo, hi):
        value = abs(np.float64(values[k]))
        if not value < np.inf:
            return np.nan
        largest = value if value > largest else largest
    if largest == 0.0:
        return 0.0
    total = 0.0
    for k in range(lo, hi):
        value = np.float64(values[k]) / largest
        total += value * value
    return largest * np.sqrt(total)
