"""Coverage and width of private 95 % confidence intervals, beside exact least squares and intervals that ignore noise.

    python -m benchmarks.central.intervals [--fits 200] [--delta 1e-6] [--correlation 0.3] [--largest 100000]
                                           [--only coverage,rows]

Rows are equally correlated uniform columns, no longer than data_norm; y = x'beta + 4 + N(0, 1), beta from -1 to 1,
label_bounds = (-20, 30). "ignoring noise" puts the classical standard errors around the private estimates. Coverage and
width are means over coefficients and over the fits whose intervals are finite; their share is in its own column.

"rows": how many rows finite intervals take, by the formula of docs/guide/intervals.md, and the share of finite ones and
their coverage at that many rows and at half of them.
"""

import numpy as np

import sottovoce as sv
from benchmarks.common import keep, make_parser, show
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


def rows_needed(epsilon, delta, d, correlation):
    """Return the number of rows from which the released matrix determines all coefficients, nearly always."""
    X, _, _ = table(0, 100_000, d, correlation)
    U = np.column_stack([X / NORM, np.full(len(X), 0.2)]) / np.sqrt(1.04)
    smallest = np.linalg.eigvalsh(U.T @ U)[0] / len(U)
    noise = 1.5 / (gaussian_mu(epsilon, delta) * np.sqrt(0.98))
    return int(np.sqrt(2.0) * noise * (2.0 * np.sqrt(d + 1.0) + 1.0) / smallest)


def needed(delta, correlation, fits, largest):
    """Return what the formula says, and what is found there."""
    found = []
    for d in (5, 20):
        for epsilon in (0.1, 0.5, 1.0, 2.0):
            n = rows_needed(epsilon, delta, d, correlation)
            tried = [row(epsilon, delta, rows, d, correlation, fits) for rows in (n // 2, n) if n <= largest]
            found.append({"d": d, "epsilon": epsilon, "rows": n, "half": tried[:1], "all": tried[1:]})
    return found


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--fits", type=int, default=None, help="default 200; 20 with --quick")
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument("--correlation", type=float, default=0.3)
    parser.add_argument("--largest", type=int, default=None, help="default 100,000; 10,000 with --quick")
    parser.add_argument("--only", default="coverage,rows")
    arguments = parser.parse_args()
    fits = arguments.fits or (20 if arguments.quick else 200)
    largest = arguments.largest or (10_000 if arguments.quick else 100_000)
    if "rows" in arguments.only:
        found = needed(arguments.delta, arguments.correlation, max(5, fits // 5), largest)
        cells = [
            (f"{f['d']}", f"{f['epsilon']:g}", f"{f['rows']:,}",
             *(f"{part[0]['finite']:.0%}" if part else "" for part in (f["half"], f["all"])),
             f"{f['all'][0]['coverage']['private']:.3f}" if f["all"] and f["all"][0]["width"] else "")
            for f in found
        ]  # fmt: skip
        head = ("d", "epsilon", "rows needed", "finite at half", "finite there", "covered there")
        show(f"rows for finite intervals, delta = {arguments.delta:g}", head, cells)
        keep("intervals-rows", found)
    if "coverage" not in arguments.only:
        return
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
