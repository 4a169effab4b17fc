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
from benchmarks.driver import benchmark, paired
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
    for name in names:
        for alpha in alphas:
            for epsilon in EPSILONS:
                given = {"epsilon": epsilon, "alpha": alpha}
                off = {**given, "solver_options": {"calibration_share": 0.0}}
                without, with_it = (
                    np.array([scores(name, seed, **parameters) for seed in range(seeds)]) for parameters in (off, given)
                )
                yield name, alpha, epsilon, *without.mean(axis=0), *(paired(d, 4) for d in (with_it - without).T)


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
    """Yield rows beside the base rate, on tables that are nearly all noise."""
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
                yield n, rate, epsilon, np.mean(off), paired(on, 3)


@benchmark(seeds=(4, 1))
def main(run) -> None:
    names, alphas = (("german",), ALPHAS[:1]) if run.quick else (NAMES, ALPHAS)
    head = ("data", "alpha", "epsilon", "accuracy|.4f", "log loss|.4f", "AUC|.4f",
            "accuracy with", "log loss with", "AUC with")  # fmt: skip
    title = f"without, and the difference that slope and shift make, {run.seeds} splits"
    run.table(title, head, real_tables(names, alphas, run.seeds))
    sizes, widths, seeds = ((100,), (5,), run.seeds) if run.quick else ((100, 300, 1000), (5, 30, 200), 2 * run.seeds)
    title = f"log loss above that of the base rate, d = {', '.join(map(str, widths))}, {seeds} tables each"
    run.table(title, ("n|,", "base rate", "epsilon", "without|+.3f", "with"), small_tables(sizes, widths, seeds))
