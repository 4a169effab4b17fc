"""The simulated pass of the benchmark is the pass over real reports, in law."""

import numpy as np
import pytest

from benchmarks.papers.ldp.linear_in_d import SIGNAL, people_needed, simulated
from sottovoce.papers.ldp import BernsteinProtocol, bernstein_reports, fit_reports

N = 400


def population(n=2000):
    rng = np.random.default_rng(0)
    X = 0.4 * rng.normal(size=(n, SIGNAL))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    return X, np.where(X @ [2.0, -1.0, 0.0, 0.5, 0.0] + 0.2 * rng.normal(size=n) > 0, 1.0, -1.0)


def by_reports(public, X, y, runs):
    found = []
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        some = rng.integers(len(X), size=N)
        rows = np.zeros((N, public.n_features))
        rows[:, :SIGNAL] = X[some]
        reports = bernstein_reports(public, rows, y[some], random_bytes=rng.bytes)
        found.append(fit_reports(public, reports, random_state=seed).coef_[:SIGNAL])
    return np.array(found)


@pytest.mark.slow
@pytest.mark.parametrize(("loss", "degree", "d"), [("hinge", 2, 5), ("hinge", 1, 12), ("logistic", 2, 6)])
@pytest.mark.filterwarnings("ignore:the noise swamps")
def test_simulated_weights_have_the_law_of_those_from_reports(loss, degree, d):
    """Means and spreads of all five weights over 120 passes of each kind, at a noise where both matter."""
    public = BernsteinProtocol(loss, d, 150.0, 1e-6, degree=degree)
    X, y = population()
    runs = 120
    real = by_reports(public, X, y, runs)
    stops = np.array([N])
    made = np.array([simulated(X, y, d, public.oracle, public.copy_noise, stops, seed)[0] for seed in range(runs)])
    errors = np.sqrt((real.var(axis=0, ddof=1) + made.var(axis=0, ddof=1)) / runs)
    assert np.abs((real.mean(axis=0) - made.mean(axis=0)) / errors).max() < 4.0
    assert np.abs(real.mean(axis=0)).max() > 8.0 * errors.max()  # there is something to miss
    ratio = real.std(axis=0, ddof=1) / made.std(axis=0, ddof=1)
    assert np.abs(np.log(ratio)).max() < 4.0 / np.sqrt(runs)


def test_people_needed_between_two_stops():
    assert people_needed(np.array([1.0, 0.4, 0.1]), np.array([100, 1000, 10_000]), 0.2) == pytest.approx(1000 * 10**0.5)
    assert np.isnan(people_needed(np.array([1.0, 0.4]), np.array([100, 1000]), 0.2))
