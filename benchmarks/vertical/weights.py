"""Who wins over columns at several parties: the label holder alone, local models, all columns.

    python -m benchmarks.vertical.weights [--quick] [--only "phishing;a9a"] [--seeds 5] [--docs]

Columns in whole attributes are dealt in order or at random to 2, 3 and 5 parties; epsilon .5, 1, 4; labels public or
secret; delta = 1e-5. At most 20,000 people train, and as many test; medians over seeds. "before": the other parties'
scores times .6 / (M - 1), which was the default; "hindsight": the best weights for the people of the test, which nobody
has. Classes: accuracy and log loss; numbers: mean squared error over the variance.

Rules (the weights, what ``mechanism="auto"`` takes) were chosen on `CHOSEN`, of which three
seeds are enough, and are confirmed once on `CONFIRMED`. Figures are kept by set, and a set whose figures are kept is
not measured again. ``--docs`` writes tables and a picture into the appendix, and all cells beside the picture.
``--quick``: one made-up set, one seed.
"""

import json
import sys
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge

from benchmarks.driver import DOCS, FIGURES, RESULTS, benchmark, keep, keep_picture
from benchmarks.vertical.divided import Divided, divided, made_alike, made_up
from sottovoce.vertical import VerticalLogisticRegression, VerticalRidge, split_columns
from sottovoce.vertical.coordinator.plan import SumOfScores, Term

DECISION: Final = DOCS / "decisions" / "0021-who-wins-over-columns.md"
ALL_CELLS: Final = DOCS / "measured" / "vertical_private_cells.md"
MADE_UP: Final = {
    "independent, 1,500": (1_500, 30, False), "independent, 20,000": (20_000, 30, False),
    "correlated, 1,500": (1_500, 30, True), "correlated, 20,000": (20_000, 30, True),
}  # fmt: skip
MADE_UP_NUMBERS: Final = {"numbers, 2,000": (2_000, 12), "numbers, 20,000": (20_000, 60)}
CHOSEN: Final = (
    "phishing", "mushrooms", "german", "w8a", "skin", *MADE_UP, "msd_sample", "blogfeedback", *MADE_UP_NUMBERS,
)  # fmt: skip
CONFIRMED: Final = ("a9a", "bank", "credit", "madelon", "cal_housing", "casp")
EPSILONS: Final = (0.5, 1.0, 4.0)
COUNTS: Final = (2, 3, 5)
DELTA: Final = 1e-5
MOST: Final = 20_000
LABELS: Final = {True: "public", False: "secret"}
NUMBERS: Final = ("blogfeedback", "cal_housing", "casp", "msd_sample", *MADE_UP_NUMBERS)
METHODS: Final = ("party 1 alone", "before", "local-models", "hindsight", "all columns")


def table(name: str, n_parties: int, seed: int, at_random: bool) -> Divided:
    """Return a set as the parties hold it."""
    if name in MADE_UP:
        n, d, correlated = MADE_UP[name]
        return made_alike(n, d, n_parties, seed, correlated=correlated)
    if name in MADE_UP_NUMBERS:
        n, d = MADE_UP_NUMBERS[name]
        return made_up(n, d, n_parties, seed, regression=True)
    return divided(name, n_parties, seed, at_random=at_random, most=MOST)


def divisions(name: str) -> Iterator[tuple[int, bool]]:
    """Yield numbers of parties and whether columns are dealt at random; made-up columns are in no order."""
    for n_parties in COUNTS:
        for at_random in (False,) if name in {**MADE_UP, **MADE_UP_NUMBERS} else (False, True):
            if not (name == "skin" and n_parties > 3):  # it has three columns
                yield n_parties, at_random


def seed_of_all(name: str, n_parties: int, at_random: bool, seed: int) -> dict[str, dict[str, Any]]:
    """Return the measures of all methods on one division, by epsilon and labels."""
    data = table(name, n_parties, seed, at_random)
    train = split_columns(np.hstack(data.blocks), data.sizes, **data.facts)
    test = split_columns(np.hstack(data.blocks_test), data.sizes, **data.facts)
    make = VerticalRidge if data.is_regression else VerticalLogisticRegression
    everything = _measures(data, _all_columns(data))
    out: dict[str, dict[str, Any]] = {}
    for epsilon in EPSILONS:
        for public, label in LABELS.items():
            options: dict[str, Any] = {
                "epsilon": epsilon, "delta": DELTA, "labels_public": public, "random_state": seed, **data.public
            }  # fmt: skip
            model = make(**options).fit(train, data.y)
            cell = {"party 1 alone": _measures(data, model.local_decision_function(test))}
            cell["local-models"] = _measures(data, model.decision_function(test))
            terms, others = model.scorer_.terms, model.plan_.facts.others
            unit = 0.6 / len(others) * (_half_range(data) if data.is_regression else 1.0)
            model.scorer_ = SumOfScores({**terms, **{other: Term(unit, terms[other].centre) for other in others}})
            cell["before"] = _measures(data, model.decision_function(test))
            model.recombine(test, data.y_test)
            cell["hindsight"] = _measures(data, model.decision_function(test))
            cell["all columns"] = everything
            out[f"{epsilon:g} {label}"] = cell
    return out


