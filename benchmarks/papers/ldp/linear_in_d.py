"""Bernstein reports: people needed, and the second moment of a report's gradient, against the number of features.

    python -m benchmarks.papers.ldp.linear_in_d [--quick] [--seeds 5] [--docs]

People of `sottovoce.papers.ldp.reproduce` with 5 features; in d > 5 features the others are 0, so that only the noise
grows. All of a pass that depends on a report is its products <w, x_k>, y_k and its copy 0; and of the d - 5 coordinates
that carry nothing, only lengths. So one pass is simulated by its exact law in time that does not depend on d:
`run_pass`. A test compares it with passes over reports.

Excess risk on the 100,000 people who are drawn from (the population here), over that of w = 0. Tight noise, epsilon 32,
delta = 1e-6, beta = 1/4. ``--docs`` writes the tables into docs/measured/data/ldp.
"""

import math
from collections.abc import Iterator
from itertools import product
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from benchmarks.driver import benchmark
from sottovoce._compiling import njit
from sottovoce.papers.ldp.noise import CopyNoise
from sottovoce.papers.ldp.reproduce import people
from sottovoce.papers.ldp.server import STEP_FACTOR
from sottovoce.papers.ldp.surrogate import Oracle, hinge_half

Array = NDArray[np.float64]

SIGNAL: Final = 5
EPSILON: Final = 32.0
BETA: Final = 0.25
DELTA: Final = 1e-6
TEST: Final = 100_000


@njit(cache=True)
def run_pass(
    X: Any,
    y: Any,
    d: int,
    weighted: Any,
    numbers: Any,
    std: float,
    smoothness: float,
    shifts: Any,
    stops: Any,
    seed: int,
) -> Any:
    """Return the weights of the features that carry something after each number of reports in ``stops``.

    ``numbers`` are slope, scale and offset of the oracle, and the noise of copy 0 and of the others.
    """
    np.random.seed(seed)  # noqa: NPY002  (numba's own generator)
    slope, scale, offset, first, other = numbers
    m, degree = X.shape[1], len(weighted) - 1
    empty = d - m
    z, total, mean, moved, gradient = np.zeros(m), np.zeros(m), np.zeros(m), np.zeros(m), np.zeros(m)
    far, far_total = 0.0, 0.0  # lengths of z and of the total in the empty coordinates, where they are parallel
    out = np.zeros((len(stops), m))
    done = 0
    for k in range(stops[-1]):
        b = smoothness + STEP_FACTOR * std * math.sqrt(k + 2.0)
        i = np.random.randint(len(X))  # noqa: NPY002
        shift = shifts[np.random.randint(len(shifts))]  # noqa: NPY002
        length = math.sqrt(np.sum(z * z) + far * far)
        u = np.sum(z * X[i])
        bracket = 0.0
        for j in range(degree + 1):
            term = weighted[j]
            for c in range(degree):
                copy = u + other * length * np.random.normal()  # noqa: NPY002
                v = shift + slope * copy * (y[i] + other * np.random.normal())  # noqa: NPY002
                term *= v if c < j else 1.0 - v
            bracket += term
        factor = (scale * bracket + offset) * (y[i] + first * np.random.normal())  # noqa: NPY002
        for j in range(m):
            gradient[j] = factor * (X[i, j] + first * np.random.normal())  # noqa: NPY002
        push = factor * first
        along = push * np.random.normal() if empty > 0 else 0.0  # noqa: NPY002
        aside = push * push * np.random.chisquare(empty - 1) if empty > 1 else 0.0  # noqa: NPY002
        moved[:] = z - gradient / b
        norm = math.sqrt(np.sum(moved * moved) + (far + along / b) ** 2 + aside / (b * b))
        if norm > 1.0:
            moved /= norm
        mean += (moved - mean) / (k + 1.0)
        total += gradient
        far_total = math.sqrt((far_total + along) ** 2 + aside)
        z[:] = -total / b
        far = far_total / b
        norm = math.sqrt(np.sum(z * z) + far * far)
        if norm > 1.0:
            z /= norm
            far /= norm
        if k + 1 == stops[done]:
            out[done] = mean
            done += 1
    return out


