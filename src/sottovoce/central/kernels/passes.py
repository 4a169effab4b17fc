"""The compiled passes over rows, for one model: everything that costs time per record is here.

All of them release the interpreter lock, work on the rows lo to hi of their arguments, are called in parallel on
disjoint ranges, and add to ``total`` in whole ticks, so that sums are exact in any order. An empty array of ``shares``
stands for rows without weights.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce._compiling import JIT, njit
from sottovoce.central.kernels.calls import CSR, FEW
from sottovoce.central.kernels.rows import BLOCK, axpy, norm_of, numbers, shortened, whole_ticks, workspace
from sottovoce.central.kernels.scaled import add_terms, clipped, consecutive, margin, predict
from sottovoce.losses._compiled import dual_step, slope


@njit(**JIT)
def _norms_sparse(data, indptr, lo, hi, out):  # type: ignore[no-untyped-def]
    for i in range(lo, hi):
        out[i] = norm_of(data, np.uint64(indptr[i]), np.uint64(indptr[i + 1]))


@njit(**JIT)
def _norms_dense(entries, width, lo, hi, out):  # type: ignore[no-untyped-def]
    for i in range(lo, hi):
        out[i] = norm_of(entries, np.uint64(i * width), np.uint64((i + 1) * width))


def norms(X: Any, lo: int, hi: int, out: NDArray[np.float64]) -> None:
    if isinstance(X, CSR):
        _norms_sparse(X.data, X.indptr, lo, hi, out)
    elif not (0 < X.size <= FEW and _are_plain_norms(X[lo:hi], out[lo:hi])):
        _norms_dense(X.reshape(X.size), X.shape[1], lo, hi, out)


def _are_plain_norms(X: NDArray[Any], out: NDArray[np.float64]) -> bool:
    """Write the norms of a few rows, in the order of the kernel, which is not compiled then; False if one is odd."""
    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.add.accumulate(np.square(X.T, dtype=np.float64))[-1]
    np.sqrt(squares, out=out)
    return bool(np.all((squares > 1e-280) & (squares < np.inf)))


@njit(**JIT)
def margins(rows, w, lo, hi, out):  # type: ignore[no-untyped-def]
    X, scale, _, constant = rows
    for i in range(lo, hi):
        out[i] = margin(X, scale, constant, i, w)


@njit(inline="always")
def move_duals(  # type: ignore[no-untyped-def]
    rows, y, a, a_before, momentum, w, ratio, damping, clip, loss, first, hi, places, m
):
    """Extrapolate the dual variables of a block, step and clip; leave the steps in ``m``; return as `consecutive`."""
    count, scale, divisor = consecutive(rows, first, hi, places)
    labels, now, before = y[first : first + count], a[first : first + count], a_before[first : first + count]
    predict(rows, scale, w, places, count, m)
    if damping > 0.0:  # in a loop of its own, which is compiled to vector instructions
        for k in range(count):
            m[k] = slope(loss, labels[k], m[k])
    for k in range(count):
        centre = now[k] + momentum * (now[k] - before[k])
        step = -damping * (m[k] + centre) if damping > 0.0 else dual_step(loss, centre, labels[k], m[k], ratio)
        m[k] = clipped(step, clip / divisor[k])
        before[k] = now[k]
        now[k] = centre + m[k]
    return count, scale, divisor


@njit(**JIT)
def accelerated_pass(  # type: ignore[no-untyped-def]
    rows, y, shares, a, a_before, momentum, w, ratio, damping, clip, ticks_per_unit, loss, lo, hi, total
):
    """Do one full pass of accelerated DP-SCD: extrapolate each dual variable, step, clip, and sum the terms in ticks.

    The step is ``damping`` of the way to -l'(m) when ``damping`` > 0, else the exact coordinate step, with ``ratio`` =
    s'/(alpha n) for the aggregation constant s' = n lambda_max. |zeta| times the row's norm is at most ``clip``.
    ``total`` receives sum_i zeta_i x_i in whole ticks.

    The loss of each row is multiplied by its share, within [0, 1]: ``a`` holds the dual variables over the shares, a
    row steps as it does without weights, and its share of the step is added. So clipping leaves the weights what they
    are, and the bound on a row's term is the same.
    """
    places, m, factor = workspace(rows.X)
    for first in range(lo, hi, BLOCK):
        block = move_duals(rows, y, a, a_before, momentum, w, ratio, damping, clip, loss, first, hi, places, m)
        count, scale, divisor = block
        if shares.size:
            for k in range(count):
                m[k] = clipped(shares[first + k] * m[k], clip / divisor[k])
        add_terms(rows, scale, places, count, m, ticks_per_unit, factor, total)


@njit(**JIT)
def newton_pass(rows, y, a, w, share, clip, ticks_per_unit, loss, lo, hi, total):  # type: ignore[no-untyped-def]
    """Move each dual variable to ``share`` times -l'(m), by at most the clip, and sum the terms in ticks.

    |zeta| times the row's norm is at most ``clip``. ``total`` receives sum_i zeta_i x_i in whole ticks.
    """
    places, m, factor = workspace(rows.X)
    for first in range(lo, hi, BLOCK):
        count, scale, divisor = consecutive(rows, first, hi, places)
        labels, duals = y[first : first + count], a[first : first + count]
        predict(rows, scale, w, places, count, m)
        for k in range(count):  # in a loop of its own, which is compiled to vector instructions
            m[k] = slope(loss, labels[k], m[k])
        for k in range(count):
            m[k] = clipped(-share * m[k] - duals[k], clip / divisor[k])
            duals[k] += m[k]
        add_terms(rows, scale, places, count, m, ticks_per_unit, factor, total)


@njit(**JIT)
def sdca_epoch(rows, y, shares, a, w, alpha_n, loss, order):  # type: ignore[no-untyped-def]
    """Do one epoch of plain stochastic dual coordinate ascent (no privacy), keeping w = sum_i a_i x_i / (alpha n).

    The loss of each row is multiplied by its share s, within [0, 1]; the conjugate of that at -a is s l*(-a / s).
    """
    X, scale, norm, constant = rows
    last = w.shape[0] - 1
    for p in range(order.shape[0]):
        i = order[p]
        share = shares[i] if shares.size else 1.0
        m, ratio = margin(X, scale, constant, i, w), norm[i] * norm[i] / alpha_n
        zeta = share * dual_step(loss, a[i] / share, y[i], m, ratio * share) if share > 0.0 else -a[i]
        a[i] += zeta
        axpy(X, i, zeta * scale[i] / alpha_n, w)
        if constant > 0.0:
            w[last] += zeta * constant / alpha_n


@njit(inline="always")
def _clipped_slopes(divisor, labels, margins, clip, loss, count, m):  # type: ignore[no-untyped-def]
    for k in range(count):  # in a loop of its own, which is compiled to vector instructions
        m[k] = slope(loss, labels[k], margins[k])
    for k in range(count):
        m[k] = clipped(m[k], clip / divisor[k])


@njit(inline="always")
def _add_gradients(rows, y, w, clip, ticks_per_unit, loss, lo, hi, room, total):  # type: ignore[no-untyped-def]
    places, m, factor = room
    for first in range(lo, hi, BLOCK):
        count, scale, divisor = consecutive(rows, first, hi, places)
        predict(rows, scale, w, places, count, m)
        _clipped_slopes(divisor, y[first : first + count], m, clip, loss, count, m)
        add_terms(rows, scale, places, count, m, ticks_per_unit, factor, total)


@njit(**JIT)
def gradient_at(rows, y, w, clip, ticks_per_unit, loss, lo, hi, total):  # type: ignore[no-untyped-def]
    """Sum the gradients l'(m_i) x_i of the rows lo to hi at ``w``, each clipped to ``clip``, in ticks."""
    _add_gradients(rows, y, w, clip, ticks_per_unit, loss, lo, hi, workspace(rows.X), total)


