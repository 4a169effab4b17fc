"""Seconds of whole private trainings, ours and those of other libraries, at epsilon 1 and delta 1e-5.

``speed`` times settings of the size that tuning chooses. ``time_to_accuracy`` times, for each library, the cheapest
setting that is as accurate as our default but for one standard error, or its most accurate one where none is.
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

__all__ = ["speed", "time_to_accuracy", "write_split"]

EPSILON, DELTA = 1.0, 1e-5
DPSGD = {
    "epochs": 20, "batches": 20, "clip": 1.0, "step": 1.6, "constant": 0.3, "momentum": 0.0, "l2": 0.0, "sigma": 1.0,
    "variant": 0.5,
}  # fmt: skip
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
    """Yield a9a, and a dense table of 400,000 rows."""
    X, y, X_test, y_test, _ = sets.split("a9a", 0)
    few = slice(4_000 if quick else None)
    yield Table("a9a", X[few], y[few], X_test, y_test)
    n, n_test = (4_000, 1_000) if quick else (400_000, 50_000)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n + n_test, 90), dtype=np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = np.where(X @ rng.standard_normal(90) + 0.05 * rng.standard_normal(len(X)) > 0.0, 1.0, -1.0)
    yield Table(f"dense {n:,} x 90", X[:n], y[:n], X[n:], y[n:])


def _ours(table: Table, threads: int, repeats: int) -> dict[str, Any]:
    """Return median seconds of a default fit, its accuracies, and its passes."""
    os.environ["SOTTOVOCE_NUM_THREADS"] = str(threads)
    seconds, scores, passes = [], [], 0
    for seed in range(-1, repeats):  # the first compiles
        model = sv.DPLogisticRegression(
            epsilon=EPSILON, delta=DELTA, data_norm=1.0, classes=[-1.0, 1.0], random_state=seed + 1
        )
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyWarning)  # about the seed
            model.fit(table.X, table.y)
        seconds.append(time.perf_counter() - start)
        scores.append(float(model.score(table.X_test, table.y_test)))
        passes = int(np.max(model.n_iter_))
    return {"seconds": float(np.median(seconds[1:])), "scores": scores[1:], "passes": passes}


def _job(folder: str, table: Table, repeats: int, quick: bool) -> dict[str, Any]:
    """Return what is the same in all jobs on a table."""
    path = Path(folder) / "split.npz"
    write_split(path, *table[1:])
    return {
        "data": [str(path)] * repeats, "tuning": str(path), "task": "binary", "metrics": ["accuracy"],
        "epsilon": EPSILON, "delta": DELTA, "quick": quick, "warm": True,
    }  # fmt: skip


def speed(options: Run) -> None:
    """Time whole trainings, one thread each, one after the other."""
    repeats = 1 if options.quick else SEEDS
    rows, kept = [], {}
    for table in _tables(options.quick):
        mine = _ours(table, 1, repeats)
        rows.append((table.name, "sottovoce, default", f"{mine['seconds']:.3f}", "1.0", f"{mine['passes']} passes"))
        kept[f"{table.name}, sottovoce"] = mine
        with tempfile.TemporaryDirectory() as folder:
            job = _job(folder, table, repeats, options.quick)
            for title, peer, setting, times, note in _cases(table, mine["passes"]):
                answer = work(peer, {**job, "settings": {"accuracy": setting}}) if peer in options.peers else None
                if answer is None:
                    continue
                seconds = times * answer["accuracy"]["seconds"]
                kept[f"{table.name}, {title}"] = {"seconds": seconds, "setting": setting, "note": note}
                rows.append((table.name, title, f"{seconds:.3f}", f"{seconds / mine['seconds']:.1f}", note))
    head = ("data", "library", "seconds", "ratio", "what")
    options.table("seconds of a whole training, epsilon = 1, one thread", head, rows)
    options.keep("peers-speed", kept)


def _cases(table: Table, passes: int) -> list[tuple[str, str, dict[str, Any], int, str]]:
    """Return what is timed: title, peer, setting, how often its seconds count, and a note."""
    # the dense table: seconds of one epoch, times the number of epochs
    epochs, times = (DPSGD["epochs"], 1) if table.name == "a9a" else (1, DPSGD["epochs"])
    descent = {**DPSGD, "epochs": epochs}
    usual = {**DPSGD, "epochs": 1, "batches": -(-table.X.shape[0] // 256), "usual": True}
    snap = {"constant": 0.3, "regularizer": 1.0, "epochs": passes, "private": False}
    private = {"private": True, "batches": 50, "eta": 1.0, "clip": 1.0, "epochs": 20}
    what = f"{DPSGD['epochs']} epochs of {DPSGD['batches']} batches" + (", from one epoch" if times > 1 else "")
    return [
        ("dpsgd", "dpsgd", descent, times, what),
        ("opacus", "opacus", descent, times, what),
        ("opacus, usual loader", "opacus", usual, DPSGD["epochs"], f"{DPSGD['epochs']} epochs of 256 rows, from one"),
        ("jax-privacy", "jax-privacy", descent, times, what),
        ("diffprivlib", "diffprivlib", {"C": 1.0, "intercept": True}, 1, "objective perturbation"),
        ("snapml, private", "snapml", {**snap, **private}, 1, "20 epochs of 50 batches"),
        ("snapml, not private", "snapml", snap, 1, f"{passes} epochs of coordinate descent"),
    ]


def time_to_accuracy(options: Run) -> None:
    """Time the cheapest setting of each library that reaches our default's accuracy but for one standard error."""
    repeats = 2 if options.quick else SEEDS
    rows, kept = [], {}
    for table in _tables(options.quick):
        mine = {threads: _ours(table, threads, repeats) for threads in (1, 2)}
        scores = mine[1]["scores"]
        target = float(np.mean(scores) - np.std(scores, ddof=1) / len(scores) ** 0.5)
        kept[table.name] = {"sottovoce": mine, "target": target}
        rows.append(_line(table.name, "sottovoce, default", [mine[1], mine[2]], mine, f"{mine[1]['passes']} passes"))
        with tempfile.TemporaryDirectory() as folder:
            job = _job(folder, table, repeats, options.quick)
            for peer in options.peers:
                answers, setting = _cheapest(peer, {**job, "target": target}, kept[table.name])
                if answers:
                    kept[table.name][peer] = {"setting": setting, "by threads": answers}
                    rows.append(_line(table.name, peer, answers, mine, _in_words(setting)))
    head = ("data", "library", "accuracy", "1 thread: seconds", "ratio", "2 threads: seconds", "ratio", "setting")
    title = "seconds of a whole training that is as accurate, epsilon = 1"
    options.table(title, head, rows, mark="peers time", width=180)
    options.keep("peers-time-to-accuracy", kept)


