"""Rows beyond a released bound: predictions shorten them as training did, in all containers and copies of a model."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.metrics import log_loss

import sottovoce as sv
from sottovoce.estimators.persistence import model_from_json, model_to_json
from support.pairs import by_pairs

rng = np.random.default_rng(0)
N, D = 4000, 3
Z = rng.normal(size=(N, D))
X = np.column_stack([Z[:, :2], np.where(rng.random(N) < 0.04, 1e4 * rng.random(N), 0.0)])  # as a column of gains is
SCORES = Z[:, 0] - Z[:, 1] + 0.2 * np.sign(X[:, 2]) + rng.normal(size=N)
TARGETS = {2: (SCORES > 0).astype(int), 3: np.digitize(SCORES, [-1.0, 1.0]), 0: np.clip(SCORES, -3.0, 3.0)}
BUDGET = {"epsilon": 0.5, "delta": 1e-6, "random_state": 0}


def fitted(n_classes, **options):
    facts = {"classes": range(n_classes)} if n_classes else {"label_bounds": (-3, 3)}
    kind = sv.DPLogisticRegression if n_classes else sv.DPRidge
    return kind(**{**BUDGET, **facts, **options}).fit(X, TARGETS[n_classes])


def scores(model, rows):
    return model.decision_function(rows) if hasattr(model, "classes_") else model.predict(rows)


def shortened(rows, bound):
    return rows * np.minimum(1.0, bound / np.linalg.norm(rows, axis=1))[:, None]


@pytest.mark.parametrize("n_classes", [2, 3, 0])
@pytest.mark.parametrize("solver", ["auto", "scd", "sgd"])
def test_rows_are_shortened_as_in_training(solver, n_classes):
    model = fitted(n_classes, solver=solver)
    far = np.linalg.norm(X, axis=1) > model.row_bound_
    assert 0.0 < model.row_bound_ <= model.data_norm_ and far.any()
    by_hand = (shortened(X, model.row_bound_) @ np.atleast_2d(model.coef_).T + model.intercept_).squeeze()
    by_hand = by_hand if n_classes else np.clip(by_hand, -3.0, 3.0)
    np.testing.assert_allclose(scores(model, X), by_hand, rtol=1e-9, atol=1e-12)
    for factor in (10.0, 1e5, 1e140):
        np.testing.assert_allclose(scores(model, X[far] * factor), by_hand[far], rtol=1e-6, atol=1e-9)
    model.coef_ = model.coef_ * 1e12  # products and lengths are infinite
    with np.errstate(over="ignore", invalid="ignore"):
        assert np.isfinite(scores(model, np.full((2, D), 1.7e308))).all()


@pytest.mark.parametrize("n_classes", [2, 3, 0])
@pytest.mark.parametrize(("unit", "options", "told"), [
    (1e4, {}, True), (1e4, {"solver": "sgd"}, True), (1.0, {}, False), (1e4, {"data_norm": 1e5}, False),
    (1e4, {"epsilon": float("inf"), "delta": None}, False),
])  # fmt: skip
def test_raw_units_are_told_of_from_what_was_released(n_classes, unit, options, told):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        facts = {"classes": range(n_classes)} if n_classes else {"label_bounds": (-3, 3)}
        kind = sv.DPLogisticRegression if n_classes else sv.DPRidge
        model = kind(**{**BUDGET, **facts, **options}).fit(Z * [1.0, unit, 1.0], TARGETS[n_classes])
    assert [model.data_norm_ > 300 and "raw units" in str(one.message) for one in caught] == [True] * told


@pytest.mark.parametrize(("kind", "n_classes"), by_pairs(["float32", "sparse", "frame", "fortran", "map"], [2, 3, 0]))
def test_all_containers_give_the_same_scores(tmp_path, kind, n_classes):
    model, rows = fitted(n_classes), X.astype(np.float32)
    np.save(tmp_path / "rows.npy", rows)
    held = {
        "float32": rows, "sparse": sp.csr_array(rows), "frame": pd.DataFrame(rows), "fortran": np.asfortranarray(rows),
        "map": np.load(tmp_path / "rows.npy", mmap_mode="r"),
    }[kind]  # fmt: skip
    np.testing.assert_allclose(scores(model, held), scores(model, rows.astype(float)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("n_classes", [2, 3, 0])
def test_stored_pickled_and_plain_models_do_it_too(n_classes):
    model = fitted(n_classes)
    stored, _ = model_from_json(model_to_json(model))
    assert stored.row_bound_ == model.row_bound_
    for one in (stored, pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(scores(one, X), scores(model, X))
    for rows in (X, sp.csr_array(X)):
        plain = pickle.loads(pickle.dumps(model.to_sklearn()))
        np.testing.assert_allclose(scores(plain, rows), scores(model, X), rtol=1e-9, atol=1e-12)
    linear = model.to_sklearn(shorten_rows=False) if n_classes else model.to_sklearn(clip_predictions=False)
    np.testing.assert_array_equal(linear.coef_, model.coef_)


@pytest.mark.parametrize("scaler", [sv.DPScaler(), sv.DPScaler(cut=1e4)], ids=["cut", "hardly cut"])
@pytest.mark.parametrize("n_classes", [2, 3, 0])
def test_a_folded_pipeline_predicts_the_same(n_classes, scaler):
    facts = {"classes": range(n_classes)} if n_classes else {"label_bounds": (-3, 3)}
    model = (sv.DPLogisticRegression if n_classes else sv.DPRidge)(data_norm="auto", **facts)
    pipeline = sv.DPPipeline([("scale", scaler), ("model", model)], **BUDGET).fit(X, TARGETS[n_classes])
    pipeline[-1].row_bound_ = 1.5  # whatever was found: many rows are beyond
    folded = pipeline.folded()
    stored, _ = model_from_json(model_to_json(folded))
    assert not np.allclose(scores(pipeline, X), scores(pipeline, X) * 0.0)
    for one in (folded, stored, folded.to_sklearn(), pipeline.to_sklearn()):
        np.testing.assert_allclose(scores(one, X), scores(pipeline, X), rtol=1e-7, atol=1e-9)
    linear = pipeline.to_sklearn(**({"shorten_rows": False} if n_classes else {"clip_predictions": False}))[-1]
    np.testing.assert_array_equal(linear.coef_, pipeline[-1].coef_)


def test_a_public_bound_is_one_that_rows_keep():
    assert (fitted(2, data_norm=1e5).row_bound_ or 0.0) < 1e5
    assert fitted(2, data_norm=4.0, solver="sgd").row_bound_ is None
    assert fitted(2, epsilon=np.inf).row_bound_ is None


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_a_long_tail_makes_no_model_worse_than_a_constant(epsilon):
    half = N // 2
    for seed in range(3):
        given = {**BUDGET, "epsilon": epsilon, "random_state": seed}
        y, t = TARGETS[2], TARGETS[0]
        model = sv.DPLogisticRegression(**given, classes=[0, 1]).fit(X[:half], y[:half])
        assert log_loss(y[half:], model.predict_proba(X[half:])) < np.log(2.0) + 0.05
        ridge = sv.DPRidge(**given, label_bounds=(-3, 3)).fit(X[:half], t[:half])
        assert ridge.score(X[half:], t[half:]) > -0.05
