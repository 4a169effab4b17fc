"""Estimators on a table of workers: the same model, bit by bit, as on one array, whatever the partitions are."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from distributed import Client

import sottovoce as sv
from sottovoce.cluster import DaskTable
from sottovoce.cluster.inline import InlineSource
from sottovoce.cluster.partitions import Partitions
from support.dask_workers import dask_workers
from support.parts_pool import PartsPool

N, D = 700, 6
_RNG = np.random.default_rng(5)
X = _RNG.uniform(-1.0, 1.0, (N, D)).astype(np.float32)
YES = np.where(X @ np.linspace(-1.0, 1.0, D) + 0.2 > 0.0, "yes", "no")
KIND = np.argmax(X[:, :3], axis=1)
VALUE = np.clip(X @ np.linspace(-1.0, 1.0, D) + 0.3, -2.0, 2.0)

GIVEN: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5, "data_norm": 2.0, "random_state": 3}
FITS: dict[str, tuple[Any, np.ndarray]] = {
    "logistic regression": (sv.DPLogisticRegression(classes=["no", "yes"], solver="scd", **GIVEN), YES),
    "logistic regression, Newton's": (sv.DPLogisticRegression(classes=["no", "yes"], solver="newton", **GIVEN), YES),
    "logistic regression, auto": (sv.DPLogisticRegression(classes=["no", "yes"], **GIVEN), YES),
    "weights by class": (
        sv.DPLogisticRegression(classes=["no", "yes"], class_weight={"no": 1.0, "yes": 2.0}, **GIVEN),
        YES,
    ),
    "several classes": (sv.DPLogisticRegression(classes=[0, 1, 2], **GIVEN), KIND),
    "several classes, one by one": (sv.DPLinearSVC(classes=[0, 1, 2], **GIVEN), KIND),
    "svc": (sv.DPLinearSVC(classes=["no", "yes"], **GIVEN), YES),
    "ridge": (sv.DPRidge(label_bounds=(-2.0, 2.0), **GIVEN), VALUE),
    "ridge, scd": (sv.DPRidge(label_bounds=(-2.0, 2.0), solver="scd", **GIVEN), VALUE),
    "ridge, sufficient statistics": (
        sv.DPRidge(label_bounds=(-2.0, 2.0), solver="adassp", **GIVEN),
        VALUE,
    ),
    "no intercept": (sv.DPLinearSVC(classes=["no", "yes"], fit_intercept=False, **GIVEN), YES),
    "released bound on rows": (
        sv.DPLogisticRegression(classes=["no", "yes"], **{**GIVEN, "data_norm": "auto"}),
        YES,
    ),
}


class Held:
    """Sources of a table cut at some rows."""

    def __init__(self, y: np.ndarray, ends: list[int], X: Any = X) -> None:
        edges = [0, *ends, len(y)]
        self.sources = [InlineSource(X[a:b], y[a:b], first_row=a) for a, b in itertools.pairwise(edges)]


class TableOfParts(DaskTable):
    """A DaskTable without Dask: its workers are those of a pool for tests."""

    def __init__(self, pool: PartsPool, y: np.ndarray, ends: list[int], X: Any = X) -> None:
        self.log = self.told = None
        self._prepare_rest(Partitions(pool, Held(y, ends, X).sources))


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """Two workers of one thread each."""
    with dask_workers(2) as client:
        yield client


def same(one: Any, other: Any) -> None:
    np.testing.assert_array_equal(one.coef_, other.coef_)
    np.testing.assert_array_equal(one.intercept_, other.intercept_)
    assert one.guarantee_.event == other.guarantee_.event


@pytest.mark.parametrize("name", FITS)
def test_the_same_model_as_in_memory(client, name):
    model, y = FITS[name]
    with DaskTable(client, Held(y, [101, 350, 351]).sources) as table:
        same(model.fit(table), type(model)(**model.get_params()).fit(X, y))
