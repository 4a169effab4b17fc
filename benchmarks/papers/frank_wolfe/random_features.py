"""Noisy random projections of each other's columns, after Heinze-Deml, McWilliams and Meinshausen, beside ours.

    python -m benchmarks.papers.frank_wolfe.random_features [--quick] [--only phishing,a9a] [--docs]

Every party sends all others a random projection of its columns plus Gaussian noise, once; each party then fits a
model on [its columns, the projections of the others] and keeps the coefficients of its own columns. Built from the idea
of the paper (Stat 7, 2018; arXiv:1703.00403), with this library's unit and account: one person's rows at all parties
are replaced together, everything that is sent is mu-Gaussian DP, delta = 1e-5. Labels are public to the parties. Beside
it the same without any message: each party fits its own columns, and scores are added. It is treated generously:

* the projection has orthonormal columns, and projected rows are cut at a bound of their own, times their usual length;
* size of the projection, that bound, and the penalty are the best for the first seed *on the test part*, anew for each
  epsilon, out of 15 (out of 1 on the wide set);
* one factor and the intercept of the summed scores are fitted without noise, and what scoring shows of the parties'
  models, which are exact functions of their rows, is not counted.

``--quick``: phishing, epsilon = 1, one seed. ``--docs`` keeps the figures, in
docs/figures/vertical_random_features.json; what that holds is not measured again.
"""

import itertools
import json
import math
import time
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize

from benchmarks.driver import FIGURES, RESULTS, benchmark, keep
from benchmarks.vertical.divided import Divided, divided
from benchmarks.vertical.private import wide
from sottovoce.privacy.calibration import gaussian_mu
from sottovoce.vertical import VerticalLogisticRegression, VerticalRidge, split_columns

NAME: Final = "vertical_random_features"
EPSILONS: Final = (0.5, 1.0, 2.0, 4.0)
LARGE: Final = (4.0, 16.0, 64.0, 256.0, 1024.0)  # where the idea begins to work
DELTA: Final = 1e-5
SETS: Final = {"phishing": 5, "a9a": 3, "blogfeedback": 1, "wide": 1}  # seeds
SIZES: Final = (
    (1.0, 1.0), (0.5, 1.0), (0.5, 1.5), (0.1, 1.0), (0.1, 1.5),
)  # projection / columns; bound / usual length  # fmt: skip
PENALTIES: Final = (1.0, 30.0, 1000.0)  # alpha n
ALONE, EXACT, NOTHING, OWN, HELD, SECURE = (
    "party 1 alone, no noise", "all columns, no noise", "every party alone, nothing sent, scores summed",
    "noisy projections, own coefficients", "noisy projections, the label holder's model", "secure",
)  # fmt: skip
RUNS: Final = {
    "local-models, public labels": ("local-models", True),
    "local-models (default)": ("local-models", False),
}

Array = NDArray[np.float64]


class Projected(NamedTuple):
    """What one party sends, and the projection of its test rows, which nobody is sent in training."""

    noisy: Array
    test: Array


def project(
    block: Array, test: Array, bound: float, size: int, cut: float, mu: float, nonnegative: bool, rng: Any
) -> Projected:
    """Return D Pi + noise with Pi of orthonormal columns, rows of D Pi cut at a public bound.

    A replaced row moves a projected row by at most twice its bound. Only where nothing is projected away do rows
    without negative entries stay within a right angle, which takes sqrt(2) times the bound.
    """
    d = block.shape[1]
    Pi = np.linalg.qr(rng.normal(size=(d, size)))[0]
    limit = bound * min(1.0, cut * math.sqrt(size / d))
    norms = np.linalg.norm(block, axis=1, keepdims=True)
    rows = (block * np.minimum(1.0, bound / np.maximum(norms, 1e-300))) @ Pi
    rows *= np.minimum(1.0, limit / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300))
    reach = math.sqrt(2.0) if nonnegative and size == d else 2.0
    return Projected(rows + reach * limit / mu * rng.normal(size=rows.shape), test @ Pi)


def fitted(data: Divided, X: Array, penalties: tuple[float, ...]) -> list[tuple[Array, float]]:
    """Return coefficients and intercept for each penalty: ridge, or logistic regression by Newton's method."""
    A = np.hstack([X, np.ones((len(X), 1))])
    free = np.ones(A.shape[1])
    free[-1] = 1e-8
    if data.is_regression:
        gram, moment = A.T @ A, A.T @ data.y
        models = [np.linalg.solve(gram + np.diag(penalty * free), moment) for penalty in penalties]
    else:
        fit = newton if A.shape[1] <= 1000 else wide_fit
        models = [fit(A, signs(data, data.y), penalty * free) for penalty in penalties]
    return [(w[:-1], float(w[-1])) for w in models]


