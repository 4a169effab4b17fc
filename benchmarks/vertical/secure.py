"""Joint training inside secure computation against local models, the label holder alone, and one private table.

    python -m benchmarks.vertical.secure [--quick] [--only a9a,casp] [--seeds 5] [--docs]

Columns of six sets are split among two and three parties (`benchmarks/vertical/divided.py`); the unit is one person,
whose rows at all parties and label are replaced together; delta = 1e-5; medians over seeds, which are those of the
split too where a set has no test part of its own. Nothing is tuned. The engine is "in-process": it opens, bit for bit,
what the engines between processes open. Two parties compute by themselves, or with a helper, which takes noise away.

Cells that ``docs/figures/vertical_secure.json`` holds are not measured again.
"""

import json
import math
import time
import warnings
from typing import Any, Final

import numpy as np

from benchmarks.driver import FIGURES, benchmark, keep
from benchmarks.vertical.divided import SHOWN, Divided, divided
from sottovoce import DPLogisticRegression, DPRidge
from sottovoce.vertical import Helper, InProcessParties, VerticalLogisticRegression, VerticalRidge, split_columns
from sottovoce.vertical.estimators.choices import choose_mechanism

NAME = "vertical_secure"
EPSILONS: Final = (0.5, 1.0, 2.0, 4.0)
DELTA: Final = 1e-5
LAYOUTS: Final = {"2": (2, 0), "2 + helper": (2, 1), "3": (3, 0)}  # data parties, helpers
ALONE, EXACT, LOCAL, SECURE, TABLE = "party 1 alone", "no noise", "local-models", "secure", "one table"
MOMENTS = "secure, moments only"
MEASURES: Final = {"accuracy": "accuracy %", "log loss": "log loss", "mean squared error": "MSE"}


def parties_of(data: Divided, blocks: tuple[Any, ...], helpers: int = 0) -> InProcessParties:
    parties = split_columns(np.hstack(blocks), data.sizes, **data.facts)
    if not helpers:
        return parties
    return InProcessParties([*parties.parties.values(), *(Helper(f"helper{k + 1}") for k in range(helpers))])


def estimator_of(data: Divided, epsilon: float, seed: int, **options: Any) -> Any:
    """Return the vertical estimator for the set's labels."""
    kind = VerticalRidge if data.is_regression else VerticalLogisticRegression
    return kind(epsilon=epsilon, delta=DELTA, random_state=seed, **data.public, **options)


def measured(data: Divided, method: str, helpers: int, epsilon: float, seed: int) -> dict[str, Any]:
    if method == TABLE:
        return one_table(data, epsilon, seed)
    joint = {"mechanism": SECURE, "engine": "in-process"}
    options: dict[str, Any] = {
        LOCAL: {"mechanism": LOCAL}, SECURE: joint, MOMENTS: {**joint, "mechanism_options": {"n_passes": 0}},
    }.get(method, {})  # fmt: skip
    blocks, blocks_test = data.blocks, data.blocks_test
    if method == ALONE:
        data = data._replace(blocks=blocks[:1], data_norm=data.data_norm[:1])
        blocks, blocks_test = blocks[:1], blocks_test[:1]
    train = parties_of(data, blocks, helpers if method in (SECURE, MOMENTS) else 0)
    test = parties_of(data, blocks_test)
    model = estimator_of(data, math.inf if method in (ALONE, EXACT) else epsilon, seed, **options).fit(train, data.y)
    return measures_of(data, model, test)


def measures_of(data: Divided, model: Any, rows: Any) -> dict[str, Any]:
    """Return the measures on the test part; predicted numbers are moved into the public bounds, for every method."""
    if data.is_regression:
        return {
            "mean squared error": float(
                np.mean((np.clip(model.predict(rows), *data.public["label_bounds"]) - data.y_test) ** 2)
            )
        }
    right = data.y_test == model.classes_[1]
    chances = model.predict_proba(rows)
    chance = np.where(right, chances[:, 1], chances[:, 0])
    return {
        "accuracy": float(np.mean(model.predict(rows) == data.y_test)),
        "log loss": float(-np.log(np.maximum(chance, 1e-300)).mean()),
    }


