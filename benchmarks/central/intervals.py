"""Coverage and width of private 95 % confidence intervals, beside exact least squares and intervals that ignore noise.

    python -m benchmarks.central.intervals [--fits 200] [--delta 1e-6] [--correlation 0.3] [--largest 100000]
                                           [--only coverage,rows,odds]

Rows are equally correlated uniform columns, no longer than data_norm; y = x'beta + 4 + N(0, 1), beta from -1 to 1,
label_bounds = (-20, 30). "ignoring noise" puts the classical standard errors around the private estimates. Coverage and
width are means over coefficients and over the fits whose intervals are finite; their share is in its own column.

"odds": the same for logistic regression: labels with log odds x'beta + b for the b of the table. The width is over that
of exact maximum likelihood.

"rows": how many rows finite intervals take, by the formula of docs/guide/intervals.md, and the share of finite ones and
their coverage at that many rows and at half of them.
"""

from itertools import product

import numpy as np
from scipy.special import expit

import sottovoce as sv
from benchmarks.driver import benchmark
from sottovoce.privacy.calibration import gaussian_mu

NORM = 3.0
Z = 1.959964
EPSILONS = (0.5, 1.0, 2.0, 10.0, 1e4)


def table(seed, n, d, correlation):
    """Return X, y and the coefficients, the intercept last."""
    rng = np.random.default_rng(seed)
    own, common = np.sqrt(1 - correlation), np.sqrt(correlation)
    X = own * rng.uniform(-1, 1, (n, d)) + common * rng.uniform(-1, 1, (n, 1))
    X *= NORM / np.sqrt(d) / (own + common)
    beta = np.append(np.linspace(-1.0, 1.0, d), 4.0)
    return X, np.clip(X @ beta[:-1] + beta[-1] + rng.normal(size=n), -20.0, 30.0), beta


def row(epsilon, delta, n, d, correlation, fits):
    """Return n, d, epsilon, the share of finite intervals, three coverages and both widths."""
    inside = {"private": [], "ignoring noise": [], "exact": []}
    private_width, exact_width = [], []
    for seed in range(fits):
        X, y, beta = table(seed, n, d, correlation)
        U = np.column_stack([X, np.ones(n)])
        inverse = np.linalg.inv(U.T @ U)
        exact = inverse @ (U.T @ y)
        classical = Z * np.sqrt(np.diag(inverse) * np.sum((y - U @ exact) ** 2) / (n - d - 1))
        inside["exact"].append(np.abs(exact - beta) <= classical)
        exact_width.append(2 * classical)
        model = sv.DPRidge(
            epsilon=epsilon, delta=delta, data_norm=NORM, label_bounds=(-20.0, 30.0), solver="adassp"
        ).fit(X, y)
        low, high = model.confidence_intervals().T
        if np.isfinite(high - low).all():
            inside["private"].append((low <= beta) & (beta <= high))
            inside["ignoring noise"].append(np.abs(model.least_squares_ - beta) <= classical)
            private_width.append(high - low)
    figures = (*inside.values(), private_width, exact_width)
    return n, d, epsilon, len(private_width) / fits, *(np.mean(each) if each else None for each in figures)


def row_of_odds(epsilon, delta, n, d, correlation, intercept, fits):
    """Return n, d, b, epsilon, the share of finite intervals, two coverages, and the width over the exact one."""
    inside, ignoring, wider = [], [], []
    for seed in range(fits):
        X, _, beta = table(seed, n, d, correlation)
        beta[-1], U = intercept, np.column_stack([X, np.ones(n)])
        p = expit(U @ beta)
        y = np.random.default_rng([seed, 1]).random(n) < p
        classical = Z * np.sqrt(np.diag(np.linalg.inv((U * (p * (1.0 - p))[:, None]).T @ U)))
        model = sv.DPLogisticRegression(
            epsilon=epsilon, delta=delta, data_norm=NORM, classes=[False, True], solver="one-step"
        ).fit(X, y)
        low, high = model.confidence_intervals().T
        if np.isfinite(high - low).all():
            inside.append((low <= beta) & (beta <= high))
            ignoring.append(np.abs(model.maximum_likelihood_ - beta) <= classical)
            wider.append((high - low) / (2.0 * classical))
    figures = [np.mean(each) if each else None for each in (inside, ignoring, wider)]
    return n, d, intercept, epsilon, len(wider) / fits, *figures


def rows_needed(epsilon, delta, d, correlation):
    """Return the number of rows from which the released matrix determines all coefficients, nearly always."""
    X, _, _ = table(0, 100_000, d, correlation)
    U = np.column_stack([X / NORM, np.full(len(X), 0.2)]) / np.sqrt(1.04)
    smallest = np.linalg.eigvalsh(U.T @ U)[0] / len(U)
    noise = 1.5 / (gaussian_mu(epsilon, delta) * np.sqrt(0.98))
    return int(np.sqrt(2.0) * noise * (2.0 * np.sqrt(d + 1.0) + 1.0) / smallest)


def needed(delta, correlation, fits, largest):
    """Yield what the formula says, and what is found there."""
    for d in (5, 20):
        for epsilon in (0.1, 0.5, 1.0, 2.0):
            n = rows_needed(epsilon, delta, d, correlation)
            tried = [row(epsilon, delta, rows, d, correlation, fits) for rows in (n // 2, n) if n <= largest]
            half, there = (tried[0][3], tried[1][3]) if tried else (None, None)
            yield d, epsilon, n, half, there, tried[1][4] if tried else None


@benchmark(fits=(200, 20), delta=1e-6, correlation=0.3, largest=(100_000, 10_000), only="coverage,rows,odds")
def main(run) -> None:
    if "rows" in run.only:
        head = ("d", "epsilon", "rows needed|,", "finite at half|.0%", "finite there|.0%", "covered there|.3f")
        rows = needed(run.delta, run.correlation, max(5, run.fits // 5), run.largest)
        run.table(f"rows for finite intervals, delta = {run.delta:g}", head, rows)
    if "odds" in run.only:
        sizes = [(n, d, b) for n, d in ((3_000, 5), (10_000, 5), (100_000, 20)) for b in (-1.0, -3.0)]
        rows = (
            row_of_odds(epsilon, run.delta, n, d, run.correlation, b, min(run.fits, 4_000_000 // n))
            for n, d, b in sizes if n <= run.largest for epsilon in EPSILONS
        )  # fmt: skip
        head = ("n|,", "d", "b", "epsilon", "finite|.0%", "covered|.3f", "ignoring noise|.3f", "width over exact|.2f")
        run.table(f"95 % intervals of log odds, delta = {run.delta:g}", head, rows)
    if "coverage" in run.only:
        sizes = product((5, 20), (n for n in (1_000, 10_000, 100_000) if n <= run.largest), EPSILONS)
        rows = (
            row(epsilon, run.delta, n, d, run.correlation, min(run.fits, 4_000_000 // n)) for d, n, epsilon in sizes
        )
        figures = ("covered", "ignoring noise", "exact", "width", "exact width")
        head = ("n|,", "d", "epsilon", "finite|.0%", *(f"{figure}|.3f" for figure in figures))
        run.table(f"95 % intervals, delta = {run.delta:g}, correlation part {run.correlation:g}", head, rows)
