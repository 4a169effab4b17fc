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
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from benchmarks.common import DOCS, data_folder, keep, keep_picture, make_parser, parts_at_hand, show, write_tables
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


def cal_housing() -> tuple[Any, Any, dict[str, Any]]:
    D = np.loadtxt(data_folder() / "cal_housing.data.bz2", delimiter=",")
    return D[:, :8], D[:, 8] / 1e5, {"label_bounds": (0.0, 5.1)}


def blogfeedback() -> tuple[Any, Any, dict[str, Any]]:
    D = np.loadtxt(data_folder() / "blogfeedback_train.csv.bz2", delimiter=",")
    return D[:, :-1], np.clip(np.log1p(D[:, -1]), 0.0, 8.0), {"label_bounds": (0.0, 8.0)}


def skin() -> tuple[Any, Any, dict[str, Any]]:
    D = np.loadtxt(data_folder() / "skin_nonskin.txt.bz2")
    return D[:, :3], D[:, 3], {"classes": [1.0, 2.0]}


def credit() -> tuple[Any, Any, dict[str, Any]]:
    table = pd.read_csv(data_folder() / "credit_default.csv.bz2")
    return table[[f"X{k}" for k in range(1, 24)]].to_numpy(float), table["Y"].to_numpy(), {"classes": [0, 1]}


def bank() -> tuple[Any, Any, dict[str, Any]]:
    table = pd.read_csv(data_folder() / "bank-full.csv.bz2", sep=";")
    numeric = ["age", "balance", "day", "duration", "campaign", "pdays", "previous"]
    return table[numeric].to_numpy(float), table["y"].to_numpy(str), {"classes": ["no", "yes"]}


def adult() -> tuple[Any, Any, dict[str, Any]]:
    path = next(p for p in (data_folder() / "adult.data", data_folder() / "adult.data.bz2") if p.exists())
    table = pd.read_csv(path, header=None, skipinitialspace=True)
    return table[[0, 2, 4, 10, 11, 12]].to_numpy(float), table[14].to_numpy(str), {"classes": ["<=50K", ">50K"]}


def casp() -> tuple[Any, Any, dict[str, Any]]:
    D = np.loadtxt(data_folder() / "casp.csv.bz2", delimiter=",", skiprows=1)
    return D[:, 1:], D[:, 0], {"label_bounds": (0.0, 21.0)}


def msd_sample() -> tuple[Any, Any, dict[str, Any]]:
    D = np.loadtxt(data_folder() / "msd_sample.csv.bz2", delimiter=",")
    return D[:, 1:], D[:, 0], {"label_bounds": (1920.0, 2012.0)}


CHOSEN = {
    "uniform": lambda: uniform(0.0),
    "uniform + 5": lambda: uniform(5.0),
    "uniform + 2000": lambda: uniform(2000.0),
    "breast cancer": lambda: of_scikit_learn(load_breast_cancer),
    "digits": lambda: of_scikit_learn(load_digits),
    "wine": lambda: of_scikit_learn(load_wine),
    "cal_housing": cal_housing,
    "blogfeedback": blogfeedback,
}
CONFIRMED = {
    "skin": skin,
    "credit": credit,
    "bank": bank,
    "adult (numbers)": adult,
    "casp": casp,
    "msd_sample": msd_sample,
}
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


def draw(folder: Path) -> None:
    """Draw both halves from their tables: the pipeline, the best bound by hand, and a bound of one median norm."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

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
    keep_picture(figure, DOCS / "figures" / "raw_units.png")


def main() -> None:
    parser = make_parser(__doc__, docs=True)
    parser.add_argument("--confirm", action="store_true", help="the tables that no rule was chosen on")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--only", default="", help="names of tables, separated by commas")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    tables = CONFIRMED if given.confirm else CHOSEN
    if given.quick:
        tables = {name: tables[name] for name in ("breast cancer", "wine") if name in tables}
    made_up = tuple(name for name in tables if name in MADE_UP)
    names = parts_at_hand(made_up, tuple(name for name in tables if name not in MADE_UP))
    wanted = [name for name in names if not given.only or name in given.only.split(",")]
    head = (
        "table",
        "rows x columns",
        *(f"{m:g}" for m in MULTIPLES),
        "DPPipeline",
        "against the best",
        "standardised",
        "one class",
    )
    found: dict[str, Any] = {}
    rows = []
    for name in wanted:
        one = found[name] = measure(name, given.epsilon, 1 if given.quick else SEEDS)
        by_hand = [one[f"{multiple:g}"] for multiple in MULTIPLES]
        lead = one["pipeline"] - max(by_hand)
        rows.append(
            (name, f"{one['rows']:,} x {one['columns']}", *(f"{v:.3f}" for v in by_hand), f"{one['pipeline']:.3f}",
             f"{lead:+.3f}", f"{one['standardised']:.3f}", f"{one['one class']:.3f}")
        )  # fmt: skip
        print(rows[-1], flush=True)
    title = f"accuracy, or R^2, at epsilon {given.epsilon:g}, delta {DELTA:g}; data_norm over the median norm by hand"
    show(title, head, rows, width=150)
    part = "confirmed" if given.confirm else "chosen"
    if not given.quick:
        keep(f"raw_units_{part}_{given.epsilon:g}", found)
    if given.docs:
        write_tables(DOCS / "measured" / "pipelines.md", {f"raw units, {part}": (head, rows)})
        draw(DOCS / "measured" / "data" / "pipelines")


if __name__ == "__main__":
    main()