def newton(A: Array, y: Array, l2: Array) -> Array:
    """Return the coefficients of logistic regression."""
    w = np.zeros(A.shape[1])
    for _ in range(30):
        p = expit(-y * (A @ w))
        gradient = -A.T @ (y * p) + l2 * w
        step = np.linalg.solve((A * (p * (1.0 - p) + 1e-10)[:, None]).T @ A + np.diag(l2), gradient)
        w = w - step
        if float(gradient @ step) < 1e-6:
            break
    return w


def wide_fit(A: Array, y: Array, l2: Array) -> Array:
    """Return the same where a Newton step would take seconds."""
    model = LogisticRegression(C=1.0 / l2[0], tol=1e-4, max_iter=100).fit(A[:, :-1], y)
    return np.append(model.coef_[0], model.intercept_)


def signs(data: Divided, y: Any) -> Array:
    return np.where(y == data.public["classes"][1], 1.0, -1.0)


def summed(data: Divided, training: Array, test: Array) -> float:
    """Return the measure of summed scores, times the factor and plus the intercept that suit the training rows best."""
    (factor,), b = fitted(data, training[:, None], (1e-6,))[0]
    return measure(data, factor * test + b)


def measure(data: Divided, scores: Array) -> float:
    """Return the test accuracy, or the mean squared error."""
    if data.is_regression:
        return float(np.mean((np.clip(scores, *data.public["label_bounds"]) - data.y_test) ** 2))
    return float(np.mean(np.sign(scores) == signs(data, data.y_test)))


def noisy_projections(
    data: Divided, epsilon: float, seed: int, part: float, cut: float, penalties: tuple[float, ...]
) -> dict[tuple[str, float], float]:
    """Return the measure of both models by penalty: own coefficients put together, and the label holder's own."""
    M = len(data.blocks)
    mu = gaussian_mu(epsilon, DELTA) / math.sqrt(M)  # one release of each party, squares add up
    rng = np.random.default_rng([7, seed])
    sent = [
        project(block, test, bound, max(1, round(part * block.shape[1])), cut, mu, data.nonnegative, rng)
        for block, test, bound in zip(data.blocks, data.blocks_test, data.data_norm, strict=True)
    ]
    found = {}
    training, test = np.zeros((len(penalties), len(data.y))), np.zeros((len(penalties), len(data.y_test)))
    for m, block in enumerate(data.blocks):
        others = [one for k, one in enumerate(sent) if k != m]
        models = fitted(data, np.hstack([block, *(one.noisy for one in others)]), penalties)
        for at, (w, b) in enumerate(models):
            training[at] += block @ w[: block.shape[1]]
            test[at] += data.blocks_test[m] @ w[: block.shape[1]]
            if m == 0:
                shown = np.hstack([data.blocks_test[0], *(one.test for one in others)])
                found[HELD, penalties[at]] = measure(data, shown @ w + b)
    for at, penalty in enumerate(penalties):
        found[OWN, penalty] = summed(data, training[at], test[at])
    return found


def ours(data: Divided, mechanism: str, public: bool, epsilon: float, seed: int) -> tuple[float, int]:
    """Return the measure of a mechanism of this library, and the bytes of its training both ways."""
    kind = VerticalRidge if data.is_regression else VerticalLogisticRegression
    options = {"mechanism": mechanism, "labels_public": public}
    model = kind(epsilon=epsilon, delta=DELTA, random_state=seed, **data.public, **options)
    train = split_columns(np.hstack(data.blocks), data.sizes, **data.facts)
    test = split_columns(np.hstack(data.blocks_test), data.sizes, **data.facts)
    model.fit(train, data.y)
    if data.is_regression:
        bounds = data.public["label_bounds"]
        return float(np.mean((np.clip(model.predict(test), *bounds) - data.y_test) ** 2)), traffic(model)
    return float(np.mean(model.predict(test) == data.y_test)), traffic(model)


def traffic(model: Any) -> int:
    return int(model.uplink_bytes_ + model.downlink_bytes_)


