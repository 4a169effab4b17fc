"""Other libraries, each tuned for each table, epsilon and metric: the peers that `benchmarks.central.cells` is beside.

    python -m benchmarks.peers.compare                      what benchmarks/results/peers/ lacks, then the table
    python -m benchmarks.peers.compare --table              the table only
    python -m benchmarks.peers.compare --time-to-accuracy [--docs]  seconds of whole trainings that are as accurate

Options: --half chosen --only phishing,a9a --peers dpsgd,snapml --epsilons 0.1,1 --delta 1e-3 --budget 20 --quick

The sets are those of ``benchmarks/sets.py``: five splits, the same for all. Every peer gets an environment of its own
in benchmarks/.peers/ with pinned versions, and a script in benchmarks/peers/. Its settings are chosen for each set,
epsilon and metric by the scores on a quarter of the first split's training rows, without privacy and at no cost to the
peer; the reported fits use all training rows and other seeds. DP-SGD is tuned with a fast implementation (``dpsgd``);
opacus and jax-privacy run with the cheapest of its settings within one standard error of the best. Two peers promise
something else: diffprivlib pure DP (more), Snap ML a fixed delta of 0.01 (less).

Peers get rows divided by the public norm, and numbers to learn moved from their public bounds to [-1, 1].
"""

import itertools
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from benchmarks import sets
from benchmarks.driver import EPSILONS, Run, benchmark, option
from benchmarks.peers import timing
from benchmarks.peers.job import METRICS
from benchmarks.peers.libraries import FOLDER, PEERS, at_hand, tunable, work
from benchmarks.peers.timing import write_split

HELD_OUT = 0.25  # of the training rows, to choose the settings of a peer
LARGEST = ("skin", "farm_ads", "news20", "blogfeedback")  # run last
STARTS = 24  # settings of other cells at which a search begins


def task_of(name: str) -> str:
    return task_given(sets.whole(name).public)


def task_given(public: dict[str, Any]) -> str:
    if "label_bounds" in public:
        return "regression"
    return "binary" if len(public["classes"]) == 2 else "multiclass"


def in_order(names: list[str]) -> list[str]:
    """Return sets of both halves alternating, the largest last."""
    halves = [[name for name in half if name in names] for half in (sets.CHOSEN_ON, sets.CONFIRMED_ON)]
    mixed = [name for pair in itertools.zip_longest(*halves) for name in pair if name]
    return sorted(mixed, key=lambda name: LARGEST.index(name) if name in LARGEST else -1)


def for_peers(X: Any, y: Any, X_test: Any, y_test: Any, public: dict[str, Any]) -> tuple[Any, ...]:
    """Return a split as peers get it: rows divided by the public norm; labels -1 and 1, 0 to K - 1, or in [-1, 1]."""
    task = task_given(public)

    def labels(y: Any) -> np.ndarray:
        if task == "regression":
            low, high = public["label_bounds"]
            return (2.0 * np.asarray(y) - low - high) / (high - low)
        places = _places(public["classes"], y)
        return 2.0 * places - 1.0 if task == "binary" else places

    return X / public["data_norm"], labels(y), X_test / public["data_norm"], labels(y_test)


def _places(classes: list[Any], y: Any) -> np.ndarray:
    """Return the place of each label in the list of classes."""
    known = {label: place for place, label in enumerate(classes)}
    return np.array([known[label] for label in np.asarray(y).tolist()], dtype=np.int64)


def splits(name: str, count: int) -> list[str]:
    """Write the splits for the peers, and return their paths."""
    paths = []
    for seed in range(count):
        path = FOLDER / "data" / f"{name}-{seed}.npz"
        if not path.exists():
            write_split(path, *for_peers(*sets.split(name, seed)))
        paths.append(str(path))
    return paths


def tuning_split(name: str) -> str:
    """Write three quarters of the first split's training rows, the last quarter in place of the test part."""
    path = FOLDER / "data" / f"{name}-held-out.npz"
    if not path.exists():
        X, y, _, _ = for_peers(*sets.split(name, 0))
        strata = None if task_of(name) == "regression" else y
        X, X_held, y, y_held = train_test_split(X, y, test_size=HELD_OUT, random_state=0, stratify=strata)
        write_split(path, X, y, X_held, y_held)
    return str(path)


def cell_path(name: str, data: str, epsilon: float, options: Run) -> Path:
    """Return where the results of a peer are kept."""
    quick = "-quick" if options.quick else ""
    return FOLDER / "cells" / f"{data}-{epsilon:g}-{options.delta:g}-{name}{quick}.json"


def cached(path: Path) -> dict[str, Any] | None:
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None


