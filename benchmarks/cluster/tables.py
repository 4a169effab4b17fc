"""Made-up tables for the scripts on clusters, as arrays and as Parquet; seconds of one pass; bytes on the wire."""

import hashlib
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import distributed
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sottovoce as sv

SHORT = 2  # passes of the shorter of two fits


def made_up(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of norm 1 in float32, and labels that a line explains in part."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d), dtype=np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = X @ rng.standard_normal(d).astype(np.float32) + 0.5 * rng.standard_normal(n, dtype=np.float32) > 0
    return X, y.astype(np.int8)


def write_parquet(folder: Path, X: np.ndarray, y: np.ndarray, *, files: int, group: int) -> Path:
    """Write the same table as some files with row groups of a size."""
    folder.mkdir()
    bounds = np.linspace(0, len(X), files + 1).astype(int)
    for number, (lo, hi) in enumerate(pairwise(bounds)):
        columns = {f"x{k}": X[lo:hi, k] for k in range(X.shape[1])}
        pq.write_table(pa.table({**columns, "y": y[lo:hi]}), folder / f"{number:03}.parquet", row_group_size=group)
    return folder


def fitted(kind: type, X: Any, y: Any = None, **options: Any) -> Any:
    """Return a model of a seed, the same for the same rows wherever they are."""
    warnings.simplefilter("ignore", sv.exceptions.PrivacyWarning)  # one table is fitted many times on purpose
    public = {"label_bounds": (0, 1)} if kind is sv.DPRidge else {"classes": [0, 1]}
    model = kind(epsilon=1.0, delta=1e-8, data_norm=1.0, random_state=0, **public, **options)
    return model.fit(X) if y is None else model.fit(X, y)


def hashed(model: Any) -> str:
    """Return the first 8 digits of the hash of a model."""
    return hashlib.sha256(model.coef_.tobytes() + np.asarray(model.intercept_).tobytes()).hexdigest()[:8]


class Timed(NamedTuple):
    """One pass of a fit: seconds, seconds of processors, and the hash of the model."""

    seconds: float
    cpu: float
    model: str


def timed_pass(X: Any, y: Any, long: int, cpu: Callable[[], float] = time.process_time) -> Timed:
    """Return what one pass takes: the difference of two fits over that of their passes.

    Parameters
    ----------
    X, y
        As an estimator takes them.
    long : int
        Passes of the longer fit.
    cpu : callable
        Returns the seconds of processors used so far, by all processes that take part.
    """

    def fit(n_passes: int) -> tuple[float, float, Any]:
        start, used = time.perf_counter(), cpu()
        model = fitted(sv.DPLogisticRegression, X, y, solver="scd", solver_options={"n_passes": n_passes})
        return time.perf_counter() - start, cpu() - used, model

    (short, short_cpu, _), (whole, whole_cpu, model) = fit(SHORT), fit(long)
    return Timed((whole - short) / (long - SHORT), (whole_cpu - short_cpu) / (long - SHORT), hashed(model))


def cpu_of(client: Any) -> Callable[[], float]:
    """Return what counts the seconds of processors of this process and of all workers."""
    return lambda: time.process_time() + sum(client.run(time.process_time).values())


@contextmanager
def local_cluster(n_workers: int) -> Iterator[Any]:
    """Yield a client of worker processes with one thread each."""
    with (
        distributed.LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


@dataclass
class Wire:
    """Bytes that this process has sent and been sent."""

    sent: int = 0
    received: int = 0


@contextmanager
def counted() -> Iterator[Wire]:
    """Count what this process says and hears over Dask's connections, without the few bytes of its framing."""
    from distributed.comm import tcp

    wire, write, parse = Wire(), tcp.TCP.write, tcp.from_frames

    async def counted_write(self: Any, *arguments: Any, **settings: Any) -> int:
        n_bytes: int = await write(self, *arguments, **settings)
        wire.sent += n_bytes
        return n_bytes

    async def counted_parse(frames: Any, *arguments: Any, **settings: Any) -> Any:
        parts = frames if isinstance(frames, (list, tuple)) else [frames]
        wire.received += sum(memoryview(part).nbytes for part in parts)
        return await parse(frames, *arguments, **settings)

    tcp.TCP.write, tcp.from_frames = counted_write, counted_parse  # type: ignore[method-assign]
    try:
        yield wire
    finally:
        tcp.TCP.write, tcp.from_frames = write, parse  # type: ignore[method-assign]
