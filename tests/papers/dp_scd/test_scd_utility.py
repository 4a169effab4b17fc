"""What the DP-SCD paper says of Algorithm 1, each point on its own: its sampling, Lemma 1, and the utility theorem."""

import math

import numpy as np
import pytest

from sottovoce.losses import Hinge, Logistic, Squared
from sottovoce.papers.dp_scd.bounds import (
    PrintedUtility,
    epsilon_of_fixed_visits,
    epsilon_of_printed_sampling,
    lemma_1,
    theorem_2,
)
from sottovoce.papers.dp_scd.published import moments_noise
from sottovoce.privacy.accounting import gaussian_delta, gaussian_epsilon
from sottovoce.privacy.calibration import gaussian_mu
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


DELTA = 1e-3


@pytest.mark.parametrize(
    ("n", "size", "epochs", "printed", "cut"), [(6_218, 500, 10, 2.80, 2.56), (24_420, 500, 10, 6.57, 5.76)]
)
def test_what_holds_where_the_paper_claims_one(n, size, epochs, printed, cut):
    sigma = moments_noise(size / n, epochs * math.ceil(n / size), 1.0, DELTA)
    found = epsilon_of_printed_sampling(n, size, epochs * n // size, sigma, DELTA)
    assert found == pytest.approx(printed, abs=0.005)
    assert epsilon_of_fixed_visits(epochs, sigma, DELTA) == pytest.approx(cut, abs=0.005)


def test_all_rows_in_each_step_is_the_gaussian_mechanism():
    assert epsilon_of_printed_sampling(50, 50, 9, 4.0, DELTA) == pytest.approx(gaussian_epsilon(0.75, DELTA), rel=1e-6)
    assert epsilon_of_fixed_visits(9, 4.0, DELTA) == gaussian_epsilon(0.75, DELTA)


def test_nothing_is_lost_where_a_row_is_hardly_ever_drawn():
    assert epsilon_of_printed_sampling(10**9, 1, 1, 1.0, DELTA) == 0.0


def test_the_mixture_is_that_of_drawn_batches():
    n, size, steps, sigma, rng = 40, 8, 20, 2.0, np.random.default_rng(0)
    epsilon = epsilon_of_printed_sampling(n, size, steps, sigma, DELTA)
    visits = [sum(0 in rng.choice(n, size, replace=False) for _ in range(steps)) for _ in range(4000)]
    spent = [gaussian_delta(math.sqrt(count) / sigma, epsilon) if count else 0.0 for count in visits]
    assert np.mean(spent) == pytest.approx(DELTA, rel=0.15)
    assert epsilon > epsilon_of_fixed_visits(steps * size // n, sigma, DELTA)


@pytest.mark.parametrize("loss", [Squared(), Hinge()], ids=["squared", "hinge"])
def test_lemma_1_is_reached_for_our_neighbour_and_passed_for_its_own(loss):
    states = [(a, 1.0, m, r) for a in np.linspace(-1, 1, 5) for m in np.linspace(-3, 3, 7) for r in (0.1, 1.0)]
    own, ours = np.max([lemma_1(loss, *state, 0.01) for state in states], axis=0) / 0.01
    assert own == pytest.approx(math.sqrt(5.0))
    assert ours == pytest.approx(math.sqrt(2.0))


def test_our_theorem_2_at_the_number_of_passes_for_which_it_says_least():
    given = {"n": 10**5, "width": 5, "alpha": 0.01, "mu": gaussian_mu(1.0, 1e-5)}
    said = [theorem_2(Logistic(), passes=passes, **given) for passes in range(60, 150)]
    assert min(said) == pytest.approx(3.1e-4, rel=0.02)
    assert 80 < 60 + int(np.argmin(said)) < 130
