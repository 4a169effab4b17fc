"""Filters: never above the naive sum where that is promised, and sound against an adversary who adapts.

The adversary is exact: dynamic programming over every adaptive choice of randomised responses and of when to stop
gives the largest delta at the budget's epsilon that any analyst can reach under a rule.
"""

import itertools
import math
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.exceptions import ParameterError
from sottovoce.privacy.accounting import accountant_for, gaussian_epsilon
from sottovoce.privacy.calibration import gaussian_mu
from sottovoce.privacy.events import (
    BoundedRangeEvent,
    GaussianEvent,
    NonPrivateEvent,
    NothingReleased,
    PoissonSampledEvent,
    RandomizedResponseEvent,
    RepeatAndSelectEvent,
    RepeatedEvent,
    compose,
)
from sottovoce.privacy.filters import COMPOSITIONS, PrivacyFilter, Release, Tally, costs_at_most

EVENTS = [
    GaussianEvent(12.0),
    RandomizedResponseEvent(0.1),
    RepeatedEvent(BoundedRangeEvent(0.05), 3),
    RepeatedEvent(PoissonSampledEvent(0.01, GaussianEvent(2.0)), 20),
    RepeatAndSelectEvent(GaussianEvent(20.0), 3.0),
    compose(GaussianEvent(15.0), RandomizedResponseEvent(0.05)),
]


def gaussian(epsilon, delta=1e-6):
    return Release(GaussianEvent(1.0 / gaussian_mu(epsilon, delta)), delta)


def worst_delta(admits, epsilon, first, second, most):
    """Return the largest delta at ``epsilon`` of an analyst who may choose either response after every answer."""
    kept = {value: math.exp(value) / (1.0 + math.exp(value)) for value in (first, second)}

    @cache
    def allowed(n, m):
        return n + m <= most and admits(n, m)

    @cache
    def value(n, m, up, right):
        loss = (2 * up - n) * first + (2 * right - m) * second
        best = max(0.0, -math.expm1(epsilon - loss))
        if allowed(n + 1, m):
            p = kept[first]
            best = max(best, p * value(n + 1, m, up + 1, right) + (1.0 - p) * value(n + 1, m, up, right))
        if allowed(n, m + 1):
            p = kept[second]
            best = max(best, p * value(n, m + 1, up, right + 1) + (1.0 - p) * value(n, m + 1, up, right))
        return best

    return value(0, 0, 0, 0)


def releases_of(first, second, n, m):
    return [Release(RandomizedResponseEvent(first), 0.0)] * n + [Release(RandomizedResponseEvent(second), 0.0)] * m


@pytest.mark.parametrize("composition", ["mixed", "renyi", "basic"])
@pytest.mark.parametrize(("epsilon", "delta", "first", "second"), [(1.0, 0.05, 0.4, 0.1), (0.6, 0.01, 0.3, 0.05)])
def test_no_adaptive_analyst_exceeds_the_budget(composition, epsilon, delta, first, second):
    rule = PrivacyFilter(epsilon, delta, composition)
    worst = worst_delta(lambda n, m: rule.admits(releases_of(first, second, n, m)), epsilon, first, second, 40)
    assert worst <= delta * (1.0 + 1e-9)
    if composition == "renyi":
        assert worst > 0.0  # the rule admits runs that basic composition would not


@pytest.mark.parametrize("composition", ["mixed", "gaussian", "renyi", "basic"])
def test_what_releases_nothing_changes_nothing(composition):
    rule, nothing = PrivacyFilter(3.0, 1e-5, composition), Release(NothingReleased(), 0.0)
    for history in ([], [gaussian(0.5)], [gaussian(0.5)] * 3):
        assert rule.spent([nothing, *history, nothing]) == rule.spent(history)


def test_composing_curves_as_if_fixed_beforehand_would_overspend():
    """The obvious rule, tightest composition of what was charged: an analyst who adapts gets more than delta."""
    epsilon, delta, first, second = 1.0, 0.05, 0.4, 0.1

    def admits(n, m):
        event = compose(
            *([RepeatedEvent(RandomizedResponseEvent(first), n)] if n else []),
            *([RepeatedEvent(RandomizedResponseEvent(second), m)] if m else []),
        )
        return accountant_for(event).delta(event, epsilon) <= delta

    assert worst_delta(admits, epsilon, first, second, 60) > 1.1 * delta


@pytest.mark.parametrize("composition", COMPOSITIONS)
def test_one_fit_may_have_the_whole_budget(composition):
    rule = PrivacyFilter(1.0, 1e-6, composition)
    assert rule.spent([gaussian(1.0)]) == pytest.approx(1.0, rel=1e-9)
    assert rule.admits([gaussian(1.0)])
    assert not rule.admits([gaussian(1.001)])
    assert not rule.admits([gaussian(1.0), gaussian(0.01)])


@given(st.lists(st.tuples(st.floats(0.01, 2.0), st.sampled_from([1e-8, 1e-7])), min_size=1, max_size=8))
def test_gaussian_releases_never_cost_more_than_the_naive_sum(parts):
    history = [gaussian(epsilon, delta) for epsilon, delta in parts]
    epsilon, delta = sum(part[0] for part in parts), sum(part[1] for part in parts)
    assert PrivacyFilter(100.0, delta, "gaussian").spent(history) <= epsilon * (1.0 + 1e-9)


