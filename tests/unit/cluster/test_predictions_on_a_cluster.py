"""Predictions and scores where the rows are: the same bits as in memory, as arrays of Dask's."""

import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sottovoce as sv
from sottovoce.cluster.inline import InlineSource
from sottovoce.cluster.table import DaskTable
from sottovoce.exceptions import ClusterError, DataError, ParameterError

pytest.importorskip("distributed")

N, D = 9000, 20
X = np.random.default_rng(0).uniform(-1.0, 1.0, (N, D)).astype(np.float32)
NAMES = [f"x{k}" for k in range(D)]
BINARY = np.where(X[:, 0] + X[:, 1] > 0.0, "yes", "no")
THREE = np.argmax(X[:, :3], axis=1)
NUMBER = X @ np.linspace(-1.0, 1.0, D) + 0.1
PUBLIC = {"epsilon": 5.0, "delta": 1e-7, "data_norm": 5.0, "random_state": 0}


@pytest.fixture(scope="module")
def client():
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("files") / "t.parquet"
    columns = dict(zip(NAMES, X.T, strict=True))
    pq.write_table(
        pa.table({**columns, "binary": BINARY, "three": THREE, "number": NUMBER}), path, row_group_size=1100
    )
    return path


def opened(client, path, target, **options):
    return DaskTable.from_parquet(client, path, features=NAMES, target=target, **{"partitions": 4, **options})


CASES = {
    "two classes": (sv.DPLogisticRegression(**PUBLIC, classes=["no", "yes"]), "binary", BINARY),
    "three classes": (sv.DPLogisticRegression(**PUBLIC, classes=[0, 1, 2]), "three", THREE),
    "svc": (sv.DPLinearSVC(**PUBLIC, classes=["no", "yes"]), "binary", BINARY),
    "ridge": (sv.DPRidge(**PUBLIC, label_bounds=(-2.0, 2.0)), "number", NUMBER),
}


@pytest.mark.parametrize("storage", ["memory", "scratch", "file"])
@pytest.mark.parametrize("case", CASES)
def test_the_same_bits_as_in_memory(client, path, case, storage):
    import pandas as pd

    model, target, y = CASES[case]
    frame = pd.DataFrame(X, columns=NAMES)
    model.fit(frame, y)
    with opened(client, path, target, storage=storage) as table:
        for method in ("predict", "decision_function", "predict_proba", "predict_log_proba"):
            if not hasattr(model, method) or (case == "svc" and "proba" in method):
                continue
            expected, lazy = getattr(model, method)(frame), getattr(model, method)(table)
            assert (lazy.shape, lazy.dtype) == (expected.shape, expected.dtype)
            assert lazy.chunks[0] == tuple(facts.n_rows for facts in table.partitions.facts)
            np.testing.assert_array_equal(lazy.compute(), expected)
        assert model.score(table) == pytest.approx(model.score(frame, y), rel=1e-12, abs=0)
        assert model.score(sv.ParquetTable(path, features=NAMES, target=target)) == model.score(frame, y)
