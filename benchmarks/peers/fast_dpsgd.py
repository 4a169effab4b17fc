"""DP-SGD on a linear model in numba: the algorithm of Opacus and JAX Privacy, fast enough to be tuned cell by cell.

Poisson sampling, per-example clipping, Gaussian noise calibrated by the privacy loss distribution; gradient steps with
momentum, an L2 penalty and, as a setting, the average of the last half of the iterates. Settings:

- ``batches`` k: every step takes each row with probability 1 / k; ``epochs``: k steps each;
- ``clip``: bound C on a row's gradient; ``step``: w moves by at most about ``step`` in one step, that is, the learning
  rate is ``step`` (1 - momentum) / C;
- ``momentum``, ``l2``; ``constant``: entry of the intercept's column; ``average``: whether the model is the average.

References
----------
Abadi et al. (2016). Deep Learning with Differential Privacy. CCS 2016; Algorithm 1.
"""

import json
import math
from functools import lru_cache
from pathlib import Path
from typing import Any

import dp_accounting
import numpy as np
from dp_accounting import pld
from numba import njit
from scipy.optimize import brentq
from scipy.stats import norm

from benchmarks.peers.job import load, run, with_constant
from benchmarks.peers.tuning import Setting

SPACE: dict[str, tuple[Any, ...]] = {
    "batches": (1, 2, 5, 10, 20, 50, 100),
    "epochs": (1, 2, 5, 10, 20, 40, 80, 160, 320),
    "clip": (0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0),
    "step": tuple(0.00625 * 2.0**k for k in range(14)),
    "constant": (0.1, 0.3, 1.0),
    "momentum": (0.0, 0.5, 0.9),
    "l2": (0.0, 1e-5, 1e-4, 1e-3),
    "average": (False, True),  # last: both come from one run
}
DEFAULT = {"constant": 0.3, "momentum": 0.0, "l2": 0.0}


@njit(fastmath=True, cache=True)
def descend(data, indices, indptr, norms, y, regression, batches, steps, clip, rate, momentum, l2, sigma, d, rng):
    """Return the last iterate and the average of the last half of them."""
    n = len(y)
    q = 1.0 / batches
    expected = q * n
    log_rest = math.log1p(-q) if batches > 1 else 0.0
    w, velocity, total = np.zeros(d), np.zeros(d), np.zeros(d)
    averaged = 0
    for t in range(steps):
        gradient = np.zeros(d)
        i = -1
        while True:
            i += 1 if batches == 1 else 1 + int(math.log(1.0 - rng.random()) / log_rest)
            if i >= n:
                break
            z = 0.0
            for k in range(indptr[i], indptr[i + 1]):
                z += data[k] * w[indices[k]]
            slope = z - y[i] if regression else -y[i] / (1.0 + math.exp(min(max(y[i] * z, -500.0), 500.0)))
            length = abs(slope) * norms[i]
            if length > clip:
                slope *= clip / length
            for k in range(indptr[i], indptr[i + 1]):
                gradient[indices[k]] += slope * data[k]
        late = 2 * (t + 1) > steps
        averaged += late
        for k in range(d):
            g = (gradient[k] + sigma * clip * rng.standard_normal()) / expected + l2 * w[k]
            velocity[k] = momentum * velocity[k] + g
            w[k] -= rate * velocity[k]
            if late:
                total[k] += w[k]
    return w, total / averaged


def epsilon_of(sigma: float, q: float, steps: int, delta: float) -> float:
    """Return epsilon of the run, add-remove adjacency; the grid resolves the privacy loss of one step."""
    event = dp_accounting.PoissonSampledDpEvent(q, dp_accounting.GaussianDpEvent(sigma))
    interval = min(1e-3, max(1e-5, 0.1 * q * math.sqrt(math.expm1(min(1.0 / sigma**2, 50.0)))))
    accountant = pld.PLDAccountant(
        dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE, value_discretization_interval=interval
    )
    accountant.compose(event, steps)
    return float(accountant.get_epsilon(delta))


def _gaussian_mu(epsilon: float, delta: float) -> float:
    """Return mu such that mu-GDP is exactly (epsilon, delta)-DP."""
    return float(
        brentq(
            lambda mu: norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu) - delta,
            1e-6,
            100.0,
        )
    )


