"""Time to accuracy: seconds of processors of whole private trainings, ours and other libraries', equally accurate.

For each library and table, the cheapest of its settings that is as accurate as our default but for ``--within`` points,
or for one standard error, or its most accurate one where none is. Settings are found by the test part, without privacy,
and the seconds of finding them do not count. One thread each: seconds of processors are those of an idle machine.
"""

import os
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

import sottovoce as sv
from benchmarks import sets
from benchmarks.driver import Run
from benchmarks.peers.libraries import PEERS, work
from sottovoce.exceptions import PrivacyWarning

EPSILON, DELTA = 1.0, 1e-5
SEEDS = 5


class Table(NamedTuple):
    """A table to train on, and its test part."""

    name: str
    X: Any
    y: np.ndarray
    X_test: Any
    y_test: np.ndarray


def write_split(path: Path, X: Any, y: Any, X_test: Any, y_test: Any) -> None:
    """Write one split as job.py reads it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = {}
    for part, rows, labels in (("train", X, y), ("test", X_test, y_test)):
        arrays[f"{part}_y"] = np.asarray(labels, dtype=np.float32)
        if not sp.issparse(rows):
            arrays[f"{part}_rows"] = np.asarray(rows, dtype=np.float32)
            continue
        rows = sp.csr_matrix(rows, dtype=np.float32)
        arrays[f"{part}_data"], arrays[f"{part}_shape"] = rows.data, np.array(rows.shape)
        arrays[f"{part}_indices"] = rows.indices.astype(np.int32)
        arrays[f"{part}_indptr"] = rows.indptr.astype(np.int32)
    np.savez(path, **arrays)


def _tables(quick: bool) -> Iterator[Table]:
    """Yield a real table that is sparse, one that is dense and has three columns, and a made-up one of 90."""
    few = slice(4_000 if quick else None)
    for name in ("a9a", "skin"):
        X, y, X_test, y_test, public = sets.split(name, 0)
        high, norm = public["classes"][1], public.get("data_norm", 1.0)
        y, y_test = (np.where(labels == high, 1.0, -1.0) for labels in (y, y_test))
        yield Table(f"{name}, {X[few].shape[0]:,} x {X.shape[1]}", X[few] / norm, y[few], X_test / norm, y_test)
    n, n_test = (4_000, 1_000) if quick else (400_000, 50_000)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n + n_test, 90), dtype=np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = np.where(X @ rng.standard_normal(90) + 0.05 * rng.standard_normal(len(X)) > 0.0, 1.0, -1.0)
    yield Table(f"made up, {n:,} x 90", X[:n], y[:n], X[n:], y[n:])


def _ours(table: Table, repeats: int) -> dict[str, Any]:
    """Return median seconds of a default fit, its accuracies, and its passes."""
    os.environ["SOTTOVOCE_NUM_THREADS"] = "1"
    seconds, scores, passes = [], [], 0
    for seed in range(-1, repeats):  # the first compiles
        model = sv.DPLogisticRegression(
            epsilon=EPSILON, delta=DELTA, data_norm=1.0, classes=[-1.0, 1.0], random_state=seed + 1
        )
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyWarning)  # about the seed
            model.fit(table.X, table.y)
        seconds.append(time.process_time() - start)
        scores.append(float(model.score(table.X_test, table.y_test)))
        passes = int(np.max(model.n_iter_))
    return {"seconds": float(np.median(seconds[1:])), "scores": scores[1:], "passes": passes}


def time_to_accuracy(options: Run) -> None:
    """Time the cheapest setting of each library that is nearly as accurate as our default."""
    kept: dict[str, Any] = {}
    head = ("table", "library", "accuracy, %|.2f", "as accurate", "seconds|.3f", "times ours|.2f", "setting")
    title = f"seconds of a whole private training, epsilon {EPSILON:g}, delta {DELTA:g}, one thread"
    options.table(title, head, _trained(options, kept), mark="peers time", width=180)
    options.keep("peers-time-to-accuracy", kept)


def _trained(options: Run, kept: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    repeats = 2 if options.quick else SEEDS
    for table in _tables(options.quick):
        mine = _ours(table, repeats)
        scores = mine["scores"]
        target = float(np.mean(scores)) - max(options.within / 100, float(np.std(scores, ddof=1)) / repeats**0.5)
        known = kept[table.name] = {"target": target, "sottovoce": mine}
        yield table.name, "sottovoce", 100 * np.mean(scores), "", mine["seconds"], 1.0, f"{mine['passes']} passes"
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "split.npz"
            write_split(path, *table[1:])
            job = {
                "data": [str(path)] * repeats, "tuning": str(path), "task": "binary", "metrics": ["accuracy"],
                "epsilon": EPSILON, "delta": DELTA, "quick": options.quick, "warm": True, "target": target,
            }  # fmt: skip
            for peer in options.peers:
                teacher = PEERS[peer].tuned_by
                if teacher and teacher not in known:
                    continue
                settings = {"settings": {"accuracy": known[teacher]["setting"]}} if teacher else {}
                told = work(peer, {**job, **settings})
                if told is None:
                    continue
                known[peer] = found = told["accuracy"]
                mean, error = float(np.mean(found["scores"])), float(np.std(found["scores"], ddof=1) / repeats**0.5)
                yield (
                    table.name, peer, 100 * mean, "yes" if mean + error >= target else "no", found["seconds"],
                    found["seconds"] / mine["seconds"], _in_words(found["setting"]),
                )  # fmt: skip


def _in_words(setting: dict[str, Any]) -> str:
    """Return a setting, but for what does not matter to its time."""
    names = ("epochs", "steps", "batches", "clip", "step", "eta", "C")
    return ", ".join(f"{name} {setting[name]:g}" for name in names if isinstance(setting.get(name), (int, float)))
