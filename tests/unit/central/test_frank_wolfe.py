"""DPLasso and DPSparseLogisticRegression: the sets of coefficients, the steps, runs without noise, what is told."""

import math
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

import sottovoce as sv
from sottovoce.central.coefficient_sets import SETS, coefficient_set
from sottovoce.exceptions import ParameterError
from sottovoce.privacy.events import BoundedRangeEvent, RepeatedEvent
from support.pairs import by_pairs

rng = np.random.default_rng(0)
X = rng.uniform(-2.0, 2.0, (400, 12))
Y = np.clip(3.0 + X[:, 1] - 0.5 * X[:, 4] + rng.normal(0.0, 0.2, 400), 0.0, 6.0)
CLASS = np.where(Y > 3.0, "high", "low")
BUDGET = {"epsilon": 1.0, "delta": 1e-5, "random_state": 0, "data_bound": 2.0}
EACH_SET = [(name, free) for name in SETS for free in (False, True) if (name, free) != ("simplex", True)]


def lasso(**changed):
    return sv.DPLasso(**{**BUDGET, "label_bounds": (0.0, 6.0), "radius": 2.0, **changed})


def logistic(**changed):
    return sv.DPSparseLogisticRegression(**{**BUDGET, "radius": 4.0, "classes": ["high", "low"], **changed})


BOTH = pytest.mark.parametrize(("make", "y"), [(lasso, Y), (logistic, CLASS)], ids=["lasso", "logistic"])


def corners(kind):
    """Return every corner as a point, in the order of the candidates."""
    width, places = int(kind.columns.max()) + 1, range(len(kind.columns))
    return np.array([kind.radius * sign * np.eye(width)[column] for column, sign in map(kind.corner, places)])


@pytest.mark.parametrize(("name", "has_intercept"), EACH_SET)
def test_scores_belong_to_their_corners(name, has_intercept):
    kind = coefficient_set(name, 2.0, 5, has_intercept=has_intercept)
    sums = np.array([7, -3, 0, 11, -5])
    points = corners(kind)
    np.testing.assert_array_equal(2.0 * kind.scores(sums), -points @ sums)
    assert kind.steepest(sums.astype(float)) == np.max(-points @ sums)
    wanted = {"l1": 10, "nonnegative": 6 + has_intercept, "simplex": 5}[name]
    assert len(np.unique(points, axis=0)) == len(points) == wanted
    assert (points[:, -1] < 0).any() == (name == "l1" or has_intercept)
    assert (points[:, :4] < 0).any() == (name == "l1")


@pytest.mark.parametrize(("name", "has_intercept"), EACH_SET)
@pytest.mark.parametrize("radius", [1e-3, 1.0, 50.0])
def test_nearest_points(name, has_intercept, radius):
    """In the set, at an obtuse angle to every corner; a point of the set is its own."""
    kind, rng = coefficient_set(name, radius, 6, has_intercept=has_intercept), np.random.default_rng(1)
    points = corners(kind)
    for _ in range(15):
        w = rng.normal(size=6)
        z = kind.project(w.copy())
        assert np.abs(z).sum() <= radius * (1 + 1e-12)
        assert name == "l1" or (z[: 6 - has_intercept] >= 0.0).all()
        assert name != "simplex" or z.sum() == pytest.approx(radius)
        assert ((points - z) @ (w - z)).max() <= 1e-9 * max(1.0, radius)
        np.testing.assert_allclose(kind.project(z.copy()), z, atol=1e-12 * max(1.0, radius))