@lru_cache(maxsize=4096)
def noise_multiplier(epsilon: float, delta: float, batches: int, steps: int) -> float:
    """Return the least noise multiplier (to 0.1 %) that keeps (epsilon, delta)."""
    mu = _gaussian_mu(epsilon, delta)
    if batches == 1:
        return math.sqrt(steps) / mu  # Gaussian mechanisms compose exactly
    q = 1.0 / batches
    low = high = 1.0 / math.sqrt(math.log1p(mu**2 / (q**2 * steps)))  # the central limit, a good start
    while epsilon_of(high, q, steps, delta) > epsilon:
        low, high = high, 1.05 * high
    while epsilon_of(low, q, steps, delta) <= epsilon:
        low, high = low / 1.05, low
    while high > 1.001 * low:
        middle = math.sqrt(low * high)
        if epsilon_of(middle, q, steps, delta) > epsilon:
            low = middle
        else:
            high = middle
    return high


NOISE = Path(__file__).parents[1] / "results" / "peers" / "noise.json"


@lru_cache(maxsize=1)
def _known() -> dict[str, float]:
    return json.loads(NOISE.read_text(encoding="utf-8")) if NOISE.exists() else {}


def sigma_of(job: dict[str, Any], setting: Setting) -> float:
    """Return the noise multiplier of a setting; known ones are kept on disk."""
    batches, steps = setting["batches"], setting["batches"] * setting["epochs"]
    key = f"{job['epsilon']} {job['delta']} {batches} {steps}"
    if key not in _known():
        _known()[key] = noise_multiplier(job["epsilon"], job["delta"], batches, steps)
        NOISE.parent.mkdir(parents=True, exist_ok=True)
        NOISE.write_text(json.dumps(_known()), encoding="utf-8")
    return _known()[key]


@lru_cache(maxsize=8)
def _iterates(path, regression, sigma, batches, epochs, clip, step, constant, momentum, l2, seed):
    X, y = with_constant(path, constant, False), load(path).y.astype(np.float64)
    norms = np.sqrt(np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64)).ravel()
    rate = step * (1.0 - momentum) / clip
    return descend(
        X.data, X.indices, X.indptr, norms, y, regression, batches, batches * epochs, clip, rate, momentum, l2, sigma,
        X.shape[1], np.random.default_rng(seed),
    )  # fmt: skip


def train(path: str, job: dict[str, Any], setting: Setting, seed: int) -> tuple[np.ndarray, float]:
    """Train one model."""
    parts = {name: value for name, value in setting.items() if name in SPACE and name != "average"}
    iterates = _iterates(path, job["task"] == "regression", sigma_of(job, setting), **parts, seed=seed)
    w = iterates[int(setting["average"])]
    return w[:-1], float(w[-1] * setting["constant"])


def space(job: dict[str, Any]) -> dict[str, Any]:
    """Return what is searched."""
    X = load(job["data"][0]).X

    def cost(setting: Setting) -> float:
        """Return rough seconds of a fit with a library that knows no sparse rows."""
        return 3e-9 * X.shape[0] * X.shape[1] * setting["epochs"] + 1.5e-3 * setting["epochs"] * setting["batches"]

    def allowed(setting: Setting) -> bool:
        """Tell whether a setting has at most 2,000 steps, and takes at most about 0.3 s here."""
        steps = setting["epochs"] * setting["batches"]
        return steps <= 2000 and 3e-9 * X.nnz * setting["epochs"] + 25e-9 * X.shape[1] * steps <= 0.3

    return {
        "space": SPACE,
        "coarse": {
            "batches": (1, 10, 50),
            "epochs": (5, 20, 80),
            "clip": (0.25, 1.0) if job["task"] == "regression" else (0.1, 1.0),
            "step": (0.1, 0.4, 1.6, 6.4),
            "average": (False, True),
        },
        "default": DEFAULT,
        "cost": cost,
        "allowed": allowed,
    }


if __name__ == "__main__":
    run(train, space, lambda job, setting: {**setting, "sigma": sigma_of(job, setting)})
