"""Workers as processes of their own, one killed in the middle: the model of one array, bit by bit."""

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.base import clone

import sottovoce as sv
from sottovoce.cluster import DaskTable
from sottovoce.cluster.holder import ClusterHolder
from support.dask_workers import dask_workers

N, D = 4000, 8
_RNG = np.random.default_rng(1)
X = _RNG.uniform(-1.0, 1.0, (N, D)).astype(np.float32)
NAMES = [f"x{k}" for k in range(D)]
LABELS: dict[str, np.ndarray] = {
    "yes": np.where(X[:, 0] + 0.3 * X[:, 1] > 0.1, "yes", "no"),
    "kind": np.argmax(X[:, :3], axis=1),
    "value": np.clip(X @ np.linspace(-1.0, 1.0, D), -2.0, 2.0),
}
GIVEN: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "data_norm": 2.0, "random_state": 0}
MODELS: dict[str, Any] = {
    "yes": sv.DPLogisticRegression(classes=["no", "yes"], solver="scd", **GIVEN),
    "kind": sv.DPLinearSVC(classes=[0, 1, 2], solver="scd", **GIVEN),
    "value": sv.DPRidge(label_bounds=(-2.0, 2.0), solver="refinement", **GIVEN),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files of several row groups."""
    folder: Path = tmp_path_factory.mktemp("rows")
    for k, rows in enumerate((slice(0, 1500), slice(1500, N))):
        columns = dict(zip(NAMES, X[rows].T, strict=True)) | {name: y[rows] for name, y in LABELS.items()}
        pq.write_table(pa.table(columns), folder / f"{k}.parquet", row_group_size=300)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_workers", "targets", "storage"), [(1, ["yes"], "memory"), (2, list(MODELS), "scratch"), (4, ["yes"], "memory")]
)
def test_the_same_model(folder: Path, n_workers: int, targets: list[str], storage: str) -> None:
    """Where there are several workers, one is killed in the middle; a second fit has all partitions, too."""
    with dask_workers(n_workers, processes=True) as client:
        for target in targets:
            pids, expected = client.run(os.getpid), clone(MODELS[target]).fit(X, LABELS[target])
            with DaskTable.from_parquet(
                client, folder, features=NAMES, target=target, partitions=n_workers + 3, storage=storage
            ) as table:

                def told(holder: ClusterHolder, pids: dict[str, int] = pids) -> None:
                    if holder.number == 12 and n_workers > 1:
                        os.kill(pids[table.partitions.worker_of(1)], signal.SIGKILL)

                table.told = told
                assert table.partitions.n_workers == n_workers
                for _ in range(2):
                    fitted = clone(MODELS[target]).fit(table)
                    np.testing.assert_array_equal(fitted.coef_, expected.coef_)
                    np.testing.assert_array_equal(fitted.intercept_, expected.intercept_)
                    table.told = None
                assert (table.partitions.n_rebuilt > 0) == (n_workers > 1)
            client.wait_for_workers(n_workers, timeout=60)
