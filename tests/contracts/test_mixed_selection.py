"""The accounting of exponential mechanisms beside Gaussians and responses: limits, quadrature, interleaved adversaries.

Independent truth: the accountants of each kind alone, the closed form for one selection by numerical integration, and
adaptive orders of release on a small grid of losses.
"""

import math

import numpy as np
import pytest
from scipy.stats import norm

from sottovoce.privacy.accounting import (
    BoundedRangeAccountant,
    GaussianAccountant,
    MixedSelectionAccountant,
    RenyiAccountant,
    gaussian_delta,
    gaussian_epsilon,
)
from sottovoce.privacy.events import (
    BoundedRangeEvent,
    GaussianEvent,
    RandomizedResponseEvent,
    RepeatedEvent,
    compose,
)

OWN, RENYI, DELTA = MixedSelectionAccountant(), RenyiAccountant(), 1e-5


def run(width, count, noise, *others):
    return compose(RepeatedEvent(BoundedRangeEvent(width), count), GaussianEvent(noise), *others)


def one_selection(width, orders):
    """Largest hockey-stick divergence of one bounded-range mechanism at each order, over a fine set of windows."""
    t = np.linspace(0.0, width, 301)[:, None]
    chance = np.expm1(t - width) / math.expm1(-width)
    inside = np.maximum(0.0, 1.0 - orders * np.exp(-t)) * chance
    return (inside + (1.0 - chance) * np.maximum(0.0, 1.0 - orders * np.exp(width - t))).max(axis=0)


@pytest.mark.parametrize(("width", "mu"), [(0.3, 0.5), (1.0, 0.2), (2.0, 2.0)])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 2.5])
def test_one_selection_beside_a_gaussian_is_the_integral(width, mu, epsilon):
    shifts = np.linspace(-9, 9, 4001)
    values = norm.pdf(shifts) * one_selection(width, np.exp(epsilon - mu * mu / 2 - mu * shifts))
    exact = float(np.sum(values) * (shifts[1] - shifts[0]))
    assert exact * (1 - 1e-4) - 1e-12 <= OWN.delta(run(width, 1, 1 / mu), epsilon) <= 1.03 * exact + 1e-9


@pytest.mark.parametrize("mu", [0.1, 0.7, 3.0])
def test_selections_of_no_width_leave_the_gaussian(mu):
    event = run(1e-6, 3, 1 / mu)
    assert gaussian_epsilon(mu, DELTA) <= OWN.epsilon(event, DELTA) <= gaussian_epsilon(mu, DELTA) * (1 + 1e-4)
    assert gaussian_delta(mu, 0.5) <= OWN.delta(event, 0.5) <= gaussian_delta(mu, 0.5) * (1 + 1e-3)


@pytest.mark.parametrize(("width", "count"), [(0.2, 48), (0.05, 100)])
def test_a_gaussian_of_no_shift_leaves_the_selections(width, count):
    alone = BoundedRangeAccountant().epsilon(RepeatedEvent(BoundedRangeEvent(width), count), DELTA)
    assert alone * (1 - 1e-9) <= OWN.epsilon(run(width, count, 1e6), DELTA) <= alone * (1 + 1e-4)


def test_selections_beside_a_response_alone():
    """Without a Gaussian: the mixture of the profile at two shifted orders."""
    selections, response = RepeatedEvent(BoundedRangeEvent(0.2), 20), RandomizedResponseEvent(0.8)
    keep = 1 / (1 + math.exp(-0.8))
    profile = BoundedRangeAccountant()
    for epsilon in (1.0, 2.0):
        wanted = keep * profile.delta(selections, epsilon - 0.8) + (1 - keep) * profile.delta(selections, epsilon + 0.8)
        assert wanted * (1 - 1e-9) <= OWN.delta(compose(selections, response), epsilon) <= wanted * (1 + 1e-6)


def test_nothing_of_width_beside_a_response_and_a_gaussian():
    others = compose(GaussianEvent(2.0), RandomizedResponseEvent(0.8))
    exact = GaussianAccountant().epsilon(others, DELTA)
    assert exact <= OWN.epsilon(compose(others, BoundedRangeEvent(1e-6)), DELTA) <= exact * (1 + 1e-4)


@pytest.mark.parametrize("seed", range(4))
def test_no_order_of_releases_costs_more(seed):
    """Selections between two Gaussian releases, the windows chosen with the first one in sight, on a grid of losses."""
    rng = np.random.default_rng(seed)
    width, mu, count = 0.6, 0.8, 2
    points = np.linspace(-6, 6, 241)
    mass = norm.pdf(points * mu + mu * mu / 2, mu * mu / 2, mu)
    steps = list(zip(points * mu + mu * mu / 2, mass / mass.sum() / (1 - 1e-6), strict=True))
    epsilon = 1.0

    def later(order, releases):
        """Divergence of what is left; the adversary tries a few windows at each selection."""
        if not releases:
            return max(0.0, 1.0 - order)
        if releases[0] == "gaussian":
            return sum(chance * later(order * math.exp(-loss), releases[1:]) for loss, chance in steps)
        best = 0.0
        for t in rng.uniform(0, width, 3):
            chance = math.expm1(t - width) / math.expm1(-width)
            best = max(
                best,
                chance * later(order * math.exp(-t), releases[1:])
                + (1 - chance) * later(order * math.exp(width - t), releases[1:]),
            )
        return best

    bound = OWN.delta(run(width, count, 1 / mu), epsilon)
    for order in (["gaussian", "select", "select"], ["select", "gaussian", "select"], ["select", "select", "gaussian"]):
        assert later(math.exp(epsilon), order) <= bound * (1 + 2e-3)


def test_it_is_tighter_than_renyi_and_gaussians_are_one():
    event = run(0.2, 48, 5.0, RandomizedResponseEvent(0.5))
    assert OWN.epsilon(event, DELTA) < 0.96 * RENYI.epsilon(event, DELTA)
    assert OWN.epsilon(event, 1e-100) <= RENYI.epsilon(event, 1e-100)
    spread = compose(event, GaussianEvent(7.0), GaussianEvent(9.0))
    joint = run(0.2, 48, (1 / 25 + 1 / 49 + 1 / 81) ** -0.5, RandomizedResponseEvent(0.5))
    assert OWN.epsilon(spread, DELTA) == pytest.approx(OWN.epsilon(joint, DELTA), rel=1e-9)


@pytest.mark.parametrize("epsilon", [800.0, 3000.0])
def test_orders_that_no_number_holds_are_accounted_without_a_word(epsilon):
    """An infinite order meets a cell without any chance; warnings are errors here."""
    assert 0.0 <= OWN.delta(run(400.0, 3, 0.05), epsilon) <= 1.0
