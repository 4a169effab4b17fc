"""Made-up tables on which a private fit must tend to the exact one, and how far it is from that."""

import math

import numpy as np
from scipy.optimize import minimize

import sottovoce as sv
from support.solvers import solved

N, D = 3000, 6
SCALING = 0.2
LOCATION = "label location, from the middle of the bounds (noisy)"


def _rows(rng):
    X = rng.normal(size=(N, D)) * np.linspace(1.0, 0.3, D)
    return X / np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True) / 2.5)


def _signs(rng, X, *, shift=0.0, noise=1.0):
    return np.where(X @ np.linspace(2.0, -1.0, D) + shift + noise * rng.logistic(size=N) > 0, 1.0, -1.0)


def _regression(rng, X, *, skewed):
    signal = 0.6 * X @ np.linspace(1.0, -1.0, D)
    return np.minimum(np.exp(signal + 0.7 * rng.normal(size=N)), 20.0) if skewed else signal + 0.5 * rng.normal(size=N)


def _table(kind):
    """Return X, the labels of classification and of regression, data_norm and alpha."""
    rng = np.random.default_rng(5)
    X = _rows(rng)
    signs = {
        "unbalanced classes": lambda: _signs(rng, X, shift=-5.0),
        "separable": lambda: _signs(rng, X, noise=0.0),
    }.get(kind, lambda: _signs(rng, X))()
    numbers = _regression(rng, X, skewed=kind in ("plain", "skewed labels", "small alpha, skewed labels"))
    return X, signs, numbers, 25.0 if kind == "short rows" else 2.5, 1e-6 if kind.startswith("small alpha") else 1e-4


CLASSIFICATION = ("plain", "unbalanced classes", "separable", "short rows", "small alpha")
REGRESSION = ("skewed labels", "short rows", "small alpha", "small alpha, skewed labels")
TABLES = {"logistic": CLASSIFICATION, "hinge": CLASSIFICATION, "squared": REGRESSION}
KINDS = {"logistic": sv.DPLogisticRegression, "hinge": sv.DPLinearSVC, "squared": sv.DPRidge}
SMOOTHED = "smoothed hinge"  # what solver="newton" minimises in place of the hinge, where there is little noise
TABLES[SMOOTHED], KINDS[SMOOTHED] = CLASSIFICATION, sv.DPLinearSVC


def excess(loss, kind, solver, epsilon=1e4):
    """Return by how much the objective of a private fit is above the optimum, as a share of it."""
    X, signs, numbers, norm, alpha = _table(kind)
    labels = {"label_bounds": (-5.0, 20.0)} if loss == "squared" else {"classes": [-1.0, 1.0]}
    given = {"data_norm": norm, "alpha": alpha, "intercept_scaling": SCALING, "delta": 1e-5, "random_state": 0}
    y = numbers if loss == "squared" else signs
    model = KINDS[loss](epsilon=epsilon, **solved(solver), **given, **labels).fit(X, y)
    centre = 0.0
    if loss == "squared":
        centre = 7.5 + float(model.guarantee_.parameters.get(LOCATION, 0.0))
        U = np.column_stack([X / norm, np.full(N, SCALING)])
        w = np.linalg.solve(U.T @ U + alpha * N * np.eye(D + 1), U.T @ (y - centre))
        best = _objective(loss, X, y, norm, alpha, w[:-1] / norm, w[-1] * SCALING + centre, centre)
    elif loss == SMOOTHED:
        best = minimize(
            lambda w: _objective(loss, X, y, norm, alpha, w[:-1] / norm, w[-1] * SCALING, 0.0), np.zeros(D + 1),
            method="BFGS",
        ).fun  # fmt: skip
    else:
        exact = KINDS[loss](epsilon=math.inf, tol=1e-9, **given, **labels).fit(X, y)
        best = _objective(loss, X, y, norm, alpha, exact.coef_, exact.intercept_, 0.0)
    return _objective(loss, X, y, norm, alpha, model.coef_, model.intercept_, centre) / best - 1.0


def _objective(loss, X, y, norm, alpha, coef, intercept, centre):
    """The documented objective, written down again: labels are centred, and the intercept is penalised from there."""
    intercept = float(np.ravel(intercept)[0])
    m = X @ np.ravel(coef) + intercept
    value = {
        "squared": lambda: 0.5 * (y - m) ** 2,
        "logistic": lambda: np.logaddexp(0.0, -y * m),
        "hinge": lambda: np.maximum(0.0, 1.0 - y * m),
        SMOOTHED: lambda: np.where(y * m < 0.0, 0.5 - y * m, 0.5 * np.maximum(0.0, 1.0 - y * m) ** 2),
    }[loss]()
    penalty = np.sum(np.square(norm * np.ravel(coef))) + ((intercept - centre) / SCALING) ** 2
    return float(np.mean(value) + 0.5 * alpha * penalty)
