"""Boosted AdaSSP, with the settings that its paper and its code fix: 100 rounds, residuals clipped to 1, no shrinkage.

X'X and its least eigenvalue are released once, each for a third of mu^2; the last third is for the rounds, each of
which releases X' times the clipped residuals. (The published code gives mu itself to each release as the scale of its
noise, so it is not private; here is what the paper says.) Rows get a constant and are scaled to norm 1.

References
----------
Tang, Aydore, Kearns, Rho, Roth, Wang, Wang, Wu (2024). Improved Differentially Private Regression via Gradient
Boosting. SaTML 2024, arXiv:2303.03451; Algorithm 2.
"""

import math
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.peers.fast_dpsgd import _gaussian_mu
from benchmarks.peers.job import Models, load, run, with_constant

ROUNDS = 100
SURE = 1.96  # standard deviations that the least eigenvalue and the noise in X'X are allowed for


def boosted(X: np.ndarray, y: np.ndarray, mu: float, rng: np.random.Generator) -> np.ndarray:
    """Return the sum of all rounds; rows are at most 1 long, labels in [-1, 1]."""
    d = X.shape[1]
    std = math.sqrt(3.0) / mu
    noise = np.triu(std * rng.standard_normal((d, d)))
    gram = X.T @ X
    least = np.linalg.eigvalsh(gram)[0] + std * rng.standard_normal()
    ridge = max(0.0, SURE * math.sqrt(d) * std - max(0.0, least - SURE * std))
    inverse = np.linalg.inv(gram + noise + np.triu(noise, 1).T + ridge * np.eye(d))
    w = np.zeros(d)
    for _ in range(ROUNDS):
        slope = X.T @ np.clip(y - X @ w, -1.0, 1.0)
        w += inverse @ (slope + math.sqrt(ROUNDS) * std * rng.standard_normal(d))
    return w


def train(path: str, job: dict[str, Any], setting: dict[str, Any], seed: int) -> Models:
    X = with_constant(path, 1.0, True)
    X = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64) / math.sqrt(2.0)
    mu = _gaussian_mu(job["epsilon"], job["delta"])
    w = boosted(X, load(path).y.astype(np.float64), mu, np.random.default_rng(seed)) / math.sqrt(2.0)
    return {None: (w[:-1], w[-1])}


if __name__ == "__main__":
    run(train)
