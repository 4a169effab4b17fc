"""Compiled: one batch of sequential dual coordinate steps, and one epoch of plain stochastic gradient descent.

Both go row after row, each seeing what the rows before it did, so neither is split over threads.
"""

import numpy as np

from sottovoce._compiling import JIT, njit
from sottovoce.central.kernels.passes import clipped
from sottovoce.central.kernels.rows import (
    BLOCK,
    add_block,
    axpy,
    dot,
    factor_block,
    shortened,
    tick_buffer,
    whole_ticks,
)
from sottovoce.losses.base import dual_step, slope

__all__ = ["sequential_batch", "sgd_epoch"]


@njit(**JIT)
def sequential_batch(  # type: ignore[no-untyped-def]
    X, scale, norm, constant, y, a, w, alpha_n, clip, ticks_per_unit, loss, batch, moves, total
):
    """Do the exact coordinate steps of the rows ``batch`` one after the other; ``w`` moves with each.

    Each step is at most ``clip``. ``moves`` receives the steps and ``total`` the sum of their terms, in whole ticks;
    the dual variables ``a`` stay as they are.
    """
    buffer = tick_buffer(X)
    rows = np.empty(BLOCK, np.int64)
    factor = factor_block(X)
    last = w.shape[0] - 1
    for first in range(0, batch.shape[0], BLOCK):
        count = min(BLOCK, batch.shape[0] - first)
        for k in range(count):
            i = batch[first + k]
            m = scale[i] * dot(X, i, w)
            if constant > 0.0:
                m += constant * w[last]
            zeta = clipped(dual_step(loss, a[i], y[i], m, norm[i] * norm[i] / alpha_n), clip)
            moves[first + k] = whole_ticks(zeta * ticks_per_unit)
            rows[k] = i
            factor[k] = shortened(zeta * scale[i] * ticks_per_unit, factor)
            axpy(X, i, zeta * scale[i] / alpha_n, w)
            if constant > 0.0:
                w[last] += zeta * constant / alpha_n
                total[last] += whole_ticks(zeta * constant * ticks_per_unit)
        add_block(X, rows, count, factor, buffer, total)


@njit(**JIT)
def sgd_epoch(  # type: ignore[no-untyped-def]
    X, scale, constant, y, w, alpha, first_rate, done, batch_size, loss, order, average
):
    """Do one epoch of mini-batch SGD without privacy, adding each iterate to ``average``; return the steps done.

    Step t goes with learning rate first_rate / (1 + first_rate alpha t), its L2 part implicit.
    """
    n, last = order.shape[0], w.shape[0] - 1
    step = np.zeros(w.shape[0])
    factors = np.empty(batch_size)
    for lo in range(0, n, batch_size):
        hi = min(lo + batch_size, n)
        rate = first_rate / (1.0 + first_rate * alpha * done)
        for p in range(lo, hi):
            i = order[p]
            m = scale[i] * dot(X, i, w)
            if constant > 0.0:
                m += constant * w[last]
            factors[p - lo] = -rate * slope(loss, y[i], m) / (hi - lo)
        step[:] = 0.0
        for p in range(lo, hi):
            i = order[p]
            axpy(X, i, factors[p - lo] * scale[i], step)
            if constant > 0.0:
                step[last] += factors[p - lo] * constant
        for k in range(w.shape[0]):
            w[k] = (w[k] + step[k]) / (1.0 + rate * alpha)
            average[k] += w[k]
        done += 1
    return done
