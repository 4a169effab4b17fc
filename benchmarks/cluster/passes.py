"""A pass over a table in two workers of one thread, against a pass with two threads in one process; scaling; cuts.

    python -m benchmarks.cluster.passes [--docs] [--quick] [--only passes,scaling,cuts] [--rounds 7]

A pass is the difference of two fits that differ in their number of passes, divided by that number. The two ways are
timed in turn, so that both see the same load of the machine; the ratio is the median of the ratios of the pairs.
Workers are processes on this machine: what a network would add is not in it.

With ``--docs`` the tables go into the page.
"""

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import sottovoce as sv
from benchmarks.cluster.tables import (
    SHORT,
    Timed,
    counted,
    cpu_of,
    fitted,
    hashed,
    local_cluster,
    made_up,
    timed_pass,
    write_parquet,
)
from benchmarks.driver import benchmark
from sottovoce.cluster import DaskTable

KINDS = {
    "logistic, `newton`": (sv.DPLogisticRegression, {"solver": "newton"}),
    "logistic, `scd`": (sv.DPLogisticRegression, {"solver": "scd"}),
    "ridge, `refinement`": (sv.DPRidge, {"solver": "refinement"}),
    "ridge, `scd`": (sv.DPRidge, {"solver": "scd"}),
    "linear SVC": (sv.DPLinearSVC, {"solver": "scd"}),
}

Rows = list[tuple[str, ...]]


def passes(folder: Path, n: int, d: int, rounds: int, long: int) -> tuple[tuple[str, ...], Rows, dict]:
    """Time both ways in turn."""
    X, y = made_up(n, d)
    path = write_parquet(folder / "passes", X, y, files=8, group=max(1000, n // 32))
    here: list[Timed] = []
    there: list[Timed] = []
    with local_cluster(2) as client, DaskTable.from_parquet(client, str(path), target="y") as table:
        timed_pass(X, y, SHORT + 1)  # compiles
        timed_pass(table, None, SHORT + 1)
        for _ in range(rounds):
            here.append(timed_pass(X, y, long))
            there.append(timed_pass(table, None, long, cpu_of(client)))
        more = 20
        with counted() as short:
            fitted(sv.DPLogisticRegression, table, solver="scd", solver_options={"n_passes": SHORT})
        with counted() as whole:
            fitted(sv.DPLogisticRegression, table, solver="scd", solver_options={"n_passes": SHORT + more})
    sent, received = (whole.sent - short.sent) / more, (whole.received - short.received) / more
    hashes = {each.model for each in (*here, *there)}
    if len(hashes) > 1:
        sys.exit(f"the models differ: {hashes}")
    ratios = [two.seconds / one.seconds for one, two in zip(here, there, strict=True)]
    cpu = median(two.cpu / one.cpu for one, two in zip(here, there, strict=True))
    head = (
        "a pass of `scd`, logistic", "ms, median (least)", "ratio, median of pairs", "ratio of processor seconds",
        "bytes a pass, sent and received",
    )  # fmt: skip
    rows = [
        ("one process, two threads", _ms(here), "1", "1", ""),
        (
            "two workers of one thread", _ms(there), f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})",
            f"{cpu:.2f}", f"{sent:,.0f} and {received:,.0f}",
        ),
    ]  # fmt: skip
    return head, rows, {"rows": n, "columns": d, "here": here, "there": there, "sent": sent, "received": received}


def _ms(passes: Sequence[Timed]) -> str:
    seconds = [each.seconds for each in passes]
    return f"{1e3 * median(seconds):.1f} ({1e3 * min(seconds):.1f})"


