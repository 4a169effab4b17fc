"""The accounting of exponential mechanisms, alone and beside others: closed forms, adversaries, limits, quadrature.

Independent truth: the closed form of one release, the optimal composition of mechanisms whose window is fixed in
advance (Dong, Durfee, Rogers 2020, Theorem 4.1: an adaptive adversary can do at least that), the recursion itself on a
fine set of windows in pure Python, random adaptive strategies, the closed form of one selection integrated over a
Gaussian, and adaptive orders of release on a small grid of losses.
"""

import itertools
import math
from fractions import Fraction
from functools import partial

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, norm

from sottovoce.privacy.accounting import (
    BoundedRangeAccountant,
    MixedSelectionAccountant,
    RenyiAccountant,
    accountant_for,
)
from sottovoce.privacy.calibration import bounded_range
from sottovoce.privacy.events import (
    BoundedRangeEvent,
    GaussianEvent,
    RandomizedResponseEvent,
    RepeatedEvent,
    compose,
)
from sottovoce.privacy.profiles.bounded_range import _between
from support.pairs import by_pairs

OWN, MIXED, RENYI = BoundedRangeAccountant(), MixedSelectionAccountant(), RenyiAccountant()
DELTA = 1e-5


def run(width, count):
    return RepeatedEvent(BoundedRangeEvent(width), count)


def chance(width, t):
    """Probability of the loss t, beside t - width, for the two-point law with these losses."""
    return np.expm1(t - width) / np.expm1(-width)


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


def test_chances_keep_their_digits_in_both_tails():
    ends = np.arange(-36.0, 36.5, 0.5)
    with mpmath.workdps(400):
        below = [mpmath.ncdf(end) for end in ends]
        truth = [float(right - left) for left, right in itertools.pairwise(below)]
    np.testing.assert_allclose(_between(ends), truth, rtol=1e-9)


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 2.0])
@pytest.mark.parametrize(("width", "count"), [(0.5, 2), (0.3, 10), (0.1, 30), (0.05, 200)])
def test_between_fixed_windows_and_concentrated_dp(width, count, epsilon):
    lower, value = fixed_windows(width, count, epsilon), OWN.delta(run(width, count), epsilon)
    assert lower <= value
    if lower > 1e-6:
        assert value <= 1.4 * lower + 1e-9  # adaptive windows, and the lattice, add little
    assert value <= RENYI.delta(run(width, count), epsilon) + 1e-12


def adaptive(width, releases, order, windows, losses=()):
    """Return the recursion's value at one order, windows restricted to finite sets: a lower bound.

    ``releases``: "s" for a selection, "g" for a Gaussian release, whose ``losses`` come with their chances.
    """
    if not releases:
        return max(0.0, 1.0 - order)
    later = partial(adaptive, width, releases[1:], windows=windows, losses=losses)
    if releases[0] == "g":
        return sum(share * later(order=order * math.exp(-loss)) for loss, share in losses)
    best = 0.0
    for t in windows():
        p = chance(width, t)
        up, down = (later(order=order * math.exp(-loss)) for loss in (t, t - width))
        best = max(best, p * up + (1.0 - p) * down)
    return best


@pytest.mark.parametrize("epsilon", [0.0, 0.2, 0.7])
@pytest.mark.parametrize("width", [0.3, 1.0])
def test_no_adaptive_adversary_does_better(width, epsilon):
    lower = adaptive(width, "sss", math.exp(epsilon), lambda: np.linspace(0.0, width, 18)[1:-1])
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
        p = chance(width, t)
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


# --- beside Gaussians and responses -----------------------------------------------------------------------------------


def beside(width, count, noise, *others):
    return compose(run(width, count), GaussianEvent(noise), *others)


def one_selection(width, orders):
    """Largest hockey-stick divergence of one bounded-range mechanism at each order, over a fine set of windows."""
    t = np.linspace(0.0, width, 301)[:, None]
    p = chance(width, t)
    inside = np.maximum(0.0, 1.0 - orders * np.exp(-t)) * p
    return (inside + (1.0 - p) * np.maximum(0.0, 1.0 - orders * np.exp(width - t))).max(axis=0)


