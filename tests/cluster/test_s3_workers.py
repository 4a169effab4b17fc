"""Workers as processes that read S3, die, and read again; the server that speaks S3 is on this machine."""

import os
import signal

import numpy as np
import pyarrow as pa
import pytest
from pyarrow.fs import S3FileSystem

import sottovoce as sv
from sottovoce.exceptions import TableError
from support.s3_store import put, s3_store

pytest.importorskip("distributed")

X = np.random.default_rng(0).uniform(-1.0, 1.0, (4000, 5)).astype(np.float32)
Y = (X.sum(axis=1) > 0.0).astype(np.int64)
NAMES = [f"x{k}" for k in range(5)]
PUBLIC = {
    "epsilon": 1.0, "delta": 1e-7, "data_norm": 2.0, "classes": [0, 1], "solver": "scd", "random_state": 0,
    "solver_options": {"n_passes": 20},
}  # fmt: skip


def rows(k: int, x: np.ndarray = X) -> pa.Table:
    part = slice(1000 * k, 1000 * k + 1000)
    return pa.table({**dict(zip(NAMES, x[part].T, strict=True)), "y": Y[part]})


def kill_one(table) -> None:
    """Kill the worker that holds the first rows."""
    worker = table.partitions.worker_of(0)
    pids = table.partitions.pool.client.run(os.getpid, workers=[worker], on_error="ignore")
    os.kill(pids[worker], signal.SIGKILL)


def test_workers_read_s3_again_when_one_dies_and_refuse_an_object_that_changed():
    from sottovoce.cluster import DaskTable
    from support.dask_workers import dask_workers

    with s3_store() as options, dask_workers(2, processes=True) as client:
        for k in range(4):
            put(options, f"people/t/{k}.parquet", rows(k), compression="none", row_group_size=500)
        here = sv.DPLogisticRegression(**PUBLIC).fit(X, Y)
        model = sv.DPLogisticRegression(**PUBLIC)
        table = DaskTable.from_parquet(
            client, "people/t", target="y", filesystem=S3FileSystem(**options), partitions=8, storage="scratch"
        )
        with table:
            model.fit(table)
            np.testing.assert_array_equal(model.coef_, here.coef_)
            kill_one(table)
            model.fit(table)
            np.testing.assert_array_equal(model.coef_, here.coef_)
            assert table.partitions.n_rebuilt > 0
            np.testing.assert_array_equal(model.predict(table).compute(), here.predict(X))
            assert model.score(table) == here.score(X, Y)
            for k in range(4):  # other rows in objects of the same names and sizes
                put(options, f"people/t/{k}.parquet", rows(k, -X), compression="none", row_group_size=500)
            kill_one(table)
            with pytest.raises(TableError, match=r"s3://people/t/\d\.parquet: the file is not the one that was opened"):
                model.fit(table)