def _cheapest(peer: str, job: dict[str, Any], known: dict[str, Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return what a peer needs on one thread and on two, and its setting."""
    teacher = PEERS[peer].tuned_by
    if teacher and teacher not in known:
        return [], {}
    settings = {"settings": {"accuracy": known[teacher]["setting"]}} if teacher else {}
    answers: list[dict[str, Any]] = []
    for threads in (1, 2):
        answer = work(peer, {**job, **settings}, threads)
        if answer is None:
            return [], {}
        answers.append(answer["accuracy"])
        settings = {"settings": {"accuracy": answer["accuracy"]["setting"]}}
    return answers, answers[0]["setting"]


def _line(
    name: str, library: str, answers: list[dict[str, Any]], mine: dict[int, dict[str, Any]], note: str
) -> tuple[str, ...]:
    times = []
    for threads, answer in enumerate(answers, start=1):
        times += [f"{answer['seconds']:.3f}", f"{answer['seconds'] / mine[threads]['seconds']:.2f}"]
    return (name, library, f"{100 * float(np.mean(answers[0]['scores'])):.2f}", *times, note)


def _in_words(setting: dict[str, Any]) -> str:
    """Return a setting, but for what does not matter to its time."""
    names = ("epochs", "batches", "clip", "step", "eta", "C", "variant")
    return ", ".join(f"{name} {setting[name]:g}" for name in names if isinstance(setting.get(name), (int, float)))
