"""DP-SGD on a linear model in numba: the algorithm of Opacus and JAX Privacy, fast enough to be tuned cell by cell.

Poisson sampling, per-example clipping, Gaussian noise calibrated by the privacy loss distribution; gradient steps with
momentum and an L2 penalty. The last iterate and averages of the last quarter and half of the run are its variants. For
more than two classes it trains one multinomial model: the gradient of a row, a matrix, is clipped as a whole. Settings:

- ``batches`` k: every step takes each row with probability 1 / k; ``epochs``: k steps each;
- ``clip``: bound C on a row's gradient; ``step``: w moves by at most about ``step`` in one step, that is, the learning
  rate is ``step`` (1 - momentum) / C;
- ``momentum``, ``l2``; ``constant``: entry of the intercept's column; ``centre``: what is taken from numbers to learn.

References
----------
Abadi et al. (2016). Deep Learning with Differential Privacy. CCS 2016; Algorithm 1.
"""

import itertools
import json
import math
import os
from functools import lru_cache
from pathlib import Path
from typing import Any

import dp_accounting
import numpy as np
import scipy.sparse as sp
from dp_accounting import pld
from numba import njit
from scipy.optimize import brentq
from scipy.stats import norm

from benchmarks.peers.job import AVERAGES, Models, average_starts, centred, entries, load, run, with_constant
from benchmarks.peers.tuning import Setting

SPACE: dict[str, tuple[Any, ...]] = {
    "batches": (1, 2, 5, 10, 20, 50, 100), "epochs": (1, 2, 5, 10, 20, 40, 80, 160, 320, 640),
    "clip": (0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0),
    "step": tuple(0.00625 * 2.0**k for k in range(18)), "constant": (0.03, 0.1, 0.3, 1.0), "momentum": (0.0, 0.5, 0.9),
    "l2": (0.0, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1), "centre": (0.0,),
}  # fmt: skip
CENTRES = (-0.9, -0.75, -0.5, -0.25, 0.0, 0.25, 0.5, 0.75, 0.9)
DEFAULT = {
    "batches": 10, "epochs": 40, "clip": 0.25, "step": 0.1, "constant": 0.3, "momentum": 0.0, "l2": 0.0, "centre": 0.0,
}  # fmt: skip


@njit(fastmath=True, cache=True)
def _slope(z, y, regression):
    """Return the derivative of the loss of a row."""
    return z - y if regression else -y / (1.0 + math.exp(min(max(y * z, -500.0), 500.0)))


@njit(fastmath=True, cache=True)
def _add_gradients(data, indices, indptr, norms, y, w, gradient, regression, batches, clip, rng):
    """Add the clipped gradients of a Poisson sample; without indices the rows are dense."""
    n, d = len(y), len(w)
    dense = len(indices) == 0
    log_rest = math.log1p(-1.0 / batches) if batches > 1 else 0.0
    i = -1
    while True:
        i += 1 if batches == 1 else 1 + int(math.log(1.0 - rng.random()) / log_rest)
        if i >= n:
            break
        z = np.float32(0.0)
        if dense:
            row = data[i * d : (i + 1) * d]
            for k in range(d):
                z += row[k] * w[k]
        else:
            for k in range(indptr[i], indptr[i + 1]):
                z += data[k] * w[indices[k]]
        slope = _slope(float(z), y[i], regression)
        length = abs(slope) * norms[i]
        if length > clip:
            slope *= clip / length
        s = np.float32(slope)
        if dense:
            for k in range(d):
                gradient[k] += s * row[k]
        else:
            for k in range(indptr[i], indptr[i + 1]):
                gradient[indices[k]] += s * data[k]


@njit(fastmath=True, cache=True)
def _add_joint_gradients(data, indices, indptr, norms, y, w, gradient, classes, batches, clip, rng):
    """Add the clipped gradients of a multinomial model; `w` has the classes of a feature beside each other."""
    log_rest = math.log1p(-1.0 / batches) if batches > 1 else 0.0
    z = np.empty(classes, np.float32)
    i = -1
    while True:
        i += 1 if batches == 1 else 1 + int(math.log(1.0 - rng.random()) / log_rest)
        if i >= len(y):
            break
        z[:] = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            start = indices[k] * classes
            for c in range(classes):
                z[c] += data[k] * w[start + c]
        top, total = np.max(z), 0.0
        for c in range(classes):
            z[c] = math.exp(z[c] - top)
            total += z[c]
        square = 0.0
        for c in range(classes):
            z[c] = z[c] / total - (c == y[i])
            square += z[c] * z[c]
        length = math.sqrt(square) * norms[i]
        if length > clip:
            z *= np.float32(clip / length)
        for k in range(indptr[i], indptr[i + 1]):
            start = indices[k] * classes
            for c in range(classes):
                gradient[start + c] += z[c] * data[k]


@njit(fastmath=True, cache=True)
def descend(
    data, indices, indptr, norms, y, classes, regression, batches, steps, clip, rate, momentum, l2, sigma, size, starts,
    rng,
):  # fmt: skip
    """Return the last iterate, and the averages of the iterates from each of the `starts` on."""
    expected = len(y) / batches
    w, velocity = np.zeros(size), np.zeros(size)
    totals = np.zeros((len(starts), size))
    point, gradient = np.zeros(size, np.float32), np.zeros(size, np.float32)
    for t in range(steps):
        gradient[:] = 0.0
        point[:] = w
        if classes > 2:
            _add_joint_gradients(data, indices, indptr, norms, y, point, gradient, classes, batches, clip, rng)
        else:
            _add_gradients(data, indices, indptr, norms, y, point, gradient, regression, batches, clip, rng)
        for k in range(size):
            g = (gradient[k] + sigma * clip * rng.standard_normal()) / expected + l2 * w[k]
            velocity[k] = momentum * velocity[k] + g
            w[k] -= rate * velocity[k]
        for a in range(len(starts)):
            if t >= starts[a]:
                totals[a] += w
    for a in range(len(starts)):
        totals[a] /= steps - starts[a]
    return totals


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


