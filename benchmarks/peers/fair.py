"""Untuned defaults beside what a user can really have at the same (epsilon, delta): no setting is chosen for free.

    python -m benchmarks.peers.fair [--docs] [--epsilons 0.1,1] [--seeds 3] [--only a9a,bank] [--peers opacus] [--table]

On the thirty tables of `benchmarks.central.cells`, same splits, same public bounds. The peers: DP-SGD by a random
search that pays inside epsilon, and by one rule for all tables (run_paid_dpsgd.py); opacus with the settings of its
tutorial; diffprivlib with its defaults (pure DP, which is more); Boosted AdaSSP, numbers only; DP-EBM of interpret, its
defaults (functions of one column, not linear; two classes or numbers), up to `WIDEST` columns. Fits are kept in
benchmarks/results/peers/fair.jsonl as they come, and are not made again. A cell is level or better as in `cells`: the
mean difference over the splits is not worse than by its standard error.
"""

import itertools
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.central import cells
from benchmarks.central.rules import DELTA, second, split
from benchmarks.driver import benchmark
from benchmarks.peers.compare import for_peers, task_given
from benchmarks.peers.job import METRICS
from benchmarks.peers.libraries import FOLDER, work
from benchmarks.peers.timing import write_split
from benchmarks.sets import CHOSEN_ON, CONFIRMED_ON

ALL_TASKS = tuple(METRICS)
SCRIPTS = {"rule-dpsgd": "paid-dpsgd"}
WIDEST = {"interpret": 300}
FAIR: dict[str, tuple[str, tuple[str, ...], dict[str, Any]]] = {  # what it is in a table, tasks, setting
    "paid-dpsgd": ("DP-SGD that pays for its tuning", ALL_TASKS, {}),
    "rule-dpsgd": ("DP-SGD by one rule", ALL_TASKS, {"rule": True}),
    "opacus": ("Opacus, its tutorial's settings", ALL_TASKS, {"tutorial": True}),
    "diffprivlib": ("diffprivlib, its defaults", ALL_TASKS, {"C": 1.0, "bound": 1.0, "intercept": True}),
    "boosted-adassp": ("Boosted AdaSSP", ("regression",), {}),
    "interpret": ("DP-EBM (not linear)", ("binary", "regression"), {}),
}
MAIN = ("accuracy", "MSE")

Fits = dict[tuple[str, str, float, int], dict[str, float]]  # by who, table, epsilon and split


def split_of(name: str, seed: int) -> tuple[Any, ...]:
    """Return the split that our own fits have, and what is public."""
    X, y, X_test, y_test, public = second()["split"](name, seed) if name in cells.SECOND else split(name, seed)
    facts = {fact: public[fact] for fact in ("data_norm", "classes", "label_bounds") if fact in public}
    return X, y, X_test, y_test, facts


def known(file: Path) -> Fits:
    """Return what has been fitted."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    rows = [json.loads(line) for line in lines]
    return {(row["who"], row["table"], row["epsilon"], row["seed"]): row["figures"] for row in rows}


def keep(file: Path, who: str, table: str, epsilon: float, seed: int, figures: dict[str, float]) -> None:
    """Add a fit to the file."""
    row = {"who": who, "table": table, "epsilon": epsilon, "seed": seed, "figures": figures}
    with file.open("a", encoding="utf-8") as opened:
        opened.write(json.dumps(row) + "\n")


def our_fits(file: Path, name: str, epsilons: list[float], seeds: int, done: Fits) -> None:
    """Fit the defaults."""
    for epsilon in epsilons:
        for seed in range(seeds):
            if ("ours", name, epsilon, seed) not in done:
                keep(file, "ours", name, epsilon, seed, cells.ours(name, epsilon, seed)[1])


def peer_fits(file: Path, who: str, name: str, epsilons: list[float], seeds: int, done: Fits) -> None:
    """Let a peer fit what is missing, all splits of an epsilon at once; figures are in our units."""
    _, tasks, setting = FAIR[who]
    missing = [e for e in epsilons if any((who, name, e, seed) not in done for seed in range(seeds))]
    X, _, _, _, public = split_of(name, 0)
    task = task_given(public)
    if not missing or task not in tasks or X.shape[1] > WIDEST.get(who, X.shape[1]):
        return
    paths = [FOLDER / "data" / f"fair-{name}-{seed}.npz" for seed in range(seeds)]
    for seed, path in enumerate(paths):
        if not path.exists():
            write_split(path, *for_peers(*split_of(name, seed)))
    low, high = public.get("label_bounds", (0.0, 0.0))
    units = {"accuracy": 1.0, "AUC": 1.0, "log loss": -1.0, "MSE": -(((high - low) / 2.0) ** 2)}
    job = {
        "data": [str(path) for path in paths], "task": task, "epsilons": missing, "delta": DELTA,
        "once": {**setting, "data_norm": public["data_norm"]},
    }  # fmt: skip
    for fit in (work(SCRIPTS.get(who, who), job) or {"fits": []})["fits"]:
        if (who, name, fit["epsilon"], fit["seed"]) not in done:
            figures = {metric: units[metric] * fit[metric] for metric in METRICS[task]}
            keep(file, who, name, fit["epsilon"], fit["seed"], figures)


def compared(fits: Fits, who: str, names: list[str], epsilons: list[float], seeds: int) -> Iterator[tuple[Any, ...]]:
    """Yield half, table, epsilon, metric, our mean, the peer's, the mark, and by how much ours is better."""
    for name in names:
        half = "chosen" if name in (*CHOSEN_ON, *cells.SECOND_CHOSEN) else "confirmed"
        for epsilon in epsilons:
            both = [
                [fits[one, name, epsilon, seed] for seed in range(seeds) if (one, name, epsilon, seed) in fits]
                for one in ("ours", who)
            ]
            if len(both[0]) != seeds or len(both[1]) != seeds:
                continue
            for metric in both[1][0]:  # ours has more: accuracy with the objective of that name
                mine, peer = ([figures[metric] for figures in each] for each in both)
                mark, gain = cells.compared(mine, peer, metric)
                yield half, name, epsilon, metric, sum(mine) / seeds, sum(peer) / seeds, mark, gain


