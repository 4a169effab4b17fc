"""diffprivlib, pure DP: objective perturbation (logistic regression), the functional mechanism (linear regression)."""

from functools import lru_cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from diffprivlib.models import LinearRegression, LogisticRegression
from scipy.special import log_expit

from benchmarks.peers.job import Models, centred, load, run
from benchmarks.peers.tuning import Setting


@lru_cache(maxsize=1)
def dense(path: str) -> np.ndarray:
    """Return the training rows as diffprivlib takes them."""
    X = load(path).X
    return np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)


def train(path: str, job: dict[str, Any], setting: Setting, seed: int) -> Models:
    """Train one model; the true public bounds on rows, features and labels are given."""
    X, y = dense(path), centred(path, setting)
    if job["task"] == "regression":
        bound, unit = setting["bound"], setting.get("data_norm", 1.0)
        X = np.clip(unit * X, -bound, bound)
        # features that are never negative, as counts and flags are known to be, get the narrower bounds
        bounds = (np.where(X.min(axis=0) < 0.0, -bound, 0.0), np.full(X.shape[1], bound))
        model = LinearRegression(
            epsilon=job["epsilon"], bounds_X=bounds, bounds_y=(-1.0, 1.0),
            fit_intercept=setting["intercept"], random_state=seed,
        ).fit(X, y)  # fmt: skip
        return {None: (unit * model.coef_.ravel(), float(np.ravel(model.intercept_)[0]))}
    model = LogisticRegression(
        epsilon=job["epsilon"], data_norm=1.0, C=setting["C"], fit_intercept=setting["intercept"], max_iter=200,
        random_state=seed,
    ).fit(X, y)  # fmt: skip
    if job["task"] == "multiclass":  # one against the rest: softmax of these is what it takes for probabilities
        return {None: lambda X_test: log_expit(X_test @ model.coef_.T + model.intercept_)}
    return {None: (model.coef_.ravel(), float(np.ravel(model.intercept_)[0]))}


def space(job: dict[str, Any]) -> dict[str, Any]:
    if job["task"] == "regression":  # a fit draws a mechanism for each pair of features: seconds, so few are tried
        return {
            "space": {"bound": (0.1, 0.3, 1.0), "intercept": (False, True)},
            "coarse": {"bound": (0.1, 1.0), "intercept": (False,)}, "default": {}, "cost": lambda setting: 1.0,
            "rounds": 1, "seeds": (1, 2, 2),
        }  # fmt: skip
    if load(job["tuning"]).X.shape[1] > 5000:  # a dense copy, and seconds a fit
        return {
            "space": {"C": (1e-6, 1e-4, 1e-2, 1.0, 100.0), "intercept": (False,)},
            "coarse": {"C": (1e-6, 1e-4, 1e-2, 1.0, 100.0), "intercept": (False,)}, "default": {},
            "cost": lambda setting: 1.0, "seeds": (1, 2, 2), "rounds": 0,
        }  # fmt: skip
    return {
        "space": {"C": tuple(10.0 ** (k / 2) for k in range(-12, 9)), "intercept": (False, True)},
        "coarse": {"C": tuple(10.0 ** (k / 2) for k in range(-12, 9, 2)), "intercept": (False, True)},
        "default": {},
        "cost": lambda setting: 1.0,
    }


if __name__ == "__main__":
    run(train, space)
