"""Compiled loops of vertical training: products and descent at a party, one scalar problem a record at the coordinator.

Sizes: n records, d coefficients; ``free`` says how many of the first coefficients carry the penalty.
"""

from typing import Any

import numpy as np

from sottovoce._compiling import JIT, njit
from sottovoce.losses.base import dual_step

__all__ = [
    "back_single",
    "descend_columns",
    "descend_gram",
    "descend_groups",
    "descend_groups_by_column",
    "proximal_points",
    "times_single",
]

_SUMS: dict[str, Any] = {**JIT, "fastmath": {"reassoc", "contract"}}  # sums in any order, on the vector units


@njit(**_SUMS)
def times_single(table, x, out):  # type: ignore[no-untyped-def]
    """Write table x, summed in double precision; a converted copy would take two to three times as long."""
    for i in range(table.shape[0]):
        total = 0.0
        for j in range(table.shape[1]):
            total += table[i, j] * x[j]
        out[i] = total


@njit(**_SUMS)
def back_single(table, v, out):  # type: ignore[no-untyped-def]
    """Add table' v to ``out`` in double precision."""
    for i in range(table.shape[0]):
        weight = v[i]
        for j in range(table.shape[1]):
            out[j] += table[i, j] * weight


@njit(**JIT)
def proximal_points(loss, y, centre, strength, dual, out):  # type: ignore[no-untyped-def]
    """Write argmin_z l(y, z) + strength/2 (z - centre)^2 of each record to ``out``, and -l' there to ``dual``.

    By Moreau's identity z = centre + a / strength, where a minimises l*(-a) + centre a + a^2 / (2 strength): the dual
    step that every loss has already, from the dual variable of the last time (near the new one, or 0).
    """
    for i in range(len(y)):
        a = dual[i]
        a += dual_step(loss, a, y[i], centre[i] + a / strength, 1.0 / strength)
        dual[i] = a
        out[i] = centre[i] + a / strength


@njit(**JIT)
def _best(pull: float, curvature: float, l2: float, l1: float, low: float, high: float) -> float:
    """Return argmin of curvature/2 t^2 - pull t + R(t)."""
    if pull > l1:
        t = (pull - l1) / (curvature + l2)
    elif pull < -l1:
        t = (pull + l1) / (curvature + l2)
    else:
        t = 0.0
    return min(max(t, low), high)


@njit(**JIT)
def descend_gram(G, b, x, d, rho, l2, l1, low, high, tolerance, sweeps):  # type: ignore[no-untyped-def]
    """Descend on R(x) + rho/2 x'Gx - rho b'x, in place, coordinate by coordinate."""
    gradient = G @ x - b  # of |Dx|^2 / 2 - b'x
    for _ in range(sweeps):
        moved, largest = 0.0, 0.0
        for j in range(len(x)):
            curvature = rho * G[j, j]
            pull = curvature * x[j] - rho * gradient[j]
            if j >= d:
                t = pull / curvature
            elif curvature + l2 > 0.0:
                t = _best(pull, curvature, l2, l1, low, high)
            else:
                t = x[j]  # a column of zeros without an L2 penalty: any value will do
            change = t - x[j]
            if change != 0.0:
                x[j] = t
                gradient += change * G[j]
            moved, largest = max(moved, abs(change)), max(largest, abs(t))
        if moved <= tolerance * largest:
            break


@njit(**JIT)
def descend_columns(D, squares, b, x, d, rho, l2, l1, low, high, tolerance, sweeps):  # type: ignore[no-untyped-def]
    """Do the same for G = D'D from the columns of D themselves; ``squares`` is the diagonal of G."""
    scores = np.zeros(D.shape[0])
    for j in range(len(x)):
        if x[j] != 0.0:
            scores += x[j] * D[:, j]
    for _ in range(sweeps):
        moved, largest = 0.0, 0.0
        for j in range(len(x)):
            curvature = rho * squares[j]
            if curvature == 0.0 and l2 == 0.0:
                continue
            pull = curvature * x[j] - rho * (np.dot(D[:, j], scores) - b[j])
            t = pull / curvature if j >= d else _best(pull, curvature, l2, l1, low, high)
            change = t - x[j]
            if change != 0.0:
                x[j] = t
                scores += change * D[:, j]
            moved, largest = max(moved, abs(change)), max(largest, abs(t))
        if moved <= tolerance * largest:
            break


