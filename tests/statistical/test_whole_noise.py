"""Draws of whole numbers against their exact laws: Gaussian noise and shares of it, geometric noise, Gumbel noise.

Chi-square tests at p = 1e-9 with fixed seeds: right code would fail one of these tests for about one in 1e8 choices of
the seeds. Each is also run with 0.7 or 1.3 times the right scale, or with a flaw, and must then fail.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from sottovoce.exceptions import ParameterError
from sottovoce.privacy.accounting import GaussianAccountant
from sottovoce.privacy.mechanisms import exact_coins
from sottovoce.privacy.mechanisms.discrete_gaussian import SPENT, SharedGaussian
from sottovoce.privacy.mechanisms.discrete_laplace import DiscreteLaplace
from sottovoce.privacy.mechanisms.whole_gumbel import whole_gumbel
from support.noise import pearson, stream

P_VALUE = 1e-9
RUNS = 100_000


def less_than_gaussian(x, scale):
    if scale >= 20:
        return ndtr((x - 0.5) / scale)
    numbers = np.arange(-math.ceil(8 * scale), math.ceil(8 * scale) + 1)
    chances = np.cumsum(np.exp(-(numbers**2) / (2.0 * scale**2)))
    return np.concatenate([[0.0], chances / chances[-1]])[np.searchsorted(numbers, x)]


def less_than_geometric(x, scale):
    a = math.exp(-1.0 / scale)
    return np.where(x <= 0, a ** (1.0 - np.minimum(x, 0.0)) / (1.0 + a), 1.0 - a ** np.maximum(x, 0.0) / (1.0 + a))


LAWS = {  # what draws with a scale, and the chance of less than some whole numbers
    "gaussian": (exact_coins.whole_gaussian, less_than_gaussian),
    "geometric": (
        lambda scale, size, noise: DiscreteLaplace(1.0, scale, 1.0).release(np.zeros(size, np.int64), noise)[0],
        less_than_geometric,
    ),
    "gumbel": (whole_gumbel, lambda x, scale: np.exp(-np.exp(-x / scale))),  # the real variable, rounded down
}
SCALES = {"gaussian": (10, 1000, 2**20, 2**45), "geometric": (10, 1000, 2**20), "gumbel": (10, 1000)}


def p_value(drawn, scale, below=less_than_gaussian):
    """Return the p-value of Pearson's test on cells of a quarter of the scale, or of one number."""
    edges = np.arange(-48, 49) * max(1, round(scale / 4.0))
    shares = np.diff(np.concatenate([[0.0], below(edges, scale), [1.0]]))
    return pearson(np.bincount(np.searchsorted(edges, drawn, side="right"), minlength=len(shares)), shares)


@pytest.mark.parametrize("factor", [1.0, 0.7, 1.3], ids=lambda factor: f"noise x {factor}")
@pytest.mark.parametrize(("law", "scale"), [(law, scale) for law, scales in SCALES.items() for scale in scales])
def test_law(law, scale, factor):
    draw, below = LAWS[law]
    found = p_value(draw(round(scale * factor), RUNS, stream()), scale, below)
    assert found > P_VALUE if factor == 1.0 else found < P_VALUE


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("scale", [1, 2, 3])
def test_law_of_little_noise(law, scale):
    draw, below = LAWS[law]
    assert p_value(draw(scale, RUNS, stream(1)), scale, below) > P_VALUE


def test_a_coin_that_forgets_the_rest_is_found(monkeypatch):
    """Acceptance takes a distance apart into whole scales and a rest; without the mixed part the law is another."""

    def near(distances, scale, noise):
        whole, rest = np.divmod(distances, scale)
        return exact_coins._half_square(rest, scale, noise) & (noise.random(len(rest)) < np.exp(-0.5 * whole**2))

    monkeypatch.setattr(exact_coins, "_near", near)
    assert p_value(exact_coins.whole_gaussian(1000, RUNS, stream()), 1000) < P_VALUE


def test_the_coins_have_the_probabilities_that_they_say():
    noise, size = stream(2), 200_000
    for distance in (0, 30, 100, 130, 200, 270):
        share = exact_coins._near(np.full(size, distance), 100, noise).mean()
        assert share == pytest.approx(math.exp(-((distance / 100) ** 2) / 2), abs=7 * 0.5 / math.sqrt(size))


# --- shares of Gaussian noise -----------------------------------------------------------------------------------------


