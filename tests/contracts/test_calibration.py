"""Calibration never overspends, wastes nothing to speak of, and refuses what cannot be met."""

import math
from contextlib import suppress
from functools import partial

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sottovoce.exceptions import AccountingError, ParameterError
from sottovoce.privacy.accounting import (
    GaussianAccountant,
    PLDAccountant,
    RenyiAccountant,
    accountant_for,
    gaussian_delta,
    gaussian_epsilon,
)
from sottovoce.privacy.calibration import bounded_range, gaussian_mu, gaussian_mu_beside, least_noise, least_scale
from sottovoce.privacy.events import (
    BoundedRangeEvent,
    ComposedEvent,
    GaussianEvent,
    NonPrivateEvent,
    NothingReleased,
    PoissonSampledEvent,
    RandomizedResponseEvent,
    RepeatedEvent,
)


def log_uniform(low, high):
    return st.floats(math.log10(low), math.log10(high)).map(lambda exponent: 10.0**exponent)


# --- gaussian_mu ------------------------------------------------------------------------------------------------------


@given(epsilon=log_uniform(1e-6, 1e5), delta=log_uniform(1e-250, 0.9))
@example(epsilon=1.0, delta=1e-5)
@example(epsilon=1e-6, delta=1e-250)
@example(epsilon=1e6, delta=0.5)
@example(epsilon=1e17, delta=1e-5)
@settings(max_examples=100)
def test_gaussian_mu_keeps_its_target_and_wastes_nothing(epsilon, delta):
    mu = gaussian_mu(epsilon, delta)
    assert gaussian_delta(mu, epsilon) <= delta
    assert gaussian_epsilon(mu, delta) <= epsilon * (1 + 1e-9)
    assert gaussian_delta(mu * (1 + 1e-8), epsilon) > delta
    # what the code of Balle, Wang (2018), arXiv:1805.06530, prints
    assert 1.0 / gaussian_mu(1.0, 1e-5) == pytest.approx(3.730631634816463, rel=1e-9)


def test_gaussian_mu_that_cannot_be_met():
    with pytest.raises(AccountingError, match=r"no Gaussian noise meets epsilon=1e-14, delta=1e-20: raise one"):
        gaussian_mu(1e-14, 1e-20)


@pytest.mark.parametrize("epsilon", [1e-12, 0.1, 1.0, 32.0, 2048.0, 2.0**57])
def test_gaussian_mu_of_what_a_known_mu_costs_is_that_mu(epsilon):
    """To the last digits, where a search may begin and end too: at powers of two, and one rounding beside them."""
    for mu in (1.0000001e-12, 1e-6, 0.3, *(2.0**power for power in range(30))):
        for known in (mu, math.nextafter(mu, 0.0), math.exp(math.log(mu)), math.nextafter(mu, math.inf)):
            delta = gaussian_delta(known, epsilon)
            if 0.0 < delta < 1.0:
                found = gaussian_mu(epsilon, delta)
                assert gaussian_delta(found, epsilon) <= delta
                assert found >= known * (1.0 - 1e-9)


@pytest.mark.parametrize("epsilon", [1e-13, 1e-12, 5e-25])
def test_the_least_mu_is_found_or_refused_in_words(epsilon):
    least = 1e-12
    for share in (0.9, 1.0 - 4e-15, 1.0 - 2e-16, 1.0, 1.0 + 2.3e-16, 1.0 + 4e-15, 1.1):
        delta = gaussian_delta(least * share, epsilon)
        if share > 1.0 + 1e-15:
            assert gaussian_mu(epsilon, delta) >= least * (1.0 - 1e-9)
        elif share < 1.0 - 1e-15:
            with pytest.raises(AccountingError, match="no Gaussian noise meets"):
                gaussian_mu(epsilon, delta)
        else:
            with suppress(AccountingError):
                assert gaussian_mu(epsilon, delta) >= least * (1.0 - 1e-9)


