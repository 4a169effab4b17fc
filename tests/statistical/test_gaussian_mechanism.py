"""The noise of the Gaussian mechanism: scale, shape, grid, independence, and what a neighbour can learn.

Every test of noise runs the same statistic on noise that is wrong on purpose and asserts that it is rejected. A test
accepts above p = 1e-12 and rejects below it. All seeds are fixed, so no outcome changes from run to run; with fresh
seeds the chance of a false alarm would be 1e-12 a test.
"""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import chi2, kstest, norm

from sottovoce.exceptions import ParameterError
from sottovoce.privacy.events import GaussianEvent
from sottovoce.privacy.mechanisms.gaussian import (
    GridGaussian,
    counts_mechanism,
    power_of_two_below,
    rounding_norm,
    to_ticks,
)
from support.noise import stream

DRAWS = 200_000
LEVEL = 1e-12
SETTINGS = [
    pytest.param(1.0, 1.0, 2.0**-6, id="coarsest grid"),
    pytest.param(1.0, 4.0, 2.0**-23, id="usual"),
    pytest.param(3e-5, 0.7, 2.0**-40, id="small sensitivity"),
    pytest.param(7.3e6, 123.0, 2.0, id="large sensitivity"),
    pytest.param(1.0, 2.0**20, 2.0**-20, id="much noise, fine grid"),
]
each_setting = pytest.mark.parametrize(("sensitivity", "multiplier", "tick"), SETTINGS)


def noise_of(mechanism, seed, size=DRAWS, value=0):
    ticks = np.full(size, value, dtype=np.int64)
    released, _ = mechanism.release(ticks, stream(seed))
    return released - value * mechanism.tick


def p_of_scale(noise, std):
    """Two-sided chi-square test that the standard deviation is ``std``."""
    square = float(np.sum((noise / std) ** 2))
    return min(1.0, 2.0 * min(chi2.cdf(square, len(noise)), chi2.sf(square, len(noise))))


def p_of_shape(noise, std):
    return kstest(noise, norm(0.0, std).cdf).pvalue


def p_of_kurtosis(noise, std):
    """Fourth moment against 3; its standard error is sqrt(96/n) when the scale is given."""
    return 2.0 * norm.sf(abs(np.mean((noise / std) ** 4) - 3.0) / math.sqrt(96.0 / len(noise)))


def p_of_tail(noise, std):
    """Draws beyond 3.5 standard deviations."""
    share = 2.0 * norm.sf(3.5)
    found = np.count_nonzero(np.abs(noise) > 3.5 * std)
    return 2.0 * norm.sf(abs(found - len(noise) * share) / math.sqrt(len(noise) * share))


def p_of_mean(noise, std):
    return 2.0 * norm.sf(abs(np.mean(noise)) / std * math.sqrt(len(noise)))


class Wrong:
    """A source of noise with another law."""

    def __init__(self, draw, seed=5):
        self._draw, self._generator = draw, np.random.default_rng(seed)

    def standard_normal(self, shape):
        return self._draw(self._generator, shape)


# --- scale and shape --------------------------------------------------------------------------------------------------


@each_setting
def test_the_stated_scale_is_accepted(sensitivity, multiplier, tick):
    noise = noise_of(GridGaussian(sensitivity, multiplier, tick), 1)
    std = sensitivity * multiplier
    for p_value in (p_of_scale, p_of_shape, p_of_kurtosis, p_of_tail, p_of_mean):
        assert p_value(noise, std) > LEVEL, p_value.__name__


@each_setting
def test_a_wrong_scale_is_rejected(sensitivity, multiplier, tick):
    """The same tests, on a mechanism whose noise is scaled wrongly."""
    std = sensitivity * multiplier
    for wrong in (0.95, 1.05):
        assert p_of_scale(noise_of(GridGaussian(sensitivity, wrong * multiplier, tick / 2.0), 1, 20_000), std) < LEVEL
    for wrong in (0.7, 1.3):
        noise = noise_of(GridGaussian(sensitivity, wrong * multiplier, tick / 2.0), 1)
        assert p_of_scale(noise, std) < LEVEL
        assert p_of_shape(noise, std) < LEVEL
        assert p_of_kurtosis(noise, std) < LEVEL
        assert p_of_tail(noise, std) < LEVEL


