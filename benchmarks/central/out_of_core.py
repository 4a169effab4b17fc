"""Training from disk under a memory limit below the size of the table: .npy mapped, and Parquet, against the array.

    python -m benchmarks.central.out_of_core [--docs] [--quick] [--gigabytes 2] [--folder /tmp] [--only array,parquet]

Writes a table of 90 float32 columns. Each way of reading trains in a process of its own, which may not allocate more
than three quarters of the size of the table on top of what the interpreter and its libraries hold (RLIMIT_DATA; the
array in memory has no limit, for comparison). A pass is timed as the difference of two fits that differ in their number
of passes, with files in the cache of the system where the machine has memory left: then the figure is decoding and
training, not the disk. Then the whole default fit (Newton steps, a few passes), beside what the passes of
``solver="scd"`` would take: their number is that of a fit on the array.
"""

import hashlib
import json
import os
import resource
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sottovoce as sv
from benchmarks.driver import HIDDEN, benchmark, option

D = 90
PIECE = 50_000
SHORT, LONG = 2, 22  # passes of the two fits: far apart, as a pass over a map takes hundredths of a second
WAYS = {
    "array": "array in memory, no limit", "npy": ".npy, memory map", "parquet": "Parquet, row groups of 50,000",
    "large-groups": "Parquet, one row group", "to_npy": "Parquet, to_npy, memory map",
}  # fmt: skip


def write(folder: Path, n: int) -> None:
    """Write the same table as .npy, as Parquet in row groups, and as Parquet in one, a piece at a time."""
    rng = np.random.default_rng(0)
    direction = rng.standard_normal(D).astype(np.float32)
    X = np.lib.format.open_memmap(folder / "x.npy", mode="w+", dtype=np.float32, shape=(n, D))
    y = np.lib.format.open_memmap(folder / "y.npy", mode="w+", dtype=np.int8, shape=(n,))
    names = [f"x{k}" for k in range(D)]
    schema = pa.schema([(name, pa.float32()) for name in names] + [("y", pa.int8())])
    with pq.ParquetWriter(folder / "parquet.parquet", schema) as writer:
        for lo in range(0, n, PIECE):
            piece = rng.standard_normal((min(PIECE, n - lo), D), dtype=np.float32)
            piece /= np.linalg.norm(piece, axis=1, keepdims=True)
            labels = np.where(piece @ direction + 3.0 * rng.standard_normal(len(piece)) > 0, 1, -1).astype(np.int8)
            X[lo : lo + PIECE], y[lo : lo + PIECE] = piece, labels
            writer.write_batch(pa.record_batch([*piece.T.copy(), labels], schema=schema))
    pq.write_table(pq.read_table(folder / "parquet.parquet"), folder / "large-groups.parquet", row_group_size=n)


def open_table(way: str, folder: Path):
    """Return X and y as an estimator takes them."""
    if way == "array":
        return np.load(folder / "x.npy"), np.load(folder / "y.npy")
    if way == "npy":
        return np.load(folder / "x.npy", mmap_mode="r"), np.load(folder / "y.npy")
    table = sv.ParquetTable(folder / f"{'parquet' if way == 'to_npy' else way}.parquet", target="y")
    return (table.to_npy(folder / "converted.npy") if way == "to_npy" else table), table.labels()


def fit(X, y, n_passes=None, solver="scd"):
    options = None if n_passes is None else {"n_passes": n_passes}
    model = sv.DPLogisticRegression(
        epsilon=1.0, delta=1e-8, data_norm=1.0, classes=[-1, 1], random_state=0, solver=solver, solver_options=options
    )
    start = time.perf_counter()
    model.fit(X, y)
    return model, time.perf_counter() - start


def held(field: str) -> float:
    """Return a field of the process's status in MB: RssAnon (own memory that is resident) or VmData (allocated)."""
    text = Path("/proc/self/status").read_text(encoding="ascii")
    return int(next(line.split()[1] for line in text.splitlines() if line.startswith(f"{field}:"))) / 1e3


