"""The block kernels against the same sums in numpy: every width around a whole vector, every count of rows."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit

from sottovoce._compiling import njit
from sottovoce.central.kernels import passes, whole
from sottovoce.central.kernels.calls import ScaledRows
from sottovoce.central.kernels.rows import BLOCK, CSR, MOST_TICKS, add_block, dot_block
from sottovoce.losses._compiled import sigmoid


@njit(cache=True)
def _dots(X, rows, count, w, out):
    dot_block(X, rows, count, w, out)


@njit(cache=True)
def _add(X, rows, count, factor, total):
    for _ in range(2):
        add_block(X, rows, count, factor, total)


def _block(rng, n, count):
    rows = np.full(BLOCK, -(10**6))
    rows[:count] = rng.integers(n, size=count)
    return rows


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize("width", [1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 90, 128])
def test_block_sums(dtype, sparse, width):
    rng = np.random.default_rng(width)
    X = rng.standard_normal((200, width)).astype(dtype)
    if sparse:
        X[rng.random(X.shape) < 0.7] = 0.0
    csr = sp.csr_array(X)
    kernel = CSR(csr.data, csr.indices, csr.indptr, width) if sparse else X
    w = rng.standard_normal(width).astype(dtype)
    for count in (1, 2, 3, 4, 5, 63, 64):
        rows = _block(rng, 200, count)
        chosen = rows[:count].copy()
        out = np.full(BLOCK, np.nan)
        _dots(kernel, rows, count, w, out)
        np.testing.assert_allclose(out[:count], X[chosen] @ w, rtol=0, atol=2e-5 if dtype == np.float32 else 1e-13)
        factor = np.full(BLOCK, np.nan, dtype)
        factor[:count] = rng.uniform(-(2**22), 2**22, count)
        cut = np.trunc(np.clip(factor[:count, None] * X[chosen], -MOST_TICKS, MOST_TICKS)).astype(np.int64)
        total = np.arange(width + 2 * BLOCK)  # what lies beside the sum stays as it is
        _add(kernel, rows, count, factor, total[BLOCK:-BLOCK])
        np.testing.assert_array_equal(total, np.arange(width + 2 * BLOCK) + 2 * np.pad(cut.sum(axis=0), BLOCK))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize("width", [3, 17])
@pytest.mark.parametrize("factor", [np.inf, -np.inf, np.nan, 3e38, 2.0**24, 2.0**25, -1e38])
def test_no_factor_and_no_entry_makes_an_entry_of_a_term_longer_than_its_bound(dtype, sparse, width, factor):
    X = np.array([[1.0, -1.0, 1e30], [0.5, 2.0, -1e-30]]).repeat(6, axis=1)[:, :width].astype(dtype)
    csr = sp.csr_array(X)
    kernel = CSR(csr.data, csr.indices, csr.indptr, width) if sparse else X
    rows, factors, total = np.zeros(BLOCK, np.int64), np.zeros(BLOCK, dtype), np.zeros(width, np.int64)
    rows[:2], factors[:2] = [0, 1], factor
    _add(kernel, rows, 2, factors, total)
    with np.errstate(over="ignore", invalid="ignore"):
        products = np.where(np.isnan(product := factors[:2, None] * X), MOST_TICKS, product)
    np.testing.assert_array_equal(total, 2 * np.clip(products, -MOST_TICKS, MOST_TICKS).astype(np.int64).sum(axis=0))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [3, 17])
def test_a_whole_block_of_the_longest_terms_does_not_wrap(dtype, width):
    # a clip is at most 2^24 ticks long: no honest term may be cut shorter
    assert MOST_TICKS >= 2**24
    X, total = np.ones((BLOCK, width), dtype), np.zeros(width, np.int64)
    _add(X, np.arange(BLOCK), BLOCK, np.full(BLOCK, np.inf, dtype), total)
    assert total.tolist() == [2 * BLOCK * MOST_TICKS] * width


@njit(cache=True)
def _sigmoids(u):
    for k in range(u.shape[0]):
        u[k] = sigmoid(u[k])


def test_sigmoid():
    u = np.concatenate([np.linspace(-700, 700, 20001), np.random.default_rng(0).normal(0, 4, 10**5), [0.0, 1e-300]])
    got = u.copy()
    _sigmoids(got)
    np.testing.assert_allclose(got, expit(u), rtol=1e-15, atol=0)
    ends = np.array([np.inf, 1e308, -np.inf, -1e308, -750.0])
    _sigmoids(ends)
    assert (ends[:2] == 1.0).all()
    assert ((ends[2:] >= 0.0) & (ends[2:] < 1e-300)).all()
    unknown = np.array([np.nan])
    _sigmoids(unknown)
    assert np.isnan(unknown[0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "width"), [(1, 1), (1, 9), (1, 40), (2, 9), (7, 3), (200, 17), (50, 700), (3, 0)])
def test_a_few_rows_in_numpy_are_what_the_kernels_make_of_them(n, width, dtype):
    """Bit by bit: a row is the same row in a small table and in a large one."""
    rng = np.random.default_rng([n, width])
    X = (rng.standard_normal((n, width)) * 10.0 ** rng.integers(-9, 9, (n, 1))).astype(dtype)
    X[rng.random((n, width)) < 0.2] = 0.0
    far = 150 if dtype is np.float64 else 25  # and rows that are nothing, or whose squares leave the doubles
    X[-1] *= dtype([1.0, 0.0, 10.0**-far, 10.0**far][n % 4])
    for lo, hi in ((0, n), (n // 3, n)):
        found, norms = np.zeros(n), np.zeros(n)
        passes.norms(X, lo, hi, found)
        passes._norms_dense(X.reshape(X.size), width, lo, hi, norms)
        assert found.tobytes() == norms.tobytes()
        scale, steps, expected = 1.0 / np.maximum(norms, 1e-300), np.empty((n, width)), np.empty((n, width))
        whole.fill(ScaledRows(X, scale, scale, 0.0), np.empty((hi - lo, 0)), 2.0**21, lo, hi, steps)
        whole._fill_dense(X, scale, 2.0**21, lo, hi, expected)
        assert steps[: hi - lo].tobytes() == expected[: hi - lo].tobytes()
