"""The accounting of exponential mechanisms: laws, closed forms, and adversaries that it must not undercut.

Independent truth: the closed form of one release, the optimal composition of mechanisms whose window is fixed in
advance (Dong, Durfee, Rogers 2020, Theorem 4.1: an adaptive adversary can do at least that), the recursion itself on a
fine set of windows in pure Python, and random adaptive strategies.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from sottovoce.privacy.accounting import (
    BoundedRangeAccountant,
    RenyiAccountant,
)
from sottovoce.privacy.calibration import bounded_range
from sottovoce.privacy.events import (
    BoundedRangeEvent,
    RepeatedEvent,
)
from support.pairs import by_pairs

OWN, RENYI = BoundedRangeAccountant(), RenyiAccountant()
DELTA = 1e-5


def run(width, count):
    return RepeatedEvent(BoundedRangeEvent(width), count)


def chance(width, t):
    """Probability of the loss t, beside t - width, for the two-point law with these losses."""
    return math.expm1(t - width) / math.expm1(-width)


@pytest.mark.parametrize("width", [1e-4, 0.1, 1.0, 5.0, 30.0])
def test_one_release_in_closed_form(width):
    """At epsilon 0 the worst window is the middle one and delta is tanh(width / 4); pure epsilon is the width."""
    event = BoundedRangeEvent(width)
    assert math.tanh(width / 4) <= OWN.delta(event, 0.0) <= 1.03 * math.tanh(width / 4)
    assert OWN.epsilon(event, 0.0) == pytest.approx(width, rel=1e-12)
    assert OWN.delta(event, width * (1 + 1e-9)) == 0.0
    assert OWN.epsilon(event, 1.0 - 1e-7) == 0.0
    for count in (1, 3, 7, 10):  # pure epsilon is rounded up
        assert Fraction(OWN.epsilon(run(width, count), 0.0)) >= count * Fraction(width)
    assert OWN.epsilon(run(1e6, 10), DELTA) == pytest.approx(1e7)  # far from private: pure, or infinite
    assert OWN.delta(run(1e6, 10), 5.0) == 1.0


def fixed_windows(width, count, epsilon):
    """Return the best delta of an adversary whose windows are all the same."""
    best = 0.0
    for t in np.linspace(0.0, width, 401)[1:-1]:
        ups = np.arange(count + 1)
        loss = ups * t + (count - ups) * (t - width)
        terms = binom.pmf(ups, count, chance(width, t)) * np.maximum(0.0, -np.expm1(epsilon - loss))
        best = max(best, float(terms.sum()))
    return best


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 2.0])
@pytest.mark.parametrize(("width", "count"), [(0.5, 2), (0.3, 10), (0.1, 30), (0.05, 200)])
def test_between_fixed_windows_and_concentrated_dp(width, count, epsilon):
    lower, value = fixed_windows(width, count, epsilon), OWN.delta(run(width, count), epsilon)
    assert lower <= value
    if lower > 1e-6:
        assert value <= 1.4 * lower + 1e-9  # adaptive windows, and the lattice, add little
    assert value <= RENYI.delta(run(width, count), epsilon) + 1e-12


def adaptive(width, count, order, windows):
    """Return the recursion's value at one order, windows restricted to a finite set: a lower bound."""
    if count == 0:
        return max(0.0, 1.0 - order)
    best = 0.0
    for t in windows:
        p = chance(width, t)
        up = adaptive(width, count - 1, order * math.exp(-t), windows)
        best = max(best, p * up + (1.0 - p) * adaptive(width, count - 1, order * math.exp(width - t), windows))
    return best


@pytest.mark.parametrize("epsilon", [0.0, 0.2, 0.7])
@pytest.mark.parametrize("width", [0.3, 1.0])
def test_no_adaptive_adversary_does_better(width, epsilon):
    lower = adaptive(width, 3, math.exp(epsilon), np.linspace(0.0, width, 18)[1:-1])
    value = OWN.delta(run(width, 3), epsilon)
    assert lower <= value <= 1.03 * lower + 0.004


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), width=st.floats(0.01, 3.0), count=st.integers(1, 6), share=st.floats(0.0, 1.0))
def test_random_adaptive_strategies(seed, width, count, share):
    """A tree of windows, another one in each node; its exact divergence stays below the profile."""
    rng = np.random.default_rng(seed)
    losses, masses = np.zeros(1), np.ones(1)
    for _ in range(count):
        t = rng.uniform(0.0, width, len(losses))
        p = np.expm1(t - width) / np.expm1(-width)
        losses = np.concatenate([losses + t, losses + t - width])
        masses = np.concatenate([masses * p, masses * (1.0 - p)])
    epsilon = share * width * count
    exact = float(masses @ np.maximum(0.0, -np.expm1(epsilon - losses)))
    assert exact <= OWN.delta(run(width, count), epsilon) + 1e-15


@pytest.mark.parametrize("width", [0.01, 0.3, 2.0, 10.0])
def test_renyi_bound_holds_for_every_window(width):
    orders = np.array([1.1, 2.0, 8.0, 64.0])
    bound = BoundedRangeEvent(width).divergences(orders)
    for t in np.linspace(0.0, width, 200)[1:-1]:
        p = chance(width, t)
        moments = p * np.exp((orders - 1.0) * t) + (1.0 - p) * np.exp((orders - 1.0) * (t - width))
        assert np.all(np.log(moments) / (orders - 1.0) <= bound * (1 + 1e-12) + 1e-15)


@pytest.mark.parametrize(("epsilon", "count"), by_pairs([1e-3, 0.5, 1.0, 8.0], [1, 2, 30, 300]))
def test_calibration_never_overspends_and_beats_concentrated_dp(epsilon, count):
    width = bounded_range(epsilon, DELTA, count)
    assert 0.98 * epsilon < OWN.epsilon(run(width, count), DELTA) <= epsilon
    assert RENYI.epsilon(run(width, count), DELTA) > epsilon
