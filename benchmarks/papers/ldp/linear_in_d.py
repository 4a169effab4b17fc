"""Bernstein reports: people needed against the number of features, and the bound on the risk beside what is measured.

    python -m benchmarks.papers.ldp.linear_in_d [--quick] [--seeds 5] [--docs]

People of `sottovoce.papers.ldp.reproduce` with 5 features; in d > 5 features the others are 0, so that only the noise
grows. All of a pass that depends on a report is its products <w, x_k>, y_k and its copy 0; and of the d - 5 coordinates
that carry nothing, only lengths. So one pass is simulated by its exact law in time that does not depend on d:
`run_pass`. A test compares it with passes over reports.

Excess risk on the 100,000 people who are drawn from (the population here), over that of w = 0. Tight noise, epsilon 32,
delta = 1e-6, beta = 1/4. ``--docs`` writes tables and picture into docs/papers/ldp.md.
"""

import math
from collections.abc import Callable
from itertools import product
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from benchmarks.driver import FIGURES, RESULTS, benchmark, keep, keep_picture, option
from sottovoce._compiling import njit
from sottovoce.papers.ldp import risk_bound
from sottovoce.papers.ldp.noise import CopyNoise
from sottovoce.papers.ldp.reproduce import people
from sottovoce.papers.ldp.server import STEP_FACTOR
from sottovoce.papers.ldp.surrogate import GENERAL_LOSSES, Oracle, hinge_half, smoothed_hinge_derivative

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

    def __init__(self, name: str | None = None) -> None:
        self.X, self.y = people(TEST, SIGNAL, 2**31)
        self.Z = self.X * self.y[:, None]
        loss = GENERAL_LOSSES.get(name or "")
        self.value = hinge_half if loss is None else loss.value
        ball = {"type": "ineq", "fun": lambda w: 1.0 - w @ w, "jac": lambda w: -2.0 * w}
        start = self.Z.mean(axis=0) / np.linalg.norm(self.Z.mean(axis=0))
        best = minimize(self.risk, start, constraints=[ball], method="SLSQP", options={"ftol": 1e-10, "maxiter": 500})
        self.best, self.trivial = float(best.fun), self.risk(np.zeros(SIGNAL))

    def risk(self, w: Array) -> float:
        return float(self.value(self.Z @ w).mean())

    def excess(self, w: Array) -> float:
        return self.risk(w) - self.best


def people_needed(excess: Array, stops: NDArray[np.int64], target: float) -> float:
    """Return where the mean excess first falls below the target, between two stops by a line in logarithms."""
    below = int(np.argmax(excess <= target))
    if not excess[below] <= target or below == 0:
        return math.nan
    share = math.log(excess[below - 1] / target) / math.log(excess[below - 1] / excess[below])
    return float(stops[below - 1] * (stops[below] / stops[below - 1]) ** share)


def curve(
    population: Population, d: int, oracle: Oracle, noise: CopyNoise, largest: int, seeds: int, parts: int = 6
) -> tuple[NDArray[np.int64], Array]:
    """Return numbers of reports and the excess risk after each of them, seeds by stops."""
    stops = np.unique(np.geomspace(100, largest, 1 + round(parts * math.log10(largest / 100))).round().astype(np.int64))
    runs = [simulated(population.X, population.y, d, oracle, noise, stops, 1000 * d + s) for s in range(seeds)]
    return stops, np.array([[population.excess(w) for w in run] for run in runs])


Table = tuple[tuple[str, ...], list[tuple[str, ...]]]
Found = list[dict[str, Any]]


def people_table(hinge: Population, seeds: int, quick: bool) -> tuple[Table, Found]:
    gain, targets = hinge.trivial - hinge.best, (0.5, 0.2)
    needed: Found = []
    rows: list[tuple[str, ...]] = []
    for degree, sizes, per_feature in (
        (1, (5, 50) if quick else (5, 16, 50, 160, 500, 1600, 5000), 6000.0),
        (2, () if quick else (5, 16, 50, 160), 80_000.0),
    ):
        noise, oracle = CopyNoise.calibrated("tight", EPSILON, DELTA, degree), Oracle(degree, BETA)
        for d in sizes:
            stops, excess = curve(hinge, d, oracle, noise, int(per_feature * d), seeds)
            mean = excess.mean(axis=0) / gain
            found = [people_needed(mean, stops, target) for target in targets]
            shown = [None if math.isnan(n) else n for n in found]
            needed.append({"degree": degree, "d": d, "people": shown, "stops": stops.tolist(), "excess": mean.tolist()})
            cells = ("-" if math.isnan(n) else f"{n:,.0f} ({n / d:,.0f} a feature)" for n in found)
            rows.append((f"{degree}", f"{d:,}", *cells))
            print(rows[-1], flush=True)
    return (("p", "d", *(f"people to {target:g} of the excess of w = 0" for target in targets)), rows), needed


def moment_table() -> tuple[Table, Found]:
    sizes, rows, shares = (5, 20, 80, 320), [], []
    for epsilon, degree in product((1.0, 8.0, 32.0), (1, 2)):
        noise, oracle = CopyNoise.calibrated("tight", epsilon, DELTA, degree), Oracle(degree, BETA)
        values = [oracle.gradient_std(noise, d) ** 2 / d for d in sizes]
        spread = max(values) / min(values) - 1.0
        shares.append({"epsilon": epsilon, "degree": degree, "values": values, "spread": spread})
        rows.append((f"{epsilon:g}", f"{degree}", *(f"{v:.4g}" for v in values), f"{100 * spread:.3f} %"))
    head = ("epsilon", "p", *(f"sigma^2/d, d = {d}" for d in sizes), "largest over smallest, less 1")
    return (head, rows), shares


