"""The compiled sums of clipped gradients, for the solvers that follow slopes; same habits as the passes.

They release the interpreter lock, work on the rows lo to hi of their arguments, may be called in parallel on disjoint
ranges, and add to ``total`` in whole ticks, so that the sum is exact in any order.
"""

import numpy as np

from sottovoce._compiling import JIT, njit
from sottovoce.central.kernels.passes import clipped, predict
from sottovoce.central.kernels.rows import BLOCK, add_block, factor_block, shortened, tick_buffer, whole_ticks
from sottovoce.losses.base import slope

__all__ = ["batch_gradient", "gradient"]


@njit(inline="always")
def _add_slopes(X, scale, norm, constant, y, clip, ticks_per_unit, loss, rows, count, m, factor, buffer, total):  # type: ignore[no-untyped-def]
    """Add the clipped terms l'(m[k]) x_rows[k], k < count, to ``total``."""
    constants = np.int64(0)
    for k in range(count):
        i = rows[k]
        step = clipped(slope(loss, y[i], m[k]), clip / norm[i])
        factor[k] = shortened(step * scale[i] * ticks_per_unit, factor)
        constants += whole_ticks(step * constant * ticks_per_unit)
    add_block(X, rows, count, factor, buffer, total)
    if constant > 0.0:
        total[total.shape[0] - 1] += constants


@njit(**JIT)
def batch_gradient(  # type: ignore[no-untyped-def]
    X, scale, norm, constant, y, w, clip, ticks_per_unit, loss, batch, lo, hi, total
):
    """Sum the gradients l'(m_i) x_i of the rows batch[lo:hi] at ``w``, each clipped to ``clip``, in ticks."""
    buffer = tick_buffer(X)
    rows = np.empty(BLOCK, np.int64)
    m = np.empty(BLOCK)
    factor = factor_block(X)
    for first in range(lo, hi, BLOCK):
        count = min(BLOCK, hi - first)
        rows[:count] = batch[first : first + count]
        predict(X, scale, constant, w, rows, count, m)
        _add_slopes(X, scale, norm, constant, y, clip, ticks_per_unit, loss, rows, count, m, factor, buffer, total)


@njit(**JIT)
def gradient(  # type: ignore[no-untyped-def]
    X, scale, norm, constant, y, margins, clip, ticks_per_unit, loss, lo, hi, total
):
    """Sum l'(m_i) x_i of the rows lo to hi for given ``margins``, each term clipped to ``clip``, in ticks."""
    buffer = tick_buffer(X)
    rows = np.empty(BLOCK, np.int64)
    m = np.empty(BLOCK)
    factor = factor_block(X)
    for first in range(lo, hi, BLOCK):
        count = min(BLOCK, hi - first)
        for k in range(count):
            rows[k] = first + k
            m[k] = margins[first + k]
        _add_slopes(X, scale, norm, constant, y, clip, ticks_per_unit, loss, rows, count, m, factor, buffer, total)