BAD = [0.0, -1.0, math.nan, math.inf, None, True, "1", [1.0]]


# --- gaussian_mu_beside -----------------------------------------------------------------------------------------------

EXACT = GaussianAccountant()


@given(
    epsilon=log_uniform(1e-2, 30.0),
    delta=log_uniform(1e-30, 0.1),
    shares=st.lists(st.floats(0.01, 0.9), min_size=1, max_size=3),
    other=st.floats(0.0, 0.9),
)
@settings(max_examples=40)
def test_gaussian_mu_beside_keeps_its_target_and_wastes_nothing(epsilon, delta, shares, other):
    """Beside up to three responses of at most 90 % of epsilon, and a Gaussian of up to 90 % of what they leave."""
    responses = [RandomizedResponseEvent(0.9 * epsilon * share / max(0.9, sum(shares))) for share in shares]
    left = gaussian_mu_beside(epsilon, delta, *responses)
    others = [*responses, *([GaussianEvent(1.0 / (other * left))] if other > 0.01 else [])]
    mu = gaussian_mu_beside(epsilon, delta, *others)
    assert EXACT.delta(ComposedEvent((*others, GaussianEvent(1.0 / mu))), epsilon) <= delta
    assert EXACT.delta(ComposedEvent((*others, GaussianEvent(1.0 / (mu * (1 + 1e-7))))), epsilon) > delta
    assert mu <= gaussian_mu(epsilon, delta)
    if len(others) > len(responses):
        assert math.hypot(mu, other * left) == pytest.approx(left, rel=1e-8)


@pytest.mark.parametrize(
    ("epsilon", "known"),
    [(0.5, 0.0416509570376055), (1.0, 0.0774817215576616), (2.0, 0.144150822799645), (4.0, 0.268838639589530)],
)
def test_gaussian_mu_beside_a_response_of_three_quarters(epsilon, known):
    """Roots of (1 - p) delta_mu(epsilon - e) + p delta_mu(epsilon + e) = 1e-5 in 50 digits, e = 0.75 epsilon."""
    assert gaussian_mu_beside(epsilon, 1e-5, RandomizedResponseEvent(0.75 * epsilon)) == pytest.approx(known, rel=1e-9)


def test_gaussian_mu_beside_nothing_is_gaussian_mu():
    for others in ((), (NothingReleased(),), (GaussianEvent(math.inf),), (RandomizedResponseEvent(1e-14),)):
        assert gaussian_mu_beside(1.0, 1e-5, *others) == pytest.approx(gaussian_mu(1.0, 1e-5), rel=1e-9)


def test_gaussian_mu_beside_what_overspends():
    with pytest.raises(AccountingError, match=r"the other releases alone cost epsilon=\S+ at delta=1e-12, more"):
        gaussian_mu_beside(0.9, 1e-12, RandomizedResponseEvent(1.0))
    with pytest.raises(AccountingError, match=r"more than epsilon=1\.0: give them less, or raise epsilon or delta"):
        gaussian_mu_beside(1.0, 1e-5, GaussianEvent(1.0))
    with pytest.raises(AccountingError, match="the other releases alone cost epsilon=inf"):
        gaussian_mu_beside(1.0, 1e-5, NonPrivateEvent())
    with pytest.raises(AccountingError, match="exact Gaussian accounting does not cover"):
        gaussian_mu_beside(1.0, 1e-5, PoissonSampledEvent(0.5, GaussianEvent(1.0)))
    # a response that takes all of epsilon leaves delta
    assert 0.0 < gaussian_mu_beside(1.0, 1e-5, RandomizedResponseEvent(1.0)) < 1e-4


def test_others_that_cost_all_of_delta_and_no_more_are_no_overspending():
    for e in (1.0, 1.5, 3.0):
        delta = EXACT.delta(RandomizedResponseEvent(e), 0.5)
        assert 0.0 < gaussian_mu_beside(0.5, delta, RandomizedResponseEvent(e)) < 1e-11