def simulated(
    X: Array, y: Array, d: int, oracle: Oracle, noise: CopyNoise, stops: NDArray[np.int64], seed: int
) -> Array:
    """Return the weights after each number of reports: `run_pass` for an oracle and a noise."""
    shifts = oracle.shifts((np.arange(4096) + 0.5) / 4096)
    numbers = (oracle.slope, oracle.scale, oracle.offset, noise.first_std, noise.other_std)
    std = oracle.gradient_std(noise, d)
    return np.asarray(run_pass(X, y, d, oracle.weighted, numbers, std, oracle.smoothness, shifts, stops, seed))


class Population:
    """The people who are drawn from, and the best weights of the unit ball for them."""

    def __init__(self) -> None:
        self.X, self.y = people(TEST, SIGNAL, 2**31)
        self.Z = self.X * self.y[:, None]
        ball = {"type": "ineq", "fun": lambda w: 1.0 - w @ w, "jac": lambda w: -2.0 * w}
        start = self.Z.mean(axis=0) / np.linalg.norm(self.Z.mean(axis=0))
        best = minimize(self.risk, start, constraints=[ball], method="SLSQP", options={"ftol": 1e-10, "maxiter": 500})
        self.best, self.trivial = float(best.fun), self.risk(np.zeros(SIGNAL))

    def risk(self, w: Array) -> float:
        return float(hinge_half(self.Z @ w).mean())

    def excess(self, w: Array) -> float:
        return self.risk(w) - self.best


def people_needed(excess: Array, stops: NDArray[np.int64], target: float) -> float:
    """Return where the mean excess first falls below the target, between two stops by a line in logarithms."""
    below = int(np.argmax(excess <= target))
    if not excess[below] <= target or below == 0:
        return math.nan
    share = math.log(excess[below - 1] / target) / math.log(excess[below - 1] / excess[below])
    return float(stops[below - 1] * (stops[below] / stops[below - 1]) ** share)


Table = tuple[tuple[str, ...], Iterator[tuple[str, ...]]]


def people_table(hinge: Population, seeds: int, quick: bool) -> Table:
    gain, targets = hinge.trivial - hinge.best, (0.5, 0.2)
    sizes = {1: (5, 50) if quick else (5, 16, 50, 160, 500, 1600, 5000), 2: () if quick else (5, 16, 50, 160)}

    def rows() -> Iterator[tuple[str, ...]]:
        for degree, per_feature in ((1, 6000), (2, 80_000)):
            noise, oracle = CopyNoise.calibrated("tight", EPSILON, DELTA, degree), Oracle(degree, BETA)
            for d in sizes[degree]:
                largest = per_feature * d
                stops = np.geomspace(100, largest, 1 + round(6 * math.log10(largest / 100))).round().astype(np.int64)
                runs = [simulated(hinge.X, hinge.y, d, oracle, noise, stops, 1000 * d + s) for s in range(seeds)]
                mean = np.mean([[hinge.excess(w) for w in run] for run in runs], axis=0) / gain
                found = [people_needed(mean, stops, target) for target in targets]
                cells = ("-" if math.isnan(n) else f"{n:,.0f} ({n / d:,.0f} a feature)" for n in found)
                yield f"{degree}", f"{d:,}", *cells

    return ("p", "d", *(f"people to {target:g} of the excess of w = 0" for target in targets)), rows()


def moment_table() -> Table:
    sizes = (5, 20, 80, 320)

    def rows() -> Iterator[tuple[str, ...]]:
        for epsilon, degree in product((1.0, 8.0, 32.0), (1, 2)):
            noise, oracle = CopyNoise.calibrated("tight", epsilon, DELTA, degree), Oracle(degree, BETA)
            values = [oracle.gradient_std(noise, d) ** 2 / d for d in sizes]
            spread = max(values) / min(values) - 1.0
            yield f"{epsilon:g}", f"{degree}", *(f"{v:.4g}" for v in values), f"{100 * spread:.3f} %"

    return ("epsilon", "p", *(f"sigma^2/d, d = {d}" for d in sizes), "largest over smallest, less 1"), rows()


@benchmark(page="papers/ldp.md", seeds=(5, 1))
def main(run) -> None:
    run.table("second moment", *moment_table(), mark="second moment")
    run.table(f"people, {run.seeds} seeds", *people_table(Population(), run.seeds, run.quick), mark="linear")
