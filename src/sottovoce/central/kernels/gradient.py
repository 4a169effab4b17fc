"""The compiled sums of clipped gradients, for the solvers that follow slopes; same habits as the passes.

They release the interpreter lock, work on the rows lo to hi of their arguments, may be called in parallel on disjoint
ranges, and add to ``total`` in whole ticks, so that the sum is exact in any order.
"""

from sottovoce._compiling import JIT, njit
from sottovoce.central.kernels.rows import BLOCK
from sottovoce.central.kernels.scaled import add_terms, clipped, predict, workspace
from sottovoce.losses.base import slope

__all__ = ["batch_gradient", "full_gradient", "gradient"]


@njit(inline="always")
def _clipped_slopes(divisor, y, clip, loss, places, count, m):  # type: ignore[no-untyped-def]
    """Replace predictions by the clipped slopes there."""
    for k in range(count):
        i = places[k]
        m[k] = clipped(slope(loss, y[i], m[k]), clip / divisor[i])


@njit(**JIT)
def batch_gradient(rows, y, w, clip, ticks_per_unit, loss, batch, lo, hi, total):  # type: ignore[no-untyped-def]
    """Sum the gradients l'(m_i) x_i of the rows batch[lo:hi] at ``w``, each clipped to ``clip``, in ticks."""
    places, m, factor, buffer = workspace(rows.X)
    for first in range(lo, hi, BLOCK):
        count = min(BLOCK, hi - first)
        places[:count] = batch[first : first + count]
        predict(rows, w, places, count, m)
        _clipped_slopes(rows.divisor, y, clip, loss, places, count, m)
        add_terms(rows, places, count, m, ticks_per_unit, factor, buffer, total)


@njit(**JIT)
def full_gradient(rows, y, w, clip, ticks_per_unit, loss, lo, hi, total):  # type: ignore[no-untyped-def]
    """Sum the gradients l'(m_i) x_i of the rows lo to hi at ``w``, each clipped to ``clip``, in ticks."""
    places, m, factor, buffer = workspace(rows.X)
    for first in range(lo, hi, BLOCK):
        count = min(BLOCK, hi - first)
        for k in range(count):
            places[k] = first + k
        predict(rows, w, places, count, m)
        _clipped_slopes(rows.divisor, y, clip, loss, places, count, m)
        add_terms(rows, places, count, m, ticks_per_unit, factor, buffer, total)


@njit(**JIT)
def gradient(rows, y, margins, clip, ticks_per_unit, loss, lo, hi, total):  # type: ignore[no-untyped-def]
    """Sum l'(m_i) x_i of the rows lo to hi for given ``margins``, each term clipped to ``clip``, in ticks."""
    places, m, factor, buffer = workspace(rows.X)
    for first in range(lo, hi, BLOCK):
        count = min(BLOCK, hi - first)
        for k in range(count):
            places[k] = first + k
            m[k] = margins[first + k]
        _clipped_slopes(rows.divisor, y, clip, loss, places, count, m)
        add_terms(rows, places, count, m, ticks_per_unit, factor, buffer, total)