def share(lines: list[tuple[Any, ...]]) -> str:
    """Return how many cells are level or better, of all."""
    return f"{sum(line[6] != '-' for line in lines)}/{len(lines)}"


def summary(title: str, lines: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Return a peer's line: cells of the main metric, all and confirmed; median and worst of accuracy, then of MSE."""
    main = [line for line in lines if line[3] in MAIN]
    gains = [[line[7] for line in main if line[3] == metric] or [None] for metric in MAIN]
    each = [of(found) if found != [None] else None for found in gains for of in (median, min)]
    return title, share(main), share([line for line in main if line[0] == "confirmed"]), *each


def by_metric(title: str, lines: list[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Yield a line for each half and metric."""
    for half, metric in itertools.product(("chosen", "confirmed"), cells.METRICS):
        found = [line for line in lines if (line[0], line[3]) == (half, metric)]
        if found:
            gains = [line[7] for line in found]
            yield title, half, metric, share(found), median(gains), min(gains)


@benchmark(
    page="fair_peers.md", epsilons=("0.1,1", "1"), seeds=(3, 1), only=("all", "german"),
    peers=(",".join(FAIR), "paid-dpsgd,boosted-adassp"), table=False,
)  # fmt: skip
def main(run) -> None:
    warnings.simplefilter("ignore")
    names = [*CHOSEN_ON, *CONFIRMED_ON, *cells.SECOND] if run.only == "all" else run.only.split(",")
    epsilons, peers = [float(text) for text in run.epsilons.split(",")], run.peers.split(",")
    file = FOLDER / f"fair{'-quick' * run.quick}.jsonl"
    FOLDER.mkdir(parents=True, exist_ok=True)
    done = known(file)
    for who in () if run.table_ else ("ours", *peers):
        for name in names:
            print(who, name, flush=True)
            if who == "ours":
                our_fits(file, name, epsilons, run.seeds, done)
            else:
                peer_fits(file, who, name, epsilons, run.seeds, done)
    fits = known(file)
    lines = {FAIR[who][0]: list(compared(fits, who, names, epsilons, run.seeds)) for who in peers}
    lines = {title: found for title, found in lines.items() if found}
    head = ("untuned defaults against", "level or better", "where nothing was chosen", "accuracy: median, points|+.2f",
            "worst|+.2f", "MSE: median, %|+.0f", "worst|+.0f")  # fmt: skip
    run.table("main metric", head, [summary(*each) for each in lines.items()], mark="fair", page="comparison.md")
    head = ("peer", "half", "metric", "level or better", "median gain|+.2f", "worst|+.2f")
    run.table("by metric", head, [row for each in lines.items() for row in by_metric(*each)], mark="by metric")
    head = ("peer", "half", "table", "epsilon|g", "metric", "ours|.4g", "peer|.4g", "mark", "gain|+.2f")
    run.table("cells", head, [(who, *line) for who, found in lines.items() for line in found], mark="cells", width=150)
