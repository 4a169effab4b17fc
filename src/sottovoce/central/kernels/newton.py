"""The compiled pass of the Newton solver; same habits as the other passes."""

from sottovoce._compiling import JIT, njit
from sottovoce.central.kernels.rows import BLOCK
from sottovoce.central.kernels.scaled import add_terms, clipped, predict, workspace
from sottovoce.losses.base import slope

__all__ = ["newton_pass"]


@njit(**JIT)
def newton_pass(rows, y, a, w, share, clip, ticks_per_unit, loss, lo, hi, total):  # type: ignore[no-untyped-def]
    """Move each dual variable to ``share`` times -l'(m), by at most the clip, and sum the terms in ticks.

    |zeta| times the row's norm is at most ``clip``. ``total`` receives sum_i zeta_i x_i in whole ticks.
    """
    divisor = rows.divisor
    places, m, factor, buffer = workspace(rows.X)
    for first in range(lo, hi, BLOCK):
        count = min(BLOCK, hi - first)
        for k in range(count):
            places[k] = first + k
        predict(rows, w, places, count, m)
        labels = y[first : first + count]
        for k in range(count):  # in a loop of its own, which is compiled to vector instructions
            m[k] = slope(loss, labels[k], m[k])
        for k in range(count):
            i = first + k
            m[k] = clipped(-share * m[k] - a[i], clip / divisor[i])
            a[i] += m[k]
        add_terms(rows, places, count, m, ticks_per_unit, factor, buffer, total)