def nothing_sent(data: Divided, penalty: float) -> float:
    """Return the measure of the sum of models that each party fits to its own columns and the labels."""
    training, test = np.zeros(len(data.y)), np.zeros(len(data.y_test))
    for block, block_test in zip(data.blocks, data.blocks_test, strict=True):
        w, _ = fitted(data, block, (penalty,))[0]
        training += block @ w
        test += block_test @ w
    return summed(data, training, test)


def alone(data: Divided) -> float:
    """Return what the label holder reaches with its own columns."""
    w, b = fitted(data, data.blocks[0], (1.0,))[0]
    return measure(data, data.blocks_test[0] @ w + b)


def together(data: Divided) -> float:
    """Return what all columns reach in one place, without noise."""
    w, b = fitted(data, np.hstack(data.blocks), (1.0,))[0]
    return measure(data, np.hstack(data.blocks_test) @ w + b)


def table_of(name: str, n_parties: int, seed: int) -> Divided:
    """Return a set's parties; the columns of phishing are dealt at random, so that every party knows something."""
    if name == "phishing":
        data = divided(name, 1, seed)
        order = np.random.default_rng(seed).permutation(data.sizes[0])
        parts = np.array_split(order, n_parties)
        blocks, blocks_test = (
            tuple(normalize(table[:, part]) for part in parts) for table in (data.blocks[0], data.blocks_test[0])
        )
        return data._replace(blocks=blocks, blocks_test=blocks_test, data_norm=(1.0,) * n_parties)
    if name == "wide":
        task = wide()
        cuts = [0, *np.cumsum(task.sizes).tolist()]
        X, X_test = ([table[:, a:b] for a, b in itertools.pairwise(cuts)] for table in (task.X, task.X_test))
        norms = tuple(0.5 * math.sqrt(size) for size in task.sizes)
        blocks, blocks_test = (
            tuple(norm * normalize(block) for norm, block in zip(norms, table, strict=True)) for table in (X, X_test)
        )
        return Divided(blocks, task.y, blocks_test, task.y_test, norms, True, {"classes": [-1.0, 1.0]})
    return divided(name, n_parties, seed)


def cells(name: str, n_parties: int, epsilons: tuple[float, ...], seeds: int) -> dict[str, Any]:
    """Return all measures of one set and number of parties, by method and epsilon, one a seed."""
    tables = [table_of(name, n_parties, seed) for seed in range(seeds if name == "phishing" else 1)]
    tables *= seeds // len(tables)  # the others have a test part of their own
    better = min if tables[0].is_regression else max
    out: dict[str, Any] = {"columns": list(tables[0].sizes), "people": len(tables[0].y), "bytes": {}, "runs": {}}
    out["runs"][ALONE] = {"inf": [alone(data) for data in tables]}
    out["runs"][EXACT] = {"inf": [together(data) for data in tables]}
    epsilons = (1.0,) if name == "wide" else epsilons
    grid = PENALTIES[1:2] if name == "wide" else PENALTIES
    penalty = better(grid, key=lambda penalty: nothing_sent(tables[0], penalty))
    out["runs"][NOTHING] = {"inf": [nothing_sent(data, penalty) for data in tables]}
    for epsilon in epsilons:
        tried: dict[Any, float] = {}
        for part, cut in ((0.02, 1.5),) if name == "wide" else SIZES:
            found = noisy_projections(tables[0], epsilon, 0, part, cut, grid)
            tried |= {(method, part, cut, penalty): value for (method, penalty), value in found.items()}
        for method in (OWN, HELD):
            _, part, cut, penalty = better((key for key in tried if key[0] == method), key=lambda key: tried[key])
            found_by_seed = [tried[method, part, cut, penalty]] + [
                noisy_projections(tables[seed], epsilon, seed, part, cut, (penalty,))[method, penalty]
                for seed in range(1, seeds)
            ]
            out["runs"].setdefault(method, {})[f"{epsilon:g}"] = found_by_seed
            out.setdefault("chosen", {})[f"{method}, {epsilon:g}"] = [part, cut, penalty]
            # 8 bytes an entry; own coefficients: each party's projection to every other
            entries = [max(1, round(part * size)) * out["people"] for size in out["columns"]]
            sent = sum(entries) * (n_parties - 1) if method == OWN else sum(entries[1:])
            out["bytes"].setdefault(method, {})[f"{epsilon:g}"] = 8 * sent
        for label, (mechanism, public) in RUNS.items():
            if name == "wide" and (mechanism, public) != ("local-models", True):
                continue  # minutes, for noise that leaves nothing
            pairs = [ours(tables[seed], mechanism, public, epsilon, seed) for seed in range(seeds)]
            out["runs"].setdefault(label, {})[f"{epsilon:g}"] = [value for value, _ in pairs]
            out["bytes"].setdefault(label, {})[f"{epsilon:g}"] = pairs[0][1]
    joint = secure(name, n_parties)
    if joint:
        out["runs"][SECURE] = joint
    return out


