"""DP-EBM of interpret, its defaults: boosted functions of one column each, so more than a linear model.

The true public bounds of the columns and labels are given. Two classes or numbers.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp
from interpret.privacy import DPExplainableBoostingClassifier, DPExplainableBoostingRegressor

from benchmarks.peers.job import Models, load, run


def train(path: str, job: dict[str, Any], setting: dict[str, Any], seed: int) -> Models:
    unit = setting["data_norm"]  # rows as they were before they were scaled to norm 1

    def dense(X: Any) -> np.ndarray:
        return unit * np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)

    X, y = dense(load(path).X), load(path).y
    # columns that are never negative, as counts and flags are known to be, get the narrower bounds
    bounds = {k: (-1.0 if low < 0.0 else 0.0, 1.0) for k, low in enumerate(X.min(axis=0))}
    options = {
        "epsilon": job["epsilon"], "delta": job["delta"], "privacy_bounds": bounds, "n_jobs": 1, "random_state": seed,
        "feature_types": ["continuous"] * X.shape[1],
    }  # fmt: skip
    if job["task"] == "regression":
        model = DPExplainableBoostingRegressor(privacy_target_min=-1.0, privacy_target_max=1.0, **options).fit(X, y)
        return {None: lambda X_test: model.predict(dense(X_test))}
    model = DPExplainableBoostingClassifier(**options).fit(X, y)
    return {None: lambda X_test: model.decision_function(dense(X_test))}


if __name__ == "__main__":
    run(train)
