"""The law of the number of trials, and the cost of a search against the theorems written out and dp-accounting."""

import itertools
import math

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.rdp import rdp_privacy_accountant as theirs
from scipy.optimize import brentq
from scipy.stats import norm

from sottovoce.estimators.search_plan import SearchPlan
from sottovoce.privacy.accounting import (
    RenyiAccountant,
    SelectionAccountant,
    accountant_for,
    flatten,
    gaussian_delta,
    gaussian_epsilon,
)
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.privacy.events import (
    ComposedEvent,
    GaussianEvent,
    NonPrivateEvent,
    NothingReleased,
    PoissonSampledEvent,
    RandomizedResponseEvent,
    RepeatAndSelectEvent,
    RepeatedEvent,
)
from sottovoce.privacy.trials import TrialCount
from support.noise import pearson

ORDERS = (1.2, 1.5, 2.0, 3.0, 5.0, 8.0, 16.0, 32.0, 64.0, 256.0)
PROFILE, RENYI = SelectionAccountant(), RenyiAccountant()
each_mean = pytest.mark.parametrize("mean", [1.1, 3.0, 10.0, 200.0])


def search(noise, mean=10.0):
    return RepeatAndSelectEvent(GaussianEvent(noise), mean)


def probabilities(mean, most):
    """P(K = 1), ..., P(K = most)."""
    return (1 - 1 / mean) ** np.arange(most) / mean


# --- the law of K -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mean", [1.5, 4.0, 30.0])
def test_number_of_trials_has_its_law(mean):
    """Chi-square with 20,000 draws: fails by chance once in 10,000, and at a mean that is 20 % off for certain."""
    rng, law = np.random.default_rng(7), TrialCount(mean)
    counts = np.bincount([law.draw(rng) for _ in range(20_000)], minlength=2001)
    assert counts[0] == counts[2001:].sum() == 0
    assert pearson(counts[1:], probabilities(mean, len(counts) - 1)) > 1e-4
    assert pearson(counts[1:], probabilities(1.2 * mean, len(counts) - 1)) < 1e-4


@pytest.mark.parametrize("mean", [1.0, 1, 1.0 + 1e-15])
def test_one_trial(mean):
    law = TrialCount(mean)
    assert {law.draw(np.random.default_rng(seed)) for seed in range(50)} == {1}
    event = RepeatAndSelectEvent(GaussianEvent(2.0), mean)
    assert accountant_for(event).epsilon(event, 1e-5) == pytest.approx(gaussian_epsilon(0.5, 1e-5), rel=1e-6)


# --- Renyi: Theorem 2 -------------------------------------------------------------------------------------------------


@each_mean
def test_renyi_is_theorem_2(mean):
    noise = 4.0
    one = {order: order / (2 * noise**2) for order in ORDERS}
    added = min((1 - 1 / hat) * one[hat] + math.log(mean) / hat for hat in ORDERS)
    truth = {order: one[order] + 2 * added + math.log(mean) / (order - 1) for order in ORDERS}
    for order in ORDERS:
        # at each order alone the conversion of the moments accountant shows the divergence
        expected = min(truth[higher] for higher in ORDERS if higher >= order)
        found = RenyiAccountant(ORDERS)._divergences(flatten(search(noise, mean)))[ORDERS.index(order)]
        assert found == pytest.approx(expected, rel=1e-4)
        assert found >= expected * (1 - 1e-4)
    one, three = (RenyiAccountant(ORDERS).divergences(RepeatedEvent(search(noise, mean), count)) for count in (1, 3))
    assert three == pytest.approx(3.0 * one, rel=1e-12)


@each_mean
@pytest.mark.parametrize("noise", [0.8, 4.0, 30.0])
def test_renyi_against_dp_accounting(mean, noise):
    accountant = theirs.RdpAccountant(list(ORDERS))
    accountant.compose(dp_event.RepeatAndSelectDpEvent(dp_event.GaussianDpEvent(noise), mean, 1.0))
    ours, other = RenyiAccountant(ORDERS).epsilon(search(noise, mean), 1e-5), accountant.get_epsilon(1e-5)
    assert ours == pytest.approx(other, rel=1e-6)
    assert ours >= other * (1 - 1e-9)