def large(seeds: int) -> dict[str, list[float]]:
    """Return medians of noisy projections at epsilons that protect nobody: phishing, three parties, one penalty."""
    tables = [table_of("phishing", 3, seed) for seed in range(seeds)]
    alone_all = float(np.median([nothing_sent(data, 1.0) for data in tables]))
    out: dict[str, list[float]] = {NOTHING: [alone_all] * len(LARGE), OWN: [], HELD: []}
    for epsilon in LARGE:
        runs = [noisy_projections(data, epsilon, seed, 1.0, 1.0, (1.0,)) for seed, data in enumerate(tables)]
        for method in (OWN, HELD):
            out[method].append(float(np.median([found[method, 1.0] for found in runs])))
    return out


def secure(name: str, n_parties: int) -> dict[str, list[float]]:
    """Return the figures that `benchmarks.vertical.secure` measured on the same tables, where it did."""
    file = FIGURES / "vertical_secure.json"
    by_epsilon = json.loads(file.read_text(encoding="utf-8")).get(name, {}).get(str(n_parties), {}).get("secure", {})
    return {
        epsilon: [one.get("accuracy", one.get("mean squared error")) for one in by_seed.values()]
        for epsilon, by_seed in by_epsilon.items()
    }


def rows_of(found: dict[str, Any], epsilons: tuple[float, ...]) -> list[tuple[str, ...]]:
    rows = []
    regression = found["set"] == "blogfeedback"
    for method, by_epsilon in found["runs"].items():
        if "inf" in by_epsilon:
            by_epsilon = {f"{epsilon:g}": by_epsilon["inf"] for epsilon in epsilons}
        sent = list(found["bytes"].get(method, {None: None}).values())[-1]
        shown = [
            "" if cell is None else f"{np.median(cell):.3f}" if regression else f"{100.0 * np.median(cell):.1f}"
            for cell in (by_epsilon.get(f"{epsilon:g}") for epsilon in epsilons)
        ]
        rows.append(
            (f"{found['set']}, {found['parties']}", method, *shown, "" if sent is None else f"{sent / 1e6:.2g}")
        )
    return rows


@benchmark(page="papers/frank_wolfe.md", only=None)
def main(given) -> None:
    epsilons = (1.0,) if given.quick else EPSILONS
    names = (given.only or ("phishing" if given.quick else ",".join(SETS))).split(",")
    file = FIGURES / f"{NAME}.json"
    results = json.loads(file.read_text(encoding="utf-8")) if given.docs and file.exists() else {}
    for name, n_parties in itertools.product(names, (2,) if given.quick else (2, 3)):
        key = f"{name}, {n_parties}"
        if (name, n_parties) == ("wide", 2) or key in results:
            continue
        started = time.process_time()
        results[key] = cells(name, n_parties, epsilons, 1 if given.quick else SETS[name])
        results[key] |= {"set": name, "parties": n_parties}
        print(f"{key}: {time.process_time() - started:.0f} s, {results[key]['chosen']}", flush=True)
        keep(NAME, results, FIGURES if given.docs else RESULTS)
    head = ("set, parties", "method", *(f"epsilon {epsilon:g}" for epsilon in epsilons), "MB")
    rows = [row for key, found in results.items() if key != "large" for row in rows_of(found, epsilons)]
    given.table("Test accuracy in %, mean squared error of BlogFeedback", head, rows)
    if not given.docs:
        return
    if "large" not in results:
        results["large"] = large(SETS["phishing"])
        keep(NAME, results, FIGURES)
    beyond = [(method, *(f"{100.0 * value:.1f}" for value in medians)) for method, medians in results["large"].items()]
    head_beyond = ("phishing, 3 parties", *(f"epsilon {epsilon:g}" for epsilon in LARGE))
    given.table("The same at large epsilon", head_beyond, beyond)
