"""The laws that every accountant keeps, on every kind of run it covers, and the numbers they must agree with.

Independent truth: privacy curves in multiple precision, quadrature of the divergences of one sampled step,
dp-accounting called directly, and the numbers printed in DESIGN, section 3.
"""

import itertools
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from typing import Any, NamedTuple

import mpmath
import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld.pld_privacy_accountant import PLDAccountant as DirectPLD
from dp_accounting.pld.privacy_loss_distribution import from_laplace_mechanism
from dp_accounting.privacy_accountant import NeighboringRelation
from dp_accounting.rdp.rdp_privacy_accountant import RdpAccountant as DirectRDP
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from sottovoce.exceptions import AccountingError, ParameterError
from sottovoce.papers.dp_scd.published import MomentsAccountant
from sottovoce.privacy.accounting import (
    BoundedRangeAccountant,
    GaussianAccountant,
    MixedSelectionAccountant,
    PLDAccountant,
    RenyiAccountant,
    SelectionAccountant,
    _basic_delta,
    _pure_epsilon,
    accountant_for,
    flatten,
    gaussian_delta,
    gaussian_epsilon,
)
from sottovoce.privacy.event import Accountant, Basic, Offers, ordered, quiet
from sottovoce.privacy.events import (
    KINDS,
    BoundedRangeEvent,
    ComposedEvent,
    Event,
    GaussianEvent,
    NonPrivateEvent,
    NothingReleased,
    PoissonSampledEvent,
    PureEvent,
    RandomizedResponseEvent,
    RepeatAndSelectEvent,
    RepeatedEvent,
    event_from_dict,
)
from support.pairs import by_pairs

EXACT = GaussianAccountant()
PLD = PLDAccountant()
COARSE = PLDAccountant(grid=1e-3)  # for laws that hold at any grid
TIGHT = RenyiAccountant()
MOMENTS = MomentsAccountant()
FEW = (1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 64.0)  # laws hold at any orders
ALL = {
    "exact": EXACT,
    "pld": COARSE,
    "renyi": RenyiAccountant(FEW),
    "selections": BoundedRangeAccountant(),
    "mixed": MixedSelectionAccountant(),
}
DELTA = 1e-5


def sampled(rate, noise, steps=1):
    return RepeatedEvent(PoissonSampledEvent(rate, GaussianEvent(noise)), steps)


def response(epsilon):
    return RandomizedResponseEvent(min(epsilon, 1e300))


def selections(width, times):
    return RepeatedEvent(BoundedRangeEvent(min(max(width, 1e-12), 1e6)), times)


class Run(NamedTuple):
    """From a noise multiplier to an event, and the accountants that cover it.

    Each costs about as much as one Gaussian release with that noise, so that delta at EPSILON is neither 1 (for the
    loosest accountant) nor lost in the tails that a grid cuts off.
    """

    make: Callable[[float], Event]
    covered: tuple[str, ...]


EPSILON = 2.5
RUNS = {
    "releases": Run(
        lambda noise: ComposedEvent((GaussianEvent(noise), RepeatedEvent(GaussianEvent(3 * noise), 2))),
        ("exact", "pld", "renyi"),
    ),
    "steps and a release": Run(
        lambda noise: ComposedEvent((sampled(0.2, noise, 15), GaussianEvent(4 * noise))), ("pld", "renyi")
    ),
    "responses and releases": Run(
        lambda noise: ComposedEvent((
            RepeatedEvent(response(0.4 / noise), 3), response(0.2 / noise), RepeatedEvent(GaussianEvent(3 * noise), 4)
        )),
        ("exact", "pld", "renyi"),
    ),
    "a response and sampled steps": Run(
        lambda noise: ComposedEvent((response(0.5 / noise), sampled(0.2, noise, 15))), ("pld", "renyi")
    ),
    "a search and a release": Run(  # more in test_private_selection.py
        lambda noise: ComposedEvent((RepeatAndSelectEvent(GaussianEvent(2 * noise), 1.1), GaussianEvent(2 * noise))),
        ("renyi",),
    ),
    "selections": Run(lambda noise: selections(1.5 / noise, 5), ("selections", "renyi")),
    "selections and releases": Run(
        lambda noise: ComposedEvent((selections(0.9 / noise, 3), GaussianEvent(1.5 * noise), response(0.3 / noise))),
        ("mixed", "renyi"),
    ),
}  # fmt: skip
each_pair = pytest.mark.parametrize(
    ("accountant", "make"),
    [
        pytest.param(ALL[name], run.make, id=f"{name}, {kind}")
        for kind, run in RUNS.items()
        for name in run.covered
    ],
)  # fmt: skip


def falls(values):
    return all(later < earlier for earlier, later in itertools.pairwise(values))


# --- laws -----------------------------------------------------------------------------------------------------------


@each_pair
def test_more_noise_a_larger_delta_and_fewer_releases_mean_less(accountant, make):
    noises = (1.0, 1.01, 1.2, 1.4)
    assert falls([accountant.epsilon(make(noise), DELTA) for noise in noises])
    assert falls([accountant.delta(make(noise), EPSILON) for noise in noises])
    assert falls([accountant.epsilon(make(1.0), delta) for delta in (1e-9, 1e-7, 1e-5, 1e-3)])
    assert falls([accountant.delta(make(1.0), epsilon) for epsilon in (1.5, 2.0, 2.5, 3.0)])
    assert falls([accountant.epsilon(RepeatedEvent(make(2.0), count), DELTA) for count in (3, 2, 1)])
    assert falls([accountant.delta(RepeatedEvent(make(2.0), count), EPSILON) for count in (3, 2, 1)])


