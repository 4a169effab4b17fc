"""The draws of two-sided geometric noise against their exact law.

Chi-square tests at p = 1e-9 with fixed seeds: right code would fail one of these tests for about one in 2e8 choices of
the seeds. Each is also run with 0.7 or 1.3 times the right scale, and must then fail.
"""

import math
from fractions import Fraction

import numpy as np
import pytest

from sottovoce.exceptions import ParameterError
from sottovoce.privacy.mechanisms.discrete_laplace import DiscreteLaplace
from support.noise import pearson, stream

P_VALUE = 1e-9
RUNS = 100_000


def p_value(drawn, scale):
    """Return the p-value of Pearson's test on cells of some fifty numbers' width."""
    width = max(1, scale // 4)
    edges = np.arange(-12 * scale, 12 * scale + 1, width)
    a = math.exp(-1.0 / scale)

    def below(x):  # P(noise < x)
        x = np.asarray(x, dtype=float)
        return np.where(x <= 0, a ** (1.0 - np.minimum(x, 0.0)) / (1.0 + a), 1.0 - a ** np.maximum(x, 0.0) / (1.0 + a))

    shares = np.diff(np.concatenate([[0.0], below(edges), [1.0]]))
    counts = np.bincount(np.searchsorted(edges, drawn, side="right"), minlength=len(shares))
    return pearson(counts, shares)


@pytest.mark.parametrize("factor", [1.0, 0.7, 1.3], ids=lambda factor: f"noise x {factor}")
@pytest.mark.parametrize("scale", [10, 1000, 2**20])
def test_law(scale, factor):
    mechanism = DiscreteLaplace(1.0, round(scale * factor), 1.0)
    drawn = mechanism.release(np.zeros(RUNS, np.int64), stream())[0].astype(np.int64)
    found = p_value(drawn, scale)
    assert found > P_VALUE if factor == 1.0 else found < P_VALUE


@pytest.mark.parametrize("scale", [1, 2, 3])
def test_law_of_little_noise(scale):
    drawn = DiscreteLaplace(1.0, scale, 1.0).release(np.zeros(RUNS, np.int64), stream(1))[0]
    a = math.exp(-1.0 / scale)
    for x in range(-3, 4):
        share = (1.0 - a) / (1.0 + a) * a ** abs(x)
        assert (drawn == x).sum() == pytest.approx(RUNS * share, abs=7.0 * math.sqrt(RUNS * share))


@pytest.mark.parametrize("epsilon", [1e-9, 0.1, 1 / 3, 0.5, 1.0, 7.0, 1e6])
@pytest.mark.parametrize("sensitivity", [1, 2**20, 2**21 * 3])
def test_the_scale_is_rounded_up(epsilon, sensitivity):
    mechanism = DiscreteLaplace(epsilon, sensitivity, 2.0**-20)
    assert Fraction(sensitivity, mechanism.scale) <= Fraction(epsilon)
    assert mechanism.scale == 1 or Fraction(sensitivity, mechanism.scale - 1) > Fraction(epsilon)
    assert mechanism.event.epsilon <= epsilon


def test_standard_deviation():
    mechanism = DiscreteLaplace(0.25, 2**20, 2.0**-20)
    assert mechanism.noise_std == pytest.approx(math.sqrt(2) / 0.25)
    drawn = mechanism.release(np.full(RUNS, 5 * 2**20), stream(2))[0]
    assert drawn.std() == pytest.approx(mechanism.noise_std, rel=0.03)
    assert drawn.mean() == pytest.approx(5.0, abs=0.15)


def test_every_count_that_fits_is_released():
    noisy, _ = DiscreteLaplace(1.0, 1, 1.0).release(np.array([2**63 - 1, -(2**63)], np.int64), stream(3))
    assert np.abs(noisy) == pytest.approx([2.0**61, 2.0**61])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((0.0, 1, 1.0), "epsilon"),
        ((1.0, 0, 1.0), "l1_sensitivity"),
        ((1.0, 1, 0.3), "tick must be a power of two"),
        ((1.0, 1, -0.5), "tick must be a finite number > 0"),
        ((1e-9, 2**40, 1.0), "2\\*\\*55"),
        ((0.5, 2**54 + 1, 1.0), "2\\*\\*55"),
    ],
)
def test_parameters(given, message):
    with pytest.raises(ParameterError, match=message):
        DiscreteLaplace(*given)


def test_the_largest_scale_is_taken():
    assert DiscreteLaplace(0.5, 2**54, 1.0).scale == 2**55


def test_counts_must_be_whole():
    with pytest.raises(ParameterError, match="int64"):
        DiscreteLaplace(1.0, 1, 1.0).release(np.zeros(2), stream())