def scaling(folder: Path, n: int, d: int, rounds: int, long: int) -> tuple[tuple[str, ...], Rows, dict]:
    """Time the whole table on one and two workers, and half of it on one, in turn."""
    X, y = made_up(n, d)
    whole = write_parquet(folder / "whole", X, y, files=8, group=max(1000, n // 32))
    half = write_parquet(folder / "half", X[: n // 2], y[: n // 2], files=4, group=max(1000, n // 32))
    found: dict[tuple[int, int], list[float]] = {}
    with local_cluster(1) as one, local_cluster(2) as two:
        opened = {
            (1, n): DaskTable.from_parquet(one, str(whole), target="y"),
            (2, n): DaskTable.from_parquet(two, str(whole), target="y"),
            (1, n // 2): DaskTable.from_parquet(one, str(half), target="y"),
        }
        for table in opened.values():
            timed_pass(table, None, SHORT + 1)
        for _ in range(rounds):
            for key, table in opened.items():
                found.setdefault(key, []).append(timed_pass(table, None, long).seconds)
        for table in opened.values():
            table.close()
    ms = {key: 1e3 * median(seconds) for key, seconds in found.items()}
    strong, weak = ms[1, n] / ms[2, n] / 2, ms[1, n // 2] / ms[2, n]
    head = ("scaling", "workers of one thread", "rows", "ms a pass, median", "of what was hoped for")
    rows = [
        ("strong", "1", f"{n:,}", f"{ms[1, n]:.1f}", "1"),
        ("strong", "2", f"{n:,}", f"{ms[2, n]:.1f}", f"{strong:.2f}"),
        ("weak", "1", f"{n // 2:,}", f"{ms[1, n // 2]:.1f}", "1"),
        ("weak", "2", f"{n:,}", f"{ms[2, n]:.1f}", f"{weak:.2f}"),
    ]
    return head, rows, {f"{workers} workers, {size} rows": seconds for (workers, size), seconds in found.items()}


def cuts(folder: Path, n: int, d: int, quick: bool) -> tuple[tuple[str, ...], Rows, dict]:
    """Train the same models on several clusters and cuts of one table; refuse to go on where two differ."""
    X, y = made_up(n, d)
    ways = {
        "1 file, row groups of 2,000": (write_parquet(folder / "one", X, y, files=1, group=2000), None),
        "5 files, row groups of 700": (write_parquet(folder / "five", X, y, files=5, group=700), 13),
        "17 files of one group": (write_parquet(folder / "many", X, y, files=17, group=n), 17),
    }
    kinds = dict(list(KINDS.items())[:1]) if quick else KINDS
    found: dict[str, dict[str, str]] = {
        name: {"array in this process": hashed(fitted(kind, X, y, **options))}
        for name, (kind, options) in kinds.items()
    }
    for n_workers in (2,) if quick else (1, 2, 4):
        with local_cluster(n_workers) as client:
            for way, (path, partitions) in ways.items():
                with DaskTable.from_parquet(client, str(path), target="y", partitions=partitions) as table:
                    for name, (kind, options) in kinds.items():
                        found[name][f"{n_workers} workers, {way}"] = hashed(fitted(kind, table, **options))
    different = {name: hashes for name, hashes in found.items() if len(set(hashes.values())) > 1}
    head = ("model", "in this process", "on 1, 2 and 4 workers, 3 cuts each")
    rows = [
        (
            name, hashes["array in this process"],
            f"the same, {len(hashes) - 1} times" if name not in different else f"NOT THE SAME: {set(hashes.values())}",
        )
        for name, hashes in found.items()
    ]  # fmt: skip
    return head, rows, found


@benchmark(page="measured/cluster.md", only="passes,scaling,cuts", rounds=(7, 1))
def main(run) -> None:
    os.environ["SOTTOVOCE_NUM_THREADS"] = "2"
    n, d, long = (20_000, 10, 6) if run.quick else (1_000_000, 100, 32)
    parts = {
        "passes": ("time of a pass", lambda folder: passes(folder, n, d, run.rounds, long)),
        "scaling": ("scaling", lambda folder: scaling(folder, n, d, run.rounds, long)),
        "cuts": ("one model", lambda folder: cuts(folder, 3_000 if run.quick else 20_000, 20, run.quick)),
    }
    differ = False
    for name in run.only.split(","):
        title, measure = parts[name]
        with tempfile.TemporaryDirectory() as folder:
            head, rows, kept = measure(Path(folder))
        run.table(title, head, rows, mark=name)
        run.keep(f"cluster_{name}", kept)
        differ = differ or (name == "cuts" and any("NOT" in row[-1] for row in rows))
    if differ:
        sys.exit("the models differ")
