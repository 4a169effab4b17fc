"""What can go wrong on a cluster of real processes: the same model, or an error in words. Nothing is counted twice.

A fit of half a hundred passes is disturbed from within: the driver tells after each operation how far it is. Workers
that are killed, and files that change, are in `test_s3_workers.py`.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

distributed = pytest.importorskip("distributed")

import sottovoce as sv  # noqa: E402
from sottovoce.cluster import DaskTable  # noqa: E402
from sottovoce.exceptions import ClusterError  # noqa: E402
from support.dask_processes import dask_processes  # noqa: E402
from support.faulty_sources import FatalSource, InlineSource  # noqa: E402
from support.pooled_table import inline  # noqa: E402

pytestmark = [
    pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="workers are stopped by signals of Unix"),
    pytest.mark.filterwarnings("ignore:this table was fitted privately before:sottovoce.exceptions.PrivacyWarning"),
]

ROWS, ENDS = 4000, (700, 1500, 2000, 3100)
HERE = {"PYTHONPATH": os.pathsep.join(sys.path)}
OTHER_PROCESS = """
import os, signal, sys
from distributed import Client
from test_faults import at, fitted, rows_of
with Client(sys.argv[1]) as client, rows_of(client) as table:
    table.told = at(int(sys.argv[2]), lambda: os.kill(os.getpid(), signal.SIGKILL))
    fitted(table)
"""


def rows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(11)
    X = rng.standard_normal((ROWS, 8))
    return X, np.where(X @ rng.standard_normal(8) + rng.standard_normal(ROWS) > 0, 1.0, 0.0)


def rows_of(client: Any, **options: Any) -> DaskTable:
    X, y = rows()
    return DaskTable(client, inline(X, y, ENDS), **options)


def fitted(table: Any, y: Any = None) -> Any:
    return sv.DPLogisticRegression(
        epsilon=1.0, delta=1e-6, data_norm=4.0, classes=[0.0, 1.0], solver="scd", solver_options={"n_passes": 50},
        random_state=3,
    ).fit(table, y)  # fmt: skip


def model_of(table: Any, y: Any = None) -> list[str]:
    model = fitted(table, y)
    return [float(value).hex() for value in (*np.ravel(model.coef_), *np.ravel(model.intercept_))]


@pytest.fixture(scope="module")
def truth() -> list[str]:
    """The model of an array in this process."""
    return model_of(*rows())


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Two workers whose nannies start them again."""
    with dask_processes(tmp_path_factory.mktemp("cluster"), 2, environment=HERE) as address:
        yield address


@pytest.fixture
def client(address: str) -> Iterator[Any]:
    with distributed.Client(address) as client:
        client.wait_for_workers(2, timeout=60)
        yield client


def pids(client: Any) -> list[int]:
    return sorted(client.run(os.getpid).values())


def at(number: int, do: Callable[[], object]) -> Callable[[Any], None]:
    """Do something once, after an operation of the fit."""

    def told(holder: Any) -> None:
        if holder.number == number:
            do()

    return told


@pytest.mark.parametrize("wakes_at", [22, None], ids=["in the middle", "afterwards"])
def test_a_worker_that_hangs_and_answers_late(client: Any, truth: list[str], wakes_at: int | None) -> None:
    """It is stopped, held to be lost, and goes on: nobody hears what it says of that, and a second fit takes it."""
    with rows_of(client, time_limit=5.0) as table:
        victim = pids(client)[wakes_at is None]
        signals = {20: signal.SIGSTOP, wakes_at: signal.SIGCONT}

        def told(holder: Any) -> None:
            if holder.number in signals:
                os.kill(victim, signals[holder.number])

        table.told = told
        try:
            assert model_of(table) == truth
        finally:
            os.kill(victim, signal.SIGCONT)
        assert table.partitions.n_rebuilt >= 2
        table.told = None
        assert model_of(table) == truth


def test_a_partition_that_kills_every_worker_that_reads_it(client: Any) -> None:
    X, y = rows()
    sources = [InlineSource(X[:2000], y[:2000]), FatalSource(X[2000:], y[2000:], first_row=2000)]
    with pytest.raises(ClusterError, match=r"partition 1 of 0 MiB was lost 3 times .*out of memory.*more memory"):
        DaskTable(client, sources, max_rebuilds=2, wait_for_workers=60.0)


def test_a_scheduler_that_is_killed(tmp_path: Path) -> None:
    with dask_processes(tmp_path, 1, environment=HERE) as to, distributed.Client(to, timeout=10) as client:
        scheduler = client.run_on_scheduler(os.getpid)
        with rows_of(client, time_limit=30.0) as table:
            table.told = at(20, lambda: os.kill(scheduler, signal.SIGKILL))
            with pytest.raises(ClusterError, match=r"the scheduler .* is gone or cannot be reached.*stays charged"):
                fitted(table)


def test_a_driver_that_is_killed(address: str, client: Any, truth: list[str], tmp_path: Path) -> None:
    """Its workers take the next fit, which begins anew. At other moments, and the charge: `tests/unit/cluster`."""
    (tmp_path / "driver.py").write_text(OTHER_PROCESS, encoding="utf-8")
    where = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    command = [sys.executable, str(tmp_path / "driver.py"), address, "12"]
    done = subprocess.run(command, env=where, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == -signal.SIGKILL, done.stderr[-3000:]
    with rows_of(client) as table:
        assert model_of(table) == truth