@pytest.mark.parametrize(
    ("law", "draw"),
    [
        ("Laplace", lambda generator, shape: generator.laplace(0.0, math.sqrt(0.5), shape)),
        ("uniform", lambda generator, shape: generator.uniform(-math.sqrt(3.0), math.sqrt(3.0), shape)),
        ("logistic", lambda generator, shape: generator.logistic(0.0, math.sqrt(3.0) / math.pi, shape)),
    ],
)
def test_another_law_of_the_same_scale_is_rejected(law, draw):
    mechanism = GridGaussian(1.0, 2.0, 2.0**-20)
    noise, _ = mechanism.release(np.zeros(DRAWS, dtype=np.int64), Wrong(draw))
    assert p_of_scale(noise, 2.0) > LEVEL or law == "Laplace"  # the scale test alone would not tell
    assert p_of_shape(noise, 2.0) < LEVEL
    assert p_of_kurtosis(noise, 2.0) < LEVEL
    assert p_of_tail(noise, 2.0) < LEVEL


# --- independence -----------------------------------------------------------------------------------------------------


def p_of_correlation(one, other):
    return 2.0 * norm.sf(abs(np.corrcoef(one, other)[0, 1]) * math.sqrt(len(one)))


def test_entries_and_releases_are_independent():
    mechanism, generator = GridGaussian(1.0, 2.0, 2.0**-20), stream(3)
    zeros = np.zeros((DRAWS, 2), dtype=np.int64)
    first, second = mechanism.release(zeros, generator)[0], mechanism.release(zeros, generator)[0]
    assert p_of_correlation(first[:, 0], first[:, 1]) > LEVEL
    assert p_of_correlation(first[:-1, 0], first[1:, 0]) > LEVEL
    assert p_of_correlation(first[:, 0], second[:, 0]) > LEVEL
    assert p_of_scale(first[:, 0] - second[:, 0], 2.0 * math.sqrt(2.0)) > LEVEL
    # the same tests find noise that is drawn once and used twice
    again = mechanism.release(zeros, stream(3))[0]
    assert p_of_correlation(first[:, 0], again[:, 0]) < LEVEL
    assert p_of_scale(first[:, 0] - again[:, 0], 2.0 * math.sqrt(2.0)) < LEVEL


# --- the grid ---------------------------------------------------------------------------------------------------------


@each_setting
def test_the_release_is_the_rounded_ideal_mechanism(sensitivity, multiplier, tick):
    """g (k + round(N/g)) = g round((g k + N)/g): a function of the ideal release on the value g k, draw by draw."""
    ticks = np.random.default_rng(7).integers(-(2**20), 2**20, DRAWS)
    released, _ = GridGaussian(sensitivity, multiplier, tick).release(ticks, stream(11))
    ideal = ticks.astype(np.longdouble) * tick + np.longdouble(sensitivity * multiplier) * stream(11).standard_normal(
        DRAWS
    )
    expected = np.floor(ideal / np.longdouble(tick) + np.longdouble(0.5)) * tick
    # the product std * z is rounded to double once: where that crosses a half tick, the neighbouring tick is right too
    differs = released != expected.astype(np.float64)
    assert np.count_nonzero(differs) <= DRAWS // 1000
    assert np.all(np.abs(released - expected.astype(np.float64))[differs] <= tick)
    # and it is not a function of the ideal release on a value that is half a tick off
    assert np.count_nonzero(released != expected.astype(np.float64) + tick / 2) == DRAWS


