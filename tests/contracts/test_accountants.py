"""The laws that every accountant keeps, on every kind of event it covers, and the numbers they must agree with.

Independent truth: the Gaussian curve in multiple precision, quadrature of the divergences of one sampled step,
dp-accounting called directly, and the numbers printed in DESIGN, section 3.
"""

import itertools
import math
import warnings
from dataclasses import dataclass
from importlib import import_module

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
from scipy.stats import binom, norm

from sottovoce.exceptions import AccountingError, ParameterError
from sottovoce.papers.dp_scd.published import MomentsAccountant
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
from sottovoce.privacy.calibration import least_noise
from sottovoce.privacy.event import Accountant, Basic, Offers, ordered, quiet
from sottovoce.privacy.events import (
    KINDS,
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
ALL = {"exact": EXACT, "pld": COARSE, "renyi": RenyiAccountant(FEW), "moments": MomentsAccountant(FEW)}
SAMPLING = {name: accountant for name, accountant in ALL.items() if name != "exact"}
DELTA = 1e-5


def sampled(rate, noise, steps=1):
    return RepeatedEvent(PoissonSampledEvent(rate, GaussianEvent(noise)), steps)


def response(epsilon):
    return RandomizedResponseEvent(min(epsilon, 1e300))


# From a noise multiplier to an event. Each costs about as much as one Gaussian release with that noise, so that delta
# at EPSILON is neither 1 (for the loosest accountant) nor lost in the tails that a grid cuts off.
EPSILON = 2.5
PLAIN_RUNS = {
    "one release": GaussianEvent,
    "repeated": lambda noise: RepeatedEvent(GaussianEvent(noise * math.sqrt(7)), 7),
    "composed": lambda noise: ComposedEvent((GaussianEvent(noise), RepeatedEvent(GaussianEvent(3 * noise), 2))),
}
SAMPLED_RUNS = {
    "one sampled step": lambda noise: PoissonSampledEvent(0.5, GaussianEvent(noise)),
    "sampled steps": lambda noise: sampled(0.2, noise, 15),
    "steps and a release": lambda noise: ComposedEvent((sampled(0.2, noise, 15), GaussianEvent(4 * noise))),
}
RESPONSE_RUNS = {
    "a response and a release": lambda noise: ComposedEvent((response(1.0 / noise), GaussianEvent(1.5 * noise))),
    "responses and releases": lambda noise: ComposedEvent(
        (RepeatedEvent(response(0.4 / noise), 3), response(0.2 / noise), RepeatedEvent(GaussianEvent(3 * noise), 4))
    ),
}
SAMPLED_RESPONSES = {
    "a response and sampled steps": lambda noise: ComposedEvent((response(0.5 / noise), sampled(0.2, noise, 15)))
}
SEARCHES = {  # more in test_private_selection.py
    "a search": lambda noise: RepeatAndSelectEvent(GaussianEvent(1.2 * noise), 1.2),
    "a search and a release": lambda noise: ComposedEvent(
        (RepeatAndSelectEvent(GaussianEvent(2 * noise), 1.1), GaussianEvent(2 * noise))
    ),
}
COVERED = {
    "exact": PLAIN_RUNS | RESPONSE_RUNS,
    "pld": PLAIN_RUNS | SAMPLED_RUNS | RESPONSE_RUNS | SAMPLED_RESPONSES,
    "renyi": PLAIN_RUNS | SAMPLED_RUNS | RESPONSE_RUNS | SAMPLED_RESPONSES | SEARCHES,
    "moments": PLAIN_RUNS | SAMPLED_RUNS | RESPONSE_RUNS | SAMPLED_RESPONSES | SEARCHES,
}
PAIRS = [
    pytest.param(accountant, make, id=f"{name}, {run}")
    for name, accountant in ALL.items()
    for run, make in COVERED[name].items()
]
each_pair = pytest.mark.parametrize(("accountant", "make"), PAIRS)
each_accountant = pytest.mark.parametrize("accountant", [pytest.param(value, id=key) for key, value in ALL.items()])
each_sampling = pytest.mark.parametrize("accountant", [pytest.param(value, id=key) for key, value in SAMPLING.items()])


def falls(values):
    return all(later < earlier for earlier, later in itertools.pairwise(values))


# --- laws -----------------------------------------------------------------------------------------------------------


@each_pair
def test_n_fold_is_n_singles(accountant, make):
    for count in (1, 2, 6):
        event = make(2.0)
        repeated, singles = RepeatedEvent(event, count), ComposedEvent((event,) * count)
        assert accountant.epsilon(repeated, DELTA) == accountant.epsilon(singles, DELTA)
        assert accountant.delta(repeated, EPSILON) == accountant.delta(singles, EPSILON)
        if count > 1:
            fewer = RepeatedEvent(event, count // 2)
            assert accountant.epsilon(repeated, DELTA) > accountant.epsilon(fewer, DELTA)
            assert accountant.delta(repeated, EPSILON) > accountant.delta(fewer, EPSILON)


@each_pair
def test_more_noise_means_less_epsilon_and_delta(accountant, make):
    noises = (1.0, 1.01, 1.2, 1.4)
    assert falls([accountant.epsilon(make(noise), DELTA) for noise in noises])
    assert falls([accountant.delta(make(noise), EPSILON) for noise in noises])


@each_pair
def test_smaller_delta_means_more_epsilon(accountant, make):
    assert falls([accountant.epsilon(make(1.0), delta) for delta in (1e-9, 1e-7, 1e-5, 1e-3)])
    assert falls([accountant.delta(make(1.0), epsilon) for epsilon in (1.5, 2.0, 2.5, 3.0)])


@each_sampling
def test_higher_sampling_rate_means_more_epsilon(accountant):
    rates = (1.0, 0.5, 0.1, 0.02, 0.01)
    assert falls([accountant.epsilon(sampled(rate, 1.0, 100), DELTA) for rate in rates])


@each_pair
def test_a_further_release_costs(accountant, make):
    event = make(1.0)
    assert accountant.epsilon(ComposedEvent((event, GaussianEvent(5.0))), DELTA) > accountant.epsilon(event, DELTA)


@each_accountant
def test_order_and_nesting_do_not_matter(accountant):
    parts = [
        GaussianEvent(2.0),
        RepeatedEvent(GaussianEvent(3.0), 5),
        GaussianEvent(0.7),
        NothingReleased(),
        RandomizedResponseEvent(0.3),
        RepeatedEvent(RandomizedResponseEvent(0.2), 2),
    ]
    if accountant is not EXACT:
        parts[2:3] = [sampled(0.02, 0.7, 30), PoissonSampledEvent(0.5, GaussianEvent(4.0))]
    step = math.factorial(len(parts)) // 30 - 1  # about thirty of all orders
    orders = [ComposedEvent(order) for order in itertools.islice(itertools.permutations(parts), 0, None, step)]
    orders.append(ComposedEvent((ComposedEvent(tuple(parts[:2])), ComposedEvent((ComposedEvent(tuple(parts[2:])),)))))
    assert len({accountant.epsilon(event, DELTA) for event in orders}) == 1
    assert len({accountant.delta(event, 1.0) for event in orders}) == 1


def test_releases_are_composed_in_one_order():
    """By what they are: sums of their divergences are rounded in the same way wherever they stand."""
    parts = [GaussianEvent(2.0), GaussianEvent(3.0), RandomizedResponseEvent(0.3), sampled(0.02, 0.7)]
    events = [ComposedEvent(order) for order in itertools.permutations(parts)]
    assert len({tuple(ordered(flatten(event))) for event in events}) == 1


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


@each_pair
def test_epsilon_and_delta_are_inverse(accountant, make):
    for delta in (0.1, 1e-3, 1e-6, 1e-9):
        event = make(1.0)
        epsilon = accountant.epsilon(event, delta)
        assert accountant.delta(event, epsilon) <= delta * (1 + 1e-6)
        # and not by being slack; where epsilon is 0 there is nothing to be tight about
        assert epsilon == 0.0 or accountant.delta(event, 0.999 * epsilon) > delta * (1 - 1e-6)


@each_pair
def test_asking_twice_gives_the_same_answer(accountant, make):
    event = make(1.1)
    first = [accountant.epsilon(event, delta) for delta in (1e-3, 1e-6)]
    accountant.delta(event, 0.3)
    assert [accountant.epsilon(event, delta) for delta in (1e-3, 1e-6)] == first


@each_accountant
@pytest.mark.parametrize(
    "event",
    [
        NonPrivateEvent(),
        RepeatedEvent(NonPrivateEvent(), 3),
        ComposedEvent((GaussianEvent(10.0), NonPrivateEvent())),
        ComposedEvent((RepeatedEvent(ComposedEvent((NonPrivateEvent(), GaussianEvent(9.0))), 2), NothingReleased())),
    ],
)
def test_one_release_without_protection_is_infinite(accountant, event):
    assert accountant.epsilon(event, 0.5) == math.inf
    assert accountant.delta(event, 100.0) == 1.0


@each_accountant
@pytest.mark.parametrize(
    "event",
    [
        NothingReleased(),
        ComposedEvent(()),
        RepeatedEvent(GaussianEvent(0.1), 0),
        RepeatedEvent(NonPrivateEvent(), 0),
        GaussianEvent(math.inf),
        PoissonSampledEvent(0.0, GaussianEvent(0.1)),
        PoissonSampledEvent(0.5, GaussianEvent(math.inf)),
        RepeatedEvent(ComposedEvent((NothingReleased(), GaussianEvent(math.inf))), 10**6),
    ],
)
def test_nothing_costs_nothing(accountant, event):
    assert accountant.epsilon(event, 0.0) == 0.0
    assert accountant.delta(event, 0.0) == 0.0


@dataclass(frozen=True)
class Unknown(Event):
    kind = "unknown"


@each_accountant
@pytest.mark.parametrize(
    "event", [Unknown(), RepeatedEvent(Unknown(), 2), ComposedEvent((GaussianEvent(1.0), NonPrivateEvent(), Unknown()))]
)
def test_unknown_events_are_refused(accountant, event):
    with pytest.raises(AccountingError, match="no accountant knows events of type Unknown"):
        accountant.epsilon(event, DELTA)
    with pytest.raises(AccountingError, match="no accountant knows events of type Unknown"):
        accountant.delta(event, 1.0)


class Understated(GaussianEvent):
    offers = Offers(noise=1e9)


def test_a_kind_of_the_same_name_is_refused():
    for event in (Understated(1.0), RepeatAndSelectEvent(Understated(1.0), 2.0)):
        with pytest.raises(AccountingError, match="no accountant knows events of type Understated"):
            accountant_for(ComposedEvent((event, GaussianEvent(3.0))))


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


@pytest.mark.parametrize("rate", [1e-9, 0.5, 0.999])
def test_the_exact_accountant_refuses_sampling(rate):
    with pytest.raises(AccountingError, match="exact Gaussian accounting does not cover PoissonSampledEvent"):
        EXACT.epsilon(sampled(rate, 1.0, 3), DELTA)
    with pytest.raises(AccountingError, match="use PLDAccountant or RenyiAccountant"):
        EXACT.mu(ComposedEvent((GaussianEvent(1.0), sampled(rate, 1.0))))
    with pytest.raises(AccountingError, match="does not cover NonPrivateEvent"):
        EXACT.mu(NonPrivateEvent())


@each_accountant
def test_sampling_at_rate_one_is_no_sampling(accountant):
    assert accountant.epsilon(sampled(1.0, 1.3, 4), DELTA) == accountant.epsilon(
        RepeatedEvent(GaussianEvent(1.3), 4), DELTA
    )


@each_accountant
def test_bad_delta_is_refused(accountant):
    for delta in (-1e-9, 1.0, math.nan, math.inf, None, True, "0.1"):
        with pytest.raises(ParameterError, match="delta"):
            accountant.epsilon(GaussianEvent(1.0), delta)


@each_accountant
def test_bad_epsilon_is_refused(accountant):
    for epsilon in (-1e-9, math.nan, math.inf, None, False, "1"):
        with pytest.raises(ParameterError, match="epsilon"):
            accountant.delta(GaussianEvent(1.0), epsilon)


@each_pair
def test_delta_zero_is_out_of_reach(accountant, make):
    assert accountant.epsilon(make(5.0), 0.0) == math.inf


@each_pair
def test_extreme_noise(accountant, make):
    for noise in (5e-324, 1e-100, 1e-12, 1e12, 1e308):
        epsilon, delta = accountant.epsilon(make(noise), DELTA), accountant.delta(make(noise), 1.0)
        if noise < 1:
            told = accountant in (EXACT, COARSE)  # the latter beside responses only
            assert (epsilon, delta) == (math.inf, 1.0) or (told and epsilon > 1e20 and delta == 1.0)
        else:
            assert 0.0 <= epsilon < 0.2  # the moments' conversion alone costs log(1/delta)/63
            assert 0.0 <= delta < 1e-6


@each_pair
def test_astronomic_counts_are_refused(accountant, make):
    many = RepeatedEvent(RepeatedEvent(make(1.0), 10**200), 10**200)
    with pytest.raises(AccountingError, match="more than 2\\*\\*53 releases"):
        accountant.epsilon(many, DELTA)


def test_as_many_releases_are_counted_as_doubles_tell_apart():
    for release in (GaussianEvent(1e9), sampled(0.1, 1.0), RandomizedResponseEvent(0.1), NonPrivateEvent()):
        assert flatten(RepeatedEvent(release, 2**53)).total() == 2**53
        with pytest.raises(AccountingError, match=r"more than 2\*\*53 releases of one kind"):
            flatten(RepeatedEvent(release, 2**53 + 1))


@pytest.mark.parametrize("rate", [1e-300, 1e-12, 1e-3, 0.5, 1.0 - 2.0**-53])
@pytest.mark.parametrize("noise", [3e-3, 1e-4, 1e-5, 1e-9, 1e-150, 5e-324])
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
    assert flatten(RepeatedEvent(event, count)) == flatten(ComposedEvent((event,) * count))
    once = flatten(event)
    assert flatten(RepeatedEvent(event, count)) == {basic: count * times for basic, times in once.items() if count}
    parts = [event, GaussianEvent(1.0), GaussianEvent(1.0)]
    random.shuffle(parts)
    assert flatten(ComposedEvent(tuple(parts))) == once + flatten(RepeatedEvent(GaussianEvent(1.0), 2))


# --- the exact Gaussian curve -----------------------------------------------------------------------------------------


def true_delta(mu, epsilon):
    """Evaluate the closed form with enough digits for its cancellation."""
    with mpmath.workdps(100):
        mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
        return mpmath.ncdf(-epsilon / mu + mu / 2) - mpmath.exp(epsilon) * mpmath.ncdf(-epsilon / mu - mu / 2)


MUS = [1e-12, 1e-8, 1e-5, 1e-3, 0.03, 0.0624, 0.0626, 0.3, 1.0, 3.0, 10.0, 30.0, 1234.5]


@pytest.mark.parametrize("mu", MUS)
@pytest.mark.parametrize("standardised", [0.0, 0.01, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 35.0])
def test_exact_delta_against_multiple_precision(mu, standardised):
    epsilon = max(0.0, mu * standardised) if standardised < 5 or mu < 1 else mu * (mu / 2 + standardised)
    truth, computed = true_delta(mu, epsilon), gaussian_delta(mu, epsilon)
    # never too small, and no slack to speak of: doubles hold a = mu/2 - epsilon/mu to mu 2^-52 only
    assert truth <= computed <= truth * (1 + mpmath.mpf(1e-10 if mu < 1000 else 1e-8))


def test_exact_delta_of_large_shifts_is_never_too_small():
    """Where the two halves of a cancel; rounding down would show in about half of the points."""
    generator = np.random.default_rng(1)
    for _ in range(50):
        mu = 10.0 ** generator.uniform(4, 7)
        epsilon = mu * (mu / 2 + generator.uniform(-5, 30))
        truth, computed = true_delta(mu, epsilon), gaussian_delta(mu, epsilon)
        assert truth <= computed <= truth * (1 + 1e-15 * mu * 100)


@pytest.mark.parametrize("mu", [1e-9, 1e-4, 0.05, 0.5, 1.0, 4.0, 20.0])
@pytest.mark.parametrize("delta", [0.3, 1e-2, 1e-5, 1e-10, 1e-30, 1e-100, 1e-290])
def test_exact_epsilon_is_enough_and_least(mu, delta):
    epsilon = gaussian_epsilon(mu, delta)
    assert true_delta(mu, epsilon) <= delta
    if epsilon > 0.0:
        assert true_delta(mu, epsilon * (1 - 1e-9) - 1e-13) > delta


def test_exact_curve_at_its_ends():
    assert gaussian_delta(0.0, 0.0) == 0.0
    assert gaussian_delta(math.inf, 1e6) == 1.0
    assert gaussian_delta(1e-3, 1e3) == 0.0
    assert gaussian_delta(60.0, 0.0) == 1.0
    assert gaussian_delta(math.sqrt(2e18), 1e18) == pytest.approx(0.5, abs=1e-5)
    assert gaussian_epsilon(0.0, 0.0) == 0.0
    assert gaussian_epsilon(1e-300, 0.0) == math.inf
    assert gaussian_epsilon(math.inf, 0.5) == math.inf
    assert gaussian_epsilon(1e200, 0.5) == math.inf


@pytest.mark.parametrize("bad", [math.nan, -1.0, None, "1", True])
def test_exact_curve_refuses_nonsense(bad):
    with pytest.raises(ParameterError, match="mu"):
        gaussian_delta(bad, 1.0)
    with pytest.raises(ParameterError, match="epsilon"):
        gaussian_delta(1.0, bad)
    with pytest.raises(ParameterError, match="delta"):
        gaussian_epsilon(1.0, bad)


def test_gaussians_compose_to_one():
    event = ComposedEvent((GaussianEvent(2.0), RepeatedEvent(GaussianEvent(4.0), 9), GaussianEvent(0.5)))
    assert EXACT.mu(event) == pytest.approx(math.sqrt(1 / 4 + 9 / 16 + 4), rel=1e-15)
    assert EXACT.mu(RepeatedEvent(GaussianEvent(1e200), 10**6)) == pytest.approx(
        1e-197, rel=1e-12, abs=0.0
    )  # squares are lost
    assert EXACT.epsilon(event, DELTA) == gaussian_epsilon(EXACT.mu(event), DELTA)
    assert EXACT.delta(event, 2.0) == gaussian_delta(EXACT.mu(event), 2.0)


# --- the exact curve of randomised responses, with and without Gaussians ----------------------------------------------


def true_mixed_delta(mu, epsilon, *responses):
    """By definition, with 60 digits: every pattern of flips, its probability and its privacy loss."""
    with mpmath.workdps(60):
        total = mpmath.mpf(0)
        for pattern in itertools.product((1, -1), repeat=len(responses)):
            signed = list(zip(pattern, map(mpmath.mpf, responses), strict=True))
            share = mpmath.fprod(1 / (1 + mpmath.exp(-sign * e)) for sign, e in signed)
            gap = mpmath.mpf(epsilon) - mpmath.fsum(sign * e for sign, e in signed)
            total += share * (true_delta(mu, gap) if mu else max(0, 1 - mpmath.exp(gap)))
        return total


def responses_and(mu, *responses):
    parts = tuple(map(RandomizedResponseEvent, responses))
    return ComposedEvent((*parts, GaussianEvent(1 / mu)) if mu else parts)


RESPONSES = [(0.375,), (3.0,), (1e-6,), (30.0,), (0.4, 0.4, 0.4), (0.7, 0.7, 1.3, 0.01), (5.0,) * 6]


# powers of two: 1/mu is exact
@pytest.mark.parametrize(("responses", "mu"), by_pairs(RESPONSES, [0.0, 2.0**-20, 2.0**-7, 0.25, 1.0, 4.0]))
def test_exact_delta_with_responses_against_multiple_precision(mu, responses):
    for share in (0.0, 0.3, 0.9, 0.99999, 1.0, 1.1, 3.0):
        epsilon = share * math.fsum(responses)
        truth, computed = true_mixed_delta(mu, epsilon, *responses), EXACT.delta(responses_and(mu, *responses), epsilon)
        assert truth - mpmath.mpf(5e-324) <= computed
        if computed > truth * (1 + mpmath.mpf(1e-10)) + 1e-299:  # one loss is exact, sums of several hold 50 bits
            assert len(responses) > 1
            most = true_mixed_delta(mu, epsilon - 4e-15 * math.fsum(responses), *responses)
            assert computed <= most * (1 + mpmath.mpf(1e-10)) + 1e-299


@pytest.mark.parametrize(("responses", "mu"), by_pairs(RESPONSES, [0.0, 2.0**-20, 0.25, 4.0]))
def test_exact_epsilon_with_responses_is_enough_and_least(mu, responses):
    for delta in (0.3, 1e-2, 1e-5, 1e-12, 1e-100):
        epsilon = EXACT.epsilon(responses_and(mu, *responses), delta)
        assert true_mixed_delta(mu, epsilon, *responses) <= delta
        if epsilon > 0.0:
            assert true_mixed_delta(mu, epsilon * (1 - 1e-9) - 1e-13, *responses) > delta


@pytest.mark.parametrize("e", [1e-12, 0.1, 0.37, 1.0, 20.0, 700.0, 1e5, 1e300])
def test_a_response_alone_costs_its_epsilon_and_no_delta(e):
    event = RandomizedResponseEvent(e)
    assert EXACT.epsilon(event, 0.0) == e
    assert EXACT.delta(event, e) == 0.0
    assert EXACT.delta(event, 0.0) == pytest.approx(math.tanh(e / 2), rel=1e-10)
    for share in (0.1, 0.5, 0.99):
        expected = -math.expm1(share * e - e) / (1 + math.exp(-e))
        assert EXACT.delta(event, share * e) == pytest.approx(expected, rel=1e-10)
    assert EXACT.epsilon(RepeatedEvent(event, 4), 0.0) == pytest.approx(4 * e, rel=1e-14)
    assert EXACT.epsilon(RepeatedEvent(event, 4), 0.0) >= 4 * e
    assert EXACT.delta(RepeatedEvent(event, 4), 4 * e * (1 + 1e-14)) == 0.0


@pytest.mark.parametrize("e", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("accountant", [EXACT, PLD, TIGHT], ids=lambda accountant: accountant.name)
def test_a_pure_release_is_accounted_as_the_response_that_dominates_it(accountant, e):
    pure, response = PureEvent(e), RandomizedResponseEvent(e)
    for one, other in ((pure, response), (RepeatedEvent(pure, 3), RepeatedEvent(response, 3))):
        assert accountant.epsilon(one, 1e-5) == accountant.epsilon(other, 1e-5)
    assert EXACT.epsilon(pure, 0.0) == e
    mixed = ComposedEvent((GaussianEvent(2.0), pure))
    assert accountant.delta(mixed, e) == accountant.delta(ComposedEvent((GaussianEvent(2.0), response)), e)


@pytest.mark.parametrize(("e", "count"), [(0.1, 1), (0.1, 50), (0.03, 900), (1.0, 7)])
def test_k_responses_have_a_binomial_loss(e, count):
    """The k-fold law against a sum over scipy's binomial distribution, without a Gaussian."""
    flips = np.arange(count + 1)
    shares = binom.pmf(flips, count, 1 / (1 + math.exp(e)))
    for epsilon in (0.0, 0.5 * e * math.sqrt(count), 0.9 * e * count):
        expected = math.fsum(shares * np.maximum(0.0, -np.expm1(epsilon - e * (count - 2 * flips))))
        found = EXACT.delta(RepeatedEvent(RandomizedResponseEvent(e), count), epsilon)
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-290)


def test_many_small_responses_are_like_a_gaussian():
    """k responses with loss e, k e^2 = 1, against the central limit."""
    found = EXACT.epsilon(RepeatedEvent(RandomizedResponseEvent(1 / math.sqrt(1000)), 1000), DELTA)
    assert found == pytest.approx(gaussian_epsilon(1.0, DELTA), rel=5e-3)
    many = PLD.epsilon(RepeatedEvent(RandomizedResponseEvent(1e-5**0.5), 10**5), DELTA)
    assert gaussian_epsilon(1.0, DELTA) * (1 - 1e-5) < many < gaussian_epsilon(1.0, DELTA) * (1 + 1e-3)


@pytest.mark.parametrize(("run", "mu"), by_pairs([*RESPONSES, "beside"], [0.0, 0.25, 1.0, 4.0]))
def test_responses_exact_then_pld_then_renyi(run, mu):
    event = ComposedEvent((responses_and(mu, 0.5), RepeatedEvent(RandomizedResponseEvent(0.3), 20)))
    if run != "beside":
        event = responses_and(mu, *run)
    for delta in (1e-2, 1e-5, 1e-9):  # one after the other, since a run is composed once for all of them
        exact, pld, tight, moments = (accountant.epsilon(event, delta) for accountant in (EXACT, PLD, TIGHT, MOMENTS))
        assert exact * (1 - 1e-9) - 1e-16 / delta <= pld <= exact + 2e-4  # its sums hold deltas to about 1e-17
        assert pld <= tight + 2e-4
        assert tight <= moments + 1e-9


@pytest.mark.parametrize("e", [0.02, 0.5, 3.0])
@pytest.mark.parametrize("count", [1, 10])
def test_responses_agree_with_dp_accounting(e, count):
    """Composed one by one: its privacy loss accountant forgets the count of this event (release 0.6.0)."""
    theirs = dp_event.RandomizedResponseDpEvent(2 / (1 + math.exp(e)), 2)
    event = RepeatedEvent(RandomizedResponseEvent(e), count)
    pld, rdp = DirectPLD(NeighboringRelation.REPLACE_ONE), DirectRDP(list(FEW), NeighboringRelation.REPLACE_ONE)
    for _ in range(count):
        pld.compose(theirs)
        rdp.compose(theirs)
    for delta in (1e-2, 1e-5):
        # rounding up each loss costs them up to one step of the grid a response
        assert PLD.epsilon(event, delta) == pytest.approx(pld.get_epsilon(delta), rel=1e-9, abs=count * 1.01e-4)
        assert RenyiAccountant(FEW).epsilon(event, delta) == pytest.approx(rdp.get_epsilon(delta), rel=1e-9)


@pytest.mark.parametrize("e", [1e-9, 1e-3, 0.5, 0.999, 1.001, 40.0, 1e4])
def test_renyi_divergence_of_a_response_against_multiple_precision(e):
    orders = np.array([1.001, 1.5, 2.0, 2.001, 10.0, 1024.0, 1e9])
    with mpmath.workdps(60):
        keep, flip = 1 / (1 + mpmath.exp(-mpmath.mpf(e))), 1 / (1 + mpmath.exp(mpmath.mpf(e)))
        truths = [
            mpmath.log(keep**a * flip ** (1 - a) + flip**a * keep ** (1 - a)) / (a - 1) for a in map(mpmath.mpf, orders)
        ]
    assert RandomizedResponseEvent(e).divergences(orders) == pytest.approx(
        [float(truth) for truth in truths], rel=1e-11, abs=0.0
    )


def test_a_larger_response_costs_more():
    for mu in (0.0, 0.5):
        for accountant in (EXACT, COARSE, TIGHT, MOMENTS):
            events = [responses_and(mu, e) for e in (2.0, 1.0, 0.5, 0.25)]
            assert falls([accountant.epsilon(event, 1e-3) for event in events])
            deltas = [accountant.delta(event, 0.2) for event in events]
            assert falls(deltas) or (accountant in (TIGHT, MOMENTS) and deltas == sorted(deltas, reverse=True))  # 1


def test_too_many_kinds_of_responses_are_left_to_others():
    most, more = (RepeatedEvent(RandomizedResponseEvent(0.02), count) for count in (1023, 1024))
    assert EXACT.epsilon(most, DELTA) == pytest.approx(PLD.epsilon(more, DELTA), rel=1e-2)
    with pytest.raises(AccountingError, match=r"1024 randomised responses of 1 kinds .* use PLDAccountant"):
        EXACT.epsilon(more, DELTA)
    kinds = ComposedEvent(tuple(RandomizedResponseEvent(0.1 + 0.01 * k) for k in range(11)))
    with pytest.raises(AccountingError, match="more than 1024 different losses"):
        EXACT.delta(ComposedEvent((kinds, GaussianEvent(1.0))), 1.0)
    assert math.isfinite(PLD.epsilon(kinds, DELTA))
    with pytest.raises(AccountingError, match="use RenyiAccountant"):
        PLD.epsilon(RepeatedEvent(RandomizedResponseEvent(1e-6), 10**9), DELTA)


def test_no_gaussian_is_equivalent_to_a_response():
    with pytest.raises(AccountingError, match="no one Gaussian release is equivalent to a randomised response"):
        EXACT.mu(responses_and(1.0, 0.5))


def test_a_search_over_runs_with_responses():
    """The trial's exact curve feeds the bound; a trial that is pure stays so: r = (1 + shape) e."""
    trial = responses_and(0.25, 0.5)
    search = RepeatAndSelectEvent(trial, 10.0)
    chosen = accountant_for(search)
    assert isinstance(chosen, SelectionAccountant)
    assert EXACT.epsilon(trial, DELTA) < chosen.epsilon(search, DELTA) < TIGHT.epsilon(search, DELTA)
    pure = RepeatAndSelectEvent(RandomizedResponseEvent(0.5), 10.0)
    assert 0.5 < chosen.epsilon(pure, 0.0) <= 3 * 0.5 * (1 + 1e-8)


# --- agreement with dp-accounting and with quadrature -----------------------------------------------------------------


def direct(event):
    """Translate without flattening, so that a mistake of `flatten` shows."""
    match event:
        case GaussianEvent():
            return dp_event.GaussianDpEvent(event.noise_multiplier)
        case PoissonSampledEvent():
            return dp_event.PoissonSampledDpEvent(event.sampling_rate, direct(event.event))
        case RepeatedEvent():
            return dp_event.SelfComposedDpEvent(direct(event.event), event.count)
        case ComposedEvent():
            return dp_event.ComposedDpEvent([direct(part) for part in event.events])


AGREEMENT = {
    "a release": GaussianEvent(1.3),
    "releases": RepeatedEvent(GaussianEvent(5.0), 40),
    "sampled": sampled(0.01, 1.0, 1000),
    "sampled and plain": ComposedEvent((RepeatedEvent(sampled(0.05, 2.0, 20), 3), GaussianEvent(6.0))),
    "two rates": ComposedEvent((sampled(0.1, 3.0, 10), sampled(0.2, 3.0, 10))),
}
each_agreement = pytest.mark.parametrize("event", [pytest.param(value, id=key) for key, value in AGREEMENT.items()])


@each_agreement
@pytest.mark.parametrize("relation", [NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_SPECIAL])
def test_pld_agrees_with_dp_accounting(event, relation):
    """REPLACE_SPECIAL is dp-accounting's name for zero-out."""
    theirs = DirectPLD(relation, value_discretization_interval=1e-3)
    theirs.compose(direct(event))
    for delta in (1e-3, 1e-6, 1e-9):
        # another order of composition rounds differently
        assert COARSE.epsilon(event, delta) == pytest.approx(theirs.get_epsilon(delta), rel=1e-7)
    assert COARSE.delta(event, 1.0) == pytest.approx(theirs.get_delta(1.0), rel=1e-7)


@each_agreement
def test_renyi_agrees_with_dp_accounting(event):
    theirs, ours = DirectRDP(list(FEW)), RenyiAccountant(FEW)
    theirs.compose(direct(event))
    assert ours.epsilon(event, DELTA) == pytest.approx(theirs.get_epsilon(DELTA), rel=1e-9)
    for epsilon in (0.0, 0.05, 1.0, 5.0):  # near 0 the bound by the divergence itself is the smaller one
        assert ours.delta(event, epsilon) == pytest.approx(theirs.get_delta(epsilon), rel=1e-9)


@pytest.mark.parametrize("steps", [1, 30])
@pytest.mark.parametrize("order", [2.0, 3.5, 12.0])
def test_moments_accountant_against_quadrature(order, steps):
    """One sampled step by its definition, E_0[(p_1/p_0)^order] (Abadi et al. 2016, Eq. 3), then times the steps."""
    rate, noise = 0.05, 1.2

    def integrand(z):
        ratio = 1 - rate + rate * math.exp((2 * z - 1) / (2 * noise**2))
        return norm.pdf(z, 0, noise) * ratio**order

    moment = quad(integrand, -15, 40, epsabs=0, epsrel=1e-12, limit=500)[0]
    divergence = steps * math.log(moment) / (order - 1)
    accountant = MomentsAccountant((order,))
    event = sampled(rate, noise, steps)
    # fractional orders carry a small error of dp-accounting, upward
    truth = divergence + math.log(1 / DELTA) / (order - 1)
    assert truth * (1 - 1e-10) <= accountant.epsilon(event, DELTA) <= truth * (1 + 1e-4)
    truth = math.exp(min(0.0, (order - 1) * (divergence - 3.0)))
    assert truth * (1 - 1e-10) <= accountant.delta(event, 3.0) <= truth * (1 + 1e-3)


@pytest.mark.parametrize("noise", [0.8, 3.0, 100.0])  # the best order is the first, some middle one, the last
def test_moments_accountant_of_a_gaussian_by_hand(noise):
    orders = range(2, 130)
    expected = min(order / (2 * noise**2) + math.log(1 / DELTA) / (order - 1) for order in orders)
    assert MOMENTS.epsilon(GaussianEvent(noise), DELTA) == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize(("rate", "noise"), [(0.01, 1.0), (0.2, 0.8), (0.7, 2.0)])
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


@pytest.mark.parametrize(("noise", "count"), by_pairs([0.3, 0.7, 1.0, 3.0, 30.0], [1, 20]))
def test_gaussians_exact_then_pld_then_renyi_then_moments(noise, count):
    event = RepeatedEvent(GaussianEvent(noise * math.sqrt(count)), count)
    for delta in (1e-3, 1e-6, 1e-9):
        exact, pld, tight, moments = (accountant.epsilon(event, delta) for accountant in (EXACT, PLD, TIGHT, MOMENTS))
        assert exact * (1 - 1e-9) <= pld <= exact + 1e-4  # 1e-9: dp-accounting rounds its floats to nearest
        assert pld <= tight + 1e-4
        assert tight <= moments


@pytest.mark.parametrize(
    ("rate", "noise", "steps"),
    [(0.01, 1.0, 1000), (0.001, 0.7, 10_000), (0.1, 4.0, 200), (0.5, 8.0, 30), (0.02, 2.0, 1)],
)
def test_sampled_pld_then_renyi_then_moments(rate, noise, steps):
    event = sampled(rate, noise, steps)
    for delta in (1e-3, 1e-6):
        pld, tight, moments = (accountant.epsilon(event, delta) for accountant in (PLD, TIGHT, MOMENTS))
        assert pld <= tight + 1e-4
        assert tight <= moments


def test_sampling_is_bounded_by_no_sampling_and_by_what_one_row_is_in():
    """Amplification: sampled steps cost less than plain ones, and more than a lower bound by the central limit."""
    event = sampled(0.05, 2.0, 400)
    mu = 0.05 * math.sqrt(400 * math.expm1(1 / 4.0))
    assert (
        gaussian_epsilon(mu, DELTA) * 0.9
        < PLD.epsilon(event, DELTA)
        < EXACT.epsilon(RepeatedEvent(GaussianEvent(2.0), 400), DELTA)
    )


def test_a_coarser_grid_is_never_smaller():
    event = sampled(0.01, 1.0, 1000)
    fine, middle, coarse = (PLDAccountant(grid).epsilon(event, DELTA) for grid in (2e-4, 2e-3, 1e-2))
    assert fine <= middle <= coarse <= fine + 0.1


def test_zero_out_against_replace_one_as_printed_in_design():
    event = sampled(0.01, 1.0, 1000)
    assert PLD.epsilon(event, 1e-5) == pytest.approx(1.83, abs=0.005)
    replace = DirectPLD(NeighboringRelation.REPLACE_ONE)
    replace.compose(direct(event))
    assert replace.get_epsilon(1e-5) == pytest.approx(2.84, abs=0.005)


@pytest.mark.parametrize(("epsilon", "saved"), [(0.5, 0.33), (1.0, 0.20)])
def test_pld_needs_less_noise_than_the_moments_accountant(epsilon, saved):
    """The setting of DESIGN's 33 % and 20 %: rate .01, 1,000 steps, delta 1e-5, moments up to 32 as first published."""

    def make(noise):
        return sampled(0.01, noise, 1000)

    moments = least_noise(make, MomentsAccountant(tuple(range(2, 34))), epsilon, 1e-5)
    pld = least_noise(make, PLDAccountant(grid=3e-4), epsilon, 1e-5, start=(1 - saved) * moments, tolerance=2e-3)
    assert 1 - pld / moments == pytest.approx(saved, abs=0.006)
    wide = least_noise(make, MOMENTS, epsilon, 1e-5)
    assert 1 - pld / wide > 0.19  # 26 % and 20 % when the moments go up to 128


# --- the choice of accountant, and its limits -------------------------------------------------------------------------


def test_accountant_for():
    assert isinstance(accountant_for(ComposedEvent((GaussianEvent(1.0), GaussianEvent(2.0)))), GaussianAccountant)
    assert isinstance(accountant_for(NothingReleased()), GaussianAccountant)
    assert isinstance(accountant_for(NonPrivateEvent()), GaussianAccountant)
    assert isinstance(accountant_for(sampled(1.0, 1.0, 3)), GaussianAccountant)
    assert isinstance(accountant_for(sampled(0.0, 1.0, 3)), GaussianAccountant)
    assert isinstance(accountant_for(ComposedEvent((GaussianEvent(1.0), sampled(0.5, 2.0)))), PLDAccountant)
    assert isinstance(accountant_for(sampled(1e-6, 1.0, 3_000_000)), RenyiAccountant)
    one = response(0.5)
    for event in (one, ComposedEvent((GaussianEvent(1.0), RepeatedEvent(one, 1023)))):
        assert isinstance(accountant_for(event), GaussianAccountant)
        assert accountant_for(event).name == "exact Gaussian DP and randomised response"
    assert accountant_for(GaussianEvent(1.0)).name == "exact Gaussian DP"
    assert isinstance(accountant_for(RepeatedEvent(one, 1024)), PLDAccountant)
    assert isinstance(accountant_for(RepeatedEvent(one, 3_000_000)), RenyiAccountant)
    assert isinstance(accountant_for(ComposedEvent((one, sampled(0.5, 2.0)))), PLDAccountant)
    with pytest.raises(AccountingError, match="Unknown"):
        accountant_for(Unknown())


@pytest.mark.parametrize("noise", [0.1, 0.03])
def test_pld_far_from_private_stays_small_and_right(noise):
    exact = EXACT.epsilon(GaussianEvent(noise), DELTA)
    assert exact * (1 - 1e-9) <= PLD.epsilon(GaussianEvent(noise), DELTA) <= exact * (1 + 1e-4)


def test_pld_refuses_more_steps_than_it_can_hold():
    with pytest.raises(AccountingError, match="use RenyiAccountant"):
        PLD.epsilon(sampled(1e-6, 1.0, 10**9), DELTA)


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


def test_what_is_silenced_is_heard_again():
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


def test_accountants_are_quiet(caplog, capfd):
    TIGHT.epsilon(ComposedEvent((sampled(0.3, 0.5, 3), sampled(1e-10, 100.0))), 1e-30)
    PLD.epsilon(sampled(0.3, 0.5, 3), 1e-30)
    assert not caplog.records
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("grid", [0.0, -1e-4, math.nan, math.inf, 0.2, True, "1e-4"])
def test_bad_grid_is_refused(grid):
    with pytest.raises(ParameterError, match=r"grid must be a finite number > 0 and <= 0\.1"):
        PLDAccountant(grid=grid)


@pytest.mark.parametrize("orders", [(1.0,), (2.0, 0.5), (math.nan,), (math.inf,), (None,), ("2",)])
def test_bad_orders_are_refused(orders):
    with pytest.raises(ParameterError, match="orders"):
        RenyiAccountant(orders)


def test_bad_settings_of_renyi_are_refused():
    with pytest.raises(ParameterError, match="orders must hold at least one number"):
        RenyiAccountant(())
