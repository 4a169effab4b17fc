"""Estimators on a table of workers: the same model, bit by bit, as on one array, whatever the partitions are."""

import math
from collections.abc import Iterator
from itertools import count, pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from distributed import Client
from sklearn.base import clone
from threadpoolctl import threadpool_limits

import sottovoce as sv
from sottovoce.cluster import DaskTable
from sottovoce.exceptions import DataError, ParameterError, PrivacyWarning
from support.dask_workers import dask_workers
from support.faulty_sources import InlineSource
from support.parts_pool import PartsPool

N, D = 700, 6
_RNG = np.random.default_rng(5)
X = _RNG.uniform(-1.0, 1.0, (N, D)).astype(np.float32)
YES = np.where(X @ np.linspace(-1.0, 1.0, D) + 0.2 > 0.0, "yes", "no")
KIND = np.argmax(X[:, :3], axis=1)
VALUE = np.clip(X @ np.linspace(-1.0, 1.0, D) + 0.3, -2.0, 2.0)

GIVEN: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5, "data_norm": 2.0, "random_state": 3, "solver": "scd"}
FITS: dict[str, tuple[Any, np.ndarray]] = {
    "logistic regression": (sv.DPLogisticRegression(classes=["no", "yes"], **GIVEN), YES),
    "logistic regression, Newton's": (
        sv.DPLogisticRegression(classes=["no", "yes"], **GIVEN | {"solver": "newton"}),
        YES,
    ),
    "weights by class": (
        sv.DPLogisticRegression(classes=["no", "yes"], class_weight={"no": 1.0, "yes": 2.0}, **GIVEN),
        YES,
    ),
    "several classes": (sv.DPLogisticRegression(classes=[0, 1, 2], **GIVEN | {"solver": "multinomial-scd"}), KIND),
    "several classes, one by one": (sv.DPLinearSVC(classes=[0, 1, 2], **GIVEN), KIND),
    "svc": (sv.DPLinearSVC(classes=["no", "yes"], **GIVEN), YES),
    "ridge": (sv.DPRidge(label_bounds=(-2.0, 2.0), **GIVEN), VALUE),
    "ridge, refinement": (sv.DPRidge(label_bounds=(-2.0, 2.0), **GIVEN | {"solver": "refinement"}), VALUE),
    "ridge, sufficient statistics": (sv.DPRidge(label_bounds=(-2.0, 2.0), **GIVEN | {"solver": "adassp"}), VALUE),
    "no intercept": (sv.DPLinearSVC(classes=["no", "yes"], fit_intercept=False, **GIVEN), YES),
    "released bound on rows": (sv.DPLogisticRegression(classes=["no", "yes"], **{**GIVEN, "data_norm": "auto"}), YES),
}


class TableOfParts(DaskTable):
    """A DaskTable whose workers are those of a pool for tests."""

    def _pool(self, client: Any, time_limit: float) -> PartsPool:
        assert isinstance(client, PartsPool)
        return client


def sources(y: np.ndarray, ends: list[int], X: Any = X) -> list[InlineSource]:
    """Cut a table at some rows."""
    edges = [0, *ends, len(y)]
    return [InlineSource(X[a:b], y[a:b], first_row=a) for a, b in pairwise(edges)]


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """Two workers of one thread each."""
    with dask_workers(2) as client:
        yield client


def same(one: Any, other: Any) -> None:
    np.testing.assert_array_equal(one.coef_, other.coef_)
    np.testing.assert_array_equal(one.intercept_, other.intercept_)
    assert one.guarantee_.event == other.guarantee_.event


