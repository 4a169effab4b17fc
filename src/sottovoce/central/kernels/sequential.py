"""Compiled: one batch of sequential dual coordinate steps, and one epoch of plain stochastic gradient descent.

Both go row after row, each seeing what the rows before it did, so neither is split over threads.
"""

import numpy as np

from sottovoce._compiling import JIT, njit
from sottovoce.central.kernels.rows import BLOCK, axpy, whole_ticks
from sottovoce.central.kernels.scaled import add_terms, clipped, margin, workspace
from sottovoce.losses.base import dual_step, slope


@njit(**JIT)
def sequential_batch(rows, y, a, w, alpha_n, clip, ticks_per_unit, loss, batch, moves, total):  # type: ignore[no-untyped-def]
    """Do the exact coordinate steps of the rows ``batch`` one after the other; ``w`` moves with each.

    Each step is at most ``clip``. ``moves`` receives the steps and ``total`` the sum of their terms, in whole ticks;
    the dual variables ``a`` stay as they are.
    """
    X, scale, norm, constant = rows
    last = w.shape[0] - 1
    places, steps, factor, buffer = workspace(X)
    for first in range(0, batch.shape[0], BLOCK):
        count = min(BLOCK, batch.shape[0] - first)
        for k in range(count):
            i = places[k] = batch[first + k]
            m = margin(X, scale, constant, i, w)
            steps[k] = clipped(dual_step(loss, a[i], y[i], m, norm[i] * norm[i] / alpha_n), clip)
            moves[first + k] = whole_ticks(steps[k] * ticks_per_unit)
            axpy(X, i, steps[k] * scale[i] / alpha_n, w)
            if constant > 0.0:
                w[last] += steps[k] * constant / alpha_n
        add_terms(rows, places, count, steps, ticks_per_unit, factor, buffer, total)


@njit(**JIT)
def sgd_epoch(rows, y, w, alpha, first_rate, done, batch_size, loss, order, average):  # type: ignore[no-untyped-def]
    """Do one epoch of mini-batch SGD without privacy, adding each iterate to ``average``; return the steps done.

    Step t goes with learning rate first_rate / (1 + first_rate alpha t), its L2 part implicit.
    """
    X, scale, _, constant = rows
    n, last = order.shape[0], w.shape[0] - 1
    step = np.zeros(w.shape[0])
    factors = np.empty(batch_size)
    for lo in range(0, n, batch_size):
        hi = min(lo + batch_size, n)
        rate = first_rate / (1.0 + first_rate * alpha * done)
        for p in range(lo, hi):
            i = order[p]
            factors[p - lo] = -rate * slope(loss, y[i], margin(X, scale, constant, i, w)) / (hi - lo)
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
