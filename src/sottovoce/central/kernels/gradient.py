"""The compiled sums of clipped gradients, for the solvers that follow slopes; same habits as the passes.

They release the interpreter lock, work on the rows lo to hi of their arguments, may be called in parallel on disjoint
ranges, and add to ``total`` in whole ticks, so that the sum is exact in any order.
"""

from typing import Any

import numpy as np
from numba import njit

from sottovoce.central.kernels.rows import add_ticks, buffer_size, dot, flush
from sottovoce.losses.base import slope

__all__ = ["add_clipped", "batch_gradient", "clipped", "gradient"]

_JIT: dict[str, Any] = {"nogil": True, "cache": True, "error_model": "numpy"}
_CARRY = 64  # rows between two carries of the 32-bit ticks
_LARGEST_FACTOR = 1e30  # keeps the factor of a tiny row finite in float32; shortening a factor shortens the term


@njit(inline="always")
def clipped(value, bound):  # type: ignore[no-untyped-def]
    """Clip to [-bound, bound]; total: NaN becomes 0."""
    if value > bound:
        return bound
    if value < -bound:
        return -bound
    return value if value == value else 0.0  # NaN is the one value that differs from itself


@njit(inline="always")
def add_clipped(X, i, factor, scale, constant, ticks_per_unit, buffer, total):  # type: ignore[no-untyped-def]
    """Add ``factor`` times the scaled row i, cut to whole ticks, to ``buffer`` or ``total``."""
    f = factor * scale[i] * ticks_per_unit
    add_ticks(X, i, min(max(f, -_LARGEST_FACTOR), _LARGEST_FACTOR), buffer, total)
    if constant > 0.0:
        total[total.shape[0] - 1] += np.int64(factor * constant * ticks_per_unit)


@njit(**_JIT)
def batch_gradient(  # type: ignore[no-untyped-def]
    X, scale, norm, constant, y, w, clip, ticks_per_unit, loss, batch, lo, hi, total
):
    """Sum the gradients l'(m_i) x_i of the rows batch[lo:hi] at ``w``, each clipped to ``clip``, in ticks."""
    buffer = np.zeros(buffer_size(X), np.int32)
    waiting = 0
    for p in range(lo, hi):
        i = batch[p]
        m = scale[i] * np.float64(dot(X, i, w))
        if constant > 0.0:
            m += constant * np.float64(w[w.shape[0] - 1])
        factor = clipped(slope(loss, y[i], m), clip / norm[i])
        add_clipped(X, i, factor, scale, constant, ticks_per_unit, buffer, total)
        waiting += 1
        if waiting == _CARRY:
            flush(buffer, total)
            waiting = 0
    flush(buffer, total)


@njit(**_JIT)
def gradient(  # type: ignore[no-untyped-def]
    X, scale, norm, constant, y, m, clip, ticks_per_unit, loss, lo, hi, total
):
    """Sum l'(m_i) x_i of the rows lo to hi for given predictions ``m``, each term clipped to ``clip``, in ticks."""
    buffer = np.zeros(buffer_size(X), np.int32)
    waiting = 0
    for i in range(lo, hi):
        factor = clipped(slope(loss, y[i], m[i]), clip / norm[i])
        add_clipped(X, i, factor, scale, constant, ticks_per_unit, buffer, total)
        waiting += 1
        if waiting == _CARRY:
            flush(buffer, total)
            waiting = 0
    flush(buffer, total)
