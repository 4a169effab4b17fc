"""Compiled: one epoch of plain stochastic gradient descent, row after row, so that it is not split over threads."""

import numpy as np

from sottovoce._compiling import JIT, njit
from sottovoce.central.kernels.rows import axpy
from sottovoce.central.kernels.scaled import margin
from sottovoce.losses.base import slope


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