def bound_table(hinge: Population, seeds: int, quick: bool) -> tuple[Table, Found]:
    bounds, rows = [], []
    noise = CopyNoise.calibrated("tight", EPSILON, DELTA, 1)
    for title, name in (
        ("hinge (Algorithm 1, Theorem 4.5)", None),
        ("logistic (Algorithm 2, Theorem 4.12)", "logistic"),
    ):
        population = hinge if name is None else Population(name)
        oracle, trivial = Oracle(1, BETA, GENERAL_LOSSES.get(name or "")), population.trivial - population.best
        stops, excess = curve(population, SIGNAL, oracle, noise, 10_000 if quick else 10_000_000, seeds, 1)
        for n, column in zip(stops.tolist(), excess.T, strict=True):
            bound = risk_bound(oracle, noise, SIGNAL, n)
            bounds.append({"loss": name or "hinge", "n": n, "measured": column.tolist(), "bound": bound.total})
            parts = (f"{bound.surrogate:.3f}", f"{bound.noise:.3g}", f"{bound.smoothness:.2g}", f"{bound.total:.3g}")
            rows.append((title, f"{n:,}", f"{column.mean():.4f}", *parts, f"{trivial:.3f}"))
    head = ("loss", "n", "measured excess", "surrogate", "noise", "smoothness", "bound", "excess of w = 0")
    return (head, rows), bounds


def order_table(hinge: Population, seeds: int, quick: bool) -> tuple[Table, Found]:
    """Measure what a higher order of the iterated operator gains at the polynomial, and costs at the noise."""
    u = np.linspace(-1.0, 1.0, 2001)
    gain, n = hinge.trivial - hinge.best, 10_000 if quick else 300_000
    found, rows = [], []
    for degree, order in product((1, 2) if quick else (1, 2, 3, 5), (1, 2, 4)):
        if degree == 1 and order > 1:
            continue  # nothing changes there
        oracle = Oracle(degree, BETA, order=order)
        error = float(np.abs(oracle.derivative(u) - smoothed_hinge_derivative(u, BETA)).max())
        cells, measured = [], {}
        for epsilon in (32.0, 64.0, 1e4):
            noise = CopyNoise.calibrated("tight", epsilon, DELTA, degree)
            stops = np.array([n])
            weights = [simulated(hinge.X, hinge.y, SIGNAL, oracle, noise, stops, s)[0] for s in range(seeds)]
            measured[epsilon] = [hinge.excess(w) / gain for w in weights]
            cells.append(f"{np.mean(measured[epsilon]):.4f}")
        std = oracle.gradient_std(CopyNoise.calibrated("tight", 32.0, DELTA, degree), SIGNAL)
        found.append({"degree": degree, "order": order, "error": error, "sigma": std, "excess": measured})
        rows.append((f"{degree}", f"{order}", f"{error:.3f}", f"{std:.3g}", *cells))
        print(rows[-1], flush=True)
    head = ("p", "h", "sup error", "sigma at epsilon 32", "excess, epsilon 32", "epsilon 64", "almost no noise")
    return (head, rows), found


def draw(needed: list[dict[str, Any]], bounds: list[dict[str, Any]]) -> None:
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.0), layout="constrained")
    for degree, colour in ((1, "tab:blue"), (2, "tab:orange")):
        for place, (target, mark) in enumerate(((0.5, "o"), (0.2, "s"))):
            points = [(e["d"], e["people"][place]) for e in needed if e["degree"] == degree]
            points = [(d, n) for d, n in points if n is not None]
            if points:
                label = f"p = {degree}, excess {target:g}"
                left.loglog(
                    *zip(*points, strict=True), mark, color=colour, mfc="white" if place else colour, label=label
                )
                d0, n0 = points[-1]
                ends = np.array([points[0][0], d0])
                left.loglog(ends, n0 * ends / d0, "-", color=colour, lw=0.8, alpha=0.7)
    left.set(xlabel="features d", ylabel="people", title="People to a fixed excess risk; lines: proportional to d")
    left.legend(fontsize=8)
    for name, colour in (("hinge", "tab:blue"), ("logistic", "tab:green")):
        some = [e for e in bounds if e["loss"] == name]
        n = [e["n"] for e in some]
        right.loglog(n, [e["bound"] for e in some], "--", color=colour, label=f"{name}, bound")
        right.loglog(n, [float(np.mean(e["measured"])) for e in some], "o-", color=colour, label=f"{name}, measured")
    right.set(xlabel="people n", ylabel="excess risk", title="Bound beside measured, d = 5, p = 1, epsilon = 32")
    right.legend(fontsize=8)
    keep_picture(figure, FIGURES / "linear_in_d.png")


@benchmark(
    page="papers/ldp.md", seeds=(5, 1), only=option("second moment,linear,bound,order", help="some of these tables")
)
def main(run) -> None:
    seeds, hinge = run.seeds, Population()
    made: dict[str, Callable[[], tuple[Table, Found]]] = {
        "second moment": moment_table, "linear": lambda: people_table(hinge, seeds, run.quick),
        "bound": lambda: bound_table(hinge, seeds, run.quick), "order": lambda: order_table(hinge, seeds, run.quick),
    }  # fmt: skip
    found = {}
    for name in run.only.split(","):
        table, found[name] = made[name]()
        mark = "" if name in ("bound", "order") else name  # those are told in words
        run.table(f"{name}, {seeds} seeds", *table, mark=mark)
    if run.docs and "linear" in found and "bound" in found:
        draw(found["linear"], found["bound"])
    keep("linear_in_d", found, FIGURES if run.docs else RESULTS)
