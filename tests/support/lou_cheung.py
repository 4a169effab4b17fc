"""Lou and Cheung's Algorithm 2 a second time, as one loop, and inexact answers as bad as Assumption 1 allows."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from benchmarks.vertical.frank_wolfe import table
from sottovoce.papers import frank_wolfe as bfw
from sottovoce.papers.frank_wolfe.algorithm import algorithm_1
from sottovoce.papers.frank_wolfe.noise import (
    Sketch,
    published_column_std,
    published_rows,
    published_selection_scale,
    published_steps,
)

COLUMNS, PARTIES, EPSILON, DELTA, IOTA = 200, 4, 1.0, 1e-5, 0.3
CLAIM = {"epsilon": EPSILON, "delta": DELTA}

Array = NDArray[np.float64]


class Problem:
    """What least squares knows of a table, and the least risks."""

    def __init__(self, n: int, d: int = COLUMNS) -> None:
        self.d = d
        entries, y = table(n, d)
        self.n, self.gram, self.moment = n, entries.T @ entries / n, entries.T @ y / n
        self.constant = 0.5 * float(np.mean(y**2))
        values, vectors = np.linalg.eigh(self.gram)
        self.root = (vectors * np.sqrt(np.maximum(values, 0.0))).T  # root' root = gram

    def risk(self, x: Array) -> float:
        """Return half the mean squared residual."""
        return 0.5 * float(x @ self.gram @ x) - float(self.moment @ x) + self.constant

    def least(self, radius: float, n_balls: int = 1) -> float:
        """Return the least risk on the l1 ball, or on the product of one such ball for each party."""
        step = 1.0 / float(np.linalg.eigvalsh(self.gram)[-1])
        x = ahead = np.zeros(self.d)
        pace = 1.0
        for _ in range(2000):
            moved = ahead - step * (self.gram @ ahead - self.moment)
            following = np.concatenate([on_ball(part, radius) for part in np.split(moved, n_balls)])
            faster = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * pace * pace))
            ahead = following + (pace - 1.0) / faster * (following - x)
            x, pace = following, faster
        return self.risk(x)

    def least_within(self, cap: float) -> float:
        """Return the least risk of models whose weights are all within +-cap."""
        found = minimize(
            self.risk, np.zeros(self.d), jac=lambda x: self.gram @ x - self.moment, method="L-BFGS-B",
            bounds=[(-cap, cap)] * self.d, options={"maxiter": 2000, "ftol": 1e-14, "gtol": 1e-9},
        )  # fmt: skip
        return float(found.fun)


def on_ball(x: Array, radius: float) -> Array:
    sizes = np.abs(x)
    if sizes.sum() <= radius:
        return x
    ordered = np.sort(sizes)[::-1]
    over = np.cumsum(ordered) - radius
    last = int(np.flatnonzero(ordered > over / np.arange(1, len(x) + 1))[-1])
    return np.sign(x) * np.maximum(sizes - over[last] / (last + 1), 0.0)


def printed(
    problem: Problem,
    seed: int,
    *,
    n_parties: int = PARTIES,
    tau: int | None = None,
    choices: bool = True,
    columns: bool = True,
    sketch: bool = True,
) -> Array:
    """Return the model of Algorithm 2 as printed; parts can be taken out.

    Parameters
    ----------
    choices, columns, sketch : bool
        Whether there is noise on the choices, noise on the columns, and a sketch.
    """
    rng, n, width = np.random.default_rng(seed), problem.n, problem.d // n_parties
    T = max(1, round(published_steps(n, EPSILON)))
    claim = {"n_people": n, "n_steps": T, **CLAIM}
    A = problem.root  # of norms as columns of the table over sqrt(n)
    leading = 1.0
    if sketch:
        m = published_rows(T, DELTA, IOTA)
        A = rng.normal(size=(m, problem.d)) / math.sqrt(m) @ problem.root
        leading = math.sqrt(n / m) + 1.0
    std = published_column_std(leading, n_parties=n_parties, **claim) / math.sqrt(n) if columns else 0.0
    scale = published_selection_scale(1.0, 1.0, **claim) if choices else 0.0
    drawn_each = width if tau is None else tau
    p = drawn_each / width
    firsts = width * np.arange(n_parties)[:, None]
    x, q = np.zeros(problem.d), np.zeros(len(A))
    for t in range(T):
        size = 2.0 / (p * t + 2.0)
        gradient = (A.T @ q - problem.moment).reshape(n_parties, width)
        if drawn_each < width:
            drawn = np.argpartition(rng.random((n_parties, width)), drawn_each, axis=1)[:, :drawn_each]
        else:
            drawn = np.broadcast_to(np.arange(width), (n_parties, width))
        slopes = np.take_along_axis(gradient, drawn, axis=1)
        noisy = np.concatenate([slopes, -slopes], axis=1)
        if scale:
            noisy += rng.laplace(0.0, scale, noisy.shape)
        best = noisy.argmax(axis=1)
        places = (firsts[:, 0] + drawn[np.arange(n_parties), best % drawn_each])[:, None]
        signs = np.where(best < drawn_each, -1.0, 1.0)
        shared = A[:, places[:, 0]]
        if std:
            shared = shared + rng.normal(0.0, std, shared.shape)
        x *= 1.0 - size
        x[places[:, 0]] += size * signs
        q = (1.0 - size) * q + size * (shared @ signs)
    return x


def clipped(
    entries: Any, y: Any, seed: int, *, epsilon: float = EPSILON, n_steps: int | None = None, n_parties: int = PARTIES
) -> Array:
    """Return the model of `PublishedBallPlan` on records, as one loop in one place (its G is 1)."""
    rng, (n, d) = np.random.default_rng(seed), entries.shape
    T = published_steps(n, epsilon) if n_steps is None else n_steps
    claim = {"n_people": n, "n_steps": T, "epsilon": epsilon, "delta": DELTA}
    sketch = Sketch(n, published_rows(T, DELTA, IOTA), 0)
    J = np.empty((sketch.n_rows, n), np.float32)
    for place, piece in sketch._drawn_pieces():
        J[:, place] = piece
    std = published_column_std(sketch.leading_singular_value, n_parties=n_parties, **claim)
    scale = published_selection_scale(1.0, 1.0, **claim)
    A, labels, width = np.asarray(entries, np.float32), np.asarray(y, np.float32), d // n_parties
    x, q = np.zeros(d), np.zeros(sketch.n_rows)
    for t in range(T):
        size = 2.0 / (t + 2.0)
        slopes = np.clip(q.astype(np.float32) @ J - labels, -1.0, 1.0)
        gradient = ((slopes @ A) / n).reshape(n_parties, width)
        noisy = np.concatenate([gradient, -gradient], axis=1)
        best = (noisy + rng.laplace(0.0, scale, noisy.shape)).argmax(axis=1)
        places, signs = width * np.arange(n_parties) + best % width, np.where(best < width, -1.0, 1.0)
        shared = J @ A[:, places] + rng.normal(0.0, std, (len(J), n_parties))
        x *= 1.0 - size
        x[places] += size * signs
        q = (1.0 - size) * q + size * (shared @ signs)
    return x


def hostile(
    objective: bfw.Objective, domain: bfw.ProductDomain, sampling: bfw.Sampling, x0: Any, error: float,
    curvature: float, steps: int, seed: int,
) -> Iterator[Any]:  # fmt: skip
    """Run Algorithm 1 with gradients and oracles as bad as eq. (4) and (5) allow; yield its iterates.

    A partial gradient is pulled toward 0 and beyond; an oracle's answer lies between the best point and the worst.
    """
    allowed, rng = 0.0, np.random.default_rng(seed)

    def sets() -> Iterator[Any]:
        nonlocal allowed
        for t in range(steps):
            allowed = 0.5 * error * curvature * 2.0 / (sampling.p_min * t + 2.0)
            yield sampling.draw(rng)

    def gradient(x: Any, block: slice) -> Any:
        exact = objective.at(x).gradient(block)
        length = float(np.linalg.norm(exact))
        return exact * (1.0 - allowed / length) if length > 0.0 else exact

    def oracle(i: int, g: Any) -> Any:
        best, worst = domain.blocks[i].oracle(g), domain.blocks[i].oracle(-g)
        span = float((worst - best) @ g)
        return best + (allowed / span if span > allowed else 1.0) * (worst - best)

    places = [domain.place(i) for i in range(domain.n_blocks)]
    return algorithm_1(gradient, oracle, places, sets(), x0, sampling.p_min)
