"""Models from one report a person: accuracy, AUC and squared error, with the trivial predictor beside.

    python -m benchmarks.local.learning [--seeds 5] [--docs] [--quick]
        [--only synthetic,regression,wire,a9a,blogfeedback]

Means over seeds. Reported vectors are drawn by their exact law (`support.simulated_reports`); "wire" sends
real reports through a real `Aggregator` and compares the moments. Synthetic people: x ~ N(0, diag(l)), l_j ~ 1/j,
E|x|^2 = 1/2, within norm 1; the logit of the label has standard deviation 4. ``--docs`` writes the tables of the
appendix.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.special import expit, ndtr
from sklearn.metrics import roc_auc_score

from benchmarks.common import a9a, blogfeedback, parts_at_hand
from benchmarks.driver import benchmark, option
from sottovoce.local import Aggregator, Protocol, Randomizer
from support.simulated_reports import simulate

Rows = Iterator[tuple[Any, ...]]


def synthetic(n: int, d: int, seed: int) -> tuple[Any, Any]:
    """Return rows and labels of the synthetic population; the direction of the labels is always the same."""
    sizes = 1.0 / np.arange(1, d + 1)
    sizes *= 0.5 / sizes.sum()
    u = np.random.default_rng(1000).choice([-1.0, 1.0], d) / math.sqrt(d)
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * np.sqrt(sizes)
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    steepness = 4.0 / math.sqrt(float((u * u * sizes).sum()))
    return X, np.where(rng.random(n) < expit(steepness * (X @ u)), 1, -1)


def collect(protocol: Protocol, Z: Any, rng: np.random.Generator) -> Aggregator:
    """Return an aggregator with one simulated report of each person."""
    aggregator = Aggregator(protocol)
    for start in range(0, len(Z), 50_000):
        aggregator.moments.add(simulate(protocol, Z[start : start + 50_000], rng))
    return aggregator


def synthetic_table(seeds: int, quick: bool) -> Rows:
    for n, d in ((10_000, 5), (100_000, 10)) if quick else ((10_000, 5), (100_000, 10), (1_000_000, 20), (100_000, 50)):
        X, y = synthetic(n, d, 1)
        X_test, y_test = synthetic(100_000, d, 2)
        w = np.linalg.lstsq(X[:200_000], y[:200_000].astype(float), rcond=None)[0]
        plain = float(np.mean((X_test @ w > 0) == (y_test > 0)))
        for epsilon in (1.0, 2.0, 4.0):
            protocol = Protocol(epsilon=epsilon, n_features=d, intercept=0.0, completion="slack")
            Z = protocol.encode_many(X) * y[:, None]
            accuracy, direction = [], []
            for seed in range(seeds):
                aggregator = collect(protocol, Z, np.random.default_rng(100 + seed))
                accuracy.append(aggregator.fit().score(X_test, y_test))
                direction.append(aggregator.fit(degree=0).score(X_test, y_test))
            yield n, d, epsilon, f"{np.mean(accuracy):.3f} ± {np.std(accuracy):.3f}", np.mean(direction), plain


def a9a_table(seeds: int, quick: bool) -> Rows:
    X, y, X_test, y_test, _ = a9a(0)
    X, X_test = (X > 0).toarray().astype(float), (X_test > 0).toarray().astype(float)
    majority = float(np.mean(y_test < 0))
    for epsilon in (2.0, 8.0) if quick else (1.0, 2.0, 4.0, 8.0):
        protocol = Protocol(epsilon=epsilon, n_features=123, scale=math.sqrt(14.0), completion="normalise")
        Z = protocol.encode_many(X) * y[:, None]
        public = X_test[:1000]
        found: dict[str, list[tuple[float, float]]] = {}
        for seed in range(seeds):
            aggregator = collect(protocol, Z, np.random.default_rng(seed))
            fits: dict[str, dict[str, Any]] = {
                "default": {}, "degree 0": {"degree": 0}, "1,000 public rows": {"public_rows": public},
            }  # fmt: skip
            for name, options in fits.items():
                model = aggregator.fit(**options)
                scores = model.decision_function(X_test[1000:])
                both = float(np.mean((scores > 0) == (y_test[1000:] > 0))), float(roc_auc_score(y_test[1000:], scores))
                found.setdefault(name, []).append(both)
                if name == "default":
                    errors = model.quality_.squared_error.value, float(np.mean((y_test[1000:] - scores) ** 2))
                    found.setdefault("squared error: held-out, test", []).append(errors)
        cells = [
            f"{np.mean([a for a, _ in found[name]]):.3f} / {np.mean([b for _, b in found[name]]):.3f}" for name in fits
        ]
        held = np.mean(found["squared error: held-out, test"], axis=0)
        yield epsilon, *cells, f"{majority:.3f} / 0.500", f"{held[0]:.3f} / {held[1]:.3f}"


def blogfeedback_table(seeds: int, quick: bool) -> Rows:
    X, y, X_test, y_test, facts = blogfeedback(0)
    bounds = facts["label_bounds"]
    trivial = float(np.mean((y_test - y.mean()) ** 2))
    one, one_test = (np.hstack([part, np.ones((len(part), 1))]) for part in (X, X_test))
    plain = float(np.mean((y_test - np.clip(one_test @ np.linalg.lstsq(one, y, rcond=None)[0], *bounds)) ** 2))
    for epsilon in (8.0,) if quick else (1.0, 2.0, 4.0, 8.0):
        protocol = Protocol(epsilon=epsilon, n_features=X.shape[1], task="regression", label_bounds=bounds)
        Z = protocol.encode_many(X)
        found = []
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            signs = np.where(rng.random(len(y)) < (y - bounds[0]) / (bounds[1] - bounds[0]), 1.0, -1.0)
            model = collect(protocol, Z * signs[:, None], rng).fit()
            found.append(float(np.mean((model.predict(X_test) - y_test) ** 2)))
        yield epsilon, f"{np.mean(found):.3f} ± {np.std(found):.3f}", trivial, plain


def regression_table(seeds: int, quick: bool) -> Rows:
    """Numbers in [0, 1] whose mean is a quarter: squared errors as shares of that of the mean of the labels."""

    def people(n: int, d: int, seed: int) -> tuple[Any, Any]:
        X, _ = synthetic(n, d, seed)
        sizes = 0.5 / np.arange(1, d + 1) / (1.0 / np.arange(1, d + 1)).sum()
        u = np.random.default_rng(1000).choice([-1.0, 1.0], d) / math.sqrt(d)
        steepness = 0.15 / math.sqrt(float((u * u * sizes).sum()))
        noise = 0.1 * np.random.default_rng(seed + 50).standard_normal(n)
        return X, np.clip(0.25 + steepness * (X @ u) + noise, 0.0, 1.0)

    for n, d in ((20_000, 20),) if quick else ((20_000, 20), (20_000, 100), (100_000, 20)):
        X, y = people(n, d, 1)
        X_test, y_test = people(20_000, d, 2)
        trivial = float(np.mean((y_test - y.mean()) ** 2))
        one, one_test = (np.hstack([part, np.ones((len(part), 1))]) for part in (X, X_test))
        plain = float(np.mean((y_test - one_test @ np.linalg.lstsq(one, y, rcond=None)[0]) ** 2)) / trivial
        cells = []
        for epsilon in (1.0, 2.0, 4.0, 8.0):
            protocol = Protocol(epsilon=epsilon, n_features=d, task="regression", label_bounds=(0.0, 1.0))
            Z, found = protocol.encode_many(X), []
            for seed in range(seeds):
                rng = np.random.default_rng(seed)
                signs = np.where(rng.random(n) < y, 1.0, -1.0)
                model = collect(protocol, Z * signs[:, None], rng).fit()
                found.append(float(np.mean((model.predict(X_test) - y_test) ** 2)) / trivial)
            cells.append(f"{np.mean(found):.2f} (max {max(found):.2f})")
        yield n, d, *cells, plain


def wire_table(_: int, quick: bool) -> Rows:
    """Compare moments from real reports, and from simulated ones, with those of the people."""
    n, d = (2000, 5) if quick else (100_000, 10)
    X, y = synthetic(n, d, 3)
    for epsilon in (2.0,) if quick else (1.0, 4.0):
        protocol = Protocol(epsilon=epsilon, n_features=d, intercept=0.0, completion="slack")
        device = Randomizer(protocol)
        reports = b"".join(device.report(x, label) for x, label in zip(X, y.tolist(), strict=True))
        wire = Aggregator(protocol)
        wire.add(reports)
        Z = protocol.encode_many(X) * y[:, None]
        simulated, G = Aggregator(protocol), simulate(protocol, Z, np.random.default_rng(0))
        simulated.moments.add(G)
        upper = np.triu_indices(protocol.d, 1)
        A1, A2 = wire.constants.A[:2]
        # standard errors from the spread of the simulated reports
        errors = G.std(axis=0) / abs(A1), (G[:, upper[0]] * G[:, upper[1]]).std(axis=0) / abs(A2)
        for name, aggregator in (("wire", wire), ("simulated", simulated)):
            estimate = aggregator.moments.estimate(A1, A2)
            first = (estimate.first - Z.mean(axis=0)) * math.sqrt(n) / errors[0]
            second = (estimate.second - Z.T @ Z / n)[upper] * math.sqrt(n) / errors[1]
            health = aggregator.health()
            found = [float(np.sqrt(np.mean(z * z))) for z in (first, second)] + [float(np.abs(first).max())]
            found += [float(np.abs(second).max()), health.trace_z, health.index_p]
            count = len(first) + len(second)
            found.append(-math.expm1(count * math.log1p(-2.0 * float(ndtr(-max(found[2], found[3]))))))
            cells = (f"{found[0]:.2f} / {found[2]:.2f}", f"{found[1]:.2f} / {found[3]:.2f}", f"{found[6]:.2f}")
            cells = (*cells, f"{health.trace_z:.2f}")
            p_value = f"{health.index_p:.2f}" if name == "wire" else "-"
            yield name, n, epsilon, *cells, p_value


FITS = ("default", "degree 0", "1,000 public rows")
TABLES: dict[str, tuple[tuple[str, ...], Callable[[int, bool], Rows]]] = {
    "synthetic": (
        ("n|,", "d", "epsilon", "accuracy", "degree 0|.3f", "not private|.3f"), synthetic_table,
    ),
    "regression": (("n|,", "d", *(f"epsilon {e}" for e in (1, 2, 4, 8)), "not private|.2f"), regression_table),
    "wire": (
        ("reports", "n|,", "epsilon", "first: rms / max z", "second: rms / max z", "p of the largest", "trace z",
         "index p"), wire_table,
    ),
    "a9a": (("epsilon", *FITS, "majority", "squared error: held-out / test"), a9a_table),
    "blogfeedback": (
        ("epsilon", "mean squared error", "mean of the labels|.3f", "not private|.3f"), blogfeedback_table,
    ),
}  # fmt: skip


@benchmark(page="measured/local_learning.md", seeds=(5, 1), only=option(help="tables, by commas; default all"))
def main(run) -> None:
    for name in run.only.split(",") if run.only else parts_at_hand(tuple(TABLES)[:-2], tuple(TABLES)[-2:]):
        head, rows = TABLES[name]
        run.table(f"{name}, means of {run.seeds} seeds", head, rows(run.seeds, run.quick), mark=name)
