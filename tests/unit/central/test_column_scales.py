"""Location and scale of columns: near the truth where rows tell it, harmless where they do not, always finite."""

import numpy as np
import pytest
import scipy.sparse as sp

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


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_thirty_columns_of_few_rows(adjacency):
    """The hard case: the noise of a count is a tenth of the rows, and still no column is far off."""
    rng = np.random.default_rng(1)
    X = rng.normal(3.0, 1.0, (600, 30)) * 2.0 ** rng.integers(-20, 20, 30)
    n = 1_500 if adjacency is Adjacency.ADD_REMOVE else 600
    off, ratio = offsets(X, released(X, adjacency=adjacency, n_samples=n, share=0.5))
    assert np.median(np.abs(off)) < 1.5
    assert (ratio > 0.1).all()
    assert np.median(ratio) < 4.0


def test_a_public_number_of_rows_may_be_off_by_much():
    X = np.column_stack(list(COLUMNS.values()))
    for n_public in (400, 40_000):
        off, ratio = offsets(X, released(X, adjacency=Adjacency.ADD_REMOVE, n_samples=n_public, epsilon=4.0))
        assert (np.abs(off) < 2.0).all(), off
        assert ((ratio > 0.25) & (ratio < 8.0)).all(), ratio


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


def test_constant_and_empty_columns_stay_small():
    X = np.column_stack([np.zeros(N), np.full(N, 7.0), np.random.default_rng(0).normal(50.0, 5.0, N)])
    found = released(X)
    scaled = (X - found.location) / found.scale
    assert (np.abs(scaled[:, :2]) < 2.0).all()


def test_sparse_and_dense_tables_are_counted_alike():
    rng = np.random.default_rng(0)
    X = np.where(rng.random((500, 4)) < 0.3, rng.normal(0.0, 100.0, (500, 4)), 0.0)
    dense, sparse = released(X, centred=False), released(sp.csr_array(X), centred=False)
    np.testing.assert_array_equal(dense.scale, sparse.scale)
    assert not dense.location.any()


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