@each_pair
def test_epsilon_and_delta_are_inverse_and_asking_twice_gives_the_same(accountant, make):
    event = make(1.0)
    deltas = (0.1, 1e-3, 1e-6, 1e-9)
    for delta, epsilon in zip(deltas, [accountant.epsilon(event, delta) for delta in deltas], strict=True):
        assert accountant.epsilon(make(1.0), delta) == epsilon
        assert accountant.delta(event, epsilon) <= delta * (1 + 1e-6)
        # and not by being slack; where epsilon is 0 there is nothing to be tight about
        assert epsilon == 0.0 or accountant.delta(event, 0.999 * epsilon) > delta * (1 - 1e-6)


@each_pair
def test_the_ends_of_noise_delta_and_counts(accountant, make):
    pure = {basic.offers.window for basic in flatten(make(5.0))} == {0.3}
    assert accountant.epsilon(make(5.0), 0.0) == math.inf or (pure and accountant is ALL["selections"])
    for noise in (5e-324, 1e-100, 1e-12, 1e12, 1e308):
        epsilon, delta = accountant.epsilon(make(noise), DELTA), accountant.delta(make(noise), 1.0)
        if noise < 1:
            assert (epsilon, delta) == (math.inf, 1.0) or (epsilon > 1e6 and delta == 1.0)  # pure releases
        else:
            assert 0.0 <= epsilon < 0.2
            assert 0.0 <= delta < 1e-6
    with pytest.raises(AccountingError, match="more than 2\\*\\*53 releases"):
        accountant.epsilon(RepeatedEvent(RepeatedEvent(make(1.0), 10**200), 10**200), DELTA)


@pytest.mark.parametrize("accountant", [COARSE, ALL["renyi"]], ids=["pld", "renyi"])
def test_rates(accountant):
    rates = (1.0, 0.5, 0.1, 0.02, 0.01)
    assert falls([accountant.epsilon(sampled(rate, 1.0, 100), DELTA) for rate in rates])
    plain = RepeatedEvent(GaussianEvent(1.3), 4)
    assert accountant.epsilon(sampled(1.0, 1.3, 4), DELTA) == accountant.epsilon(plain, DELTA)


GAUSSIAN_EVENTS = st.builds(GaussianEvent, st.floats(0.2, 1e3))
RESPONSE_EVENTS = st.builds(RandomizedResponseEvent, st.floats(1e-6, 20.0))
SAMPLED_EVENTS = st.builds(PoissonSampledEvent, st.floats(0.0, 1.0), GAUSSIAN_EVENTS)
EVENTS = st.recursive(
    st.one_of(GAUSSIAN_EVENTS, SAMPLED_EVENTS, RESPONSE_EVENTS, st.just(NothingReleased()), st.just(NonPrivateEvent())),
    lambda inner: st.one_of(
        st.builds(RepeatedEvent, inner, st.integers(0, 50)),
        st.builds(ComposedEvent, st.lists(inner, max_size=4).map(tuple)),
    ),
    max_leaves=12,
)


@given(EVENTS, st.integers(0, 5), st.randoms(use_true_random=False))
def test_any_event_is_counted_right(event, count, random):
    """Order and nesting do not matter, for all accountants: this is all that they see of an event."""
    assert flatten(RepeatedEvent(event, count)) == flatten(ComposedEvent((event,) * count))
    once = flatten(event)
    assert flatten(RepeatedEvent(event, count)) == {basic: count * times for basic, times in once.items() if count}
    parts = [event, GaussianEvent(1.0), GaussianEvent(1.0)]
    random.shuffle(parts)
    assert flatten(ComposedEvent(tuple(parts))) == once + flatten(RepeatedEvent(GaussianEvent(1.0), 2))


def test_releases_are_composed_in_one_order():
    """By what they are: sums of their divergences are rounded in the same way wherever they stand."""
    parts = [GaussianEvent(2.0), GaussianEvent(3.0), RandomizedResponseEvent(0.3), sampled(0.02, 0.7)]
    events = [ComposedEvent(order) for order in itertools.permutations(parts)]
    assert len({tuple(ordered(flatten(event))) for event in events}) == 1
    for accountant in (COARSE, ALL["renyi"]):
        assert len({accountant.epsilon(event, DELTA) for event in events[::7]}) == 1
    plain = [ComposedEvent(order) for order in itertools.permutations(parts[:3])]
    assert len({EXACT.epsilon(event, DELTA) for event in plain}) == 1


class Told(Accountant):
    """One that computes a delta as it is told, outside [0, 1] too."""

    def __init__(self, told):
        self.told = told

    covers = _epsilon = None

    def _delta(self, counts, epsilon):
        return self.told


Told.__abstractmethods__ = frozenset()


def test_a_delta_is_a_chance():
    for told in (-1.0, -1e-17, 0.0, 1e-300, 0.5, 1.0 - 2.0**-53, 1.0, 1.0 + 2.0**-52, 2.0, math.inf):
        assert Told(told).delta(GaussianEvent(1.0), 1.0) == np.clip(told, 0.0, 1.0)