@pytest.mark.parametrize("constraint", SETS)
def test_without_noise_it_is_the_optimum_of_another_solver(constraint):
    y = np.clip(X @ ([0.3, 0.0, 0.2, -0.2] + [0.0] * 8) + 0.1 * np.random.default_rng(1).normal(size=400), -3.0, 3.0)
    given = {"label_bounds": (-3.0, 3.0), "fit_intercept": False, "radius": 0.5, "constraint": constraint}
    model = lasso(epsilon=math.inf, tol=1e-10, **given).fit(X, y)
    signs = np.array([1.0, -1.0] if constraint == "l1" else [1.0])  # coefficients are differences of positive parts
    reference = minimize(
        lambda w: 0.5 * np.mean((X @ (signs @ w.reshape(len(signs), 12)) - y) ** 2), np.full(12 * len(signs), 0.01),
        bounds=[(0, None)] * 12 * len(signs), options={"ftol": 1e-14, "maxiter": 1000},
        constraints=[{"type": "eq" if constraint == "simplex" else "ineq", "fun": lambda w: 0.5 - w.sum()}],
    )  # fmt: skip
    np.testing.assert_allclose(model.coef_, signs @ reference.x.reshape(len(signs), 12), atol=1e-4)
    assert model.guarantee_.not_covered == ("everything: no noise was added",)
    words = {"l1": "l1 ball", "nonnegative": "non-negative part", "simplex": "simplex"}[constraint]
    assert words in model.guarantee_.mechanism
    private = lasso(epsilon=1e5, n_steps=1000, **given).fit(X, y)
    found, least = (0.5 * np.mean((X @ each.coef_ - y) ** 2) for each in (private, model))
    assert least - 1e-9 <= found <= 1.02 * least


@pytest.mark.parametrize(
    ("make", "constraint", "epsilon", "fit_intercept"),
    by_pairs([lasso, logistic], list(SETS), [0.5, 1e4, math.inf], [False, True]),
)
def test_models_are_in_the_set(make, constraint, epsilon, fit_intercept):
    if constraint == "simplex" and fit_intercept:
        with pytest.raises(ParameterError, match="give fit_intercept=False"):
            make(constraint=constraint, fit_intercept=True).fit(X, Y)
        return
    y = Y if make is lasso else CLASS
    for table in (X, sp.csr_array(X)):
        model = make(epsilon=epsilon, constraint=constraint, fit_intercept=fit_intercept).fit(table, y)
        middle = 3.0 if make is lasso and fit_intercept else 0.0
        norm = np.abs(model.coef_).sum() + abs(float(np.sum(model.intercept_)) - middle) / 2.0
        assert norm <= model.radius * (1 + 1e-9)
        assert constraint == "l1" or (model.coef_ >= 0.0).all()
        assert constraint != "simplex" or norm == pytest.approx(model.radius)
        assert np.count_nonzero(model.coef_) <= model.n_iter_ or constraint != "l1"
        assert fit_intercept or np.all(np.asarray(model.intercept_) == 0.0)


def test_an_intercept_may_have_either_sign():
    for shift in (-0.5, 0.5):
        y = 0.3 * X[:, 0] + shift
        model = lasso(epsilon=1e5, n_steps=500, constraint="nonnegative", label_bounds=(-2.0, 2.0)).fit(X, y)
        assert model.intercept_ == pytest.approx(shift, abs=0.1)
        assert model.coef_[0] == pytest.approx(0.3, abs=0.05)


def test_steps_that_move_nothing_are_taken_where_the_optimum_is_zero():
    """Every column makes it worse upward: the model stays near zero, where the simplex cannot."""
    y = np.clip(-X.sum(axis=1) / 8, -1.0, 1.0)
    given = {"label_bounds": (-1.0, 1.0), "fit_intercept": False, "epsilon": 1e4, "n_steps": 50, "radius": 1.0}
    assert lasso(constraint="nonnegative", **given).fit(X, y).coef_.sum() <= 0.1
    assert lasso(constraint="simplex", **given).fit(X, y).coef_.sum() == pytest.approx(1.0)


def test_no_convergence_warns():
    with pytest.warns(ConvergenceWarning, match=r"Frank-Wolfe gap .* Raise max_iter or tol"):
        lasso(epsilon=math.inf, max_iter=1).fit(X, Y)


