"""The tilted logistic loss without noise: its optimum, found by scipy, and that of the true labels."""

import math

import numpy as np
from scipy.optimize import minimize

from sottovoce.central.data.lengths import make_rows
from sottovoce.central.parallel import team
from sottovoce.central.plan import TrainingFacts
from sottovoce.estimators._solvers import make_plan
from sottovoce.losses import Logistic, TiltedLogistic
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.privacy.mechanisms.randomized_response import RandomizedResponse
from sottovoce.randomness import Purpose, Streams
from support.asking import trained

SCALING, ALPHA = 0.5, 1e-2
RESPONSE = RandomizedResponse(1.0)


def table(n, d):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, np.where(X @ rng.normal(size=d) + 0.3 * rng.normal(size=n) + 0.2 > 0, 1.0, -1.0)


def fitted(loss, X, y):
    facts = TrainingFacts(
        loss=loss, n_samples=len(y), n_features=X.shape[1], n_models=1, alpha=ALPHA, constant=SCALING,
        epsilon=math.inf, delta=1e-6, adjacency=Adjacency.ZERO_OUT, label_bound=None,
    )  # fmt: skip
    plan = make_plan("scd", facts, tol=1e-8, max_iter=2000)
    with team(1) as one:
        rows = make_rows(X, data_norm=1.0, constant=SCALING, names=None, team=one)
        return trained(plan, rows, [y], Streams(0), one).result.weights[0]


def test_the_optimum_of_the_tilted_loss_is_that_of_another_solver():
    X, true = table(400, 12)
    y, _ = RESPONSE.release(true, Streams(1).generator(Purpose.NOISE))
    loss = TiltedLogistic(RESPONSE.tilt)
    design = np.hstack([X, np.full((len(y), 1), SCALING)]) / math.sqrt(1.0 + SCALING**2)
    alpha = ALPHA / (1.0 + SCALING**2)

    def value(w):
        return float(np.mean(loss.value(y, design @ w))) + 0.5 * alpha * float(w @ w)

    def gradient(w):
        return design.T @ loss.derivative(y, design @ w) / len(y) + alpha * w

    best = minimize(value, np.zeros(13), jac=gradient, method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-10})
    assert value(fitted(loss, X, y)) <= best.fun + 1e-7
    assert value(np.zeros(13)) - best.fun > 0.05
    # the tilt matters: the optimum of the plain loss on the released labels is another
    assert value(fitted(Logistic(), X, y)) > best.fun + 0.01


def test_the_tilt_gives_back_the_model_of_the_true_labels():
    """100,000 rows: the corrected model is near that of the true labels, the uncorrected one is too short."""
    X, true = table(100_000, 4)
    y, _ = RESPONSE.release(true, Streams(2).generator(Purpose.NOISE))
    wanted = fitted(Logistic(), X, true)
    corrected = fitted(TiltedLogistic(RESPONSE.tilt), X, y)
    plain = fitted(Logistic(), X, y)
    assert np.linalg.norm(corrected - wanted) < 0.05 * np.linalg.norm(wanted)
    assert np.linalg.norm(plain - wanted) > 0.4 * np.linalg.norm(wanted)
