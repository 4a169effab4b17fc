"""Many classes: the joint multinomial model beside one-vs-rest and beside a tuned multinomial DP-SGD.

    python -m benchmarks.central.classes [--seeds 4] [--only digits,three] [--epsilons 0.5,2] [--peer] [--quick]

The sets: digits of scikit-learn, made-up tables of 3 and 20 classes, and two columns of a9a that have several values
(marital status, education), learned from the other columns. ``--peer`` adds DP-SGD with jointly clipped gradients of
the softmax loss, whose settings are chosen in every cell, once for accuracy and once for log loss, on a quarter of the
training rows, at no cost in privacy. The library's own models have nothing tuned.
"""

import math
import warnings
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
from numba import njit
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize

import sottovoce as sv
from benchmarks.common import parts_at_hand
from benchmarks.driver import benchmark, option, timed
from benchmarks.peers.fast_dpsgd import sigma_of
from benchmarks.peers.tuning import search
from benchmarks.sets import split as split_of_set
from benchmarks.sets import whole

DELTA = 1e-5
SOLVERS = {"joint": "multinomial-scd", "one-vs-rest": "scd"}
SPACE: dict[str, tuple[Any, ...]] = {
    "batches": (1, 5, 20), "epochs": (5, 10, 20, 40, 80, 160), "clip": (0.03, 0.1, 0.25, 0.5, 1.0),
    "step": tuple(0.1 * 2.0**k for k in range(10)), "momentum": (0.0, 0.9), "l2": (0.0, 1e-4, 1e-3),
    "average": (False, True),
}  # fmt: skip
COARSE: dict[str, tuple[Any, ...]] = {
    "batches": (1, 20), "epochs": (10, 40), "clip": (0.1, 0.5), "step": (0.4, 1.6, 6.4), "average": (False, True),
}  # fmt: skip
START: dict[str, Any] = {"momentum": 0.0, "l2": 0.0}


def digits() -> tuple[Any, Any]:
    """Return 1,797 pictures of digits; rows are scaled to norm 1."""
    X, y = load_digits(return_X_y=True)
    return normalize(X), y


def three() -> tuple[Any, Any]:
    """Return a made-up table of 3 classes that overlap, drawn by a multinomial model."""
    rng = np.random.default_rng(7)
    W, X = rng.normal(size=(3, 20)), rng.normal(size=(6000, 20))
    X = X / np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True) / 5.0) / 5.0
    return X, (4.0 * X @ W.T + rng.gumbel(size=(6000, 3))).argmax(axis=1)


def twenty() -> tuple[Any, Any]:
    """Return a made-up table of 20 classes of different sizes, each a cloud of its own."""
    rng = np.random.default_rng(7)
    centres = rng.normal(size=(20, 60))
    y = rng.choice(20, 15_000, p=rng.dirichlet(np.full(20, 3.0)))
    return normalize(0.6 * centres[y] + rng.normal(size=(15_000, 60))), y


def _column_of_a9a(first: int, last: int, others: tuple[int, int]) -> tuple[Any, Any]:
    X = (whole("a9a").X.toarray() > 0.0).astype(float)
    known = X[:, first:last].sum(axis=1) == 1.0
    left = np.delete(X[known], [*range(first, last), *range(*others)], axis=1)
    return normalize(left), X[known, first:last].argmax(axis=1)


SETS = {
    "digits": digits, "three": three, "twenty": twenty, "marital": lambda: _column_of_a9a(39, 46, (0, 0)),
    "education": lambda: _column_of_a9a(18, 34, (34, 39)),
}  # fmt: skip
MADE_UP = ("digits", "three", "twenty")


@cache
def table(name: str) -> tuple[Any, Any]:
    """Return rows of norm at most 1, and whole numbers for classes."""
    return SETS[name]()


def split(name: str, seed: int) -> tuple[Any, Any, Any, Any]:
    """Return training rows, test rows, and their classes; a name that is not here is one of `benchmarks.sets`."""
    if name not in SETS:
        part = split_of_set(name, seed)
        unit = part.public["data_norm"]
        codes = {label: code for code, label in enumerate(sorted(part.public["classes"]))}
        return part.X / unit, part.X_test / unit, *(np.array([codes[v] for v in y]) for y in (part.y, part.y_test))
    X, y = table(name)
    parts: Any = train_test_split(X, y, test_size=0.25, random_state=seed, stratify=y)
    return tuple(parts)  # type: ignore[return-value]


@njit(fastmath=True)
def descend(X, y, n_classes, batches, steps, clip, rate, momentum, l2, sigma, rng):
    """Return the last iterate of DP-SGD on the softmax loss, and the average of the last half of them."""
    n, d = X.shape
    q = 1.0 / batches
    W, velocity, total = np.zeros((n_classes, d)), np.zeros((n_classes, d)), np.zeros((n_classes, d))
    p = np.empty(n_classes)
    averaged = 0
    for t in range(steps):
        gradient = np.zeros((n_classes, d))
        for i in range(n):
            if batches > 1 and rng.random() >= q:
                continue
            most, length = -np.inf, 0.0
            for k in range(n_classes):
                p[k] = np.dot(W[k], X[i])
                most = max(most, p[k])
            whole = 0.0
            for k in range(n_classes):
                p[k] = math.exp(p[k] - most)
                whole += p[k]
            for k in range(n_classes):
                p[k] = p[k] / whole - (1.0 if k == y[i] else 0.0)
                length += p[k] * p[k]
            length = math.sqrt(length * np.dot(X[i], X[i]))
            factor = clip / length if length > clip else 1.0
            for k in range(n_classes):
                for j in range(d):
                    gradient[k, j] += factor * p[k] * X[i, j]
        late = 2 * (t + 1) > steps
        averaged += late
        for k in range(n_classes):
            for j in range(d):
                g = (gradient[k, j] + sigma * clip * rng.standard_normal()) / (q * n) + l2 * W[k, j]
                velocity[k, j] = momentum * velocity[k, j] + g
                W[k, j] -= rate * velocity[k, j]
                if late:
                    total[k, j] += W[k, j]
    return W, total / averaged


