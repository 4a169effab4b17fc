"""Seeds, threads, storage and row order: what may and what may not change a result."""

from contextlib import ExitStack

import numpy as np
import pytest
import scipy.sparse as sp
from threadpoolctl import threadpool_info, threadpool_limits

import sottovoce as sv
from sottovoce.central.parallel import one_blas_thread, team
from sottovoce.central.sums.whole_gram import _PIECE, Products
from sottovoce.exceptions import ParameterError
from sottovoce.privacy.mechanisms.gaussian import GridGaussian
from support.solvers import solved

rng = np.random.default_rng(0)
X = rng.normal(size=(3000, 120))
X /= np.linalg.norm(X, axis=1, keepdims=True)
Y = np.where(X[:, 0] + 0.1 * rng.normal(size=3000) > 0, 1, -1)
# sampled steps are calibrated here, not judged: tests/contracts/test_accountants.py
pytestmark = pytest.mark.usefixtures("coarse_losses")


def fit(X=X, y=Y, **changed):
    parameters = {"epsilon": 1.0, "delta": 1e-5, "data_norm": 1.0, "classes": [-1, 1], "random_state": 7, **changed}
    return sv.DPLogisticRegression(**parameters).fit(X, y)


@pytest.mark.parametrize("solver", ["scd", "newton", "Minibatch"])
def test_a_seed_repeats_and_no_seed_does_not(solver):
    options = solved(solver, {"epochs": 3.0} if solver == "Minibatch" else {"n_passes": 20})
    np.testing.assert_array_equal(fit(**options).coef_, fit(**options).coef_)
    assert not np.array_equal(fit(**options).coef_, fit(**options, random_state=8).coef_)
    first, second = (fit(**options, random_state=None).coef_ for _ in range(2))
    assert not np.array_equal(first, second)


THREADED = {
    "scd": {"n_passes": 20}, "newton": {"n_passes": 20}, "momentum": None, "sgd": {"batch_size": 2900, "epochs": 3},
    "Primal": {"block_size": 60, "epochs": 2}, "multinomial-scd": {"n_passes": 20}, "steps": None,
}  # fmt: skip


@pytest.mark.parametrize("solver", THREADED)
@pytest.mark.parametrize("matrix", [np.asarray, lambda X: sp.csr_matrix(X, dtype=np.float32)], ids=["dense", "sparse"])
def test_the_number_of_threads_and_the_order_of_the_rows_change_nothing(matrix, solver, monkeypatch):
    """The sums are sums of whole numbers: exact in any order."""
    monkeypatch.setattr("sottovoce.central.parallel._SMALL", 1)
    given, several = (
        solved("auto" if solver == "steps" else solver, THREADED[solver]),
        solver in ("multinomial-scd", "steps"),
    )
    y, classes = (np.digitize(X[:, 0], [-0.05, 0.05]), [0, 1, 2]) if several else (Y, [-1, 1])
    rows = [np.arange(len(y)), *[np.random.default_rng(1).permutation(len(y))] * (solver not in ("sgd", "Primal"))]
    results = []
    for threads in ("1", "5"):
        monkeypatch.setenv("SOTTOVOCE_NUM_THREADS", threads)
        results += [fit(matrix(X[order]), y[order], classes=classes, **given).coef_ for order in rows]
    for other in results:
        np.testing.assert_array_equal(other, results[0])


def test_float32_is_close_to_float64():
    double, single = (fit(X.astype(kind), solver_options={"n_passes": 20}).coef_ for kind in (np.float64, np.float32))
    np.testing.assert_allclose(single, double, rtol=1e-2, atol=1e-3 * np.abs(double).max())


def test_bad_number_of_threads(monkeypatch):
    monkeypatch.setenv("SOTTOVOCE_NUM_THREADS", "many")
    with pytest.raises(ParameterError, match="SOTTOVOCE_NUM_THREADS must be a whole number >= 1; got 'many'"), team():
        pass


def test_an_error_in_a_thread_is_raised():
    def task(part, lo, hi):
        raise RuntimeError(f"part {part}")

    with team(2) as crew, pytest.raises(RuntimeError, match="part"):
        crew.run(task, crew.split(100, 1e9))


@pytest.mark.parametrize("width", [30, 300])
def test_products_take_one_thread_while_ours_work_and_as_many_as_before_afterwards(width, monkeypatch):
    table, seen, multiply = np.tile(X, (1000 // width, 3))[:, :width], [], Products._multiply

    def threads():
        return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}

    def watched(adder):
        if adder._filled == _PIECE:  # what is left over is multiplied when ours have done
            seen.append(threads())
        multiply(adder)

    monkeypatch.setenv("SOTTOVOCE_NUM_THREADS", "2")
    monkeypatch.setattr(Products, "_multiply", watched)
    with threadpool_limits(2, "blas"):
        fit(table, np.resize([-1, 1], len(table)), solver="newton")
        assert all(found == {1} for found in seen) and seen
        assert threads() == {2}


def test_a_fit_beside_which_another_one_ends_is_as_alone(monkeypatch):
    """Of so many columns two threads of a product add up otherwise than one."""
    factors, release = np.random.default_rng(1).uniform(0.3, 0.6, (len(X), 250)), GridGaussian.release
    table = np.tile(X, 3)[:, :250] * factors
    with threadpool_limits(2, "blas"), ExitStack() as other:
        alone = fit(table, solver="newton").coef_
        other.enter_context(one_blas_thread())

        def ended(*given):
            other.close()
            return release(*given)

        monkeypatch.setattr(GridGaussian, "release", ended)
        np.testing.assert_array_equal(fit(table, solver="newton").coef_, alone)
        assert {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"} == {2}
