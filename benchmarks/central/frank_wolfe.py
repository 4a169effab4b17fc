"""Private Frank-Wolfe: excess risk of the lasso, other sets, speed on sparse rows, Reuters.

    python -m benchmarks.central.frank_wolfe [risk] [sets] [speed] [reuters] [refit]
                                             [--seeds 5] [--n 10000] [--d 10000] [--quick] [--docs]

Without names all parts are run. ``reuters`` and ``refit`` need SOTTOVOCE_DATA. ``--docs`` writes the table of
``sets`` into its page.

``sets``: labels are a mixture of ten columns of 1,000, weights 0.1, each with a decoy as in ``risk``; what is known of
the coefficients beside their l1 norm.
"""

import time
import warnings
from functools import partial

import numpy as np
import scipy.sparse as sp

import sottovoce as sv
from benchmarks.common import parts_at_hand, reuters
from benchmarks.driver import benchmark, timed
from sottovoce.central.coefficient_sets import SETS
from sottovoce.central.data.lengths import make_bounded_rows
from sottovoce.central.parallel import team
from sottovoce.central.sums.selection import TICKS, DenseScores, SparseScores
from sottovoce.exceptions import PrivacyWarning
from sottovoce.losses import Logistic, Squared
from sottovoce.privacy.calibration import bounded_range
from sottovoce.privacy.mechanisms.noisy_max import ExponentialMechanism
from sottovoce.randomness import Purpose, Streams

DELTA = 1e-5
RISK_EPSILONS = (0.5, 1.0, 2.0)
TARGETS = {10_000: (0.018, 0.0060, 0.0022), 100_000: (0.002, 0.002, 0.002)}


def lasso_problem(n, d, seed=1):
    """Return signs as features, and labels from ten of them.

    Each true feature has a decoy elsewhere that agrees with it in 80 % of the rows.
    """
    rng = np.random.default_rng(seed)
    X = rng.choice(np.array([-1.0, 1.0], np.float32), (n, d))
    quarter, true = d // 4, []
    for part, count in enumerate((4, 3, 2, 1)):
        for k in range(count):
            column, decoy = part * quarter + k, ((part + 1) % 4 + 1) * quarter - 1 - k
            X[:, decoy] = X[:, column] * np.where(rng.random(n) < 0.2, -1.0, 1.0)
            true.append((column, 0.08 * (-1) ** k))
    w = np.zeros(d, np.float32)
    for column, value in true:
        w[column] = value
    return X, np.clip(X @ w + rng.normal(0.0, 0.1, n), -1.0, 1.0)


def risk(X, y, coef):
    return 0.5 * float(np.mean((X @ coef.astype(X.dtype) - y) ** 2))


def risk_table(run, n, d, seeds):
    """Excess risk over the best point of the ball, by adjacency and epsilon."""
    X, y = lasso_problem(n, d)
    public = {"data_bound": 1.0, "label_bounds": (-1.0, 1.0), "radius": 1.0, "fit_intercept": False}
    best = risk(X, y, sv.DPLasso(epsilon=np.inf, tol=1e-3, **public).fit(X, y).coef_)
    rows = []
    for adjacency in ("zero-out", "replace-one"):
        for place, epsilon in enumerate(RISK_EPSILONS):
            found, seconds = [], []
            for seed in range(seeds):
                start = time.perf_counter()
                model = sv.DPLasso(
                    epsilon=epsilon, delta=DELTA, adjacency=adjacency, random_state=seed, **public
                ).fit(X, y)  # fmt: skip
                seconds.append(time.perf_counter() - start)
                found.append(risk(X, y, model.coef_) - best)
            spent = model.guarantee_.epsilon_at(DELTA)
            target = f"{TARGETS[n][place]:g}" if n in TARGETS else ""
            rows.append((
                adjacency, f"{epsilon:g}", f"{spent:.4f}", f"{np.mean(found):.5f}",
                f"{min(found):.5f} to {max(found):.5f}", target, str(model.n_iter_), f"{np.median(seconds):.1f}",
            ))  # fmt: skip
    head = ("adjacency", "epsilon", "receipt", "mean excess", "range", "target", "steps", "seconds")
    start = risk(X, y, np.zeros(d)) - best
    run.table(f"lasso, n = {n}, d = {d}, delta = {DELTA:g}, {seeds} seeds; zero has {start:.5f}", head, rows)


