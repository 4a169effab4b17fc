"""Theorem 3 of Lou and Cheung (AAAI 2018) against runs of their Algorithm 2: excess risk by people, by cause, by tau.

    python -m benchmarks.papers.frank_wolfe.theorem_3 [--quick] [--only readings,causes,tau] [--seeds 5] [--docs]

The table of ``benchmarks.vertical.frank_wolfe`` with 200 columns: entries -1 and 1, ten columns of weight +-0.08,
decoys of correlation 0.6, labels within [-1, 1]; ball of radius 1, four parties, epsilon = 1, delta = 1e-5. Excess risk
is half the mean squared residual less the least one on the ball. Medians over seeds of the noise.

"As printed" is simulated, exactly in law but for the singular value of J, which is taken as sqrt(n / m) + 1: q, J a and
the gradients of Algorithm 2 depend on the records by A'A and A'y only, and J A is drawn with independent rows
N(0, A'A / m). So a million people cost what a thousand do; beyond a million, A'A / n and A'y / n are those of a
million.

readings: T and the bound with one C in both, that of Proposition 4 (coordinates are the blocks) or that of the four l1
balls that are walked. causes: parts of the algorithm taken out one by one. tau: sampled columns among a million people,
with the floor that is proved.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from benchmarks.driver import benchmark
from benchmarks.vertical.frank_wolfe import table
from sottovoce.papers.frank_wolfe import DistributedSampling, ProductDomain, Quadratic, proposition_4_bound
from sottovoce.papers.frank_wolfe.bounds import balls_curvature, theorem_3, weight_cap
from sottovoce.papers.frank_wolfe.noise import (
    published_column_std,
    published_rows,
    published_selection_scale,
    published_steps,
)

COLUMNS, PARTIES, EPSILON, DELTA, IOTA = 200, 4, 1.0, 1e-5, 0.3
MOST_DRAWN = 1_000_000  # a larger table has the A'A / n and A'y / n of this one
MOST_WITHOUT_SKETCH = 10_000_000
READINGS = {"coordinates": (10_000, 100_000, 1_000_000, 10_000_000),
            "balls": (10_000, 100_000, 1_000_000, 10_000_000, 100_000_000)}  # fmt: skip
SEEDS_OF_A_READING = {10_000: 5, 100_000: 3}
CLAIM = {"epsilon": EPSILON, "delta": DELTA}
BARE: dict[str, Any] = {"sketch": False, "choices": False, "columns": False}
CAUSES: dict[str, dict[str, Any]] = {
    "as printed": {},
    "no noise on choices": {"choices": False},
    "no noise on columns": {"columns": False},
    "no sketch": {"sketch": False},
    "iota = 0.1 in place of 0.3": {"iota": 0.1},
    "no sketch, no noise": BARE,
    "one vertex a step, not four": {"one_vertex": True},
}

Array = NDArray[np.float64]


class Problem:
    """What least squares knows of a table, and the least risks."""

    def __init__(self, n: int) -> None:
        drawn = min(n, MOST_DRAWN)
        entries, y = table(drawn, COLUMNS)
        gram, moment = np.zeros((COLUMNS, COLUMNS)), np.zeros(COLUMNS)
        for low in range(0, drawn, 2**16):
            piece = entries[low : low + 2**16]
            gram += piece.T @ piece
            moment += piece.T @ y[low : low + 2**16]
        self.n, self.gram, self.moment = n, gram / drawn, moment / drawn
        self.constant = 0.5 * float(np.mean(y**2))
        values, vectors = np.linalg.eigh(self.gram)
        self.root = (vectors * np.sqrt(np.maximum(values, 0.0))).T  # root' root = gram

    def risk(self, x: Array) -> float:
        """Return half the mean squared residual."""
        return 0.5 * float(x @ self.gram @ x) - float(self.moment @ x) + self.constant

    def least(self, radius: float) -> float:
        """Return the least risk on the l1 ball."""
        step = 1.0 / float(np.linalg.eigvalsh(self.gram)[-1])
        x = ahead = np.zeros(COLUMNS)
        pace = 1.0
        for _ in range(2000):
            moved = ahead - step * (self.gram @ ahead - self.moment)
            following = on_ball(moved, radius)
            faster = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * pace * pace))
            ahead = following + (pace - 1.0) / faster * (following - x)
            x, pace = following, faster
        return self.risk(x)

    def least_within(self, cap: float) -> float:
        """Return the least risk of models whose weights are all within +-cap."""
        found = minimize(
            self.risk, np.zeros(COLUMNS), jac=lambda x: self.gram @ x - self.moment, method="L-BFGS-B",
            bounds=[(-cap, cap)] * COLUMNS, options={"maxiter": 2000, "ftol": 1e-14, "gtol": 1e-9},
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
    tau: int | None = None,
    choices: bool = True,
    columns: bool = True,
    sketch: bool = True,
    steps: float = 1.0,
    iota: float = IOTA,
    one_vertex: bool = False,
) -> Array:
    """Return the model of Algorithm 2 as printed; parts can be taken out.

    Parameters
    ----------
    choices, columns, sketch : bool
        Whether there is noise on the choices, noise on the columns, and a sketch.
    steps : float
        Multiplies T.
    iota : float
        Of the sketch.
    one_vertex : bool
        Move to the best of the parties' vertices alone, so that the model stays in the ball.
    """
    rng, n, width = np.random.default_rng(seed), problem.n, COLUMNS // PARTIES
    T = max(1, round(steps * published_steps(n, EPSILON)))
    claim = {"n_people": n, "n_steps": T, **CLAIM}
    A = problem.root  # of norms as columns of the table over sqrt(n)
    leading = 1.0
    if sketch:
        m = published_rows(T, DELTA, iota)
        A = rng.normal(size=(m, COLUMNS)) / math.sqrt(m) @ problem.root
        leading = math.sqrt(n / m) + 1.0
    std = published_column_std(leading, n_parties=PARTIES, **claim) / math.sqrt(n) if columns else 0.0
    scale = published_selection_scale(1.0, 1.0, **claim) if choices else 0.0
    drawn_each = width if tau is None else tau
    p = drawn_each / width
    firsts = width * np.arange(PARTIES)[:, None]
    x, q = np.zeros(COLUMNS), np.zeros(len(A))
    for t in range(T):
        size = 2.0 / (p * t + 2.0)
        gradient = (A.T @ q - problem.moment).reshape(PARTIES, width)
        if drawn_each < width:
            drawn = np.argpartition(rng.random((PARTIES, width)), drawn_each, axis=1)[:, :drawn_each]
        else:
            drawn = np.broadcast_to(np.arange(width), (PARTIES, width))
        slopes = np.take_along_axis(gradient, drawn, axis=1)
        noisy = np.concatenate([slopes, -slopes], axis=1)
        if scale:
            noisy += rng.laplace(0.0, scale, noisy.shape)
        best = noisy.argmax(axis=1)
        places = (firsts[:, 0] + drawn[np.arange(PARTIES), best % drawn_each])[:, None]
        signs = np.where(best < drawn_each, -1.0, 1.0)
        if one_vertex:
            winner = int(noisy.max(axis=1).argmax())
            places, signs = places[winner : winner + 1], signs[winner : winner + 1]
        shared = A[:, places[:, 0]]
        if std:
            shared = shared + rng.normal(0.0, std, shared.shape)
        x *= 1.0 - size
        x[places[:, 0]] += size * signs
        q = (1.0 - size) * q + size * (shared @ signs)
    return x


def of_reading(problem: Problem, reading: str) -> tuple[float, float, float]:
    """Return C, and T and Theorem 3 with this C in both."""
    C = balls_curvature(1.0, n_parties=PARTIES)
    if reading == "coordinates":
        domain = ProductDomain.intervals(-1.0, 1.0, n_blocks=COLUMNS)
        C = proposition_4_bound(
            Quadratic(problem.gram), domain, DistributedSampling(COLUMNS, PARTIES, COLUMNS // PARTIES)
        )
    steps = float(published_steps(problem.n, EPSILON))
    for _ in range(4):  # m has the logarithm of T, and T has m
        bound = theorem_3(
            n_people=problem.n, n_columns=COLUMNS, n_parties=PARTIES, sampled_columns=COLUMNS // PARTIES, radius=1.0,
            curvature=C, sketch_rows=published_rows(max(1, round(steps)), DELTA, IOTA), **CLAIM,
        )  # fmt: skip
        steps = bound.n_steps
    return C, steps, bound.risk


def middle(problem: Problem, seeds: int, **changes: Any) -> tuple[str, str]:
    """Return the median excess risk and l1 norm."""
    models = [printed(problem, seed, **changes) for seed in range(seeds)]
    excess = float(np.median([problem.risk(x) for x in models])) - problem.least(1.0)
    return digits(excess), f"{np.median([np.abs(x).sum() for x in models]):.2f}"


def digits(excess: float) -> str:
    if abs(excess) < 1e-9:
        return "0"
    return f"{excess:.4f}" if abs(excess) >= 5e-4 else f"{excess:.0e}"


def by_reading(readings: dict[str, tuple[int, ...]], seeds: int) -> Iterator[tuple[str, ...]]:
    for reading, people in readings.items():
        for n in people:
            problem, few = Problem(n), min(seeds, SEEDS_OF_A_READING.get(n, 1))
            C, T, bound = of_reading(problem, reading)
            longer = T / published_steps(n, EPSILON)
            has_bare = reading == "balls" and n <= MOST_WITHOUT_SKETCH
            bare = middle(problem, few, sketch=False, steps=longer)[0] if has_bare else ""
            row = middle(problem, few, steps=longer)
            yield f"{n:,}", reading, f"{C:,.0f}", f"{T:,.0f}", f"{bound:.3g}", *row, bare


def by_cause(people: tuple[int, ...], seeds: int) -> Iterator[tuple[str, ...]]:
    problems = [Problem(n) for n in people]
    for cause, changes in CAUSES.items():
        yield cause, *(cell for problem in problems for cell in middle(problem, seeds, **changes))


def by_tau(n: int, taus: tuple[int, ...], seeds: int) -> Iterator[tuple[str, ...]]:
    problem = Problem(n)
    for tau in taus:
        cap = weight_cap(1.0, sampled_columns=tau, n_columns_of_party=COLUMNS // PARTIES)
        floor = max(0.0, problem.least_within(cap) - problem.least(1.0))
        runs = (middle(problem, seeds, tau=tau, **changes)[0] for changes in (BARE, {}))
        yield str(tau), f"{tau * PARTIES / COLUMNS:g}", digits(floor), *runs


@benchmark(page="papers/frank_wolfe.md", only="readings,causes,tau", seeds=(5, 1))
def main(run) -> None:
    few, parts = (300, 1_000) if run.quick else (30_000, 1_000_000), run.only.split(",")
    if "readings" in parts:
        head = ("n", "C of", "C", "T", "Theorem 3", "as printed", "its l1 norm", "without the sketch")
        people = dict.fromkeys(READINGS, few) if run.quick else READINGS
        run.table("readings", head, by_reading(people, run.seeds), mark="readings")
    if "causes" in parts:
        head = ("", *(f"n = {n:,}: {what}" for n in few for what in ("excess", "l1 norm")))
        run.table("causes", head, by_cause(few, run.seeds), mark="causes")
    if "tau" in parts:
        taus = (50, 5) if run.quick else (50, 25, 10, 5, 2, 1)
        head = ("tau", "p", "floor, proved", "no noise, no sketch", "as printed")
        run.table("tau", head, by_tau(few[-1], taus, run.seeds), mark="tau")
