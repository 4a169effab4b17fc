"""The compiled passes over rows: everything that costs time per record is here.

All of them release the interpreter lock, work on the rows lo to hi of their arguments and are called in parallel on
disjoint ranges. A matrix is never copied: each row has a factor ``scale[i]`` that turns the raw row into the one the
solver sees (divided by the public bound, shortened where it exceeds it), and the column of the intercept exists only as
the number ``constant``, added as the last weight when ``constant`` > 0.
"""

import numpy as np

from sottovoce._compiling import JIT, njit
from sottovoce.central.kernels.rows import (
    BLOCK,
    add_block,
    axpy,
    dot,
    dot_block,
    factor_block,
    row_norm,
    shortened,
    tick_buffer,
    whole_ticks,
)
from sottovoce.losses.base import dual_step, slope

__all__ = ["accelerated_pass", "batch_pass", "clipped", "margins", "norms", "predict", "sdca_epoch"]


@njit(**JIT)
def norms(X, lo, hi, out):  # type: ignore[no-untyped-def]
    """Write the norm of each row to ``out``; NaN marks a row with NaN or infinity in it."""
    for i in range(lo, hi):
        out[i] = row_norm(X, i)


@njit(**JIT)
def margins(X, scale, constant, w, lo, hi, out):  # type: ignore[no-untyped-def]
    """Write the prediction of each (scaled) row to ``out``."""
    for i in range(lo, hi):
        m = scale[i] * dot(X, i, w)
        if constant > 0.0:
            m += constant * w[w.shape[0] - 1]
        out[i] = m


@njit(inline="always")
def clipped(zeta, bound):  # type: ignore[no-untyped-def]
    """Clip to [-bound, bound]; total: NaN becomes 0."""
    kept = zeta if zeta == zeta else 0.0  # NaN is the one value that differs from itself
    return min(max(kept, -bound), bound)


@njit(inline="always")
def predict(X, scale, constant, w, rows, count, m):  # type: ignore[no-untyped-def]
    """Write the predictions of the (scaled) rows to ``m``."""
    dot_block(X, rows, count, w, m)
    offset = constant * np.float64(w[w.shape[0] - 1]) if constant > 0.0 else 0.0
    for k in range(count):
        m[k] = scale[rows[k]] * m[k] + offset


@njit(**JIT)
def accelerated_pass(  # type: ignore[no-untyped-def]
    X, scale, norm, constant, y, a, a_before, momentum, w, ratio, damping, clip, ticks_per_unit, loss, lo, hi, total
):
    """Do one full pass of accelerated DP-SCD: extrapolate each dual variable, step, clip, and sum the terms in ticks.

    The step is ``damping`` of the way to -l'(m) when ``damping`` > 0, else the exact coordinate step, with ``ratio`` =
    s'/(alpha n) for the aggregation constant s' = n lambda_max. |zeta| times the row's norm is at most ``clip``.
    ``total`` receives sum_i zeta_i x_i in whole ticks.
    """
    buffer = tick_buffer(X)
    rows = np.empty(BLOCK, np.int64)
    m = np.empty(BLOCK)
    factor = factor_block(X)
    last = total.shape[0] - 1
    for first in range(lo, hi, BLOCK):
        count = min(BLOCK, hi - first)
        for k in range(count):
            rows[k] = first + k
        predict(X, scale, constant, w, rows, count, m)
        if damping > 0.0:  # in a loop of its own, which is compiled to vector instructions
            labels = y[first : first + count]
            for k in range(count):
                m[k] = slope(loss, labels[k], m[k])
        constants = np.int64(0)
        for k in range(count):
            i = first + k
            centre = a[i] + momentum * (a[i] - a_before[i])
            step = -damping * (m[k] + centre) if damping > 0.0 else dual_step(loss, centre, y[i], m[k], ratio)
            zeta = clipped(step, clip / norm[i])
            a_before[i] = a[i]
            a[i] = centre + zeta
            factor[k] = shortened(zeta * scale[i] * ticks_per_unit, factor)
            constants += whole_ticks(zeta * constant * ticks_per_unit)
        add_block(X, rows, count, factor, buffer, total)
        if constant > 0.0:
            total[last] += constants


@njit(**JIT)
def batch_pass(  # type: ignore[no-untyped-def]
    X, scale, norm, constant, y, a, w, ratio, ratio_norm, clip, ticks_per_unit, loss, batch, lo, hi, total
):
    """Do one step of mini-batch DP-SCD on the rows batch[lo:hi]: step, clip, and sum the terms in ticks.

    The aggregation constant over alpha n is ``ratio + ratio_norm |x|^2``.
    """
    buffer = tick_buffer(X)
    rows = np.empty(BLOCK, np.int64)
    m = np.empty(BLOCK)
    factor = factor_block(X)
    last = total.shape[0] - 1
    for first in range(lo, hi, BLOCK):
        count = min(BLOCK, hi - first)
        rows[:count] = batch[first : first + count]
        predict(X, scale, constant, w, rows, count, m)
        constants = np.int64(0)
        for k in range(count):
            i = rows[k]
            step = dual_step(loss, a[i], y[i], m[k], ratio + ratio_norm * norm[i] * norm[i])
            zeta = clipped(step, clip / norm[i])
            a[i] += zeta
            factor[k] = shortened(zeta * scale[i] * ticks_per_unit, factor)
            constants += whole_ticks(zeta * constant * ticks_per_unit)
        add_block(X, rows, count, factor, buffer, total)
        if constant > 0.0:
            total[last] += constants


@njit(**JIT)
def sdca_epoch(X, scale, norm, constant, y, a, w, alpha_n, loss, order):  # type: ignore[no-untyped-def]
    """Do one epoch of plain stochastic dual coordinate ascent (no privacy), keeping w = sum_i a_i x_i / (alpha n)."""
    last = w.shape[0] - 1
    for p in range(order.shape[0]):
        i = order[p]
        m = scale[i] * dot(X, i, w)
        if constant > 0.0:
            m += constant * w[last]
        zeta = dual_step(loss, a[i], y[i], m, norm[i] * norm[i] / alpha_n)
        a[i] += zeta
        axpy(X, i, zeta * scale[i] / alpha_n, w)
        if constant > 0.0:
            w[last] += zeta * constant / alpha_n
