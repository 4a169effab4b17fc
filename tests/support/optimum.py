"""Problems whose optimum scikit-learn finds, and the documented objective, written down again."""

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import LinearSVC

import sottovoce as sv

SCALING = 0.5


def table(seed, n, d, density):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < density)
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-9)
    X[:5] *= np.array([0.0, 0.1, 0.5, 0.9, 1.0])[:, None]  # short rows, and an empty one
    score = X @ rng.normal(size=d) * 3 + 0.3 * rng.normal(size=n) + 0.2
    return X, score


def objective(loss, X, y, alpha, coef, intercept, scaling=SCALING):
    """The documented objective, written down again here; rows have norm at most 1 = data_norm."""
    m = X @ np.ravel(coef) + intercept
    value = {
        "squared": lambda: 0.5 * (y - m) ** 2,
        "logistic": lambda: np.logaddexp(0, -y * m),
        "hinge": lambda: np.maximum(0, 1 - y * m),
        "smoothed hinge": lambda: np.where(y * m < 0.0, 0.5 - y * m, 0.5 * np.maximum(0.0, 1.0 - y * m) ** 2),
    }[loss]()
    return np.mean(value) + 0.5 * alpha * (np.sum(np.square(coef)) + (intercept / scaling) ** 2)


def reference(loss, X, y, alpha):
    """scikit-learn on the same objective: the intercept as a penalised column, its strength turned into ours."""
    n = len(y)
    Xc = np.hstack([X, np.full((n, 1), SCALING)])
    if loss == "squared":
        model = Ridge(alpha=alpha * n, fit_intercept=False, tol=1e-14, solver="cholesky").fit(Xc, y)
    elif loss == "logistic":
        model = LogisticRegression(C=1 / (alpha * n), fit_intercept=False, tol=1e-12, max_iter=100_000).fit(Xc, y)
    else:
        model = LinearSVC(
            loss="hinge", C=1 / (alpha * n), fit_intercept=False, tol=1e-9, max_iter=2_000_000, random_state=0
        ).fit(Xc, y)
    w = np.ravel(model.coef_)
    return objective(loss, X, y, alpha, w[:-1], SCALING * w[-1])


def estimator(loss, **parameters):
    common = {"delta": 1e-6, "data_norm": 1.0, "intercept_scaling": SCALING, "random_state": 0, **parameters}
    if loss == "squared":
        return sv.DPRidge(label_bounds=(-50.0, 50.0), **common)
    make = sv.DPLogisticRegression if loss == "logistic" else sv.DPLinearSVC
    return make(classes=[-1.0, 1.0], **common)


def labels(loss, score):
    return score if loss == "squared" else np.where(score > 0, 1.0, -1.0)
