"""The compiled pass of the multinomial model: a step for all classes at once, clipped as one vector.

It releases the interpreter lock, works on the rows lo to hi of its arguments and is called in parallel on disjoint
ranges, as those of `sottovoce.central.kernels.passes`.
"""

import numpy as np

from sottovoce._compiling import ALLOCATING, njit
from sottovoce.central.kernels.passes import move, start
from sottovoce.central.kernels.rows import BLOCK, workspace
from sottovoce.central.kernels.scaled import add_terms, clipped, consecutive, predict
from sottovoce.losses._compiled import exp_below_zero

_FAR = 1e100  # bounds from the start: a square of it is finite, and its rows are shortened to their bound all the same


@njit(inline="always")
def _predict_shares(rows, scale, w, count, places, scores, top, whole):  # type: ignore[no-untyped-def]
    """Leave softmax(W x) of a block in ``scores[:, :count]``, a column a row; ``top`` and ``whole`` are room for it."""
    for k in range(w.shape[0]):
        predict(rows, scale, w[k], places, count, scores[k])
    for r in range(count):
        top[r], whole[r] = scores[0, r], 0.0
    for k in range(1, scores.shape[0]):
        for r in range(count):
            top[r] = max(top[r], scores[k, r])
    for k in range(scores.shape[0]):
        for r in range(count):
            scores[k, r] = exp_below_zero(scores[k, r] - top[r])
            whole[r] += scores[k, r]
    for k in range(scores.shape[0]):
        for r in range(count):
            scores[k, r] /= whole[r]


@njit(inline="always")
def _cut(step, r, bound):  # type: ignore[no-untyped-def]
    """Shorten a row's vector, which is in units of its bound, to it, and give it its own unit."""
    squared = 0.0
    for k in range(step.shape[0]):
        squared += step[k, r] * step[k, r]
    length = np.sqrt(squared)
    share = 1.0 / length if length > 1.0 else 1.0  # a small bound over a length may be subnormal: it comes last
    for k in range(step.shape[0]):
        step[k, r] *= share
        step[k, r] *= bound


@njit(inline="always")
def move_dual_vectors(  # type: ignore[no-untyped-def]
    rows, y, a, a_before, momentum, w, damping, clip, first, hi, places, step, top, whole
):
    """Extrapolate the dual vectors of a block, step and clip; leave the steps in ``step``; return as `consecutive`."""
    n_classes = w.shape[0]
    count, scale, divisor = consecutive(rows, first, hi, places)
    _predict_shares(rows, scale, w, count, places, step, top, whole)
    for r in range(count):
        i = first + r
        bound, inverse = clip / divisor[r], divisor[r] / clip
        label = int(y[i])
        for k in range(n_classes):
            centre = a[i, k] + momentum * (a[i, k] - a_before[i, k])
            a_before[i, k] = a[i, k]
            a[i, k] = centre
            wanted = (1.0 if k == label else 0.0) - step[k, r]
            # in units of the bound, so that squares neither over- nor underflow where it matters
            step[k, r] = clipped(damping * (wanted - centre) * inverse, _FAR)
        _cut(step, r, bound)
        for k in range(n_classes):
            a[i, k] += step[k, r]
    return count, scale, divisor


@njit(**ALLOCATING)
def joint_pass(  # type: ignore[no-untyped-def]
    rows, y, a, a_before, momentum, w, damping, clip, ticks_per_unit, lo, hi, total
):
    """Do one full pass: extrapolate the dual vectors, step, clip, and sum the terms in ticks.

    ``y`` holds 0, ..., K - 1; ``a`` and ``a_before`` are of shape (n, K), ``w`` and ``total`` of shape (K, weights).
    The step is ``damping`` of the way to e_y - softmax(W x). |zeta| times the row's norm is at most ``clip``, for the
    whole vector zeta. ``total`` receives sum_i zeta_i x_i' in whole ticks.
    """
    n_classes = w.shape[0]
    places, _, factor = workspace(rows.X)
    step, top, whole = np.empty((n_classes, BLOCK)), np.empty(BLOCK), np.empty(BLOCK)
    for first in range(lo, hi, BLOCK):
        count, scale, _ = move_dual_vectors(
            rows, y, a, a_before, momentum, w, damping, clip, first, hi, places, step, top, whole
        )  # fmt: skip
        for k in range(n_classes):
            add_terms(rows, scale, places, count, step[k], ticks_per_unit, factor, total[k])


@njit(inline="always")
def _add_slopes(rows, y, w, clip, ticks_per_unit, lo, hi, room, step, top, whole, total):  # type: ignore[no-untyped-def]
    n_classes, (places, _, factor) = w.shape[0], room
    for first in range(lo, hi, BLOCK):
        count, scale, divisor = consecutive(rows, first, hi, places)
        _predict_shares(rows, scale, w, count, places, step, top, whole)
        for r in range(count):
            bound, inverse, label = clip / divisor[r], divisor[r] / clip, int(y[first + r])
            for k in range(n_classes):
                step[k, r] = clipped(((1.0 if k == label else 0.0) - step[k, r]) * inverse, _FAR)
            _cut(step, r, bound)
        for k in range(n_classes):
            add_terms(rows, scale, places, count, step[k], ticks_per_unit, factor, total[k])


@njit(**ALLOCATING)
def joint_gradient(rows, y, w, clip, ticks_per_unit, lo, hi, total):  # type: ignore[no-untyped-def]
    """Sum (e_y - softmax(W x)) x' of the rows lo to hi, what the loss falls along, each term clipped, in ticks.

    Arguments are those of `joint_pass`, without a memory: |e_y - softmax(W x)|, cut as one vector, times the row's norm
    is at most ``clip``.
    """
    step, top, whole = np.empty((w.shape[0], BLOCK)), np.empty(BLOCK), np.empty(BLOCK)
    _add_slopes(rows, y, w, clip, ticks_per_unit, lo, hi, workspace(rows.X), step, top, whole, total)


@njit(**ALLOCATING)
def joint_descend(  # type: ignore[no-untyped-def]
    rows, y, clip, ticks_per_unit, tick, drawn, rule, first, largest, w, total, point, along, added
):
    """Take steps as `sottovoce.central.kernels.passes.descend` does, for all classes at once.

    The exact sums over classes are 0, so what the noise makes of them is taken off.
    """
    room, (n_classes, width) = workspace(rows.X), total.shape
    slopes, top, whole = np.empty((n_classes, BLOCK)), np.empty(BLOCK), np.empty(BLOCK)
    for step in range(drawn.shape[0]):
        for c in range(n_classes):
            start(point[c], largest, w[c], total[c])
        _add_slopes(rows, y, w, clip, ticks_per_unit, 0, y.shape[0], room, slopes, top, whole, total)
        is_last = first + step >= rule.n_steps - rule.n_last
        for k in range(width):
            mean = np.float64(total[0, k] + drawn[step, 0, k]) * tick
            for c in range(1, n_classes):
                mean += np.float64(total[c, k] + drawn[step, c, k]) * tick
            mean /= n_classes
            for c in range(n_classes):
                noisy = np.float64(total[c, k] + drawn[step, c, k]) * tick - mean
                move(noisy, rule, is_last, k, point[c], along[c], added[c])
