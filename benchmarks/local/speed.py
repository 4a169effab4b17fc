"""Reports that an aggregator adds up a second, and its memory against their number.

    python -m benchmarks.local.speed [--seconds 3] [--docs] [--quick]

The reports are random seeds and indices in the real format: adding them is the same work as for honest ones. Memory is
the largest resident size of a fresh process that adds n reports, which it makes as it goes.
"""

import resource
import time

import numpy as np

from benchmarks.driver import HIDDEN, benchmark, option
from sottovoce.local import Aggregator, Protocol


def protocol_of(d: int) -> Protocol:
    """Return a protocol whose vectors have d coordinates."""
    return Protocol(epsilon=2.0, n_features=d - 1, intercept=0.0, completion="slack", K=256, m=34, b=1.0)


def some_reports(protocol: Protocol, n: int, rng: np.random.Generator) -> bytes:
    """Return n reports with random seeds and indices."""
    rows = np.empty(n, np.dtype([("head", "V12"), ("seed", "<u8"), ("index", "<u2")]))
    rows["head"] = np.void(b"LDP1" + protocol.id)
    rows["seed"] = rng.integers(0, 2**64, n, dtype=np.uint64)
    rows["index"] = rng.integers(0, protocol.K, n)
    return rows.tobytes()


def rate(d: int, threads: int, seconds: float) -> float:
    """Return reports a second, the best of the calls that fit into the time."""
    protocol = protocol_of(d)
    reports = some_reports(protocol, 4_000_000 // d, np.random.default_rng(0))
    aggregator = Aggregator(protocol, n_threads=threads)
    aggregator.add(reports)
    best, started = 0.0, time.perf_counter()
    while time.perf_counter() - started < seconds:
        before = time.perf_counter()
        count = aggregator.add(reports)
        best = max(best, count / (time.perf_counter() - before))
    return best


def add_and_tell(n: int, d: int) -> None:
    """Add n reports in pieces, and print the peak memory in kB."""
    protocol, rng = protocol_of(d), np.random.default_rng(0)
    aggregator = Aggregator(protocol, n_threads=2)
    for start in range(0, n, 50_000):
        aggregator.add(some_reports(protocol, min(50_000, n - start), rng))
    assert aggregator.n_reports == n
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


@benchmark(page="measured/local_learning.md", seconds=(3.0, 0.5), add=option(type=int, help=HIDDEN))
def main(run) -> None:
    if run.add is not None:
        add_and_tell(run.add, 20)
        return
    rows = ((d, threads, rate(d, threads, run.seconds)) for d in (20, 100) for threads in (1, 2))
    run.table("reports a second", ("d", "threads", "reports a second|,.0f"), rows, mark="speed")
    sizes = (1000, 100_000) if run.quick else (1000, 100_000, 1_000_000, 5_000_000)
    memory = ((n, int(run.again("--add", n)) / 1024) for n in sizes)
    run.table("memory of the process, d = 20", ("reports|,", "peak memory, MB|.0f"), memory, mark="memory")
