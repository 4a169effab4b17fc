"""The draws of the exponential mechanism against the exact probabilities.

Chi-square tests at p = 1e-9 with fixed seeds: right code would fail one of these tests for about one in 5e7 choices
of the seeds. Each is also run with a rate that is 0.7 or 1.3 times the right one, and must then fail.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sottovoce.exceptions import ParameterError
from sottovoce.privacy.mechanisms.noisy_max import ExponentialMechanism
from support.noise import pearson, stream

P_VALUE = 1e-9


def exact(mechanism, scores):
    exponents = mechanism.epsilon / mechanism.score_range * (scores - scores.max()).astype(float)
    return np.exp(exponents) / np.exp(exponents).sum()


def judge(factor, counts, probabilities):
    found = pearson(counts, probabilities)
    assert found > P_VALUE if factor == 1.0 else found < P_VALUE


# scores far apart: hardly anything is ever drawn but the tie, at any rate
@pytest.mark.parametrize(("spread", "factor"), [(3.0, 1.0), (3.0, 0.7), (3.0, 1.3), (60.0, 1.0)])
def test_dense_draws(spread, factor):
    scores = np.round(np.random.default_rng(1).normal(0.0, spread, 12)).astype(np.int64)
    scores[3] = scores.max()  # a tie at the top
    right = ExponentialMechanism(0.5, 2.0)
    tried = ExponentialMechanism(0.5 * factor, 2.0)
    noise = stream(2)
    places = np.array([tried.select(scores, noise)[0] for _ in range(20_000)])
    judge(factor, np.bincount(places, minlength=12), exact(right, scores))


def test_weights_far_apart_are_drawn_as_often_as_they_should():
    """One candidate stands out by 12 exponents: draws beside it are rare, and all others together get their share."""
    mechanism, noise = ExponentialMechanism(12.0, 1200.0), stream(6)
    scores = np.append(1200, np.random.default_rng(5).integers(300, 700, 200))
    places, probabilities = [mechanism.select(scores, noise)[0] for _ in range(40_000)], exact(mechanism, scores)
    assert 0.005 < 1.0 - probabilities[0] < 0.5
    assert pearson(np.bincount(places, minlength=201), probabilities) > P_VALUE


@pytest.mark.parametrize("gap", [10, 10**6, 2**61])
def test_scores_that_are_far_apart_do_no_harm(gap):
    mechanism = ExponentialMechanism(1.0, 1.0)
    noise = stream(7)
    places = [mechanism.select(np.array([-gap, gap, *[0] * 40]), noise)[0] for _ in range(300)]
    assert np.mean(np.array(places) == 1) > 0.99


class Coins:
    """Gives out planned numbers: the first trial is of the unlikely candidate, all others are of the likely one."""

    def __init__(self, numbers):
        self.numbers = list(numbers)

    def integers(self, bound, size=None):
        if bound == 2 and size is not None:  # places
            return np.array([0] + [1] * (size - 1))
        if size is None:
            return self.numbers.pop(0)
        return np.array([self.numbers.pop(0)] + [5] * (size - 1))


@given(gap=st.integers(1, 10**4))
@example(690)  # the last weights that are not those of the floor
@example(2**61)
def test_a_weight_is_kept_by_all_its_digits(gap):
    """Random digits, 53 at a time, are compared with those of the weight: it is kept where they are less."""
    mechanism, digits = ExponentialMechanism(1.0, 1.0), []
    left = Fraction(float(np.exp(np.maximum(mechanism.rate * np.array([-gap, 0]), -700.0))[0]))
    while left:
        digits.append(math.floor(left * 2**53))
        left = left * 2**53 - digits[-1]
    *first, last = digits
    for coin, place in ((last - 1, 0), (last, 1), (last + 1, 1)):
        assert mechanism.select(np.array([-gap, 0]), Coins([*first, coin]))[0] == place


@given(epsilon=st.floats(1e-8, 1e6), score_range=st.floats(1e-9, 1e9))
@example(1e-8, 1.0)
@example(1e6, 1.0)
def test_what_rounding_may_add_to_the_range_is_taken_off(epsilon, score_range):
    mechanism = ExponentialMechanism(epsilon, score_range)
    assert mechanism.event.epsilon == epsilon
    assert 0.5e-10 < epsilon - mechanism.rate * score_range + 1e-15 * epsilon < 1.5e-10 + 2e-15 * epsilon


@pytest.mark.parametrize("scores", [np.zeros(3), np.zeros((2, 2), np.int64), np.zeros(0, np.int64)])
def test_scores_must_be_whole_numbers_in_a_row(scores):
    with pytest.raises(ParameterError, match="scores must be a 1-d int64 array"):
        ExponentialMechanism(1.0, 1.0).select(scores, stream())


@pytest.mark.parametrize(
    ("epsilon", "score_range", "message"),
    [
        (math.nextafter(1e-8, 0.0), 1.0, "epsilon"), (math.nextafter(1e6, math.inf), 1.0, "epsilon"),
        (math.nan, 1.0, "epsilon"), (1.0, 0.0, "score_range"), (1.0, math.nan, "score_range"),
    ],
)  # fmt: skip
def test_parameters_of_the_mechanism(epsilon, score_range, message):
    with pytest.raises(ParameterError, match=message):
        ExponentialMechanism(epsilon, score_range)
