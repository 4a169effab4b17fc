"""The hinge by Newton steps on its smoothed form, beside DP-SCD on the hinge itself.

    python -m benchmarks.central.hinge [--quick] [--half chosen|confirmed|wide|classes] [--rows 1000] [--splits 8]
                                       [--speed]

Real tables (``benchmarks/sets.py``), delta = 1e-5, nothing tuned. Each split trains on so many random rows of its
training part (0: on all), and every solver gets the same splits and seeds: differences are paired, in points of
accuracy, with their standard errors. The width of the parabola in place of the hinge's corner was chosen on the first
half of the tables of two classes, where several are tried; the second half confirms it. Wide tables have more columns
than Newton steps take; those of several classes are trained one-vs-rest. ``--speed`` times made-up rows of 100 columns.
"""

import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

import sottovoce as sv
from benchmarks.central.newton import made_up
from benchmarks.common import EPSILONS, data_folder, keep, make_parser, show
from benchmarks.sets import CHOSEN_ON, CONFIRMED_ON, split
from sottovoce.central.solvers.newton import NewtonPlan
from sottovoce.losses import Loss, SmoothedHinge


@dataclass(frozen=True, kw_only=True)
class Smoothed(NewtonPlan):
    """Newton steps on the smoothed hinge of this width."""

    width: float = 2.0

    def loss_for(self, loss: Loss) -> Loss:
        return SmoothedHinge(self.width)


WIDTHS = {f"width {width:g}": Smoothed(width=width) for width in (0.5, 1.0, 2.0, 4.0)}
# Written down before anything was measured on the second half ("adult" is left out: its rows are those of a9a).
HALVES: dict[str, tuple[Any, dict[str, Any]]] = {
    "chosen": (sorted(set(CHOSEN_ON) & {"a9a", "phishing", "w8a", "mushrooms", "german"}), {"auto": "auto", **WIDTHS}),
    "confirmed": (sorted(set(CONFIRMED_ON) & {"mnist_4v9", "skin", "bank", "credit", "madelon"}), {"auto": "auto"}),
    "wide": (("reuters", "farm_ads", "news20"), {"auto": "auto"}),
    "classes": (("digits", "occupation"), {"auto": "auto"}),
}


def measure(part: Any, solver: Any, epsilon: float, seed: int, rows: int = 0, delta: float = 1e-5) -> list[float]:
    """Return accuracy in points, passes and CPU seconds of a fit."""
    X, y, X_test, y_test, public = part
    chosen = np.random.default_rng(seed).permutation(X.shape[0])[:rows] if rows else slice(None)
    model = sv.DPLinearSVC(epsilon=epsilon, delta=delta, solver=solver, random_state=seed, **public)
    start = time.process_time()
    model.fit(X[chosen], y[chosen])
    seconds = time.process_time() - start
    return [100.0 * model.score(X_test, y_test), model.n_iter_, seconds]


def speed(n: int) -> list[tuple[str, ...]]:
    """Return lines on made-up rows at epsilon = 1, each fit after one that compiles."""
    part, lines = made_up(n, 20_000, 100), []
    for solver in ("scd", "auto"):
        measure(part, solver, 1.0, 0, 500, 1e-7)
        accuracy, passes, seconds = measure(part, solver, 1.0, 0, 0, 1e-7)
        lines.append((f"{n:,} x 100", solver, f"{passes:.0f}", f"{seconds:.2f}", f"{accuracy:.2f}"))
    return lines


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--half", choices=HALVES, default="confirmed")
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--splits", type=int, default=8)
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # many fits on the same table
    if given.speed:
        lines = [line for n in ((10**4,) if given.quick else (10**5, 10**6)) for line in speed(n)]
        show("epsilon = 1", ("rows", "solver", "passes", "CPU seconds", "accuracy"), lines)
        return
    data_folder()
    names, tried = HALVES[given.half]
    splits, names = (2, ("madelon",)) if given.quick else (given.splits, names)
    results, lines = {}, []
    for name in names:
        for epsilon in EPSILONS:
            found = {
                label: np.array([measure(split(name, k), solver, epsilon, k, given.rows) for k in range(splits)])
                for label, solver in {**tried, "scd": "scd"}.items()
            }
            results[f"{name} {epsilon:g}"] = {label: values.tolist() for label, values in found.items()}
            gained = (found["auto"] - found["scd"])[:, 0]
            lines.append((
                name, f"{epsilon:g}", *(f"{values[:, 0].mean():.1f}" for values in found.values()),
                f"{gained.mean():+.1f} ± {gained.std(ddof=1) / splits**0.5:.1f}",
                " / ".join(f"{np.median(values[:, 2]):.2f}" for values in found.values()),
            ))  # fmt: skip
            print(*lines[-1], sep="  ", flush=True)
    show("accuracy", ("data", "epsilon", *tried, "scd", "auto - scd", "CPU seconds"), lines, width=150)
    keep(f"hinge-{given.half}-{given.rows or 'all'}", results)


if __name__ == "__main__":
    main()