@njit(inline="always")
def start(point, largest, w, total):  # type: ignore[no-untyped-def]
    for k in range(total.shape[0]):
        w[k] = largest if point[k] > largest else -largest if point[k] < -largest else point[k]
        total[k] = 0


@njit(inline="always")
def move(noisy, rule, is_last, k, point, along, added):  # type: ignore[no-untyped-def]
    along[k] = rule.kept * along[k] + rule.moved * (noisy / rule.divisor - rule.back * point[k])
    point[k] = (point[k] + rule.far * along[k]) / rule.over
    added[k] += point[k] if is_last else 0.0


@njit(**JIT)
def descend(  # type: ignore[no-untyped-def]
    rows, y, clip, ticks_per_unit, loss, tick, drawn, rule, first, largest, w, total, point, along, added
):
    """Take a step for each line of ``drawn``, which is noise in whole ticks: `RowSum.descend` on all rows, bit by bit.

    An exact sum stays here: what the rule goes on with has noise. ``first`` is the number of the first step, ``w`` room
    for the point in the precision of the rows, and ``largest`` what that can hold; ``point``, ``along`` and ``added``,
    the sum of the last points, are moved.
    """
    room = workspace(rows.X)
    for step in range(drawn.shape[0]):
        start(point, largest, w, total)
        _add_gradients(rows, y, w, clip, ticks_per_unit, loss, 0, y.shape[0], room, total)
        is_last = first + step >= rule.n_steps - rule.n_last
        for k in range(total.shape[0]):
            noisy = np.float64(total[k] + drawn[step, k]) * tick  # so few rows add up to less than 2^61
            move(noisy, rule, is_last, k, point, along, added)


