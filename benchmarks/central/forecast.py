"""How far the forecast of a private model's accuracy is off on real tables, and how often these are within its range.

    python -m benchmarks.central.forecast [--quick] [--docs]

Three ways to ask: knowing only n, d and the classes; told the accuracy (R2) without noise; told the share of the
largest class (the spread of labels) too. The constants of the made-up tables were chosen on the first group of sets
and confirmed on the second; those of wide tables after a first look at both, on one set of the first group.
"""

import json
import math
import statistics

import numpy as np

import sottovoce as sv
from benchmarks.common import data_folder
from benchmarks.driver import EPSILONS, FIGURES, RESULTS, benchmark, option
from benchmarks.sets import CHOSEN_ON, CONFIRMED_ON, is_regression, split

_DELTA = 1e-5
WAYS = ("size alone", "told the score", "told the labels too")


def measure(name, epsilon, seeds):
    scores = []
    for seed in range(seeds):
        X, y, X_test, y_test, public = split(name, seed)
        kind = sv.DPRidge if is_regression(name) else sv.DPLogisticRegression
        changed = {"tol": 1e-3, "max_iter": 300, "alpha": "auto"} if math.isinf(epsilon) else {}
        model = kind(epsilon=epsilon, delta=_DELTA, **public, **changed).fit(X, y)
        scores.append(float(model.score(X_test, y_test)))
    return statistics.mean(scores)


def ask(name, epsilon, way, without_noise):
    """Return the forecast, knowing what `way` says."""
    X, y, _, _, public = split(name, 0)
    best = min(1.0, max(1e-3, without_noise))
    if is_regression(name):
        low, high = public["label_bounds"]
        model = sv.DPRidge(epsilon=epsilon, delta=_DELTA, data_norm=1.0, label_bounds=(low, high))
        told = {"r2_without_noise": best}
        more = {"label_spread": float(np.std(y) / (0.5 * (high - low)))}
    else:
        model = sv.DPLogisticRegression(epsilon=epsilon, delta=_DELTA, data_norm=1.0, classes=public["classes"])
        told = {"accuracy_without_noise": best}
        more = {"largest_class": float(np.unique(y, return_counts=True)[1].max() / len(y))}
        if best <= more["largest_class"]:
            told = {}
    return sv.forecast(model, *X.shape, **({}, told, {**told, **more})[WAYS.index(way)])


def compare(name, seeds, epsilons):
    """Return one entry for each epsilon and way: measured and expected."""
    best = measure(name, math.inf, seeds)
    found = []
    for epsilon in epsilons:
        score = measure(name, epsilon, seeds)
        for way in WAYS:
            told = ask(name, epsilon, way, best)
            rows = list(told.rows.values())
            found.append({
                "set": name, "epsilon": epsilon, "way": way, "without noise": best, "measured": score,
                "expected": told.expected.score, "low": min(row.low for row in rows),
                "high": max(row.high for row in rows),
            })  # fmt: skip
    return found


def summed(found, names, regression):
    """Return lines of one group of sets, one for each way and epsilon."""
    lines = []
    for way in WAYS:
        for epsilon in (*EPSILONS, None):
            cells = [
                one for one in found
                if one["set"] in names and one["way"] == way and is_regression(one["set"]) == regression
                and epsilon in (one["epsilon"], None)
            ]  # fmt: skip
            if not cells:
                continue
            off = [abs(one["expected"] - one["measured"]) for one in cells]
            within = [one["low"] <= one["measured"] <= one["high"] for one in cells]
            width = statistics.median(one["high"] - one["low"] for one in cells)
            lines.append((
                way, "all" if epsilon is None else f"{epsilon:g}", f"{100 * statistics.median(off):.1f}",
                f"{100 * statistics.mean(off):.1f}", f"{100 * max(off):.1f}", f"{100 * width:.1f}",
                f"{sum(within)} of {len(within)}",
            ))  # fmt: skip
    return lines


def draw(lines):
    """Draw measured against expected accuracy; lines are those of the table of each set, without regressions."""
    from matplotlib import pyplot as plt

    figure, axis = plt.subplots(figsize=(6.5, 5.5), layout="constrained")
    axis.plot([0.2, 1.0], [0.2, 1.0], color="#999999", linewidth=0.8)
    for epsilon, colour in zip(EPSILONS, ("#cc6677", "#ddaa33", "#4477aa", "#228833"), strict=True):
        cells = [line for line in lines if float(line[1]) == epsilon]
        expected, measured = ([float(line[place]) for line in cells] for place in (4, 3))
        low, high = np.array([[float(end) for end in line[5].split(" to ")] for line in cells]).T
        axis.hlines(measured, low, high, color=colour, linewidth=0.8, alpha=0.5)
        axis.plot(expected, measured, "o", markersize=4, color=colour, label=f"epsilon = {epsilon:g}")
    axis.set_xlabel("expected accuracy, with its range")
    axis.set_ylabel("measured accuracy")
    axis.legend(frameon=False)
    axis.set_title("Forecasts told the score without noise and the labels", fontsize=11)
    return figure


@benchmark(page="measured/planning.md", only=option(help="sets, separated by commas, others as kept; default all"))
def main(run) -> None:
    data_folder()
    names = run.only.split(",") if run.only else ["german", "cal_housing"] if run.quick else None
    groups = {"chosen": CHOSEN_ON, "confirmed": CONFIRMED_ON}
    seeds, epsilons = (1, (1.0,)) if run.quick else (3, EPSILONS)
    found = [
        one for group in groups.values() for name in group if names is None or name in names
        for one in compare(name, seeds, epsilons)
    ]  # fmt: skip
    if run.only and (RESULTS / "forecast.json").exists():
        known = json.loads((RESULTS / "forecast.json").read_text(encoding="utf-8"))
        found = [one for one in known if one["set"] not in names] + found
    if not run.quick:
        run.keep("forecast", found)
    head = ("known", "epsilon", "off, median", "mean", "most", "width of the range", "within it")
    for group, members in groups.items():
        for regression, what in ((False, "accuracy, points"), (True, "R2, hundredths")):
            if lines := summed(found, members, regression):
                mark = f"{group} {'numbers' if regression else 'classes'}"
                run.table(f"{what}; sets that constants were {group} on", head, lines, mark=mark)
    each = [
        (
            one["set"], f"{one['epsilon']:g}", f"{one['without noise']:.3f}", f"{one['measured']:.3f}",
            f"{one['expected']:.3f}", f"{one['low']:.3f} to {one['high']:.3f}",
        )
        for name in (*CHOSEN_ON, *CONFIRMED_ON) for one in found
        if one["set"] == name and one["way"] == WAYS[-1]
    ]  # fmt: skip
    head = ("set", "epsilon", "without noise", "measured", "expected", "range")
    run.table("told the score without noise and the labels", head, each, mark="each")
    if run.docs:
        model = sv.DPLogisticRegression(epsilon=0.5, delta=1e-6, data_norm=1.0, classes=["no", "yes"])
        drawing = sv.forecast(model, 5_000, 20, accuracy_without_noise=0.86).picture()
        (FIGURES / "forecast.svg").write_text(drawing + "\n", encoding="utf-8")
        run.picture(lambda: draw([line for line in each if not is_regression(line[0])]), "forecast_errors.png")