def _half_range(data: Divided) -> float:
    low, high = data.public["label_bounds"]
    return 0.5 * float(high - low)


def _all_columns(data: Divided) -> Any:
    """Return the scores of the test people by exact training on all columns."""
    X, X_test = np.hstack(data.blocks), np.hstack(data.blocks_test)
    if data.is_regression:
        return Ridge(alpha=1.0).fit(X, data.y).predict(X_test)
    return LogisticRegression(C=1.0, max_iter=300).fit(X, data.y == data.public["classes"][1]).decision_function(X_test)


def _measures(data: Divided, scores: Any) -> tuple[float, float]:
    """Return the error that is shown first and the loss; for numbers both are the error over the variance."""
    if data.is_regression:
        error = float(np.mean((data.y_test - scores) ** 2) / np.var(data.y_test))
        return error, error
    margins = np.where(data.y_test == data.public["classes"][1], scores, -scores)
    return float(np.mean(margins > 0)), float(np.logaddexp(0.0, -margins).mean())


def measured(name: str, seeds: int) -> list[dict[str, Any]]:
    """Return the cells of a set, medians over seeds; kept figures are read."""
    path = RESULTS / f"{_kept(name)}.json"
    if path.exists():
        return json.loads(path.read_text(encoding="utf-8"))  # type: ignore[no-any-return]
    cells = []
    for n_parties, at_random in divisions(name):
        runs = [seed_of_all(name, n_parties, at_random, seed) for seed in range(seeds)]
        for key, first in runs[0].items():
            epsilon, labels = key.split()
            found = {
                method: [round(float(np.median([run[key][method][k] for run in runs])), 5) for k in (0, 1)]
                for method in METHODS
                if method in first
            }
            deal = "at random" if at_random else "in order"
            cells.append(
                {"set": name, "parties": n_parties, "deal": deal, "epsilon": float(epsilon), "labels": labels, **found}
            )  # fmt: skip
        print(f"{name}, {n_parties} parties, {'at random' if at_random else 'in order'}", file=sys.stderr, flush=True)
    keep(_kept(name), cells)
    return cells


def _kept(name: str) -> str:
    return f"vertical_weights_{name.replace(', ', '_').replace(',', '')}"


def compared(cells: list[dict[str, Any]], method: str, other: str, which: int) -> tuple[int, int, float, float]:
    """Return in how many cells a method is at least as good, of how many, and the mean difference in both kinds."""
    sign = 1.0 if which == 0 and cells[0]["set"] not in NUMBERS else -1.0
    gains = np.array([sign * (cell[method][which] - cell[other][which]) for cell in cells])
    won, lost = gains[gains >= 0.0], gains[gains < 0.0]
    return len(won), len(gains), float(won.mean()) if len(won) else 0.0, float(-lost.mean()) if len(lost) else 0.0


