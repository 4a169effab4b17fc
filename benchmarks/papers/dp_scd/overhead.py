"""A private pass against a plain epoch of SDCA, after Appendix A.1 of Damaskinos et al. (AAAI 2021), in pairs.

    python -m benchmarks.papers.dp_scd.overhead [--quick] [--docs]

The paper says that privacy costs the sampling of Gaussian numbers, that this falls with the size L of a batch, that the
time of DP-SCD is O(T M) for T steps of one row, and that sparsity is lost. Each private pass is timed right after a
plain epoch on the same rows, in one process and one thread; the table has the median of the ratios of CPU time. Without
real data the two real tables are left out.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

import sottovoce as sv
from benchmarks import common
from benchmarks.central.speed import dense_matrix, sparse_matrix
from benchmarks.common import parts_at_hand
from benchmarks.driver import benchmark
from sottovoce.central.data.rows import make_rows
from sottovoce.central.kernels import passes
from sottovoce.central.parallel import team
from sottovoce.central.sums.samples import poisson_sample
from sottovoce.losses import Hinge
from sottovoce.papers.dp_scd import Published
from sottovoce.randomness import Purpose, Streams

ALPHA, CLIP = 1e-4, 1e-3
SIZES = (5, 50, 500, 2000)


def tables(quick: bool) -> dict[str, tuple[Any, Any]]:
    """Return rows of norm 1 and labels."""
    n = 2000 if quick else 20_000
    found = {
        f"dense, {n:,} x 90": dense_matrix(n, 90),
        f"sparse, {n:,} x 10,000, 20 a row": sparse_matrix(n, 10_000, 20),
    }
    for name in parts_at_hand((), ("phishing", "reuters")):
        X, y, *_ = getattr(common, name)(0)
        X = X.toarray().astype(np.float32) if name == "phishing" else sp.csr_array(X.astype(np.float32))
        if name == "reuters":
            X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
        found[name] = X, np.where(y > 0, 1.0, -1.0)
        if quick:
            break
    return found


def plain_epoch(rows: Any, y: Any) -> Callable[[], object]:
    """Return an epoch of SDCA in random order, its order included."""
    rng, a, w = np.random.default_rng(0), np.zeros(len(y)), np.zeros(rows.n_weights)
    return lambda: passes.sdca_epoch(
        rows.kernel, y, np.empty(0), a, w, ALPHA * len(y), Hinge(), rng.permutation(len(y))
    )


def plan_for(n: int, d: int, size: int) -> Any:
    """Return the plan of Algorithm 1; all private passes here release by its mechanism."""
    model = sv.DPLinearSVC(
        epsilon=1.0, delta=1e-5, data_norm=1.0, classes=[-1.0, 1.0], alpha=ALPHA, fit_intercept=False,
        solver=Published(batch_size=size, clipping_norm=CLIP, epochs=10),
    )  # fmt: skip
    return sv.plan(model, n_samples=n, n_features=d)


def published_epoch(rows: Any, y: Any, size: int) -> Callable[[], object]:
    """Return an epoch of Algorithm 1 as the solver `Published` does it."""
    n, plan, rng = len(y), plan_for(len(y), rows.n_weights, size), np.random.default_rng(0)
    mechanism, noise = plan.batch_mechanism(), Streams(0).generator(Purpose.NOISE)
    a, v = np.zeros(n), np.zeros(rows.n_weights)

    def epoch() -> None:
        order = rng.permutation(n)
        for first in range(0, n, size):
            batch = order[first : first + size]
            before = a[batch]
            moved = plan.moves(rows, y, a, v / (ALPHA * n), batch, mechanism.tick)
            noisy, _ = mechanism.release(moved, noise)
            a[batch] = before + noisy[: len(batch)]
            v[:] += noisy[len(batch) :]

    return epoch


def secret_epoch(rows: Any, y: Any, size: int) -> Callable[[], object]:
    """Return the steps of about one epoch with secret dual variables: Poisson samples, noise on v alone."""
    n, mechanism, rng = len(y), plan_for(len(y), rows.n_weights, size).batch_mechanism(), np.random.default_rng(0)
    noise = Streams(0).generator(Purpose.NOISE)
    a, v, total = np.zeros(n), np.zeros(rows.n_weights), np.zeros(rows.n_weights, np.int64)

    def epoch() -> None:
        for _ in range(round(n / size)):
            batch = poisson_sample(n, size / n, rng)
            total[:] = 0
            passes.batch_pass(
                rows.kernel, y, a, rows.weights(v / (ALPHA * n)), 0.0, size / (ALPHA * n), CLIP, 1.0 / mechanism.tick,
                Hinge(), batch, 0, len(batch), total,
            )  # fmt: skip
            v[:] += mechanism.release(total, noise)[0]

    return epoch


def default_pass(rows: Any, y: Any) -> Callable[[], object]:
    """Return a pass of the default, accelerated DP-SCD over all rows, with its release."""
    n, mechanism = len(y), plan_for(len(y), rows.n_weights, len(y)).batch_mechanism()
    noise = Streams(0).generator(Purpose.NOISE)
    a, before, v = np.zeros(n), np.zeros(n), np.zeros(rows.n_weights)
    total = np.zeros(rows.n_weights, np.int64)

    def one() -> None:
        total[:] = 0
        passes.accelerated_pass(
            rows.kernel, y, np.empty(0), a, before, 0.3, rows.weights(v / (ALPHA * n)), 0.5 / ALPHA, 0.0, CLIP,
            1.0 / mechanism.tick, Hinge(), 0, n, total,
        )  # fmt: skip
        v[:] += mechanism.release(total, noise)[0]

    return one


def seconds(task: Callable[[], object], least: float) -> float:
    """Return the CPU seconds of one call, from as many calls as take ``least`` seconds."""
    calls, start = 0, time.thread_time()
    while True:
        task()
        calls += 1
        if (passed := time.thread_time() - start) >= least:
            return passed / calls


@benchmark(page="measured/dp_scd.md")
def main(run) -> None:
    repeats, least = (2, 0.0) if run.quick else (7, 0.03)
    results: dict[str, Any] = {}
    with team(1) as crew:
        for name, (X, y) in tables(run.quick).items():
            rows = make_rows(X, data_norm=1.0, constant=0.0, names=None, team=crew)
            tasks = {"default, all rows at once": default_pass(rows, y)}
            for size in SIZES[-2:] if run.quick else SIZES[::-1]:
                tasks[f"secret duals, L = {size}"] = secret_epoch(rows, y, size)
                tasks[f"Algorithm 1, L = {size}"] = published_epoch(rows, y, size)
            plain, pairs = plain_epoch(rows, y), {}
            plain()
            for task_name, task in tasks.items():
                task()
                pairs[task_name] = [(seconds(plain, least), seconds(task, least)) for _ in range(repeats)]
            results[name] = {
                "plain epoch, ms": 1e3 * float(np.median([public for found in pairs.values() for public, _ in found])),
                **{task: float(np.median([own / public for public, own in found])) for task, found in pairs.items()},
            }
    lines = [
        (line, *(f"{found[line]:.2f}" if found[line] < 10 else f"{found[line]:.0f}" for found in results.values()))
        for line in next(iter(results.values()))
    ]
    head = ("CPU time over that of a plain epoch", *results)
    run.table("a private pass against a plain epoch of SDCA", head, lines, mark="overhead")
