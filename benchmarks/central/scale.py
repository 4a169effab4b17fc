"""Default fits of a table that grows until it fills the disk and not the memory, beside pyarrow that only reads it.

    python -m benchmarks.central.scale [--docs] [--quick] [--rows 100000000] [--columns 50] [--folder DIR]

Writes a hundred Parquet files (float32), which stay in ``--folder`` for later runs where that is given, and fits the
first of them, ten and all: from Parquet with what is remembered of rows on disk, by two Dask workers of one thread that
do the same, and, but for the largest, from a memory map and an array. Each fit has a process of its own. A pass is the
fit over the number of times that it reads the rows, and stands beside pyarrow that reads the same files before and
after, in seconds and in seconds of processors. Memory is the peak of what is no file's (RssAnon), all processes, with
interpreters and libraries.
"""

import json
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sottovoce as sv
from benchmarks.cluster.tables import cpu_of, hashed, local_cluster
from benchmarks.driver import HIDDEN, benchmark, option
from sottovoce.cluster import DaskTable
from sottovoce.exceptions import PrivacyWarning

FILES, GROUP = 100, 100_000
WAYS = {
    "array": "array in memory", "npy": ".npy, memory map", "parquet": "Parquet", "cluster": "Parquet, two workers",
}  # fmt: skip


def write(path: Path, seed: int, n: int, d: int) -> None:
    rng, direction = np.random.default_rng(seed), np.random.default_rng(0).standard_normal(d, dtype=np.float32)
    schema = pa.schema([(f"x{k}", pa.float32()) for k in range(d)] + [("y", pa.int8())])
    with pq.ParquetWriter(part := path.with_suffix(".part"), schema, use_dictionary=False) as writer:
        for lo in range(0, n, GROUP):
            X = rng.standard_normal((min(GROUP, n - lo), d), dtype=np.float32)
            X /= np.linalg.norm(X, axis=1, keepdims=True)
            y = np.where(X @ direction + rng.standard_normal(len(X), dtype=np.float32) > 0, 1, -1).astype(np.int8)
            writer.write_batch(pa.record_batch([*np.ascontiguousarray(X.T), y], schema=schema))
    part.replace(path)


def read(paths: Sequence[Path]) -> None:
    for path in paths:
        with pq.ParquetFile(path) as file:
            for _ in file.iter_batches(1 << 14):
                pass


class Counted(sv.ParquetTable):
    """A table that counts how often it was read."""

    readings = 0

    def blocks(self, *args, **kwargs):
        Counted.readings += 1
        yield from super().blocks(*args, **kwargs)


def seconds(task: Callable[[], object], cpu: Callable[[], float] = time.process_time) -> np.ndarray:
    """Return the seconds of a task, and those of processors."""
    start, used = time.perf_counter(), cpu()
    task()
    return np.array([time.perf_counter() - start, cpu() - used])


@contextmanager
def peak_of(processes: Sequence[int]) -> Iterator[list[float]]:
    """Yield a list of one number: the most memory that is no file's, of these processes together, in MB."""
    peak, done = [0.0], threading.Event()

    def held(process: int) -> float:
        text = Path(f"/proc/{process}/status").read_text(encoding="ascii")
        return int(next(line.split()[1] for line in text.splitlines() if line.startswith("RssAnon:"))) / 1e3

    def watch() -> None:
        while not done.wait(0.05):
            peak[0] = max(peak[0], sum(map(held, processes)))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield peak
    finally:
        done.set()
        watcher.join()


