"""The draws of the discrete Gaussian against their exact law, shares of it, and sums of shares.

Chi-square tests at p = 1e-9 with fixed seeds: right code would fail one of these tests for about one in 1e8 choices of
the seeds. Each is also run with 0.7 or 1.3 times the right scale, or with a flaw, and must then fail.
"""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from sottovoce.exceptions import ParameterError
from sottovoce.privacy.accounting import GaussianAccountant
from sottovoce.privacy.mechanisms import exact_coins
from sottovoce.privacy.mechanisms.discrete_gaussian import SPENT, SharedGaussian
from support.noise import pearson, stream

P_VALUE = 1e-9
RUNS = 100_000


def p_value(drawn, std):
    """Return the p-value of Pearson's test on the normal law's cells, each a quarter of its deviation or one number."""
    if std < 20:  # the law itself, number by number
        numbers = np.arange(-math.ceil(8 * std), math.ceil(8 * std) + 1)
        shares = np.exp(-(numbers**2) / (2.0 * std**2))
        shares /= shares.sum()
        counts = np.bincount(np.clip(drawn - numbers[0], 0, len(numbers) - 1), minlength=len(numbers))
    else:
        edges = np.arange(-24, 25) * max(1, round(std / 4.0)) - 0.5
        below = ndtr(np.concatenate([[-np.inf], edges, [np.inf]]) / std)
        shares, counts = np.diff(below), np.bincount(np.searchsorted(edges, drawn), minlength=len(edges) + 1)
    return pearson(counts, shares)


@pytest.mark.parametrize("factor", [1.0, 0.7, 1.3], ids=lambda factor: f"noise x {factor}")
@pytest.mark.parametrize("scale", [10, 1000, 2**20, 2**45])
def test_law(scale, factor):
    drawn = exact_coins.whole_gaussian(round(scale * factor), RUNS, stream())
    found = p_value(drawn, scale)
    assert found > P_VALUE if factor == 1.0 else found < P_VALUE


@pytest.mark.parametrize("scale", [1, 2, 3])
def test_law_of_little_noise(scale):
    assert p_value(exact_coins.whole_gaussian(scale, RUNS, stream(1)), scale) > P_VALUE


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


def test_the_largest_scale_is_taken_and_what_a_plan_spends_leaves_room_for_rounding():
    assert SharedGaussian(2**100 - 37, 1.0, 2).scale() == SharedGaussian(2**100 - 37, 1.0, 1, 0).scale() == 2**50
    with pytest.raises(ParameterError, match=r"2\*\*50"):
        SharedGaussian(2**100 - 36, 1.0, 2)
    assert 1.0 - SPENT == 2.0**-40  # as docs/privacy/discrete_gaussian.md says


def test_a_share_is_never_too_small_to_hide_the_others():
    assert SharedGaussian(1, 1e6, 2).scale() == 64


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((0, 1.0, 2), "square"),
        ((1, 0.0, 2), "mu"),
        ((1, 1.0, 0), "n_parties"),
        ((1, 1.0, 2, 2), "colluding"),
        ((1, 1.0, 2, -1), "colluding"),
        ((2**60, 1e-9, 2), "2\\*\\*50"),
    ],
)
def test_refusals(arguments, words):
    with pytest.raises(ParameterError, match=words):
        SharedGaussian(*arguments)