def child(way: str, folder: Path, limit: float) -> None:
    """Train from one kind of file under the limit, in MB, and print what was measured."""
    tiny = folder / "tiny.parquet"
    if not tiny.exists():
        pq.write_table(pq.ParquetFile(folder / "parquet.parquet").read_row_group(0).slice(0, 2000), tiny)
    small = sv.ParquetTable(tiny, target="y")
    fit(small, small.labels(), SHORT)  # compiles and loads whatever is needed, threads included
    fit(small, small.labels(), SHORT, "newton")
    mapped = small.to_npy(folder / f"tiny-{way}.npy")
    fit(mapped, small.labels(), SHORT)
    before, allocated = held("RssAnon"), held("VmData")
    if way != "array":
        resource.setrlimit(resource.RLIMIT_DATA, (int(1e6 * (allocated + limit)),) * 2)
    peak, done = before, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.01):
            peak = max(peak, held("RssAnon"))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    start = time.perf_counter()
    X, y = open_table(way, folder)
    opening = time.perf_counter() - start
    _, short = fit(X, y, SHORT)
    model, long = fit(X, y, LONG)
    few, whole = fit(X, y, solver="newton")
    scores, of_few = model.decision_function(X), few.decision_function(X)
    many = fit(X, y)[0].n_iter_ if way == "array" else 0
    done.set()
    watcher.join()
    print(json.dumps({
        "open, s": opening, "fit, s": long, "pass, s": (long - short) / (LONG - SHORT), "peak, MB": peak - before,
        "model": hashlib.sha256(model.coef_.tobytes() + model.intercept_.tobytes()).hexdigest(),
        "accuracy": float(np.mean((scores > 0) == (y > 0))),
        "newton, s": whole, "newton, passes": few.n_iter_, "newton, accuracy": float(np.mean((of_few > 0) == (y > 0))),
        "newton, model": hashlib.sha256(few.coef_.tobytes() + few.intercept_.tobytes()).hexdigest(),
        "scd, passes": many,
    }))  # fmt: skip


@benchmark(
    page="measured/large_tables.md", gigabytes=2.0,
    only=option(",".join(WAYS), help="ways of reading, by commas; the array always"),
    folder=option(type=Path, help="where to write; not a disk in memory"), write=option(type=int, help=HIDDEN),
    child=option(help=HIDDEN, choices=WAYS), limit=option(type=float, help=HIDDEN),
)  # fmt: skip
def main(run) -> None:
    if run.write:
        write(run.folder, run.write)
        return
    if run.child:
        child(run.child, run.folder, run.limit)
        return
    n = int((0.4 if run.quick else run.gigabytes) * 1e9 / (4 * D))
    size = 4e-6 * n * D
    limit = 0.75 * size
    # a page and a dictionary of each column are decoded at a time: with one row group that is most of a small table
    only = {"array", *run.only.split(",")}
    ways = [way for way in WAYS if way in only and not (run.quick and way == "large-groups")]
    results = {}
    with tempfile.TemporaryDirectory(dir=run.folder) as name:
        # a process of its own: what it allocated would count in the children's limits
        run.again("--write", n, "--folder", name)
        for way in ways:
            results[way] = json.loads(run.again("--child", way, "--folder", name, "--limit", limit))
            print(f"{WAYS[way]}: done", file=sys.stderr, flush=True)
    threads = os.environ.get("SOTTOVOCE_NUM_THREADS", "all")
    run.table(
        f"{n:,} x {D} float32, {size:,.0f} MB; limit {limit:,.0f} MB; {threads} thread(s)",
        ("way", "open, s|.2f", "pass, s|.2f", "MB/s of the matrix|,.0f", "peak of own memory, MB|,.0f", "same model"),
        [
            (WAYS[way], row["open, s"], row["pass, s"], size / row["pass, s"], row["peak, MB"],
             "yes" if row["model"] == results["array"]["model"] else "NO")
            for way, row in results.items()
        ],
    )  # fmt: skip
    many = results["array"]["scd, passes"]
    head = ("way", "a pass of `scd`, s|.2f", f"{many} passes of `scd`, s|,.0f", "`newton`, whole fit, s|,.1f", "passes",
            "ratio|.0f")  # fmt: skip
    rows = [
        (WAYS[way], row["pass, s"], many * row["pass, s"], row["newton, s"], row["newton, passes"],
         many * row["pass, s"] / row["newton, s"])
        for way, row in results.items()
    ]  # fmt: skip
    run.table("the default before and after", head, rows, mark="newton")
    run.keep("out_of_core", results)
    if any(len({row[kind] for row in results.values()}) > 1 for kind in ("model", "newton, model")):
        sys.exit("the models differ")
