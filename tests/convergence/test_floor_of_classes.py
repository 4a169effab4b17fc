"""With few rows a classifier is never worse than a constant by more than its noise, whatever table and budget.

Over widths, sizes, signals, shares of the rarer class and budgets where mu n is below 60, and some hundred. Means over
fits with fixed seeds, beside the exact base rate of the training part. What the base rate's own noise costs is measured
with it.
"""

from itertools import product

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.central.solvers.descent import log_odds
from sottovoce.privacy.calibration import gaussian_mu
from support.pairs import by_pairs

SEEDS, TESTED = 6, 1500


def made_up(n, d, signal, odds, seed):
    rng = np.random.default_rng([n, d, seed])
    X = rng.standard_normal((n + TESTED, d)) / np.sqrt(d)
    w = rng.standard_normal(d)
    scores = X @ (w * signal * np.sqrt(d) / np.linalg.norm(w)) + odds
    return X, np.where(rng.random(n + TESTED) < 1.0 / (1.0 + np.exp(-scores)), 1, -1)


def loss(y, z):
    return float(np.logaddexp(0.0, -y * z).mean())


def beside_a_constant(solver, size, signal, odds, epsilon):
    """Return log loss and accuracy beyond those of a noisy base rate and of the larger class, and that rate's noise."""
    (n, d), delta, found = size, 1e-6, []
    noise = 1.0 / (gaussian_mu(epsilon, delta) * n * 0.05**0.5)
    for seed in range(SEEDS):
        X, y = made_up(n, d, signal, odds, seed)
        model = sv.DPLogisticRegression(epsilon=epsilon, delta=delta, data_norm=2.0, classes=[-1, 1], random_state=seed)
        z, held = model.fit(X[:n], y[:n]).decision_function(X[n:]), y[n:]
        assert model.guarantee_.parameters["solver"] == solver
        rate = log_odds(y[:n].mean() + noise * np.random.default_rng(seed).standard_normal(), noise)
        right = np.mean((z > 0) == (held > 0)) - max(np.mean(held > 0), np.mean(held < 0))
        found.append((loss(held, z) - loss(held, np.full(TESTED, rate)), right))
    beyond, points = np.mean(found, axis=0)
    print(f"{beyond:.3f} of log loss, {100 * points:.1f} points")
    return beyond, points, noise


@pytest.mark.parametrize(
    ("size", "classes", "signal", "epsilon"),
    by_pairs([(700, 4), (700, 20), (3000, 8)], [3, 7], [0.0, 1.5], [0.1, 0.3]),
)
def test_several_classes_are_sure_of_little(size, classes, signal, epsilon):
    (n, d), delta, found = size, 1e-6, []
    for seed in range(SEEDS):
        rng = np.random.default_rng([n, d, classes, seed])
        X, W = rng.standard_normal((n + TESTED, d)) / np.sqrt(d), rng.standard_normal((d, classes))
        scores = signal * X @ W + np.linspace(0.0, 1.5, classes) + rng.gumbel(size=(n + TESTED, classes))
        y, names = scores.argmax(axis=1), list(range(classes))
        model = sv.DPLogisticRegression(epsilon=epsilon, delta=delta, data_norm=2.0, classes=names, random_state=seed)
        shares = np.maximum(np.bincount(y[:n], minlength=classes) / n, 1e-3)
        odds = model.fit(X[:n], y[:n]).predict_proba(X[n:])[np.arange(TESTED), y[n:]]
        found.append(-np.log(odds / shares[y[n:]]).mean())
    assert np.mean(found) < 0.2  # of log loss beyond a constant, whether there is much to learn or nothing


FACTS = [0.0, 1.0], [0.0, -1.5, -3.5], [0.45, 1.0]
FAST = (1.0, -1.5, 1.0)  # of the wide ones, which take seconds
WIDE = [pytest.param((700, 1000), *facts, marks=[pytest.mark.slow] * (facts != FAST)) for facts in product(*FACTS)]


@pytest.mark.parametrize(
    ("size", "signal", "odds", "epsilon"), [*by_pairs([(700, 3), (700, 20), (2000, 120)], *FACTS), *WIDE]
)
def test_nor_with_more_of_them(size, signal, odds, epsilon):
    beyond, points, _ = beside_a_constant("momentum", size, signal, odds, epsilon)
    assert beyond < 0.08
    assert points > -0.03


@pytest.mark.parametrize(
    ("size", "signal", "odds", "epsilon"),
    by_pairs([(200, 3), (700, 20), (700, 300)], [0.0, 1.0], [0.0, -1.5, -3.5], [0.02, 0.1, 0.3]),
)
def test_hardly_worse_than_a_constant(size, signal, odds, epsilon):
    beyond, points, noise = beside_a_constant("gd", size, signal, odds, epsilon)
    assert beyond < 0.06  # beyond a noisy base rate: what the noise of the slopes adds
    if noise < 0.5:
        assert points > -0.12
