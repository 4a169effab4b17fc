"""The law of the number of trials, and the cost of a search against the theorems written out and dp-accounting."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.rdp import rdp_privacy_accountant as theirs
from scipy.optimize import brentq
from scipy.stats import chisquare, norm

from sottovoce.estimators.search_plan import SearchPlan
from sottovoce.exceptions import AccountingError, ParameterError
from sottovoce.privacy.accounting import (
    GaussianAccountant,
    PLDAccountant,
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
    RepeatAndSelectEvent,
    RepeatedEvent,
)
from sottovoce.privacy.trials import TrialCount

ORDERS = (1.2, 1.5, 2.0, 3.0, 5.0, 8.0, 16.0, 32.0, 64.0, 256.0)
SHAPES = (0.0, 0.5, 1.0, 4.0, math.inf)
PROFILE, RENYI = SelectionAccountant(), RenyiAccountant()
each_shape = pytest.mark.parametrize("shape", SHAPES)
each_mean = pytest.mark.parametrize("mean", [1.1, 3.0, 10.0, 200.0])


def search(noise, mean=10.0, shape=1.0):
    return RepeatAndSelectEvent(GaussianEvent(noise), mean, shape)


def probabilities(mean, shape, most):
    """P(K = 1), ..., P(K = most) by the definitions, with the parameter that gives the mean."""
    k = np.arange(1, most + 1)
    if math.isinf(shape):
        m = brentq(lambda m: m / -math.expm1(-m) - mean, 1e-9, 2 * mean, xtol=1e-14)
        return np.exp(k * math.log(m) - np.cumsum(np.log(k)) - m - math.log(-math.expm1(-m)))

    def excess(gamma):
        if shape == 0:
            return (1 / gamma - 1) / math.log(1 / gamma) - mean
        return shape * (1 - gamma) / (gamma * (1 - gamma**shape)) - mean

    gamma = brentq(excess, 1e-9, 1 - 1e-6, xtol=1e-15)
    if shape == 0:
        return (1 - gamma) ** k / (k * math.log(1 / gamma))
    factors = np.cumprod((np.arange(most) + shape) / (np.arange(most) + 1))
    return (1 - gamma) ** k / (gamma**-shape - 1) * factors


# --- the law of K -----------------------------------------------------------------------------------------------------


@each_shape
@pytest.mark.parametrize("mean", [1.5, 4.0, 30.0])
def test_number_of_trials_has_its_law(mean, shape):
    """Chi-square with 20,000 draws: fails by chance once in 10,000, and at a mean that is 20 % off for certain."""
    rng = np.random.default_rng(7)
    law = TrialCount(mean, shape)
    drawn = Counter(law.draw(rng) for _ in range(20_000))
    assert min(drawn) >= 1

    def p_value(expected):
        cells, observed, wanted = [], [], []
        for k, p in enumerate(expected, start=1):  # cells of at least 50 expected draws
            cells.append((drawn.get(k, 0), 20_000 * p))
            if sum(w for _, w in cells) >= 50:
                observed.append(sum(o for o, _ in cells))
                wanted.append(sum(w for _, w in cells))
                cells = []
        observed.append(20_000 - sum(observed))
        wanted.append(20_000 - sum(wanted))
        return chisquare(observed, wanted).pvalue

    assert p_value(probabilities(mean, shape, 2000)) > 1e-4
    assert p_value(probabilities(1.2 * mean, shape, 2000)) < 1e-4


@pytest.mark.parametrize(
    ("mean", "shape"),
    [(5000.0, math.inf), (2000.0, 1.0), (5000.0, 1e6), pytest.param(1e6, 0.0, marks=pytest.mark.slow)],
)
def test_many_expected_trials(mean, shape):
    """Where P(K = 1) is lost in double precision; the logarithmic law is far from its mean."""
    law = TrialCount(mean, shape)
    drawn = [law.draw(np.random.default_rng(seed)) for seed in range(20)]
    assert np.mean(drawn) == pytest.approx(mean, rel=0.6) or (shape == 0.0 and 1 <= np.median(drawn) < mean)


@pytest.mark.parametrize("mean", [1.0, 1, 1.0 + 1e-15])
@each_shape
def test_one_trial(mean, shape):
    law = TrialCount(mean, shape)
    assert {law.draw(np.random.default_rng(seed)) for seed in range(50)} == {1}
    event = RepeatAndSelectEvent(GaussianEvent(2.0), mean, shape)
    assert accountant_for(event).epsilon(event, 1e-5) == pytest.approx(gaussian_epsilon(0.5, 1e-5), rel=1e-6)


@pytest.mark.parametrize("mean", [0.99, 0.0, -1.0, math.nan, math.inf, 1.1e6, None, True, "3"])
def test_bad_mean_is_refused(mean):
    with pytest.raises(ParameterError, match="mean"):
        RepeatAndSelectEvent(GaussianEvent(1.0), mean, 1.0)


@pytest.mark.parametrize("shape", [-0.5, -1e-9, math.nan, -math.inf, 2e6, None, True, "1"])
def test_bad_shape_is_refused(shape):
    with pytest.raises(ParameterError, match="shape"):
        RepeatAndSelectEvent(GaussianEvent(1.0), 10.0, shape)


# --- Renyi: Theorems 2 and 6 ------------------------------------------------------------------------------------------


@each_mean
@pytest.mark.parametrize("shape", SHAPES[:-1])
def test_renyi_is_theorem_2(mean, shape):
    noise = 4.0
    gamma = probabilities(mean, shape, 1)[0]  # P(K = 1) = mean gamma^(1 + shape)
    gamma = (gamma / mean) ** (1 / (1 + shape))
    one = {order: order / (2 * noise**2) for order in ORDERS}
    added = min((1 - 1 / hat) * one[hat] + math.log(1 / gamma) / hat for hat in ORDERS)
    truth = {order: one[order] + (1 + shape) * added + math.log(mean) / (order - 1) for order in ORDERS}
    for order in ORDERS:
        # at each order alone the conversion of the moments accountant shows the divergence
        expected = min(truth[higher] for higher in ORDERS if higher >= order)
        found = RenyiAccountant(ORDERS)._divergences(flatten(search(noise, mean, shape)))[ORDERS.index(order)]
        assert found == pytest.approx(expected, rel=1e-4)
        assert found >= expected * (1 - 1e-4)


@each_mean
@each_shape
@pytest.mark.parametrize("noise", [0.8, 4.0, 30.0])
def test_renyi_against_dp_accounting(mean, shape, noise):
    accountant = theirs.RdpAccountant(list(ORDERS))
    accountant.compose(dp_event.RepeatAndSelectDpEvent(dp_event.GaussianDpEvent(noise), mean, shape))
    ours, other = RenyiAccountant(ORDERS).epsilon(search(noise, mean, shape), 1e-5), accountant.get_epsilon(1e-5)
    if math.isinf(shape):
        # theirs is for Poisson with K = 0; ours, without, has a smaller rate. Its own formula is tested below
        assert ours <= other * (1 + 1e-9)
    else:
        assert ours == pytest.approx(other, rel=1e-6)
        assert ours >= other * (1 - 1e-9)


@pytest.mark.parametrize("mean", [1.1, 3.0, 10.0])
def test_renyi_of_poisson_is_theorem_6_given_one_trial(mean):
    """rho + m delta(log(1 + 1/(order - 1))) + log(E[K])/(order - 1), with delta from the exact curve."""
    noise, law = 2.0, TrialCount(mean, math.inf)
    assert law.rate / -math.expm1(-law.rate) == pytest.approx(mean, rel=1e-12)
    orders, one = np.array(ORDERS), np.array(ORDERS) / (2 * noise**2)
    found = law.divergences(orders, one, lambda epsilon: gaussian_delta(1 / noise, epsilon))
    truth = [
        order / (2 * noise**2)
        + law.rate * gaussian_delta(1 / noise, math.log(order / (order - 1)))
        + math.log(mean) / (order - 1)
        for order in ORDERS
    ]
    expected = [min(truth[place:]) for place in range(len(ORDERS))]
    assert found == pytest.approx(expected, rel=1e-7)
    loose = RenyiAccountant(ORDERS)._divergences(flatten(search(noise, mean, math.inf)))
    assert np.all(loose >= found * (1 - 1e-9))  # its delta is the one of Renyi DP


# --- the profile ------------------------------------------------------------------------------------------------------


@each_mean
@each_shape
@pytest.mark.parametrize("noise", [0.7, 2.0, 8.0])
def test_ratio_of_slopes_is_the_largest_one(mean, shape, noise):
    """Over all pairs of probabilities on the trade-off curve of a Gaussian, Phi(z) and Phi(z + mu)."""
    z = np.linspace(-38, 38, 400_001)
    law = TrialCount(mean, shape)
    p, moved = norm.cdf(z), norm.cdf(z + 1 / noise)
    if law.is_poisson:
        truth = law.rate * float(np.max(moved - p))
    else:
        gamma = law.gamma
        truth = (1 + shape) * math.log(float(np.max((gamma + (1 - gamma) * moved) / (gamma + (1 - gamma) * p))))
    found = law.log_ratio(lambda epsilon: gaussian_delta(1 / noise, epsilon))
    assert truth <= found <= truth * (1 + 1e-6) + 1e-9


@each_mean
@each_shape
@pytest.mark.parametrize("delta", [1e-3, 1e-6])
def test_profile_formula_and_inverse(mean, shape, delta):
    event = search(4.0, mean, shape)
    r = TrialCount(mean, shape).log_ratio(lambda epsilon: gaussian_delta(0.25, epsilon))
    epsilon = PROFILE.epsilon(event, delta)
    assert epsilon == pytest.approx(r + gaussian_epsilon(0.25, delta / mean), rel=1e-9)
    assert PROFILE.delta(event, epsilon) <= delta * (1 + 1e-6)
    assert PROFILE.delta(event, 0.999 * epsilon) > delta * (1 - 1e-6)
    assert PROFILE.delta(event, 0.5 * r) == 1.0
    assert PROFILE.epsilon(event, 0.0) == math.inf


def test_laws_of_the_profile():
    def falls(values):
        return all(later < earlier for earlier, later in itertools.pairwise(values))

    for shape in SHAPES:
        assert falls([PROFILE.epsilon(search(noise, shape=shape), 1e-5) for noise in (0.5, 1.0, 1.01, 3.0, 50.0)])
        assert falls([PROFILE.epsilon(search(3.0, mean, shape), 1e-5) for mean in (100.0, 10.0, 2.0, 1.01, 1.0 + 1e-6)])
        assert falls([PROFILE.epsilon(search(3.0, shape=shape), delta) for delta in (1e-9, 1e-6, 1e-3)])
        assert PROFILE.epsilon(search(3.0, shape=shape), 1e-5) > gaussian_epsilon(1 / 3.0, 1e-5)
    # a search over sampled runs, and the dominance of no sampling
    sampled = RepeatAndSelectEvent(RepeatedEvent(PoissonSampledEvent(0.1, GaussianEvent(1.0)), 20), 5.0, 1.0)
    plain = RepeatAndSelectEvent(RepeatedEvent(GaussianEvent(1.0), 20), 5.0, 1.0)
    assert 0.0 < PROFILE.epsilon(sampled, 1e-5) < PROFILE.epsilon(plain, 1e-5)
    assert PROFILE.epsilon(sampled, 1e-5) <= RENYI.epsilon(sampled, 1e-5)


@pytest.mark.parametrize("noise", [5e-324, 1e-12, 1e12, 1e308])
@each_shape
def test_extreme_noise(noise, shape):
    epsilon, delta = PROFILE.epsilon(search(noise, shape=shape), 1e-5), PROFILE.delta(search(noise, shape=shape), 1.0)
    if noise < 1:
        assert epsilon > 1e20
        assert delta == 1.0
    else:
        assert 0.0 <= epsilon < 1e-9
        assert delta == 0.0


# --- which accountant, nesting, refusals ------------------------------------------------------------------------------


def test_choice_of_accountant():
    event = search(2.0)
    assert isinstance(accountant_for(event), SelectionAccountant)
    assert isinstance(accountant_for(ComposedEvent((event, NothingReleased()))), SelectionAccountant)
    for several in (RepeatedEvent(event, 2), ComposedEvent((event, GaussianEvent(3.0)))):
        assert isinstance(accountant_for(several), RenyiAccountant)
        with pytest.raises(AccountingError, match=r"covers one search by itself.*use RenyiAccountant"):
            PROFILE.epsilon(several, 1e-5)
        with pytest.raises(AccountingError, match=r"exact Gaussian accounting does not cover .*use RenyiAccountant"):
            GaussianAccountant().epsilon(several, 1e-5)
        with pytest.raises(AccountingError, match=r"privacy loss distributions do not cover .*use RenyiAccountant"):
            PLDAccountant().epsilon(several, 1e-5)
    nested = RepeatAndSelectEvent(event, 3.0, 1.0)
    assert isinstance(accountant_for(nested), RenyiAccountant)
    with pytest.raises(AccountingError, match="without a search inside"):
        PROFILE.delta(nested, 1.0)
    assert RENYI.epsilon(nested, 1e-5) > RENYI.epsilon(event, 1e-5)


def test_deep_nesting_is_accounted_in_time():
    event = GaussianEvent(50.0)
    for _ in range(12):
        event = RepeatAndSelectEvent(event, 1.5, math.inf)
    assert 0.0 < accountant_for(event).epsilon(event, 1e-5) < math.inf


@pytest.mark.parametrize("accountant", [PROFILE, RENYI])
def test_nothing_and_everything_inside_a_search(accountant):
    for nothing in (NothingReleased(), RepeatedEvent(GaussianEvent(1.0), 0), GaussianEvent(math.inf)):
        assert accountant.epsilon(RepeatAndSelectEvent(nothing, 10.0, 1.0), 0.0) == 0.0
    bare = RepeatAndSelectEvent(ComposedEvent((GaussianEvent(5.0), NonPrivateEvent())), 10.0, 1.0)
    assert accountant.epsilon(bare, 0.5) == math.inf
    assert accountant.delta(bare, 100.0) == 1.0


@pytest.mark.parametrize("shape", [0.0, 0.5, 1.0, math.inf])
def test_one_run_is_no_search_and_one_without_protection_has_none(shape):
    for run in (GaussianEvent(2.0), RepeatedEvent(GaussianEvent(3.0), 4), NothingReleased(), NonPrivateEvent()):
        assert flatten(RepeatAndSelectEvent(run, 1.0, shape)) == flatten(run)
    bare = ComposedEvent((GaussianEvent(5.0), RepeatedEvent(NonPrivateEvent(), 3)))
    assert flatten(RepeatAndSelectEvent(bare, 4.0, shape)) == flatten(NonPrivateEvent())


def test_nesting_inside_a_trial_does_not_matter():
    parts = (GaussianEvent(2.0), RepeatedEvent(GaussianEvent(5.0), 6))
    one = RepeatAndSelectEvent(ComposedEvent(parts), 5.0, 1.0)
    other = RepeatAndSelectEvent(RepeatedEvent(ComposedEvent((ComposedEvent(parts[::-1]),)), 1), 5.0, 1.0)
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