@njit(**JIT)
def gradient_of(rows, y, w, clip, ticks_per_unit, loss, batch, lo, hi, total):  # type: ignore[no-untyped-def]
    """Do the same for the rows batch[lo:hi]."""
    places, m, factor = workspace(rows.X)
    scale, divisor, labels = numbers(), numbers(), numbers()
    for first in range(lo, hi, BLOCK):
        count = min(BLOCK, hi - first)
        for k in range(count):
            i = places[k] = batch[first + k]
            scale[k], divisor[k], labels[k] = rows.scale[i], rows.divisor[i], y[i]
        predict(rows, scale, w, places, count, m)
        _clipped_slopes(divisor, labels, m, clip, loss, count, m)
        add_terms(rows, scale, places, count, m, ticks_per_unit, factor, total)


@njit(**JIT)
def gradient(rows, y, margins, clip, ticks_per_unit, loss, lo, hi, total):  # type: ignore[no-untyped-def]
    """Sum l'(m_i) x_i of the rows lo to hi for given ``margins``, each term clipped to ``clip``, in ticks."""
    places, m, factor = workspace(rows.X)
    for first in range(lo, hi, BLOCK):
        count, scale, divisor = consecutive(rows, first, hi, places)
        _clipped_slopes(divisor, y[first : first + count], margins[first:], clip, loss, count, m)
        add_terms(rows, scale, places, count, m, ticks_per_unit, factor, total)


@njit(**JIT)
def change_terms(  # type: ignore[no-untyped-def]
    rows, y, margins, clip, ticks_per_unit, loss, held, factor, constants, sums
):
    """Bring the sums of `gradient` up to date after the margins of the sparse rows ``held`` changed, exactly, in ticks.

    ``factor`` and ``constants``: what each row's entries were multiplied by, and its term in the intercept's column.
    """
    X, scale, _, constant = rows
    last = sums.shape[0] - 1
    for i in held:
        step = clipped(slope(loss, y[i], margins[i]), clip)
        if constant > 0.0:
            term = whole_ticks(step * ticks_per_unit * constant)
            sums[last] += term - constants[i]
            constants[i] = term
        old = factor[i]
        factor[i] = shortened(step * ticks_per_unit * scale[i], factor)
        new = factor[i]
        for p in range(np.uint64(X.indptr[i]), np.uint64(X.indptr[i + 1])):
            sums[np.uint64(X.indices[p])] += whole_ticks(new * X.data[p]) - whole_ticks(old * X.data[p])


@njit(**JIT)
def predictions(rows, w, lo, hi, out):  # type: ignore[no-untyped-def]
    """Write what `gradient_at` predicts for the rows lo to hi: the last digits of `margins` are others."""
    places, m, _ = workspace(rows.X)
    for first in range(lo, hi, BLOCK):
        count, scale, _ = consecutive(rows, first, hi, places)
        predict(rows, scale, w, places, count, m)
        for k in range(count):
            out[first - lo + k] = m[k]
