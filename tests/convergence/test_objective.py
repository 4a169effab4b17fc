"""objective="accuracy" errs no more than objective="probability", less where odds are not logistic, and costs nothing.

Over tables where the odds are logistic, where a share of one class is marked as the other, where one class is rare, and
budgets. And the choice by itself: with exact counts no cut puts more rows on the right side.
"""

import math
from itertools import product

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.central.calibration import accurate_shift
from sottovoce.central.sums.shared_counts import NODES
from sottovoce.exceptions import ParameterError
from sottovoce.report import verify_receipt

N, D = 12_000, 6


def made_up(missed, odds, seed):
    """Return rows and labels; so many of those of class 1 are marked as class 0."""
    rng = np.random.default_rng([seed, round(100 * missed)])
    X = rng.uniform(-1.0, 1.0, (2 * N, D))
    scores = 6.0 * X @ np.array([1.0, -0.8, 0.5, 0.0, 0.3, 0.0]) + odds
    y = (rng.random(2 * N) < 1.0 / (1.0 + np.exp(-scores))) & (rng.random(2 * N) >= missed)
    return X, y.astype(int)


def fitted(objective, X, y, epsilon, **given):
    budget = {"epsilon": epsilon, "delta": None if math.isinf(epsilon) else 1e-6, "random_state": 0}
    given = {"data_norm": D**0.5, "classes": [0, 1], **given}
    return sv.DPLogisticRegression(objective=objective, **budget, **given).fit(X, y)


@pytest.mark.parametrize(("missed", "odds"), [*product([0.0, 0.4], [0.0, 2.0, -3.0])])
def test_no_more_errors_at_no_cost(missed, odds):
    X, y = made_up(missed, odds, 1)
    for epsilon in (0.1, 1.0, 4.0, math.inf):
        likely, right = (fitted(each, X[:N], y[:N], epsilon) for each in ("probability", "accuracy"))
        assert right.guarantee_.event == likely.guarantee_.event
        assert np.array_equal(right.coef_, likely.coef_)
        gain = right.score(X[N:], y[N:]) - likely.score(X[N:], y[N:])
        moved = np.mean(right.predict(X[N:]) != likely.predict(X[N:]))
        assert gain >= -3.0 * math.sqrt(moved / N)
        if missed and odds == 2.0 and epsilon >= 1.0:
            assert gain > 0.01
        if not missed and epsilon <= 4.0:
            assert moved < 0.02
        assert verify_receipt(right).passed
        assert right.guarantee_.parameters.get("objective") == "accuracy"
        assert "objective" not in likely.guarantee_.parameters


def test_more_classes_and_other_solvers_stay_as_they_are():
    X, y = made_up(0.4, 2.0, 2)
    three = np.where(X[:, 0] > 0.5, 2, y)
    for labels, given in ((three, {"classes": [0, 1, 2]}), (y, {"solver": "sgd"})):
        one, other = (fitted(each, X[:800], labels[:800], 1.0, **given) for each in ("probability", "accuracy"))
        assert np.array_equal(one.coef_, other.coef_)
        assert np.array_equal(one.intercept_, other.intercept_)
        assert "objective" not in other.guarantee_.parameters and "objective" not in other.plan(800, D).summary()
        assert verify_receipt(other).passed


@pytest.mark.parametrize(
    "given", [{"fit_intercept": False}, {"class_weight": {0: 1.0, 1: 2.0}}, {"max_sample_weight": 2.0}]
)
def test_what_it_cannot_be_asked_of_is_refused(given):
    with pytest.raises(ParameterError, match="objective='accuracy'"):
        fitted("accuracy", np.zeros((9, D)), np.zeros(9), 1.0, **given)
    with pytest.raises(ParameterError, match="objective must be one of"):
        fitted("accurate", np.zeros((9, D)), np.zeros(9), 1.0)


@pytest.mark.parametrize("seed", range(20))
def test_the_cut_that_is_right_for_most_rows(seed):
    rng = np.random.default_rng(seed)
    z = rng.normal(rng.normal(), 1.0 + rng.random(), 40_000)
    y = rng.random(len(z)) < rng.random() / (1.0 + np.exp(-2.0 * (z - rng.normal())))
    place = np.clip(np.searchsorted(NODES, z) - 1, 0, len(NODES) - 2)
    share = np.clip((z - NODES[place]) / (NODES[place + 1] - NODES[place]), 0.0, 1.0)
    counts = np.zeros((2, len(NODES)))
    np.add.at(counts, (y.astype(int), place), 1.0 - share)
    np.add.at(counts, (y.astype(int), place + 1), share)
    slope, shift = 0.5 + rng.random(), rng.normal()
    moved = accurate_shift(counts.ravel(), np.zeros((counts.size, 1)), 0.0, slope, shift)

    def right(of):
        return float(np.mean((slope * z + of > 0.0) == y))

    every = np.sort(z)
    best = max(float(np.mean((z > cut) == y)) for cut in [-np.inf, *every[:: len(z) // 400], np.inf])
    assert right(moved) >= right(shift) - 0.002  # rows are known to a node
    assert right(moved) >= best - 0.03 - 3.0 / math.sqrt(len(z))
    # and noise that hides the counts moves nothing
    assert accurate_shift(counts.ravel(), np.eye(counts.size), 1e9, slope, shift) == shift
