"""A private model on a cluster of two workers, one of which dies in the middle, and the same model on one machine.

Run with ``python examples/cluster.py``; it needs ``pip install 'sottovoce[cluster]'`` and no data. The table is made
up: 200,000 people, eight columns, and whether they came back within a month. Random states are fixed so that models can
be compared; for one that protects somebody leave them out.
"""

import hashlib
import os
import signal
import tempfile
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from distributed import Client, LocalCluster

import sottovoce as sv
from sottovoce.cluster import DaskTable
from sottovoce.exceptions import PrivacyWarning

N_ROWS, N_FILES = 200_000, 8
NAMES = [f"x{k}" for k in range(8)]


def write(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Write the table as Parquet files, and return it."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (N_ROWS, len(NAMES))).astype(np.float32)
    y = X @ rng.standard_normal(len(NAMES)) + rng.standard_normal(N_ROWS) > 0
    for number, (rows, labels) in enumerate(zip(np.split(X, N_FILES), np.split(y, N_FILES), strict=True)):
        columns = {name: rows[:, k] for k, name in enumerate(NAMES)}
        pq.write_table(pa.table({**columns, "again": labels}), folder / f"people-{number}.parquet")
    return X, y


def model() -> sv.DPLogisticRegression:
    """Return an estimator that has not seen a row."""
    return sv.DPLogisticRegression(
        epsilon=1.0, delta=1e-7, data_norm=len(NAMES) ** 0.5, classes=[False, True], solver="scd", random_state=0
    )


def digest(fitted: sv.DPLogisticRegression) -> str:
    """Return a few digits that tell models apart."""
    return hashlib.sha256(fitted.coef_.tobytes() + fitted.intercept_.tobytes()).hexdigest()[:12]


def kill_a_worker(client: Client, after: float) -> threading.Timer:
    """End one of the processes that hold rows, some seconds from now."""
    process = min(client.run(os.getpid).values())
    killer = threading.Timer(after, os.kill, (process, signal.SIGKILL))
    killer.start()
    return killer


def main() -> None:
    """Train three times, and compare."""
    warnings.simplefilter("ignore", PrivacyWarning)  # one table is fitted three times on purpose
    with tempfile.TemporaryDirectory() as name:
        X, y = write(Path(name))
        alone = model().fit(X, y)
        print(f"one process        {digest(alone)}  accuracy {alone.score(X, y):.3f}")
        with (
            LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
            Client(cluster, set_as_default=False) as client,
            DaskTable.from_parquet(client, name, target="again") as table,
        ):
            print(table)
            start = time.perf_counter()
            whole = model().fit(table)
            seconds = time.perf_counter() - start
            print(f"two workers        {digest(whole)}  {whole.n_iter_} passes in {seconds:.1f} s")
            killer = kill_a_worker(client, after=seconds / 2)
            again = model().fit(table)
            killer.cancel()
            print(f"one of them died   {digest(again)}")
        assert digest(alone) == digest(whole) == digest(again)
        print(again.guarantee_.statement())


if __name__ == "__main__":
    main()
