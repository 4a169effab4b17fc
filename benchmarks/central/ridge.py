"""Ridge by DP-SCD and by sufficient statistics (AdaSSP): mean squared test error, and what public facts say about it.

    python -m benchmarks.central.ridge [--seeds 5] [--only blogfeedback,synthetic] [--delta 1e-3] [--sizes 1000,10000]
                                       [--quick]

Synthetic tables: unit-variance labels of which three quarters are linear in the columns; columns of equal variance
("isotropic"), of standard deviations from 1 to 0.1 ("decaying"), or near a subspace of a quarter of the dimensions
("low rank"); delta is 1e-6 there.
"""

import math

import numpy as np

import sottovoce as sv
from benchmarks.common import EPSILONS, blogfeedback, keep, make_parser, parts_at_hand, show
from sottovoce.privacy.calibration import gaussian_mu

SOLVERS = ("scd", "adassp")
TEST = 4000


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


def error(solver, epsilon, delta, X, y, X_test, y_test, public):
    model = sv.DPRidge(epsilon=epsilon, delta=delta, solver=solver, **public).fit(X, y)
    return float(np.mean((model.predict(X_test) - y_test) ** 2))


def row(name, n, d, epsilon, delta, load, seeds):
    """Return the medians of both solvers and of no noise."""
    scores = {solver: [] for solver in (*SOLVERS, "none")}
    for seed in range(seeds):
        table = load(seed)
        for solver in SOLVERS:
            scores[solver].append(error(solver, epsilon, delta, *table))
    X, y, X_test, y_test, _ = table
    U, V = (np.column_stack([part, np.ones(len(part))]) for part in (X, X_test))
    scores["none"].append(float(np.mean((V @ np.linalg.lstsq(U, y, rcond=1e-6)[0] - y_test) ** 2)))
    medians = {solver: float(np.median(values)) for solver, values in scores.items()}
    return {
        "data": name,
        "n": n,
        "d": d,
        "epsilon": epsilon,
        "ratio": gaussian_mu(epsilon, delta) * n / d**1.5,
        **medians,
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
    parts = arguments.only or ("synthetic" if arguments.quick else parts_at_hand(("synthetic",), ("blogfeedback",)))
    results = []
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
                        results.append(row(kind, n, d, epsilon, 1e-6, load, seeds))
    lines = [
        (r["data"], f"{r['n']:,}", f"{r['d']}", f"{r['epsilon']:g}", f"{r['ratio']:.3g}", f"{r['none']:.3f}",
         f"{r['scd']:.3f}", f"{r['adassp']:.3f}", min(SOLVERS, key=lambda name: r[name]))
        for r in results
    ]  # fmt: skip
    head = ("data", "n", "d", "epsilon", "mu n / d^1.5", "no noise", "scd", "adassp", "better")
    show(f"mean squared test error, medians of {seeds} seeds", head, lines)
    keep("ridge-solvers", results)


if __name__ == "__main__":
    main()
