"""What the defaults of logistic regression gain from rules, beside the same defaults without them.

    python -m benchmarks.central.rules [--seeds 4] [--only chosen|confirmed|digits,bank] [--epsilons 0.1,1] [--quick]
                                      [--rule two|pace|steps|momentum|wide]

``wide`` is of decision 64: steps for many columns, chosen on reuters, parts of it and of w8a, and made-up documents.
``steps`` is of decision 45: steps of several classes in place of passes, chosen on digits and pendigits. ``pace`` is of
decision 38: many short Newton steps, chosen on tables of two classes in `CHOSEN`, spambase and htru2. The others are of
decision 30: a floor of Newton's penalty that falls, and descent from a base rate, chosen on `CHOSEN` and on four tables
of ``second/``. `CONFIRMED` was run once for each, its 700 rows once more after a change (30). ``~700`` behind a name is
so many training rows. A made-up table is ``ill`` (scales of columns fall by .8 each) or ``mix`` (they do not), two
clouds a class, and its number of classes; ``hot`` has indicator columns and noisy labels.
Tables of ``second/`` in the data folder are read by the module there. ``letter`` is UCI's letter recognition, where
``letter-recognition.data`` is in the data folder; it was not known for decision 30.
"""

import math
import runpy
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any

import numpy as np
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import train_test_split

import sottovoce as sv
from benchmarks.common import data_folder
from benchmarks.driver import benchmark, option, timed
from benchmarks.sets import split as split_of_set
from sottovoce.central import newton_schedule
from sottovoce.central.solvers import descent, multinomial, newton
from sottovoce.estimators import _solvers, base
from sottovoce.privacy.calibration import gaussian_mu

DELTA = 1e-5
CHOSEN = (
    "ill10", "mix10", "ill3", "ill20", "hot12", "digits", "ill2", "mushrooms", "phishing", "a9a", "w8a", "german",
    "mushrooms~700", "phishing~700", "a9a~1000", "w8a~1000",
)  # fmt: skip
CONFIRMED = (
    "occupation", "skin", "bank", "credit", "mnist_4v9", "adult", "madelon", "bank~700", "credit~700", "skin~700",
    "mnist_4v9~700", "adult~700", "news20~700",
)  # fmt: skip
PLACES = {
    "pace": ((newton, "PATIENT", newton_schedule.QUICK),),
    "wide": ((_solvers, "_PLENTY", 0.0), (_solvers, "_PLENTY_EACH", 0.0), (descent, "_LEAST", 0.0)),
    "momentum": ((_solvers, "_PLENTY", 0.0), (_solvers, "_PLENTY_EACH", 0.0)),
    "steps": ((multinomial, "pays", lambda facts: False),),
    "two": ((newton_schedule, "_LEAST_PENALTY", 0.1), (_solvers, "_LITTLE", 0.0)),
}  # where rules are, and what they were before


@cache
def made_up(kind: str, n_classes: int) -> tuple[Any, Any, float]:
    """Return rows, classes and a bound on the rows."""
    if kind == "hot":
        rng, n = np.random.default_rng(3), 24_000
        columns, hidden = [], rng.standard_normal((n, 3))
        for size in (8, 16, 7, 14, 6, 5, 2, 12, 10):
            scores = hidden @ (0.9 * rng.standard_normal((3, size))) + 1.5 * rng.gumbel(size=(n, size))
            columns.append(np.eye(size)[(scores + rng.standard_normal(size)).argmax(axis=1)])
        seen = np.clip(hidden[:, :2] + 0.5 * rng.standard_normal((n, 2)), -3.0, 3.0) / 3.0
        X = np.hstack([*columns, seen])
        odds = X @ (0.55 * rng.standard_normal((X.shape[1], n_classes))) + rng.standard_normal(n_classes)
        return X, (odds + rng.gumbel(size=(n, n_classes))).argmax(axis=1), 11.0**0.5
    rng, n, d = np.random.default_rng(5), 12_000, 16
    rotation = np.linalg.qr(rng.standard_normal((d, d)))[0]
    cloud, centres = rng.integers(2 * n_classes, size=n), 1.6 * rng.standard_normal((2 * n_classes, d))
    scales = (0.8 if kind == "ill" else 1.0) ** np.arange(d)
    X = ((centres[cloud] + rng.standard_normal((n, d))) * scales) @ rotation
    X = np.clip(X / np.abs(X).max() + rng.uniform(-0.4, 0.4, d), -1.0, 1.0)
    return X, cloud % n_classes, 4.0


@cache
def second() -> dict[str, Any]:
    """Return what the module beside the second tables defines."""
    return runpy.run_path(str(data_folder() / "second" / "load.py"))


