"""Draw the pictures of docs/measured from the tables in docs/measured/data: ``python docs/draw_measured.py``.

A benchmark that is run with ``--docs`` writes its tables there. Nothing is measured here.
"""

import csv
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
from PIL import Image

mpl.use("Agg")
DOCS = Path(__file__).parent
BLUE, RED, GREEN, GREY = "#4477aa", "#cc6677", "#228833", "#777777"


def rows(study: str, table: str) -> list[dict[str, str]]:
    """Return the rows of a table."""
    with (DOCS / "measured" / "data" / study / f"{table}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def number(text: str) -> float:
    """Return the first number of a cell."""
    return float(text.split()[0].replace(",", ""))


def keep(figure: Any, name: str) -> None:
    """Write a picture with few colours, a third of the size."""
    path = DOCS / "figures" / f"{name}.png"
    for axis in figure.axes:
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    Image.open(path).convert("RGB").quantize(128).save(path, optimize=True)


def accuracy() -> None:
    """Draw ours minus the best peer's accuracy, a point for each table and epsilon."""
    cells = [row for row in rows("accuracy", "cells") if row["accuracy"]]
    figure, axis = plt.subplots(figsize=(10, 6), layout="constrained")
    for epsilon, mark, colour in (("0.1", "o", RED), ("0.5", "s", GREEN), ("1", "^", BLUE), ("2", "D", GREY)):
        of_epsilon = sorted((row["half"], row["table"], row["accuracy"]) for row in cells if row["epsilon"] == epsilon)
        names = [f"{table} ({half})" for half, table, _ in of_epsilon]
        gaps = [number(cell) - float(cell.split()[2]) for _, _, cell in of_epsilon]
        axis.plot(gaps, names, mark, color=colour, label=f"epsilon {epsilon}", alpha=0.8)
    axis.axvline(0.0, color="black", linewidth=0.8)
    axis.invert_yaxis()
    axis.set_xlabel("points of accuracy: untuned default minus the best tuned peer (right of 0: the default is ahead)")
    axis.legend(frameon=False, ncols=4, loc="lower left", bbox_to_anchor=(0, 1))
    keep(figure, "measured_accuracy")


def speed() -> None:
    """Draw the processor seconds of whole private trainings as multiples of ours."""
    cells = rows("comparison", "peers_time")
    tables = list(dict.fromkeys(row["table"] for row in cells))
    figure, axes = plt.subplots(1, len(tables), figsize=(12, 3.6), layout="constrained", sharey=True)
    for axis, table in zip(axes, tables, strict=True):
        others = [row for row in cells if row["table"] == table and row["library"] != "sottovoce"]
        for row in others:
            share, colour = float(row["times ours"]), BLUE if row["as accurate"] == "yes" else GREY
            axis.plot([1.0, share], [row["library"]] * 2, "-", color=colour, linewidth=4, alpha=0.5)
            axis.plot(share, row["library"], "o", color=colour)
            beside = {"textcoords": "offset points", "xytext": (0, 5), "fontsize": 8, "ha": "center"}
            axis.annotate(f"{row['times ours']} ({row['accuracy, %']} %)", (share, row["library"]), **beside)
        axis.axvline(1.0, color="black", linewidth=0.8)
        ours = next(row for row in cells if row["table"] == table and row["library"] == "sottovoce")
        axis.set(xscale="log", xlabel="times our seconds", title=f"{table}\nours: {ours['accuracy, %']} %")
        axis.set_xlim(0.03, 40)
        axis.margins(y=0.12)
    axes[0].invert_yaxis()
    keep(figure, "measured_speed")


def growth() -> None:
    """Draw the time of a fit against what grows, memory against the size of a file, and a cluster's calculated time."""
    figure, axes = plt.subplots(2, 3, figsize=(12, 7), layout="constrained")
    slopes = {(row["grows"], row["solver"]): row["exponent"] for row in rows("large_tables", "exponents")}
    words = {
        "n": "rows, 20 columns",
        "d": "columns, 20,000 rows",
        "classes": "classes, 20,000 x 20",
        "epsilon": "epsilon, 100,000 x 20",
    }
    for axis, (name, label) in zip(axes.flat, words.items(), strict=False):
        cells = [row for row in rows("large_tables", "growth") if row["grows"] == name]
        for solver, mark, colour in (("auto", "o-", BLUE), ("newton", "s:", RED), ("scd", "^:", GREEN)):
            line = [row for row in cells if (row["default"] if solver == "auto" else row["solver"] == solver)]
            if (name, solver) not in slopes:
                continue
            text = f"{'default' if solver == 'auto' else solver}: exponent {slopes[name, solver]}"
            x, y = [number(row["to"]) for row in line], [number(row["CPU ms"]) / 1e3 for row in line]
            axis.loglog(x, y, mark, color=colour, label=text)
        ticks = [number(row["to"]) for row in cells if row["default"]]
        axis.set_xticks(ticks, [f"{tick:g}" if tick < 1e5 else f"{tick / 1e6:.2g}M" for tick in ticks], fontsize=8)
        axis.minorticks_off()
        axis.set(xlabel=label, ylabel="seconds of one processor", ylim=(0.004, 40))
        axis.legend(frameon=False, fontsize=8)
    left, right = axes[1, 1:]
    for command, mark in (("fit", "o"), ("predict", "s"), ("schema", "^")):
        for old, colour in ((True, RED), (False, BLUE)):
            wanted = f"`{command}`" + ", before" * old
            cells = [row for row in rows("command_line", "memory") if row["command"] == wanted]
            cells = [row for row in cells if row["format"] == "csv"]
            sizes, above = [number(row["file, MB"]) for row in cells], [number(row["above it, MB"]) for row in cells]
            left.loglog(sizes, above, f"{mark}-", color=colour, label=command + ", table held whole" * old)
    left.set(xlabel="CSV file, MB", ylabel="memory above that at rest, MB", title="measured: the command line")
    left.legend(frameon=False, fontsize=8)
    cells = rows("cluster", "size")
    workers = [number(row["workers of 16 threads"]) for row in cells]
    for column, colour in (('15 passes (`"newton"`)', BLUE), ('350 passes (`"scd"`)', RED)):
        seconds = [number(row[column]) * (60 if row[column].endswith("min") else 1) for row in cells]
        right.loglog(workers, seconds, "o--", color=colour, label=column.replace("`", ""))
    right.set(xlabel="workers of 16 threads", ylabel="seconds a fit")
    right.set_title("calculated: 10,000 million rows x 100", fontsize=11)
    right.legend(frameon=False, fontsize=8)
    keep(figure, "measured_growth")


def traffic() -> None:
    """Draw what a party sends: sparse models by people, joint training by the size of the table."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.8), layout="constrained")
    people = [1_000, 10_000, 100_000, 1_000_000]
    for row in rows("vertical_sparse", "uplink"):
        sent = [number(row[f"n = {n:,}"]) for n in people]
        left.loglog(people, sent, "o-", label=row["uplink bytes"])
    left.set(xlabel="people", ylabel="bytes to the coordinator", title="few coefficients, 4 parties, 400 columns")
    left.legend(frameon=False, fontsize=7)
    for model, colour in (("logistic", RED), ("ridge, moments", BLUE)):
        cells = [row for row in rows("vertical_secure_costs", "spu") if row["model"] == model]
        cells = [row for row in cells if "helper" in row["parties"]]
        sizes, sent = [], []
        for row in cells:
            n, d = row["people x columns"].split(" x ")
            sizes.append(number(n) * number(d))
            sent.append(float(row["all"].split(" / ")[2]))
        right.loglog(sizes, sent, "o", color=colour, label=model)
    right.set(xlabel="people x columns", ylabel="MB a party, whole fit", title="inside secure computation, ABY3")
    right.legend(frameon=False, fontsize=8)
    keep(figure, "measured_traffic")


def local_learning() -> None:
    """Draw accuracy against epsilon for collections of several sizes."""
    figure, axis = plt.subplots(figsize=(8, 4), layout="constrained")
    cells = rows("local_learning", "synthetic")
    sizes = dict.fromkeys((row["n"], row["d"]) for row in cells)
    for (n, d), colour in zip(sizes, (RED, GREEN, BLUE, GREY), strict=True):
        of_size = [row for row in cells if (row["n"], row["d"]) == (n, d)]
        epsilons, found = [number(row["epsilon"]) for row in of_size], [number(row["accuracy"]) for row in of_size]
        errors = [float(row["accuracy"].split("±")[1]) for row in of_size]
        axis.errorbar(epsilons, found, errors, fmt="o-", color=colour, capsize=3, label=f"{n} people, {d} features")
        axis.plot(epsilons, [number(row["not private"]) for row in of_size], ":", color=colour)
    axis.set(xscale="log", xlabel="epsilon of one report", ylabel="accuracy (dotted: without privacy)")
    axis.set_xticks([1, 2, 4], ["1", "2", "4"], minor=False)
    axis.minorticks_off()
    axis.legend(frameon=False)
    keep(figure, "measured_local_learning")


if __name__ == "__main__":
    for draw in (accuracy, speed, growth, traffic, local_learning):
        draw()
