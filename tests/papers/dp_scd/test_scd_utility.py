"""Where the utility theorem of the DP-SCD paper breaks, each point on its own: docs/papers/dp_scd.md."""

import math

import numpy as np
import pytest

from sottovoce.losses import Logistic, Squared
from sottovoce.papers.dp_scd.bounds import PrintedUtility
from support.printed_scd import printed_plan, printed_run, ridge


def printed(n=200, batch=200, alpha=5.0, smoothness=1.0, shortened=0.0):
    return PrintedUtility(n_samples=n, batch_size=batch, alpha=alpha, smoothness=smoothness, shortened=shortened)


def test_the_condition_is_that_of_a_contraction_below_one_half():
    for n in (10, 1000):
        for batch in (1, 7, n):
            for alpha in (1e-4, 0.6, 1.01, 3.0, 50.0):
                for shortened in (0.0, 0.3):
                    theorem = printed(n, batch if batch < n else n, alpha, 0.5, shortened)
                    assert theorem.holds == (theorem.contraction < 0.5)


def test_the_condition_asks_for_mu_lambda_above_one():
    """As L <= N: 2 (1 - kappa) mu lambda - 1 > mu lambda N / L >= mu lambda."""
    for batch in (1, 100, 200):
        assert not printed(batch=batch, alpha=1.0).holds
        assert not printed(batch=batch, alpha=50.0, shortened=0.5).holds
    assert printed(alpha=1.01).holds


@pytest.mark.parametrize(("n", "alpha", "smoothness"), [(347_786, 1e-4, 1.0), (6218, 1e-4, 0.25)])
def test_the_condition_is_met_in_no_experiment_of_the_paper(n, alpha, smoothness):
    for batch in (1, 5, 10, 50, 100, 200, 500, 1000, 1250, 1500, 1750, 2000, n):
        left, right = printed(n, batch, alpha, smoothness).condition
        assert left < 0.0 < right


def test_lemma_2_is_false_where_v_has_noise_of_its_own():
    """At the optimum S cannot fall, and S = 0 on the right; noise in v alone, of mean 0, makes it rise."""
    problem, lam = ridge(30, 3, 0, 0.5), 0.5
    n, a = 30, problem.optimum
    rng, changes = np.random.default_rng(1), []
    for _ in range(200):
        v = problem.X.T @ a + 2.0 * rng.standard_normal(3)
        step = (problem.y - problem.X @ v / (lam * n) - a) / (1.0 + n / (lam * n))  # G of Eq. (8), L = N
        changes.append(problem.suboptimality(a) - problem.suboptimality(a + step))
    mean, error = np.mean(changes), np.std(changes) / math.sqrt(200)
    assert mean < -5.0 * error
    assert mean < -1e-4


def test_lemma_3_forgets_the_conjugates_and_the_factor_of_the_noise():
    """Exactly: S rises by (L / 2)(1/N + 1/(lambda N^2)) times the variance, 1 + lambda N times what is printed."""
    n, lam, noise = 40, 2.0, 0.3
    problem, theorem = ridge(n, 4, 2, lam), printed(40, 40, lam)
    rise = 0.5 * noise**2 * np.trace(problem.bend)
    assert rise == pytest.approx(theorem.increase(noise**2) * (1.0 + lam * n))


@pytest.mark.parametrize("width", [2, 64])
def test_theorem_2_is_false_where_its_condition_is_met(width):
    """One step, no step is scaled, mu lambda = 5: S is far above the bound, and as far as the exact Lemma 3 says."""
    n, lam, clip = 100, 5.0, 2.0
    problem, theorem = ridge(n, width, 3, lam), printed(100, 100, lam)
    plan = printed_plan(Squared(), problem.X, alpha=lam, batch_size=n, clip=clip, epochs=1, epsilon=1.0)
    runs = [printed_run(plan, problem.X, problem.y, seed) for seed in range(30)]
    measured = np.mean([problem.suboptimality(a) for a, _ in runs])
    variance, start = 2.0 * (clip * plan.noise_multiplier) ** 2, problem.suboptimality(np.zeros(n))
    assert theorem.holds
    assert measured > 100.0 * theorem.bound(start, 1, variance)
    step = (problem.y - np.zeros(n)) / (1.0 + 1.0 / lam)
    exact = problem.suboptimality(step) + 0.5 * variance * np.trace(problem.bend)
    assert measured == pytest.approx(exact, rel=0.15)
    # what is released has noise in each of its M entries: not independent of M
    excess = np.mean([problem.excess(v) for _, v in runs])
    released = 0.5 * variance / (lam * n) ** 2 * (width * lam + 1.0) + problem.excess(problem.X.T @ step)
    assert excess == pytest.approx(released, rel=0.4)


def test_theorem_2_bounds_infinity_for_the_logistic_loss():
    problem = ridge(50, 3, 4, 5.0)
    y = np.where(problem.y > 0.0, 1.0, -1.0)
    plan = printed_plan(Logistic(), problem.X, alpha=5.0, batch_size=50, clip=0.5, epochs=1, epsilon=1.0)
    a, _ = printed_run(plan, problem.X, y, 0)
    assert np.isinf(Logistic().conjugate(y, a)).any()


@pytest.mark.parametrize("loss", [Squared(), Logistic()], ids=["squared", "logistic"])
def test_remark_1_holds_and_its_spread_is_known(loss):
    """E v = X' E alpha, whatever is clipped; and E |v - X' alpha|^2 = (M steps + epochs sum |x|^2) 2 C^2 sigma^2."""
    n, width, epochs, clip = 20, 3, 2, 0.05
    problem = ridge(n, width, 5, 0.1)
    y = problem.y if not loss.is_classification else np.where(problem.y > 0.0, 1.0, -1.0)
    plan = printed_plan(loss, problem.X, alpha=0.1, batch_size=5, clip=clip, epochs=epochs, epsilon=1.0)
    away = []
    for seed in range(250):
        a, v = printed_run(plan, problem.X, y, seed)
        away.append(v - problem.X.T @ a)
    away = np.array(away)
    variance = 2.0 * (clip * plan.noise_multiplier) ** 2
    assert np.abs(away.mean(axis=0) / (away.std(axis=0) / math.sqrt(250))).max() < 4.0
    expected = variance * (width * epochs * n / 5 + epochs * n)
    assert np.mean(np.sum(away**2, axis=1)) == pytest.approx(expected, rel=0.15)
