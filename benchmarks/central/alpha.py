"""The penalty on tables of few and of many rows: what ``alpha="auto"`` (1 / (2 n)) rests on.

    python -m benchmarks.central.alpha [--seeds 5] [--quick]

Mean test accuracy and log loss of logistic regression on random parts of three data sets, delta = 1e-5.
"""

import numpy as np
from sklearn.metrics import log_loss

import sottovoce as sv
from benchmarks.common import a9a, mnist_4v9, phishing
from benchmarks.driver import benchmark

ALPHAS = (1e-5, 5e-5, 1e-3, 1e-2, 1e-1, "auto")


def rows(sizes, seeds):
    for load in (a9a, phishing, mnist_4v9):
        X, y, X_test, y_test, public = load(0)
        for n in sizes:
            for epsilon in (0.5, 2.0):
                cells = []
                for alpha in ALPHAS:
                    scores = []
                    for seed in range(seeds):
                        part = np.random.default_rng(seed).choice(X.shape[0], n, replace=False)
                        model = sv.DPLogisticRegression(epsilon=epsilon, delta=1e-5, alpha=alpha, **public)
                        model.fit(X[part], y[part])
                        scores.append((model.score(X_test, y_test), log_loss(y_test, model.predict_proba(X_test))))
                    cells.append("{:.3f} / {:.2f}".format(*np.mean(scores, axis=0)))
                yield load.__name__, n, epsilon, *cells


@benchmark(seeds=(5, 1))
def main(run) -> None:
    head = ("data", "n|,", "epsilon", *map(str, ALPHAS))
    found = rows((200,) if run.quick else (200, 1000, 5000), run.seeds)
    run.table(f"accuracy / log loss by alpha, means of {run.seeds} parts", head, found)
