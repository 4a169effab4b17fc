"""Algorithms 1 and 2 of Wang, Smith and Xu (2019) in their own order and sampling, one step a line, in plain numpy.

A record is (x, y), |x| <= 1, y = -1 or 1; u = y <w, x>; M = p (p + 1) + 1 noisy copies. As printed:

* the polynomial is sampled on [0, 1] at j/p and evaluated at u, which lies in [-1, 1] (erratum 1);
* the noise is that of `printed_noise` (erratum 2: it breaks its claim from epsilon = 2 on at p = 1);
* Algorithm 2 draws an s for each factor (erratum 3);
* SIGM draws a report *with replacement* in each of its n steps, so that a report's noise is used again (erratum 6).

``mended=True`` is ours: nodes 2j/p - 1 and argument (1 + u)/2, one s a report; each report once, in random order, is
``turns=rng.permutation(n)``. The sound form, in whole ticks and with receipts, is `fit_reports`; a test compares the
two. Nothing here is private: the noise comes from a generator that the caller knows.
"""

import math

import numpy as np
from numpy.typing import NDArray

from sottovoce.papers.ldp.surrogate import Array, Function, smoothed_hinge_derivative, smoothed_step


def printed_noise(epsilon: float, delta: float, p: int) -> Array:
    """Return the standard deviation of each copy as Theorem 4.5 has it: copy 0, then p (p + 1) others."""
    log_term = math.log(1.25 / delta)
    other = math.sqrt(8.0 * log_term) * p * (p + 1) / epsilon
    return np.array([math.sqrt(32.0 * log_term) / epsilon, *[other] * (p * (p + 1))])


def devices(X: Array, y: Array, stds: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return what the people send: noisy copies of x, of shape (n, M, d), and of y, of shape (n, M)."""
    n, d = X.shape
    noisy_x = X[:, None, :] + stds[:, None] * rng.normal(size=(n, len(stds), d))
    noisy_y = y[:, None] + stds * rng.normal(size=(n, len(stds)))
    return noisy_x, noisy_y


def server(
    x: Array,
    y: Array,
    turns: NDArray[np.int64],
    slope: Function,
    sigma: float,
    smoothness: float,
    *,
    mended: bool = False,
    s: Array | None = None,
    scale: float = 1.0,
    offset: float = 0.0,
) -> Array:
    """Return the weights after one step of SIGM for each report that ``turns`` names.

    ``slope`` is the function whose Bernstein polynomial the gradient has, ``s`` the thresholds of Algorithm 2, one for
    each copy of each report; then the gradient has D = ``scale`` times the polynomial plus ``offset``.
    """
    p = (math.isqrt(4 * x.shape[1] - 3) - 1) // 2
    j = np.arange(p + 1)
    nodes = 2.0 * j / p - 1.0 if mended else j / p
    c = slope(nodes) * [math.comb(p, k) for k in j]
    w, total, mean = (np.zeros(x.shape[2]) for _ in range(3))
    for k, i in enumerate(turns):
        u = y[i] * (x[i] @ w)  # one estimate of y <w, x> from each copy
        if s is not None:
            u = 0.5 * (u - s[i])
        v = 0.5 * (1.0 + u) if mended else u
        polynomial = 0.0
        for t in range(p + 1):  # term t: the copies tp + 1, ..., tp + p
            own = v[t * p + 1 : t * p + p + 1]
            polynomial += c[t] * np.prod(own[:t]) * np.prod(1.0 - own[t:])
        gradient = (scale * polynomial + offset) * y[i, 0] * x[i, 0]
        b = smoothness + 2.0**0.75 * sigma * math.sqrt(k + 2.0)  # SIGM, its parameter p = 1
        total += gradient
        mean += (_in_ball(w - gradient / b) - mean) / (k + 1.0)
        w = _in_ball(-total / b)
    return mean


def algorithm_1(
    X: Array, y: Array, epsilon: float, delta: float, p: int, beta: float, sigma: float, rng: np.random.Generator
) -> Array:
    """Run Algorithm 1 as printed, for the hinge [1/2 - u]_+; sigma bounds the gradient's root mean square."""
    noisy = devices(X, y, printed_noise(epsilon, delta, p), rng)
    turns = rng.integers(len(X), size=len(X))  # "sampling the index": with replacement
    return server(*noisy, turns, lambda t: smoothed_hinge_derivative(t, beta), sigma, 1.0 / beta)


def algorithm_2(
    X: Array,
    y: Array,
    derivative: Function,
    thresholds: Function,
    epsilon: float,
    delta: float,
    p: int,
    beta: float,
    sigma: float,
    rng: np.random.Generator,
) -> Array:
    """Run Algorithm 2 as printed, for a convex 1-Lipschitz f; ``thresholds`` turns uniform numbers into s."""
    low, high = (float(end) for end in derivative(np.array([-1.0, 1.0])))
    x, noisy_y = devices(X, y, printed_noise(epsilon, delta, p), rng)
    s = thresholds(rng.uniform(size=noisy_y.shape))  # one for each factor
    turns = rng.integers(len(X), size=len(X))
    return server(
        x, noisy_y, turns, lambda t: smoothed_step(t, beta), sigma, 1.0 / beta, s=s, scale=high - low, offset=low
    )


def _in_ball(w: Array) -> Array:
    return w / max(1.0, float(np.linalg.norm(w)))
