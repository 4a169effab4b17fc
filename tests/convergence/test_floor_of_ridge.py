"""Ridge is never worse than a constant by more than that constant's noise: not far below its floor, whatever the table.

Over signals, widths, sizes, budgets and label bounds. Where the default is the constant, its error is that of the exact
mean plus the noise of the mean. Elsewhere passes over rows, or steps, are taken, whose noise has no such bound; but
slope and shift, or a short cut, take it back: a weak signal, or none, costs at most a tenth of the error of the exact
mean beside that noise, and a fifth where labels lie in two heaps. Seeds are fixed: each figure is a mean over 12 fits.
"""

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.privacy.calibration import gaussian_mu
from support.pairs import by_pairs

SEEDS = 12
TESTED = 2000


def errors(n, d, epsilon, signal, bounds, mean, zeros=0.0):
    """Return (solver, MSE of the default, MSE of the exact mean, variance of the noise of a mean), means over seeds."""
    half = 0.5 * (bounds[1] - bounds[0])
    found, solver = [], ""
    for seed in range(SEEDS):
        rng = np.random.default_rng([n, d, seed])
        X = rng.standard_normal((n + TESTED, d)) / np.sqrt(d)
        w = rng.standard_normal(d)
        y = X @ (w * signal * np.sqrt(d) / np.linalg.norm(w)) + rng.standard_normal(n + TESTED) + mean
        y = np.clip(np.where(rng.random(n + TESTED) < zeros, 0.0, y), *bounds)
        model = sv.DPRidge(
            epsilon=epsilon, delta=1e-6, data_norm=2.0, label_bounds=bounds, adjacency="zero-out", random_state=seed
        ).fit(X[:n], y[:n])
        solver = model.guarantee_.parameters["solver"]
        found.append([np.mean((model.predict(X[n:]) - y[n:]) ** 2), np.mean((y[:n].mean() - y[n:]) ** 2)])
    ours, exact = np.mean(found, axis=0)
    return solver, ours, exact, (half / (gaussian_mu(epsilon, 1e-6) * n)) ** 2


@pytest.mark.parametrize(
    ("n", "signal", "epsilon", "d", "labels"),
    by_pairs(
        [700, 1500, 3000], [0.0, 0.3], [0.05, 0.1, 0.3, 1.0], [1, 8, 30],
        [((-10.0, 20.0), 0.0), ((-4.0, 4.0), 1.0), ((0.0, 100.0), 8.0)],
    ),
)  # fmt: skip
def test_a_weak_signal_costs_no_more_than_the_noise_of_a_constant(n, signal, epsilon, d, labels):
    solver, ours, exact, noise = errors(n, d, epsilon, signal, *labels)
    if solver == "constant":
        # the mean of 12 squared normal numbers is beyond 3.3 once in 50,000 times
        assert ours <= exact + 3.3 * noise
    else:
        assert ours <= 1.1 * exact + noise


@pytest.mark.parametrize("zeros", [0.5, 0.8, 0.95])
@pytest.mark.parametrize(("n", "d", "epsilon"), [(700, 1, 0.2), (700, 8, 0.3), (3000, 30, 0.1), (1500, 8, 0.2)])
def test_labels_that_are_mostly_zeros_cost_a_fifth_at_most(zeros, n, d, epsilon):
    solver, ours, exact, noise = errors(n, d, epsilon, 0.0, (0.0, 20.0), 4.0, zeros)
    assert solver == "momentum"
    assert ours <= 1.2 * exact + noise


@pytest.mark.parametrize(
    ("n", "d", "epsilon"), [(700, 1, 1.0), (700, 8, 1.0), (700, 30, 1.0), (700, 1, 0.3), (700, 8, 0.3), (1500, 30, 0.3)]
)
def test_a_strong_signal_is_not_given_up_for_it(n, d, epsilon):
    solver, ours, exact, _ = errors(n, d, epsilon, 3.0, (-10.0, 20.0), 0.0)
    assert solver != "constant"
    assert ours < 0.6 * exact


@pytest.mark.parametrize("d", [3, 6])
@pytest.mark.parametrize(("n", "epsilon"), [(430, 1.0), (650, 0.3), (3000, 0.3)])
@pytest.mark.parametrize("skewed", ["rows and labels", "labels", "noise"])
def test_no_run_is_far_worse_than_a_constant_on_skewed_tables(skewed, n, epsilon, d):
    """Each of 30 runs: no count that is noise alone makes the clip, and so all noise, long, or moves the intercept."""
    for seed in range(30):
        rng = np.random.default_rng([seed, d])
        size = rng.standard_normal(2 * n)
        X = 1.2 * size[:, None] + 0.5 * rng.standard_normal((2 * n, d))
        y = np.exp(1.3 * size + 0.3 * rng.standard_normal(2 * n))
        if skewed == "rows and labels":
            X = np.exp(X)
        if skewed == "noise":
            X, y = rng.standard_normal((2 * n, d)), y + rng.standard_normal(2 * n)
        X = 2.0 * (X - X.min(axis=0)) / np.ptp(X, axis=0) - 1.0
        bounds = min(0.0, float(y.min())), float(y.max())
        model = sv.DPRidge(epsilon=epsilon, delta=1e-4, data_norm=d**0.5, label_bounds=bounds, random_state=seed).fit(
            X[:n], y[:n]
        )
        ours, exact = (np.mean((found - y[n:]) ** 2) for found in (model.predict(X[n:]), y[:n].mean()))
        assert ours <= 1.3 * exact, seed


def test_steps_are_taken_between_a_constant_and_refinement():
    """Refinement has no slope to give, so that it begins where mu n is 100, however few the columns are."""
    known = {epsilon: gaussian_mu(epsilon, 1e-6) * 700 for epsilon in (0.1, 0.15, 0.4, 0.6)}
    taken = [sv.plan(sv.DPRidge(epsilon=epsilon, delta=1e-6, data_norm=1.0, label_bounds=(-1.0, 1.0)), 700, 1).solver
             for epsilon in known]  # fmt: skip
    assert known[0.1] < 22.0 < known[0.15] and known[0.4] < 100.0 < known[0.6]
    assert taken == ["constant", "momentum", "momentum", "refinement"]
