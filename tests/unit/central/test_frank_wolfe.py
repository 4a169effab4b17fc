"""DPLasso and DPSparseLogisticRegression: the ball, the steps, runs without noise, receipts, storage, bad input."""

import math
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso

import sottovoce as sv
from sottovoce.estimators.persistence import model_from_json, model_to_json
from sottovoce.exceptions import DataError, ParameterError
from sottovoce.privacy.events import BoundedRangeEvent, RepeatedEvent

rng = np.random.default_rng(0)
X = rng.uniform(-2.0, 2.0, (400, 12))
Y = np.clip(3.0 + X[:, 1] - 0.5 * X[:, 4] + rng.normal(0.0, 0.2, 400), 0.0, 6.0)
CLASS = np.where(Y > 3.0, "high", "low")
LASSO = {"data_bound": 2.0, "label_bounds": (0.0, 6.0), "radius": 2.0}
LOGISTIC = {"data_bound": 2.0, "radius": 4.0, "classes": ["high", "low"]}


def lasso(**changed):
    return sv.DPLasso(**{"epsilon": 1.0, "delta": 1e-5, "random_state": 0, **LASSO, **changed})


def logistic(**changed):
    return sv.DPSparseLogisticRegression(**{"epsilon": 1.0, "delta": 1e-5, "random_state": 0, **LOGISTIC, **changed})


BOTH = pytest.mark.parametrize(("make", "y"), [(lasso, Y), (logistic, CLASS)], ids=["lasso", "logistic"])


@BOTH
@pytest.mark.parametrize("epsilon", [0.5, 1e4, math.inf])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_model_is_in_the_ball(make, y, epsilon, fit_intercept):
    model = make(epsilon=epsilon, fit_intercept=fit_intercept).fit(X, y)
    middle = 3.0 if make is lasso and fit_intercept else 0.0
    norm = np.abs(model.coef_).sum() + abs(float(np.sum(model.intercept_)) - middle) / 2.0
    assert norm <= model.radius * (1 + 1e-9)
    assert np.count_nonzero(model.coef_) <= model.n_iter_
    if not fit_intercept:
        assert np.all(np.asarray(model.intercept_) == 0.0)


def test_without_noise_it_is_the_lasso():
    """The constrained optimum is the one of a penalised lasso; both are known to high precision."""
    penalised = Lasso(alpha=0.3, fit_intercept=False, tol=1e-12, max_iter=100_000).fit(X, Y - 3.0)
    radius = float(np.abs(penalised.coef_).sum())
    model = lasso(epsilon=math.inf, radius=radius, fit_intercept=False, label_bounds=(-3.0, 3.0), tol=1e-12)
    model.fit(X, Y - 3.0)
    np.testing.assert_allclose(model.coef_, penalised.coef_, atol=1e-5)
    assert model.guarantee_.epsilon == math.inf
    assert model.guarantee_.not_covered == ("everything: no noise was added",)


def test_no_convergence_warns():
    with pytest.warns(ConvergenceWarning, match=r"Frank-Wolfe gap .* Raise max_iter or tol"):
        lasso(epsilon=math.inf, max_iter=1).fit(X, Y)


@BOTH
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
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


def test_several_classes_share_the_budget():
    y = np.digitize(Y, [2.0, 4.0])
    model = logistic(classes=[0, 1, 2], epsilon=20.0).fit(X, y)
    assert model.coef_.shape == (3, 12)
    assert model.guarantee_.event.count == 3 * model.n_iter_
    assert 0.98 * 20.0 < model.guarantee_.epsilon_at(1e-5) <= 20.0
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


@BOTH
def test_stored_models_predict_as_before(make, y):
    model = make().fit(X, y)
    again, _ = model_from_json(model_to_json(model))
    assert type(again) is type(model)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.guarantee_ == model.guarantee_


@BOTH
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"epsilon": None}, "epsilon is missing"),
        ({"delta": math.nan}, "delta must be"),
        ({"data_bound": None}, "data_bound is missing: .* absolute value of every entry"),
        ({"data_bound": -1.0}, "data_bound must be"),
        ({"data_bound": math.nan}, "data_bound must be"),
        ({"radius": None}, "radius is missing: .* sum of the absolute coefficients"),
        ({"radius": 0.0}, "radius must be"),
        ({"radius": math.inf}, "radius must be"),
        ({"n_steps": 0}, "n_steps must be a whole number >= 1"),
        ({"n_steps": 2.5}, "n_steps must be a whole number"),
        ({"fit_intercept": 1}, "fit_intercept must be True or False"),
        ({"adjacency": "add-remove"}, "n_public is missing"),
        ({"tol": 0.0}, "tol must be"),
        ({"max_iter": 0}, "max_iter must be"),
        ({"random_state": "x"}, "random_state"),
    ],
)
def test_parameters(make, y, changed, message, noise_is_forbidden):
    with pytest.raises(ParameterError, match=message):
        make(**changed).fit(X, y)


@BOTH
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_nan_and_infinity(make, y, sparse, value):
    bad = X.copy()
    bad[17, 2] = value
    with pytest.raises(DataError, match="row 17, column 2"):
        make().fit(sp.csr_array(bad) if sparse else bad, y)


def test_labels_outside_their_bounds_are_clipped():
    def coef(y):
        return lasso(label_bounds=(0.0, 2.0), random_state=0).fit(X, y).coef_

    assert Y.max() > 2.0
    assert np.array_equal(coef(Y), coef(np.clip(Y, 0.0, 2.0)))


def test_labels_that_are_not_numbers():
    with pytest.raises(DataError, match="y must hold numbers for DPLasso"):
        lasso().fit(X, CLASS)


def test_columns_of_zeros_and_one_column():
    for table in (np.zeros((50, 3)), np.zeros((50, 1)), sp.csr_array((50, 4))):
        model = lasso().fit(table, Y[:50])
        assert np.all(np.isfinite(model.predict(table)))


def test_searches_refuse_it():
    search = sv.DPSearchCV(sv.DPLasso(**LASSO), {"radius": [1.0]}, epsilon=1.0, delta=1e-5)
    with pytest.raises(ParameterError, match="DPLasso, which the search does not cover yet"):
        search.fit(X, Y)


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e6])
@pytest.mark.parametrize("bound", [0.1, 1.0, 100.0])
@pytest.mark.parametrize(("share", "told"), [(1e-6, True), (0.009, True), (0.011, False), (1.0, False), (100.0, False)])
@pytest.mark.parametrize("epsilon", [1.0, math.inf])
def test_a_radius_in_another_unit_than_the_labels_is_told(unit, bound, share, told, epsilon):
    """From public facts alone, and wherever the labels lie: as in scikit-learn the model follows them, if it may."""
    made = lasso(label_bounds=(3.0 * unit, 5.0 * unit), data_bound=bound, radius=share * unit / bound, epsilon=epsilon)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sv.plan(made, n_samples=1000, n_features=5)
    assert ["the model is nearly a constant" in str(each.message) for each in caught] == [True] * told