def dp_sgd(X: Any, y: Any, n_classes: int, epsilon: float, setting: dict[str, Any], seed: int) -> Any:
    """Return the weights of multinomial DP-SGD, those of the constant column last."""
    wide = np.hstack([X, np.full((len(X), 1), 0.3)]) / math.sqrt(1.09)
    sigma = sigma_of({"epsilon": epsilon, "delta": DELTA}, setting)
    steps = setting["batches"] * setting["epochs"]
    rate = setting["step"] * (1.0 - setting["momentum"]) / setting["clip"]
    both = descend(
        wide, y, n_classes, setting["batches"], steps, setting["clip"], rate, setting["momentum"], setting["l2"], sigma,
        np.random.default_rng(seed),
    )  # fmt: skip
    return both[int(setting["average"])]


def probabilities(W: Any, X: Any) -> Any:
    """Return those of the softmax model of `dp_sgd`."""
    scores = np.hstack([X, np.full((X.shape[0], 1), 0.3)]) / math.sqrt(1.09) @ W.T
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    return odds / odds.sum(axis=1, keepdims=True)


def scores(shares: Any, y: Any) -> tuple[float, float]:
    """Return accuracy and log loss; classes are 0, 1, ..."""
    known = np.clip(shares, 1e-15, 1.0)
    known = known / known.sum(axis=1, keepdims=True)
    return float(np.mean(shares.argmax(axis=1) == y)), float(log_loss(y, known, labels=np.arange(shares.shape[1])))


def tuned(name: str, n_classes: int, epsilon: float, metric: int, quick: bool) -> dict[str, Any]:
    """Return the settings that are best on a quarter of the training rows of the first split."""
    X, _, y, _ = split(name, 0)
    X, X_held, y, y_held = train_test_split(X.toarray() if hasattr(X, "toarray") else X, y, test_size=0.25,
                                            random_state=1, stratify=y)  # fmt: skip

    def score(setting: dict[str, Any], seed: int) -> float:
        W = dp_sgd(X, y, n_classes, epsilon, setting, seed)
        return (1.0, -1.0)[metric] * scores(probabilities(W, X_held), y_held)[metric]

    most = max(40, int(4e7 * 20 / (X.size * n_classes)))  # passes: about ten seconds a fit at most

    found = search(
        score, space=SPACE, coarse=COARSE, default=START, cost=lambda setting: setting["epochs"],
        allowed=lambda setting: setting["epochs"] <= most, seeds=2, quick=quick,
    )  # fmt: skip
    best: dict[str, Any] = found[0]["setting"]
    return best


def row(name: str, epsilon: float, seeds: int, peer: bool, quick: bool) -> Iterator[str]:
    """Yield (accuracy, log loss) of every solver, means over seeds, and the median seconds."""
    n_classes = len(np.unique(split(name, 0)[2]))
    found: dict[str, Any] = {}
    seconds: dict[str, list[float]] = {}
    settings = [tuned(name, n_classes, epsilon, metric, quick) for metric in (0, 1)] if peer else []
    for seed in range(seeds):
        X, X_test, y, y_test = split(name, seed)
        for label, solver in SOLVERS.items():
            model = sv.DPLogisticRegression(
                epsilon=epsilon, delta=DELTA, data_norm=1.0, classes=list(range(n_classes)), solver=solver
            )
            seconds.setdefault(label, []).append(timed(lambda model=model, X=X, y=y: model.fit(X, y))[1])
            found.setdefault(label, []).append(scores(model.predict_proba(X_test), y_test))
        if settings:
            X, X_test = (table.toarray() if hasattr(table, "toarray") else table for table in (X, X_test))
            each = [scores(probabilities(dp_sgd(X, y, n_classes, epsilon, s, seed), X_test), y_test) for s in settings]
            found.setdefault("tuned DP-SGD", []).append((each[0][0], each[1][1]))
    for label, all_scores in found.items():
        accuracy, loss = np.mean(all_scores, axis=0)
        yield f"{accuracy:.4f} / {loss:.4f}" + (f" ({np.median(seconds[label]):.2g} s)" if label in seconds else "")


@benchmark(
    seeds=(4, 1), only=None, epsilons=("0.1,0.5,1,2", "1"), peer=option(False, help="tune DP-SGD too: minutes a cell")
)
def main(run) -> None:
    here = parts_at_hand(MADE_UP, tuple(name for name in SETS if name not in MADE_UP))
    names = run.only.split(",") if run.only else ["three"] if run.quick else here
    warnings.simplefilter("ignore")
    rows = (
        (name, epsilon, *row(name, epsilon, run.seeds, run.peer, run.quick))
        for name in names for epsilon in map(float, run.epsilons.split(","))
    )  # fmt: skip
    labels = (*SOLVERS, *(("tuned DP-SGD",) if run.peer else ()))
    title = f"accuracy / log loss, delta = {DELTA:g}, means of {run.seeds} splits"
    run.table(title, ("set", "epsilon", *labels), rows)
