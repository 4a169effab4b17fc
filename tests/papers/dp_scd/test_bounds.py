"""What is said of Algorithm 1 as printed: epsilon of its sampling, Lemma 1 for two neighbours; our own Theorem 2."""

import math

import numpy as np
import pytest

from sottovoce.losses import Hinge, Logistic, Squared
from sottovoce.papers.dp_scd.bounds import (
    epsilon_of_fixed_visits,
    epsilon_of_printed_sampling,
    lemma_1,
    theorem_2,
)
from sottovoce.papers.dp_scd.published import moments_noise
from sottovoce.privacy.accounting import gaussian_delta, gaussian_epsilon
from sottovoce.privacy.calibration import gaussian_mu

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
