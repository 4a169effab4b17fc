"""A free intercept at every party: their sum is the intercept, also where columns contain the constant."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from sottovoce.vertical import VerticalLogisticRegression, split_columns


@pytest.fixture(scope="module")
def one_hot():
    """Two parties, two answers of four kinds each, as one-hot columns, which add up to a column of ones."""
    rng = np.random.default_rng(0)
    X = np.hstack([np.eye(4)[rng.choice(4, 3000, p=[0.1, 0.2, 0.3, 0.4])] for _ in range(4)])
    score = X @ rng.normal(size=16) - 1.0
    return X, np.where(rng.random(3000) < 1.0 / (1.0 + np.exp(-score)), 1.0, -1.0)


def test_the_sum_is_the_intercept(one_hot):
    X, y = one_hot
    parties = split_columns(X, [8, 8])
    model = VerticalLogisticRegression(epsilon=np.inf, tol=1e-12).fit(parties, y)
    best = LogisticRegression(C=1.0, tol=1e-12, max_iter=10_000).fit(X, y)
    intercepts = [part.intercept for part in model.parts_.values()]
    assert min(map(abs, intercepts)) > 0.0
    assert sum(intercepts) == pytest.approx(best.intercept_[0], abs=1e-5)
    np.testing.assert_allclose(model.decision_function(parties), best.decision_function(X), atol=1e-5)


def test_none(one_hot):
    parties = split_columns(one_hot[0], [8, 8])
    model = VerticalLogisticRegression(epsilon=np.inf, fit_intercept=False).fit(parties, one_hot[1])
    assert [part.intercept for part in model.parts_.values()] == [0.0, 0.0]