# --- what is refused, costs nothing, or is without protection ---------------------------------------------------------


@dataclass(frozen=True)
class Unknown(Event):
    kind = "unknown"


class Understated(GaussianEvent):
    offers = Offers(noise=1e9)


NEVER = NonPrivateEvent()
KNOWN = [
    *((event, math.inf) for event in (
        NEVER, RepeatedEvent(NEVER, 3), ComposedEvent((GaussianEvent(10.0), NEVER)),
        ComposedEvent((RepeatedEvent(ComposedEvent((NEVER, GaussianEvent(9.0))), 2), NothingReleased())),
    )),
    *((event, 0.0) for event in (
        NothingReleased(), ComposedEvent(()), RepeatedEvent(GaussianEvent(0.1), 0), RepeatedEvent(NEVER, 0),
        GaussianEvent(math.inf), PoissonSampledEvent(0.0, GaussianEvent(0.1)),
        PoissonSampledEvent(0.5, GaussianEvent(math.inf)),
        RepeatedEvent(ComposedEvent((NothingReleased(), GaussianEvent(math.inf))), 10**6),
    )),
]  # fmt: skip


@pytest.mark.parametrize("accountant", ALL.values(), ids=ALL)
def test_whatever_the_accountant(accountant):
    for event, cost in KNOWN:
        assert accountant.epsilon(event, 0.5 if cost else 0.0) == cost
        assert accountant.delta(event, 100.0 if cost else 0.0) == (1.0 if cost else 0.0)
    for event in (Unknown(), RepeatedEvent(Unknown(), 2), ComposedEvent((GaussianEvent(1.0), NEVER, Unknown()))):
        for ask in (accountant.epsilon, accountant.delta):
            with pytest.raises(AccountingError, match="no accountant knows events of type Unknown"):
                ask(event, 0.5)
    for delta in (-1e-9, 1.0, math.nan, math.inf, None, True, "0.1"):
        with pytest.raises(ParameterError, match="delta"):
            accountant.epsilon(GaussianEvent(1.0), delta)
    for epsilon in (-1e-9, math.nan, math.inf, None, False, "1"):
        with pytest.raises(ParameterError, match="epsilon"):
            accountant.delta(GaussianEvent(1.0), epsilon)


def test_a_kind_of_the_same_name_is_refused():
    for event in (Understated(1.0), RepeatAndSelectEvent(Understated(1.0), 2.0)):
        with pytest.raises(AccountingError, match="no accountant knows events of type Understated"):
            accountant_for(ComposedEvent((event, GaussianEvent(3.0))))


def test_as_many_releases_are_counted_as_doubles_tell_apart():
    for release in (GaussianEvent(1e9), sampled(0.1, 1.0), RandomizedResponseEvent(0.1), NEVER):
        assert flatten(RepeatedEvent(release, 2**53)).total() == 2**53
        with pytest.raises(AccountingError, match=r"more than 2\*\*53 releases of one kind"):
            flatten(RepeatedEvent(release, 2**53 + 1))


ONE = response(0.5)
SEARCH = RepeatAndSelectEvent(GaussianEvent(2.0), 10.0)
CHOSEN = [
    (GaussianAccountant, (
        ComposedEvent((GaussianEvent(1.0), GaussianEvent(2.0))), NothingReleased(), NEVER, sampled(1.0, 1.0, 3),
        sampled(0.0, 1.0, 3), ONE, ComposedEvent((GaussianEvent(1.0), RepeatedEvent(ONE, 1023))),
    )),
    (PLDAccountant, (
        ComposedEvent((GaussianEvent(1.0), sampled(0.5, 2.0))), RepeatedEvent(ONE, 1024),
        ComposedEvent((ONE, sampled(0.5, 2.0))),
    )),
    (BoundedRangeAccountant, (selections(0.01, 1_000),)),
    (MixedSelectionAccountant, (
        ComposedEvent((selections(0.1, 3), GaussianEvent(2.0))),
        ComposedEvent((selections(0.2, 48), GaussianEvent(5.0), RandomizedResponseEvent(0.5))),
    )),
    (SelectionAccountant, (SEARCH, ComposedEvent((SEARCH, NothingReleased())))),
    (RenyiAccountant, (
        sampled(1e-6, 1.0, 3_000_000), RepeatedEvent(ONE, 3_000_000), selections(0.01, 20_000),
        ComposedEvent((selections(0.1, 3), selections(0.2, 3))), RepeatedEvent(SEARCH, 2),
        ComposedEvent((SEARCH, GaussianEvent(3.0))), RepeatAndSelectEvent(SEARCH, 3.0),
        ComposedEvent((selections(0.2, 3), GaussianEvent(2.0), sampled(0.1, 1.0))),
    )),
]  # fmt: skip


