"""Speed of one pass against a plain read of the same memory and against other libraries' epochs, all in one run.

    python -m benchmarks.central.speed [--quick] [--no-peers]
    python -m benchmarks.central.speed --fits       the first table alone
    python -m benchmarks.central.speed --against FOLDER   whole fits beside those of another checkout, in pairs

Five tables: warm default fits on one thread, by the time of the process, beside what they cannot do without, one X'X
and two reads of the matrix a pass; passes over a dense float32 matrix and a plain read of it; passes over sparse rows,
by the bytes of the entries, indices and weights that they touch; seconds of an epoch of liblinear and of Snap ML (its
own environment, see peers.py), neither private; how a pass grows with rows, columns, entries and threads. Then the
memory of a whole fit.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numba import njit
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

import sottovoce as sv
from benchmarks.common import a9a
from benchmarks.driver import HIDDEN, ROOT, benchmark, best_of, option, timed
from benchmarks.peers import libraries as peers
from benchmarks.peers.timing import write_split
from sottovoce.central.data.lengths import make_rows
from sottovoce.central.kernels import passes
from sottovoce.central.parallel import team
from sottovoce.exceptions import PrivacyWarning
from sottovoce.losses import Hinge, Logistic, Squared
from support.data import why_without

LOSSES = (Squared(), Hinge(), Logistic())


@njit(nogil=True, fastmath=True, cache=True)
def read(X, lo, hi):
    """Sum the columns: the least that a pass over the matrix can cost."""
    total = np.zeros(X.shape[1], X.dtype)
    for i in range(lo, hi):
        for k in range(X.shape[1]):
            total[k] += X[i, k]
    return total.sum()


def seconds_of_passes(X, y, threads, repeats, losses=LOSSES):
    found = {}
    with team(threads) as crew:
        table = make_rows(X, data_norm=1.0, constant=0.2, names=None, team=crew)
        ranges = crew.split(len(y), table.work)
        w = np.full(table.n_weights, 0.01, np.float32)
        sums = np.zeros((len(ranges), table.n_weights), np.int64)
        a, before = 0.1 * y, 0.1 * y
        for loss in losses:
            damping = 2e-4 if isinstance(loss, Logistic) else 0.0  # logistic steps toward the slope, as by default

            def one(part, lo, hi, loss=loss, damping=damping):
                passes.accelerated_pass(
                    table.kernel, y, np.empty(0), a, before, 0.3, w, 1e4, damping, 1e-4, 2.0**36, loss, lo, hi,
                    sums[part],
                )  # fmt: skip

            found[loss.name] = best_of(lambda one=one: crew.run(one, ranges), repeats)
    return found


def seconds_of_reading(X, threads, repeats):
    with team(threads) as crew:
        ranges = crew.split(X.shape[0], X.size)
        return best_of(lambda: crew.run(lambda part, lo, hi: read(X, lo, hi), ranges), repeats)


def dense_matrix(n, d):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d), dtype=np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, np.where(rng.random(n) < 0.5, 1.0, -1.0)


def sparse_matrix(n, d, nnz):
    """Rows with ``nnz`` entries each, at random columns."""
    rng = np.random.default_rng(0)
    indices = np.sort(rng.integers(0, d, (n, nnz)), axis=1).astype(np.int32).ravel()
    data = np.full(n * nnz, nnz**-0.5, np.float32)
    X = sp.csr_array((data, indices, np.arange(0, n * nnz + 1, nnz, dtype=np.int32)), shape=(n, d))
    X.sum_duplicates()
    return X, np.where(rng.random(n) < 0.5, 1.0, -1.0)


def touched(X):
    """Return the bytes of a sparse pass: entries, indices, and the weights at them, once to read and once to add."""
    return X.nnz * (2 * X.data.itemsize + X.indices.itemsize + 8)


def an_epoch(fit, few, many):
    """Return seconds of one epoch: the difference between many and few, so that setting up does not count."""
    fit(few)
    start = time.perf_counter()
    fit(few)
    middle = time.perf_counter()
    fit(many)
    return max(1e-9, (time.perf_counter() - middle) - (middle - start)) / (many - few)


def other_libraries(X, y, few, many, with_snap):
    """Return seconds of an epoch of liblinear, and of Snap ML on one and two threads."""
    wide = X.astype(np.float64)  # liblinear would make this copy in every fit
    C = 1.0 / (1e-4 * len(y))
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for name, kind, options in (
            ("liblinear, hinge", LinearSVC, {"loss": "hinge", "dual": True}),
            ("liblinear, logistic", LogisticRegression, {"solver": "liblinear", "dual": True}),
        ):
            make = lambda epochs, kind=kind, options=options: kind(  # noqa: E731
                C=C, fit_intercept=False, max_iter=epochs, tol=1e-30, **options
            )
            found[name] = an_epoch(lambda epochs, make=make: make(epochs).fit(wide, y), few, many)
    if with_snap:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "split.npz"
            write_split(path, X, y, X[:100], y[:100])
            for threads in (1, 2):
                seconds = []
                for epochs in (few, many):
                    setting = {"private": False, "constant": 0.3, "regularizer": 1e-4 * len(y), "epochs": epochs}
                    answer = peers.work("snapml", {
                        "data": 3 * [str(path)], "task": "binary", "metrics": ["accuracy"], "epsilon": 1.0,
                        "delta": 1e-5, "quick": False, "warm": True,
                        "settings": {"accuracy": {**setting, "threads": threads}},
                    })  # fmt: skip
                    seconds.append(answer["accuracy"]["seconds"] if answer else np.nan)
                found[f"Snap ML, logistic, {threads} threads"] = (seconds[1] - seconds[0]) / (many - few)
    return found


def bars(tables, stream, repeats):
    """Yield rows of passes over sparse tables; ``stream`` is the pace of memory."""
    for name, (S, labels) in tables.items():
        for threads in (1, 2):
            for loss, seconds in seconds_of_passes(S, labels, threads, repeats).items():
                pace = touched(S) / seconds
                yield name, loss, threads, 1e3 * seconds, 1e9 * seconds / S.nnz, pace / 1e9, stream / pace


def whole_fits(shapes, repeats):
    """Yield default fits of each shape on one thread, and their ratio to the least that there can be."""
    before = os.environ.get("SOTTOVOCE_NUM_THREADS")
    os.environ["SOTTOVOCE_NUM_THREADS"] = "1"
    try:
        for n, d in shapes:
            X, y = dense_matrix(n, d)
            model = sv.DPLogisticRegression(epsilon=1.0, delta=1e-8, data_norm=1.0, classes=[-1.0, 1.0])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", PrivacyWarning)  # the table is fitted again and again
                fit = best_of(lambda model=model, X=X, y=y: model.fit(X, y), repeats, time.process_time)
            least = best_of(lambda X=X: X.T @ X, repeats, time.process_time)
            least += 2.0 * model.n_iter_ * best_of(lambda X=X: read(X, 0, len(X)), repeats, time.process_time)
            yield n, d, model.n_iter_, 1e3 * fit, 1.0 / fit, fit / least
    finally:
        os.environ.pop("SOTTOVOCE_NUM_THREADS")
        if before is not None:
            os.environ["SOTTOVOCE_NUM_THREADS"] = before


def default_fit(n, d, *, nnz=0):
    """Return a function that fits a made-up table as by default, with the same noise each time."""
    X, y = sparse_matrix(n, d, nnz) if nnz else dense_matrix(n, d)
    model = sv.DPLogisticRegression(epsilon=1.0, delta=1e-8, data_norm=1.0, classes=[-1.0, 1.0], random_state=3)
    return lambda: model.fit(X, y)


def seconds_of_fits(quick):
    """Return the seconds of the second fit, or of the best of many, of each shape, with the threads of this process."""
    shapes = {
        "10^3 x 10": (200, 1000, 10, 0), "10^4 x 20": (100, 10_000, 20, 0), "10^5 x 20": (20, 100_000, 20, 0),
        "20,000 x 1,000": (2, 20_000, 1000, 0), "10^6 x 100": (3, 1_000_000, 100, 0),
        "10^5 x 47,000, sparse": (2, 100_000, 47_000, 75),
    }  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        return {
            name: best_of(default_fit(n, d, nnz=nnz), repeats)
            for name, (repeats, n, d, nnz) in list(shapes.items())[: 2 if quick else None]
        }


def beside(other, runs, quick):
    """Yield the least seconds of whole fits by the sources in ``other`` and by these, run in pairs, and ratios."""
    found: dict = {}
    for _ in range(runs):
        for threads in (1, 2):
            for tree in (other, ROOT):
                path = os.pathsep.join(map(str, (Path(tree) / "src", ROOT, ROOT / "tests")))
                number = dict.fromkeys(("SOTTOVOCE_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads))
                told = subprocess.run(
                    [sys.executable, "-m", __spec__.name, "--seconds", *(["--quick"] if quick else [])],
                    env={**os.environ, **number, "PYTHONPATH": path}, cwd=ROOT, capture_output=True, text=True,
                    check=True,
                )  # fmt: skip
                for name, seconds in json.loads(told.stdout.splitlines()[-1]).items():
                    found.setdefault((name, threads), {}).setdefault(tree, []).append(seconds)
    for (name, threads), by_tree in found.items():
        before, after = by_tree[other], by_tree[ROOT]
        ratios = [b / a for b, a in zip(before, after, strict=True)]
        alone = min(found[name, 1][ROOT]) / min(after)
        yield name, threads, 1e3 * min(before), 1e3 * min(after), min(ratios), max(ratios), alone


def epochs_elsewhere(compared, few, many, repeats, with_snap):
    for name, (M, labels) in compared.items():
        own = seconds_of_passes(M, labels, 2, repeats, (Hinge(), Logistic()))
        scale = 1 if name != "a9a" else 10  # a9a's epochs are short
        for other, seconds in other_libraries(M, labels, few * scale, many * scale, with_snap).items():
            mine = own["hinge" if "hinge" in other else "logistic"]
            yield name, other, 1e3 * seconds, 1e3 * mine, seconds / mine


def growing_passes(n, d, repeats):
    shapes = [("dense", n // 4, d), ("dense", n // 2, d), ("dense", n, d // 9), ("dense", n, d // 3), ("dense", n, d)]
    shapes += [("csr, of 1,000", n, 5), ("csr, of 1,000", n, 20), ("csr, of 100,000", n, 20)]
    for kind, height, width in shapes:
        columns = 100_000 if "100,000" in kind else 1000
        M, labels = dense_matrix(height, width) if kind == "dense" else sparse_matrix(height, columns, width)
        times = [seconds_of_passes(M, labels, threads, repeats, (Logistic(),))["logistic"] for threads in (1, 2)]
        yield kind, height, width, *(1e3 * s for s in times), *(1e9 * s / (height * width) for s in times)


@benchmark(
    no_peers=option(False, help="leave Snap ML out"),
    fits=option(False, help="whole fits alone"),
    against=option("", help="a checkout: whole fits of both, in pairs, on one thread and two"),
    runs=option(3, help="of --against", quick=1),
    seconds=option(False, help=HIDDEN),
)
def main(run) -> None:
    if run.seconds:  # a child of --against
        print(json.dumps(seconds_of_fits(run.quick)))
        return
    if run.against:
        head = ("table", "threads", "before, ms|.1f", "after, ms|.1f", "before / after, least|.2f", "most|.2f",
                "1 thread / these|.2f")  # fmt: skip
        run.table("whole default fits, before and after", head, beside(Path(run.against), run.runs, run.quick))
        return
    shapes = [(1000, 10), (10_000, 20), (100_000, 20), *([] if run.quick else [(1_000_000, 100)])]
    head = ("rows|,", "columns", "passes", "fit, ms|.2f", "fits a second|.0f", "fit / (X'X + 2 reads a pass)|.1f")
    run.table("a warm default fit, float32, one thread", head, whole_fits(shapes, 20 if run.quick else 40))
    if run.fits:
        return
    with_snap = not run.no_peers and ("snapml" in peers.at_hand() or not run.quick)
    peers.FOLDER.mkdir(parents=True, exist_ok=True)
    n, d, repeats = (100_000 if run.quick else 400_000), 90, (5 if run.quick else 15)
    X, y = dense_matrix(n, d)

    rows, stream = [], 0.0
    for threads in (1, 2):
        reading = seconds_of_reading(X, threads, repeats)
        stream = X.nbytes / reading
        for name, seconds in seconds_of_passes(X, y, threads, repeats).items():
            rows.append((name, threads, 1e3 * seconds, 1e3 * reading, stream / 1e9, seconds / reading))
    head = ("loss", "threads", "pass, ms|.1f", "plain read, ms|.1f", "read, GB/s|.1f", "pass / read|.2f")
    run.table(f"one pass, dense {n:,} x {d} float32", head, rows)

    tables = {f"random {n:,} x 1,000, 20 a row": sparse_matrix(n, 1000, 20)}
    without = why_without("a9a.bz2", "a9a.t.bz2")
    if without is None:
        A, b, *_ = a9a(0)
        A = sp.csr_array(A.astype(np.float32))
        A.indices, A.indptr = A.indices.astype(np.int32), A.indptr.astype(np.int32)
        tables["a9a"] = A, b
    else:
        print(f"{without}: a9a is left out")
    head = ("table", "loss", "threads", "pass, ms|.2f", "ns an entry|.2f", "GB/s touched|.1f",
            "stream of 2 threads / that|.2f")  # fmt: skip
    run.table("one pass, CSR float32", head, bars(tables, stream, repeats))

    few, many = (2, 4) if run.quick else (3, 9)
    compared = {f"dense {n:,} x {d}": (X, y), **{name: tables[name] for name in tables if name == "a9a"}}
    head = ("table", "library, no privacy", "epoch, ms|.2f", "our pass, 2 threads, ms|.2f", "ratio|.1f")
    run.table("an epoch elsewhere against a pass", head, epochs_elsewhere(compared, few, many, repeats, with_snap))

    head = ("table", "rows|,", "entries a row", *(f"{each}|.2f" for each in (
        "1 thread, ms", "2 threads, ms", "ns an entry", "2 threads")))  # fmt: skip
    run.table("how a logistic pass grows", head, growing_passes(n, d, repeats))

    model = sv.DPLogisticRegression(epsilon=1.0, delta=1e-6, data_norm=1.0, classes=[-1.0, 1.0])
    model.fit(X[:1000], y[:1000])
    seconds = timed(lambda: model.fit(X, y))[1]
    tracemalloc.start()
    model.fit(X, y)
    more = tracemalloc.get_traced_memory()[1] / X.nbytes
    tracemalloc.stop()
    print(f"a whole fit: {model.n_iter_} passes in {seconds:.2f} s; at its peak it holds {more:.2f} of the matrix more")
