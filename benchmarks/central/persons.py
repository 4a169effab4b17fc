"""People with several rows: what a guarantee for a person costs, by the number of rows that are used of one.

    python -m benchmarks.central.persons [--seeds 2] [--rule] [--docs] [--quick]

Real tables have one row a person here, so people are made: ten training rows each, put together at random, or of rows
that are alike (leaves of a tree of random projections), or alike and of one label. A fit with groups uses k rows of a
person, and is told the public number of those. Beside it is what a fit for rows must ask for to protect ten of them:
group privacy of Gaussian DP (mu / 10), and basic composition (epsilon / 10, delta / 10). Test rows are of other people;
where people have one label, ten alike test rows have one say. delta = 1e-5, for a person.

``--rule`` compares powers of k for the clip of a person's rows together, on sets that rules may be chosen on.
"""

from functools import cache
from unittest import mock

import numpy as np
from scipy.special import expit
from sklearn.metrics import log_loss

import sottovoce as sv
from benchmarks.common import data_folder
from benchmarks.driver import benchmark, option
from benchmarks.sets import is_regression, split
from sottovoce.central.solvers import accelerated
from sottovoce.privacy.accounting import gaussian_epsilon
from sottovoce.privacy.calibration import gaussian_mu

CHOSEN, POWERS = ("mushrooms", "phishing", "german", "w8a"), (0.0, 0.25, 0.5)
NAMES = ("mushrooms", "adult", "bank", "credit", "casp")  # but for the first, none chose the power
OWN = 10  # rows of a person
USED = (1, 3, 10)
EPSILONS = (1.0,)
DELTA = 1e-5
KINDS = ("random", "alike", "one label")
HEAD = ("data", "people", "epsilon", "k = 1", "k = 3", "k = 10", "rows, mu / 10", "rows, epsilon / 10")


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
    if kind == "alike":
        return alike(X, seed)
    people = np.zeros(X.shape[0], np.int64)
    for label in np.unique(y):
        mine = y == label
        people[mine] = people.max() + 1 + alike(X[mine], seed)
    return people


def scores(model, name, kind, X, y, public, seed):
    """Return accuracy and log loss; of people with one label, whose rows have one say; for numbers R^2, twice."""
    if is_regression(name):
        return (model.score(X, y),) * 2
    right, z = y == public["classes"][1], model.decision_function(X)
    if kind == "one label":
        people = people_of(kind, X, y, seed)
        size = np.bincount(people)
        right, z = (np.bincount(people, values) / np.maximum(size, 1) for values in (right, z))
        right, z = right[size > 0] > 0.5, z[size > 0]
    return np.mean((z > 0.0) == right), log_loss(right, expit(z), labels=[False, True])


@cache
def fitted(name, kind, seed, *, epsilon, delta=DELTA, used=None, **given):
    """Return test scores of one fit, for persons or (``used=None``) for rows."""
    X, y, X_test, y_test, public = split(name, seed)
    model = (sv.DPRidge if is_regression(name) else sv.DPLogisticRegression)(
        epsilon=epsilon, delta=delta, random_state=seed, **public, **given
    )
    if used is None:
        model.fit(X, y)
    else:
        n_public = min(X.shape[0], used * (X.shape[0] // OWN))
        model.set_params(max_rows_per_group=used, n_public=n_public)
        model.fit(X, y, groups=people_of(kind, X, y, seed))
    return scores(model, name, kind, X_test, y_test, public, seed)


def smaller(epsilon):
    """Return the epsilon of a row at which ten rows together have ``epsilon``, by group privacy of Gaussian DP."""
    return gaussian_epsilon(gaussian_mu(epsilon, DELTA) / OWN, DELTA)


def compare(names, epsilons, seeds):
    """Yield rows of k = 1, 3, 10 beside group privacy and basic composition."""
    for name in names:
        for kind in KINDS[: 2 if is_regression(name) else 3]:
            for epsilon in epsilons:
                ways = [
                    *({"epsilon": epsilon, "used": used} for used in USED),
                    {"epsilon": smaller(epsilon)},
                    {"epsilon": epsilon / OWN, "delta": DELTA / OWN},
                ]
                # a fit for rows knows nothing of people
                kinds_of = [kind if "used" in way or kind == "one label" else "random" for way in ways]
                pairs = zip(kinds_of, ways, strict=True)
                found = np.array([[fitted(name, of, seed, **way) for seed in range(seeds)] for of, way in pairs])
                yield name, kind, epsilon, *(
                    f"{first:.3f}" if is_regression(name) else f"{first:.4f} / {second:.3f}"
                    for first, second in found.mean(axis=1)
                )  # fmt: skip


def rule(names, seeds):
    """Yield rows by powers of k for the clip of a person's rows together."""
    for name in names:
        for kind in KINDS:
            found = []
            for power in POWERS:
                fitted.cache_clear()
                with mock.patch.object(accelerated, "_TOGETHER", power):
                    found.append(np.mean([fitted(name, kind, seed, epsilon=1.0, used=OWN) for seed in range(seeds)], 0))
            yield name, kind, *(f"{first:.4f} / {second:.3f}" for first, second in found)


@benchmark(
    page="measured/persons.md", rule=option(False, help="compare clips of a person's rows together, no more"),
    seeds=(2, 1),
)  # fmt: skip
def main(run) -> None:
    data_folder()
    if run.rule:
        head = ("data", "people", *(f"power {power:g}" for power in POWERS))
        run.table("accuracy / log loss, by the power", head, rule(CHOSEN, run.seeds))
        return
    rows = compare(("german",) if run.quick else NAMES, EPSILONS, run.seeds)
    run.table(f"accuracy / log loss, or R^2; means of {run.seeds} splits", HEAD, rows, mark="persons")