def child(way: str, paths: list[Path], steps: int | None) -> dict[str, object]:
    """Fit files, and return what it took."""
    warnings.simplefilter("ignore", PrivacyWarning)  # about the seed
    with ExitStack() as stack:
        client = stack.enter_context(local_cluster(2)) if way == "cluster" else None
        cpu = cpu_of(client) if client else time.process_time

        def opened(paths: list[Path]):
            """Return X and y as an estimator takes them."""
            if client:
                table = DaskTable.from_parquet(client, paths, target="y", storage="scratch")
                return stack.enter_context(table), None
            table = Counted(paths, target="y", row_memory="disk", scratch=paths[0].parent)
            if way == "parquet":
                return table, None
            X = table.to_npy(stack.enter_context(NamedTemporaryFile(dir=paths[0].parent, suffix=".npy")).name)
            return np.array(X) if way == "array" else X, table.labels()

        def fit() -> None:
            model.fit(X) if y is None else model.fit(X, y)

        few = {"solver": "newton", "solver_options": {"n_passes": steps}} if steps else {}
        model = sv.DPLogisticRegression(epsilon=1.0, delta=1e-10, data_norm=1.0, classes=[-1, 1], random_state=0, **few)
        X, y = opened(paths[:1])
        fit()  # compiles
        with peak_of([os.getpid(), *(client.run(os.getpid).values() if client else ())]) as peak:
            before = seconds(lambda: read(paths))
            peak[0] = Counted.readings = 0
            start = time.perf_counter()
            X, y = opened(paths)
            opening = time.perf_counter() - start
            took = seconds(fit, cpu)
            memory = peak[0]
        reading = (before + seconds(lambda: read(paths))) / 2
        return {
            "opening": opening, "fit": took, "reading": reading, "readings": Counted.readings, "memory": memory,
            "model": hashed(model),
        }  # fmt: skip


def measured(run, folder: Path) -> Iterator[tuple]:
    n = run.rows // FILES
    paths = [folder / f"{n}-{run.columns}-{k:03}.parquet" for k in range(FILES)]
    for k, path in enumerate(paths):
        if not path.exists():
            write(path, k + 1, n, run.columns)
    for count in (1,) if run.quick else (1, 10, FILES):
        found = {}
        for way in run.only.split(","):
            if count == FILES and way in ("array", "npy"):
                continue
            few = ("--steps", run.steps) if run.steps else ()
            told = json.loads(run.again("--child", way, "--files", ",".join(map(str, paths[:count])), *few))
            found[way] = told
            readings = found["parquet"]["readings"]  # the others read as often
            a_pass, reading = np.array(told["fit"]) / readings, np.array(told["reading"])
            yield (
                count * n, WAYS[way], sum(path.stat().st_size for path in paths[:count]) / 1e9, *reading, readings,
                *a_pass, *(a_pass / reading), told["opening"], *told["fit"], told["memory"],
            )  # fmt: skip
        run.keep(f"scale-{count * n}", found)
        if len({told["model"] for told in found.values()}) > 1:
            sys.exit("the models differ")


@benchmark(
    page="measured/large_tables.md", rows=(100_000_000, 200_000), columns=50,
    steps=option(type=int, help="Newton steps, in place of those of a default fit"),
    only=option("parquet,cluster,npy,array", help="ways to read; Parquet first"),
    folder=option(type=Path, help="where files are and stay: 4 bytes an entry, and some 50 a row"),
    child=option(help=HIDDEN, choices=WAYS), files=option(help=HIDDEN),
)  # fmt: skip
def main(run) -> None:
    if run.child:
        told = child(run.child, [Path(name) for name in run.files.split(",")], run.steps)
        print(json.dumps(told, default=np.ndarray.tolist))
        return
    with TemporaryDirectory() as temporary:
        head = (
            "rows|,", "rows are in", "GB|.1f", "pyarrow reads it, s|.2f", "CPU s|.2f", "passes", "a pass, s|.2f",
            "CPU s|.2f", "ratio|.2f", "ratio of CPU|.2f", "open, s|.1f", "fit, s|,.0f", "CPU s|,.0f", "memory, MB|,.0f",
        )  # fmt: skip
        run.table("from disk", head, measured(run, run.folder or Path(temporary)), mark="scale", width=180)
