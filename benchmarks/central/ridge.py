"""Ridge by refinement, DP-SCD and sufficient statistics (AdaSSP): test error, and what public facts say about it.

    python -m benchmarks.central.ridge [--seeds 5] [--only housing,skewed,blogfeedback,synthetic] [--delta 1e-3]
                                       [--sizes 1000,10000] [--quick]

"auto" is the default, nothing tuned. Housing: 75:25 splits of cal_housing and of its first 3,000 training rows. Skewed:
lognormal labels cut at 20, a few skewed columns. Synthetic: unit-variance labels of which three quarters are linear in
the columns; columns of equal variance ("isotropic"), of standard deviations from 1 to 0.1 ("decaying"), or near a
subspace of a quarter of the dimensions ("low rank"). delta is 1e-5 in all of these. BlogFeedback: the official split,
at ``--delta``. "no noise" is least squares without a penalty; predictions of all are cut to ``label_bounds``.
"""

import math
from functools import partial
from itertools import product

import numpy as np

import sottovoce as sv
from benchmarks.common import blogfeedback, parts_at_hand
from benchmarks.driver import EPSILONS, benchmark
from benchmarks.sets import split
from sottovoce.privacy.calibration import gaussian_mu

SOLVERS = ("auto", "refinement", "scd", "adassp")
TEST = 4000
DELTA = 1e-5


def synthetic(kind, n, d, seed):
    """Return X, y, X_test, y_test and public facts."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + TEST, d))
    if kind == "decaying":
        X = X * np.linspace(1.0, 0.1, d) @ np.linalg.qr(rng.normal(size=(d, d)))[0]
    elif kind == "low rank":
        rank = max(2, d // 4)
        X = X[:, :rank] @ rng.normal(size=(rank, d)) + 0.05 * X
    signal = X @ rng.normal(size=d)
    y = math.sqrt(0.75) * signal / signal.std() + 0.5 * rng.normal(size=n + TEST)
    data_norm = 1.5 * math.sqrt(np.mean(np.sum(X**2, axis=1)))
    y = np.clip(y, -10.0, 10.0)
    return X[:n], y[:n], X[n:], y[n:], {"data_norm": data_norm, "label_bounds": (-10.0, 10.0)}


def skewed(n, d, seed):
    """Return the same for labels with a long tail on one side, some of it explained."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + TEST, d)) * np.linspace(1.0, 0.3, d)
    X[:, :3] = np.exp(0.5 * X[:, :3])
    signal = X @ rng.normal(size=d)
    y = np.minimum(np.exp(0.8 * (signal - signal.mean()) / signal.std() + 0.8 * rng.normal(size=n + TEST)), 20.0)
    data_norm = 1.5 * math.sqrt(np.mean(np.sum(X**2, axis=1)))
    return X[:n], y[:n], X[n:], y[n:], {"data_norm": data_norm, "label_bounds": (0.0, 20.0)}


def housing(rows, seed):
    """Return the same for a split of cal_housing, or for its first rows."""
    part = split("cal_housing", seed)
    return part.X[:rows], part.y[:rows], part.X_test, part.y_test, part.public


def error(solver, epsilon, delta, X, y, X_test, y_test, public):
    model = sv.DPRidge(epsilon=epsilon, delta=delta, solver=solver, **public).fit(X, y)
    return float(np.mean((model.predict(X_test) - y_test) ** 2))


def row(name, n, d, epsilon, delta, load, seeds):
    """Return what is public, and the mean errors of no noise and of the solvers."""
    scores = []
    for seed in range(seeds):
        X, y, X_test, y_test, public = table = load(seed)
        U, V = (np.column_stack([part, np.ones(len(part))]) for part in (X, X_test))
        exact = np.clip(V @ np.linalg.lstsq(U, y, rcond=1e-7)[0], *public["label_bounds"])
        own = [error(solver, epsilon, delta, *table) for solver in SOLVERS]
        scores.append([np.mean((exact - y_test) ** 2), *own])
    return name, n, d, epsilon, gaussian_mu(epsilon, delta) * n / (d + 1) ** 1.5, *np.mean(scores, axis=0)


def cases(parts, sizes, delta):
    """Yield name, size and the table by a seed."""
    if "housing" in parts:
        for rows in (3_000, 15_480):
            yield "cal_housing", rows, 8, DELTA, partial(housing, rows)
    if "skewed" in parts:
        for n, d in ((1_000, 10), (4_000, 10), (10_000, 50), (40_000, 26)):
            yield "skewed", n, d, DELTA, partial(skewed, n, d)
    if "blogfeedback" in parts:
        table = blogfeedback(0)
        yield "blogfeedback", *table[0].shape, delta, lambda _: table
    if "synthetic" in parts:
        for kind, d, n in product(("isotropic", "decaying", "low rank"), (5, 20, 90), map(int, sizes.split(","))):
            yield kind, n, d, DELTA, partial(synthetic, kind, n, d)


@benchmark(seeds=(5, 1), only=None, delta=1e-3, sizes=("1000,10000,100000", "1000"))
def main(run) -> None:
    parts = run.only or (
        "synthetic" if run.quick else parts_at_hand(("skewed", "synthetic"), ("housing", "blogfeedback"))
    )
    rows = (
        row(name, n, d, epsilon, delta, load, run.seeds)
        for name, n, d, delta, load in cases(parts, run.sizes, run.delta) for epsilon in EPSILONS
    )  # fmt: skip
    errors = (f"{name}|.4f" for name in ("no noise", *SOLVERS))
    head = ("data", "n|,", "d", "epsilon", "mu n / d^1.5|.3g", *errors)
    run.table(f"mean squared test error, means of {run.seeds} seeds", head, rows)
