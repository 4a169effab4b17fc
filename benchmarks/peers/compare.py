"""Library defaults, nothing tuned, against other libraries, each tuned for each metric: cells won, tied and lost.

    python -m benchmarks.peers.compare                      what benchmarks/results/peers/ lacks, then the table
    python -m benchmarks.peers.compare --ours-only          our own fits that are missing, then the table
    python -m benchmarks.peers.compare --ours-only --again  our own fits again, all of them
    python -m benchmarks.peers.compare --polish             search on where the budget ended a search
    python -m benchmarks.peers.compare --table [--docs]     the table only; --docs keeps it in docs/measured/data
    python -m benchmarks.peers.compare --speed              seconds of whole private trainings, in one run
    python -m benchmarks.peers.compare --time-to-accuracy [--docs]  seconds of trainings that are as accurate

Options: --half chosen --only phishing,a9a --peers dpsgd,snapml --epsilons 0.1,1 --delta 1e-3 --budget 20 --quick

The sets are those of ``benchmarks/sets.py``: five splits, the same for all. Every peer gets an environment of its own
in benchmarks/.peers/ with pinned versions, and a script in benchmarks/peers/. Its settings are chosen for each set,
epsilon and metric by the scores on a quarter of the first split's training rows, without privacy and at no cost to the
peer; the reported fits use all training rows and other seeds. DP-SGD is tuned with a fast implementation (``dpsgd``);
opacus and jax-privacy run with the cheapest of its settings within one standard error of the best. Two peers promise
something else: diffprivlib pure DP (more), Snap ML a fixed delta of 0.01 (less).

Peers get rows divided by the public norm, and numbers to learn moved from their public bounds to [-1, 1].

A cell is a set, an epsilon and a metric. It is won or lost against the best peer where the mean difference over the
splits is more than its standard error (paired: both have the same splits), and tied otherwise.
"""

import itertools
import json
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

import sottovoce as sv
from benchmarks import sets
from benchmarks.driver import EPSILONS, FIGURES, Run, benchmark, keep_picture, option
from benchmarks.peers import timing
from benchmarks.peers.job import METRICS, classification_scores, regression_scores
from benchmarks.peers.libraries import FOLDER, PEERS, at_hand, work
from benchmarks.peers.timing import write_split
from sottovoce.exceptions import PrivacyWarning

HELD_OUT = 0.25  # of the training rows, to choose the settings of a peer
LARGEST = ("skin", "farm_ads", "news20", "blogfeedback")  # run last
STARTS = 24  # settings of other cells at which a search begins


def task_of(name: str) -> str:
    public = sets.whole(name).public
    if "label_bounds" in public:
        return "regression"
    return "binary" if len(public["classes"]) == 2 else "multiclass"


def in_order(names: list[str]) -> list[str]:
    """Return sets of both halves alternating, the largest last."""
    halves = [[name for name in half if name in names] for half in (sets.CHOSEN_ON, sets.CONFIRMED_ON)]
    mixed = [name for pair in itertools.zip_longest(*halves) for name in pair if name]
    return sorted(mixed, key=lambda name: LARGEST.index(name) if name in LARGEST else -1)


def for_peers(name: str, seed: int) -> tuple[Any, ...]:
    """Return a split as peers get it: rows divided by the public norm; labels -1 and 1, 0 to K - 1, or in [-1, 1]."""
    X, y, X_test, y_test, public = sets.split(name, seed)
    task = task_of(name)

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
            write_split(path, *for_peers(name, seed))
        paths.append(str(path))
    return paths


def tuning_split(name: str) -> str:
    """Write three quarters of the first split's training rows, the last quarter in place of the test part."""
    path = FOLDER / "data" / f"{name}-held-out.npz"
    if not path.exists():
        X, y, _, _ = for_peers(name, 0)
        strata = None if task_of(name) == "regression" else y
        X, X_held, y, y_held = train_test_split(X, y, test_size=HELD_OUT, random_state=0, stratify=strata)
        write_split(path, X, y, X_held, y_held)
    return str(path)


def cell_path(name: str, data: str, epsilon: float, options: Run) -> Path:
    """Return where a result is kept: for our own fits or those of a peer."""
    quick = "-quick" if options.quick else ""
    if name == "ours" and options.solver != "auto":
        name += f"-{options.solver}"
    return FOLDER / "cells" / f"{data}-{epsilon:g}-{options.delta:g}-{name}{quick}.json"


def cached(path: Path) -> dict[str, Any] | None:
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None


