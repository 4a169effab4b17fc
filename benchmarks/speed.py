"""Speed of one pass against a plain read of the same memory, in one run; threads 1 and 2; peak memory of a fit.

python benchmarks/speed.py [--quick]
"""

import argparse
import time
import tracemalloc

import numpy as np
from numba import njit

import sottovoce as sv
from _common import keep, show
from sottovoce.central.kernels import passes
from sottovoce.central.parallel import team
from sottovoce.central.rows import make_rows
from sottovoce.losses import Hinge, Logistic, Squared


@njit(nogil=True, fastmath=True, cache=True)
def read(X, lo, hi):
    """Sum the columns: the least that a pass over the matrix can cost."""
    total = np.zeros(X.shape[1], X.dtype)
    for i in range(lo, hi):
        for k in range(X.shape[1]):
            total[k] += X[i, k]
    return total.sum()


def best(task, repeats):
    """Return the shortest of several runs, after one that compiles."""
    task()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        task()
        times.append(time.perf_counter() - start)
    return min(times)


def passes_against_reading(X, y, threads, repeats):
    """Return, for each loss, seconds of a pass and of a plain read on so many threads."""
    results = {}
    with team(threads) as crew:
        table = make_rows(X, data_norm=1.0, constant=0.2, names=None, team=crew)
        ranges = crew.split(len(y), table.work)
        reading = best(lambda: crew.run(lambda part, lo, hi: read(X, lo, hi), ranges), repeats)
        w = np.full(table.n_weights, 0.01, np.float32)
        sums = np.zeros((len(ranges), table.n_weights), np.int64)
        a, before = 0.1 * y, 0.1 * y
        for loss in (Squared(), Hinge(), Logistic()):
            damping = 2e-4 if isinstance(loss, Logistic) else 0.0  # logistic steps toward the slope, as by default

            def one(part, lo, hi, loss=loss, damping=damping):
                passes.accelerated_pass(
                    table.kernel, table.scale, table.norm, table.constant, y, a, before, 0.3, w, 1e4, damping, 1e-4,
                    2.0**36, loss, lo, hi, sums[part],
                )  # fmt: skip

            seconds = best(lambda one=one: crew.run(one, ranges), repeats)
            results[f"{loss.name}, {threads} threads"] = {"pass": seconds, "read": reading, "ratio": seconds / reading}
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    n, d, repeats = (100_000 if quick else 400_000), 90, (5 if quick else 15)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d), dtype=np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    results = {}
    for threads in (1, 2):
        results.update(passes_against_reading(X, y, threads, repeats))
    show(
        f"one pass, {n:,} x {d} float32",
        ("case", "pass, ms", "plain read, ms", "read, GB/s", "pass / read"),
        [
            (
                name, f"{1e3 * row['pass']:.1f}", f"{1e3 * row['read']:.1f}", f"{X.nbytes / row['read'] / 1e9:.1f}",
                f"{row['ratio']:.1f}",
            )
            for name, row in results.items()
        ],
    )  # fmt: skip
    model = sv.DPLinearSVC(epsilon=1.0, delta=1e-6, data_norm=1.0, classes=[-1.0, 1.0])
    model.fit(X[:1000], y[:1000])
    start = time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - start
    tracemalloc.start()
    model.fit(X, y)
    more = tracemalloc.get_traced_memory()[1] / X.nbytes
    tracemalloc.stop()
    print(f"a whole fit: {model.n_iter_} passes in {seconds:.2f} s; at its peak it holds {more:.2f} of the matrix more")
    results["fit"] = {"passes": model.n_iter_, "seconds": seconds, "memory over matrix": more}
    keep("speed", results)


if __name__ == "__main__":
    main()
