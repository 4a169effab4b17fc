"""All classes as one model: the pass by hand, what it costs, what it predicts, and where it is taken."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

import sottovoce as sv
from sottovoce.central.data.lengths import make_rows
from sottovoce.central.kernels import multinomial
from sottovoce.central.parallel import Team
from sottovoce.central.solvers.multinomial import MultinomialPlan
from sottovoce.central.split import Scales
from sottovoce.estimators.persistence import model_from_json, model_to_json
from sottovoce.losses import Multinomial
from support.pairs import by_pairs

N, D, K = 150, 5, 4
rng = np.random.default_rng(0)
X = rng.normal(size=(N, D))
X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
X[0] = 0.0
Y = (X @ rng.normal(size=(D, K)) * 3 + 0.3 * rng.normal(size=(N, K))).argmax(axis=1)
NAMES = np.array(["d", "c", "a", "b"])


def logistic(**given):
    return sv.DPLogisticRegression(**{
        "epsilon": 1.0, "delta": 1e-6, "data_norm": 1.0, "classes": list(range(K)), "random_state": 0, **given
    })  # fmt: skip


@pytest.mark.parametrize(("form", "dtype"), by_pairs([np.asarray, sp.csr_array], [np.float64, np.float32]))
def test_a_pass_is_the_one_of_the_page(form, dtype):
    constant, momentum, damping, clip, tick = 0.3, 0.4, 0.2, 0.16, 2.0**-26
    raw = form(X.astype(dtype))
    rows = make_rows(raw, data_norm=1.0, constant=constant, names=None, team=Team(1, None))
    draws = np.random.default_rng(1)
    w, a, before = draws.normal(size=(K, D + 1)).astype(dtype), *draws.uniform(-0.1, 0.1, (2, N, K))
    whole = np.hstack([X.astype(dtype) * rows.scale[:, None], np.full((N, 1), rows.constant)])
    centre = a + momentum * (a - before)
    steps = damping * (np.eye(K)[Y] - softmax(whole @ w.T.astype(float), axis=1) - centre)
    length = np.linalg.norm(steps, axis=1) * np.linalg.norm(whole, axis=1)
    assert np.mean(length > clip) > 0.2 < np.mean(length < clip)  # both happen
    steps *= np.minimum(1.0, clip / np.maximum(length, 1e-300))[:, None]
    total, old = np.zeros((K, D + 1), np.int64), a.copy()
    multinomial.joint_pass(rows.kernel, Y.astype(float), a, before, momentum, w, damping, clip, 1.0 / tick, 0, N, total)
    close = {"rtol": 1e-4, "atol": 1e-6} if dtype == np.float32 else {"rtol": 1e-9, "atol": 1e-9}
    np.testing.assert_allclose(a, centre + steps, **close)
    np.testing.assert_array_equal(before, old)
    np.testing.assert_allclose(total * tick, steps.T @ whole, atol=N * 2 * (tick + 1e-7))


def test_the_clip_that_scales_the_noise_is_that_of_the_vector():
    plan = sv.plan(logistic(), N, D)
    assert isinstance(plan, MultinomialPlan) and plan.loss == Multinomial(K)
    scales = Scales(norm=1.0, eigenvalue=0.5, location=0.0, label=1.0)
    damping = 1.0 / (1.0 + 0.5 * 0.5 / plan.alpha_scaled)
    assert plan.clip_for(scales) == pytest.approx(0.4 * damping * math.sqrt(1.0 - 1.0 / K))


def test_what_is_released_adds_up_to_zero_over_classes():
    model = logistic().fit(X, Y)
    np.testing.assert_allclose(model.coef_.sum(axis=0), 0.0, atol=1e-9 * np.abs(model.coef_).max())
    np.testing.assert_allclose(model.intercept_.sum(), 0.0, atol=1e-9 * np.abs(model.coef_).max())


def test_without_noise_it_is_the_multinomial_model_of_scikit_learn():
    alpha, constant = 1e-3, 0.5
    model = logistic(epsilon=math.inf, delta=None, alpha=alpha, intercept_scaling=constant, tol=1e-12).fit(X, Y)
    wide = np.hstack([X, np.full((N, 1), constant)])
    theirs = LogisticRegression(C=1.0 / (alpha * N), fit_intercept=False, tol=1e-12, max_iter=10_000).fit(wide, Y)
    np.testing.assert_allclose(model.predict_proba(X), theirs.predict_proba(wide), atol=1e-5)
    np.testing.assert_allclose(model.coef_, theirs.coef_[:, :-1], atol=1e-4)
    assert model.guarantee_.parameters["solver"] == "multinomial L-BFGS (no privacy)"


@pytest.mark.parametrize("alpha", [1e-2, 1e-4])
def test_a_private_fit_tends_to_the_exact_one(alpha):
    draws = np.random.default_rng(5)
    many = np.clip(draws.normal(size=(4000, D)) / 4.0, -0.44, 0.44)
    labels = (4.0 * many @ draws.normal(size=(D, 3)) + draws.gumbel(size=(4000, 3))).argmax(axis=1)

    def objective(**given):
        model = logistic(classes=[0, 1, 2], alpha=alpha, **given).fit(many, labels)
        penalty = np.square(model.coef_).sum() + np.square(model.intercept_ / 0.2).sum()
        return Multinomial(3).value(labels, model.decision_function(many)).mean() + 0.5 * alpha * penalty

    best = objective(epsilon=math.inf, delta=None)
    assert -1e-6 <= objective(epsilon=1e4) / best - 1.0 <= 1e-3


def test_predictions_follow_the_receipt():
    """Probabilities are those of the model that was trained, and a file without the joint solver keeps its own."""
    joint, each = logistic(classes=list(NAMES)).fit(X, NAMES[Y]), logistic(solver="scd").fit(X, Y)
    scores = joint.decision_function(X)
    assert scores.shape == (N, K) and joint.coef_.shape == (K, D) and joint.intercept_.shape == (K,)
    np.testing.assert_allclose(joint.predict_proba(X), softmax(scores, axis=1))
    assert (joint.predict(X) == joint.classes_[scores.argmax(axis=1)]).all()
    single = 1.0 / (1.0 + np.exp(-each.decision_function(X)))
    np.testing.assert_allclose(each.predict_proba(X), single / single.sum(axis=1, keepdims=True))
    for model in (joint, each):
        again, _ = model_from_json(model_to_json(model))
        np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_the_loss():
    loss, draws = Multinomial(K), np.random.default_rng(2)
    y, m = draws.integers(K, size=50), draws.normal(size=(50, K)) * 10.0
    slope = loss.derivative(y, m)
    np.testing.assert_allclose(loss.value(y, m) + loss.conjugate(y, -slope) - (slope * m).sum(axis=1), 0.0, atol=1e-9)
    shift = 1e-6 * draws.normal(size=m.shape)
    change = loss.value(y, m + shift) - loss.value(y, m - shift)
    np.testing.assert_allclose(change, 2.0 * (slope * shift).sum(axis=1), atol=1e-11)
    assert (np.linalg.norm(slope, axis=1) <= loss.lipschitz).all()
    p = softmax(m, axis=1)
    largest = [np.linalg.eigvalsh(np.diag(each) - np.outer(each, each))[-1] for each in p]
    assert max(largest) <= loss.smoothness
    np.testing.assert_allclose(loss.curvature(y, m), p * (1.0 - p))
    outside = draws.normal(size=(50, K))
    inside = loss.nearest_feasible(y, outside)
    assert np.isfinite(loss.conjugate(y, inside)).all() and np.isinf(loss.conjugate(y, outside)).all()
    np.testing.assert_allclose(loss.nearest_feasible(y, inside), inside, atol=1e-12)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "clipped as one vector, so the budget is spent once"),
        ({"solver": "scd"}, "one-vs-rest: each of the 4 models"),
    ],
)
def test_the_receipt_says_how_classes_share_the_budget(given, said):
    assert any(said in line for line in logistic(**given).fit(X, Y).guarantee_.assumptions)
