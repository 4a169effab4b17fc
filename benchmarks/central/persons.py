"""People with several rows: what a guarantee for a person costs, by the number of rows that are used of one.

    python -m benchmarks.central.persons [--seeds 3] [--rule] [--docs] [--quick]

Real tables have one row a person here, so people are made: ten training rows each, put together at random, or of rows
that are alike (leaves of a tree of random projections; ``one label``: within each class). A fit with groups uses k rows
of a person, and is told the public number of those. Beside it: group privacy, a fit for rows of all ten with mu / 10,
and one with epsilon / 10 and delta / 10, which is what basic composition asks for. Test rows are of other people.
delta = 1e-5 for a person.

``--rule`` compares the power of k that bounds a person's rows together, on the sets that rules may be chosen on.
"""

from unittest import mock

import numpy as np
from sklearn.metrics import log_loss

import sottovoce as sv
from benchmarks.common import show
from benchmarks.sets import is_regression, split
from sottovoce.central.solvers import accelerated

CHOSEN = ("a9a", "phishing", "w8a", "mushrooms", "reuters", "german", "cal_housing")
CONFIRMED = ("adult", "bank", "credit", "skin", "mnist_4v9", "casp")
OWN = 10  # rows of a person
USED = (1, 3, 10)
EPSILONS = (0.5, 1.0, 2.0, 4.0)
POWERS = (0.0, 0.5, 1.0)
DELTA = 1e-5
KINDS = ("random", "alike", "one label")


def alike(X, seed):
    """Return a person for each row: leaves of `OWN` rows of a tree whose nodes halve their rows along a direction."""
    rng = np.random.default_rng(seed)
    projected = np.asarray(X @ rng.standard_normal((X.shape[1], 64)))
    people, todo, found = np.zeros(X.shape[0], np.int64), [np.arange(X.shape[0])], 0
    while todo:
        rows = todo.pop()
        if len(rows) <= OWN:
            people[rows], found = found, found + 1
            continue
        one, other = projected[rng.choice(rows, 2, replace=False)]
        along = np.argsort(projected[rows] @ (one - other), kind="stable")
        half = max(OWN, round(len(rows) / 2 / OWN) * OWN)  # whole people, but for the last one
        todo += [rows[along[:half]], rows[along[half:]]]
    return people


def people_of(kind, X, y, seed):
    """Return a person for each row."""
    if kind == "random":
        return np.random.default_rng(seed).permutation(X.shape[0]) // OWN
    if kind == "alike" or (y.dtype.kind == "f" and len(np.unique(y)) > 20):
        return alike(X, seed)
    people = np.zeros(X.shape[0], np.int64)
    for label in np.unique(y):
        mine = y == label
        people[mine] = people.max() + 1 + alike(X[mine], seed)
    return people


def scores(model, name, X, y, public):
    """Return accuracy and log loss, or, for numbers, the share of the variance that is explained, twice."""
    if is_regression(name):
        return model.score(X, y), 1.0 - model.score(X, y)
    right = y == public["classes"][1]
    return model.score(X, y), log_loss(right, model.predict_proba(X)[:, 1], labels=[False, True])


def fitted(name, seed, people, *, epsilon, delta=DELTA, used=None, **given):
    """Return test scores of one fit, for persons or (``used=None``) for rows."""
    X, y, X_test, y_test, public = split(name, seed)
    kind = sv.DPRidge if is_regression(name) else sv.DPLogisticRegression
    model = kind(epsilon=epsilon, delta=delta, random_state=seed, **public, **given)
    if used is None:
        model.fit(X, y)
    else:
        n_public = min(X.shape[0], used * (X.shape[0] // OWN))
        model.set_params(max_rows_per_group=used, n_public=n_public).fit(X, y, groups=people)
    return scores(model, name, X_test, y_test, public)


def rule(names, epsilons, seeds):
    """Compare powers of k, for the solver whose rule it is."""
    rows, results = [], {}
    for name in names:
        for kind in KINDS[:2]:
            for epsilon in epsilons:
                for used in USED[1:]:
                    found = []
                    for power in POWERS:
                        with mock.patch.object(accelerated, "_SEEN", power):
                            found.append(np.mean([
                                fitted(name, seed, people_of(kind, *split(name, seed)[:2], seed), epsilon=epsilon,
                                       used=used, solver="scd")
                                for seed in range(seeds)
                            ], axis=0))  # fmt: skip
                    results[f"{name} {kind} {epsilon:g} {used}"] = [list(one) for one in found]
                    cells = (f"{accuracy:.4f} {loss:.4f}" for accuracy, loss in found)
                    rows.append((name, kind, f"{epsilon:g}", str(used), *cells))
                    print(*rows[-1], sep=" | ", flush=True)
    head = ("data", "people", "epsilon", "k", *(f"power {power:g}" for power in POWERS))
    show(f"accuracy and log loss (ridge: explained variance and the rest) by power, {seeds} splits", head, rows)
    return results