# --- least_noise ------------------------------------------------------------------------------------------------------


@given(
    epsilon=log_uniform(0.5, 8.0),
    delta=log_uniform(1e-8, 1e-3),
    rate=log_uniform(1e-3, 1.0),
    steps=st.integers(1, 300),
    other=st.floats(20.0, 100.0),
    start=log_uniform(1e-1, 1e1),
)
@settings(max_examples=6)
def test_least_noise_of_sampled_steps_is_enough_and_least(epsilon, delta, rate, steps, other, start):
    def make(noise):
        run = RepeatedEvent(PoissonSampledEvent(rate, GaussianEvent(noise)), steps)
        return ComposedEvent((run, GaussianEvent(other)))

    for accountant in (PLDAccountant(grid=1e-2), RenyiAccountant((2.0, 3.0, 5.0, 8.0, 16.0, 32.0, 64.0))):
        noise = least_noise(make, accountant, epsilon, delta, start=start, tolerance=1e-2)
        assert accountant.epsilon(make(noise), delta) <= epsilon < accountant.epsilon(make(noise / 1.015), delta)


@given(
    epsilon=log_uniform(1e-3, 1e2),
    delta=log_uniform(1e-12, 0.1),
    count=st.integers(1, 1000),
    start=log_uniform(1e-6, 1e6),
    tolerance=log_uniform(1e-9, 0.5),
)
def test_least_noise_of_gaussians_is_the_closed_form(epsilon, delta, count, start, tolerance):
    accountant = GaussianAccountant()

    def make(noise):
        return RepeatedEvent(GaussianEvent(noise), count)

    noise = least_noise(make, accountant, epsilon, delta, start=start, tolerance=tolerance)
    exact = math.sqrt(count) / gaussian_mu(epsilon, delta)
    assert accountant.epsilon(make(noise), delta) <= epsilon
    assert exact * (1 - 1e-8) <= noise <= exact * (1 + tolerance + 1e-8)


@pytest.mark.parametrize("start", [1e-8, 1.0, 1e8])
def test_least_noise_reaches_a_billion_times_its_start(start):
    accountant = GaussianAccountant()
    target = gaussian_mu(1.0, 1e-5)
    for wanted in (0.9e9 * start, 1.1e-9 * start):  # the noise that the single release needs, far from the start
        noise = least_noise(
            lambda value, w=wanted: GaussianEvent(value / w / target), accountant, 1.0, 1e-5, start=start
        )
        assert wanted * (1 - 1e-9) <= noise <= wanted * (1 + 1.1e-3)


@pytest.mark.parametrize("accountant", [GaussianAccountant(), RenyiAccountant((2.0, 8.0, 32.0)), None])
def test_noise_that_costs_just_the_target_keeps_it(accountant):
    for noise in (0.3, 1.0, 7.0, 1e3):
        epsilon = (accountant or GaussianAccountant()).epsilon(GaussianEvent(noise), 1e-5)
        assert noise / 1.0011 <= least_noise(GaussianEvent, accountant, epsilon, 1e-5, start=noise) <= noise
    told = "exact Gaussian DP" if accountant is None else accountant.name
    with pytest.raises(AccountingError, match=rf"or the accountant \({told}\) cannot resolve"):
        least_noise(lambda s: GaussianEvent(0.1), accountant, 1.0, 1e-5)


@pytest.mark.parametrize("start", [1e-8, 1.0, 3.0, 1e8])
def test_a_search_asks_from_one_end_to_the_other_and_no_further(start):
    """In steps that grow, so that 1e9 times the start is near, or 1e-9 times where nothing costs anything."""
    for costs in (GaussianEvent(0.1), NothingReleased()):
        asked = []
        with suppress(AccountingError):
            least_noise(lambda s: asked.append(s) or costs, EXACT, 1.0, 1e-5, start=start)  # noqa: B023
        assert asked[0] == start
        assert len(set(asked)) == len(asked) < 30
        if costs == NothingReleased():
            assert min(asked) <= 1e-9 * start
            assert asked == sorted(asked, reverse=True)
        else:
            assert max(asked) == 1e9 * start
            assert asked == sorted(asked)


