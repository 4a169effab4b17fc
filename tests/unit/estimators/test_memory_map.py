"""Memory-mapped arrays are used in place: no copy in fit and prediction, and an error where one would be needed."""

import mmap
import tracemalloc

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.central.data import part
from sottovoce.central.kernels import passes
from sottovoce.exceptions import DataError
from support.pairs import by_pairs

PUBLIC = {"epsilon": 1.0, "delta": 1e-6, "data_norm": 1.0, "random_state": 0, "solver_options": {"n_passes": 2}}


@pytest.fixture
def every_map_is_large(monkeypatch):
    monkeypatch.setattr(part, "_SMALL", 0)


def saved(path, array):
    """Write a .npy file and map it, read-only."""
    np.save(path, array)
    return np.load(path, mmap_mode="r")


def numbers(n=500, d=4, dtype=np.float32):
    rng = np.random.default_rng(1)
    X = rng.uniform(-0.5, 0.5, (n, d)).astype(dtype)
    return X, np.where(X[:, 0] > 0, 1, -1)


def peak(task):
    """Return the most memory in bytes that numpy and Python held at once during a task, over that before it."""
    tracemalloc.start()
    try:
        task()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("dtype", "make"), by_pairs([np.float32, np.float64], [np.asarray, np.memmap.view]))
def test_nothing_copies_the_matrix(tmp_path, make, dtype):
    rng = np.random.default_rng(1)
    n, d = 400_000 // np.dtype(dtype).itemsize, 240
    writing = np.lib.format.open_memmap(tmp_path / "x.npy", mode="w+", dtype=dtype, shape=(n, d))
    writing[:] = rng.uniform(-0.05, 0.05, d).astype(dtype)
    writing[:, 0] += rng.uniform(-0.1, 0.1, n).astype(dtype)
    y = np.where(writing[:, 0] > 0, 1, -1)
    writing.flush()
    del writing
    X = make(np.load(tmp_path / "x.npy", mmap_mode="r"))
    assert not X.flags.writeable
    classifier = sv.DPLogisticRegression(**PUBLIC, classes=[-1, 1])
    ridge = sv.DPRidge(**PUBLIC, label_bounds=(-1, 1))
    for model in (classifier, ridge):
        model.fit(X[:1000], y[:1000])  # compiles, which takes memory too
    # the bulk is 8,192 rows in double precision, 16 MB, for the largest eigenvalue
    for task in (lambda: classifier.fit(X, y), lambda: ridge.fit(X, y)):
        assert peak(task) < 35e6 < 0.4 * X.nbytes
    for task in (lambda: classifier.predict(X), lambda: classifier.predict_proba(X), lambda: ridge.predict(X)):
        assert peak(task) < 20e6 < 0.25 * X.nbytes


def test_what_a_row_costs():
    """The guide says: 48 bytes a row, beside the table and the labels."""
    n = 300_000
    X, y = numbers(n, 2)
    model = sv.DPLogisticRegression(**PUBLIC, classes=[-1, 1]).fit(X[:1000], y[:1000])
    assert peak(lambda: model.fit(X, y)) < 49 * n


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (np.asfortranarray, r"map of float32 \(.f4\) in Fortran order with 2,000 entries.*Write it once .*open_memmap"),
        (lambda X: (1000 * X).astype(np.int64), r"memory map of int64 \(.i8\) with 2,000 entries"),
        (lambda X: X.astype(np.float16), r"memory map of float16"),
        (lambda X: X.astype(X.dtype.newbyteorder()), r"memory map of float32 \(>f4\)"),
    ],
)
def test_a_map_that_would_be_copied_is_refused(tmp_path, change, message, every_map_is_large):
    X, y = numbers()
    mapped = saved(tmp_path / "x.npy", change(X))
    with pytest.raises(DataError, match=message):
        sv.DPLinearSVC(**PUBLIC, classes=[-1, 1]).fit(mapped, y)


def test_a_slice_of_a_map_is_used_where_its_rows_are_whole(tmp_path, every_map_is_large):
    X, y = numbers()
    mapped = saved(tmp_path / "x.npy", X)
    model = sv.DPLinearSVC(**PUBLIC, classes=[-1, 1])
    np.testing.assert_array_equal(model.fit(mapped[100:], y[100:]).coef_, model.fit(X[100:], y[100:]).coef_)
    for gaps in (mapped[:, :3], mapped[::2]):
        with pytest.raises(DataError, match="with gaps"):
            model.fit(gaps, y[: len(gaps)])


def test_a_map_of_any_making_is_known(tmp_path, every_map_is_large):
    X, y = numbers()
    np.asfortranarray(X).T.tofile(tmp_path / "x.raw")
    with (tmp_path / "x.raw").open("rb") as file:
        raw = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    mapped = np.frombuffer(raw, np.float32).reshape(X.shape, order="F")
    with pytest.raises(DataError, match="memory map of float32"):
        sv.DPLinearSVC(**PUBLIC, classes=[-1, 1]).fit(mapped, y)


def test_prediction_takes_any_order_but_not_any_type(tmp_path, every_map_is_large):
    X, y = numbers()
    model = sv.DPLinearSVC(**PUBLIC, classes=[-1, 1]).fit(X, y)
    fortran = saved(tmp_path / "f.npy", np.asfortranarray(X))
    np.testing.assert_allclose(model.decision_function(fortran), model.decision_function(X), rtol=1e-12)
    with pytest.raises(DataError, match="memory map of int64"):
        model.predict(saved(tmp_path / "i.npy", X.astype(np.int64)))


def test_a_small_map_is_converted_like_an_array(tmp_path):
    X, y = numbers()
    model = sv.DPLinearSVC(**PUBLIC, classes=[-1, 1])
    np.testing.assert_array_equal(
        model.fit(saved(tmp_path / "x.npy", np.asfortranarray(X)), y).coef_, model.fit(X, y).coef_
    )


@pytest.mark.parametrize("make", [np.asarray, np.memmap.view])
def test_a_map_needs_no_kernel_that_an_array_has_not(tmp_path, make):
    """Each is compiled for seconds."""
    X, y = numbers()
    model = sv.DPLogisticRegression(**PUBLIC, classes=[-1, 1])
    compiled = {}
    for rows in (X, make(saved(tmp_path / "x.npy", X))):
        model.fit(rows, y)
        now = {kernel: len(kernel.signatures) for kernel in vars(passes).values() if hasattr(kernel, "signatures")}
        assert now == (compiled or now)
        compiled = now
