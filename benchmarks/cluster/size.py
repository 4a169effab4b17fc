"""What ten thousand million rows take on a cluster: a calculation from what is measured here.

    python -m benchmarks.cluster.size [--docs] [--quick]

Measured: the time of a pass for a row and a column in one thread of a worker, of a pass that finds almost no rows on
1, 2, 4 and 8 workers (what it costs to ask them, which grows with their number: a straight line is put through it), and
the bytes of a pass to and from a worker. Assumed: threads of a machine work as fast together as one alone does here,
and a network delays a message as little as this machine does. Where workers outnumber the cores of this machine, asking
them seems to cost more than it would.
"""

import tempfile
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.cluster.tables import SHORT, counted, fitted, local_cluster, made_up, timed_pass, write_parquet
from benchmarks.driver import benchmark
from sottovoce import DPLogisticRegression
from sottovoce.cluster import DaskTable
from sottovoce.cluster.sources import bytes_a_row

ROWS, COLUMNS, THREADS = 10**10, 100, 16
MATRIX = 4 * COLUMNS  # bytes a row, float32
REMEMBERED = bytes_a_row(COLUMNS, np.dtype(np.float32)) - MATRIX  # what a fit remembers of a row, and its label


def measured(folder: Path, quick: bool) -> dict[str, float]:
    """Return the constants: seconds for a row and a column, seconds to ask, seconds to ask one worker, bytes."""
    n, d, rounds = (20_000, 10, 1) if quick else (500_000, COLUMNS, 5)
    X, y = made_up(n, d)
    large = write_parquet(folder / "large", X, y, files=4, group=n // 16)
    small = write_parquet(folder / "small", X[:800], y[:800], files=8, group=100)
    empty: dict[int, float] = {}
    busy, said = 0.0, {}
    for n_workers in (1, 2) if quick else (1, 2, 4, 8):
        with local_cluster(n_workers) as client:
            with DaskTable.from_parquet(client, str(small), target="y", partitions=8) as table:
                timed_pass(table, None, SHORT + 1)
                empty[n_workers] = median(timed_pass(table, None, SHORT + 50).seconds for _ in range(rounds))
                if n_workers == 1:
                    for more in (0, 50):
                        with counted() as wire:
                            fitted(DPLogisticRegression, table, solver="scd", solver_options={"n_passes": SHORT + more})
                        said[more] = wire
            if n_workers == 1:
                with DaskTable.from_parquet(client, str(large), target="y") as table:
                    timed_pass(table, None, SHORT + 1)
                    busy = median(timed_pass(table, None, SHORT + 10).seconds for _ in range(rounds))
    slope, start = np.polyfit(list(empty), list(empty.values()), 1)
    return {
        "row and column, ns": 1e9 * (busy - empty[1]) / (n * d), "asking, ms": 1e3 * max(0.0, float(start)),
        "asking one worker, ms": 1e3 * max(0.0, float(slope)), "sent, bytes": (said[50].sent - said[0].sent) / 50,
        "received, bytes": (said[50].received - said[0].received) / 50,
        **{f"empty pass on {n_workers}, ms": 1e3 * seconds for n_workers, seconds in empty.items()},
    }  # fmt: skip


def calculated(found: dict[str, float]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    head = (
        f"workers of {THREADS} threads", "rows a worker", "matrix a worker", "row memory a worker", "a pass",
        '15 passes (`"newton"`)', '350 passes (`"scd"`)', "to and from all workers, a pass",
    )  # fmt: skip
    rows = []
    for n_workers in (10, 30, 100, 300):
        each = ROWS / n_workers
        work = 1e-9 * found["row and column, ns"] * each * COLUMNS / THREADS
        seconds = work + 1e-3 * (found["asking, ms"] + found["asking one worker, ms"] * n_workers)
        rows.append((
            f"{n_workers}", f"{each:,.0f}", f"{1e-9 * MATRIX * each:,.0f} GB", f"{1e-9 * REMEMBERED * each:,.0f} GB",
            f"{seconds:.1f} s", _time(15 * seconds), _time(350 * seconds),
            f"{1e-6 * n_workers * (found['sent, bytes'] + found['received, bytes']):.2f} MB",
        ))  # fmt: skip
    return head, rows


def _time(seconds: float) -> str:
    if seconds < 7200:
        return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


@benchmark(page="measured/cluster.md")
def main(run) -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = measured(Path(folder), run.quick)
    run.table("constants", ("what", "measured|,.3g"), found.items(), mark="constants")
    run.table(f"{ROWS:,} rows of {COLUMNS} columns, float32", *calculated(found), mark="size")
