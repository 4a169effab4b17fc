"""Tables in raw units: DPPipeline against every hand-chosen data_norm, with the same budget.

    python -m benchmarks.central.raw_units [--quick] [--docs] [--confirm] [--epsilon 1.0]

Columns as they are measured: dollars beside years beside shares. By hand means a multiple of the median norm of the
training rows, which nobody may look at, and the best of seven is taken for each table after the fact. The standardised
columns (means and deviations of the training rows, without noise) are what a private scaler is after. The rules of the
scaler were chosen on the first tables and confirmed once on those of ``--confirm``.
"""

import csv
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from benchmarks.common import parts_at_hand
from benchmarks.driver import DOCS, benchmark, option
from benchmarks.sets import RAW
from sottovoce import DPLogisticRegression, DPPipeline, DPRidge, DPScaler

DELTA = 1e-5
MULTIPLES = (0.01, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
SEEDS = 7


def uniform(offset: float) -> tuple[Any, Any, dict[str, Any]]:
    rng = np.random.default_rng(0)
    X, w = rng.uniform(-1.0, 1.0, (20_000, 10)), rng.normal(size=10)
    y = (X @ w + 0.3 * rng.logistic(size=len(X)) > 0.0).astype(int)
    return X + offset, y, {"classes": [0, 1]}


def of_scikit_learn(load: Callable[..., Any]) -> tuple[Any, Any, dict[str, Any]]:
    X, y = load(return_X_y=True)
    return X, y, {"classes": sorted(set(y.tolist()))}


CHOSEN = {
    "uniform": lambda: uniform(0.0), "uniform + 5": lambda: uniform(5.0), "uniform + 2000": lambda: uniform(2000.0),
    "breast cancer": lambda: of_scikit_learn(load_breast_cancer), "digits": lambda: of_scikit_learn(load_digits),
    "wine": lambda: of_scikit_learn(load_wine), "cal_housing": RAW["cal_housing"],
    "blogfeedback": RAW["blogfeedback"],
}  # fmt: skip
CONFIRMED = {name: RAW[name] for name in ("skin", "credit", "bank", "adult (numbers)", "casp", "msd_sample")}
MADE_UP = ("uniform", "uniform + 5", "uniform + 2000", "breast cancer", "digits", "wine")


def measure(name: str, epsilon: float, seeds: int) -> dict[str, Any]:
    """Return medians over seeds of the scores on held-out rows: accuracy, or R^2."""
    X, y, public = {**CHOSEN, **CONFIRMED}[name]()
    regression = "label_bounds" in public
    kind = DPRidge if regression else DPLogisticRegression
    scores: dict[str, list[float]] = {}
    for seed in range(seeds):
        strata = None if regression else y
        A, B, a, b = train_test_split(X, y, test_size=0.25, random_state=seed, stratify=strata)
        budget = {"epsilon": epsilon, "delta": DELTA, "random_state": seed}
        median = float(np.median(np.linalg.norm(A, axis=1)))
        for multiple in MULTIPLES:
            model = kind(**public, **budget, data_norm=multiple * median).fit(A, a)
            scores.setdefault(f"{multiple:g}", []).append(model.score(B, b))
        pipeline = DPPipeline([("scale", DPScaler()), ("model", kind(**public))], **budget).fit(A, a)
        scores.setdefault("pipeline", []).append(pipeline.score(B, b))
        scaler = StandardScaler().fit(A)
        model = kind(**public, **budget, data_norm=A.shape[1] ** 0.5).fit(scaler.transform(A), a)
        scores.setdefault("standardised", []).append(model.score(scaler.transform(B), b))
    scores["one class"] = [0.0 if regression else float(max(np.mean(y == label) for label in np.unique(y)))]
    return {"rows": len(A), "columns": A.shape[1], **{key: float(np.median(one)) for key, one in scores.items()}}


def draw(folder: Path) -> Any:
    """Draw both halves from their tables: the pipeline, the best bound by hand, and a bound of one median norm."""
    from matplotlib import pyplot as plt

    halves = [folder / f"raw_units_{half}.csv" for half in ("chosen", "confirmed")]
    lines = [line for half in halves for line in list(csv.reader(half.read_text(encoding="utf-8").splitlines()))[1:]]
    places = np.arange(len(lines))
    middle = 2 + MULTIPLES.index(1.0)
    scores = {
        "data_norm: the median norm": ([float(line[middle]) for line in lines], "x", "#cc6677"),
        "data_norm: the best of seven, chosen on the test rows": (
            [max(map(float, line[2 : 2 + len(MULTIPLES)])) for line in lines], "o", "#bbbbbb"
        ),
        "DPPipeline with DPScaler": ([float(line[2 + len(MULTIPLES)]) for line in lines], "D", "#4477aa"),
    }  # fmt: skip
    figure, axis = plt.subplots(figsize=(8, 5), layout="constrained")
    axis.hlines(places, 0.0, 1.0, color="#eeeeee", linewidth=0.8)
    for label, (values, marker, colour) in scores.items():
        axis.plot(np.maximum(values, -0.02), places, marker, color=colour, label=label, markersize=6)
    axis.set_yticks(places, [line[0] for line in lines])
    axis.invert_yaxis()
    axis.set_xlabel("test accuracy, or R$^2$, at epsilon = 1")
    axis.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.12), fontsize=9)
    return figure


@benchmark(
    page="measured/pipelines.md", confirm=option(False, help="the tables that no rule was chosen on"), epsilon=1.0,
    only=option("", help="names of tables, separated by commas"),
)  # fmt: skip
def main(run) -> None:
    warnings.simplefilter("ignore")
    tables = CONFIRMED if run.confirm else CHOSEN
    if run.quick:
        tables = {name: tables[name] for name in ("breast cancer", "wine") if name in tables}
    made_up = tuple(name for name in tables if name in MADE_UP)
    names = parts_at_hand(made_up, tuple(name for name in tables if name not in MADE_UP))

    def rows():
        for name in names:
            if not run.only or name in run.only.split(","):
                one = measure(name, run.epsilon, 1 if run.quick else SEEDS)
                by_hand = [one[f"{multiple:g}"] for multiple in MULTIPLES]
                lead, size = one["pipeline"] - max(by_hand), f"{one['rows']:,} x {one['columns']}"
                yield name, size, *by_hand, one["pipeline"], lead, one["standardised"], one["one class"]

    head = ("table", "rows x columns", *(f"{m:g}|.3f" for m in MULTIPLES), "DPPipeline|.3f", "against the best|+.3f",
            "standardised|.3f", "one class|.3f")  # fmt: skip
    title = f"accuracy, or R^2, at epsilon {run.epsilon:g}, delta {DELTA:g}; data_norm over the median norm by hand"
    run.table(title, head, rows(), mark=f"raw units, {'confirmed' if run.confirm else 'chosen'}")
    run.picture(lambda: draw(DOCS / "measured" / "data" / "pipelines"), "raw_units.png")
