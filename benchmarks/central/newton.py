"""Newton steps beside the passes of DP-SCD: accuracy, log loss, AUC, passes and seconds.

    python -m benchmarks.central.newton [--docs] [--quick] [--only a9a,w8a] [--splits 5]

Real sets of two classes from the half that rules may be chosen on (``benchmarks/sets.py``; delta = 1e-5), a made-up
table of 400,000 x 90 (delta = 1e-6), and a made-up one whose columns say little about the label (delta = 1e-5). Both
solvers get the same splits and seeds; the differences are paired. Nothing is tuned; the clips, the number of passes,
the least eigenvalue, the longest step and the penalty of `newton` were chosen on these sets and such tables.
"""

import time
import warnings

import numpy as np
from sklearn.metrics import log_loss, roc_auc_score

import sottovoce as sv
from benchmarks.common import parts_at_hand
from benchmarks.driver import EPSILONS, benchmark, option, paired
from benchmarks.sets import split
from sottovoce.exceptions import PrivacyWarning

SETS = ("german", "mushrooms", "phishing", "a9a", "w8a")
MADE_UP = "400,000 x 90"
WEAK = "weak, 20,000 x 10"
SOLVERS = ("scd", "newton")
HEAD = ("data", "epsilon", "mu n / d|.3g", "accuracy", "difference", "log loss", "AUC", "passes", "seconds")


def made_up(n, n_test, d=90):
    """Rows of norm 1 with columns of different sizes, labels from a logistic model."""
    rng = np.random.default_rng(7)
    X = rng.standard_normal((n + n_test, d), dtype=np.float32) * np.linspace(2.0, 0.3, d, dtype=np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    w = rng.standard_normal(d)
    margins = X @ (w * (55.0 / np.linalg.norm(w)))
    y = np.where(rng.random(n + n_test) < 1.0 / (1.0 + np.exp(-margins)), 1.0, -1.0)
    return X[:n], y[:n], X[n:], y[n:], {"data_norm": 1.0, "classes": [-1.0, 1.0]}


def made_up_weak(seed, n=20_000, n_test=20_000, d=10):
    """Rows of norm 1; labels are hardly more than a coin."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n + n_test, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    margins = X @ np.r_[1.0, -0.75, 0.25, np.zeros(d - 3)]
    y = np.where(rng.random(n + n_test) < 1.0 / (1.0 + np.exp(-margins)), 1.0, -1.0)
    return X[:n], y[:n], X[n:], y[n:], {"data_norm": 1.0, "classes": [-1.0, 1.0]}


def measure(part, solver, epsilon, delta, seed):
    """Return accuracy, log loss, AUC, passes and seconds of a fit."""
    X, y, X_test, y_test, public = part
    model = sv.DPLogisticRegression(epsilon=epsilon, delta=delta, solver=solver, random_state=seed, **public)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)  # many fits on the same table
        model.fit(X, y)
    seconds = time.perf_counter() - start
    of_second = model.predict_proba(X_test)[:, 1]
    positive = y_test == public["classes"][1]
    return (
        model.score(X_test, y_test), log_loss(positive, of_second), roc_auc_score(positive, of_second), model.n_iter_,
        seconds,
    )  # fmt: skip


def information(part, epsilon, delta):
    """Return mu n over the number of weights, mu that of one model."""
    X, *_, public = part
    model = sv.DPLogisticRegression(epsilon=epsilon, delta=delta, solver="newton", **public)
    plan = sv.plan(model, *X.shape)
    return plan.split.model * plan.n_samples / plan.n_weights


def rows(names, splits, quick):
    for name in names:
        big = name == MADE_UP
        delta, seeds = (1e-6, range(1)) if big else (1e-5, range(splits))
        if big:
            parts = [made_up(20_000 if quick else 400_000, 60_000)]
        else:
            parts = [made_up_weak(seed) if name == WEAK else split(name, seed) for seed in seeds]
        for solver in SOLVERS:  # compiles
            measure((parts[0][0][:500], parts[0][1][:500], *parts[0][2:]), solver, EPSILONS[0], delta, 0)
        for epsilon in EPSILONS[::3] if quick else EPSILONS:
            found = [
                np.array([measure(part, solver, epsilon, delta, k) for part, k in zip(parts, seeds, strict=True)])
                for solver in SOLVERS
            ]
            pairs = [
                " / ".join(f"{values[:, place].mean():.{digits}f}" for values in found)
                for place, digits in ((0, 4), (1, 3), (2, 4), (3, 0), (4, 2))
            ]
            gained = paired(100.0 * (found[1] - found[0])[:, 0], 2)
            yield name, epsilon, information(parts[0], epsilon, delta), pairs[0], gained, *pairs[1:]


@benchmark(page="measured/solvers.md", only=option(help="names of sets, by commas"), splits=(5, 1))
def main(run) -> None:
    names = parts_at_hand((MADE_UP, WEAK), SETS[:2] if run.quick else SETS)
    names = [name for name in names if run.only is None or any(name.startswith(one) for one in run.only.split(","))]
    found = rows(names, run.splits, run.quick)
    run.table(f"scd / newton, means of {run.splits} splits", HEAD, found, mark="newton")
