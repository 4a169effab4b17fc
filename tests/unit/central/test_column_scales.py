"""Location and scale of columns and labels: near the truth where rows tell it, harmless else, always finite."""

from functools import partial

import numpy as np
import pytest

from sottovoce.central.column_scales import ColumnScalesPlan, column_scales
from sottovoce.central.split import label_location_and_scale
from sottovoce.privacy.accounting import flatten
from sottovoce.privacy.adjacency import Adjacency, Neighbours
from sottovoce.privacy.events import GaussianEvent, NothingReleased
from support.asking import answered, table_of
from support.many_parts import with_labels


def driven(X, *, seed=0, **changed):
    public = {"epsilon": 1.0, "delta": 1e-5, "adjacency": Adjacency.ZERO_OUT, "n_samples": X.shape[0]} | changed
    plan = ColumnScalesPlan(n_features=X.shape[1], **public)
    return answered(lambda: column_scales(plan), table_of(X), seed)


def released(X, **given):
    return driven(X, **given).result


def offsets(X, found):
    """Return the distances of locations in deviations, and the ratios of scales to deviations."""
    deviation = X.std(axis=0)
    return (found.location - X.mean(axis=0)) / deviation, found.scale / deviation


RNG = np.random.default_rng(0)
N = 4_000
COLUMNS = {
    "standard normal": RNG.normal(size=N),
    "uniform + 5": RNG.uniform(4.0, 6.0, N),
    "years": RNG.normal(1990.0, 10.0, N),
    "negative": RNG.normal(-3e6, 1e5, N),
    "tiny": RNG.normal(2e-9, 1e-9, N),
    "exponential": RNG.exponential(70.0, N),
    "zeros and ones": (RNG.random(N) < 0.4).astype(float),
    "rare ones": (RNG.random(N) < 0.05).astype(float),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("together", [False, True], ids=["alone", "together"])
def test_columns_are_found(together, seed):
    table = np.column_stack(list(COLUMNS.values()))
    for X in [table] if together else table.T[:, :, None]:
        off, ratio = offsets(X, released(X, seed=seed))
        assert (np.abs(off) < 1.2).all(), off
        assert ((ratio > 0.4) & (ratio < 4.5)).all(), ratio


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_finite_table_gives_finite_numbers(dtype, recwarn):
    most = float(np.finfo(dtype).max)
    worst = [0.0, -0.0, most, -most, float(np.finfo(dtype).tiny), float(np.nextafter(dtype(0), dtype(1)))]
    for value in worst:
        X = np.full((2_000, 3), value, dtype)
        X[::2, 1] = most
        X[::2, 2] *= -1
        for bounds in (None, ((-1e100,) * 3, (1e100,) * 3), ((0.0,) * 3, (1e-100,) * 3)):
            found = released(X, bounds=bounds)
            assert np.isfinite(found.location).all()
            assert (np.isfinite(found.scale) & (found.scale > 0.0)).all()
    assert not recwarn.list


def test_what_noise_hides_follows_the_columns_that_it_shows():
    """Rare ones among many: no column shows much by itself, all of them together do."""
    rng = np.random.default_rng(0)
    X = np.where(rng.random((3_000, 60)) < 0.1, rng.uniform(100.0, 120.0, (3_000, 60)), 0.0)
    scale = released(X).scale
    assert ((scale > 10.0) & (scale < 400.0)).all(), scale


def test_bounds_replace_the_first_round():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(40.0, 5.0, N), rng.normal(1e20, 1e18, N)])
    off, ratio = offsets(X, released(X, bounds=((0.0, 0.0), (100.0, 1e21))))
    assert (np.abs(off) < 1.0).all()
    assert ((ratio > 0.5) & (ratio < 2.0)).all()


def test_where_each_column_is_hidden_nothing_is_released():
    X = np.random.default_rng(0).normal(5.0, 1.0, (50, 400))
    run = driven(X)
    found = run.result
    assert run.event == NothingReleased()
    assert (found.location == 0.0).all() and (found.scale == 1.0).all()


def test_without_noise_the_counts_are_exact():
    X = np.column_stack(list(COLUMNS.values()))
    off, ratio = offsets(X, released(X, epsilon=np.inf, delta=0.0))
    assert (np.abs(off) < 1.0).all()
    assert ((ratio > 0.4) & (ratio < 4.0)).all()
    assert (released(X, epsilon=np.inf, delta=0.0, seed=1).scale == released(X, epsilon=np.inf, delta=0.0).scale).all()


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