def test_impossible_targets():
    accountant = GaussianAccountant()
    with pytest.raises(
        AccountingError, match=r"epsilon=1\.0 at delta=1e-05 cannot be met: other parts of the same run"
    ):
        least_noise(lambda s: ComposedEvent((GaussianEvent(s), GaussianEvent(0.1))), accountant, 1.0, 1e-5)
    with pytest.raises(AccountingError, match="cannot be met"):
        least_noise(lambda s: ComposedEvent((GaussianEvent(s), NonPrivateEvent())), accountant, 100.0, 0.5)
    with pytest.raises(AccountingError, match="cannot be met"):
        least_noise(lambda s: RepeatedEvent(GaussianEvent(s), 2**53), accountant, 1e-6, 1e-12, start=1e-3)
    with pytest.raises(AccountingError, match=r"\(privacy loss distribution\) cannot resolve so small a delta"):
        least_noise(lambda s: PoissonSampledEvent(0.1, GaussianEvent(s)), PLDAccountant(0.01), 1e-6, 1e-200)
    with pytest.raises(AccountingError, match="exact Gaussian accounting does not cover"):
        least_noise(lambda s: PoissonSampledEvent(0.1, GaussianEvent(s)), accountant, 1.0, 1e-5)


@given(epsilon=log_uniform(1e-2, 10.0), delta=log_uniform(1e-12, 0.01))
@settings(max_examples=5)
def test_the_least_scale_and_range_are_those_of_their_closed_forms(epsilon, delta):
    """Of one Gaussian, and of one choice, which is pure: it may have all of epsilon, and a little for its delta."""
    exact = 1.0 / gaussian_mu(epsilon, delta)
    assert exact * (1 - 1e-8) <= least_scale(GaussianEvent, epsilon, delta) <= exact * (1 + 1.1e-3)
    width = bounded_range(epsilon, delta, 1)
    spent = accountant_for(BoundedRangeEvent(width)).epsilon
    assert spent(BoundedRangeEvent(width), delta) <= epsilon < spent(BoundedRangeEvent(width * 1.0011), delta)
    for bad in ({"epsilon": 0.0}, {"delta": 1.0}):
        given = {"epsilon": epsilon, "delta": delta} | bad
        for refuses in (lambda **given: least_scale(GaussianEvent, **given), partial(bounded_range, count=1)):
            with pytest.raises(ParameterError, match=next(iter(bad))):
                refuses(**given)
    with pytest.raises(ParameterError, match="count must be"):
        bounded_range(epsilon, delta, 0)


def test_a_run_that_releases_nothing_needs_no_noise_and_ends():
    assert least_noise(lambda s: NothingReleased(), GaussianAccountant(), 1.0, 1e-5) < 1e-6


def least(**changed):
    given = {"epsilon": 1.0, "delta": 1e-5, "start": 1.0, "tolerance": 1e-3}
    return least_noise(GaussianEvent, GaussianAccountant(), **(given | changed))


@pytest.mark.parametrize("bad", BAD)
def test_nonsense_is_refused(bad):
    gaussian_mu(1.0, 0.5)  # equal to True as a key: a cached answer must not let True through
    for name in ("epsilon", "delta", "start", "tolerance"):
        for ask in (gaussian_mu, gaussian_mu_beside, least) if name in ("epsilon", "delta") else (least,):
            with pytest.raises(ParameterError, match=name):
                ask(**({"epsilon": 1.0, "delta": 0.5} | {name: bad}))
    with pytest.raises(ParameterError, match="delta"):
        gaussian_mu(1.0, 1.0)