@pytest.mark.parametrize(("width", "mu"), [(0.3, 0.5), (1.0, 0.2), (2.0, 2.0)])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 2.5])
def test_one_selection_beside_a_gaussian_is_the_integral(width, mu, epsilon):
    shifts = np.linspace(-9, 9, 4001)
    values = norm.pdf(shifts) * one_selection(width, np.exp(epsilon - mu * mu / 2 - mu * shifts))
    exact = float(np.sum(values) * (shifts[1] - shifts[0]))
    assert exact * (1 - 1e-4) - 1e-12 <= MIXED.delta(beside(width, 1, 1 / mu), epsilon) <= 1.03 * exact + 1e-9


NO_SELECTION = BoundedRangeEvent(1e-6)
LIMITS = [  # what is left beside what costs nothing to speak of
    *((GaussianEvent(1.0 / mu), RepeatedEvent(NO_SELECTION, 3)) for mu in (0.1, 0.7, 3.0)),
    *((run(*one), GaussianEvent(1e6)) for one in ((0.2, 48), (0.05, 100))),
    (compose(GaussianEvent(2.0), RandomizedResponseEvent(0.8)), NO_SELECTION),
]


@pytest.mark.parametrize(("left", "nothing"), LIMITS)
def test_what_costs_nothing_to_speak_of_leaves_the_others(left, nothing):
    event, alone = compose(left, nothing), accountant_for(left)
    assert isinstance(accountant_for(event), MixedSelectionAccountant)
    for ours, theirs, slack in (
        (MIXED.epsilon(event, DELTA), alone.epsilon(left, DELTA), 1e-4),
        (MIXED.delta(event, 0.5), alone.delta(left, 0.5), 1e-3),
    ):
        assert theirs * (1 - 1e-9) <= ours <= theirs * (1 + slack)


def test_selections_beside_a_response_alone():
    """Without a Gaussian: the mixture of the profile at two shifted orders."""
    selections, response = RepeatedEvent(BoundedRangeEvent(0.2), 20), RandomizedResponseEvent(0.8)
    keep = 1 / (1 + math.exp(-0.8))
    for epsilon in (1.0, 2.0):
        wanted = keep * OWN.delta(selections, epsilon - 0.8) + (1 - keep) * OWN.delta(selections, epsilon + 0.8)
        assert wanted * (1 - 1e-9) <= MIXED.delta(compose(selections, response), epsilon) <= wanted * (1 + 1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_no_order_of_releases_costs_more(seed):
    """Selections between two Gaussian releases, the windows chosen with the first one in sight, on a grid of losses."""
    rng = np.random.default_rng(seed)
    width, mu = 0.6, 0.8
    points = np.linspace(-6, 6, 241)
    mass = norm.pdf(points * mu + mu * mu / 2, mu * mu / 2, mu)
    steps = list(zip(points * mu + mu * mu / 2, mass / mass.sum() / (1 - 1e-6), strict=True))
    bound = MIXED.delta(beside(width, 2, 1 / mu), 1.0)
    for releases in ("gss", "sgs", "ssg"):
        worst = adaptive(width, releases, math.e, lambda: rng.uniform(0, width, 3), steps)
        assert worst <= bound * (1 + 2e-3)


def test_it_is_tighter_than_renyi_and_gaussians_are_one():
    event = beside(0.2, 48, 5.0, RandomizedResponseEvent(0.5))
    assert MIXED.epsilon(event, DELTA) < 0.96 * RENYI.epsilon(event, DELTA)
    assert MIXED.epsilon(event, 1e-100) <= RENYI.epsilon(event, 1e-100)
    spread = compose(event, GaussianEvent(7.0), GaussianEvent(9.0))
    joint = beside(0.2, 48, (1 / 25 + 1 / 49 + 1 / 81) ** -0.5, RandomizedResponseEvent(0.5))
    assert MIXED.epsilon(spread, DELTA) == pytest.approx(MIXED.epsilon(joint, DELTA), rel=1e-9)


@pytest.mark.parametrize("epsilon", [800.0, 3000.0])
def test_orders_that_no_number_holds_are_accounted_without_a_word(epsilon):
    """An infinite order meets a cell without any chance; warnings are errors here."""
    assert 0.0 <= MIXED.delta(beside(400.0, 3, 0.05), epsilon) <= 1.0