def one_table(data: Divided, epsilon: float, seed: int) -> dict[str, Any]:
    """Return the measures of central privacy on the joined columns, at the same budget, unit and public facts."""
    X, X_test = np.hstack(data.blocks), np.hstack(data.blocks_test)
    bound = math.sqrt(sum(norm**2 for norm in data.data_norm))
    kind = DPRidge if data.is_regression else DPLogisticRegression
    model = kind(
        epsilon=epsilon, delta=DELTA, data_norm=bound, adjacency="replace-one", random_state=seed, **data.public
    ).fit(X, data.y)
    return measures_of(data, model, X_test)


def methods_of(layout: str, regression: bool) -> tuple[str, ...]:
    """Return what is measured: a helper changes joint training alone, and ridge can do without passes."""
    joint = (SECURE, MOMENTS) if regression else (SECURE,)
    return joint if "helper" in layout else (ALONE, EXACT, LOCAL, TABLE, *joint)


def run(names: list[str], epsilons: tuple[float, ...], seeds: int, results: dict[str, Any], *, save: bool) -> None:
    """Fill in the cells that are missing."""
    for layout, (n_parties, helpers) in sorted(LAYOUTS.items(), key=lambda item: item[1][1]):
        for name in names:
            for seed in range(seeds):
                data = divided(name, n_parties, seed)
                cells = results.setdefault(name, {}).setdefault(layout, {})
                cells["people"], cells["columns"] = len(data.y), list(data.sizes)
                for method in methods_of(layout, data.is_regression):
                    for epsilon in (math.inf,) if method in (ALONE, EXACT) else epsilons:
                        cell = cells.setdefault(method, {}).setdefault(f"{epsilon:g}", {})
                        if str(seed) in cell:
                            continue
                        started = time.process_time()
                        cell[str(seed)] = measured(data, method, helpers, epsilon, seed)
                        spent = time.process_time() - started
                        print(
                            f"{name} {layout} {method} {epsilon:g} {seed}: {cell[str(seed)]}, {spent:.1f} s", flush=True
                        )
                if save:
                    keep(NAME, results, FIGURES)


def median(cells: dict[str, Any], method: str, epsilon: float, measure: str) -> float:
    found = cells[method]["inf" if method in (ALONE, EXACT) else f"{epsilon:g}"]
    return float(np.median([one[measure] for one in found.values()]))


def judged(results: dict[str, Any]) -> list[tuple[str, str, float, str, bool]]:
    """Return for each cell what ``mechanism="auto"`` takes where SPU is at hand, and whether the other is no better."""
    found = []
    for name, layouts in results.items():
        regression = "mean squared error" in next(iter(layouts["2"][LOCAL]["1"].values()))
        measure = "mean squared error" if regression else "log loss"
        for layout, cells in layouts.items():
            names = "abc"[: sum(LAYOUTS[layout])]
            for epsilon in EPSILONS:
                taken, _ = choose_mechanism(
                    n_samples=cells["people"], n_features=sum(cells["columns"]), epsilon=epsilon, delta=DELTA,
                    engine="spu", engines=dict.fromkeys(names, ("spu",)), is_classification=not regression,
                )  # fmt: skip
                apart = median(layouts[layout[0]], LOCAL, epsilon, measure)
                joint = median(cells, SECURE, epsilon, measure)
                found.append((name, layout, epsilon, taken, (joint <= apart) == (taken == SECURE)))
    return found


def text_of(measure: str, value: float) -> str:
    return (
        f"{100 * value:.2f}" if measure == "accuracy" else f"{value:.4f}" if measure == "log loss" else f"{value:.4g}"
    )