def ours(data: str, epsilon: float, options: Run) -> dict[str, Any]:
    """Fit the defaults: all scores come from the same models."""
    task = task_of(data)
    kind = sv.DPRidge if task == "regression" else sv.DPLogisticRegression
    found, seconds, passes = [], [], 0
    for seed in range(options.seeds):
        X, y, X_test, y_test, public = sets.split(data, seed)
        model = kind(epsilon=epsilon, delta=options.delta, solver=options.solver, random_state=seed, **public)
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyWarning)  # about the seed
            model.fit(X, y)
        seconds.append(time.perf_counter() - start)
        passes = int(np.max(model.n_iter_))
        if task == "regression":
            low, high = public["label_bounds"]
            half = (high - low) / 2.0
            scale = lambda values, low=low, half=half: (np.asarray(values) - low) / half - 1.0  # noqa: E731
            # predictions are taken as the model gives them: whether it keeps its bounds is its own affair
            found.append(regression_scores(scale(model.predict(X_test)), scale(y_test), (-np.inf, np.inf)))
            continue
        with np.errstate(divide="ignore"):
            logs = np.log(model.predict_proba(X_test))
        order = model.decision_function(X_test) if task == "binary" else None
        classes = public["classes"]
        guess, truth = _places(classes, model.predict(X_test)), _places(classes, y_test)
        found.append(classification_scores(logs, order, guess, truth))
    return {
        metric: {
            "scores": [scores[metric] for scores in found],
            "seconds": float(np.median(seconds)),
            "setting": {"passes": passes},
        }
        for metric in METRICS[task]
    }


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


def is_settled(known: dict[str, Any] | None) -> bool:
    """Tell whether the search of a cell ended by itself, or there was none."""
    return known is not None and all(row.get("ended by") != "the budget" for row in known.values())


def better(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Return for each metric the result whose setting was better on the held-out rows."""
    return {
        metric: old[metric] if metric in old and old[metric]["held out"] >= row["held out"] else row
        for metric, row in new.items()
    }


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


def verdict(mine: list[float], other: list[float]) -> str:
    """Return whether a cell is won, tied (within one standard error of the paired difference) or lost."""
    gaps = np.asarray(mine) - np.asarray(other)
    error = float(np.std(gaps, ddof=1)) / len(gaps) ** 0.5
    return "tied" if abs(float(np.mean(gaps))) <= error else "won" if np.mean(gaps) > 0.0 else "lost"


def compared(names: list[str], epsilons: list[float], options: Run) -> Iterator[dict[str, Any]]:
    """Yield every cell of which something is known."""
    for data, epsilon in itertools.product(names, epsilons):
        entries = {name: cached(cell_path(name, data, epsilon, options)) for name in (*options.peers, "ours")}
        for metric in METRICS[task_of(data)]:
            known = {name: entry[metric] for name, entry in entries.items() if entry and metric in entry}
            if not known:
                continue
            others = {name: float(np.mean(row["scores"])) for name, row in known.items() if name != "ours"}
            best = max(others, key=lambda name: others[name], default=None)
            both = best is not None and "ours" in known
            yield {
                "half": "chosen" if data in sets.CHOSEN_ON else "confirmed", "data": data, "epsilon": epsilon,
                "metric": metric, "best": best, "results": known, "unit": unit_of(data, metric),
                "verdict": verdict(known["ours"]["scores"], known[best]["scores"]) if both else "",
            }  # fmt: skip


def unit_of(data: str, metric: str) -> float:
    """Return what a score is multiplied by to be shown."""
    if metric == "MSE":
        low, high = sets.whole(data).public["label_bounds"]
        return -((high - low) ** 2) / 4.0
    return {"accuracy": 100.0, "AUC": 100.0, "log loss": -1.0}[metric]


def words(row: dict[str, Any] | None, unit: float) -> str:
    if row is None:
        return ""
    value = unit * float(np.mean(row["scores"]))
    return "useless" if abs(value) > 1e5 else f"{value:.2f}" if unit in (100.0, 1.0) else f"{value:.4g}"


def tables(cells: list[dict[str, Any]], epsilons: list[float]) -> dict[str, Any]:
    """Return the counts by half and metric, and all cells: ours, the best peer's, and how it ended."""
    counts = []
    for half, metric in itertools.product(("chosen", "confirmed"), ("accuracy", "log loss", "AUC", "MSE", None)):
        ends = [cell["verdict"] for cell in cells if cell["half"] == half and metric in (cell["metric"], None)]
        if any(ends):
            won, tied, lost = (ends.count(name) for name in ("won", "tied", "lost"))
            share = f"{100 * (won + tied) / (won + tied + lost):.0f} %"
            counts.append((half, metric or "all", str(won), str(tied), str(lost), share))
    marks = {"won": " +", "tied": " =", "lost": " -", "": ""}
    lines: dict[tuple[str, ...], dict[float, str]] = {}
    for cell in cells:
        own, other = (words(cell["results"].get(name), cell["unit"]) for name in ("ours", cell["best"]))
        line = lines.setdefault((cell["half"], cell["data"], cell["metric"]), {})
        line[cell["epsilon"]] = f"{own} / {other}{marks[cell['verdict']]}"
    rows = [(*names, *(line.get(epsilon, "") for epsilon in epsilons)) for names, line in sorted(lines.items())]
    return {
        "peers counts": (("half", "metric", "won", "tied", "lost", "won or tied"), counts),
        "peers cells": (("half", "set", "metric", *(f"epsilon {epsilon:g}" for epsilon in epsilons)), rows),
    }


def draw(cells: list[tuple[str, float, str]]) -> None:
    """Draw how many cells were won, tied and lost: by metric, and by epsilon."""
    from matplotlib import pyplot as plt

    metrics = [metric for metric in ("accuracy", "log loss", "AUC", "MSE") if any(metric == cell[0] for cell in cells)]
    budgets = sorted({epsilon for _, epsilon, _ in cells})
    figure, axes = plt.subplots(1, 2, figsize=(10, 3), layout="constrained", sharex=True)
    for axis, place, keys in zip(axes, (0, 1), (metrics, budgets), strict=True):
        left = np.zeros(len(keys))
        names = [f"epsilon = {key:g}" if place else str(key) for key in keys]
        for end, colour in (("won", "#4477aa"), ("tied", "#bbbbbb"), ("lost", "#cc6677")):
            counts = np.array([sum(cell[place] == key and cell[2] == end for cell in cells) for key in keys])
            bars = axis.barh(names, counts, left=left, color=colour, label=end)
            axis.bar_label(bars, [str(count) if count else "" for count in counts], label_type="center", fontsize=9)
            left += counts
        axis.set_xlabel("cells")
        axis.invert_yaxis()
        axis.spines[["top", "right"]].set_visible(False)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    figure.suptitle("Untuned defaults against DP-SGD tuned for each cell, twenty tables", fontsize=11)
    keep_picture(figure, FIGURES / "comparison.png")


def run_cells(names: list[str], epsilons: list[float], options: Run) -> None:
    people = (*(() if options.ours_only else options.peers), *(() if options.no_ours else ("ours",)))
    # epsilons from the middle, so that each search has a near one to begin at
    nearest = sorted(epsilons, key=lambda epsilon: abs(np.log(epsilon)))
    for data, epsilon, name in itertools.product(in_order(names), nearest, people):
        path = cell_path(name, data, epsilon, options)
        again = options.again_ if name == "ours" else options.polish and not is_settled(cached(path))
        if (path.exists() and not again) or (name != "ours" and task_of(data) not in PEERS[name].tasks):
            continue
        start = time.perf_counter()
        result = ours(data, epsilon, options) if name == "ours" else peer_cell(name, data, epsilon, options)
        if result is None:
            continue
        if name != "ours":
            result = better(cached(path) or {}, result)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(result) + "\n", encoding="utf-8")
        texts = [
            f"{metric} {words(row, unit_of(data, metric))}"
            + (f" ({row['tried']} tried, ended by {row['ended by']})" if "tried" in row else "")
            for metric, row in result.items()
        ]
        print(f"{data} {epsilon:g} {name}: {'; '.join(texts)}; {time.perf_counter() - start:.0f} s", flush=True)