def test_the_tightest_accountant_is_chosen_and_no_other_takes_what_it_does_not_cover():
    for kind, events in CHOSEN:
        for event in events:
            assert isinstance(accountant_for(event), kind), event
    assert accountant_for(ONE).name == "exact Gaussian DP and randomised response"
    assert accountant_for(GaussianEvent(1.0)).name == "exact Gaussian DP"
    step = ComposedEvent((GaussianEvent(1.0), sampled(0.5, 1.0)))
    for ask, event, words in (
        (EXACT.mu, step, "exact Gaussian accounting does not cover PoissonSampledEvent.*PLDAccountant or RenyiAcc"),
        (EXACT.mu, NEVER, "does not cover NonPrivateEvent"),
        (EXACT.mu, ONE, "no one Gaussian release is equivalent to a randomised response"),
        *((lambda event, one=one: one.epsilon(event, DELTA), event, "use RenyiAccountant")
          for one in (EXACT, PLD, ALL["selections"], ALL["mixed"], SelectionAccountant())
          for event in (RepeatedEvent(SEARCH, 2), ComposedEvent((selections(0.1, 3), selections(0.2, 3))))),
        (lambda event: EXACT.epsilon(event, DELTA), RepeatedEvent(ONE, 1024), "1024 randomised responses of 1 kinds"),
        (lambda event: PLD.epsilon(event, DELTA), RepeatedEvent(response(1e-6), 10**9), "use RenyiAccountant"),
        (lambda event: PLD.epsilon(event, DELTA), sampled(1e-6, 1.0, 10**9), "use RenyiAccountant"),
        (TIGHT.divergences, NEVER, "a release without protection has no Renyi divergence"),
        (accountant_for, Unknown(), "Unknown"),
    ):  # fmt: skip
        with pytest.raises(AccountingError, match=f"(?s){words}"):
            ask(event)


@pytest.mark.parametrize("rate", [1e-300, 1e-3, 1.0 - 2.0**-53])
@pytest.mark.parametrize("noise", [3e-3, 1e-5, 1e-150, 5e-324])
def test_a_step_far_from_private_is_no_lattice_however_seldom_it_comes(noise, rate):
    """A receipt or a question to a party with one took all memory: some 1 / noise^2 places."""
    event = PoissonSampledEvent(rate, GaussianEvent(noise))
    for count in (1, 1000):
        assert accountant_for(event).epsilon(RepeatedEvent(event, count), 1e-6) == math.inf
        assert PLDAccountant().delta(RepeatedEvent(event, count), 1.0) == 1.0


def test_a_run_is_far_from_private_beyond_one_shift():
    """Which mu^2 that is, whatever is beside it of which no shift is known."""
    search = RepeatAndSelectEvent(GaussianEvent(3.0), 2.0)
    for beside in (NothingReleased(), search, RepeatedEvent(search, 3)):
        for shift in (99_999, 100_000, 100_001):
            run = ComposedEvent((RepeatedEvent(GaussianEvent(1.0), shift), beside))
            assert math.isinf(TIGHT.epsilon(run, DELTA)) == (shift > 100_000)
    run = ComposedEvent((GaussianEvent(1e-3), response(2.0)))
    assert PLD.epsilon(run, DELTA) == pytest.approx(2.0 + gaussian_epsilon(1e3, DELTA), rel=1e-12)


@given(st.lists(st.floats(1e-6, 10.0), min_size=1, max_size=60), st.floats(0.2, 5.0), st.floats(1e-3, 3.0))
def test_what_is_added_up_is_rounded_up_and_hardly_so(widths, noise, more):
    """Selections of all widths beside a release: their sum is exact to the last digits, and never less."""
    counts, exact = (
        flatten(ComposedEvent((*map(BoundedRangeEvent, widths), GaussianEvent(noise)))),
        sum(map(Fraction, widths)),
    )
    assert exact <= _pure_epsilon(counts) <= exact * (1 + Fraction(len(widths) + 1) / 2**49)
    epsilon = float(exact) + more
    least = math.nextafter(float(Fraction(epsilon) - exact), math.inf)
    assert gaussian_delta(1.0 / noise, least) <= _basic_delta(counts, epsilon)
    assert _basic_delta(counts, epsilon) <= gaussian_delta(1.0 / noise, max(0.0, least - 1e-6))
    assert _basic_delta(counts, 0.99 * float(exact)) == 1.0


@dataclass(frozen=True)
class Laplace(Basic):
    """A kind of release that no file of the library names."""

    kind = "of this test"

    def divergences(self, orders):
        return DirectRDP(list(orders)).compose(dp_event.LaplaceDpEvent(2.0)).rdp

    def shift_squared(self, times):
        return times * 0.25

    def loss_step(self, times, shift):
        return 1e-3, 1e-4

    def loss_distribution(self, times, step):
        return from_laplace_mechanism(2.0, value_discretization_interval=step).self_compose(times)


@dataclass(frozen=True)
class Bounded(Basic):
    """One of which nothing is known but its divergences."""

    kind = "also of this test"

    def divergences(self, orders):
        return np.full(len(orders), 0.01)