def peer_cell(peer: str, data: str, epsilon: float, options: Run) -> dict[str, Any] | None:
    """Tune (or take the settings of the fast implementation) and fit; scores are in the unit of [-1, 1] labels."""
    task = task_of(data)
    job: dict[str, Any] = {
        "data": splits(data, options.seeds), "tuning": tuning_split(data), "task": task, "metrics": METRICS[task],
        "epsilon": epsilon, "delta": options.delta, "quick": options.quick,
    }  # fmt: skip
    teacher = PEERS[peer].tuned_by
    if teacher:
        known = cached(cell_path(teacher, data, epsilon, options))
        if known is None:
            print(f"{peer} needs the settings of {teacher} first", flush=True)
            return None
        job["settings"] = {metric: row["cheap"] for metric, row in known.items()}
    elif not options.quick:  # begin where the search of other cells ended
        job["starts"] = starts(peer, data, epsilon, options)
    if options.budget:
        job["budget"] = options.budget
    return work(peer, job)


def starts(peer: str, data: str, epsilon: float, options: Run) -> list[dict[str, Any]]:
    """Return the best settings of this set at other epsilons, then of other sets at this epsilon."""
    others = [name for name in sets.SETS if name != data and task_of(name) == task_of(data)] if peer == "dpsgd" else []
    places = [(data, other) for other in EPSILONS] + [(name, epsilon) for name in others]
    found = [
        {name: value for name, value in row["setting"].items() if name not in ("sigma", "variant")}
        for place in places
        for row in (cached(cell_path(peer, *place, options)) or {}).values()
    ]
    return [dict(pairs) for pairs in dict.fromkeys(tuple(setting.items()) for setting in found)][:STARTS]


def unit_of(data: str, metric: str) -> float:
    """Return what a score is multiplied by to be shown."""
    if metric == "MSE":
        low, high = sets.whole(data).public["label_bounds"]
        return -((high - low) ** 2) / 4.0
    return {"accuracy": 100.0, "AUC": 100.0, "log loss": -1.0}[metric]


def words(row: dict[str, Any], unit: float) -> str:
    value = unit * float(np.mean(row["scores"]))
    return "useless" if abs(value) > 1e5 else f"{value:.2f}" if unit == 100.0 else f"{value:.4g}"


def run_cells(names: list[str], epsilons: list[float], options: Run) -> None:
    # epsilons from the middle, so that each search has a near one to begin at
    nearest = sorted(epsilons, key=lambda epsilon: abs(np.log(epsilon)))
    for data, epsilon, name in itertools.product(in_order(names), nearest, options.peers):
        path = cell_path(name, data, epsilon, options)
        if path.exists() or task_of(data) not in PEERS[name].tasks:
            continue
        start = time.perf_counter()
        result = peer_cell(name, data, epsilon, options)
        if result is None:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(result) + "\n", encoding="utf-8")
        texts = [
            f"{metric} {words(row, unit_of(data, metric))}"
            + (f" ({row['tried']} tried, ended by {row['ended by']})" if "tried" in row else "")
            for metric, row in result.items()
        ]
        print(f"{data} {epsilon:g} {name}: {'; '.join(texts)}; {time.perf_counter() - start:.0f} s", flush=True)


def tuned(names: list[str], epsilons: list[float], options: Run) -> Iterator[tuple[Any, ...]]:
    """Yield each table and metric, and by epsilon the mean of the best known peer and its name."""
    for data in names:
        for metric in METRICS[task_of(data)]:
            line = []
            for epsilon in epsilons:
                known = {peer: cached(cell_path(peer, data, epsilon, options)) or {} for peer in options.peers}
                rows = {peer: found[metric] for peer, found in known.items() if metric in found}
                best = max(rows, key=lambda peer: float(np.mean(rows[peer]["scores"])), default=None)
                line.append(f"{words(rows[best], unit_of(data, metric))} {best}" if best else "")
            yield data, metric, *line


@benchmark(
    page="measured/comparison.md",
    half=option("both", help="see benchmarks/sets.py", choices=("chosen", "confirmed", "both")), only=None, peers=None,
    epsilons=",".join(f"{epsilon:g}" for epsilon in EPSILONS), delta=1e-5, seeds=option(5, help="splits"),
    budget=option(type=float, help="seconds, roughly, of the search in a cell"),
    table=False, time_to_accuracy=False,
    within=option(0.1, help="points of accuracy that --time-to-accuracy lets others miss"),
)  # fmt: skip
def main(options) -> None:
    if options.quick:
        options.seeds = min(options.seeds, 2)
    options.peers = options.peers.split(",") if options.peers else at_hand() if options.quick else tunable()
    if options.time_to_accuracy:
        timing.time_to_accuracy(options)
        return
    half = {"chosen": sets.CHOSEN_ON, "confirmed": sets.CONFIRMED_ON, "both": tuple(sets.SETS)}[options.half]
    names = [name for name in (options.only.split(",") if options.only else half) if name in half]
    if options.quick and not options.only:
        names = [name for name in ("german",) if name in half]
    epsilons = [float(text) for text in options.epsilons.split(",")][: 1 if options.quick else None]
    if not options.table_:
        run_cells(names, epsilons, options)
    head = ("set", "metric", *(f"epsilon {epsilon:g}" for epsilon in epsilons))
    options.table("the best tuned peer", head, tuned(names, epsilons, options), width=200)
