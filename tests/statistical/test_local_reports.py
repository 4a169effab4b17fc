"""Reports of the device: they follow their stated law, keep epsilon, and say on average what they should.

Tests of chance accept above p = 1e-9 and reject below it, and are run on a device that is wrong on purpose too. All
random bytes come from seeded generators, so no outcome changes from run to run.
"""

import math
from functools import cached_property

import numpy as np
import pytest
from scipy.stats import chisquare

from sottovoce.local import CategoricalFeature, NumericFeature, Protocol, Randomizer
from sottovoce.local.cap import constants
from sottovoce.local.odds import Odds
from sottovoce.local.wire import parse, parse_many
from support.simulated_reports import candidates

LEVEL = 1e-9


class LazyOdds(Odds):
    """Coins of epsilon / 0.7, charged as epsilon."""

    @cached_property
    def threshold(self):
        return Odds(self.epsilon / 0.7, self.K, self.m).threshold


def device(protocol, seed, odds=Odds):
    mechanism = Randomizer(protocol)
    mechanism.odds = odds(protocol.epsilon, protocol.K, protocol.m)
    mechanism._random = np.random.default_rng(seed).bytes
    return mechanism


def indices(mechanism, x, y, n, token):
    """Return n draws for one seed, the first three of them through whole reports."""
    reports = [parse(mechanism.report(x, y, token=token), mechanism.protocol) for _ in range(3)]
    top = mechanism.top(reports[0].seed, mechanism._sign(y) * mechanism.protocol.encode(x))
    return np.array([report.index for report in reports] + [mechanism._draw(top) for _ in range(n - 3)])


def vector(**rest):
    return Protocol(
        **{"n_features": 2, "completion": "slack", "intercept": 0.0, "epsilon": 1.0, "K": 8, "m": 3, "b": 1.0, **rest}
    )


@pytest.mark.parametrize(("K", "m"), [(8, 3), (5, 4), (3, 1)])
def test_the_sampler_follows_the_stated_law(K, m):
    n = 15_000
    protocol = vector(K=K, m=m)
    x, token = [0.4, -0.3], b"one"
    seed = parse(Randomizer(protocol).report(x, 1, token=token), protocol).seed
    law = Randomizer(protocol).law(seed, protocol.encode(x))
    expected = n * np.array([float(p) for p in law])
    right = np.bincount(indices(device(protocol, 1), x, 1, n, token), minlength=K)
    wrong = np.bincount(indices(device(protocol, 1, LazyOdds), x, 1, n, token), minlength=K)
    assert chisquare(right, expected).pvalue > LEVEL
    assert chisquare(wrong, expected).pvalue < LEVEL


def test_the_uniform_choice_in_a_group_rejects():
    """Values beyond the last whole multiple of the group's size are drawn again, never folded."""
    mechanism = Randomizer(vector())
    for size in (3, 5, 65_535):
        last = 2**32 - 2**32 % size
        mechanism._random = iter_bytes([2**32 - 1, last, last - 1])
        assert mechanism._below(size) == size - 1
        mechanism._random = iter_bytes([size + 1])
        assert mechanism._below(size) == 1
    mechanism._random = iter_bytes([2**32 - 1])
    assert mechanism._below(4) == 3


def iter_bytes(values):
    rest = iter(values)
    return lambda size: next(rest).to_bytes(size, "little")


def test_the_coin_is_compared_as_a_whole_number():
    mechanism = Randomizer(vector())
    top = np.array([False, True, False, True, False, False, False, True])
    threshold = mechanism.odds.threshold
    for coin, choice, index in ((threshold - 1, 0, 1), (threshold - 1, 2, 7), (threshold, 0, 0), (threshold, 4, 6)):
        mechanism._random = iter_bytes([coin, choice])
        assert mechanism._draw(top) == index


def test_the_bytes_are_those_of_the_operating_system():
    mechanism = Randomizer(vector())
    assert mechanism._random is __import__("os").urandom
    seeds = {parse(mechanism.report([0.1, 0.1], 1), mechanism.protocol).seed for _ in range(200)}
    assert len(seeds) == 200
    assert np.bitwise_or.reduce([np.uint64(seed) for seed in seeds]) == 2**64 - 1


def moments(g, protocol):
    A = constants(protocol.epsilon, protocol.K, protocol.m, protocol.b).A
    return g.mean(axis=0) / A[0], (g.T @ g / len(g) - np.eye(protocol.d)) / A[1]


def test_a_number_is_rounded_without_bias():
    """z = s x~ with E s = y on the scale of the bounds: E z = E y x~ and E zz' = E x~x~'."""
    n = 5000
    rng = np.random.default_rng(3)
    features = [NumericFeature("size", 0, 10), CategoricalFeature("place", ["a", "b"])]
    protocol = Protocol(features=features, task="regression", label_bounds=(-3, 5), epsilon=4.0, K=16, m=2, b=0.5)
    sizes, places = rng.uniform(0, 10, n), rng.choice(["a", "b"], n)
    y = np.clip(0.5 * sizes + (places == "a") - 2, -3, 5)
    mechanism = device(protocol, 6)
    records = [{"size": size, "place": str(place)} for size, place in zip(sizes, places, strict=True)]
    raw = b"".join(mechanism.report(record, label) for record, label in zip(records, y.tolist(), strict=True))
    seeds, chosen, _ = parse_many(raw, protocol)
    g = candidates(seeds, chosen, protocol.d)
    rows = protocol.encode_many(records)
    A = constants(protocol.epsilon, protocol.K, protocol.m, protocol.b).A
    first, second = moments(g, protocol)
    target = (rows * ((y + 3) / 4 - 1)[:, None]).mean(axis=0)
    assert (np.abs(first - target) < 4.5 * g.std(axis=0) / A[0] / math.sqrt(n)).all()
    assert np.abs(first - target).max() < 0.2 * np.abs(target).max()
    assert (np.abs(second - rows.T @ rows / n) < 4.5 * np.sqrt((g**2).T @ g**2 / n) / A[1] / math.sqrt(n)).all()


@pytest.mark.parametrize("coin", [0, 2**64 - 1])
def test_labels_at_the_bounds_are_never_rounded_away(coin):
    protocol = vector(task="regression", label_bounds=(0, 1), n_features=2)
    mechanism = Randomizer(protocol)
    for y, sign in ((0, -1.0), (1, 1.0), (-5, -1.0), (5, 1.0)):
        mechanism._random = iter_bytes([coin])
        assert mechanism._sign(y) == sign
