"""Shuffled reports: the closed form of the paper, its condition, and laws."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from sottovoce.exceptions import ParameterError
from sottovoce.privacy.shuffling import shuffled_epsilon


@pytest.mark.parametrize(("epsilon", "n", "delta"), [(1.0, 10**5, 1e-6), (0.5, 10**4, 1e-8), (3.0, 10**6, 1e-6)])
def test_the_closed_form(epsilon, n, delta):
    e = math.exp(epsilon)
    inner = 8 * math.sqrt(e * math.log(4 / delta)) / math.sqrt(n) + 8 * e / n
    expected = math.log(1 + (e - 1) / (e + 1) * inner)
    assert shuffled_epsilon(epsilon, n, delta) == pytest.approx(expected, rel=1e-11)
    assert shuffled_epsilon(epsilon, n, delta) >= expected
    assert expected < epsilon


def test_nothing_is_gained_beyond_the_condition():
    n, delta = 10_000, 1e-6
    edge = math.log(n / (16 * math.log(2 / delta)))
    assert shuffled_epsilon(edge * 1.001, n, delta) == edge * 1.001
    assert shuffled_epsilon(edge * 0.999, n, delta) < 0.5 * edge
    assert shuffled_epsilon(1.0, 10, delta) == 1.0
    assert shuffled_epsilon(800.0, 10**6, delta) == 800.0


def test_more_people_cost_less_and_never_more_than_the_report():
    costs = [shuffled_epsilon(1.0, n, 1e-6) for n in (10, 1000, 10**4, 10**5, 10**7)]
    assert costs == sorted(costs, reverse=True)
    assert costs[0] == 1.0
    assert costs[-1] < 0.01


def exact_delta(epsilon_0, n, epsilon):
    """Randomised response of n bits, all others 0: the law of the number of ones under a 0 and under a 1."""
    p, ones = 1 / (1 + math.exp(epsilon_0)), np.arange(n + 1)
    rest, before = binom.pmf(ones, n - 1, p), binom.pmf(ones - 1, n - 1, p)
    zero, one = (1 - p) * rest + p * before, p * rest + (1 - p) * before
    return max(np.maximum(a - math.exp(epsilon) * b, 0).sum() for a, b in ((zero, one), (one, zero)))


@pytest.mark.parametrize(("epsilon", "n"), [(0.5, 2000), (1.0, 10_000), (2.0, 50_000)])
def test_it_covers_an_exact_case(epsilon, n):
    central = shuffled_epsilon(epsilon, n, 1e-6)
    assert exact_delta(epsilon, n, central) <= 1e-6 < exact_delta(epsilon, n, 0.05 * central)


@pytest.mark.parametrize(
    "arguments",
    [(0.0, 10, 0.1), (1.0, 0, 0.1), (1.0, 10.0, 0.1), (1.0, 10, 0.0), (1.0, 10, 1.0), (math.nan, 10, 0.1)],
)
def test_bad_input_is_refused(arguments):
    with pytest.raises(ParameterError):
        shuffled_epsilon(*arguments)
