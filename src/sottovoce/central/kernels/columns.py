"""The compiled parts of fast Frank-Wolfe on sparse rows: one step's changes, and the two-level draw of a column.

Columns are kept in groups of about sqrt(d). `Groups` holds, for each group, upper bounds only: on the largest size
|sum| of its columns, and on the sum of its weights. A bound is cheap to keep when a column changes, and it is replaced
by the exact value when the draw needs that. The draw itself uses exact weights, so bounds decide about time alone.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sottovoce._compiling import JIT, njit
from sottovoce.central.kernels.rows import shortened, whole_ticks
from sottovoce.central.kernels.scaled import clipped
from sottovoce.losses.base import slope

_COINS = 2.0**53
_LEAST = -700.0  # as in the exponential mechanism: no weight is below exp(-700) times the largest
_FLOOR = 1e-250  # far above a whole group of such weights
_SLACK = 1.0 + 1e-9  # of a bound, far above the rounding of a group's sum
_DRIFT = 100.0  # exponent by which the largest weight may leave the reference; beyond, all bounds are made again
_HIGHEST = 600.0  # exponent that does not overflow, far beyond the drift
_FRESH = 4  # largest bounds that are made exact before a draw
SPARE = 64  # random words that a draw leaves, for the digits of a rare tie


class Groups(NamedTuple):
    """Bounds for groups of ``size`` columns; all arrays but ``reference`` have one entry a group."""

    size: int
    largest: NDArray[np.int64]  # at least the largest |sum|
    largest_exact: NDArray[np.bool_]
    weight: NDArray[np.float64]  # at least the sum of exp(rate (+-sum - reference)), what is floored aside
    weight_exact: NDArray[np.bool_]
    reference: NDArray[np.float64]  # one entry


@njit(**JIT)
def change_rows(rows, y, margins, clip, ticks_per_unit, loss, held, terms, sums, touched, before, mark, count):  # type: ignore[no-untyped-def]
    """Bring the sums up to date after the predictions of the rows ``held`` changed; the exact difference, in ticks.

    ``terms`` are what each row's entries were multiplied by, and its term in the intercept's column. Columns that
    changed are listed in ``touched`` with their old sums in ``before``, after the ``count``
    ones that are there already, and marked. Returns the number of columns now listed.
    """
    X, scale, _, constant = rows
    factor, constants = terms
    last = sums.shape[0] - 1
    for i in held:
        step = clipped(slope(loss, y[i], margins[i]), clip)
        if constant > 0.0:
            term = whole_ticks(step * ticks_per_unit * constant)
            if not mark[last]:
                mark[last], touched[count], before[count] = True, last, sums[last]
                count += 1
            sums[last] += term - constants[i]
            constants[i] = term
        old = factor[i]
        factor[i] = shortened(step * ticks_per_unit * scale[i], factor)
        new = factor[i]
        if new == old:
            continue
        for p in range(np.uint64(X.indptr[i]), np.uint64(X.indptr[i + 1])):
            change = whole_ticks(new * X.data[p]) - whole_ticks(old * X.data[p])
            if change != 0:
                j = np.uint64(X.indices[p])
                if not mark[j]:
                    mark[j], touched[count], before[count] = True, j, sums[j]
                    count += 1
                sums[j] += change
    return count


@njit(inline="always")
def _first_largest(values):  # type: ignore[no-untyped-def]
    """Return the place of the largest number: numba compiles its own for half a second."""
    place = 0
    for k in range(1, values.shape[0]):
        if values[k] > values[place]:
            place = k
    return place


@njit(**JIT)
def note_changes(groups, sums, touched, before, count, mark, rate):  # type: ignore[no-untyped-def]
    """Keep the bounds of the groups valid after the columns ``touched[:count]`` changed, and clear ``mark``."""
    # a weight below this is noted as this: all columns together are then a few per cent of the largest weight
    small = rate * (groups.largest[_first_largest(groups.largest)] - groups.reference[0]) - np.log(64.0 * sums.shape[0])
    small_weight = 2.0 * np.exp(min(small, _HIGHEST))
    for k in range(count):
        j = touched[k]
        mark[j] = False
        g = j // groups.size
        size, old = abs(sums[j]), abs(before[k])
        if size >= groups.largest[g]:
            groups.largest[g] = size
            groups.largest_exact[g] = True
        elif old == groups.largest[g]:
            groups.largest_exact[g] = False
        groups.weight_exact[g] = False
        if size > old:  # else the old weight still bounds the new one
            exponent = rate * (size - groups.reference[0])
            groups.weight[g] += small_weight if exponent < small else 2.0 * np.exp(min(exponent, _HIGHEST))


@njit(**JIT)
def _settle_largest(groups, sums):  # type: ignore[no-untyped-def]
    """Return the largest |sum|, exactly."""
    while True:
        g = _first_largest(groups.largest)
        if groups.largest_exact[g]:
            return groups.largest[g]
        largest = np.int64(0)
        for j in range(g * groups.size, min((g + 1) * groups.size, sums.shape[0])):
            largest = max(largest, abs(sums[j]))
        groups.largest[g] = largest
        groups.largest_exact[g] = True


@njit(**JIT)
def _weight(score, largest, rate):  # type: ignore[no-untyped-def]
    return np.exp(max(rate * (score - largest), _LEAST))


@njit(**JIT)
def _group_weight(groups, g, sums, largest, rate):  # type: ignore[no-untyped-def]
    """Return the sum of the weights of group g, both signs of each column."""
    total = 0.0
    for j in range(g * groups.size, min((g + 1) * groups.size, sums.shape[0])):
        total += _weight(sums[j], largest, rate) + _weight(-sums[j], largest, rate)
    return total


@njit(**JIT)
def _happens(probability, words, place):  # type: ignore[no-untyped-def]
    """Return whether a coin of exactly this probability shows, and the place of the next unused word.

    Its digits are compared with random ones, 53 at a time; more than 53 are needed once in 2^53 times.
    """
    while probability > 0.0 and place < words.shape[0]:
        probability *= _COINS
        whole = np.floor(probability)
        coin = np.float64(words[place] >> np.uint64(11))
        place += 1
        if coin != whole:
            return coin < whole, place
        probability -= whole
    return False, place


@njit(**JIT)
def _uniform(n, words, place):  # type: ignore[no-untyped-def]
    """Return a whole number below n, uniformly, and the place of the next unused word."""
    mask = np.uint64(1)
    while mask < np.uint64(n):
        mask <<= np.uint64(1)
    mask -= np.uint64(1)
    value = np.int64(n)
    while value >= n and place < words.shape[0] - 2:
        value = np.int64(words[place] & mask)
        place += 1
    return value, place


# The draws below run out of words with a trial half done only if 60 words in a row are refused (once in 2^60 times or
# less); between two trials they may stop at any time, because trials are independent and alike.


@njit(**JIT)
def draw_group(groups, sums, rate, words, place):  # type: ignore[no-untyped-def]
    """Draw a group with probability proportional to its weight: uniformly, then kept with (weight) / (bound on all).

    Returns the group, or -1 when the words are used up (call again with fresh ones), and the place of the next unused
    word.
    """
    n_groups = groups.weight.shape[0]
    largest = _settle_largest(groups, sums)
    if not abs(rate * (largest - groups.reference[0])) <= _DRIFT:
        groups.reference[0] = largest
        groups.weight[:] = 2.0 * groups.size
        groups.weight_exact[:] = False
    shift = np.exp(rate * (groups.reference[0] - largest))
    for _ in range(_FRESH):
        g = _first_largest(groups.weight)
        if groups.weight_exact[g]:
            break
        _settle_weight(groups, g, _group_weight(groups, g, sums, largest, rate), shift)
    bound = groups.weight[_first_largest(groups.weight)] * shift * _SLACK
    while place < words.shape[0] - SPARE:
        g, place = _uniform(n_groups, words, place)
        if g >= n_groups:
            break
        # the first digits of the coin say no for most groups before their weight is known
        limit = groups.weight[g] * shift * _SLACK
        if np.float64(words[place] >> np.uint64(11)) / _COINS >= limit / bound:
            place += 1
            continue
        weight = _group_weight(groups, g, sums, largest, rate)
        _settle_weight(groups, g, weight, shift)
        if not weight <= limit:  # the bounds rule it out; if rounding did it all the same, the trials begin again
            bound = max(bound, groups.weight[g] * shift * _SLACK)
            continue
        kept, place = _happens(weight / bound, words, place)
        if kept:
            return g, place
    return np.int64(-1), words.shape[0]


@njit(**JIT)
def _settle_weight(groups, g, weight, shift):  # type: ignore[no-untyped-def]
    groups.weight[g] = max(weight / shift, _FLOOR) * _SLACK
    groups.weight_exact[g] = True


@njit(**JIT)
def draw_column(groups, g, sums, rate, words, place):  # type: ignore[no-untyped-def]
    """Draw a column j of group g and a sign s with probability proportional to exp(-rate s sums[j]).

    Returns the column, or -1 when the words are used up (call again with fresh ones), the sign, and the place of the
    next unused word.
    """
    first, end = g * groups.size, min((g + 1) * groups.size, sums.shape[0])
    largest = groups.largest[_first_largest(groups.largest)]  # exact: a group was drawn
    highest = np.int64(0)
    for j in range(first, end):
        highest = max(highest, abs(sums[j]))
    top = _weight(highest, largest, rate)
    while place < words.shape[0] - SPARE:
        r, place = _uniform(2 * (end - first), words, place)
        if r >= 2 * (end - first):
            break
        j = first + r // 2
        sign = np.int64(1 - 2 * (r % 2))
        kept, place = _happens(_weight(-sign * sums[j], largest, rate) / top, words, place)
        if kept:
            return j, sign, place
    return np.int64(-1), np.int64(0), words.shape[0]
