"""The penalty on tables of few and of many rows: what ``alpha="auto"`` (1 / (2 n)) rests on.

    python -m benchmarks.central.alpha [--seeds 5] [--quick]

Mean test accuracy and log loss of logistic regression on random parts of three data sets, delta = 1e-5.
"""

import numpy as np
from sklearn.metrics import log_loss

import sottovoce as sv
from benchmarks.common import a9a, keep, make_parser, mnist_4v9, phishing, show

ALPHAS = (1e-5, 5e-5, 1e-3, 1e-2, 1e-1, "auto")


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--seeds", type=int, default=None, help="default 5; 1 with --quick")
    given = parser.parse_args()
    seeds = given.seeds or (1 if given.quick else 5)
    rows, results = [], {}
    for load in (a9a, phishing, mnist_4v9):
        X, y, X_test, y_test, public = load(0)
        for n in (200,) if given.quick else (200, 1000, 5000):
            for epsilon in (0.5, 2.0):
                cells = []
                for alpha in ALPHAS:
                    scores = []
                    for seed in range(seeds):
                        part = np.random.default_rng(seed).choice(X.shape[0], n, replace=False)
                        model = sv.DPLogisticRegression(epsilon=epsilon, delta=1e-5, alpha=alpha, **public)
                        model.fit(X[part], y[part])
                        scores.append((model.score(X_test, y_test), log_loss(y_test, model.predict_proba(X_test))))
                    cells.append(np.mean(scores, axis=0))
                results[f"{load.__name__} {n} {epsilon:g}"] = [list(map(float, cell)) for cell in cells]
                texts = (f"{accuracy:.3f} / {loss:.2f}" for accuracy, loss in cells)
                rows.append((load.__name__, f"{n:,}", f"{epsilon:g}", *texts))
    head = ("data", "n", "epsilon", *map(str, ALPHAS))
    show(f"accuracy / log loss by alpha, means of {seeds} parts", head, rows, width=150)
    keep("alpha", results)


if __name__ == "__main__":
    main()