def test_sums_of_shares_have_the_law_of_one():
    mechanism = SharedGaussian(10**8, 1.0, 3, 1)
    total = sum(mechanism.share(RUNS, stream(seed)) for seed in range(3))
    assert p_value(total, mechanism.total_std()) > P_VALUE
    assert p_value(total, math.sqrt(2.0) * mechanism.scale()) < P_VALUE  # two of the three
    assert total.std() / 1e4 == pytest.approx(math.sqrt(1.5), rel=0.02)


@pytest.mark.parametrize("weight", [1, 2, 4707**2])
@pytest.mark.parametrize(("n_parties", "colluding"), [(2, 1), (3, 1), (5, 2), (3, 0)])
def test_what_colluding_parties_do_not_know_covers_the_event(n_parties, colluding, weight):
    mechanism = SharedGaussian(2**60 + 1, 0.7, n_parties, colluding)
    unknown = (n_parties - colluding) * mechanism.scale(weight) ** 2
    needed = mechanism.square / 0.7**2 / weight + 36
    assert needed <= unknown <= 1.01 * needed
    assert GaussianAccountant().epsilon(mechanism.event, 1e-5) == pytest.approx(2.9, abs=0.3)


@given(scale=st.integers(65, 2**30), weight=st.integers(1, 10**9))
def test_the_proof_smooths_a_little_and_the_noise_pays_for_it(scale, weight):
    """A scale covers its square less 36, and nothing more; a weight makes that no less."""
    assert SharedGaussian((scale**2 - 37) * weight, 1.0, 2).scale(weight) == scale
    assert SharedGaussian((scale**2 - 36) * weight, 1.0, 2).scale(weight) == scale + 1


def test_the_ends_of_scales():
    assert SharedGaussian(2**100 - 37, 1.0, 2).scale() == SharedGaussian(2**100 - 37, 1.0, 1, 0).scale() == 2**50
    with pytest.raises(ParameterError, match=r"2\*\*50"):
        SharedGaussian(2**100 - 36, 1.0, 2)
    assert SharedGaussian(1, 1e6, 2).scale() == 64  # a share is never too small to hide the others
    assert 1.0 - SPENT == 2.0**-40  # as docs/privacy/discrete_gaussian.md says
    assert DiscreteLaplace(0.5, 2**54, 1.0).scale == 2**55


# --- the mechanism of geometric noise ---------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [1e-9, 0.1, 1 / 3, 0.5, 1.0, 7.0, 1e6])
@pytest.mark.parametrize("sensitivity", [1, 2**20, 2**21 * 3])
def test_the_scale_is_rounded_up(epsilon, sensitivity):
    mechanism = DiscreteLaplace(epsilon, sensitivity, 2.0**-20)
    assert Fraction(sensitivity, mechanism.scale) <= Fraction(epsilon)
    assert mechanism.scale == 1 or Fraction(sensitivity, mechanism.scale - 1) > Fraction(epsilon)
    assert mechanism.event.epsilon <= epsilon


def test_every_count_that_fits_is_released():
    noisy, _ = DiscreteLaplace(1.0, 1, 1.0).release(np.array([2**63 - 1, -(2**63), 900], np.int64), stream(3))
    assert np.abs(noisy) == pytest.approx([2.0**61, 2.0**61, 900.0], rel=0.05)
    assert DiscreteLaplace(0.25, 2**20, 2.0**-20).noise_std == pytest.approx(math.sqrt(2) / 0.25)


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        (SharedGaussian, (0, 1.0, 2), "square"), (SharedGaussian, (1, 0.0, 2), "mu"),
        (SharedGaussian, (1, 1.0, 0), "n_parties"), (SharedGaussian, (1, 1.0, 2, 2), "colluding"),
        (SharedGaussian, (1, 1.0, 2, -1), "colluding"), (SharedGaussian, (2**60, 1e-9, 2), "2\\*\\*50"),
        (DiscreteLaplace, (0.0, 1, 1.0), "epsilon"), (DiscreteLaplace, (1.0, 0, 1.0), "l1_sensitivity"),
        (DiscreteLaplace, (1.0, 1, 0.3), "tick must be a power of two"),
        (DiscreteLaplace, (1.0, 1, -0.5), "tick must be a finite number > 0"),
        (DiscreteLaplace, (1e-9, 2**40, 1.0), "2\\*\\*55"), (DiscreteLaplace, (0.5, 2**54 + 1, 1.0), "2\\*\\*55"),
        (DiscreteLaplace(1.0, 1, 1.0).release, (np.zeros(2), stream()), "int64"),
    ],
)  # fmt: skip
def test_refusals(kind, given, message):
    with pytest.raises(ParameterError, match=message):
        kind(*given)