def mixture_problem(n, d, seed=1):
    """Return signs as features, each true one with a decoy, and labels that are a mixture of ten columns."""
    rng = np.random.default_rng(seed)
    X = rng.choice(np.array([-1.0, 1.0], np.float32), (n, d))
    X[:, 10:20] = X[:, :10] * np.where(rng.random((n, 10)) < 0.2, -1.0, 1.0)
    return X, np.clip(X[:, :10].sum(axis=1) / 10 + rng.normal(0.0, 0.1, n), -1.0, 1.0)


def excess(X, y, best, seed, **options):
    """Return the excess risk of a private lasso."""
    public = {"delta": DELTA, "data_bound": 1.0, "label_bounds": (-1.0, 1.0), "radius": 1.0, "fit_intercept": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)  # of many fits on the same table
        return risk(X, y, sv.DPLasso(random_state=seed, **public | options).fit(X, y).coef_) - best


def sets_table(run, n, d, seeds):
    """Median excess risk by what is known of the coefficients."""
    X, y = mixture_problem(n, d)
    public = {"data_bound": 1.0, "label_bounds": (-1.0, 1.0), "radius": 1.0, "fit_intercept": False}
    best = min(
        risk(X, y, sv.DPLasso(epsilon=np.inf, tol=1e-3, constraint=kind, **public).fit(X, y).coef_) for kind in SETS
    )
    rows = []
    for kind in SETS:
        cells = []
        for epsilon in (0.25, *RISK_EPSILONS):
            found = [excess(X, y, best, seed, epsilon=epsilon, constraint=kind) for seed in range(seeds)]
            cells.append(f"{np.median(found):.5f}")
        rows.append((kind, *cells))
    head = ("set", *(f"epsilon {epsilon:g}" for epsilon in (0.25, *RISK_EPSILONS)))
    run.table(
        f"median excess risk, n = {n}, d = {d}, {seeds} seeds; zero has {risk(X, y, np.zeros(d)) - best:.5f}",
        head,
        rows,
        mark="sets",
    )


