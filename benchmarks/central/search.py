"""Test accuracy of the defaults against a private search with the same budget: medians over fresh seeds.

    python -m benchmarks.central.search [--seeds 10] [--only a9a,phishing] [--epsilon 1] [--delta 1e-5] [--trials 10]
                                        [--quick]

Two questions: does a search over alpha beat the default alpha, and does a search over data_norm help someone who knows
no better bound on the norm of a row than 30 (the rows have norm 1)?
"""

import numpy as np
from scipy.stats import loguniform

import sottovoce as sv
from benchmarks.common import a9a, phishing
from benchmarks.driver import benchmark

DATA = {"a9a": a9a, "phishing": phishing}
ALPHA = {"alpha": loguniform(1e-6, 1e-2)}
NORM = {"data_norm": [1.0, 3.0, 10.0, 30.0]}


def methods(public, epsilon, delta, trials):
    """Return (name, a fresh estimator) pairs."""
    budget = {"epsilon": epsilon, "delta": delta}
    wide = {**public, "data_norm": 30.0}

    def search(facts, space):
        return sv.DPSearchCV(sv.DPLogisticRegression(**facts), space, n_iter=trials, **budget)

    yield "defaults", sv.DPLogisticRegression(**public, **budget)
    yield "search alpha", search(public, ALPHA)
    yield "defaults, data_norm=30", sv.DPLogisticRegression(**wide, **budget)
    yield "search data_norm", search(wide, NORM)


def rows(names, epsilon, delta, trials, seeds):
    for data in names:
        scores, of_trial = {}, {}
        for seed in range(seeds):
            X, y, X_test, y_test, public = DATA[data](seed)
            for name, model in methods(public, epsilon, delta, trials):
                scores.setdefault(name, []).append(model.fit(X, y).score(X_test, y_test))
                of_trial[name] = getattr(sv.plan(model, *X.shape), "trial_epsilon", epsilon)
        for name, found in scores.items():
            yield data, name, of_trial[name], np.median(found), f"{min(found):.4f} to {max(found):.4f}"


@benchmark(seeds=(10, 1), only=("a9a,phishing", "phishing"), epsilon=1.0, delta=1e-5, trials=(10.0, 2.0))
def main(run) -> None:
    head = ("data", "method", "epsilon of a trial|.3f", "median accuracy|.4f", "range")
    found = rows(run.only.split(","), run.epsilon, run.delta, run.trials, run.seeds)
    run.table(f"epsilon = {run.epsilon:g}, delta = {run.delta:g}, {run.seeds} seeds", head, found)
