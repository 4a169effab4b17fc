"""A default fit of a table that fills the disk and not the memory, beside pyarrow that only reads it.

    python -m benchmarks.central.scale [--docs] [--quick] [--millions 100] [--columns 50] [--folder /tmp]

Writes Parquet (float32, row groups of 100,000), reads it with pyarrow alone before and after, and fits in a process of
its own, with what is remembered of rows on disk. A pass is timed from the first block that is asked for to the last
one. Memory is the process's own (RssAnon), above that after the same fit of 100,000 rows.
"""

import json
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sottovoce as sv
from benchmarks.driver import HIDDEN, benchmark, option, timed

GROUP = 100_000


def write(path: Path, groups: int, d: int) -> None:
    rng = np.random.default_rng(0)
    direction = rng.standard_normal(d, dtype=np.float32)
    schema = pa.schema([(f"x{k}", pa.float32()) for k in range(d)] + [("y", pa.int8())])
    with pq.ParquetWriter(path, schema, use_dictionary=False) as writer:
        for _ in range(groups):
            X = rng.standard_normal((GROUP, d), dtype=np.float32)
            X /= np.linalg.norm(X, axis=1, keepdims=True)
            y = np.where(X @ direction + rng.standard_normal(GROUP, dtype=np.float32) > 0, 1, -1).astype(np.int8)
            writer.write_batch(pa.record_batch([*np.ascontiguousarray(X.T), y], schema=schema))


def read(path: Path) -> None:
    with pq.ParquetFile(path) as file:
        for _ in file.iter_batches(1 << 14):
            pass


class Timed(sv.ParquetTable):
    """A table that notes how long each whole reading of it took, what was done with the rows included."""

    def blocks(self, *args, **kwargs):
        start, blocks = time.perf_counter(), super().blocks(*args, **kwargs)
        yield from blocks
        self.passes.append(time.perf_counter() - start)


def fit(path: Path, scratch: Path):
    table = Timed(path, target="y", row_memory="disk", scratch=scratch)
    Timed.passes = []
    model = sv.DPLogisticRegression(epsilon=1.0, delta=1e-9, data_norm=1.0, classes=[-1, 1], random_state=0)
    return *timed(lambda: model.fit(table)), list(Timed.passes)


def own() -> float:
    """Return the memory of this process that is no file's, in MB."""
    text = Path("/proc/self/status").read_text(encoding="ascii")
    return int(next(line.split()[1] for line in text.splitlines() if line.startswith("RssAnon:"))) / 1e3


def child(folder: Path) -> None:
    fit(folder / "small.parquet", folder)
    peak, done = (rest := own()), threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.05):
            peak = max(peak, own())

    threading.Thread(target=watch, daemon=True).start()
    model, seconds, passes = fit(folder / "large.parquet", folder)
    done.set()
    print(json.dumps({"seconds": seconds, "passes": passes, "memory": peak - rest, "coef": model.coef_.tolist()}))


@benchmark(
    page="measured/growth.md", millions=(100.0, 0.5), columns=50,
    folder=option(type=Path, help="where to write: 4 bytes an entry, and some 50 a row"),
    child=option(help=HIDDEN, type=Path),
)  # fmt: skip
def main(run) -> None:
    if run.child:
        child(run.child)
        return
    groups = int(run.millions * 1e6 / GROUP)
    with TemporaryDirectory(dir=run.folder) as name:
        folder = Path(name)
        write(folder / "small.parquet", 1, run.columns)
        _, writing = timed(lambda: write(folder / "large.parquet", groups, run.columns))
        size = (folder / "large.parquet").stat().st_size / 1e9
        _, reading = timed(lambda: read(folder / "large.parquet"))
        print(f"{size:.1f} GB written in {writing:.0f} s, read by pyarrow in {reading:.1f} s", flush=True)
        found = json.loads(run.again("--child", folder))
        _, again = timed(lambda: read(folder / "large.parquet"))
    passes = np.array(found["passes"])
    run.table(
        "from disk",
        ("rows", "columns", "GB|.1f", "pyarrow reads it, s|.1f", "passes", "a pass, s|.1f", "ratio|.2f", "fit, s|.0f",
         "memory above rest, MB|.0f"),
        [(f"{groups * GROUP:,}", run.columns, size, (reading + again) / 2, len(passes), float(np.median(passes)),
          2 * float(np.median(passes)) / (reading + again), found["seconds"], found["memory"])],
        mark="scale",
    )  # fmt: skip
    run.keep("scale", found)