def by_set(names: tuple[str, ...], cells: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """Return a row a set: the mean over its cells of what is shown first."""
    rows = []
    for name in names:
        own = [cell for cell in cells if cell["set"] == name]
        found = [_shown(name, float(np.mean([cell[m][0] for cell in own]))) if m in own[0] else "" for m in METHODS]
        rows.append((name, *found))
    return rows


def who_wins(groups: dict[str, list[dict[str, Any]]]) -> list[tuple[str, ...]]:
    """Return a row for each pair of methods and group of sets."""
    rows = []
    for group, cells in groups.items():
        classes = [cell for cell in cells if cell["set"] not in NUMBERS]
        numbers = [cell for cell in cells if cell["set"] in NUMBERS]
        for other in ("party 1 alone", "before"):
            for what, some, which in (
                ("accuracy", classes, 0), ("log loss", classes, 1), ("error of numbers", numbers, 0)
            ):  # fmt: skip
                if some and other in some[0]:
                    won, of, gain, loss = compared(some, "local-models", other, which)
                    unit, digits = (100.0, 2) if what == "accuracy" else (1.0, 4)
                    rows.append(
                        (group, other, what, f"{won} of {of}", f"{unit * gain:.{digits}f}", f"{unit * loss:.{digits}f}")
                    )
    return rows


def means(groups: dict[str, list[dict[str, Any]]]) -> list[tuple[str, ...]]:
    """Return a row for each group of sets and measure of classes: the mean over its cells."""
    rows = []
    for group, cells in groups.items():
        classes = [cell for cell in cells if cell["set"] not in NUMBERS]
        for which, what in enumerate(("accuracy", "log loss")):
            found = (f"{np.mean([cell[method][which] for cell in classes]):.3f}" for method in METHODS)
            rows.append((group, what, *found))
    return rows


def _shown(name: str, value: float) -> str:
    return f"{value:.3f}" if name in NUMBERS else f"{100.0 * value:.1f} %"


def every_cell(cells: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """Return a row a division and kind of labels: the shown measure and the loss at each epsilon, before and now."""
    rows = []
    for cell in cells:
        if cell["epsilon"] != EPSILONS[0]:
            continue
        same = [
            c for c in cells if all(c[key] == cell[key] for key in ("set", "parties", "deal", "labels"))
        ]  # fmt: skip
        found = [_pair(cell, "party 1 alone")]
        for method in ("before", "local-models"):
            found += [_pair(c, method) for c in same]
        rows.append(
            (cell["set"], str(cell["parties"]), cell["deal"], cell["labels"], *found, _pair(cell, "all columns"))
        )
    return rows


def _pair(cell: dict[str, Any], method: str) -> str:
    if method not in cell:
        return ""
    first, second = cell[method]
    return f"{first:.3f}" if cell["set"] in NUMBERS else f"{100 * first:.1f} / {second:.3f}"


def draw(cells: list[dict[str, Any]], path: Any) -> None:
    """Draw what each method has on each set of classes, at three parties and epsilon = 1, columns dealt at random."""
    import matplotlib.pyplot as plt

    names = [name for name in (*CHOSEN, *CONFIRMED) if name not in NUMBERS]
    figure, panels = plt.subplots(1, 2, figsize=(10, 4.6), sharey=True, layout="constrained")
    marks = {
        "party 1 alone": ("|", "0.3"), "before": ("o", "tab:orange"), "local-models": ("o", "tab:blue"),
        "all columns": ("|", "black"),
    }  # fmt: skip
    for panel, labels in zip(panels, ("public", "secret"), strict=True):
        chosen = {
            cell["set"]: cell
            for cell in cells
            if (cell["parties"], cell["epsilon"], cell["labels"]) == (3, 1.0, labels)
            and (cell["deal"] == "at random" or cell["set"] in MADE_UP)
        }
        for method, (mark, colour) in marks.items():
            places = [100 * chosen[name][method][0] for name in names]
            hollow = {"facecolors": "none", "edgecolors": colour} if method == "before" else {"c": colour}
            panel.scatter(places, range(len(names)), marker=mark, s=60, label=method, **hollow)
        panel.set_title(f"{labels} labels")
        panel.set_xlabel("test accuracy in %")
        panel.grid(axis="x", alpha=0.3)
    panels[0].set_yticks(range(len(names)), names)
    panels[0].invert_yaxis()
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(marks), fontsize=8)
    keep_picture(figure, path)
    plt.close(figure)


@benchmark(page="measured/vertical_private.md", only=None, seeds=5)
def main(run) -> None:
    if run.quick:
        found = seed_of_all("independent, 1,500", 3, False, 0)
        rows = [(key, *(cell[method][0] for method in METHODS)) for key, cell in found.items()]
        head = ("epsilon, labels", *(f"{method}|.3f" for method in METHODS))
        run.table("independent columns, 1,500 people, 3 parties: accuracy", head, rows)
        return
    names = run.only.split(";") if run.only else (*CHOSEN, *CONFIRMED)
    cells = {name: measured(name, run.seeds) for name in names}
    rows = by_set(tuple(names), [cell for some in cells.values() for cell in some])
    run.table("means over all cells of a set: accuracy, or error over variance", ("set", *METHODS), rows)
    if not run.docs:
        return
    chosen, confirmed = ([cell for name in some for cell in cells[name]] for some in (CHOSEN, CONFIRMED))
    head = ("set", "parties", "columns", "labels", "alone")
    methods = [f"{method} {epsilon:g}" for method in ("before", "now") for epsilon in EPSILONS]
    issue = [
        (cell["set"], cell["parties"], cell["epsilon"], cell["labels"], *(_pair(cell, m) for m in METHODS))
        for cell in cells["phishing"]
        if cell["deal"] == "at random" and cell["parties"] > 2
    ]
    wins = ("sets", "local-models against", "measure", "at least as good", "gain there", "loss elsewhere")
    run.tables({
        "sets": (("set", *METHODS), by_set((*CONFIRMED, *CHOSEN), chosen + confirmed)),
        "wins": (wins, who_wins({"confirmed on": confirmed, "chosen on": chosen})),
        "phishing": (("set", "parties", "epsilon", "labels", *METHODS), issue),
    })  # fmt: skip
    groups = {"chosen on": chosen, "confirmed on": confirmed}
    run.table("means", ("sets", "mean", *METHODS), means(groups), mark="means", page=DECISION)
    every = every_cell(confirmed + chosen)
    run.table("cells", (*head, *methods, "all columns"), every, mark="cells", page=ALL_CELLS)
    lines = ",\n".join(json.dumps(cell) for cell in chosen + confirmed)
    (FIGURES / "vertical_weights.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    draw(chosen + confirmed, FIGURES / "vertical_weights.png")
