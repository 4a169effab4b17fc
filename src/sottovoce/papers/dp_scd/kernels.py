"""Compiled steps that the printed forms take beside those of the product, and rows as the primal form takes them."""

from typing import Any, Final

import numpy as np
import scipy.sparse as sp

from sottovoce._compiling import ALLOCATING, njit
from sottovoce.central.data.part import Rows
from sottovoce.central.data.streamed import is_sparse
from sottovoce.central.kernels.rows import BLOCK, axpy, whole_ticks, workspace
from sottovoce.central.kernels.scaled import add_terms, clipped, margin, predict
from sottovoce.losses._compiled import dual_step

_FAR: Final = 1e-160  # the scale of a row that is some 1e110 long or more


@njit(**ALLOCATING)
def sequential_batch(rows, y, a, w, alpha_n, clip, ticks_per_unit, loss, batch, moves, total):  # type: ignore[no-untyped-def]
    """Do the exact coordinate steps of the rows ``batch`` one after the other; ``w`` moves with each.

    Each step is at most ``clip``. ``moves`` receives the steps and ``total`` the sum of their terms, in whole ticks;
    the dual variables ``a`` stay as they are.
    """
    X, scale, norm, constant = rows
    last = w.shape[0] - 1
    places, steps, factor = workspace(X)
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
        add_terms(rows, scale[places[:count]], places, count, steps, ticks_per_unit, factor, total)


@njit(**ALLOCATING)
def batch_pass(  # type: ignore[no-untyped-def]
    rows, y, a, w, ratio, ratio_norm, clip, ticks_per_unit, loss, batch, lo, hi, total
):
    """Do one step of mini-batch DP-SCD on the rows batch[lo:hi]: step, clip, and sum the terms in ticks.

    The aggregation constant over alpha n is ``ratio + ratio_norm |x|^2``.
    """
    divisor = rows.divisor
    places, m, factor = workspace(rows.X)
    for first in range(lo, hi, BLOCK):
        count = min(BLOCK, hi - first)
        places[:count] = batch[first : first + count]
        predict(rows, rows.scale[places[:count]], w, places, count, m)
        for k in range(count):
            i = places[k]
            step = dual_step(loss, a[i], y[i], m[k], ratio + ratio_norm * divisor[i] * divisor[i])
            m[k] = clipped(step, clip / divisor[i])
            a[i] += m[k]
        add_terms(rows, rows.scale[places[:count]], places, count, m, ticks_per_unit, factor, total)


def within_reach(rows: Rows) -> Rows:
    """Return the same rows in memory with no entry so large that its product with a weight overflows.

    Where there is one, which only a table of doubles can hold, the matrix is copied and such rows are scaled in it.
    """
    raw: Any = rows.raw
    far = np.flatnonzero(rows.scale < _FAR)
    if not far.size:
        return rows
    scale = rows.scale.copy()
    if is_sparse(raw):
        factor = np.ones(rows.n_samples)
        factor[far] = scale[far]
        raw = sp.csr_array((raw.data * np.repeat(factor, np.diff(raw.indptr)), raw.indices, raw.indptr), raw.shape)
    else:
        raw = np.array(raw)
        raw[far] *= scale[far, None]
    scale[far] = 1.0
    return Rows(raw, scale, rows.divisor, rows.constant)
