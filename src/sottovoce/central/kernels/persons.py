"""The compiled passes over persons: the steps of all rows of one are cut together, and their sum is what counts.

Rows lie in the order of persons: those of person p are ``starts[p]`` to ``starts[p + 1]``. As the other passes they
release the interpreter lock, work on the persons lo to hi, and add up whole ticks, so that the sum is exact in any
order. A person's own sum is made in double precision by one thread, in the order of the rows, cut to its bound as it
came out, and then rounded toward zero: the bound holds for what is added, whatever rounding did before.
"""

from typing import Any

import numpy as np
from numba.extending import overload

from sottovoce._compiling import ALLOCATING, njit
from sottovoce.central.kernels.multinomial import move_dual_vectors
from sottovoce.central.kernels.passes import move_duals
from sottovoce.central.kernels.rows import BLOCK, is_csr, is_dense, whole_ticks, workspace
from sottovoce.central.kernels.scaled import clipped


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
            for c in range(X.shape[1]):
                values[c] += factor * np.float64(X[i, c])
            return X.shape[1]

        return dense
    return None


@njit()
def _squared(values, places, count, bound):  # type: ignore[no-untyped-def]
    """Return the sum of squares in units of ``bound``."""
    total = 0.0
    for p in range(count):
        value = values[places[p]] / bound
        total += value * value
    return total


@njit()
def _add_cut(values, places, seen, count, share, ticks_per_unit, total):  # type: ignore[no-untyped-def]
    """Add ``share`` times the values to ``total`` in whole ticks, and clear them."""
    for p in range(count):
        c = places[p]
        total[c] += whole_ticks(values[c] * share * ticks_per_unit)
        values[c] = 0.0
        seen[c] = False


@njit()
def _longest(starts, lo, hi):  # type: ignore[no-untyped-def]
    """Return the most rows of a person, and no less than a block."""
    most = BLOCK
    for p in range(lo, hi):
        most = max(most, starts[p + 1] - starts[p])
    return most


@njit()
def _filling_a_block(starts, begin, hi):  # type: ignore[no-untyped-def]
    """Return the end of the persons from ``begin`` on whose rows fill a block: at least one person."""
    end = begin + 1
    while end < hi and starts[end + 1] - starts[begin] <= BLOCK:
        end += 1
    return end


@njit(**ALLOCATING)
def person_pass(  # type: ignore[no-untyped-def]
    rows, starts, y, shares, a, a_before, momentum, w, ratio, damping, clip, ticks_per_unit, loss, lo, hi, total
):
    """Do one full pass of accelerated DP-SCD in which the steps of a person's rows are cut together.

    A row steps as in `passes.accelerated_pass`; its share of the step is at most ``clip`` long with its row.
    The sum over the rows of a person is cut to ``clip`` too: all their steps are multiplied by what that leaves.
    Where ``a`` has a column for each class, rows step as in `multinomial.joint_pass`, without ``shares``, ``ratio`` and
    ``loss``, and the sum is a matrix.
    """
    X, scale, divisor, constant = rows
    width = total.shape[-1]
    sums = total.reshape((total.size // width, width))
    n_classes = sums.shape[0]
    places, _, _ = workspace(X)
    step, top, whole = np.empty((n_classes, BLOCK)), np.empty(BLOCK), np.empty(BLOCK)
    moves = np.empty((n_classes, _longest(starts, lo, hi)))
    values, seen = np.zeros((n_classes, width)), np.zeros((n_classes, width), np.bool_)
    touched, used = np.empty((n_classes, width), np.int64), np.zeros(n_classes, np.int64)
    for k in range(n_classes):
        for c in range(width):
            touched[k, c] = c
    begin = lo
    while begin < hi:
        end = _filling_a_block(starts, begin, hi)
        offset = starts[begin]
        for first in range(offset, starts[end], BLOCK):
            if a.ndim == 1:
                count, _, _ = move_duals(
                    rows, y, a, a_before, momentum, w, ratio, damping, clip, loss, first, starts[end], places, step[0]
                )  # fmt: skip
            else:
                count, _, _ = move_dual_vectors(
                    rows, y, a, a_before, momentum, w, damping, clip, first, starts[end], places, step, top, whole
                )  # fmt: skip
            for k in range(n_classes):
                for r in range(count):
                    moves[k, first - offset + r] = step[k, r]
        for person in range(begin, end):
            squared = 0.0
            for k in range(n_classes):
                used[k] = 0
                for i in range(starts[person], starts[person + 1]):
                    move = moves[k, i - offset]
                    if shares.size:
                        move = clipped(shares[i] * move, clip / divisor[i])
                    used[k] = _gather(X, i, move * scale[i], values[k], touched[k], seen[k], used[k])
                    if constant > 0.0:
                        values[k, width - 1] += move * constant
                if constant > 0.0:
                    touched[k, used[k]] = width - 1
                    used[k] += 1
                squared += _squared(values[k], touched[k], used[k], clip)
            length = np.sqrt(squared)
            share = 1.0 / length if length > 1.0 else 1.0
            for k in range(n_classes):
                _add_cut(values[k], touched[k], seen[k], used[k], share, ticks_per_unit, sums[k])
            if share < 1.0:
                duals = a.reshape((a.shape[0], n_classes))
                for i in range(starts[person], starts[person + 1]):
                    for k in range(n_classes):
                        duals[i, k] -= (1.0 - share) * moves[k, i - offset]
        begin = end