@njit(**JIT)
def _shrink_group(c, s, rho, l2, weight):  # type: ignore[no-untyped-def]
    """Replace c by argmin_u rho/2 sum s u^2 + l2/2 |u|^2 + weight |u| - c'u, for s > 0.

    With t = |u| the minimiser is c t / ((rho s + l2) t + weight), and t solves |c / ((rho s + l2) t + weight)| = 1. One
    over that norm is concave in t, so Newton steps from below never pass the solution.
    """
    norm = np.sqrt((c * c).sum())
    if norm <= weight:
        c[:] = 0.0
        return
    a = rho * s + l2
    if weight == 0.0:
        c /= a
        return
    t = (norm - weight) / a.max()
    for _ in range(100):
        below = a * t + weight
        squares = (c / below) ** 2
        total = squares.sum()
        step = (1.0 - 1.0 / np.sqrt(total)) * total * np.sqrt(total) / (squares * a / below).sum()
        t += step
        if abs(step) <= 1e-15 * t:
            break
    c *= t / (a * t + weight)


@njit(**JIT)
def _group_step(V, s, x, gradient, rho, l2, weight):  # type: ignore[no-untyped-def]
    """Return the new coefficients of a group: V diag(s) V' is its part of G, ``gradient`` that of |Dx|^2 / 2 - b'x."""
    k = len(s)
    c = np.zeros(k)
    for i in range(k):
        place, pull = 0.0, 0.0
        for j in range(len(x)):
            place += V[j, i] * x[j]
            pull += V[j, i] * gradient[j]
        c[i] = rho * (s[i] * place - pull)
    _shrink_group(c, s, rho, l2, weight)
    moved = np.zeros(len(x))
    for j in range(len(x)):
        for i in range(k):
            moved[j] += V[j, i] * c[i]
    return moved


@njit(**JIT)
def descend_groups(G, sizes, ranks, V, s, b, x, rho, l2, weights, tolerance, sweeps):  # type: ignore[no-untyped-def]
    """Descend on l2/2 |x|^2 + sum_g weights_g |x_g| + rho/2 x'Gx - rho b'x, in place, group by group, each exactly.

    ``V`` and ``s`` hold the eigenvectors and the positive eigenvalues of each group's part of G, one group behind the
    other; b has nothing outside the vectors of a group.
    """
    gradient = G @ x - b
    for _ in range(sweeps):
        moved, largest = 0.0, 0.0
        low, at, place = 0, 0, 0
        for g in range(len(sizes)):
            p, k = sizes[g], ranks[g]
            vectors = V[at : at + p * k].reshape((p, k))
            new = _group_step(
                vectors, s[place : place + k], x[low : low + p], gradient[low : low + p], rho, l2, weights[g]
            )
            for j in range(p):
                change = new[j] - x[low + j]
                if change != 0.0:
                    x[low + j] = new[j]
                    gradient += change * G[low + j]
                moved, largest = max(moved, abs(change)), max(largest, abs(new[j]))
            low, at, place = low + p, at + p * k, place + k
        if moved <= tolerance * largest:
            break


@njit(**JIT)
def descend_groups_by_column(  # type: ignore[no-untyped-def]
    D, sizes, ranks, V, s, b, x, rho, l2, weights, tolerance, sweeps
):
    """Do the same for G = D'D from the columns of D themselves."""
    scores = np.zeros(D.shape[0])
    for j in range(len(x)):
        if x[j] != 0.0:
            scores += x[j] * D[:, j]
    for _ in range(sweeps):
        moved, largest = 0.0, 0.0
        low, at, place = 0, 0, 0
        for g in range(len(sizes)):
            p, k = sizes[g], ranks[g]
            vectors = V[at : at + p * k].reshape((p, k))
            gradient = np.zeros(p)
            for j in range(p):
                gradient[j] = np.dot(D[:, low + j], scores) - b[low + j]
            new = _group_step(vectors, s[place : place + k], x[low : low + p], gradient, rho, l2, weights[g])
            for j in range(p):
                change = new[j] - x[low + j]
                if change != 0.0:
                    x[low + j] = new[j]
                    scores += change * D[:, low + j]
                moved, largest = max(moved, abs(change)), max(largest, abs(new[j]))
            low, at, place = low + p, at + p * k, place + k
        if moved <= tolerance * largest:
            break