@pytest.mark.parametrize(("make", "y", "dtype"), [(lasso, Y, np.float32), (logistic, CLASS, np.float64)])
def test_storage_changes_nothing_but_the_noise(make, y, dtype):
    """Entries beyond the bound are clipped in dense and sparse tables alike, and the user's matrix is left alone."""
    raw = X.astype(dtype)
    raw[3, 5] = 1e6
    sparse = sp.csr_matrix(raw)
    clipped = np.clip(raw, -2.0, 2.0)
    np.testing.assert_array_equal(make().fit(raw, y).coef_, make().fit(clipped, y).coef_)
    np.testing.assert_array_equal(make().fit(sparse, y).coef_, make().fit(sp.csr_array(clipped), y).coef_)
    assert raw[3, 5] == sparse[3, 5] == dtype(1e6)
    fits = [make(epsilon=math.inf, tol=1e-4).fit(table, y).coef_ for table in (raw, sparse)]
    np.testing.assert_allclose(*fits, atol=0.02)


@BOTH
def test_receipt_and_plan(make, y):
    model = make().fit(X, y)
    planned = sv.plan(make(), n_samples=400, n_features=12)
    assert model.guarantee_.event == planned.event
    assert planned.event == RepeatedEvent(BoundedRangeEvent(planned.selection_range), model.n_iter_)
    assert 0.98 < model.guarantee_.epsilon_at(1e-5) <= 1.0
    assert model.guarantee_.accountant == "optimal adaptive composition of bounded-range mechanisms"
    assert "data_bound = 2.0 (entries beyond were clipped to it)" in model.guarantee_.assumptions
    assert "alpha" not in planned.summary()
    assert planned.summary()["steps of each model"] == model.n_iter_
    assert "set of coefficients" not in model.guarantee_.parameters
    other = make(constraint="simplex", fit_intercept=False)
    planned = sv.plan(other, 400, 12)
    assert planned.summary()["set of coefficients"] == "the simplex"
    assert other.fit(X, y).guarantee_.event == planned.event


def test_several_classes_share_the_budget():
    y = np.digitize(Y, [2.0, 4.0])
    model = logistic(classes=[0, 1, 2], epsilon=20.0).fit(X, y)
    assert model.coef_.shape == (3, 12)
    assert model.guarantee_.event.count == 3 * model.n_iter_
    assert 0.98 * 20.0 < model.guarantee_.epsilon_at(1e-5) <= 20.0
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


def test_labels_outside_their_bounds_are_clipped():
    assert Y.max() > 2.0
    one, other = (lasso(label_bounds=(0.0, 2.0)).fit(X, y).coef_ for y in (Y, np.clip(Y, 0.0, 2.0)))
    np.testing.assert_array_equal(one, other)


def test_columns_of_zeros_and_one_column():
    for table in (np.zeros((50, 3)), np.zeros((50, 1)), sp.csr_array((50, 4))):
        model = lasso().fit(table, Y[:50])
        assert np.all(np.isfinite(model.predict(table)))


def test_searches_refuse_it():
    search = sv.DPSearchCV(lasso(epsilon=None, delta=None), {"radius": [1.0]}, epsilon=1.0, delta=1e-5)
    with pytest.raises(ParameterError, match="DPLasso, which the search does not cover yet"):
        search.fit(X, Y)


@pytest.mark.parametrize(("share", "told"), [(1e-6, True), (0.009, True), (0.011, False), (1.0, False), (100.0, False)])
def test_a_radius_in_another_unit_than_the_labels_is_told(share, told):
    """From public facts alone, and wherever the labels lie: as in scikit-learn the model follows them, if it may."""
    for unit, bound, epsilon in ((1e-3, 0.1, 1.0), (1e-3, 100.0, math.inf), (1.0, 1.0, math.inf), (1e6, 0.1, 1.0)):
        made = lasso(
            label_bounds=(3.0 * unit, 5.0 * unit), data_bound=bound, radius=share * unit / bound, epsilon=epsilon
        )
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            sv.plan(made, n_samples=1000, n_features=5)
        assert ["the model is nearly a constant" in str(each.message) for each in caught] == [True] * told
