"""More budget never gives a worse model, but for noise: over a grid that holds every place where "auto" changes solver.

Two classes, mean log loss of the rows of a large other sample, at budgets from next to nothing to hardly any noise, on
five kinds of tables: columns of which some hundredth of the variance of others is what labels follow, codes of
categories, shares of words, a clean one, and documents with more words than the budget tells apart. Seeds are fixed; a
rise counts beyond two standard errors and .002.
"""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import log_loss

import sottovoce as sv
from support.pairs import every_second

EPSILONS = (0.03, 0.05, 0.07, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0, 2.0, 8.0)
ROWS, TESTED, SEEDS = 3000, 4000, 6


def conditioned(rng, n):
    Z, turn = rng.standard_normal((n, 16)), np.linalg.qr(np.random.default_rng(5).standard_normal((16, 16)))[0]
    return (Z * 0.75 ** np.arange(16)) @ turn / 4.0 + 0.075, Z @ np.random.default_rng(3).standard_normal(16), 4.0, 1.0


def codes(rng, n):
    drawn = rng.choice(6, (n, 10), p=(0.5, 0.2, 0.15, 0.1, 0.04, 0.01))
    X = np.hstack([np.eye(6)[column] for column in drawn.T])
    return X, X @ np.random.default_rng(2).standard_normal(60), 3.0, math.sqrt(10.0)


def words(rng, n):
    X = np.log1p(rng.gamma(0.15, 1.0, (n, 50)) * np.exp(np.random.default_rng(4).standard_normal(50)))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True) / 1.5)
    return X, X @ np.random.default_rng(1).standard_normal(50), 2.5, 1.5


def clean(rng, n):
    X = rng.standard_normal((n, 8))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, 2.0 * X[:, 0] - X[:, 1], 2.0, 1.0


def documents(rng, n):
    drawn = np.minimum(rng.zipf(1.3, (n, 25)), 600) - 1
    X = sp.csr_matrix((np.ones(drawn.size), drawn.ravel(), np.arange(0, drawn.size + 1, 25)), (n, 600))
    X.sum_duplicates()
    X.data[:] = 1.0 / np.sqrt(np.repeat(np.diff(X.indptr), np.diff(X.indptr)))
    return X, X @ np.random.default_rng(6).standard_normal(600), 3.0, 1.0


@pytest.mark.parametrize("kind", every_second([conditioned, words, clean, documents, codes]))
def test_more_budget_never_gives_a_worse_model(kind):
    losses, solvers = np.empty((SEEDS, len(EPSILONS))), set()
    for seed in range(SEEDS):
        rng = np.random.default_rng([seed, 7])
        X, score, spread, norm = kind(rng, ROWS + TESTED)
        odds = spread * (score - np.median(score)) / score.std()
        y = np.where(rng.random(len(odds)) < 1.0 / (1.0 + np.exp(-odds)), 1, -1)
        for place, epsilon in enumerate(EPSILONS):
            model = sv.DPLogisticRegression(
                epsilon=epsilon, delta=1e-5, data_norm=norm, classes=[-1, 1], random_state=seed
            ).fit(X[:ROWS], y[:ROWS])
            solvers.add(model.guarantee_.parameters["solver"])
            losses[seed, place] = log_loss(y[ROWS:], model.predict_proba(X[ROWS:]))
    rises = np.diff(losses, axis=1)
    allowed = 0.002 + 2.0 * rises.std(axis=0, ddof=1) / math.sqrt(SEEDS)
    worst = np.argmax(rises.mean(axis=0) - allowed)
    assert np.all(rises.mean(axis=0) <= allowed), (EPSILONS[worst : worst + 2], losses.mean(axis=0).round(4))
    assert solvers == {"gd", "momentum", "newton"}
