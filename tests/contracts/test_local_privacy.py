"""A report is epsilon-LDP for every seed: its exact law is written out, for ordinary and for hostile inputs."""

import decimal
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.local import Protocol, Randomizer
from sottovoce.local.candidates import table
from sottovoce.local.odds import COINS, Odds
from support.simulated_reports import candidates

SEEDS = [0, 1, 2**64 - 1, 7046029254386353131, 0x9E3779B97F4A7C15]  # the fourth gives the largest candidate there is


def randomizer(epsilon=1.0, d=3, K=16, m=3, b=1.0):
    return Randomizer(Protocol(n_features=d, intercept=0.0, completion="slack", epsilon=epsilon, K=K, m=m, b=b))


def worst_ratio(laws):
    """The largest ratio of the probabilities of one index under two inputs, as a fraction."""
    return max(max(column) / min(column) for column in zip(*laws, strict=True))


def within(ratio, epsilon):
    """Whether a fraction is at most e^epsilon, by 80 digits."""
    with mpmath.workdps(80):
        return mpmath.mpf(ratio.numerator) / ratio.denominator <= mpmath.exp(mpmath.mpf(epsilon))


def hostile_vectors(mechanism, seed):
    """Vectors at candidates, against them, zero, huge, tied, and at random."""
    protocol = mechanism.protocol
    g = table(seed, 0, protocol.K, protocol.d)
    rng = np.random.default_rng(5)
    basis = np.eye(protocol.d)
    for row in g[:4]:
        yield from (row / np.linalg.norm(row), -row / np.linalg.norm(row))
    gap = g[0] - g[1]
    tied = np.append([-gap[1], gap[0]], np.zeros(protocol.d - 2))  # the first two score the same, when d is 2
    yield from (np.zeros(protocol.d), -np.zeros(protocol.d), 1e300 * basis[0], 1e-300 * basis[0], tied)
    yield from (*basis, *-basis)
    yield from rng.standard_normal((6, protocol.d))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("K", "m", "b"), [(2, 1, 0.0), (16, 3, 1.0), (16, 15, 0.5), (64, 13, 1.0)])
@pytest.mark.parametrize("epsilon", [0.001, 1.0, 8.0])
@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning", "ignore:invalid value:RuntimeWarning")
def test_the_exact_law_is_epsilon_private_for_every_input_and_seed(seed, K, m, b, epsilon):
    mechanism = randomizer(epsilon, 1, K, m, b)
    laws = []
    for z in hostile_vectors(mechanism, seed):
        law = mechanism.law(seed, z)
        assert sum(law) == 1
        assert sum(p == mechanism.odds.top for p in law) == m
        laws.append(law)
    ratio = worst_ratio(laws)
    assert ratio > 1  # the inputs differ in what they report
    assert within(ratio, epsilon)
    assert math.log(ratio) >= epsilon - 1e-9  # and the budget is used


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0])
@pytest.mark.parametrize("degree", [0, 1])
def test_the_sizes_of_the_design_are_private(epsilon, degree):
    protocol = Protocol(n_features=4, epsilon=epsilon, degree=degree)
    mechanism = Randomizer(protocol)
    rng = np.random.default_rng([degree, round(100 * epsilon)])
    seed = int(rng.integers(0, 2**64, dtype=np.uint64))
    laws = [mechanism.law(seed, z) for z in rng.standard_normal((4, protocol.d))]
    assert within(worst_ratio(laws), epsilon)


def test_the_law_of_a_number_is_private_too():
    """A label between the bounds is rounded at random first: a mixture of two laws, within the same bound."""
    protocol = Protocol(n_features=2, epsilon=2.0, task="regression", label_bounds=(0, 1), K=8, m=2, b=0.0)
    mechanism = Randomizer(protocol)
    laws = []
    for x in ([0.0, 0.0], [0.5, -0.5], [-1.0, 0.0]):
        z = protocol.encode(x)
        up, down = mechanism.law(3, z), mechanism.law(3, -z)
        for y in (Fraction(0), Fraction(1, 3), Fraction(1)):
            laws.append([y * p + (1 - y) * q for p, q in zip(up, down, strict=True)])
    assert within(worst_ratio(laws), 2.0)


@settings(max_examples=400)
@given(st.floats(1e-3, 32.0), st.integers(2, 65_536), st.data())
def test_the_coins_never_exceed_epsilon(epsilon, K, data):
    """Within one coin of the best whole number, on the safe side."""
    m = data.draw(st.integers(1, K - 1))
    odds = Odds(epsilon, K, m)
    assert 0 < odds.threshold < COINS
    assert K * odds.rest < 1 < K * odds.top
    assert within(odds.top / odds.rest, epsilon)
    with mpmath.workdps(80):
        exact = mpmath.mpf(2) ** 64 * m / (m + (K - m) * mpmath.exp(-mpmath.mpf(epsilon)))
        assert odds.threshold == min(int(mpmath.floor(exact)), COINS - 1)


def test_the_decimal_settings_of_the_program_change_nothing():
    with decimal.localcontext(decimal.Context(prec=3, rounding=decimal.ROUND_CEILING)):
        assert Odds(1.0, 256, 53).threshold == Odds(1.0, 256, 53).threshold
        rough = Odds(1.0, 256, 53).threshold
    assert rough == Odds(1.0, 256, 53).threshold


def test_a_wrong_probability_is_seen():
    """The check above would fail for the coins of a larger epsilon."""
    wrong = Odds(1.0 / 0.7, 16, 3)
    assert not within(wrong.top / wrong.rest, 1.0)


@pytest.mark.parametrize("b", [0.0, 1.0])
def test_equal_scores_rank_by_index(b):
    mechanism = randomizer(K=16, m=5, b=b)
    assert np.flatnonzero(mechanism.top(9, np.zeros(mechanism.protocol.d))).tolist() == [0, 1, 2, 3, 4]


def test_scores_choose_the_top_group():
    mechanism = randomizer(K=64, m=7, b=1.0)
    z = np.array([0.5, 0.5, -0.5, 0.5])
    t = candidates(np.full(64, 11, np.uint64), np.arange(64), 4) @ z
    score = t + (t * t - 1) / math.sqrt(2)
    assert set(np.flatnonzero(mechanism.top(11, z))) == set(np.argsort(score)[-7:])
