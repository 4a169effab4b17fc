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

import numpy as np

import sottovoce as sv
from benchmarks.common import EPSILONS, blogfeedback, keep, make_parser, parts_at_hand, show
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
    """Return the means of the solvers and of no noise."""
    scores = {solver: [] for solver in (*SOLVERS, "none")}
    for seed in range(seeds):
        table = load(seed)
        for solver in SOLVERS:
            scores[solver].append(error(solver, epsilon, delta, *table))
        X, y, X_test, y_test, public = table
        U, V = (np.column_stack([part, np.ones(len(part))]) for part in (X, X_test))
        exact = np.clip(V @ np.linalg.lstsq(U, y, rcond=1e-7)[0], *public["label_bounds"])
        scores["none"].append(float(np.mean((exact - y_test) ** 2)))
    means = {solver: float(np.mean(values)) for solver, values in scores.items()}
    return {
        "data": name,
        "n": n,
        "d": d,
        "epsilon": epsilon,
        "ratio": gaussian_mu(epsilon, delta) * n / (d + 1) ** 1.5,
        **means,
    }


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--seeds", type=int, default=None, help="default 5; 1 with --quick")
    parser.add_argument("--only", default=None, help="default both; synthetic with --quick")
    parser.add_argument("--delta", type=float, default=1e-3)
    parser.add_argument("--sizes", default=None, help="default 1000,10000,100000; 1000 with --quick")
    arguments = parser.parse_args()
    seeds = arguments.seeds or (1 if arguments.quick else 5)
    sizes = arguments.sizes or ("1000" if arguments.quick else "1000,10000,100000")
    parts = arguments.only or (
        "synthetic" if arguments.quick else parts_at_hand(("skewed", "synthetic"), ("housing", "blogfeedback"))
    )
    results = []
    if "housing" in parts:
        for rows in (3_000, 15_480):
            for epsilon in EPSILONS:
                load = lambda seed, rows=rows: housing(rows, seed)  # noqa: E731
                results.append(row("cal_housing", rows, 8, epsilon, DELTA, load, seeds))
    if "skewed" in parts:
        for n, d in ((1_000, 10), (4_000, 10), (10_000, 50), (40_000, 26)):
            for epsilon in EPSILONS:
                load = lambda seed, n=n, d=d: skewed(n, d, seed)  # noqa: E731
                results.append(row("skewed", n, d, epsilon, DELTA, load, seeds))
    if "blogfeedback" in parts:
        table = blogfeedback(0)
        n, d = table[0].shape
        for epsilon in EPSILONS:
            results.append(row("blogfeedback", n, d, epsilon, arguments.delta, lambda _: table, seeds))
    if "synthetic" in parts:
        for kind in ("isotropic", "decaying", "low rank"):
            for d in (5, 20, 90):
                for n in map(int, sizes.split(",")):
                    for epsilon in EPSILONS:
                        load = lambda seed, n=n, d=d, kind=kind: synthetic(kind, n, d, seed)  # noqa: E731
                        results.append(row(kind, n, d, epsilon, DELTA, load, seeds))
    lines = [
        (r["data"], f"{r['n']:,}", f"{r['d']}", f"{r['epsilon']:g}", f"{r['ratio']:.3g}", f"{r['none']:.4f}",
         *(f"{r[solver]:.4f}" for solver in SOLVERS))
        for r in results
    ]  # fmt: skip
    head = ("data", "n", "d", "epsilon", "mu n / d^1.5", "no noise", *SOLVERS)
    show(f"mean squared test error, means of {seeds} seeds", head, lines)
    keep("ridge-solvers", results)


if __name__ == "__main__":
    main()
