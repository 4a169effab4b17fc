"""Location and scale of columns: near the truth where rows tell it, harmless where they do not, always finite."""

import numpy as np
import pytest

from sottovoce.central.column_scales import ColumnScalesPlan, column_scales
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.privacy.events import NothingReleased
from support.asking import answered, table_of


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
