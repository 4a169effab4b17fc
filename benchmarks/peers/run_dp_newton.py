"""DP Newton with doubly noised steps, as Ganesh et al. publish it [1]_, with accounting that is exact.

With rows |x_i| <= 1 and the mean logistic loss, a step releases g = gradient + N(0, s1^2 I), forms the Hessian, or the
quadratic upper bound (tanh(m/2)/(2m) in place of p(1 - p)), keeps its eigenvalues above ``floor`` (``modify``: "add"
adds the floor, "clip" raises those below it), and releases w - H^-1 g + N(0, s2^2 |g|^2 I).

Sensitivities, a row zeroed out, n public: the gradient moves by 1/n. With "add" the inverse moves by at most
1/(4 n floor^2 + floor), a rank-one update of a matrix of at least floor; with "clip" by 1/(4 n floor^2) in Frobenius
norm, as 1/max(x, floor) has the Lipschitz constant 1/floor^2, which matrices keep in that norm. Times |g|, which was
released. All T steps of two Gaussian releases compose to mu: ``share`` of mu^2 is for the gradients. Settings:

- ``steps`` T, ``floor``, ``modify``, ``upper`` (the upper bound in place of the Hessian), ``share``;
- ``constant``: entry of the intercept's column; rows with it are scaled to norm 1; ``l2``: penalty of the mean loss.

References
----------
.. [1] Ganesh, Haghifam, Steinke, Thakurta (2023). Faster Differentially Private Convex Optimization via Second-Order
   Methods. NeurIPS 2023, arXiv:2305.13209; Algorithm "Double noise".
"""

import math
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import norm

from benchmarks.peers.job import load, run, with_constant
from benchmarks.peers.tuning import Setting

SPACE: dict[str, tuple[Any, ...]] = {
    "steps": (1, 2, 3, 4, 6, 9, 14, 20, 30), "floor": tuple(10.0 ** (k / 4) for k in range(-22, 1)),
    "modify": ("add", "clip"), "upper": (False, True), "share": (0.25, 0.5, 0.75, 0.9),
    "constant": (0.03, 0.1, 0.3, 1.0), "l2": (0.0, 1e-5, 1e-4, 1e-3, 1e-2),
}  # fmt: skip
DEFAULT = {"steps": 6, "floor": 1e-2, "modify": "add", "upper": True, "share": 0.75, "constant": 0.3, "l2": 0.0}


@lru_cache(maxsize=64)
def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return mu such that mu-GDP is exactly (epsilon, delta)-DP."""
    return float(
        brentq(
            lambda mu: norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu) - delta,
            1e-6,
            100.0,
        )
    )


@lru_cache(maxsize=2)
def _table(path: str, constant: float) -> np.ndarray:
    """Return the rows with their constant, scaled so that none is longer than 1."""
    return np.asarray(with_constant(path, constant, True), dtype=np.float64) / math.sqrt(1.0 + constant**2)


def descend(X: np.ndarray, y: np.ndarray, mu: float, setting: Setting, rng: np.random.Generator) -> np.ndarray:
    """Return the point after all steps."""
    n, d = X.shape
    steps, floor, share = setting["steps"], setting["floor"], setting["share"]
    add = setting["modify"] == "add"
    gradient_std = math.sqrt(steps / share) / (mu * n)
    step_std = math.sqrt(steps / (1.0 - share)) / mu / (4.0 * n * floor**2 + (floor if add else 0.0))
    w = np.zeros(d)
    for _ in range(steps):
        m = X @ w
        gradient = X.T @ (-y * expit(-y * m)) / n + setting["l2"] * w + gradient_std * rng.standard_normal(d)
        near = np.abs(m) < 1e-4
        safe = np.where(near, 1.0, m)
        weights = np.where(near, 0.25, np.tanh(safe / 2) / (2 * safe)) if setting["upper"] else expit(m) * expit(-m)
        values, vectors = np.linalg.eigh((X * weights[:, None]).T @ X / n)
        kept = (np.maximum(values, 0.0) + floor if add else np.maximum(values, floor)) + setting["l2"]
        w = w - vectors @ ((vectors.T @ gradient) / kept)
        w += step_std * float(np.linalg.norm(gradient)) * rng.standard_normal(d)
    return w


def train(path: str, job: dict[str, Any], setting: Setting, seed: int) -> dict[Any, tuple[np.ndarray, float]]:
    """Train one model; there are no variants."""
    X, y = _table(path, setting["constant"]), load(path).y.astype(np.float64)
    w = descend(X, y, gaussian_mu(job["epsilon"], job["delta"]), setting, np.random.default_rng(seed))
    w /= math.sqrt(1.0 + setting["constant"] ** 2)
    return {None: (w[:-1], float(w[-1] * setting["constant"]))}


def space(job: dict[str, Any]) -> dict[str, Any]:
    n, d = load(job["tuning"]).X.shape

    def cost(setting: Setting) -> float:
        """Return rough seconds of a fit: a weighted Gram matrix and its eigenvectors in each step."""
        return 1e-3 + setting["steps"] * (1e-10 * n * d * d + 1e-8 * n * d + 1e-9 * d**3)

    return {
        "space": SPACE,
        "coarse": {"steps": (3, 9), "floor": tuple(10.0 ** (k / 2) for k in range(-10, 0)), "upper": (False, True)},
        "frugal": {"steps": (1, 2, 3, 4, 6, 9), "floor": tuple(10.0 ** (k / 2) for k in range(-8, 0))},
        "default": DEFAULT, "probe": None, "together": (("steps", "floor"), ("floor", "share"), ("modify", "floor")),
        "cost": cost, "price": cost, "budget": 15.0,
    }  # fmt: skip


if __name__ == "__main__":
    run(train, space)