# --- the profile ------------------------------------------------------------------------------------------------------


@each_mean
@pytest.mark.parametrize("noise", [0.7, 2.0, 8.0])
def test_ratio_of_slopes_is_the_largest_one(mean, noise):
    """Over all pairs of probabilities on the trade-off curve of a Gaussian, Phi(z) and Phi(z + mu)."""
    z = np.linspace(-38, 38, 400_001)
    law = TrialCount(mean)
    p, moved = norm.cdf(z), norm.cdf(z + 1 / noise)
    gamma = 1 / mean
    truth = 2 * math.log(float(np.max((gamma + (1 - gamma) * moved) / (gamma + (1 - gamma) * p))))
    found = law.log_ratio(lambda epsilon: gaussian_delta(1 / noise, epsilon))
    assert truth <= found <= truth * (1 + 1e-6) + 1e-9


@each_mean
@pytest.mark.parametrize("delta", [1e-3, 1e-6])
def test_profile_formula_and_inverse(mean, delta):
    event = search(4.0, mean)
    r = TrialCount(mean).log_ratio(lambda epsilon: gaussian_delta(0.25, epsilon))
    epsilon = PROFILE.epsilon(event, delta)
    assert epsilon == pytest.approx(r + gaussian_epsilon(0.25, delta / mean), rel=1e-9)
    assert PROFILE.delta(event, epsilon) <= delta * (1 + 1e-6)
    assert PROFILE.delta(event, 0.999 * epsilon) > delta * (1 - 1e-6)
    least = mean * gaussian_delta(0.25, 2.0 * epsilon - r)
    assert least <= PROFILE.delta(event, 2.0 * epsilon) <= least * (1.0 + 1e-9)  # what is rounded is rounded up
    assert PROFILE.delta(event, 0.5 * r) == 1.0
    assert PROFILE.epsilon(event, 0.0) == math.inf


def test_laws_of_the_profile():
    def falls(values):
        return all(later < earlier for earlier, later in itertools.pairwise(values))

    assert falls([PROFILE.epsilon(search(noise), 1e-5) for noise in (1e-12, 0.5, 1.0, 1.01, 3.0, 50.0)])
    assert falls([PROFILE.epsilon(search(3.0, mean), 1e-5) for mean in (100.0, 10.0, 2.0, 1.01, 1.0 + 1e-6)])
    assert falls([PROFILE.epsilon(search(3.0), delta) for delta in (1e-9, 1e-6, 1e-3)])
    assert PROFILE.epsilon(search(3.0), 1e-5) > gaussian_epsilon(1 / 3.0, 1e-5)
    for noise in (1e12, 1e308):
        assert 0.0 <= PROFILE.epsilon(search(noise), 1e-5) < 1e-9
        assert PROFILE.delta(search(noise), 1.0) == 0.0
    # a search over sampled runs, and over one with responses: the trial's own curve feeds the bound
    sampled = RepeatAndSelectEvent(RepeatedEvent(PoissonSampledEvent(0.1, GaussianEvent(1.0)), 20), 5.0)
    plain = RepeatAndSelectEvent(RepeatedEvent(GaussianEvent(1.0), 20), 5.0)
    assert 0.0 < PROFILE.epsilon(sampled, 1e-5) < PROFILE.epsilon(plain, 1e-5)
    assert PROFILE.epsilon(sampled, 1e-5) <= RENYI.epsilon(sampled, 1e-5)
    trial = ComposedEvent((RandomizedResponseEvent(0.5), GaussianEvent(4.0)))
    chosen = PROFILE.epsilon(RepeatAndSelectEvent(trial, 10.0), 1e-5)
    assert accountant_for(trial).epsilon(trial, 1e-5) < chosen < RENYI.epsilon(RepeatAndSelectEvent(trial, 10.0), 1e-5)
    # a trial that is pure stays so: r = (1 + shape) e
    assert 0.5 < PROFILE.epsilon(RepeatAndSelectEvent(RandomizedResponseEvent(0.5), 10.0), 0.0) <= 1.5 * (1 + 1e-8)


