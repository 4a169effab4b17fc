"""The private scales of the labels: right within their noise, and within their public bounds."""

from functools import partial

import numpy as np
import pytest

from sottovoce.central.split import label_location_and_scale
from sottovoce.privacy.accounting import flatten
from sottovoce.privacy.adjacency import Adjacency, Neighbours
from sottovoce.privacy.events import GaussianEvent
from support.asking import answered
from support.many_parts import with_labels

ZERO = Neighbours(Adjacency.ZERO_OUT)


@pytest.mark.parametrize(("centre", "spread"), [(0.0, 1.0), (-30.0, 0.05), (17.0, 5.0)])
def test_location_and_scale(centre, spread):
    rng = np.random.default_rng(1)
    y = centre + spread * rng.normal(size=10_000)
    grid = 2 * 50.0 / 4096
    for seed in range(20):
        location, scale, event = release(y, seed, mu=0.1)
        assert abs(location - np.median(y)) <= grid + 0.1 * spread
        exact = np.quantile(np.abs(y - location), 0.9)
        assert 0.93 * exact <= scale <= exact * 2**0.5 * 1.07  # the next of the edges, two a factor of 2
        # 17 counts that together cost mu
        assert flatten(event) == {GaussianEvent(np.sqrt(17) / 0.1): 17}


def test_without_an_intercept_only_the_scale_is_released():
    rng = np.random.default_rng(1)
    location, scale, event = release(3 + rng.normal(size=10_000), 0, mu=0.1, located=False)
    assert location == 0.0
    assert 4.0 < scale < 7.0
    assert flatten(event) == {GaussianEvent(np.sqrt(5) / 0.1): 5}


def test_nothing_but_noise_stays_within_the_public_bounds():
    for seed in range(50):
        location, scale, _ = release(np.zeros(3), seed, mu=0.01)
        assert -50.0 <= location <= 50.0
        assert (50.0 + abs(location)) / 4096 <= scale <= 50.0 + abs(location)


def release(y, seed, mu, located=True):
    asks = partial(label_location_and_scale, len(y), 50.0, ZERO, mu, located=located)
    found = answered(asks, with_labels(y), seed)
    return *found.result, found.event
