"""Coverage and width of private 95 % confidence intervals, beside exact least squares and intervals that ignore noise.

    python -m benchmarks.central.intervals [--fits 200] [--delta 1e-6] [--correlation 0.3] [--largest 100000]

Rows are equally correlated uniform columns, no longer than data_norm; y = x'beta + 4 + N(0, 1), beta from -1 to 1,
label_bounds = (-20, 30). "ignoring noise" puts the classical standard errors around the private estimates. Coverage and
width are means over coefficients and over the fits whose intervals are finite; their share is in its own column.
"""

import numpy as np

import sottovoce as sv
from benchmarks.common import keep, make_parser, show

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
    """Return coverages, widths and the share of finite intervals."""
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
    mean = {name: float(np.mean(values)) if values else None for name, values in inside.items()}
    return {
        "epsilon": epsilon, "n": n, "d": d, "finite": len(private_width) / fits, "coverage": mean,
        "width": float(np.mean(private_width)) if private_width else None, "exact width": float(np.mean(exact_width)),
    }  # fmt: skip


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--fits", type=int, default=None, help="default 200; 20 with --quick")
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument("--correlation", type=float, default=0.3)
    parser.add_argument("--largest", type=int, default=None, help="default 100,000; 10,000 with --quick")
    arguments = parser.parse_args()
    fits = arguments.fits or (20 if arguments.quick else 200)
    largest = arguments.largest or (10_000 if arguments.quick else 100_000)
    results = [
        row(epsilon, arguments.delta, n, d, arguments.correlation, min(fits, 4_000_000 // n))
        for d in (5, 20)
        for n in (1_000, 10_000, 100_000)
        if n <= largest
        for epsilon in EPSILONS
    ]

    def text(value, form):
        return "" if value is None else format(value, form)

    head = ("n", "d", "epsilon", "finite", "covered", "ignoring noise", "exact", "width", "exact width")
    lines = [
        (f"{r['n']:,}", f"{r['d']}", f"{r['epsilon']:g}", f"{r['finite']:.0%}", text(r["coverage"]["private"], ".3f"),
         text(r["coverage"]["ignoring noise"], ".3f"), text(r["coverage"]["exact"], ".3f"), text(r["width"], ".3f"),
         f"{r['exact width']:.3f}")
        for r in results
    ]  # fmt: skip
    show(f"95 % intervals, delta = {arguments.delta:g}, correlation part {arguments.correlation:g}", head, lines)
    keep("intervals", results)


if __name__ == "__main__":
    main()
