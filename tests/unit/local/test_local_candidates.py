"""Candidates: accurate, Gaussian, finite for every seed, and the same bits from every program."""

import math

import mpmath
import numpy as np
import pytest
from scipy.stats import kstest

from sottovoce.local.candidates import normal_quantile, table, uniforms
from sottovoce.local.fits.kernels import fill
from support.simulated_reports import candidates

EDGES = [0, 1, 2, 3, 2**20, 2**28, 2**36, 2**44, 2**48 * 3 // 5, 2**50, 2**51 - 1]
EDGES = sorted({*EDGES, *(2**52 - 1 - k for k in EDGES)})


def odd_multiple(k):
    return (2 * k + 1) * 2.0**-53


def pairs(n, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 2**64, n, dtype=np.uint64), rng.integers(0, 65_536, n)


def test_the_quantile_is_accurate():
    rng = np.random.default_rng(1)
    ks = [*EDGES, *map(int, rng.integers(0, 2**52, 200)), *(int(2**52 * 2.0**-e) for e in range(1, 52))]
    values = normal_quantile(np.array([odd_multiple(k) for k in ks]))
    with mpmath.workdps(40):
        for k, value in zip(ks, values, strict=True):
            exact = mpmath.sqrt(2) * mpmath.erfinv(mpmath.mpf(2 * k + 1) / 2**52 - 1)
            assert abs(value / exact - 1) < 1e-14, k


def test_the_quantile_is_odd_and_rises():
    u = np.array([odd_multiple(k) for k in EDGES])
    values = normal_quantile(u)
    assert (np.diff(values) > 0).all()
    np.testing.assert_array_equal(values, -normal_quantile(1.0 - u))


def test_uniforms_are_the_splitmix_stream():
    """The first numbers of the published generator with seed 1234567, their top 52 bits."""
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    got = uniforms(np.uint64(1234567), np.arange(1, 5))
    assert got.tolist() == [odd_multiple(value >> 12) for value in published]


def test_no_seed_gives_an_infinite_candidate():
    """The seeds whose first number is the least and the greatest there is; 53 bits and a half would round up to 1."""
    rows = candidates(np.array([7046029254386353131, 2**64 - 1], np.uint64), np.array([0, 65_535]), 50)
    assert np.isfinite(rows).all()
    assert rows[0, 0] == normal_quantile(np.array([2.0**-53]))[0] == -8.209536151601386
    assert math.isfinite(normal_quantile(np.array([1 - 2.0**-53]))[0])


def test_candidates_are_standard_gaussian():
    seeds, indices = pairs(40_000)
    g = candidates(seeds, indices, 5)
    for column in g.T:
        assert kstest(column, "norm").pvalue > 1e-6
    assert np.abs(np.corrcoef(g.T) - np.eye(5)).max() < 5 / 200
    one = table(12345, 0, 40_000, 1).ravel()  # neighbours in one stream
    assert kstest(one, "norm").pvalue > 1e-6
    assert abs(np.corrcoef(one[1:], one[:-1])[0, 1]) < 5 / 200


def test_a_table_holds_the_candidates_of_one_seed():
    whole = table(77, 0, 20, 3)
    np.testing.assert_array_equal(whole, candidates(np.full(20, 77, np.uint64), np.arange(20), 3))
    np.testing.assert_array_equal(whole[6:13], table(77, 6, 7, 3))
    assert len(np.unique(whole)) == 60


@pytest.mark.parametrize("d", [1, 3, 124])
def test_the_compiled_candidates_have_the_same_bits(d):
    seeds, indices = pairs(4000, d)
    seeds[:2] = 7046029254386353131, 2**64 - 1
    indices[:2] = 0
    expected = candidates(seeds, indices, d)
    assert (np.abs(expected) > 4).any()
    got = np.empty((len(seeds), d))
    fill(np.asarray(seeds, np.uint64), np.asarray(indices, np.uint64), got)
    np.testing.assert_array_equal(got.view(np.uint64), expected.view(np.uint64))