NOISE = Path(__file__).parents[1] / "results" / "peers" / "noise.json"  # shared by all sets


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
        other = NOISE.with_suffix(f".{os.getpid()}")  # several processes may write: each whole, the last one stays
        other.write_text(json.dumps(_known()), encoding="utf-8")
        other.replace(NOISE)
    return _known()[key]


def _arrays(X: Any) -> tuple[np.ndarray, ...]:
    """Return the rows as the compiled code takes them, and their norms."""
    if sp.issparse(X):
        norms = np.sqrt(np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64)).ravel()
        return X.data, X.indices.astype(np.int32), X.indptr.astype(np.int64), norms
    return X.ravel(), np.zeros(0, np.int32), np.zeros(0, np.int64), np.linalg.norm(X, axis=1).astype(np.float64)


@lru_cache(maxsize=8)
def _table(path: str, constant: float, sparse: bool) -> tuple[np.ndarray, ...]:
    return _arrays(with_constant(path, constant, False if sparse else None))


def train(path: str, job: dict[str, Any], setting: Setting, seed: int) -> Models:
    """Train one model; its variants are shares of the run that are averaged."""
    y = centred(path, setting).astype(np.float64)
    classes = int(np.max(y)) + 1 if job["task"] == "multiclass" else 1
    features = load(path).X.shape[1] + 1
    steps = setting["batches"] * setting["epochs"]
    rate = setting["step"] * (1.0 - setting["momentum"]) / setting["clip"]
    found = descend(
        *_table(path, setting["constant"], classes > 1), y, classes, job["task"] == "regression", setting["batches"],
        steps, setting["clip"], rate, setting["momentum"], setting["l2"], sigma_of(job, setting), features * classes,
        average_starts(steps), np.random.Generator(np.random.SFC64(seed)),
    )  # fmt: skip
    models: Models = {}
    for share, w in zip(AVERAGES, found, strict=True):
        w = w.reshape(features, classes) if classes > 1 else w
        models[share] = (w[:-1], w[-1] * setting["constant"])
    return models


def likely(job: dict[str, Any], n: int) -> list[Setting]:
    """Return settings that carry noise of a likely size, step * steps / (mu n), into each direction of the weights."""
    mu = _gaussian_mu(job["epsilon"], job["delta"])
    regression = job["task"] == "regression"
    noises, clips = ((0.1, 0.3, 1.0), (0.1, 0.25)) if regression else ((1.0, 2.0, 4.0), (0.1, 0.5))
    found = []
    for noise, clip, (batches, epochs) in itertools.product(noises, clips, ((10, 40), (50, 80))):
        wanted = noise * mu * n / (batches * epochs)
        step = min(SPACE["step"], key=lambda step, wanted=wanted: abs(math.log(step / wanted)))
        found.append({**DEFAULT, "batches": batches, "epochs": epochs, "clip": clip, "step": step})
    return found


def space(job: dict[str, Any]) -> dict[str, Any]:
    split = load(job["tuning"])
    n, d = split.X.shape
    regression, classes = job["task"] == "regression", 1
    if job["task"] == "multiclass":
        classes = int(np.max(split.y)) + 1
    dense = not sp.issparse(split.X) and classes == 1
    pass_ = (0.2e-9 if dense else 3e-9 * max(1.0, 0.4 * classes)) * entries(split.X)

    def cost(setting: Setting) -> float:
        """Return rough seconds of a fit and its scores here."""
        epochs, batches = setting["epochs"], setting["batches"]
        epoch = pass_ + n * ((2e-8 if batches == 1 else 11e-8) + 1e-8 * (classes - 1))
        return 5e-4 + 7e-8 * n + epoch * epochs + epochs * batches * (1e-6 + 4.5e-9 * d * classes)

    def price(setting: Setting) -> float:
        """Return rough seconds of a fit with a library that knows no sparse rows."""
        return 3e-9 * n * d * setting["epochs"] + 1.5e-3 * setting["epochs"] * setting["batches"]

    return {
        "space": {**SPACE, "centre": CENTRES} if regression else SPACE,
        "coarse": {
            "batches": (1, 10, 50), "epochs": (5, 20, 80), "clip": (0.05, 0.5) if regression else (0.1, 1.0),
            "step": (0.025, 0.1, 0.4, 1.6, 6.4) if regression else (0.1, 0.4, 1.6, 6.4, 25.6),
        },
        "frugal": {"batches": (5, 10, 20, 50), "epochs": (1, 2, 5, 10, 20, 40, 80), "step": (1.6, 6.4, 25.6)},
        "default": DEFAULT,
        "probe": "centre" if regression else None,
        "likely": likely(job, n),
        "together": (("epochs", "step"), ("batches", "epochs"), ("batches", "step"), ("clip", "step"),
                     ("constant", "step")),
        "cost": cost,
        "price": price,
        "budget": 15.0,
    }  # fmt: skip


if __name__ == "__main__":
    run(train, space, lambda job, setting: {**setting, "sigma": sigma_of(job, setting)})