def test_ties_do_not_show_the_parity_of_the_value():
    """Rounding half to even would make half-tick noise even, and so the parity of the output that of the value."""
    mechanism = GridGaussian(1.0, 64.0, 1.0)
    ties = Wrong(lambda generator, shape: (np.arange(-100, 100) + 0.5) / 64.0)
    for value in (0, 1):
        released, _ = mechanism.release(np.full(200, value, np.int64), ties)
        assert np.count_nonzero(released % 2 == 0) == 100
    # to even, for comparison: every output has the parity of the value
    assert np.count_nonzero(np.rint(np.arange(-100, 100) + 0.5) % 2 == 0) == 200


# --- what a neighbour can learn ---------------------------------------------------------------------------------------


def test_the_event_is_what_the_noise_is_worth():
    mechanism = GridGaussian(0.25, 3.0, 2.0**-10)
    assert mechanism.event == GaussianEvent(3.0)
    assert mechanism.noise_std == 0.75
    assert mechanism.release(np.zeros(3, dtype=np.int64), stream(1))[1] == GaussianEvent(3.0)


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, -math.inf, None, True, "1", 10**400])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_bad_scales_are_refused(place, bad):
    arguments = [1.0, 1.0, 2.0**-10]
    arguments[place] = bad
    with pytest.raises(ParameterError, match=("l2_sensitivity", "noise_multiplier", "tick")[place]):
        GridGaussian(*arguments)


@pytest.mark.parametrize("tick", [0.001, 3 * 2.0**-12, 2.0**-10 * (1 + 2**-52)])
def test_ticks_are_powers_of_two(tick):
    with pytest.raises(ParameterError, match="tick must be a power of two"):
        GridGaussian(1.0, 1.0, tick)


def test_the_limits_of_the_tick():
    for tick in (2.0**-6, 2.0**-44):
        GridGaussian(1.0, 1.0, tick)
    with pytest.raises(ParameterError, match=r"tick must be at most noise_std / 64 = 0\.015625, .* got 0\.03125"):
        GridGaussian(1.0, 1.0, 2.0**-5)
    with pytest.raises(ParameterError, match="tick must be at most noise_std / 64"):
        GridGaussian(1.0, 1.0 - 2.0**-53, 2.0**-6)
    with pytest.raises(ParameterError, match=r"tick must be at least noise_std / 2\*\*44 = 5\.68434e-14, .* got 2\.8"):
        GridGaussian(1.0, 1.0, 2.0**-45)
    with pytest.raises(ParameterError, match="tick must be a finite number > 0"):
        GridGaussian(1.0, 1.0, -0.5)
    with pytest.raises(ParameterError, match=r"tick must be at least noise_std / 2\*\*44"):
        GridGaussian(1e200, 1e200, 1.0)
    with pytest.raises(ParameterError, match="tick must be at most noise_std / 64"):
        GridGaussian(1e-200, 1e-200, 2.0**-1000)


@pytest.mark.parametrize("extreme", [2**62, -(2**62), 2**63 - 1, -(2**63), 2**61 + 1])
def test_no_value_is_refused_or_wraps_and_those_beyond_the_limit_are_cut_to_it(extreme):
    # the widest noise that a tick can have
    mechanism = GridGaussian(1.0, 2.0**44, 1.0)
    cut, _ = mechanism.release(np.array([0, extreme], dtype=np.int64), stream(4))
    limit, _ = mechanism.release(np.array([0, 2**61 if extreme > 0 else -(2**61)], dtype=np.int64), stream(4))
    assert np.array_equal(cut, limit)
    assert abs(abs(cut[1]) - 2.0**61) < 40.0 * 2.0**44


@pytest.mark.parametrize("dtype", [np.float64, np.int32, np.uint64, bool])
def test_only_ticks_are_released(dtype):
    with pytest.raises(ParameterError, match="ticks must be an int64 array; got"):
        GridGaussian(1.0, 1.0, 2.0**-10).release(np.zeros(3, dtype=dtype), stream(1))