def table(name: str, results: dict[str, Any], epsilons: tuple[float, ...]) -> Any:
    cells = results[name]
    measures = [measure for measure in MEASURES if measure in next(iter(cells["2"][LOCAL]["1"].values()))]
    rows = []

    def add(label: str, layout: str, method: str) -> None:
        if method in cells.get(layout, {}):
            texts = [
                " / ".join(text_of(measure, median(cells[layout], method, epsilon, measure)) for measure in measures)
                for epsilon in epsilons
            ]
            rows.append((label, *texts))

    for layout, n in (("2", "two"), ("3", "three")):
        add(f"{n} parties: party 1 alone, exact", layout, ALONE)
        add(f"{n} parties: local-models", layout, LOCAL)
        add(f"{n} parties: secure, moments only", layout, MOMENTS)
        add(f"{n} parties: **secure**", layout, SECURE)
        add(f"{n} parties and a helper: **secure**", f"{layout} + helper", SECURE)
    add("one private table (replace-one)", "2", TABLE)
    add("all columns, no noise", "2", EXACT)
    return (f"{name}: {' / '.join(MEASURES[measure] for measure in measures)}", *(f"{e:g}" for e in epsilons)), rows


def plot(results: dict[str, Any]) -> Any:
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(2, 3, figsize=(12.5, 7.2), layout="constrained", sharex=True)
    for axis, name in zip(axes.flat, SHOWN, strict=True):
        cells = results[name]
        regression = "mean squared error" in next(iter(cells["2"][LOCAL]["1"].values()))
        measure, scale = ("mean squared error", 1.0) if regression else ("accuracy", 100.0)

        def curve(layout: str, method: str, *, axis: Any = axis, cells: Any = cells, **style: Any) -> None:
            values = [scale * median(cells[layout], method, epsilon, measure) for epsilon in EPSILONS]  # noqa: B023
            axis.plot(EPSILONS, values, **style)

        curve("2", EXACT, color="0.55", linestyle=":", label="all columns, no noise")
        curve("2", TABLE, color="tab:green", linestyle="--", marker="s", label="one private table")
        curve("3", SECURE, color="tab:blue", marker="o", label="joint training, three parties")
        curve("2", SECURE, color="tab:cyan", marker="o", label="joint training, two parties")
        curve("3", LOCAL, color="tab:red", marker="v", label="local models, three parties")
        curve("2", LOCAL, color="tab:orange", marker="v", label="local models, two parties")
        curve("2", ALONE, color="0.25", linestyle="-.", label="party 1 of two alone, exact")
        axis.set_title(f"{name}: {cells['2']['people']:,} people, {sum(cells['2']['columns'])} columns", fontsize=10)
        axis.set_ylabel("test MSE (lower is better)" if regression else "test accuracy, %")
        axis.set_xscale("log")
        axis.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
        axis.minorticks_off()
        axis.grid(alpha=0.3)
    for axis in axes[1]:
        axis.set_xlabel("epsilon for one person (delta = 1e-5)")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    return figure


@benchmark(page="measured/vertical_secure.md", only=(",".join(SHOWN), "cal_housing"), seeds=(5, 1))
def main(asked) -> None:
    warnings.simplefilter("ignore")
    path = FIGURES / f"{NAME}.json"
    results = json.loads(path.read_text(encoding="utf-8")) if path.exists() and not asked.quick else {}
    names, epsilons = asked.only.split(","), (1.0,) if asked.quick else EPSILONS
    run(names, epsilons, asked.seeds, results, save=not asked.quick)
    for name in names:
        title = f"{name}, by epsilon, delta = {DELTA:g}, medians of {asked.seeds} seeds"
        asked.table(title, *table(name, results, epsilons), mark=name)
    choices = judged(results) if not asked.quick else []
    for name, layout, epsilon, taken, right in choices:
        if not right:
            print(f"auto takes {taken} for {name}, {layout}, epsilon {epsilon:g}: the other is better")
    print(f"auto: {sum(right for *_, right in choices)} of {len(choices)} are right")
    asked.picture(lambda: plot(results), f"{NAME}.png")