def speed(run, rows_of, y, loss, repeats, radius, n_steps, label):
    """Show steps a second of both forms on the same rows, from the same start."""
    found = []
    with team() as threads:
        rows = make_bounded_rows(rows_of, data_bound=1.0, constant=0.0, names=None, team=threads)
        mechanism = ExponentialMechanism(bounded_range(1.0, DELTA, n_steps), 2.0 * TICKS)
        for (name, kind), count in zip(FORMS.items(), repeats, strict=True):
            scores, opened = timed(lambda kind=kind: kind(rows, y, loss, 1.0, TICKS, threads))
            noise, durations = Streams(0).generator(Purpose.NOISE), []
            for _ in range(count):
                start = time.perf_counter()
                column, sign = scores.select(mechanism, noise)
                scores.move(column, sign * radius / n_steps)
                durations.append(time.perf_counter() - start)
            steady = durations[len(durations) // 10 :]
            found.append((name, len(steady) / sum(steady), opened))
    rows = [*found, ("ratio", found[1][1] / found[0][1], None)]
    title = f"{label}: steps a second ({threads.n_threads} threads for the full pass)"
    run.table(title, ("form", "steps/s|.1f", "to open, s|.2f"), rows)


FORMS = {"every column again": DenseScores, "changed columns only": SparseScores}


def speed_tables(run):
    rng = np.random.default_rng(0)
    n, d, nnz = 20_000, 1_000_000, 100
    X = sp.csr_array(
        (rng.uniform(-1.0, 1.0, n * nnz), rng.integers(0, d, n * nnz), np.arange(0, n * nnz + 1, nnz)), shape=(n, d)
    )
    X.sum_duplicates()
    y = np.clip(X @ np.where(np.arange(d) < 1000, 1.0, 0.0), -1.0, 1.0)
    speed(run, X, y, Squared(), (30, 2000), 100.0, 1000, f"{n} rows, {d} columns, {nnz} a row")
    X, y, *_ = reuters(0)
    speed(run, sp.csr_array(X), y, Logistic(), (200, 2000), 100.0, 1000, "Reuters")


def reuters_table(run, seeds, radii=(3.0, 10.0, 30.0)):
    """Test accuracy on Reuters beside DPLogisticRegression; the sparse model is given which words occur, as 0 and 1."""
    X, y, X_test, y_test, public = reuters(0)
    words, words_test = X.sign(), X_test.sign()
    rows = []
    for epsilon in (1.0, 4.0, np.inf):
        makers = {
            f"DPSparseLogisticRegression, radius {radius:g}": lambda seed, radius=radius, epsilon=epsilon: (
                sv.DPSparseLogisticRegression(
                    epsilon=epsilon,
                    delta=DELTA,
                    data_bound=1.0,
                    radius=radius,
                    classes=public["classes"],
                    tol=1e-3,
                    random_state=seed,
                )
            )
            for radius in radii
        }
        makers["DPLogisticRegression"] = lambda seed, epsilon=epsilon: sv.DPLogisticRegression(
            epsilon=epsilon, delta=DELTA, random_state=seed, **public
        )
        for name, make in makers.items():
            scores, counts, seconds = [], [], []
            for seed in range(seeds if np.isfinite(epsilon) else 1):
                start = time.perf_counter()
                sparse = name.startswith("DPSparse")
                model = make(seed).fit(words if sparse else X, y)
                seconds.append(time.perf_counter() - start)
                scores.append(float(model.score(words_test if sparse else X_test, y_test)))
                counts.append(int(np.count_nonzero(model.coef_)))
            rows.append((
                f"{epsilon:g}", name, f"{np.mean(scores):.4f}", f"{min(scores):.4f} to {max(scores):.4f}",
                f"{np.median(counts):.0f}", str(model.n_iter_), f"{np.median(seconds):.2f}",
            ))  # fmt: skip
    head = ("epsilon", "model", "mean accuracy", "range", "nonzero", "steps", "seconds")
    run.table(f"Reuters, delta = {DELTA:g}, {seeds} seeds", head, rows)


def refit_table(run, seeds, share=0.7, radius=30.0):
    """Test accuracy on Reuters of two fits: a sparse one chooses the columns, an L2 one refits them."""
    X, y, X_test, y_test, public = reuters(0)
    words, words_test = sp.csr_array(X.sign()), sp.csr_array(X_test.sign())
    rows = []
    for epsilon in (1.0, 4.0):
        first, second, counts = [], [], []
        for seed in range(seeds):
            chooser = sv.DPSparseLogisticRegression(
                epsilon=share * epsilon, delta=DELTA / 2, data_bound=1.0, radius=radius, classes=public["classes"],
                random_state=seed,
            ).fit(words, y)  # fmt: skip
            chosen = np.flatnonzero(chooser.coef_[0])
            refitted = sv.DPLogisticRegression(
                epsilon=(1.0 - share) * epsilon, delta=DELTA / 2, data_norm=0.5 * len(chosen) ** 0.5,
                classes=public["classes"], random_state=seed,
            ).fit(words[:, chosen], y)  # fmt: skip
            first.append(float(chooser.score(words_test, y_test)))
            second.append(float(refitted.score(words_test[:, chosen], y_test)))
            counts.append(len(chosen))
        spread = f"{min(second):.4f} to {max(second):.4f}"
        rows.append((
            f"{epsilon:g}", f"{np.mean(first):.4f}", f"{np.mean(second):.4f}", spread, f"{np.median(counts):.0f}",
        ))  # fmt: skip
    head = ("epsilon of both", "chooser alone", "refitted", "range", "nonzero")
    run.table(f"Reuters, two fits, {share:g} of epsilon for the choice, {seeds} seeds", head, rows)


@benchmark(
    page="measured/sparse_models.md", words=("risk", "sets", "speed", "reuters", "refit"),
    seeds=(5, 1), n=(10_000, 1_000), d=(10_000, 1_000),
)  # fmt: skip
def main(run) -> None:
    parts = run.words or (
        ["risk", "sets"] if run.quick
        else parts_at_hand(("risk", "sets", "speed"), ("reuters", "refit"))
    )  # fmt: skip
    small = (1_000, 100) if run.quick else (10_000, 1_000)
    makers = {
        "risk": partial(risk_table, run, run.n, run.d, run.seeds), "sets": partial(sets_table, run, *small, run.seeds),
        "speed": partial(speed_tables, run), "reuters": partial(reuters_table, run, run.seeds),
        "refit": partial(refit_table, run, run.seeds),
    }  # fmt: skip
    for part in (part for part in makers if part in parts):
        makers[part]()
