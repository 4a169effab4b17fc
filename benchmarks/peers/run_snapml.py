"""Snap ML, privacy=True: its mini-batch gradient descent with Gaussian noise.

It promises (epsilon, 0.01)-DP and has no parameter for delta: its delta is far larger than everybody else's here. Its
noise is the same whatever the random_state, so the rows are shuffled by the seed. It has no intercept in this mode.
"""

import math
from typing import Any

import numpy as np
from snapml import LinearRegression, LogisticRegression

from benchmarks.peers.job import Models, centred, entries, load, run, with_constant
from benchmarks.peers.tuning import Setting


def train(path: str, job: dict[str, Any], setting: Setting, seed: int) -> Models:
    """Train one model; ``private: false`` is its stochastic coordinate descent, for the comparison of speed."""
    y = centred(path, setting)
    known = load(path).X
    X = with_constant(path, setting["constant"], 2 * entries(known) > np.prod(known.shape))
    kind = LinearRegression if job["task"] == "regression" else LogisticRegression
    if not setting.get("private", True):
        model = kind(
            max_iter=setting["epochs"], regularizer=setting["regularizer"], tol=1e-30, random_state=seed,
            n_jobs=setting.get("threads", 1),
        )  # fmt: skip
        w = np.ravel(model.fit(X, y).coef_)
        return {None: (w[:-1], float(w[-1] * setting["constant"]))}
    order = np.random.default_rng(seed).permutation(len(y))
    model = kind(
        privacy=True, dual=False, privacy_epsilon=job["epsilon"], eta=setting["eta"], grad_clip=setting["clip"],
        batch_size=math.ceil(len(y) / setting["batches"]), max_iter=setting["epochs"], tol=1e-30,
        regularizer=setting["regularizer"], random_state=seed,
    )  # fmt: skip
    w = np.ravel(model.fit(X[order], y[order]).coef_)
    return {None: (w[:-1], float(w[-1] * setting["constant"]))}


def space(job: dict[str, Any]) -> dict[str, Any]:
    X = load(job["tuning"]).X

    def cost(setting: Setting) -> float:
        return 0.01 + setting["epochs"] * (10e-9 * entries(X) + 25e-9 * X.shape[1] * setting["batches"])

    return {
        "space": {
            "batches": (2, 5, 10, 20, 50, 100, 200, 500),
            "epochs": (1, 2, 5, 10, 20, 40, 80),
            "clip": (0.03, 0.1, 0.3, 1.0, 3.0),
            "eta": tuple(0.003 * 10.0 ** (k / 2) for k in range(12)),
            "constant": (0.1, 0.3, 1.0),
            "regularizer": (1e-3, 1e-1, 1.0, 10.0, 100.0, 1000.0),
        },
        "coarse": {"batches": (5, 50, 200), "epochs": (5, 20), "clip": (0.1, 1.0), "eta": (0.03, 0.3, 3.0)},
        "frugal": {"epochs": (1, 2, 5, 10, 20, 40)},
        "default": {"constant": 0.3, "regularizer": 1.0},
        "cost": cost,
        "budget": 30.0,
    }


if __name__ == "__main__":
    run(train, space)
