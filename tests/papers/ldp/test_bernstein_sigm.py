"""SIGM on exact records (no noise): it converges to the minimiser of the surrogate, at the stated rate."""

import numpy as np
import pytest
from scipy.optimize import minimize

from sottovoce.papers.ldp.server import expected_noise_error, sigm
from sottovoce.papers.ldp.surrogate import GENERAL_LOSSES, Oracle
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
