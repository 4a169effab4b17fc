"""The floor of ridge: the default, DP-SCD and a noisy mean of the labels on small tables, by mu n.

    python -m benchmarks.central.floor [--seeds 12] [--quick]

Labels within (-10, 20), noise of variance 1, columns of equal variance that explain a little, half or most of it; 700
and 5,000 rows, delta 1e-6. Mean squared errors on 3,000 other rows: the mean over seeds, and the worst of them. The
rule of "auto" is of decisions 79 and 119 (docs/guide/solvers.md).
"""

import numpy as np

import sottovoce as sv
from benchmarks.driver import benchmark
from sottovoce.privacy.calibration import gaussian_mu
from sottovoce.randomness import uncounted_fits

DELTA = 1e-6
BOUNDS = (-10.0, 20.0)


def errors(n, d, epsilon, signal, seeds):
    """Return mean and worst error of each model, and the variance of the labels."""
    found = {"auto": [], "scd": [], "constant": []}
    variance = []
    for seed in range(seeds):
        rng = np.random.default_rng([n, d, seed])
        X = rng.standard_normal((n + 3000, d)) / np.sqrt(d)
        w = rng.standard_normal(d)
        y = np.clip(X @ (w * signal * np.sqrt(d) / np.linalg.norm(w)) + rng.standard_normal(n + 3000), *BOUNDS)
        variance.append(y[n:].var())
        for solver, errors_of in found.items():
            model = sv.DPRidge(
                epsilon=epsilon, delta=DELTA, data_norm=2.0, label_bounds=BOUNDS, adjacency="zero-out", solver=solver
            )
            with uncounted_fits():
                model.fit(X[:n], y[:n])
            errors_of.append(np.mean((model.predict(X[n:]) - y[n:]) ** 2))
    return {name: (np.mean(each), np.max(each)) for name, each in found.items()}, np.mean(variance)


def rows(seeds):
    for signal in (0.3, 1.0, 3.0):
        for d in (8, 30):
            for n, epsilon in ((700, 0.05), (700, 0.1), (700, 0.3), (700, 0.5), (700, 1.0), (5000, 0.1)):
                found, variance = errors(n, d, epsilon, signal, seeds)
                words = [f"{mean:.2f} ({worst:.2f})" for mean, worst in found.values()]
                yield signal, d, n, epsilon, gaussian_mu(epsilon, DELTA) * n, *words, variance


@benchmark(seeds=(12, 3))
def main(run) -> None:
    head = ("signal", "columns", "rows", "epsilon", "mu n|.0f", "auto", "scd", "constant", "variance|.2f")
    run.table("Mean squared error, mean over seeds (worst)", head, rows(run.seeds))