def test_a_new_kind_of_release_is_accounted_by_what_it_offers(monkeypatch):
    for event in (Laplace(), Bounded()):
        with pytest.raises(AccountingError, match=f"no accountant knows events of type {type(event).__name__}"):
            accountant_for(ComposedEvent((GaussianEvent(3.0), event)))
        monkeypatch.setitem(KINDS, event.kind, type(event))
    beside = (GaussianEvent(3.0), RandomizedResponseEvent(0.2))
    for event, name in ((Laplace(), PLD.name), (Bounded(), TIGHT.name)):
        run = ComposedEvent((RepeatedEvent(event, 3), *beside))
        assert accountant_for(run).name == name
        least = EXACT.epsilon(ComposedEvent(beside), DELTA)
        assert least < accountant_for(run).epsilon(run, DELTA) <= TIGHT.epsilon(run, DELTA)
        assert isinstance(accountant_for(RepeatAndSelectEvent(event, 3.0)), SelectionAccountant)
        with pytest.raises(AccountingError, match=rf"does not cover {type(event).__name__}"):
            EXACT.epsilon(run, DELTA)
        assert event_from_dict(run.to_dict()) == run
    with pytest.raises(AccountingError, match=r"do not cover Bounded\(\); use RenyiAccountant"):
        PLD.epsilon(Bounded(), DELTA)
    assert PLD.epsilon(RepeatedEvent(Laplace(), 3), 1e-9) == pytest.approx(1.5, rel=1e-2)


# --- the exact curve of Gaussian releases and randomised responses, in multiple precision -----------------------------


def true_delta(mu, epsilon, *responses):
    """By definition, with enough digits: every pattern of flips, its probability and its privacy loss."""
    with mpmath.workdps(100):
        total, mu = mpmath.mpf(0), mpmath.mpf(mu)
        for pattern in itertools.product((1, -1), repeat=len(responses)):
            signed = list(zip(pattern, map(mpmath.mpf, responses), strict=True))
            share = mpmath.fprod(1 / (1 + mpmath.exp(-sign * e)) for sign, e in signed)
            gap = mpmath.mpf(epsilon) - mpmath.fsum(sign * e for sign, e in signed)
            if mu:
                one, other = (mpmath.ncdf(-gap / mu + sign * mu / 2) for sign in (1, -1))
                total += share * (one - mpmath.exp(gap) * other)
            else:
                total += share * max(0, 1 - mpmath.exp(gap))
        return total


def responses_and(mu, *responses):
    parts = tuple(map(RandomizedResponseEvent, responses))
    return ComposedEvent((*parts, GaussianEvent(1 / mu)) if mu else parts)


@pytest.mark.parametrize("mu", [1e-12, 1e-8, 1e-5, 1e-3, 0.03, 0.0624, 0.0626, 0.3, 1.0, 3.0, 10.0, 30.0, 1234.5])
def test_the_gaussian_curve(mu):
    """Never too small, and no slack to speak of: doubles hold a = mu/2 - epsilon/mu to mu 2^-52 only."""
    for standardised in (0.0, 0.01, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 35.0):
        epsilon = max(0.0, mu * standardised) if standardised < 5 or mu < 1 else mu * (mu / 2 + standardised)
        truth, computed = true_delta(mu, epsilon), gaussian_delta(mu, epsilon)
        assert truth <= computed <= truth * (1 + mpmath.mpf(1e-10 if mu < 1000 else 1e-8))
    for delta in (0.3, 1e-2, 1e-5, 1e-10, 1e-30, 1e-100, 1e-290):
        epsilon = gaussian_epsilon(mu, delta)
        assert true_delta(mu, epsilon) <= delta
        if epsilon > 0.0 and mu < 100:
            assert true_delta(mu, epsilon * (1 - 1e-9) - 1e-13) > delta


def test_the_gaussian_curve_of_large_shifts_is_never_too_small():
    """Where the two halves of a cancel; rounding down would show in about half of the points."""
    generator = np.random.default_rng(1)
    for _ in range(50):
        mu = 10.0 ** generator.uniform(4, 7)
        epsilon = mu * (mu / 2 + generator.uniform(-5, 30))
        truth, computed = true_delta(mu, epsilon), gaussian_delta(mu, epsilon)
        assert truth <= computed <= truth * (1 + 1e-15 * mu * 100)


def test_the_gaussian_curve_at_its_ends():
    for found, wanted in (
        (gaussian_delta(0.0, 0.0), 0.0), (gaussian_delta(math.inf, 1e6), 1.0), (gaussian_delta(1e-3, 1e3), 0.0),
        (gaussian_delta(60.0, 0.0), 1.0), (gaussian_delta(math.sqrt(2e18), 1e18), pytest.approx(0.5, abs=1e-5)),
        (gaussian_epsilon(0.0, 0.0), 0.0), (gaussian_epsilon(1e-300, 0.0), math.inf),
        (gaussian_epsilon(math.inf, 0.5), math.inf), (gaussian_epsilon(1e200, 0.5), math.inf),
    ):  # fmt: skip
        assert found == wanted
    for bad in (math.nan, -1.0, None, "1", True):
        for name, ask, places in (
            ("mu", gaussian_delta, (bad, 1.0)), ("epsilon", gaussian_delta, (1.0, bad)),
            ("delta", gaussian_epsilon, (1.0, bad)),
        ):  # fmt: skip
            with pytest.raises(ParameterError, match=name):
                ask(*places)


def test_gaussians_compose_to_one():
    event = ComposedEvent((GaussianEvent(2.0), RepeatedEvent(GaussianEvent(4.0), 9), GaussianEvent(0.5)))
    assert EXACT.mu(event) == pytest.approx(math.sqrt(1 / 4 + 9 / 16 + 4), rel=1e-15)
    squares_are_lost = RepeatedEvent(GaussianEvent(1e200), 10**6)
    assert EXACT.mu(squares_are_lost) == pytest.approx(1e-197, rel=1e-12, abs=0.0)
    assert EXACT.epsilon(event, DELTA) == gaussian_epsilon(EXACT.mu(event), DELTA)
    assert EXACT.delta(event, 2.0) == gaussian_delta(EXACT.mu(event), 2.0)


