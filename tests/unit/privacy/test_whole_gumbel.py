"""Gumbel noise in ticks: rounding decides none. Its law is in ``tests/statistical/test_whole_noise.py``."""

import decimal
import math

import numpy as np
import pytest

from sottovoce.exceptions import ParameterError
from sottovoce.privacy.mechanisms import whole_gumbel as module
from sottovoce.privacy.mechanisms.whole_gumbel import LARGEST_SCALE, whole_gumbel


class Digits:
    """A source that gives these 53 binary digits first, and then those of a generator."""

    def __init__(self, digits, seed=0):
        self.first, self.rest = np.asarray(digits, dtype=np.int64), np.random.default_rng(seed)
        self.asked = 0

    def integers(self, high, size=None):
        if size is not None:
            return self.first
        self.asked += 1
        return self.rest.integers(high)


def exact(scale, digits, bits):
    """Return scale * G at V = digits / 2^bits, to 60 places."""
    with decimal.localcontext() as context:
        context.prec = 90
        return scale * -(-(1 - decimal.Decimal(digits) / 2**bits).ln()).ln()


@pytest.mark.parametrize("scale", [1, 2**20, 2**33, 2**44, LARGEST_SCALE])
def test_a_tick_that_is_settled_is_that_of_both_ends(scale):
    """Where no more digits were asked for, both ends of the interval of V lie in the tick, also to 60 places."""
    digits = np.random.default_rng(7).integers(1, 2**53 - 1, 50)
    for each in digits.tolist():
        source = Digits([each])
        drawn = int(whole_gumbel(scale, 1, source)[0])
        low, high = exact(scale, each + 1, 53), exact(scale, each, 53)
        assert math.floor(low) <= drawn <= math.floor(high)
        if not source.asked:
            assert math.floor(low) == math.floor(high) == drawn


def test_one_rule_with_more_digits_gives_the_same_ticks(monkeypatch):
    """Every draw by decimal arithmetic: where doubles had settled it, the further digits change nothing."""
    digits = np.random.default_rng(3).integers(0, 2**53, 300)
    quick = whole_gumbel(2**30, 300, Digits(digits, seed=5))
    monkeypatch.setattr(module, "_ROOM", 1.0)
    slow = whole_gumbel(2**30, 300, Digits(digits, seed=6))
    same = quick == slow
    assert same.sum() >= 297  # the others were settled by other digits
    assert np.abs(quick - slow)[~same].max(initial=0) <= 1


def test_the_ends_of_the_unit_interval_ask_for_more_digits():
    source = Digits([0, 2**53 - 1])
    high, low = whole_gumbel(1, 2, source)
    assert source.asked >= 2
    assert high >= 36  # V below 2^-53
    assert low < -3


@pytest.mark.parametrize("scale", [0, LARGEST_SCALE + 1, 1.5])
def test_scales_out_of_range_are_refused(scale):
    with pytest.raises(ParameterError, match="scale"):
        whole_gumbel(scale, 1, np.random.default_rng(0))
