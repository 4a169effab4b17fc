"""Test accuracy (or squared error), and log loss, of the library defaults, nothing tuned: medians over fresh seeds.

    python -m benchmarks.central.accuracy [--seeds 5] [--only a9a,phishing] [--delta 1e-3]
                                          [--solver scd] [--intercept] [--quick]

``--intercept`` compares sizes of the intercept's column on a9a and phishing (decision 2).
"""

import math
import time
from functools import cache

import numpy as np
from sklearn.metrics import log_loss

import sottovoce as sv
from benchmarks.common import EPSILONS, a9a, adult, blogfeedback, keep, make_parser, phishing, show

CASES = {
    "a9a": (a9a, sv.DPLogisticRegression),
    "phishing": (phishing, sv.DPLogisticRegression),
    "adult": (adult, sv.DPLinearSVC),
    "blogfeedback": (blogfeedback, sv.DPRidge),
}


def measure(name, epsilon, seeds, delta, **changed):
    """Return the scores and the median seconds of a fit."""
    load, kind = CASES[name]
    load = cache(load)
    scores, losses, seconds = [], [], []
    for seed in range(seeds):
        X, y, X_test, y_test, public = load(seed)
        model = kind(epsilon=epsilon, delta=delta, **public, **changed)
        start = time.perf_counter()
        model.fit(X, y)
        seconds.append(time.perf_counter() - start)
        if kind is sv.DPRidge:
            scores.append(float(np.mean((model.predict(X_test) - y_test) ** 2)))
        else:
            scores.append(float(model.score(X_test, y_test)))
        if kind is sv.DPLogisticRegression:
            losses.append(float(log_loss(y_test, model.predict_proba(X_test))))
    return scores, losses, float(np.median(seconds))


def table(names, seeds, delta, **changed):
    """Measure and show one table."""
    rows, results = [], {}
    for name in names:
        for epsilon in (*EPSILONS, math.inf):
            count = 1 if math.isinf(epsilon) and name != "phishing" else seeds
            scores, losses, seconds = measure(name, epsilon, count, delta, **changed)
            results[f"{name} {epsilon:g}"] = {"scores": scores, "log_loss": losses, "seconds": seconds}
            loss = CASES[name][1]()._loss.name
            rows.append((
                name, loss, f"{epsilon:g}", f"{np.median(scores):.4f}", f"{min(scores):.4f} to {max(scores):.4f}",
                f"{np.median(losses):.3f}" if losses else "", f"{seconds:.2f}",
            ))  # fmt: skip
    head = ("data", "loss", "epsilon", "median", "range", "log loss", "seconds a fit")
    show(f"library defaults {changed or ''}, delta = {delta:g}, {seeds} seeds", head, rows)
    return results


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--seeds", type=int, default=None, help="default 5; 1 with --quick")
    parser.add_argument("--only", default=None, help="default all; a9a,phishing with --quick")
    parser.add_argument("--delta", type=float, default=1e-3)
    parser.add_argument("--solver", default="auto")
    parser.add_argument("--intercept", action="store_true")
    arguments = parser.parse_args()
    seeds = arguments.seeds or (1 if arguments.quick else 5)
    names = arguments.only.split(",") if arguments.only else ["a9a", "phishing"] if arguments.quick else list(CASES)
    if arguments.intercept:
        for scaling in (0.1, 0.2, 0.5, 1.0):
            result = table(["a9a", "phishing"], seeds, arguments.delta, intercept_scaling=scaling)
            keep(f"accuracy-intercept-{scaling:g}", result)
        return
    changed = {} if arguments.solver == "auto" else {"solver": arguments.solver}
    result = table(names, seeds, arguments.delta, **changed)
    keep(f"accuracy-{arguments.solver}-{arguments.delta:g}", result)


if __name__ == "__main__":
    main()
