"""Compiled: one batch of sequential dual coordinate steps, and one epoch of plain stochastic gradient descent.

Both go row after row, each seeing what the rows before it did, so neither is split over threads.
"""

from typing import Any

import numpy as np
from numba import njit

from sottovoce.central.kernels.gradient import add_clipped, clipped
from sottovoce.central.kernels.rows import axpy, buffer_size, dot, flush
from sottovoce.losses.base import dual_step, slope

__all__ = ["sequential_batch", "sgd_epoch"]

_JIT: dict[str, Any] = {"nogil": True, "cache": True, "error_model": "numpy"}
_CARRY = 64  # rows between two carries of the 32-bit ticks


@njit(**_JIT)
def sequential_batch(  # type: ignore[no-untyped-def]
    X, scale, norm, constant, y, a, w, alpha_n, clip, ticks_per_unit, loss, batch, moves, total
):
    """Do the exact coordinate steps of the rows ``batch`` one after the other; ``w`` moves with each.

    Each step is at most ``clip``. ``moves`` receives the steps and ``total`` the sum of their terms, in whole ticks;
    the dual variables ``a`` stay as they are.
    """
    buffer = np.zeros(buffer_size(X), np.int32)
    last = w.shape[0] - 1
    waiting = 0
    for p in range(batch.shape[0]):
        i = batch[p]
        m = scale[i] * dot(X, i, w)
        if constant > 0.0:
            m += constant * w[last]
        zeta = clipped(dual_step(loss, a[i], y[i], m, norm[i] * norm[i] / alpha_n), clip)
        moves[p] = np.int64(zeta * ticks_per_unit)
        add_clipped(X, i, zeta, scale, constant, ticks_per_unit, buffer, total)
        axpy(X, i, zeta * scale[i] / alpha_n, w)
        if constant > 0.0:
            w[last] += zeta * constant / alpha_n
        waiting += 1
        if waiting == _CARRY:
            flush(buffer, total)
            waiting = 0
    flush(buffer, total)


@njit(**_JIT)
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
