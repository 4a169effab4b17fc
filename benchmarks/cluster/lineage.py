"""A part's memory as a Dask future with lineage, against the keepers of `sottovoce.cluster`: a pass, memory, a kill.

    python -m benchmarks.cluster.lineage [--quick] [--rounds 3] [--rows 400000]

Rows of a part are one future. What a part remembers after an operation is another one, made from the one before by a
task that copies it (a task that Dask may run again must not write to what it was given). Dask alone places parts and
makes lost ones again. Both ways train the same model on the same two worker processes, in turn; then one worker is
killed in the middle of each.
"""

import copy
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from itertools import accumulate, pairwise
from operator import itemgetter
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import sottovoce as sv
from benchmarks.cluster.tables import cpu_of, fitted, hashed, local_cluster, made_up, timed_pass
from benchmarks.driver import benchmark
from sottovoce.central.data.holder import Holder
from sottovoce.central.data.operation import Effect, Operation
from sottovoce.central.data.outside import RemoteTable
from sottovoce.central.data.part import Part
from sottovoce.central.parallel import Team, team
from sottovoce.cluster import DaskTable
from sottovoce.cluster.sources import InlineSource, LoadedRows

PARTS = 12
PASSES = 40
HERE = ("raw", "team", "progress", "labels")  # of a part: what is no memory of an operation


@cache
def threads() -> Team:
    """Return the one thread of this process."""
    return ExitStack().enter_context(team(1))


def part_of(rows: LoadedRows, state: Mapping[str, Any]) -> Part:
    """Return the part of some rows that remembers this."""
    part = Part(rows.raw, threads(), labels=rows.labels)
    part.__dict__.update(state)
    return part


def begun(rows: LoadedRows, first_row: int) -> tuple[dict[str, Any], None]:
    """Return what a part remembers before the first operation."""
    state = vars(Part(rows.raw, threads(), first_row=first_row))
    return {name: value for name, value in state.items() if name not in HERE}, None


def moved(rows: LoadedRows, before: tuple[dict[str, Any], Any], operation: Operation[Any]) -> tuple[Any, Any]:
    """Return what a part remembers after an operation, and its answer."""
    part = part_of(rows, copy.deepcopy(before[0]))
    answer = operation.on(part)
    return {name: value for name, value in vars(part).items() if name not in HERE}, answer


def asked(rows: LoadedRows, before: tuple[dict[str, Any], Any], operation: Operation[Any]) -> Any:
    """Return the answer of an operation that changes nothing."""
    return operation.on(part_of(rows, before[0]))


class LineageHolder(Holder):
    """Rows as futures; what parts remember as futures that are made one from the other."""

    on_cluster = True

    def __init__(self, table: "LineageTable") -> None:
        self.client, self.rows, self.ends, self.told = table.client, table.rows, table.ends, table.told
        self.n_samples, self.n_features = table.shape
        self.dtype, self.constant, self.number = table.dtype, 0.0, 0
        self.now = [
            self.client.submit(begun, rows, first, pure=False)
            for rows, first in zip(self.rows, (0, *self.ends), strict=False)
        ]
        self.lasting = self.now

    def ask(self, operation: Operation[Any]) -> Any:
        before = self.lasting if operation.effect is Effect.FIRST else self.now
        own = [operation.about(lo, hi) for lo, hi in zip((0, *self.ends), self.ends, strict=False)]
        does = asked if operation.effect is Effect.NONE else moved
        done = [
            self.client.submit(does, rows, state, one, pure=False)
            for rows, state, one in zip(self.rows, before, own, strict=True)
        ]
        if operation.effect is not Effect.NONE:
            self.now = done
            self.lasting = done if operation.effect is Effect.LASTING else self.lasting
            done = [self.client.submit(itemgetter(1), one, pure=False) for one in done]
        answers = self.client.gather(done)
        self.number += 1
        self.constant = self.constant if operation.entry is None else operation.entry
        if self.told is not None:
            self.told(self)
        return operation.merged(answers)