LONG = {"logistic regression", "several classes, one by one", "weights by class"}  # others do the same passes


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow if name in LONG else []) for name in FITS])
def test_the_same_model_on_any_partitions_with_workers_that_die(name):
    """One of them holds a single row; a worker dies at every seventh call, before it or after it."""
    model, y = FITS[name]
    calls = count()
    fates = dict.fromkeys(range(7, 10_000, 14), "before") | dict.fromkeys(range(14, 10_000, 14), "after")
    expected = clone(model).fit(X, y)
    for pool, ends in (
        (PartsPool(1), []),
        (PartsPool(3, lambda keeper, call: fates.get(next(calls), "done")), [101, 350, 351]),
    ):
        with TableOfParts(pool, sources(y, ends)) as table:
            same(clone(model).fit(table), expected)
    assert table.partitions.n_rebuilt > 3


def test_the_same_model_on_workers_of_dask(client):
    model, y = FITS["svc"]
    with DaskTable(client, sources(y, [101, 350, 351])) as table:
        first = clone(model).fit(table)
        assert table.partitions.n_workers == 2
        same(first, clone(model).fit(table))
    same(first, clone(model).fit(X, y))


@pytest.mark.parametrize("name", ["logistic regression, Newton's", "ridge, refinement"])
def test_the_same_model_where_products_have_several_threads(name):
    """Of so many columns a product of two threads is added up otherwise than one of a single thread."""
    model, y = FITS[name]
    rows = np.tile(X, 42)[:, :250] * np.random.default_rng(0).uniform(0.1, 0.2, (N, 250))
    with threadpool_limits(2, "blas"), TableOfParts(PartsPool(1), sources(y, [], rows)) as table:
        same(clone(model).fit(table), clone(model).fit(rows, y))


@pytest.mark.parametrize("name", ["svc", "ridge, refinement"])
def test_partitions_without_rows(name):
    """As a filtered data frame has them."""
    model, y = FITS[name]
    with TableOfParts(PartsPool(2), sources(y, [0, 300, 300, N])) as table:
        same(clone(model).fit(table), clone(model).fit(X, y))


def test_sparse_rows(client):
    rows = sp.csr_array(np.where(np.abs(X) > 0.7, X, 0.0).astype(np.float64))
    model, y = FITS["svc"]
    with TableOfParts(PartsPool(2), sources(y, [300], rows)) as table:
        same(clone(model).fit(table), clone(model).fit(rows, y))


def test_classes_that_no_list_names():
    """They are counted over all partitions, with the warning of a fit in memory."""
    model = sv.DPLinearSVC(**GIVEN)
    with TableOfParts(PartsPool(2), sources(np.sort(YES), [300])) as table:
        with pytest.warns(PrivacyWarning):
            fitted = clone(model).fit(table)
        assert fitted.classes_.tolist() == ["no", "yes"]


def test_errors_about_data_name_rows_of_the_whole_table():
    model, y = FITS["svc"]
    broken = X.copy()
    broken[[150, 400], 2] = np.nan
    with (
        TableOfParts(PartsPool(2), sources(y, [100, 200], broken), list("abcdef")) as table,
        pytest.raises(DataError, match=r"NaN: row 150, column 'c' \(2 row\(s\) hold NaN"),
    ):
        clone(model).fit(table)
    wrong = np.where(np.isin(np.arange(N), [250, 260]), "of", y)
    with (
        TableOfParts(PartsPool(2), sources(wrong, [100, 200])) as table,
        pytest.raises(DataError, match=r"label 'of' \(row 250, 2 row\(s\) in all\)"),
    ):
        clone(model).fit(table)


def test_what_tables_on_a_cluster_do_not_take():
    model, y = FITS["svc"]
    with TableOfParts(PartsPool(2), sources(y, [300])) as table:
        for refused, words in (
            (lambda: clone(model).fit(table, y), "y must be None"),
            (lambda: clone(model).set_params(solver="sgd").fit(table), "solver='sgd' needs all rows in one process"),
            (lambda: clone(model).set_params(epsilon=math.inf).fit(table), "needs all rows in one process"),
        ):
            with pytest.raises(ParameterError, match=words):
                refused()
    unlabelled = [InlineSource(X, None)]
    with TableOfParts(PartsPool(1), unlabelled) as table, pytest.raises(ParameterError, match="names no target"):
        clone(model).fit(table)
