"""With exact moments the local fits are the non-private optimum."""

import numpy as np
import pytest

from sottovoce.local.fits.moments import MomentEstimate
from sottovoce.local.fits.ridge import Layout, ridge, ridge_by_folds


def people(n=500, d=5, seed=0, constant=None):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) + rng.standard_normal(d)
    X /= 1.2 * np.linalg.norm(X, axis=1, keepdims=True) * rng.uniform(1, 2, (n, 1))
    if constant is not None:
        X = np.hstack([X, np.full((n, 1), constant)])
    X = np.hstack([X, np.sqrt(1 - (X * X).sum(axis=1, keepdims=True))])  # norm 1
    s = np.sign(X @ rng.standard_normal(X.shape[1]) + 0.2 + 0.3 * rng.standard_normal(n))
    return X, s


def exact(X, s):
    return MomentEstimate(len(X), X.T @ s / len(X), X.T @ X / len(X), 0.0, 0.0)


@pytest.mark.parametrize("free", ["top", None])
def test_ridge_without_penalty_solves_the_normal_equations(free):
    X, s = people()
    w = ridge(exact(X, s), 0.0, Layout(6, None, free))
    np.testing.assert_allclose(w, np.linalg.lstsq(X, s, rcond=None)[0], rtol=1e-8)


@pytest.mark.parametrize(("constant", "layout"), [(0.3, Layout(7, 6, 5, 0.3)), (None, Layout(6, 5, None))])
def test_ridge_leaves_out_what_the_model_does_not_use(constant, layout):
    X, s = people(constant=constant)
    estimate = exact(X, s)
    w = ridge_by_folds(estimate, [(estimate, estimate)], 0.0, layout)
    used = layout.n_used
    np.testing.assert_allclose(w[:used], np.linalg.lstsq(X[:, :used], s, rcond=None)[0], rtol=1e-8)
    assert not w[used:].any()


def test_a_penalised_ridge_has_the_best_slope_and_free_part_of_its_directions():
    """w = lead + c v: no other pair of factors predicts better, and without slope it is the scikit-learn solution."""
    from sklearn.linear_model import Ridge

    X, s = people(constant=0.3)
    estimate = exact(X, s)
    w = ridge(estimate, 0.05, Layout(7, 6, 5, 0.3))
    v = Ridge(0.05 * len(X)).fit(X[:, :5], s).coef_
    factor = w[:5] @ v / (v @ v)
    np.testing.assert_allclose(w[:5], factor * v, rtol=1e-8)
    best = np.linalg.lstsq(np.column_stack([X[:, :5] @ v, X[:, 5]]), s, rcond=None)[0]
    np.testing.assert_allclose([factor, w[5]], best, rtol=1e-8)


def test_empty_directions_get_no_coefficient():
    X, s = people()
    X = np.hstack([X, np.zeros((len(X), 1))])
    assert ridge(exact(X, s), 0.0)[-1] == pytest.approx(0.0, abs=1e-9)
