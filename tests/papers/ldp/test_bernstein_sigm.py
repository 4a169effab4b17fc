"""SIGM on exact records (no noise): it converges to the minimiser of the surrogate, at the stated rate."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from sottovoce.papers.ldp.server import expected_noise_error, sigm
from sottovoce.papers.ldp.surrogate import GENERAL_LOSSES, Oracle, bernstein_at
from support.bernstein import gradients
from support.pairs import by_pairs

TICK = 2.0**-20


def records(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)) * np.array([0.8, 0.5, 0.3, 0.2])
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    y = np.where(X @ [1.0, -1.0, 0.5, 0.0] + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)
    return X, y


def as_reports(X, y, degree):
    record = np.rint(np.column_stack([X, y]) / TICK).astype(np.int32)
    return np.repeat(record[:, None, :], degree * (degree + 1) + 1, axis=1)


def run(X, y, oracle, seed, std):
    rng = np.random.default_rng(seed)
    return sigm(as_reports(X, y, oracle.degree), TICK, oracle, std, rng.permutation(len(X)), rng.random(len(X)))


GRID = np.linspace(-1.0, 1.0, 4001)


def risk_of(oracle, X, y):
    """The surrogate's risk, from its derivative by the trapezium rule."""
    slopes = oracle.derivative(GRID)
    values = np.concatenate([[0.0], np.cumsum(0.5 * (slopes[1:] + slopes[:-1]) * np.diff(GRID))])
    return lambda w: float(np.interp(y * (X @ w), GRID, values).mean())


@pytest.mark.parametrize(("name", "degree"), by_pairs([None, "logistic", "absolute"], [1, 3]))
def test_excess_risk_of_the_surrogate(name, degree):
    oracle = Oracle(degree, 0.25, GENERAL_LOSSES.get(name))
    gaps = []
    for n in (300, 30_000):
        X, y = records(n, 0)
        risk = risk_of(oracle, X, y)
        ball = {"type": "ineq", "fun": lambda w: 1.0 - w @ w}
        best = minimize(risk, np.full(4, 0.1), constraints=[ball], method="SLSQP", options={"ftol": 1e-12})
        gap = np.mean([risk(run(X, y, oracle, seed, 1.0)) for seed in range(3)]) - best.fun
        assert gap > -1e-6
        assert gap <= oracle.smoothness / n + expected_noise_error(1.0, n)  # |G| <= 1 here
        gaps.append(gap)
    assert gaps[1] < 0.3 * gaps[0]
    assert gaps[1] < 0.05 * (risk(np.zeros(4)) - best.fun)


@pytest.mark.parametrize("name", [None, "logistic"])
def test_the_pass_is_the_method_as_written(name):
    """The formulas of the module, in plain numpy, on reports that are mostly noise."""
    degree, n, std = 2, 60, 3.0
    oracle = Oracle(degree, 0.25, GENERAL_LOSSES.get(name))
    rng = np.random.default_rng(0)
    X, y = records(n, 0)
    reports = as_reports(X, y, degree) + np.rint(rng.normal(size=(n, 7, 5)) / TICK).astype(np.int32)
    order, shares = rng.permutation(n), rng.random(n)

    def project(v):
        return v / max(1.0, np.linalg.norm(v))

    numbers, s = reports * TICK, oracle.loss.thresholds(shares) if oracle.loss else np.zeros(n)
    c = oracle.coefficients
    x_now, past, moved = np.zeros(4), [], []
    for k, i in enumerate(order):
        b = oracle.smoothness + 2.0**0.75 * std * math.sqrt(k + 2)
        copies = numbers[i]
        u = copies[:, 4] * (copies[:, :4] @ x_now)
        v = (1.0 + u) / 2.0 if name is None else (1.0 + (u - s[i]) / 2.0) / 2.0
        terms = [
            c[j] * math.comb(degree, j) * np.prod(v[1 + j * degree : 1 + j * degree + j])
            * np.prod(1.0 - v[1 + j * degree + j : 1 + (j + 1) * degree])
            for j in range(degree + 1)
        ]  # fmt: skip
        gradient = (oracle.scale * sum(terms) + oracle.offset) * copies[0, 4] * copies[0, :4]
        np.testing.assert_allclose(
            gradients(reports[i : i + 1], TICK, oracle, x_now, shares[i : i + 1])[0], gradient, rtol=1e-9
        )
        past.append(gradient)
        moved.append(project(x_now - gradient / b))
        x_now = project(-np.sum(past, axis=0) / b)
    wanted = np.mean(moved, axis=0)
    np.testing.assert_allclose(sigm(reports, TICK, oracle, std, order, shares), wanted, rtol=1e-9)


def test_the_product_form_is_the_polynomial():
    """Exact copies: the bracket of the gradient is P(u)."""
    oracle = Oracle(4, 0.25)
    X, y = records(20, 1)
    w = np.array([0.5, -0.5, 0.3, 0.1])
    G = gradients(as_reports(X, y, 4), TICK, oracle, w, np.full(20, 0.5))
    u = y * (X @ w)
    np.testing.assert_allclose(G, (bernstein_at(oracle.coefficients, 0.5 * (1.0 + u)) * y)[:, None] * X, atol=1e-5)
