"""Test accuracy (or squared error), and log loss, of the library defaults, nothing tuned: medians over fresh seeds.

    python -m benchmarks.central.accuracy [--seeds 5] [--only a9a,phishing] [--delta 1e-3]
                                          [--solver scd] [--intercept] [--quick]

``--intercept`` compares sizes of the intercept's column on a9a and phishing (decision 2).
"""

import math
from functools import cache

import numpy as np
from sklearn.metrics import log_loss

import sottovoce as sv
from benchmarks.common import a9a, adult, blogfeedback, phishing
from benchmarks.driver import EPSILONS, benchmark, timed

CASES = {
    "a9a": (a9a, sv.DPLogisticRegression), "phishing": (phishing, sv.DPLogisticRegression),
    "adult": (adult, sv.DPLinearSVC), "blogfeedback": (blogfeedback, sv.DPRidge),
}  # fmt: skip


HEAD = ("data", "loss", "epsilon", "median|.4f", "range", "log loss|.3f", "seconds a fit|.2f")


def row(name, epsilon, seeds, delta, **changed):
    load, kind = CASES[name]
    load = cache(load)
    scores, losses, seconds = [], [], []
    for seed in range(1 if math.isinf(epsilon) and name != "phishing" else seeds):
        X, y, X_test, y_test, public = load(seed)
        model = kind(epsilon=epsilon, delta=delta, **public, **changed)
        seconds.append(timed(lambda model=model, X=X, y=y: model.fit(X, y))[1])
        scores.append(
            np.mean((model.predict(X_test) - y_test) ** 2) if kind is sv.DPRidge else model.score(X_test, y_test)
        )
        if kind is sv.DPLogisticRegression:
            losses.append(log_loss(y_test, model.predict_proba(X_test)))
    spread = f"{min(scores):.4f} to {max(scores):.4f}"
    middle = np.median(losses) if losses else None
    return name, kind()._loss.name, epsilon, np.median(scores), spread, middle, np.median(seconds)


@benchmark(seeds=(5, 1), only=(",".join(CASES), "a9a,phishing"), delta=1e-3, solver="auto", intercept=False)
def main(run) -> None:
    changes = [{} if run.solver == "auto" else {"solver": run.solver}]
    if run.intercept:
        changes = [{"intercept_scaling": scaling} for scaling in (0.1, 0.2, 0.5, 1.0)]
    names = ("a9a", "phishing") if run.intercept else run.only.split(",")
    for changed in changes:
        rows = (row(n, e, run.seeds, run.delta, **changed) for n in names for e in (*EPSILONS, math.inf))
        run.table(f"library defaults {changed or ''}, delta = {run.delta:g}, {run.seeds} seeds", HEAD, rows)