@given(st.lists(st.sampled_from(EVENTS), min_size=1, max_size=5))
def test_mixed_never_costs_more_than_the_naive_sum_within_its_quarter_of_delta(events):
    rule = PrivacyFilter(5.0, 1e-4)
    naive = sum(accountant_for(event).epsilon(event, 5e-6) for event in events)
    assert rule.spent([Release(event, 5e-6) for event in events]) <= naive * (1.0 + 1e-9)


@pytest.mark.parametrize("composition", COMPOSITIONS)
def test_the_rules_share_delta_and_never_take_more(composition):
    assert math.fsum(COMPOSITIONS[composition]) == 1.0
    rule = PrivacyFilter(1.0, 1e-6, composition)
    shares = [delta for _, delta in rule.orders]
    assert math.fsum(shares) == pytest.approx(COMPOSITIONS[composition][2] * 1e-6, rel=1e-12)


def test_the_orders_of_a_budget_never_change():
    """They are chosen when a budget is made and not stored: another version that took others could overspend it."""
    for target, orders in (
        ((1.0, 1e-6), [32.0, 16.0, 63.0, 9.0, 125.0, 495.0, 1978.0]),
        ((30.0, 1e-3), [1.87, 1.44, 2.74, 1.22, 4.48, 15.0, 57.0]),
    ):
        assert [order for order, _ in PrivacyFilter(*target).orders] == orders
        shares = [32.0 * share / target[1] for _, share in PrivacyFilter(*target).orders]
        assert shares == pytest.approx([4.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.5])


def test_the_shares_of_a_mixed_budget_are_what_the_proof_says():
    """A half of delta for Gaussian releases, a quarter for the sum of epsilons."""
    rule = PrivacyFilter(1.0, 1e-6)
    mu = math.sqrt(2.0) * gaussian_mu(0.1, 1e-6)
    assert rule.spent([gaussian(0.1)] * 2) == pytest.approx(gaussian_epsilon(mu, 5e-7), rel=1e-9)
    within, beyond = Release(RandomizedResponseEvent(0.3), 1.2e-7), Release(RandomizedResponseEvent(0.3), 1.3e-7)
    assert rule.spent([within] * 2) == pytest.approx(0.6, rel=1e-5)
    assert rule.spent([beyond] * 2) > 0.601


@given(st.permutations(EVENTS), st.sampled_from(["mixed", "renyi", "basic"]))
def test_order_does_not_matter_and_more_costs_more(events, composition):
    rule = PrivacyFilter(8.0, 1e-4, composition)
    history = [Release(event, 1e-6) for event in events]
    assert rule.spent(history) == pytest.approx(rule.spent([Release(event, 1e-6) for event in EVENTS]), rel=1e-12)
    assert rule.spent(history[:-1]) < rule.spent(history) < math.inf


def test_a_copy_of_a_tally_counts_apart():
    tally = Tally(PrivacyFilter(1.0, 1e-6))
    tally.add(gaussian(0.1))
    before = tally.spent()
    other = tally.copy()
    other.add(gaussian(0.1))
    assert tally.spent() == before < other.spent()


def test_gaussian_composition_refuses_other_releases_and_pure_budgets_are_basic():
    assert PrivacyFilter(9.0, 1e-6, "gaussian").spent([Release(RandomizedResponseEvent(0.1), 0.0)]) == math.inf
    pure = PrivacyFilter(1.0, 0.0)
    history = [Release(RandomizedResponseEvent(0.5), 0.0)]
    assert pure.admits(history * 2) and not pure.admits(history * 3)
    assert not pure.admits([gaussian(0.1), gaussian(0.1)])


@pytest.mark.parametrize("composition", COMPOSITIONS)
def test_a_release_without_protection_never_fits(composition):
    rule = PrivacyFilter(1e6, 0.5, composition)
    assert rule.spent([Release(NonPrivateEvent(), 0.0)]) == math.inf
    assert not rule.admits([Release(compose(GaussianEvent(1.0), NonPrivateEvent()), 0.0)])
    assert rule.spent([]) == 0.0 == rule.spent([Release(NothingReleased(), 0.0)])


def test_a_run_may_not_cost_more_than_was_reserved_in_any_sum():
    """Nor alone: at delta = 0 every Gaussian release costs the same, and a history of one is accounted by its curve."""
    for composition, delta in itertools.product(COMPOSITIONS, (0.0, 1e-9, 1e-6)):
        rule = PrivacyFilter(1.0, 1e-6, composition)
        more, less = Release(GaussianEvent(9.99), delta), Release(GaussianEvent(10.0), delta)
        assert costs_at_most(less, more, rule) and costs_at_most(less, less, rule)
        assert not costs_at_most(more, less, rule)


@pytest.mark.parametrize(
    ("bad", "name"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"epsilon": math.inf}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"delta": -1e-9}, "delta"),
        ({"delta": math.nan}, "delta"),
        ({"composition": "best"}, "composition"),
    ],
)
def test_bad_budgets_are_refused(bad, name):
    with pytest.raises(ParameterError, match=name):
        PrivacyFilter(**{"epsilon": 1.0, "delta": 1e-6, **bad})