def split(name: str, seed: int) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
    """Return training rows and labels, test rows and labels, and what is public."""
    base, _, size = name.partition("~")
    if base[:3] in ("ill", "mix", "hot"):
        X, y, norm = made_up(base[:3], int(base[3:]))
        X, X_test, y, y_test = train_test_split(X, y, test_size=0.25, random_state=seed, stratify=y)
        return X, y, X_test, y_test, {"data_norm": norm, "classes": list(range(int(base[3:])))}
    if base in ("gmsc", "diabetes130", "htru2", "pendigits", "rt_polarity", "spambase", "pima"):
        X, y, X_test, y_test, public = second()["split"](base, seed)
        return X, y, X_test, y_test, {name: public[name] for name in ("data_norm", "classes")}
    if base == "letter":
        table = np.loadtxt(data_folder() / "letter-recognition.data", dtype=str, delimiter=",")
        X, y = table[:, 1:].astype(float) / 7.5 - 1.0, table[:, 0]  # whole numbers from 0 to 15
        X, X_test, y, y_test = train_test_split(X, y, test_size=0.25, random_state=seed, stratify=y)
        return X, y, X_test, y_test, {"data_norm": 4.0, "classes": sorted(set(table[:, 0].tolist()))}
    X, y, X_test, y_test, public = split_of_set(base, seed)
    if size:
        few = np.random.default_rng(seed).permutation(len(y))[: int(size)]
        X, y = X[few], np.asarray(y)[few]
    return X, y, X_test, y_test, public


@contextmanager
def without(rules: str) -> Iterator[None]:
    """Set rules as they were, and set them back."""
    now = [(module, name, getattr(module, name)) for module, name, _ in PLACES[rules]]
    for places in (PLACES[rules], now):
        for module, name, value in places:
            setattr(module, name, value)
        base._planned.cache_clear()
        if places is not now:
            yield


def measured(name: str, epsilon: float, seed: int, rules: str) -> tuple[str, Any, list[float]]:
    """Return the solver, (accuracy, log loss, AUC) without the rules and with them, and the seconds of both."""
    X, y, X_test, y_test, public = split(name, seed)
    found, seconds, model = [], [], None
    for before in (without(rules), nullcontext()):
        with before:
            model = sv.DPLogisticRegression(epsilon=epsilon, delta=DELTA, random_state=seed, **public)
            seconds.append(timed(lambda model=model: model.fit(X, y))[1])
        shares = np.clip(model.predict_proba(X_test), 1e-15, 1.0)
        area = roc_auc_score(y_test, shares[:, 1]) if shares.shape[1] == 2 else math.nan
        found.append((model.score(X_test, y_test), log_loss(y_test, shares, labels=model.classes_), area))
    return model.guarantee_.parameters["solver"], np.array(found), seconds


def row(name: str, epsilon: float, seeds: int, rules: str) -> tuple[Any, ...]:
    runs = [measured(name, epsilon, seed, rules) for seed in range(seeds)]
    both = np.array([each[1] for each in runs])
    means, gains = both.mean(axis=0), both[:, 1] - both[:, 0]
    errors = gains.std(axis=0, ddof=min(1, seeds - 1)) / math.sqrt(seeds)
    points, loss, area = (
        f"{unit * gain:+.{digits}f} ± {unit * error:.{digits}f}" if not math.isnan(gain) else ""
        for unit, digits, gain, error in zip((100, 1, 100), (2, 4, 2), gains.mean(axis=0), errors, strict=True)
    )
    known = gaussian_mu(epsilon, DELTA) * len(split(name, 0)[1])
    seconds = np.median([each[2] for each in runs], axis=0)
    return (name, epsilon, known, runs[0][0], *means[:, 0], points, *means[:, 1], loss, area, *seconds)


HEAD = (
    "table", "epsilon", "mu n|.0f", "solver", "accuracy before|.4f", "after|.4f", "points", "log loss before|.4f",
    "after|.4f", "difference", "AUC, points", "seconds before|.2f", "after|.2f",
)  # fmt: skip


@benchmark(
    page="measured/accuracy.md", seeds=(4, 1), only=("chosen", "ill3"), epsilons=("0.1,0.5,1", "1"),
    rule=option("two", choices=tuple(PLACES)),
)  # fmt: skip
def main(run) -> None:
    warnings.simplefilter("ignore")
    rules = run.rule
    names = {"chosen": CHOSEN, "confirmed": CONFIRMED}.get(run.only, tuple(run.only.split(",")))
    rows = (row(n, e, run.seeds, rules) for n in names for e in map(float, run.epsilons.split(",")))
    title = f"defaults before and after rules ({rules}), delta = {DELTA:g}, {run.seeds} splits (± standard error)"
    run.table(title, HEAD, rows, width=200)