RESPONSES = [(0.375,), (3.0,), (1e-6,), (30.0,), (0.4, 0.4, 0.4), (0.7, 0.7, 1.3, 0.01), (5.0,) * 6]


# powers of two: 1/mu is exact
@pytest.mark.parametrize(("responses", "mu"), by_pairs(RESPONSES, [0.0, 2.0**-20, 2.0**-7, 0.25, 1.0, 4.0]))
def test_the_curve_of_responses_beside_gaussians(mu, responses):
    event = responses_and(mu, *responses)
    for share in (0.0, 0.3, 0.9, 0.99999, 1.0, 1.1, 3.0):
        epsilon = share * math.fsum(responses)
        truth, computed = true_delta(mu, epsilon, *responses), EXACT.delta(event, epsilon)
        assert truth - mpmath.mpf(5e-324) <= computed
        if computed > truth * (1 + mpmath.mpf(1e-10)) + 1e-299:  # one loss is exact, sums of several hold 50 bits
            assert len(responses) > 1
            most = true_delta(mu, epsilon - 4e-15 * math.fsum(responses), *responses)
            assert computed <= most * (1 + mpmath.mpf(1e-10)) + 1e-299
    for delta in (0.3, 1e-5, 1e-100):
        epsilon = EXACT.epsilon(event, delta)
        assert true_delta(mu, epsilon, *responses) <= delta
        if epsilon > 0.0:
            assert true_delta(mu, epsilon * (1 - 1e-9) - 1e-13, *responses) > delta


@pytest.mark.parametrize("e", [1e-12, 0.37, 1.0, 20.0, 700.0, 1e300])
def test_a_response_alone_costs_its_epsilon_and_no_delta(e):
    event, four = RandomizedResponseEvent(e), RepeatedEvent(RandomizedResponseEvent(e), 4)
    assert EXACT.epsilon(event, 0.0) == e
    assert EXACT.delta(event, e) == 0.0
    assert EXACT.delta(event, 0.0) == pytest.approx(math.tanh(e / 2), rel=1e-10)
    assert 4 * e <= EXACT.epsilon(four, 0.0) <= 4 * e * (1 + 1e-14)
    assert EXACT.delta(four, 4 * e * (1 + 1e-14)) == 0.0
    for accountant in (EXACT, TIGHT):  # a pure release is accounted as the response that dominates it
        for beside in ((), (GaussianEvent(2.0),)):
            one, other = (ComposedEvent((*beside, kind(e))) for kind in (PureEvent, RandomizedResponseEvent))
            assert accountant.epsilon(one, 1e-5) == accountant.epsilon(other, 1e-5)
            assert accountant.delta(one, 0.3) == accountant.delta(other, 0.3)


def test_many_small_responses_are_like_a_gaussian():
    """k responses with loss e, k e^2 = 1, against the central limit; as many as are listed, and more, on a grid."""
    wanted = gaussian_epsilon(1.0, DELTA)
    most = EXACT.epsilon(RepeatedEvent(RandomizedResponseEvent(1 / math.sqrt(1023)), 1023), DELTA)
    assert most == pytest.approx(wanted, rel=5e-3)
    many = PLD.epsilon(RepeatedEvent(RandomizedResponseEvent(1e-5**0.5), 10**5), DELTA)
    assert wanted * (1 - 1e-5) < many < wanted * (1 + 1e-3)


@pytest.mark.parametrize("e", [1e-9, 1e-3, 0.5, 0.999, 1.001, 40.0, 1e4])
def test_renyi_divergence_of_a_response_against_multiple_precision(e):
    orders = np.array([1.001, 1.5, 2.0, 2.001, 10.0, 1024.0, 1e9])
    with mpmath.workdps(60):
        keep, flip = 1 / (1 + mpmath.exp(-mpmath.mpf(e))), 1 / (1 + mpmath.exp(mpmath.mpf(e)))
        truths = [
            float(mpmath.log(keep**a * flip ** (1 - a) + flip**a * keep ** (1 - a)) / (a - 1))
            for a in map(mpmath.mpf, orders)
        ]
    assert RandomizedResponseEvent(e).divergences(orders) == pytest.approx(truths, rel=1e-11, abs=0.0)


# --- agreement with dp-accounting and with quadrature -----------------------------------------------------------------


def direct(event):
    """Translate without flattening, so that a mistake of `flatten` shows."""
    match event:
        case GaussianEvent():
            return dp_event.GaussianDpEvent(event.noise_multiplier)
        case RandomizedResponseEvent():
            return dp_event.RandomizedResponseDpEvent(2 / (1 + math.exp(event.epsilon)), 2)
        case PoissonSampledEvent():
            return dp_event.PoissonSampledDpEvent(event.sampling_rate, direct(event.event))
        case RepeatedEvent():
            return dp_event.SelfComposedDpEvent(direct(event.event), event.count)
        case ComposedEvent():
            return dp_event.ComposedDpEvent([direct(part) for part in event.events])


ADDED, ZEROED, REPLACED = (  # REPLACE_SPECIAL is dp-accounting's name for zero-out
    NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_SPECIAL, NeighboringRelation.REPLACE_ONE
)  # fmt: skip


