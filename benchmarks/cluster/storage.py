"""A partition in a worker's memory or on its scratch disk: bytes a row, seconds to read, a pass.

    python -m benchmarks.cluster.storage [--docs] [--quick] [--rows 1000000] [--folder /tmp]

No cluster: each way is the code that a worker runs, in a process of its own for its memory (anonymous memory of the
process above what the libraries hold, at the peak of a fit), and then both in one process for times, in turns.
Memory is measured with all rows and with half of them: the difference is what a row takes, the rest is fixed.
A pass is timed as the difference of two fits that differ in their number of passes. Files are in the cache of the
system where it has room: then the figure is decoding and copying, not the disk.
"""

import hashlib
import json
import statistics
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sottovoce as sv
from benchmarks.driver import HIDDEN, benchmark, option
from sottovoce.cluster.sources import STORAGES, partitions_of
from sottovoce.exceptions import PrivacyWarning

D = 100
PIECE = 50_000
SHORT, LONG = 2, 10
WORDS = {"memory": "memory", "scratch": "scratch disk"}


def write(path: Path, n: int) -> None:
    """Write a table of rows of norm 1, a piece at a time."""
    rng = np.random.default_rng(0)
    direction = rng.standard_normal(D).astype(np.float32)
    schema = pa.schema([(f"x{k}", pa.float32()) for k in range(D)] + [("y", pa.int8())])
    with pq.ParquetWriter(path, schema) as writer:
        for lo in range(0, n, PIECE):
            piece = rng.standard_normal((min(PIECE, n - lo), D), dtype=np.float32)
            piece /= np.linalg.norm(piece, axis=1, keepdims=True)
            labels = (piece @ direction + 3.0 * rng.standard_normal(len(piece)) > 0).astype(np.int8)
            writer.write_batch(pa.record_batch([*piece.T.copy(), labels], schema=schema))


def loaded(path: Path, storage: str, folder: Path):
    """Read the table as one partition, and return it with the seconds that it took."""
    source, start = partitions_of(sv.ParquetTable(path, target="y"), [0], 1, storage)[0], time.perf_counter()
    rows = source.load(folder)
    return rows, time.perf_counter() - start


def fit(rows, n_passes: int):
    model = sv.DPLogisticRegression(
        epsilon=1.0, delta=1e-9, data_norm=1.0, classes=[0, 1], random_state=0, solver="scd",
        solver_options={"n_passes": n_passes},
    )  # fmt: skip
    start = time.perf_counter()
    model.fit(rows.raw, rows.labels)
    return model, time.perf_counter() - start


def anonymous() -> float:
    """Return the bytes of own memory of this process that are resident."""
    text = Path("/proc/self/status").read_text(encoding="ascii")
    return 1024.0 * int(next(line.split()[1] for line in text.splitlines() if line.startswith("RssAnon:")))


def child(path: Path, storage: str, folder: Path) -> None:
    """Print what one way takes of memory, and which model it gives."""
    tiny, _ = loaded(folder / "tiny.parquet", storage, folder)
    fit(tiny, SHORT)  # compiles and loads whatever is needed
    before = peak = anonymous()
    done = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.01):
            peak = max(peak, anonymous())

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    rows, seconds = loaded(path, storage, folder)
    held = anonymous() - before
    model, _ = fit(rows, SHORT)
    done.set()
    watcher.join()
    print(json.dumps({
        "held, bytes": held, "peak, bytes": peak - before,
        "scratch, bytes": rows.raw.size * rows.raw.dtype.itemsize if storage == "scratch" else 0,
        "read, s": seconds, "digest": rows.digest,
        "model": hashlib.sha256(model.coef_.tobytes() + model.intercept_.tobytes()).hexdigest(),
    }))  # fmt: skip


def passes(path: Path, folder: Path, repeats: int) -> dict[str, float]:
    ways = {storage: loaded(path, storage, folder)[0] for storage in STORAGES}
    for rows in ways.values():
        fit(rows, SHORT)
    times: dict[str, list[float]] = {storage: [] for storage in STORAGES}
    for _ in range(repeats):
        for storage, rows in ways.items():
            times[storage].append((fit(rows, LONG)[1] - fit(rows, SHORT)[1]) / (LONG - SHORT))
    return {storage: statistics.median(measured) for storage, measured in times.items()}


@benchmark(
    page="measured/cluster_data.md", rows=(1_000_000, 20_000),
    folder=option(type=Path, help="where to write; not a disk in memory"), child=option(help=HIDDEN, choices=STORAGES),
    file=option(help=HIDDEN),
)  # fmt: skip
def main(run) -> None:
    warnings.simplefilter("ignore", PrivacyWarning)  # many fits on one table: that is what is measured
    if run.child:
        child(run.folder / run.file, run.child, run.folder)
        return
    n = run.rows
    with tempfile.TemporaryDirectory(dir=run.folder) as name:
        folder = Path(name)
        for file, rows in (("t.parquet", n), ("half.parquet", n // 2), ("tiny.parquet", 2_000)):
            write(folder / file, rows)
        files = (folder / "t.parquet").stat().st_size
        taken, half = (
            {kind: json.loads(run.again("--child", kind, "--folder", name, "--file", file)) for kind in STORAGES}
            for file in ("t.parquet", "half.parquet")
        )
        seconds = passes(folder / "t.parquet", folder, 1 if run.quick else 3)
    head = (
        "rows are kept in", "memory a row, in a fit", "and fixed", "matrix on scratch disk", "read once, s|.1f",
        "a pass, s|.2f", "ratio|.1f", "same model",
    )  # fmt: skip
    rows = []
    for kind, row in taken.items():
        # peaks of two processes differ by some MB anyhow
        each = max(0.0, (row["peak, bytes"] - half[kind]["peak, bytes"]) / (n - n // 2))
        rows.append((
            WORDS[kind], f"{each:,.0f} bytes", f"{(row['peak, bytes'] - n * each) / 1e6:,.0f} MB",
            f"{row['scratch, bytes'] / n:,.0f} bytes", row["read, s"], seconds[kind],
            seconds[kind] / seconds["memory"], "yes" if row["model"] == taken["memory"]["model"] else "NO",
        ))  # fmt: skip
    title = f"{n:,} rows x {D} float32, {4 * D} bytes a row; Parquet {files / n:,.0f} bytes a row"
    run.table(title, head, rows, mark="storage")
    run.keep("cluster_storage", {"files, bytes": files, "a pass, s": seconds, **taken, "half": half})
    if len({row["model"] for row in taken.values()}) > 1 or len({row["digest"] for row in taken.values()}) > 1:
        sys.exit("the rows or the models differ")
