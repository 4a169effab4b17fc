"""The compiled pass over persons: the steps of all rows of one are cut together, and their sum is what counts.

Rows lie in the order of persons: those of person p are ``starts[p]`` to ``starts[p + 1]``. As the other passes it
releases the interpreter lock, works on the persons lo to hi, and adds up whole ticks, so that the sum is exact in any
order. A person's own sum is made in double precision by one thread, in the order of the rows, cut to its bound as it
came out, and then rounded toward zero: the bound holds for what is added, whatever rounding did before.
"""

from typing import Any

import numpy as np
from numba.extending import overload

from sottovoce._compiling import JIT, njit
from sottovoce.central.kernels.passes import move_duals
from sottovoce.central.kernels.rows import BLOCK, is_csr, is_dense, whole_ticks
from sottovoce.central.kernels.scaled import clipped, workspace

__all__ = ["person_pass"]


@njit()
def _add_dense(x, factor, values):  # type: ignore[no-untyped-def]
    for c in range(x.shape[0]):
        values[c] += factor * np.float64(x[c])


def _gather(X: Any, i: int, factor: float, values: Any, places: Any, seen: Any, count: int) -> int:
    """Add factor times row i to ``values``; return how many of ``places`` are in use now."""
    raise NotImplementedError("for compiled code only")


@overload(_gather)
def _overload_gather(X, i, factor, values, places, seen, count):  # type: ignore[no-untyped-def]
    if is_csr(X):

        def sparse(X, i, factor, values, places, seen, count):  # type: ignore[no-untyped-def]
            for p in range(np.uint64(X.indptr[i]), np.uint64(X.indptr[i + 1])):
                c = np.uint64(X.indices[p])
                if not seen[c]:
                    seen[c] = True
                    places[count] = c
                    count += 1
                values[c] += factor * np.float64(X.data[p])
            return count

        return sparse
    if is_dense(X):

        def dense(X, i, factor, values, places, seen, count):  # type: ignore[no-untyped-def]
            _add_dense(X[i], factor, values)
            return X.shape[1]

        return dense
    return None


@njit()
def _add_cut(values, places, count, bound, ticks_per_unit, total):  # type: ignore[no-untyped-def]
    """Shorten ``values`` to ``bound``, add them to ``total`` in whole ticks, clear them; return what was left of 1."""
    squared = 0.0
    for p in range(count):
        value = values[places[p]] / bound
        squared += value * value
    length = np.sqrt(squared)
    share = 1.0 / length if length > 1.0 else 1.0
    for p in range(count):
        c = places[p]
        total[c] += whole_ticks(values[c] * share * ticks_per_unit)
        values[c] = 0.0
    return share


@njit(**JIT)
def person_pass(  # type: ignore[no-untyped-def]
    rows, starts, y, shares, a, a_before, momentum, w, ratio, damping, clip, bound, ticks_per_unit, loss, lo, hi, total
):
    """Do one full pass of accelerated DP-SCD in which the steps of a person's rows are cut together.

    A row steps as in `passes.weighted_pass`, ``shares`` times its step counts, at most ``clip`` long with its row. The
    sum over the rows of a person is cut to ``bound``: all their steps are multiplied by what that leaves.
    """
    X, scale, divisor, constant = rows
    places, m, _, _ = workspace(X)
    last = total.shape[0] - 1
    longest = BLOCK
    for p in range(lo, hi):
        longest = max(longest, starts[p + 1] - starts[p])
    moves = np.empty(longest)
    values = np.zeros(total.shape[0])
    seen = np.zeros(total.shape[0], np.bool_)
    touched = np.arange(total.shape[0])
    begin = lo
    while begin < hi:
        end = begin + 1
        while end < hi and starts[end + 1] - starts[begin] <= BLOCK:
            end += 1
        offset = starts[begin]
        for first in range(offset, starts[end], BLOCK):
            count = min(BLOCK, starts[end] - first)
            move_duals(rows, y, a, a_before, momentum, w, ratio, damping, clip, loss, first, count, places, m)
            moves[first - offset : first - offset + count] = m[:count]
        for person in range(begin, end):
            used = 0
            for i in range(starts[person], starts[person + 1]):
                step = clipped(shares[i] * moves[i - offset], clip / divisor[i])
                used = _gather(X, i, step * scale[i], values, touched, seen, used)
                if constant > 0.0:
                    values[last] += step * constant
            if constant > 0.0:
                touched[used] = last
                used += 1
            share = _add_cut(values, touched, used, bound, ticks_per_unit, total)
            seen[touched[:used]] = False
            if share < 1.0:
                for i in range(starts[person], starts[person + 1]):
                    a[i] -= (1.0 - share) * moves[i - offset]
        begin = end