class Second(NamedTuple):
    """A run, the relations for which dp-accounting says the same, and what its grid may add to each epsilon."""

    event: Any
    relations: tuple[Any, ...] = (ADDED, ZEROED)
    slack: float = 0.0


SECOND = {
    "a release": Second(GaussianEvent(1.3)),
    "releases": Second(RepeatedEvent(GaussianEvent(5.0), 40)),
    "sampled": Second(sampled(0.01, 1.0, 1000)),
    "sampled and plain": Second(ComposedEvent((RepeatedEvent(sampled(0.05, 2.0, 20), 3), GaussianEvent(6.0)))),
    "two rates": Second(ComposedEvent((sampled(0.1, 3.0, 10), sampled(0.2, 3.0, 10)))),
    # composed one by one: its privacy loss accountant forgets the count of this event (release 0.6.0)
    "responses": Second(ComposedEvent((RandomizedResponseEvent(0.5),) * 10), (REPLACED,), 1e-2),
    "a response": Second(RandomizedResponseEvent(3.0), (REPLACED,), 1e-3),
}


@pytest.mark.parametrize("run", SECOND.values(), ids=SECOND)
def test_dp_accounting_says_the_same(run):
    ours, event = RenyiAccountant(FEW), run.event
    for relation in run.relations:
        theirs = DirectPLD(relation, value_discretization_interval=1e-3).compose(direct(event))
        for delta in (1e-3, 1e-6, 1e-9):
            # another order of composition rounds differently
            assert COARSE.epsilon(event, delta) == pytest.approx(theirs.get_epsilon(delta), rel=1e-7, abs=run.slack)
        assert run.slack or COARSE.delta(event, 1.0) == pytest.approx(theirs.get_delta(1.0), rel=1e-7)
    theirs = DirectRDP(list(FEW), run.relations[0]).compose(direct(event))
    assert ours.epsilon(event, DELTA) == pytest.approx(theirs.get_epsilon(DELTA), rel=1e-9)
    for epsilon in (0.0, 0.05, 1.0, 5.0):  # near 0 the bound by the divergence itself is the smaller one
        assert ours.delta(event, epsilon) == pytest.approx(theirs.get_delta(epsilon), rel=1e-9)


@pytest.mark.parametrize("order", [2.0, 3.5, 12.0])
def test_moments_accountant_against_quadrature(order):
    """One sampled step by its definition, E_0[(p_1/p_0)^order] (Abadi et al. 2016, Eq. 3), then times the steps."""
    rate, noise, steps = 0.05, 1.2, 30

    def integrand(z):
        ratio = 1 - rate + rate * math.exp((2 * z - 1) / (2 * noise**2))
        return norm.pdf(z, 0, noise) * ratio**order

    moment = quad(integrand, -15, 40, epsabs=0, epsrel=1e-12, limit=500)[0]
    divergence = steps * math.log(moment) / (order - 1)
    accountant, event = MomentsAccountant((order,)), sampled(rate, noise, steps)
    # fractional orders carry a small error of dp-accounting, upward
    truth = divergence + math.log(1 / DELTA) / (order - 1)
    assert truth * (1 - 1e-10) <= accountant.epsilon(event, DELTA) <= truth * (1 + 1e-4)
    truth = math.exp(min(0.0, (order - 1) * (divergence - 3.0)))
    assert truth * (1 - 1e-10) <= accountant.delta(event, 3.0) <= truth * (1 + 1e-3)
    for noise in (0.8, 3.0, 100.0):  # the best order is the first, some middle one, the last
        expected = min(order / (2 * noise**2) + math.log(1 / DELTA) / (order - 1) for order in range(2, 130))
        assert MOMENTS.epsilon(GaussianEvent(noise), DELTA) == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize(("rate", "noise"), [(0.01, 1.0), (0.7, 2.0)])
def test_pld_of_one_sampled_step_against_quadrature(rate, noise):
    """By definition: the larger hockey-stick divergence, of (1-q) N(0, s^2) + q N(1, s^2) and N(0, s^2)."""
    grid = np.linspace(-12 * noise, 1 + 12 * noise, 400_001)
    without = norm.pdf(grid, 0, noise)
    mixed = (1 - rate) * without + rate * norm.pdf(grid, 1, noise)
    width = grid[1] - grid[0]
    for epsilon in (0.01, 0.1, 0.5):
        truth = max(
            float(np.maximum(one - math.exp(epsilon) * other, 0).sum() * width)
            for one, other in ((mixed, without), (without, mixed))
        )
        computed = PLD.delta(sampled(rate, noise), epsilon)
        assert truth * (1 - 1e-5) - 1e-9 <= computed <= truth * (1 + 1e-3) + 1e-9


# --- which one is tighter ---------------------------------------------------------------------------------------------

IN_ORDER = {
    "little noise": GaussianEvent(0.04),
    "one": GaussianEvent(0.7),
    "twenty": RepeatedEvent(GaussianEvent(3.0 * math.sqrt(20)), 20),
    "much noise": GaussianEvent(30.0),
    "sampled": sampled(0.01, 1.0, 1000),
    "seldom sampled": sampled(0.001, 0.7, 10_000),
    "often sampled": sampled(0.5, 8.0, 30),
    "one sampled": sampled(0.02, 2.0),
    "responses": responses_and(0.0, 0.7, 0.7, 1.3, 0.01),
    "responses and a Gaussian": responses_and(1.0, *(5.0,) * 6),
    "many responses": ComposedEvent((responses_and(0.25, 0.5), RepeatedEvent(RandomizedResponseEvent(0.3), 20))),
    "a small response": responses_and(0.0, 1e-6),
}


