"""With hardly any noise objective perturbation reaches scikit-learn's optimum at the penalty it used."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

import sottovoce as sv

SCALING = 0.5


def table(seed, n, d):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.4)
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-9)
    return X, np.where(X @ rng.normal(size=d) + 0.3 * rng.normal(size=n) + 0.2 > 0, 1.0, -1.0)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize(("n", "d"), [(400, 12), (60, 150), (80, 1500)], ids=["long", "wide", "very wide"])
@pytest.mark.parametrize("kind", [sv.DPLogisticRegression, sv.DPLinearSVC])
def test_little_noise_equals_scikit_learn(kind, n, d, sparse):
    """epsilon = 1000; the hinge is smoothed so little that its optimum is LinearSVC's."""
    X, y = table(0, n, d)
    penalty = 300.0  # so that the noise moves the weights by less than a hundredth of their length
    options = {"penalty": penalty} | ({"smoothing": 1e-3} if kind is sv.DPLinearSVC else {})
    model = kind(
        epsilon=1000.0, delta=1e-3, data_norm=1.0, classes=[-1.0, 1.0], intercept_scaling=SCALING, random_state=0,
        solver="objective", solver_options=options,
    ).fit(sp.csr_matrix(X) if sparse else X, y)  # fmt: skip
    # the solver's rows are (x, SCALING)/whole: the same predictions with weights longer by whole
    whole2 = 1.0 + SCALING**2
    design = np.hstack([X, np.full((n, 1), SCALING)])
    if kind is sv.DPLogisticRegression:
        reference = LogisticRegression(C=1 / (penalty * whole2), fit_intercept=False, tol=1e-12, max_iter=100_000)
    else:
        reference = LinearSVC(
            loss="hinge", C=1 / (penalty * whole2), fit_intercept=False, tol=1e-9, max_iter=1_000_000, random_state=0
        )
    best = np.ravel(reference.fit(design, y).coef_)
    ours = np.append(model.coef_[0], model.intercept_[0] / SCALING)
    noise = model.guarantee_.parameters["standard deviation of the linear term"] * np.sqrt(d + 1) / penalty
    assert np.linalg.norm(ours - best) <= 1.5 * noise
    assert noise < 0.1 * np.linalg.norm(best) or d > n
