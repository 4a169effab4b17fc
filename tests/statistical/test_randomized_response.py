"""Randomised response: its coins, what a neighbour can learn, and what remains true on average.

Tests of chance accept above p = 1e-12 and reject below it, and each is run on coins that are wrong on purpose. All
seeds are fixed, so no outcome changes from run to run; with fresh seeds the chance of a false alarm would be 1e-12 a
test, and 1e-3 for the audit, which bounds epsilon with confidence 0.999.
"""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, norm

from sottovoce.exceptions import ParameterError
from sottovoce.privacy.events import RandomizedResponseEvent
from sottovoce.privacy.mechanisms.randomized_response import RandomizedResponse
from support.noise import stream

DRAWS = 400_000
LEVEL = 1e-12
EPSILONS = [0.05, 0.375, 0.75, 1.5, 3.0, 6.0]


class Lazy(RandomizedResponse):
    """A mechanism that flips with 0.7 times its probability and charges the same."""

    @property
    def _threshold(self):
        return int(0.7 * RandomizedResponse(self.epsilon)._threshold)


def p_of_flips(mechanism, epsilon, seed):
    """Two-sided binomial test of the number of flips."""
    labels = np.where(np.random.default_rng(seed).random(DRAWS) < 0.3, 1.0, -1.0)
    released, _ = mechanism.release(labels, stream(seed))
    flips = np.count_nonzero(released != labels)
    share = 1.0 / (1.0 + math.exp(epsilon))
    return min(1.0, 2.0 * min(binom.cdf(flips, DRAWS, share), binom.sf(flips - 1, DRAWS, share)))


# --- the coins --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_stated_flip_probability_is_accepted_and_less_is_rejected(epsilon):
    assert p_of_flips(RandomizedResponse(epsilon), epsilon, 1) > LEVEL
    assert p_of_flips(Lazy(epsilon), epsilon, 1) < LEVEL


@given(st.one_of(st.floats(1e-9, 50.0), st.floats(50.0, 1e300)))
def test_the_flip_probability_is_exactly_enough(epsilon):
    """(1 - p)/p <= e^epsilon for the whole number of coins that flip, and it is the least such number."""
    flips = RandomizedResponse(epsilon)._threshold
    assert 1 <= flips < 2**63
    with mpmath.workdps(80):
        wanted = 2**64 / (1 + mpmath.exp(min(mpmath.mpf(epsilon), 1000)))
        assert wanted <= flips
        assert flips <= wanted + 1


@given(st.floats(1e-9, 50.0))
def test_the_constants_belong_to_the_coins(epsilon):
    """Also where 1 - 2p would lose all its digits."""
    mechanism = RandomizedResponse(epsilon)
    p = Fraction(mechanism._threshold, 2**64)
    assert mechanism.flip_probability == float(p)
    assert mechanism.gain == float(1 - 2 * p)
    assert mechanism.tilt == float(p / (1 - 2 * p))


class Fixed:
    """A generator whose coins are known."""

    def __init__(self, coins):
        self.coins = np.array(coins, dtype=np.uint64)

    def integers(self, low, high, size, dtype):
        assert (low, high, size, dtype) == (0, 2**64, self.coins.shape, np.uint64)
        return self.coins


@pytest.mark.parametrize("epsilon", [1e-9, 0.5, 3.0, 60.0])
def test_the_threshold_is_compared_as_a_whole_number(epsilon):
    """In doubles, coins next to the threshold could not be told apart."""
    mechanism = RandomizedResponse(epsilon)
    first_kept = mechanism._threshold
    released, _ = mechanism.release(np.ones(4), Fixed([0, first_kept - 1, first_kept, 2**64 - 1]))
    assert released.tolist() == [-1.0, -1.0, 1.0, 1.0]


# --- what a neighbour can learn ---------------------------------------------------------------------------------------


# --- what remains true on average -------------------------------------------------------------------------------------


def p_of_mean(draws, mean, std):
    return 2.0 * norm.sf(abs(np.mean(draws) - mean) / std * math.sqrt(len(draws)))


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("label", [-1.0, 1.0])
def test_soft_labels_are_unbiased(epsilon, label):
    mechanism = RandomizedResponse(epsilon)
    soft = mechanism.unbiased(mechanism.release(np.full(DRAWS, label), stream(5))[0])
    std = math.sqrt(1.0 / mechanism.gain**2 - 1.0)
    assert p_of_mean(soft, label, std) > LEVEL
    lazy = mechanism.unbiased(Lazy(epsilon).release(np.full(DRAWS, label), stream(5))[0])
    assert p_of_mean(lazy, label, std) < LEVEL


# --- the interface ----------------------------------------------------------------------------------------------------


def test_labels_come_back_as_labels_and_the_input_is_left_alone():
    mechanism = RandomizedResponse(1)
    assert mechanism == RandomizedResponse(1.0) and type(mechanism.epsilon) is float
    assert mechanism.event == RandomizedResponseEvent(1.0)
    for labels in (np.array([1, -1, 1]), np.array([1.0, -1.0], np.float32), np.ones((2, 3)), np.ones(0)):
        before = labels.copy()
        released, event = mechanism.release(labels, stream(1))
        assert event == mechanism.event
        assert released.shape == labels.shape
        assert released.dtype == np.float64
        assert np.all(np.abs(released) == 1.0)
        assert np.array_equal(labels, before)


@pytest.mark.parametrize(
    "labels",
    [
        np.array([0.0, 1.0]),
        np.array([1.0, math.nan]),
        np.array([1.0, 0.999]),
        np.array([-2, 1]),
        np.array([True, False]),
        np.array(["1", "-1"]),
        np.array([1, -1], dtype=object),
        np.array([1, 1], dtype=np.uint8),
        None,
    ],
    ids=str,
)
def test_other_labels_are_refused_before_any_coin_is_drawn(labels):
    mechanism, generator = RandomizedResponse(1.0), stream(4)
    with pytest.raises(ParameterError, match="labels must be an array of -1 and"):
        mechanism.release(labels, generator)
    with pytest.raises(ParameterError, match="labels must be an array of -1 and"):
        mechanism.unbiased(labels)
    assert generator.random() == stream(4).random()


@pytest.mark.parametrize("epsilon", [0.0, -1.0, 1e-10, math.nan, math.inf, 1e301, None, True, "1"])
def test_bad_epsilons_are_refused(epsilon):
    with pytest.raises(ParameterError, match=r"epsilon .*Public labels need no response"):
        RandomizedResponse(epsilon)
