"""Test accuracy of the defaults against a private search with the same budget: medians over fresh seeds.

    python -m benchmarks.central.search [--seeds 10] [--only a9a,phishing] [--epsilon 1] [--delta 1e-5] [--trials 10]
                                        [--quick]

Two questions: does a search over alpha beat the default alpha, and does a search over data_norm help someone who knows
no better bound on the norm of a row than 30 (the rows have norm 1)?
"""

import numpy as np
from scipy.stats import loguniform

import sottovoce as sv
from benchmarks.common import a9a, keep, make_parser, phishing, show

DATA = {"a9a": a9a, "phishing": phishing}
ALPHA = {"alpha": loguniform(1e-6, 1e-2)}
NORM = {"data_norm": [1.0, 3.0, 10.0, 30.0]}


def methods(public, epsilon, delta, trials):
    """Return (name, a fresh estimator) pairs."""
    budget = {"epsilon": epsilon, "delta": delta}
    wide = {**public, "data_norm": 30.0}

    def search(facts, space, **changed):
        return sv.DPSearchCV(sv.DPLogisticRegression(**facts), space, n_iter=trials, **budget, **changed)

    yield "defaults", sv.DPLogisticRegression(**public, **budget)
    yield "search alpha", search(public, ALPHA)
    yield "search alpha, logarithmic", search(public, ALPHA, distribution="logarithmic")
    yield "search alpha, by log loss", search(public, ALPHA, scoring="neg_log_loss")
    yield "defaults, data_norm=30", sv.DPLogisticRegression(**wide, **budget)
    yield "search data_norm", search(wide, NORM)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--seeds", type=int, default=None, help="default 10; 1 with --quick")
    parser.add_argument("--only", default=None, help="default all; phishing with --quick")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument("--trials", type=float, default=None, help="default 10; 2 with --quick")
    arguments = parser.parse_args()
    seeds = arguments.seeds or (1 if arguments.quick else 10)
    trials = arguments.trials or (2.0 if arguments.quick else 10.0)
    names = arguments.only.split(",") if arguments.only else ["phishing"] if arguments.quick else list(DATA)
    rows, results = [], {}
    for data in names:
        scores: dict[str, list[float]] = {}
        of_trial: dict[str, float] = {}
        for seed in range(seeds):
            X, y, X_test, y_test, public = DATA[data](seed)
            for name, model in methods(public, arguments.epsilon, arguments.delta, trials):
                scores.setdefault(name, []).append(float(model.fit(X, y).score(X_test, y_test)))
                plan = sv.plan(model, *X.shape)
                of_trial[name] = getattr(plan, "trial_epsilon", arguments.epsilon)
        for name, found in scores.items():
            results[f"{data}, {name}"] = {"scores": found, "epsilon of a trial": of_trial[name]}
            rows.append((
                data, name, f"{of_trial[name]:.3f}", f"{np.median(found):.4f}", f"{min(found):.4f} to {max(found):.4f}",
            ))  # fmt: skip
    head = ("data", "method", "epsilon of a trial", "median accuracy", "range")
    show(f"epsilon = {arguments.epsilon:g}, delta = {arguments.delta:g}, {seeds} seeds", head, rows)
    keep(f"search-{arguments.epsilon:g}", results)


if __name__ == "__main__":
    main()