def test_shapes_are_kept_and_the_input_is_left_alone():
    mechanism = GridGaussian(1.0, 1.0, 2.0**-10)
    for shape in ((), (0,), (3,), (2, 5), (0, 4)):
        ticks = np.zeros(shape, dtype=np.int64)
        assert mechanism.release(ticks, stream(1))[0].shape == shape
        assert not ticks.any()


# --- helpers ----------------------------------------------------------------------------------------------------------


@given(st.floats(min_value=5e-324, max_value=1.7e308))
def test_power_of_two_below(value):
    power = power_of_two_below(value)
    assert math.frexp(power)[0] == 0.5
    assert power <= value
    assert power * 2.0 > value


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, None])
def test_power_of_two_below_nothing(bad):
    with pytest.raises(ParameterError, match="value"):
        power_of_two_below(bad)


VECTORS = st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)), min_size=1, max_size=8).map(np.array)


@given(VECTORS, st.integers(-20, 3))
def test_rounding_adds_at_most_the_rounding_norm(pair, exponent):
    tick = 2.0**exponent
    one, other = pair[:, 0], pair[:, 1]
    assert np.all(np.abs(to_ticks(one, tick) * tick - one) <= tick / 2)
    moved = np.linalg.norm((to_ticks(one, tick) - to_ticks(other, tick)) * tick)
    assert moved <= (np.linalg.norm(one - other) + rounding_norm(len(one), tick)) * (1 + 1e-12)


def test_the_rounding_norm_is_reached():
    one, other = np.full(9, 0.5 + 1e-9), np.full(9, 0.5 - 1e-9)
    assert np.linalg.norm(to_ticks(one, 1.0) - to_ticks(other, 1.0)) == rounding_norm(9, 1.0) == 3.0


@pytest.mark.parametrize(
    ("value", "ticks"),
    [(math.nan, 0), (math.inf, 2**61), (-math.inf, -(2**61)), (2.0**62, 2**61), (-1e300, -(2**61)), (2.0**61, 2**61)],
)
def test_every_value_has_its_ticks_and_none_is_refused(value, ticks):
    assert to_ticks(np.array([1.0, value]), 1.0).tolist() == [1, ticks]
    assert to_ticks(np.array([1e300]), 2.0**-100).tolist() == [2**61]


@pytest.mark.parametrize(("size", "tick"), [(0, 1.0), (-1, 1.0), (2.0, 1.0), (1, 0.0), (1, math.nan)])
def test_bad_rounding_norms(size, tick):
    with pytest.raises(ParameterError, match=r"size|tick"):
        rounding_norm(size, tick)


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, 5e-324, math.inf])
def test_counts_that_no_noise_can_hide_are_refused_in_words(value):
    for sensitivity, mu in ((1.0, value), (value, 1.0)):
        with pytest.raises(ParameterError, match=r"must be a finite number"):
            counts_mechanism(1, sensitivity, mu)


@given(size=st.integers(1, 10_000), sensitivity=st.floats(0.1, 1e9), exponent=st.floats(-10.0, 34.0))
@example(size=4, sensitivity=1024.0, exponent=33.5)  # ticks of 2
def test_counts_are_whole_ticks_or_their_rounding_is_counted(size, sensitivity, exponent):
    """Ticks of 1 where the noise allows them: at least 2^20 of them make its deviation, and at most 2^43."""
    mu = 2.0**-exponent
    mechanism = counts_mechanism(size, sensitivity, mu)
    noise, tick = sensitivity / mu, mechanism.tick
    assert mechanism.event == GaussianEvent(1.0 / mu)
    coarse = math.sqrt(size) * tick if tick > 1.0 else 0.0
    assert mechanism.l2_sensitivity == sensitivity * (1.0 + 2.0**-50) + coarse  # and the last digit of a root
    least, most = (20, 21) if tick < 1.0 else (42, 43) if tick > 1.0 else (20, 43)
    assert 2.0**least <= noise / tick < 2.0**most
