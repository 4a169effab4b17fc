"""Scaled rows, as every kernel takes them: predictions of a block, and the sum of its clipped terms in whole ticks.

A matrix is never copied: each row has a factor that turns the raw row into the one the solver sees, and the column of
the intercept exists only as one number, added as the last weight where it is not 0.
"""

import numpy as np

from sottovoce._compiling import njit
from sottovoce.central.kernels.rows import BLOCK, add_block, dot, dot_block, shortened, whole_ticks
from sottovoce.central.kernels.vectors import cut


@njit(inline="always")
def clipped(zeta, bound):  # type: ignore[no-untyped-def]
    """Clip to [-bound, bound]; total: NaN becomes 0."""
    return cut(zeta if zeta == zeta else 0.0, bound)  # type: ignore[call-arg]  # NaN is the one value that differs from itself


@njit(inline="always")
def margin(X, scale, constant, i, w):  # type: ignore[no-untyped-def]
    m = scale[i] * dot(X, i, w)
    return m + constant * w[w.shape[0] - 1] if constant > 0.0 else m


@njit(inline="always")
def consecutive(rows, first, hi, places):  # type: ignore[no-untyped-def]
    """Fill in the places of a block; return the number of its rows, their scales and divisors: slices, for vectors."""
    count = BLOCK if hi - first > BLOCK else hi - first
    for k in range(count):
        places[k] = first + k
    return count, rows.scale[first : first + count], rows.divisor[first : first + count]


@njit(inline="always")
def predict(rows, scale, w, places, count, m):  # type: ignore[no-untyped-def]
    dot_block(rows.X, places, count, w, m)
    offset = rows.constant * np.float64(w[w.shape[0] - 1]) if rows.constant > 0.0 else 0.0
    for k in range(count):
        m[k] = scale[k] * m[k] + offset


@njit(inline="always")
def add_terms(rows, scale, places, count, step, ticks_per_unit, factor, total):  # type: ignore[no-untyped-def]
    """Add step[k] times row places[k] of scale[k], k < count, in whole ticks, to ``total``."""
    for k in range(count):
        # ticks first: a step over the length of a far row alone may be the smallest number there is, or half of it
        factor[k] = shortened(step[k] * ticks_per_unit * scale[k], factor)
    add_block(rows.X, places, count, factor, total)
    if rows.constant > 0.0:
        constants = np.int64(0)
        for k in range(count):
            constants += whole_ticks(step[k] * ticks_per_unit * rows.constant)
        total[total.shape[0] - 1] += constants