@benchmark(
    page="measured/comparison.md",
    half=option("both", help="see benchmarks/sets.py", choices=("chosen", "confirmed", "both")), only=None, peers=None,
    epsilons=",".join(f"{epsilon:g}" for epsilon in EPSILONS), delta=1e-5, seeds=option(5, help="splits"),
    budget=option(type=float, help="seconds, roughly, of the search in a cell"), ours_only=False,
    solver=option("auto", help="of our own models"), again=option(False, help="make our own fits that are kept again"),
    polish=option(False, help="search on where the budget ended a search"),
    no_ours=option(False, help="leave our own fits for later"), table=False, speed=False, time_to_accuracy=False,
)  # fmt: skip
def main(options) -> None:
    if options.quick:
        options.seeds = min(options.seeds, 2)
    options.peers = options.peers.split(",") if options.peers else at_hand() if options.quick else list(PEERS)
    if options.speed or options.time_to_accuracy:
        (timing.speed if options.speed else timing.time_to_accuracy)(options)
        return
    half = {"chosen": sets.CHOSEN_ON, "confirmed": sets.CONFIRMED_ON, "both": tuple(sets.SETS)}[options.half]
    names = [name for name in (options.only.split(",") if options.only else half) if name in half]
    if options.quick and not options.only:
        names = [name for name in ("german",) if name in half]
    epsilons = [float(text) for text in options.epsilons.split(",")][: 1 if options.quick else None]
    if not options.table_:
        run_cells(names, epsilons, options)
    cells = list(compared(names, epsilons, options))
    options.tables(tables(cells, epsilons), width=200)
    solver = "" if options.solver == "auto" else f"-{options.solver}"
    options.keep("peers" + solver + ("-quick" if options.quick else ""), cells)
    if options.docs:
        draw([(cell["metric"], cell["epsilon"], cell["verdict"]) for cell in cells if cell["verdict"]])
