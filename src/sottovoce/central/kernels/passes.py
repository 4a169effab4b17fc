"""The compiled passes over rows: everything that costs time per record is here.

All of them release the interpreter lock, work on the rows lo to hi of their arguments and are called in parallel on
disjoint ranges.
"""

from sottovoce._compiling import JIT, njit
from sottovoce.central.kernels.rows import BLOCK, axpy, row_norm
from sottovoce.central.kernels.scaled import add_terms, clipped, margin, predict, workspace
from sottovoce.losses.base import dual_step, slope

__all__ = [
    "accelerated_pass", "batch_pass", "margins", "move_duals", "norms", "sdca_epoch", "weighted_pass",
    "weighted_sdca_epoch",
]  # fmt: skip


@njit(inline="always")
def _weighted_step(loss, share, a, y, m, ratio):  # type: ignore[no-untyped-def]
    """Return the exact coordinate step for the loss times ``share``, whose conjugate at -a is share l*(-a / share)."""
    return share * dual_step(loss, a / share, y, m, ratio * share) if share > 0.0 else -a


@njit(**JIT)
def norms(X, lo, hi, out):  # type: ignore[no-untyped-def]
    for i in range(lo, hi):
        out[i] = row_norm(X, i)


@njit(**JIT)
def margins(rows, w, lo, hi, out):  # type: ignore[no-untyped-def]
    X, scale, _, constant = rows
    for i in range(lo, hi):
        out[i] = margin(X, scale, constant, i, w)


@njit(inline="always")
def move_duals(  # type: ignore[no-untyped-def]
    rows, y, a, a_before, momentum, w, ratio, damping, clip, loss, first, count, places, m
):
    """Extrapolate the dual variables of a block, step and clip; leave the steps in ``m``."""
    divisor = rows.divisor
    for k in range(count):
        places[k] = first + k
    predict(rows, w, places, count, m)
    if damping > 0.0:  # in a loop of its own, which is compiled to vector instructions
        labels = y[first : first + count]
        for k in range(count):
            m[k] = slope(loss, labels[k], m[k])
    for k in range(count):
        i = first + k
        centre = a[i] + momentum * (a[i] - a_before[i])
        step = -damping * (m[k] + centre) if damping > 0.0 else dual_step(loss, centre, y[i], m[k], ratio)
        m[k] = clipped(step, clip / divisor[i])
        a_before[i] = a[i]
        a[i] = centre + m[k]


@njit(**JIT)
def accelerated_pass(  # type: ignore[no-untyped-def]
    rows, y, a, a_before, momentum, w, ratio, damping, clip, ticks_per_unit, loss, lo, hi, total
):
    """Do one full pass of accelerated DP-SCD: extrapolate each dual variable, step, clip, and sum the terms in ticks.

    The step is ``damping`` of the way to -l'(m) when ``damping`` > 0, else the exact coordinate step, with ``ratio`` =
    s'/(alpha n) for the aggregation constant s' = n lambda_max. |zeta| times the row's norm is at most ``clip``.
    ``total`` receives sum_i zeta_i x_i in whole ticks.
    """
    places, m, factor, buffer = workspace(rows.X)
    for first in range(lo, hi, BLOCK):
        count = min(BLOCK, hi - first)
        move_duals(rows, y, a, a_before, momentum, w, ratio, damping, clip, loss, first, count, places, m)
        add_terms(rows, places, count, m, ticks_per_unit, factor, buffer, total)


@njit(**JIT)
def weighted_pass(  # type: ignore[no-untyped-def]
    rows, y, shares, a, a_before, momentum, w, ratio, damping, clip, ticks_per_unit, loss, lo, hi, total
):
    """Do one pass as `accelerated_pass` does, with the loss of each row multiplied by its share, within [0, 1].

    ``a`` holds the dual variables over the shares: a row steps as it does without weights, and its share of the step is
    added. So clipping leaves the weights what they are, and the bound on a row's term is the same.
    """
    places, m, factor, buffer = workspace(rows.X)
    for first in range(lo, hi, BLOCK):
        count = min(BLOCK, hi - first)
        move_duals(rows, y, a, a_before, momentum, w, ratio, damping, clip, loss, first, count, places, m)
        for k in range(count):
            m[k] = clipped(shares[first + k] * m[k], clip / rows.divisor[first + k])
        add_terms(rows, places, count, m, ticks_per_unit, factor, buffer, total)


@njit(**JIT)
def batch_pass(  # type: ignore[no-untyped-def]
    rows, y, a, w, ratio, ratio_norm, clip, ticks_per_unit, loss, batch, lo, hi, total
):
    """Do one step of mini-batch DP-SCD on the rows batch[lo:hi]: step, clip, and sum the terms in ticks.

    The aggregation constant over alpha n is ``ratio + ratio_norm |x|^2``.
    """
    divisor = rows.divisor
    places, m, factor, buffer = workspace(rows.X)
    for first in range(lo, hi, BLOCK):
        count = min(BLOCK, hi - first)
        places[:count] = batch[first : first + count]
        predict(rows, w, places, count, m)
        for k in range(count):
            i = places[k]
            step = dual_step(loss, a[i], y[i], m[k], ratio + ratio_norm * divisor[i] * divisor[i])
            m[k] = clipped(step, clip / divisor[i])
            a[i] += m[k]
        add_terms(rows, places, count, m, ticks_per_unit, factor, buffer, total)


@njit(**JIT)
def sdca_epoch(rows, y, a, w, alpha_n, loss, order):  # type: ignore[no-untyped-def]
    """Do one epoch of plain stochastic dual coordinate ascent (no privacy), keeping w = sum_i a_i x_i / (alpha n)."""
    X, scale, norm, constant = rows
    last = w.shape[0] - 1
    for p in range(order.shape[0]):
        i = order[p]
        m = margin(X, scale, constant, i, w)
        zeta = dual_step(loss, a[i], y[i], m, norm[i] * norm[i] / alpha_n)
        a[i] += zeta
        axpy(X, i, zeta * scale[i] / alpha_n, w)
        if constant > 0.0:
            w[last] += zeta * constant / alpha_n


@njit(**JIT)
def weighted_sdca_epoch(rows, y, shares, a, w, alpha_n, loss, order):  # type: ignore[no-untyped-def]
    """Do one epoch as `sdca_epoch` does, with the loss of each row multiplied by its share, within [0, 1]."""
    X, scale, norm, constant = rows
    last = w.shape[0] - 1
    for p in range(order.shape[0]):
        i = order[p]
        m = margin(X, scale, constant, i, w)
        zeta = _weighted_step(loss, shares[i], a[i], y[i], m, norm[i] * norm[i] / alpha_n)
        a[i] += zeta
        axpy(X, i, zeta * scale[i] / alpha_n, w)
        if constant > 0.0:
            w[last] += zeta * constant / alpha_n
