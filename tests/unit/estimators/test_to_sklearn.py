"""The way out to scikit-learn: a plain estimator that predicts the same, to the last bits."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC

import sottovoce as sv
from sottovoce.estimators.persistence import model_from_json, model_to_json
from support.pairs import by_pairs

BUDGET = {"epsilon": 2.0, "delta": 1e-4, "random_state": 0}
RIDGE = {**BUDGET, "data_norm": 2.0, "label_bounds": (-0.5, 0.5)}
TWO = ["no", "yes"]
THREE = ["blue", "green", "red"]
CLOSE = {"rtol": 1e-13, "atol": 1e-14}


def table(n=600):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, 4))
    scores = X @ rng.normal(size=(4, 3))
    return X, scores[:, 0], scores.argmax(axis=1)


SPARSE = {"data_bound": 1.0, "radius": 5.0}
CLASSIFIERS = {
    "logistic, two": (sv.DPLogisticRegression(classes=TWO, data_norm=1.0), LogisticRegression),
    "logistic, three": (sv.DPLogisticRegression(classes=THREE, data_norm=2.0), LogisticRegression),
    "one-vs-rest": (sv.DPLogisticRegression(classes=THREE, data_norm=2.0, solver="scd"), OneVsRestClassifier),
    "svc, two": (sv.DPLinearSVC(classes=TWO, data_norm=1.0), LinearSVC),
    "svc, three": (sv.DPLinearSVC(classes=THREE, data_norm=2.0), LinearSVC),
    "sparse, two": (sv.DPSparseLogisticRegression(classes=TWO, **SPARSE), LogisticRegression),
    "sparse, three": (sv.DPSparseLogisticRegression(classes=THREE, **SPARSE), OneVsRestClassifier),
}


@pytest.mark.parametrize(("name", "kind"), by_pairs(list(CLASSIFIERS), ["array", "float32", "sparse", "frame"]))
def test_classifiers_agree(name, kind):
    model, wanted = CLASSIFIERS[name]
    X, scores, winner = table()
    y = np.array(THREE)[winner] if len(model.classes) == 3 else np.array(TWO)[(scores > 0).astype(int)]
    names = ["a", "b", "c", "d"]
    X = {
        "array": X, "float32": X.astype(np.float32), "sparse": sp.csr_array(X), "frame": pd.DataFrame(X, columns=names),
    }[kind]  # fmt: skip
    model = clone(model).set_params(**BUDGET).fit(X, y)
    plain = model.to_sklearn()
    assert type(plain) is wanted
    np.testing.assert_allclose(plain.decision_function(X), model.decision_function(X), **CLOSE)
    np.testing.assert_array_equal(plain.predict(X), model.predict(X))
    np.testing.assert_array_equal(plain.classes_, model.classes_)
    assert plain.n_features_in_ == 4
    if hasattr(model, "predict_proba"):
        np.testing.assert_allclose(plain.predict_proba(X), model.predict_proba(X), **CLOSE)
    else:
        assert not hasattr(plain, "predict_proba")
    if kind == "frame":
        assert list(plain.feature_names_in_) == names
        with pytest.raises(ValueError, match="feature names"):
            plain.predict(X[["b", "a", "c", "d"]])


def test_ties_between_classes_go_to_the_same_one():
    """A sparse model may have several classes without any weight, and rows without any entry that counts."""
    X, _, winner = table()
    model = sv.DPSparseLogisticRegression(**BUDGET, data_bound=1.0, radius=1.0, n_steps=1, classes=[0, 1, 2])
    model.fit(X, winner)
    model.coef_[:], model.intercept_[:] = 0.0, 0.0
    np.testing.assert_array_equal(model.to_sklearn().predict(X), model.predict(X))


@pytest.mark.parametrize(
    "model",
    [
        sv.DPRidge(**RIDGE),
        sv.DPRidge(**RIDGE, solver="adassp"),
        sv.DPLasso(**BUDGET, data_bound=1.0, radius=3.0, label_bounds=(-0.5, 0.5)),
    ],
    ids=["ridge", "adassp", "lasso"],
)
def test_regressions_agree(model):
    X, y, _ = table()
    X = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    model = clone(model).fit(X, y)
    clipped, linear = model.to_sklearn(), model.to_sklearn(clip_predictions=False)
    assert type(clipped) is TransformedTargetRegressor
    assert type(linear) is LinearRegression
    far = 100.0 * X  # beyond the bounds on both sides
    for rows in (X, far):
        np.testing.assert_allclose(clipped.predict(rows), model.predict(rows), **CLOSE)
        np.testing.assert_allclose(np.clip(linear.predict(rows), -0.5, 0.5), model.predict(rows), **CLOSE)
    assert set(clipped.predict(far)) >= {-0.5, 0.5}
    assert np.abs(linear.predict(far)).max() > 1.0
    assert list(linear.feature_names_in_) == list(clipped.feature_names_in_) == list(X.columns)


def test_search_gives_that_of_its_best():
    X, y, _ = table()
    model = sv.DPRidge(data_norm=2.0, label_bounds=(-0.5, 0.5))
    search = sv.DPSearchCV(model, {"alpha": [1e-4, 1e-3]}, **BUDGET, n_iter=2).fit(X, y)
    np.testing.assert_allclose(search.to_sklearn().predict(X), search.predict(X), **CLOSE)
    assert type(search.to_sklearn(clip_predictions=False)) is LinearRegression


def test_models_from_files_and_copies():
    """A model that was stored goes out as well, the plain one can be pickled, and neither shares memory."""
    X, _, winner = table()
    model = sv.DPLogisticRegression(**BUDGET, data_norm=2.0, classes=[0, 1, 2], solver="scd").fit(X, winner)
    stored, _ = model_from_json(model_to_json(model))
    plain = pickle.loads(pickle.dumps(stored.to_sklearn()))
    np.testing.assert_array_equal(plain.predict(X), model.predict(X))
    ridge = sv.DPRidge(**RIDGE).fit(X, X[:, 0])
    out = pickle.loads(pickle.dumps(ridge.to_sklearn()))
    np.testing.assert_allclose(out.predict(X), ridge.predict(X), **CLOSE)
    linear = ridge.to_sklearn(clip_predictions=False)
    linear.coef_[:] = 0.0
    assert ridge.coef_.any()


def test_refusals():
    with pytest.raises(NotFittedError):
        sv.DPLinearSVC(**BUDGET, data_norm=1.0).to_sklearn()
    with pytest.raises(NotFittedError):
        sv.DPRidge(**RIDGE).to_sklearn()
    X, y, _ = table()
    with pytest.raises(ValueError, match="clip_predictions must be True or False; got 'no'"):
        sv.DPRidge(**RIDGE).fit(X, y).to_sklearn(clip_predictions="no")
