"""Slope and shift at the end of a logistic fit: what they cost and gain, by share, penalty and epsilon.

    python -m benchmarks.central.calibration [--seeds 4] [--quick]

Test accuracy, log loss and AUC with the default calibration and without, and paired differences with their standard
errors, on the binary tables that rules may be chosen on; then made-up tables so small that weights know next to
nothing, against the base rate. delta = 1e-5.
"""

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit
from sklearn.metrics import log_loss, roc_auc_score

import sottovoce as sv
from benchmarks.common import keep, make_parser, show
from benchmarks.sets import split

NAMES = ("a9a", "phishing", "reuters", "w8a", "mushrooms", "german")
EPSILONS = (0.1, 0.5, 1.0, 2.0)
ALPHAS = (5e-5, 5e-6, 1e-6)


def scores(name, seed, **parameters):
    """Return accuracy, log loss and AUC of one fit."""
    X, y, X_test, y_test, public = split(name, seed)
    model = sv.DPLogisticRegression(delta=1e-5, random_state=seed, **parameters, **public).fit(X, y)
    z = model.decision_function(X_test)
    right = y_test == public["classes"][1]
    return np.mean((z > 0) == right), log_loss(right, expit(z)), roc_auc_score(right, z)


def real_tables(names, alphas, seeds):
    """Compare with and without, on real tables."""
    rows, results = [], {}
    for name in names:
        for alpha in alphas:
            for epsilon in EPSILONS:
                given = {"epsilon": epsilon, "alpha": alpha}
                off = {**given, "solver_options": {"calibration_share": 0.0}}
                without, with_it = (
                    np.array([scores(name, seed, **parameters) for seed in range(seeds)]) for parameters in (off, given)
                )
                difference = with_it - without
                error = difference.std(axis=0, ddof=1) / seeds**0.5 if seeds > 1 else np.zeros(3)
                results[f"{name} {alpha:g} {epsilon:g}"] = [*without.mean(axis=0), *with_it.mean(axis=0), *error]
                changes = (f"{d:+.4f} +- {e:.4f}" for d, e in zip(difference.mean(axis=0), error, strict=True))
                means = (f"{value:.4f}" for value in without.mean(axis=0))
                rows.append((name, f"{alpha:g}", f"{epsilon:g}", *means, *changes))
    head = ("data", "alpha", "epsilon", "accuracy", "log loss", "AUC", "accuracy with", "log loss with", "AUC with")
    show(f"without, and the difference that slope and shift make, {seeds} splits", head, rows, width=150)
    return results


def small_table(n, d, rate, seed):
    """Return a table whose labels follow a logistic model, n rows to train on and 2,000 to test on."""
    rng = np.random.default_rng(seed)
    X, w = rng.standard_normal((n + 2000, d)), rng.standard_normal(d)
    if seed % 2:
        X += 2.0 * (rng.random(d) > 0.5)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    z = X @ w
    z = 2.4 * (z - z.mean()) / z.std()
    shift = brentq(lambda b: expit(z + b).mean() - rate, -20.0, 20.0)
    return X, (rng.random(n + 2000) < expit(z + shift)).astype(int)


def small_tables(sizes, widths, seeds):
    """Compare with the base rate, on tables that are nearly all noise."""
    rows, results = [], {}
    for n in sizes:
        for rate in (0.5, 0.1):
            for epsilon in (0.1, 0.5):
                off, on = [], []
                for d in widths:
                    for seed in range(seeds):
                        X, y = small_table(n, d, rate, seed)
                        base = log_loss(y[n:], np.full(2000, y[n:].mean()))
                        for losses, options in ((off, {"calibration_share": 0.0}), (on, None)):
                            model = sv.DPLogisticRegression(
                                epsilon=epsilon, delta=1e-5, data_norm=1.0, classes=[0, 1], random_state=seed,
                                solver_options=options,
                            ).fit(X[:n], y[:n])  # fmt: skip
                            losses.append(log_loss(y[n:], model.predict_proba(X[n:])[:, 1]) - base)
                results[f"{n} {rate:g} {epsilon:g}"] = [float(np.mean(off)), float(np.mean(on))]
                above = f"{np.mean(on):+.3f} +- {np.std(on) / len(on) ** 0.5:.3f}"
                rows.append((f"{n:,}", f"{rate:g}", f"{epsilon:g}", f"{np.mean(off):+.3f}", above))
    head = ("n", "base rate", "epsilon", "without", "with")
    show(f"log loss above that of the base rate, d = {', '.join(map(str, widths))}, {seeds} tables each", head, rows)
    return results


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--seeds", type=int, default=None, help="default 4; 1 with --quick")
    given = parser.parse_args()
    seeds = given.seeds or (1 if given.quick else 4)
    if given.quick:
        results = {"real": real_tables(("german",), ALPHAS[:1], seeds), "small": small_tables((100,), (5,), seeds)}
    else:
        results = {
            "real": real_tables(NAMES, ALPHAS, seeds), "small": small_tables((100, 300, 1000), (5, 30, 200), 2 * seeds)
        }  # fmt: skip
    keep("calibration", results)


if __name__ == "__main__":
    main()