# --- nesting, and the ends --------------------------------------------------------------------------------------------


def test_deep_nesting_is_accounted_in_time():
    event = GaussianEvent(50.0)
    for _ in range(12):
        event = RepeatAndSelectEvent(event, 1.5)
    assert 0.0 < accountant_for(event).epsilon(event, 1e-5) < math.inf


@pytest.mark.parametrize("accountant", [PROFILE, RENYI])
def test_nothing_and_everything_inside_a_search(accountant):
    for nothing in (NothingReleased(), RepeatedEvent(GaussianEvent(1.0), 0), GaussianEvent(math.inf)):
        assert accountant.epsilon(RepeatAndSelectEvent(nothing, 10.0), 0.0) == 0.0
    bare = RepeatAndSelectEvent(ComposedEvent((GaussianEvent(5.0), NonPrivateEvent())), 10.0)
    assert accountant.epsilon(bare, 0.5) == math.inf
    assert accountant.delta(bare, 100.0) == 1.0


def test_one_run_is_no_search_and_one_without_protection_has_none():
    for run in (GaussianEvent(2.0), RepeatedEvent(GaussianEvent(3.0), 4), NothingReleased(), NonPrivateEvent()):
        assert flatten(RepeatAndSelectEvent(run, 1.0)) == flatten(run)
    bare = ComposedEvent((GaussianEvent(5.0), RepeatedEvent(NonPrivateEvent(), 3)))
    assert flatten(RepeatAndSelectEvent(bare, 4.0)) == flatten(NonPrivateEvent())


def test_nesting_inside_a_trial_does_not_matter():
    parts = (GaussianEvent(2.0), RepeatedEvent(GaussianEvent(5.0), 6))
    one = RepeatAndSelectEvent(ComposedEvent(parts), 5.0)
    other = RepeatAndSelectEvent(RepeatedEvent(ComposedEvent((ComposedEvent(parts[::-1]),)), 1), 5.0)
    assert flatten(one) == flatten(other)
    assert RENYI.epsilon(ComposedEvent((one, other)), 1e-5) == RENYI.epsilon(RepeatedEvent(one, 2), 1e-5)


def test_what_a_number_of_trials_that_is_known_would_cost():
    """The figures of docs/privacy/search.md: the noisy score of the best of K trials, K known or seen beside it."""
    plan = SearchPlan(
        epsilon=1.0, delta=1e-6, adjacency=Adjacency.ZERO_OUT, n_iter=10.0,
        scoring="accuracy", score_bound=1.0, validation_size=0.2, n_samples=1000, n_features=2,
    )  # fmt: skip
    x = np.linspace(-10.0, 12.0, 20_001)
    step, one, other = x[1] - x[0], norm(plan.mu), norm(0.0)

    def densities(k):
        return k * one.pdf(x) * one.cdf(x) ** (k - 1), k * other.pdf(x) * other.cdf(x) ** (k - 1)

    def epsilon(law):
        pairs = [(weight, *densities(k)) for k, weight in law.items()]

        def surplus(guess):
            sums = [
                [weight * step * np.maximum(a - math.exp(guess) * b, 0.0).sum() for a, b in ((p, q), (q, p))]
                for weight, p, q in pairs
            ]
            return max(np.sum(sums, axis=0)) - plan.delta

        return brentq(surplus, 0.0, 20.0, xtol=1e-6)

    assert [epsilon({k: 1.0}) for k in (1, 10, 30, 100)] == pytest.approx([0.64, 1.75, 2.56, 3.61], abs=0.005)
    geometric = {k: 0.1 * 0.9 ** (k - 1) for k in range(1, 150)}
    assert epsilon(geometric) == pytest.approx(2.29, abs=0.005)