@pytest.mark.parametrize("event", IN_ORDER.values(), ids=IN_ORDER)
def test_exact_then_pld_then_renyi_then_moments(event):
    for delta in (1e-3, 1e-6, 1e-9):  # one after the other, since a run is composed once for all of them
        known = isinstance(accountant_for(event), GaussianAccountant)
        grid = PLD if known else COARSE
        pld, tight, moments = (accountant.epsilon(event, delta) for accountant in (grid, TIGHT, MOMENTS))
        if known:
            exact = EXACT.epsilon(event, delta)
            assert exact * (1 - 1e-9) - 1e-16 / delta <= pld <= exact * (1 + 1e-4) + 2e-4
        assert pld <= tight + (2e-4 if known else 2e-3)
        assert tight <= moments + 1e-9


def test_grids_and_the_numbers_printed_in_design():
    event = sampled(0.01, 1.0, 1000)
    fine, middle, coarse = (PLDAccountant(grid).epsilon(event, DELTA) for grid in (1e-3, 3e-3, 1e-2))
    assert fine <= middle <= coarse <= fine + 0.1
    assert fine == pytest.approx(1.83, abs=0.005)  # zero-out
    theirs = DirectPLD(REPLACED, value_discretization_interval=1e-3).compose(direct(event))
    assert theirs.get_epsilon(1e-5) == pytest.approx(2.84, abs=0.005)


def test_a_grid_is_as_fine_as_the_losses_ask_and_no_finer_than_epsilon_allows():
    for event, step in (
        (sampled(1e-3, 10.0, 100), 1e-4 * math.sqrt(math.expm1(0.01))), (sampled(1e-6, 10.0, 100), 2e-6),
        (sampled(0.5, 2.0), 1e-4), (sampled(0.1, 0.1), 1e-3), (sampled(0.9, 0.5, 300), 2e-5 * 300 * 0.9 * 4.0),
        (RepeatedEvent(response(1e-5), 10), 1e-5), (RepeatedEvent(response(1e-5), 1000), 2e-6), (response(30.0), 3e-4),
        (RepeatedEvent(response(1e-4), 100), 1e-5), (RepeatedEvent(selections(1.0, 1), 10**4), 0.0025),
        (ComposedEvent((RepeatedEvent(response(0.5), 1000), sampled(0.1, 1e3))), 2e-2 * math.tanh(0.25)),
    ):  # fmt: skip
        assert PLD._step(flatten(event)) == pytest.approx(step, rel=1e-4)


def test_renyi_never_rounds_a_divergence_to_nothing():
    """In double precision the divergence of such a step comes out negative; the truth is about 1e-21 a step."""
    event = sampled(1e-10, 100.0, 1000)
    assert MomentsAccountant((2.0,)).epsilon(event, 0.999999) > math.log(1 / 0.999999)
    assert TIGHT.epsilon(event, 1e-30) > 0.0
    assert TIGHT.delta(event, 0.0) > 0.0


def test_divergences_of_gaussians_are_those_of_the_formula():
    """To the last digits, also where they are so small that what sampled steps are charged for rounding would show."""
    for noise, count in itertools.product(np.geomspace(1e2, 1e7, 6), (1, 7, 10**6)):
        ours = RenyiAccountant(FEW).divergences(RepeatedEvent(GaussianEvent(noise), count))
        np.testing.assert_allclose(ours, count * np.array(FEW) / (2.0 * noise**2), rtol=1e-11)


def test_accountants_are_quiet_and_what_is_silenced_is_heard_again(caplog, capfd):
    absl = import_module("absl.logging")
    level = absl.get_verbosity()
    try:
        for verbosity in (absl.DEBUG, absl.INFO, absl.WARNING, absl.FATAL):
            absl.set_verbosity(verbosity)
            with warnings.catch_warnings(record=True) as heard, quiet():
                assert absl.get_verbosity() == absl.ERROR
                warnings.warn("about a grid", stacklevel=1)
            assert not heard
            assert absl.get_verbosity() == verbosity
    finally:
        absl.set_verbosity(level)
    ALL["renyi"].epsilon(ComposedEvent((sampled(0.3, 0.5, 3), sampled(1e-10, 100.0))), 1e-30)
    COARSE.epsilon(sampled(0.3, 0.5, 3), 1e-30)
    assert PLD.epsilon(GaussianEvent(0.03), 1e-6) > 700.0  # which its sums of doubles hold no more
    assert not caplog.records
    assert capfd.readouterr() == ("", "")


def test_bad_grids_and_orders_are_refused():
    for grid in (0.0, -1e-4, math.nan, math.inf, 0.2, True, "1e-4"):
        with pytest.raises(ParameterError, match=r"grid must be a finite number > 0 and <= 0\.1"):
            PLDAccountant(grid=grid)
    for orders in ((1.0,), (2.0, 0.5), (math.nan,), (math.inf,), (None,), ("2",), ()):
        with pytest.raises(ParameterError, match="orders"):
            RenyiAccountant(orders)
