r"""The listings of the paper in plain numpy: its notation, its order, its sampling. For reading, not for private rows.

``X`` has one example a *column*, as in the paper: M coordinates, N examples. Numbers of steps are the listings' own.
Step 8 divides zeta by max(1, \|zeta\| / C), steps 12 and 13 add: one of the two copies at hand has slips there. G of
Algorithm 2 is not printed; what stands here is Eq. (8) for the primal problem, with 1/mu for a bound on l''. Noise is
an ordinary generator's, and sigma is an argument: step 2 is `sottovoce.papers.dp_scd.published.moments_noise`.
"""

import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

Array = NDArray[Any]
_BOX: Final = 1e-4  # where the paper keeps the dual variable of logistic loss before its one Newton step


class Released(NamedTuple):
    """What an algorithm releases at its end: theta, and the noisy vectors that it kept."""

    theta: Array
    model: Array  # alpha, or theta again
    v: Array


def dp_scd(X: Array, y: Array, loss: str, lam: float, T: int, L: int, C: float, sigma: float, rng: Any) -> Released:
    """Run Algorithm 1, DP-SCD (for Equation 3)."""
    M, N = X.shape
    alpha, v = np.zeros(N), np.zeros(M)  # 1
    for _ in range(T):  # 3
        B = rng.choice(N, L, replace=False)  # 5: L examples, uniformly at random in each step
        x, ratio = X[:, B], L * np.sum(X[:, B] ** 2, axis=0) / (lam * N)  # 4, 6: all at the same alpha and v
        zeta = STEPS[loss](alpha[B], y[B], x.T @ v / (lam * N), ratio)  # 7: argmin of Equation 8
        zeta /= np.maximum(1.0, np.abs(zeta) / C)  # 8
        alpha[B] += zeta + rng.normal(0.0, math.sqrt(2.0) * C * sigma, L)  # 9, 12
        v += x @ zeta + rng.normal(0.0, math.sqrt(2.0) * C * sigma, M)  # 10, 13
    return Released(v / (lam * N), alpha, v)


def primal_dp_scd(
    X: Array, y: Array, loss: str, lam: float, T: int, L: int, C: float, sigma: float, rng: Any
) -> Released:
    """Run Algorithm 2, primalDP-SCD (for Equation 1); rows X[j, :] are to have norm 1, as only data can tell."""
    M, N = X.shape
    theta, v, smooth = np.zeros(M), np.zeros(N), _SMOOTHNESS[loss]  # 1; v = X' theta has an entry an example
    noise = 2.0 * C * math.sqrt(L * (L + 1)) * sigma
    for _ in range(T):  # 3
        B = rng.choice(M, L, replace=False)  # 5: L coordinates
        x = X[B]
        slope = x @ SLOPES[loss](y, v) / N + lam * theta[B]  # 7: argmin of slope zeta + bend zeta^2 / 2
        zeta = -slope / (L * smooth * np.sum(x**2, axis=1) / N + lam)
        zeta /= np.maximum(1.0, np.abs(zeta) / C)  # 8
        v += zeta @ x + rng.normal(0.0, noise, N)  # 9, 13
        theta[B] += zeta + rng.normal(0.0, noise, L)  # 10, 12
    return Released(theta, theta, v)


def seq_dp_scd(X: Array, y: Array, loss: str, lam: float, T: int, L: int, C: float, sigma: float, rng: Any) -> Released:
    """Run Algorithm 3, seqDP-SCD (for Equation 3): each step sees those before it."""
    M, N = X.shape
    alpha, v = np.zeros(N), np.zeros(M)
    noise = 2.0 * C * math.sqrt(L * (L + 1)) * sigma
    for _ in range(T):  # 3
        B = rng.choice(N, L, replace=False)  # 4
        for j in B:  # 5
            x = X[:, j]
            zeta = STEPS[loss](alpha[j], y[j], x @ v / (lam * N), x @ x / (lam * N))  # 6: one at a time, so no L
            zeta /= max(1.0, abs(zeta) / C)  # 7
            alpha[j] += zeta  # 8
            v += zeta * x  # 9
        alpha[B] += rng.normal(0.0, noise, L)  # 11
        v += rng.normal(0.0, noise, M)  # 12
    return Released(v / (lam * N), alpha, v)


# --- argmin over zeta of l*(-(a + zeta)) + m zeta + r zeta^2 / 2 (Equation 8, times N), and derivatives of losses ---


def _squared_step(a: Array, y: Array, m: Array, r: Array) -> Array:
    return (y - a - m) / (1.0 + r)


def _hinge_step(a: Array, y: Array, m: Array, r: Array) -> Array:
    b = a * y
    return np.asarray(y * (np.clip(b + (1.0 - y * m) / np.maximum(r, 1e-30), 0.0, 1.0) - b))


def _logistic_step(a: Array, y: Array, m: Array, r: Array) -> Array:
    """Return one Newton step, as the authors take it."""
    b = np.clip(a * y, _BOX, 1.0 - _BOX)
    gradient = np.log(b / (1.0 - b)) + y * m
    return np.asarray(y * (np.clip(b - gradient / (1.0 / (b * (1.0 - b)) + r), _BOX, 1.0 - _BOX) - b))


STEPS: Final[dict[str, Callable[..., Any]]] = {
    "squared": _squared_step, "hinge": _hinge_step, "logistic": _logistic_step,
}  # fmt: skip
SLOPES: Final[dict[str, Callable[..., Any]]] = {
    "squared": lambda y, m: m - y,
    "hinge": lambda y, m: np.where(y * m < 1.0, -y, np.zeros_like(y)),
    "logistic": lambda y, m: -y * expit(-y * m),
}
_SMOOTHNESS: Final = {"squared": 1.0, "logistic": 0.25}  # 1/mu; the hinge has none
