"""What a report is worth: the constants against simulation and closed forms, and the sizes of the design."""

import math

import mpmath
import numpy as np
import pytest
from scipy.stats import kstest

from sottovoce.local import Protocol
from sottovoce.local.candidates import normal_quantile, table, uniforms
from sottovoce.local.cap import constants, design, planned_edge
from sottovoce.local.fits.kernels import fill
from support.simulated_reports import candidates, density

# epsilon, K, m, b, v1, v2: the table of the research
TABLE = [
    (1.0, 256, 53, 1.0, 10.4, 13.5),
    (2.0, 256, 34, 1.0, 2.27, 2.22),
    (4.0, 128, 5, 0.0, 0.485, 0.326),
    (8.0, 256, 1, 0.0, 0.148, 0.046),
]


@pytest.mark.parametrize(("epsilon", "K", "m", "b", "v1", "v2"), TABLE)
def test_the_design_is_within_three_percent_of_the_known_table(epsilon, K, m, b, v1, v2):
    known, sizes, alone = constants(epsilon, K, m, b), design(epsilon), design(epsilon, 0)
    assert (known.v1, known.v2) == (pytest.approx(v1, rel=0.02), pytest.approx(v2, rel=0.02))
    c = constants(epsilon, sizes.K, sizes.m, sizes.b)
    assert c.v1 + c.v2 <= 1.031 * (known.v1 + known.v2)
    assert alone.b == 0.0 and constants(epsilon, alone.K, alone.m, 0.0).v1 <= c.v1


def test_two_candidates_are_randomised_response():
    """K = 2, m = 1, b = 0: the larger of two normals, E max = 1/sqrt(pi), kept with probability e/(1 + e)."""
    c = constants(2.0, 2, 1, 0.0)
    assert c.A[0] == pytest.approx(math.tanh(1.0) / math.sqrt(math.pi), rel=1e-12)
    assert c.A[1] == pytest.approx(0.0, abs=1e-14)


@pytest.mark.parametrize(("K", "m", "b"), [(16, 3, 0.0), (16, 3, 1.0), (64, 32, 3.0)])
def test_constants_by_simulation(K, m, b):
    """The definition itself: K normals, the m best by score, one of them with its probability."""
    epsilon, n = 1.5, 40_000
    t = np.random.default_rng(K).standard_normal((n, K))
    order = np.argsort(-(t + b * (t * t - 1) / math.sqrt(2)), axis=1)
    t = np.take_along_axis(t, order, axis=1)
    p = np.where(np.arange(K) < m, math.exp(epsilon), 1.0)
    p /= p.sum()
    hermite = [t, t**2 - 1, t**3 - 3 * t, t**4 - 6 * t**2 + 3]
    for known, values in zip(constants(epsilon, K, m, b).A, hermite, strict=True):
        draws = values @ p
        assert abs(draws.mean() - known) < 4.5 * draws.std() / math.sqrt(n)
    grid = np.linspace(-12, 12, 100_001)
    mass = density(grid, epsilon, K, m, b)
    assert mass.sum() * (grid[1] - grid[0]) == pytest.approx(1.0, abs=1e-9)


def test_the_planned_edge_chooses_the_degree():
    v2 = constants(1.0, *vars(design(1.0)).values()).v2
    assert planned_edge(10**5, 124, v2) == pytest.approx(2 * math.sqrt(124 * v2 / 2e5))
    few = Protocol.create(n_expected=3000, n_features=20, epsilon=1.0)
    many = Protocol.create(n_expected=10**6, n_features=20, epsilon=1.0)
    assert (few.degree, few.b, many.degree) == (0, 0.0, 1)
    for n, degree in ((86_000, 0), (89_000, 1)):  # the edge is .202 and .198
        assert Protocol.create(n_expected=n, n_features=123, epsilon=1.0).degree == degree
    assert (many.K, many.m, many.b) == tuple(vars(design(1.0)).values())
    assert Protocol.create(n_expected=3000, n_features=20, epsilon=1.0, degree=1).degree == 1


# --- candidates: accurate, Gaussian, finite for every seed, the same bits everywhere ----------------------------------

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
