"""Untuned defaults beside DP-SGD that was tuned for each cell, on thirty tables: what is won, tied and lost.

    python -m benchmarks.central.cells [--docs] [--seeds 5] [--only a9a,bank] [--quick]

The peers' figures are those of an earlier run and are not made again: `benchmarks.peers.compare` tuned them on twenty
tables, of which the means are kept (``measured/data/comparison/peers_cells.csv``), and ``second/baselines.json`` in the
data folder has those of ten more, split by split. The same splits are trained here. Where a mean alone is known, only
our own error counts, so that more cells are tied. In a cell stand our figure, + = or - for won, tied and lost by one
standard error, and the peer's.
"""

import csv
import json
import math
import warnings
from collections import Counter
from collections.abc import Iterator

import numpy as np
from sklearn.metrics import log_loss, roc_auc_score

import sottovoce as sv
from benchmarks.central.rules import DELTA, second, split
from benchmarks.common import data_folder
from benchmarks.driver import DOCS, EPSILONS, benchmark
from benchmarks.sets import CHOSEN_ON

SECOND_CHOSEN = ("pendigits", "spambase", "htru2", "pima")
SECOND = (*SECOND_CHOSEN, "gmsc", "diabetes130", "rt_polarity", "bike", "diamonds", "ccpp")
ASKED = "accuracy, asked for"  # with objective="accuracy", for two classes; the peer's settings are chosen for it, too
METRICS = ("accuracy", ASKED, "MSE", "log loss", "AUC")  # what is better if larger is shown in percent
SHORT = {"acc": "accuracy", "mse": "MSE", "ll": "log loss", "auc": "AUC"}

Key = tuple[str, float, str]  # table, epsilon, metric


def peers() -> dict[Key, list[float]]:
    """Return the best tuned peer of each cell: its figures split by split, or one mean."""
    found: dict[Key, list[float]] = {}
    with (DOCS / "measured" / "data" / "comparison" / "peers_cells.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            unit = 100.0 if row["metric"] in ("accuracy", "AUC") else 1.0
            for epsilon in EPSILONS:
                found[row["set"], epsilon, row["metric"]] = [float(row[f"epsilon {epsilon:g}"].split()[2]) / unit]
    for run in json.loads((data_folder() / "second" / "baselines.json").read_text(encoding="utf-8"))["results"]:
        if run["who"].partition("-")[0] in ("dpsgd", "softmax"):
            for short in SHORT.keys() & run["rows"][0].keys():
                key, each = (run["data"], float(run["eps"]), SHORT[short]), [row[short] for row in run["rows"]]
                sign = -1.0 if short in ("ll", "mse") else 1.0
                if key not in found or sign * np.mean(each) > sign * np.mean(found[key]):
                    found[key] = each
    return found


def ours(name: str, epsilon: float, seed: int) -> tuple[str, dict[str, float]]:
    """Return the default's solver and figures on a split."""
    if name in SECOND:
        X, y, X_test, y_test, public = second()["split"](name, seed)
        public = {fact: public[fact] for fact in ("data_norm", "classes", "label_bounds") if fact in public}
    else:
        X, y, X_test, y_test, public = split(name, seed)
    kind = sv.DPRidge if "label_bounds" in public else sv.DPLogisticRegression
    model = kind(epsilon=epsilon, delta=DELTA, random_state=seed, **public).fit(X, y)
    solver = model.guarantee_.parameters["solver"]
    if kind is sv.DPRidge:
        return solver, {"MSE": float(np.mean((model.predict(X_test) - y_test) ** 2))}
    shares = np.clip(model.predict_proba(X_test), 1e-15, 1.0)
    figures = {"accuracy": model.score(X_test, y_test), "log loss": log_loss(y_test, shares, labels=model.classes_)}
    if shares.shape[1] == 2:
        figures["AUC"] = roc_auc_score(np.asarray(y_test) == model.classes_[1], model.decision_function(X_test))
        figures[ASKED] = model.set_params(objective="accuracy").fit(X, y).score(X_test, y_test)
    return solver, figures


def compared(mine: list[float], peer: list[float], metric: str) -> tuple[str, float]:
    """Return +, = or -, and by how much ours is better: in points, or in percent of the peer's MSE."""
    sign = -1.0 if metric in ("MSE", "log loss") else 1.0
    gains = sign * (np.array(mine) - np.array(peer if len(peer) == 1 else peer[: len(mine)]))
    error = gains.std(ddof=min(1, len(mine) - 1)) / math.sqrt(len(mine))
    mark = "+" if gains.mean() > error else "-" if gains.mean() < -error else "="
    return mark, 100.0 * float(gains.mean()) / (float(np.mean(peer)) if metric == "MSE" else 1.0)


@benchmark(page="measured/accuracy.md", seeds=(5, 1), only=("all", "german"))
def main(run) -> None:
    warnings.simplefilter("ignore")
    known, gaps, marks = peers(), {}, Counter()
    names = sorted({name for name, _, _ in known}) if run.only == "all" else run.only.split(",")

    def rows() -> Iterator[tuple[str, ...]]:
        for name in names:
            half = "chosen" if name in (*CHOSEN_ON, *SECOND_CHOSEN) else "confirmed"
            for epsilon in EPSILONS:
                runs = [ours(name, epsilon, seed) for seed in range(run.seeds)]
                cells = dict.fromkeys(METRICS, "")
                for metric in (each for each in METRICS if each in runs[0][1]):
                    peer = known.get((name, epsilon, "accuracy" if metric == ASKED else metric))
                    if peer is None:
                        continue
                    mine = [figures[metric] for _, figures in runs]
                    mark, gain = compared(mine, peer, metric)
                    shown = [f"{100 * np.mean(v):.2f}" if metric in ("accuracy", ASKED, "AUC") else f"{np.mean(v):.4g}"
                             for v in (mine, peer)]  # fmt: skip
                    cells[metric] = f"{shown[0]} {mark} {shown[1]}"
                    gaps.setdefault((half, metric), []).append(gain)
                    marks[half, metric, mark] += 1
                    if epsilon in (1.0, 2.0) and metric in ("accuracy", "MSE"):
                        marks[half, epsilon, compared(mine, known[name, epsilon / 2, metric], metric)[0]] += 1
                yield half, name, f"{epsilon:g}", runs[0][0], *cells.values()

    run.table("cells", ("half", "table", "epsilon", "solver", *METRICS), rows(), mark="cells", width=170)
    run.table(
        "by halves", ("half", "metric", "won", "tied", "lost", "median gain|+.2f", "worst|+.2f"),
        [(half, metric, *(marks[half, metric, mark] for mark in "+=-"), float(np.median(each)), min(each))
         for (half, metric), each in sorted(gaps.items())],
        mark="halves",
    )  # fmt: skip
    run.table(
        "accuracy or MSE beside the peer at half of our epsilon", ("half", "epsilon", "won", "tied", "lost"),
        [(half, f"{epsilon:g}", *(marks[half, epsilon, mark] for mark in "+=-"))
         for half in ("chosen", "confirmed") for epsilon in (1.0, 2.0)],
        mark="half of epsilon",
    )  # fmt: skip