class LineageTable(RemoteTable):
    """An array whose parts are futures."""

    shape: tuple[int, int] = (0, 0)
    dtype: Any = None
    feature_names: tuple[str, ...] = ()
    has_labels = True

    def __init__(self, client: Any, sources: Sequence[InlineSource]) -> None:
        self.client, self.told = client, None
        self.ends = tuple(accumulate(len(source.raw) for source in sources))
        self.shape, self.dtype = (self.ends[-1], sources[0].raw.shape[1]), sources[0].raw.dtype
        self.rows = [client.submit(source.load, None, pure=False) for source in sources]

    @contextmanager
    def opened(self, fit: Mapping[str, object]) -> Iterator[Holder]:
        """Open it for one fit."""
        yield LineageHolder(self)

    def predicted(self, model: Any, method: str) -> Any:
        """Not here."""
        raise NotImplementedError

    def counted(self, model: Any, method: str) -> Any:
        """Not here."""
        raise NotImplementedError


def sources(n: int, d: int) -> list[InlineSource]:
    """Return the parts of a made-up table."""
    X, y = made_up(n, d)
    ends = np.linspace(0, n, PARTS + 1).astype(int)
    return [InlineSource(X[a:b], y[a:b], first_row=int(a)) for a, b in pairwise(ends)]


@contextmanager
def peak(client: Any) -> Iterator[list[float]]:
    """Measure the most memory of all workers together, in MB, above what they have at the start."""
    pids = client.run(os.getpid).values()
    over, found = threading.Event(), [0.0]

    def total() -> float:
        pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids)
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def watch() -> None:
        while not over.wait(0.02):
            found[0] = max(found[0], total() - rest)

    rest = total()
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield found
    finally:
        over.set()
        watcher.join()


def killed(client: Any, table: Any) -> tuple[float, str]:
    """Kill a worker in the middle of a fit; return the seconds of the fit, and the hash of its model."""
    victim, done = next(iter(client.run(os.getpid).values())), []

    def told(holder: Any) -> None:
        if holder.number >= PASSES // 2 and not done:
            done.append(os.kill(victim, signal.SIGKILL))

    table.told, start = told, time.perf_counter()
    model = fitted(sv.DPLogisticRegression, table, solver="scd", solver_options={"n_passes": PASSES})
    table.told = None
    return time.perf_counter() - start, hashed(model)


@benchmark(rounds=(3, 1), rows=(400_000, 20_000))
def main(run) -> None:
    os.environ["SOTTOVOCE_NUM_THREADS"] = "1"
    rows: list[tuple[Any, ...]] = []
    hashes: set[str] = set()
    makes: dict[str, Callable[[Any, list[InlineSource]], Any]] = {"keepers": DaskTable, "lineage": LineageTable}
    for name, make in makes.items():
        with local_cluster(2) as client:
            parts = sources(run.rows, 50)
            timed_pass(make(client, parts), None, 3)  # compiles
            with peak(client) as most:
                table = make(client, parts)
                passes = [timed_pass(table, None, 22, cpu_of(client)) for _ in range(run.rounds)]
            seconds, model = killed(client, table)
            again = fitted(sv.DPLogisticRegression, table, solver="scd", solver_options={"n_passes": PASSES})
            hashes |= {model, hashed(again)}
            rows.append((
                name, 1e3 * median(one.seconds for one in passes), 1e3 * median(one.cpu for one in passes), most[0],
                seconds,
            ))  # fmt: skip
    head = (
        "parts as", "ms a pass|.1f", "ms of processors a pass|.1f", "most MB of workers|,.0f", "fit with a kill, s|.1f",
    )  # fmt: skip
    run.table("a part's memory", head, rows)
    if len(hashes) > 1:
        sys.exit(f"the models differ: {hashes}")
