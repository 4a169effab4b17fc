"""Sets of coefficients: corners, scores and nearest points against their definitions, and fits that stay inside."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize

import sottovoce as sv
from sottovoce.central.coefficient_sets import SETS, coefficient_set
from sottovoce.estimators.persistence import model_from_json, model_to_json
from sottovoce.exceptions import ParameterError

RNG = np.random.default_rng(0)
X = RNG.uniform(-1.0, 1.0, (300, 8))
Y = np.clip(X @ [0.6, 0.0, 0.3, 0.0, -0.4, 0.0, 0.1, 0.0] + 0.1 * RNG.normal(size=300), -1.0, 1.0)
PARTS = pytest.mark.parametrize("constraint", ["nonnegative", "simplex"])


def lasso(**changed):
    given = {
        "epsilon": 1.0, "delta": 1e-4, "data_bound": 1.0, "label_bounds": (-1.0, 1.0), "radius": 1.0,
        "fit_intercept": False, "random_state": 0,
    }  # fmt: skip
    return sv.DPLasso(**given | changed)


def corners(kind):
    """Return every corner as a point, in the order of the candidates."""
    width, places = int(kind.columns.max()) + 1, range(len(kind.columns))
    return np.array([kind.radius * sign * np.eye(width)[column] for column, sign in map(kind.corner, places)])


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("has_intercept", [False, True])
def test_scores_belong_to_their_corners(name, has_intercept):
    if name == "simplex" and has_intercept:
        return
    kind = coefficient_set(name, 2.0, 5, has_intercept=has_intercept)
    sums = np.array([7, -3, 0, 11, -5])
    points = corners(kind)
    np.testing.assert_array_equal(2.0 * kind.scores(sums), -points @ sums)
    assert kind.steepest(sums.astype(float)) == np.max(-points @ sums)
    wanted = {
        "l1": 10, "nonnegative": 6 + has_intercept, "simplex": 5,
    }[name]  # fmt: skip
    assert len(np.unique(points, axis=0)) == len(points) == wanted
    assert (points[:, -1] < 0).any() == (name == "l1" or has_intercept)
    assert (points[:, :4] < 0).any() == (name == "l1")


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("has_intercept", [False, True])
@pytest.mark.parametrize("radius", [1e-3, 1.0, 50.0])
def test_nearest_points(name, has_intercept, radius):
    """In the set, at an obtuse angle to every corner; a point of the set is its own."""
    if name == "simplex" and has_intercept:
        return
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


@PARTS
def test_without_noise_it_is_the_optimum_of_another_solver(constraint):
    model = lasso(epsilon=math.inf, delta=None, constraint=constraint, tol=1e-9).fit(X, Y)
    sums = {"type": "eq" if constraint == "simplex" else "ineq", "fun": lambda w: 1.0 - w.sum()}
    reference = minimize(
        lambda w: 0.5 * np.mean((X @ w - Y) ** 2), np.full(8, 0.1), bounds=[(0, None)] * 8, constraints=[sums],
        options={"ftol": 1e-14},
    )  # fmt: skip
    np.testing.assert_allclose(model.coef_, reference.x, atol=1e-4)
    assert "simplex" in model.guarantee_.mechanism or "non-negative part" in model.guarantee_.mechanism


@pytest.mark.parametrize("constraint", SETS)
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("epsilon", [0.5, 1e5])
def test_private_models_are_in_the_set(constraint, sparse, epsilon):
    table = sp.csr_array(X) if sparse else X
    model = lasso(epsilon=epsilon, constraint=constraint, n_steps=1000 if epsilon > 1 else 10).fit(table, Y)
    assert constraint == "l1" or (model.coef_ >= 0.0).all()
    assert np.abs(model.coef_).sum() <= 1.0 + 1e-9
    assert constraint != "simplex" or model.coef_.sum() == pytest.approx(1.0)
    if epsilon > 1:
        best = lasso(epsilon=math.inf, delta=None, constraint=constraint).fit(X, Y)
        found, least = (0.5 * np.mean((X @ each.coef_ - Y) ** 2) for each in (model, best))
        assert least - 1e-9 <= found <= 1.02 * least


def test_an_intercept_may_have_either_sign():
    for shift in (-0.5, 0.5):
        y = np.clip(0.3 * X[:, 0] + shift, -1.0, 1.0)
        model = lasso(epsilon=1e5, n_steps=500, constraint="nonnegative", fit_intercept=True).fit(X, y)
        assert model.intercept_ == pytest.approx(shift, abs=0.05)
        assert model.coef_[0] == pytest.approx(0.3, abs=0.05)
        assert (model.coef_ >= 0.0).all()


def test_steps_that_move_nothing_are_taken_where_the_optimum_is_zero():
    """Every column makes it worse upward: the model stays near zero, where the simplex cannot."""
    y = np.clip(-X.sum(axis=1) / 4, -1.0, 1.0)
    assert lasso(epsilon=1e4, n_steps=50, constraint="nonnegative").fit(X, y).coef_.sum() <= 0.1
    assert lasso(epsilon=1e4, n_steps=50, constraint="simplex").fit(X, y).coef_.sum() == pytest.approx(1.0)


def test_receipts_plans_and_storage():
    plain, model = lasso().fit(X, Y), lasso(constraint="simplex").fit(X, Y)
    assert "set of coefficients" not in plain.guarantee_.parameters
    assert "Frank-Wolfe on the simplex: " in model.guarantee_.mechanism
    assert model.guarantee_.event == plain.guarantee_.event
    assert sv.plan(lasso(constraint="simplex"), 300, 8).summary()["set of coefficients"] == "the simplex"
    again, _ = model_from_json(model_to_json(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.constraint == "simplex"


def test_classes():
    y = np.where(Y > 0, "yes", "no")
    model = sv.DPSparseLogisticRegression(
        epsilon=5.0, delta=1e-4, data_bound=1.0, radius=4.0, classes=["no", "yes"], constraint="nonnegative",
        random_state=0,
    ).fit(X, y)  # fmt: skip
    assert (model.coef_ >= 0.0).all()
    assert model.score(X, y) > 0.7


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"constraint": "l2"}, "constraint must be one of"),
        ({"constraint": "simplex", "fit_intercept": True}, "give fit_intercept=False"),
    ],
)
def test_refusals(changed, words):
    with pytest.raises(ParameterError, match=words):
        lasso(**changed).fit(X, Y)
