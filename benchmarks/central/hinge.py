"""The hinge by Newton steps on its smoothed form, beside DP-SCD on the hinge itself.

    python -m benchmarks.central.hinge [--quick] [--half chosen|confirmed|wide|classes] [--rows 1000] [--splits 8]
                                       [--speed]

Real tables (``benchmarks/sets.py``), delta = 1e-5, nothing tuned. Each split trains on so many random rows of its
training part (0: on all), and every solver gets the same splits and seeds: differences are paired, in points of
accuracy, with their standard errors. Rules were chosen on the first half of the tables of two
classes; the second half confirms them. Wide tables have more columns
than Newton steps take; those of several classes are trained one-vs-rest. ``--speed`` times made-up rows of 100 columns.
"""

import time
import warnings
from typing import Any

import numpy as np

import sottovoce as sv
from benchmarks.central.newton import made_up
from benchmarks.common import data_folder
from benchmarks.driver import EPSILONS, benchmark, option, paired, timed
from benchmarks.sets import CHOSEN_ON, CONFIRMED_ON, split

# Written down before anything was measured on the second half ("adult" is left out: its rows are those of a9a).
HALVES: dict[str, tuple[Any, dict[str, Any]]] = {
    "chosen": (sorted(set(CHOSEN_ON) & {"a9a", "phishing", "w8a", "mushrooms", "german"}), {"auto": "auto"}),
    "confirmed": (sorted(set(CONFIRMED_ON) & {"mnist_4v9", "skin", "bank", "credit", "madelon"}), {"auto": "auto"}),
    "wide": (("reuters", "farm_ads", "news20"), {"auto": "auto"}),
    "classes": (("digits", "occupation"), {"auto": "auto"}),
}


def measure(part: Any, solver: Any, epsilon: float, seed: int, rows: int = 0, delta: float = 1e-5) -> list[float]:
    """Return accuracy in points, passes and CPU seconds of a fit."""
    X, y, X_test, y_test, public = part
    chosen = np.random.default_rng(seed).permutation(X.shape[0])[:rows] if rows else slice(None)
    model = sv.DPLinearSVC(epsilon=epsilon, delta=delta, solver=solver, random_state=seed, **public)
    seconds = timed(lambda: model.fit(X[chosen], y[chosen]), time.process_time)[1]
    return [100.0 * model.score(X_test, y_test), model.n_iter_, seconds]


def speed(sizes):
    """Yield rows of made-up tables at epsilon = 1, each fit after one that compiles."""
    for n in sizes:
        part = made_up(n, 20_000, 100)
        for solver in ("scd", "auto"):
            measure(part, solver, 1.0, 0, 500, 1e-7)
            accuracy, passes, seconds = measure(part, solver, 1.0, 0, 0, 1e-7)
            yield f"{n:,} x 100", solver, passes, seconds, accuracy


def accuracies(names, tried, splits, rows):
    for name in names:
        for epsilon in EPSILONS:
            found = {
                label: np.array([measure(split(name, k), solver, epsilon, k, rows) for k in range(splits)])
                for label, solver in {**tried, "scd": "scd"}.items()
            }
            means = (f"{values[:, 0].mean():.1f}" for values in found.values())
            seconds = " / ".join(f"{np.median(values[:, 2]):.2f}" for values in found.values())
            yield name, epsilon, *means, paired((found["auto"] - found["scd"])[:, 0], 1), seconds


@benchmark(speed=False, half=option("confirmed", choices=HALVES), rows=1000, splits=(8, 2))
def main(run) -> None:
    warnings.simplefilter("ignore")  # many fits on the same table
    if run.speed:
        head = ("rows", "solver", "passes|.0f", "CPU seconds|.2f", "accuracy|.2f")
        run.table("epsilon = 1", head, speed((10**4,) if run.quick else (10**5, 10**6)))
        return
    data_folder()
    names, tried = HALVES[run.half]
    rows = accuracies(("madelon",) if run.quick else names, tried, run.splits, run.rows)
    run.table("accuracy", ("data", "epsilon", *tried, "scd", "auto - scd", "CPU seconds"), rows)
