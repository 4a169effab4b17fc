"""Test accuracy of objective perturbation against DP-SCD (solver="scd"), nothing tuned: means over fresh seeds.

    python -m benchmarks.central.objective [--seeds 3] [--only a9a,phishing] [--delta 1e-3]
                                           [--rows 1000] [--rule] [--quick]

``--rows`` trains on the first so many rows of a random order; ``--rule`` shows accuracy over a grid of penalties, from
which the rule for Lambda was taken.
"""

from functools import cache

import numpy as np

import sottovoce as sv
from benchmarks.common import EPSILONS, a9a, keep, make_parser, mnist_4v9, phishing, reuters, show

CASES = {"a9a": a9a, "phishing": phishing, "mnist_4v9": mnist_4v9, "reuters": reuters}
KINDS = {"logistic": sv.DPLogisticRegression, "svc": sv.DPLinearSVC}
PENALTIES = (None, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)


def scores(load, kind, seeds, rows, **parameters):
    """Return the test accuracy of each seed."""
    found = []
    for seed in range(seeds):
        X, y, X_test, y_test, public = load(seed)
        if rows is not None:
            chosen = np.random.default_rng(seed).permutation(X.shape[0])[:rows]
            X, y = X[chosen], y[chosen]
        found.append(float(kind(**public, **parameters).fit(X, y).score(X_test, y_test)))
    return found


def compare(names, seeds, delta, rows):
    """Show objective perturbation beside the default solver."""
    table, results = [], {}
    for name in names:
        load = cache(CASES[name])
        for loss, kind in KINDS.items():
            for epsilon in EPSILONS:
                line = [name, loss, f"{epsilon:g}"]
                for solver in ("objective", "scd"):
                    found = scores(load, kind, seeds, rows, epsilon=epsilon, delta=delta, solver=solver)
                    results[f"{name} {loss} {epsilon:g} {solver}"] = found
                    line.append(f"{np.mean(found):.4f} ({min(found):.4f} to {max(found):.4f})")
                table.append(tuple(line))
                print(*line, flush=True)
    size = "all rows" if rows is None else f"{rows} rows"
    show(f"delta = {delta:g}, {seeds} seeds, {size}", ("data", "loss", "epsilon", "objective", "scd"), table)
    return results


def sweep(names, seeds, delta, rows):
    """Show the accuracy for each penalty; the first column is the rule."""
    table, results = [], {}
    for name in names:
        load = cache(CASES[name])
        for loss, kind in KINDS.items():
            for epsilon in EPSILONS:
                line = [name, loss, f"{epsilon:g}"]
                for penalty in PENALTIES:
                    found = scores(
                        load, kind, seeds, rows, epsilon=epsilon, delta=delta, solver="objective",
                        solver_options={"penalty": penalty},
                    )  # fmt: skip
                    results[f"{name} {loss} {epsilon:g} {penalty}"] = found
                    line.append(f"{np.mean(found):.4f}"[1:])
                table.append(tuple(line))
                print(*line, flush=True)
    head = ("data", "loss", "epsilon", *("rule" if value is None else f"{value:g}" for value in PENALTIES))
    show(f"accuracy for each penalty, delta = {delta:g}, {seeds} seeds", head, table)
    return results


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--seeds", type=int, default=None, help="default 3; 1 with --quick")
    parser.add_argument("--only", default=None, help="default all; phishing with --quick")
    parser.add_argument("--delta", type=float, default=1e-3)
    parser.add_argument("--rows", type=int, default=None)
    parser.add_argument("--rule", action="store_true")
    arguments = parser.parse_args()
    seeds = arguments.seeds or (1 if arguments.quick else 3)
    names = arguments.only.split(",") if arguments.only else ["phishing"] if arguments.quick else list(CASES)
    measure = sweep if arguments.rule else compare
    result = measure(names, seeds, arguments.delta, arguments.rows)
    keep(f"objective-{measure.__name__}-{arguments.delta:g}-{arguments.rows or 'all'}", result)


if __name__ == "__main__":
    main()
