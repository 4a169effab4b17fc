"""The figures of Damaskinos et al. (AAAI 2021) with this library, by the paper's protocol; PNG and JSON.

    python -m benchmarks.papers.dp_scd.figures [--quick] [--only 1,2,3] [--data phishing,adult,blogfeedback,msd]
                                           [--curves ours,sgd-pld] [--seeds 10] [--fresh] [--docs]

Figure 1: test metric against epsilon; 2: convergence; 3: batch size against clip. Everything but "ours" is tuned on the
validation part, on the grids below (coarser than the paper's). Each curve is kept in benchmarks/results/figures/ and is
not computed again unless ``--fresh`` is given: ``--curves ours --fresh`` measures the default again and draws all.
Ridge regression is on YearPredictionMSD where the data folder has it, else on BlogFeedback.
``--docs`` copies the pictures and what is behind them to docs/figures/.

Where a paper took its noise from the moments accountant, the solver here is asked for the epsilon that this very noise
costs by the accountant of this library, so that the runs carry the published noise.
"""

import argparse
import itertools
import json
import math
import shutil
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt

from benchmarks.driver import EPSILONS, FIGURES, RESULTS, benchmark, keep_picture, option
from benchmarks.papers.dp_scd.appendix_e import DELTA, PROBLEMS, Problem, figure_problems, split
from sottovoce.central.sums.samples import sampled_steps
from sottovoce.papers.dp_scd import Minibatch, Published, Sequential
from sottovoce.papers.dp_scd.published import moments_noise
from sottovoce.privacy.accounting import PLDAccountant, gaussian_epsilon
from sottovoce.privacy.mechanisms.gaussian import GridGaussian

FOLDER = RESULTS / "figures"

CURVES = {  # label, colour, line; what is said of the budget
    "ours": ("this library's default, nothing tuned", "#d62728", "-"),
    "minibatch": ("mini-batch DP-SCD, secret duals, nothing tuned", "#ff9d9a", "-"),
    "sgd-pld": ("DP-SGD, PLD accountant, averaged", "#1f77b4", "-"),
    "sgd-moments": ("DP-SGD as published: moments accountant, last w", "#1f77b4", "--"),
    "paper": ("DP-SCD as published (claim does not hold)", "#2ca02c", "--"),
    "sequential": ("sequential DP-SCD as published (claim does not hold)", "#7f7f7f", "--"),
    "scd": ("SCD, no privacy", "black", ":"),
    "sgd": ("SGD, no privacy", "#888888", "-."),
}
PRIVATE = tuple(CURVES)[:6]


def grid(problem: Problem, curve: str, quick: bool) -> list[dict[str, Any]]:
    """Return the solver options to choose from; clips for ridge are in units of the label bound, 8."""
    ridge = problem.lower_is_better
    fixed = {"epochs": problem.epochs}
    if curve in ("ours", "minibatch", "scd"):
        return [{}]
    if curve == "sgd":
        sizes, rates = ((20,), (1.0,)) if quick else ((1, 20, 200), (0.3, 1.0, 4.0))
        return [{**fixed, "batch_size": b, "learning_rate": r} for b, r in itertools.product(sizes, rates)]
    if curve in ("sgd-pld", "sgd-moments"):
        sizes = (500,) if quick else (500, 2000) if ridge else (100, 500, 2000)
        clips = (0.1,) if quick else (0.02, 0.06, 0.2, 0.6) if ridge else (0.01, 0.1, 1.0)
        rates = (1.0, 10.0) if quick else (0.1, 0.3, 1.0, 3.0) if ridge else (0.1, 1.0, 10.0, 100.0)
        return [
            {**fixed, "batch_size": b, "clipping_norm": c, "learning_rate": r}
            for b, c, r in itertools.product(sizes, clips, rates)
        ]
    if curve == "paper":
        sizes = (500,) if quick else (200, 500, 2000) if ridge else (100, 500, 1000, 2000)
        clips = (1e-3, 1e-2) if quick else (1e-4, 3e-4, 1e-3, 3e-3, 1e-2) if ridge else (1e-4, 1e-3, 3e-3, 1e-2, 0.1)
    else:
        sizes = (50,) if quick else (500,) if ridge else (5, 50, 500)
        clips = (1e-6, 1e-5) if quick else (1e-7, 1e-6, 1e-5, 1e-4) if ridge else (1e-6, 1e-5, 1e-4, 1e-3)
    return [{**fixed, "batch_size": b, "clipping_norm": c} for b, c in itertools.product(sizes, clips)]


def asked_epsilon(curve: str, epsilon: float, options: dict[str, Any], n: int) -> float:
    """Return the epsilon to ask for, so that the run carries the noise of the curve's own accountant."""
    if curve not in ("sgd-moments", "sequential"):
        return epsilon
    rate, epochs = min(1.0, options["batch_size"] / n), options["epochs"]
    if curve == "sequential":
        noise = moments_noise(rate, epochs * math.ceil(n / options["batch_size"]), epsilon, DELTA)
        return gaussian_epsilon(math.sqrt(epochs) / noise, DELTA)
    steps = max(1, round(epochs / rate))
    noise = moments_noise(rate, steps, epsilon, DELTA)
    return PLDAccountant().epsilon(sampled_steps((), rate, steps, noise), DELTA)


SOLVERS = {"ours": "auto", "sgd-pld": "sgd", "sgd-moments": "sgd", "scd": "auto", "sgd": "sgd"}
OBJECTS = {"minibatch": Minibatch, "paper": Published, "sequential": Sequential}


def fit(problem: Problem, curve: str, epsilon: float, options: dict[str, Any], seed: int, data: Any) -> Any:
    X, y = data[:2]
    asked = asked_epsilon(curve, epsilon, options, len(y))
    if curve in OBJECTS:
        return problem.model(asked, seed, solver=OBJECTS[curve](**options)).fit(X, y)
    return problem.model(asked, seed, solver=SOLVERS[curve], solver_options=options or None).fit(X, y)


def weights(problem: Problem, curve: str, epsilon: float, options: dict[str, Any], seed: int, data: Any) -> np.ndarray:
    """Return the model of a curve: that of the fit, but the last iterate for DP-SGD as published."""
    if curve != "sgd-moments":
        return np.ravel(fit(problem, curve, epsilon, options, seed, data).coef_)
    with recorded() as releases:
        model = fit(problem, curve, epsilon, options, seed, data)
    return list(iterates(problem, model, releases, options, len(data[1])))[-1]


@contextmanager
def recorded() -> Iterator[list[np.ndarray]]:
    """Collect what the mechanisms release: the receipts say that all of it may be seen."""
    original, seen = GridGaussian.release, []

    def release(self: GridGaussian, ticks: Any, noise: Any) -> Any:
        value, event = original(self, ticks, noise)
        seen.append(value)
        return value, event

    GridGaussian.release = release  # type: ignore[method-assign]
    try:
        yield seen
    finally:
        GridGaussian.release = original  # type: ignore[method-assign]


def iterates(problem: Problem, model: Any, releases: Any, options: dict[str, Any], n: int) -> Iterator[np.ndarray]:
    """Follow the weights of DP-SGD or published DP-SCD from what was released."""
    rate = model.guarantee_.parameters.get("learning rate")
    w = np.zeros(np.size(model.coef_))
    for value in releases:
        if rate is None:
            w = w + value[-len(w) :] / (problem.alpha * n)
        else:
            w = (w - rate / options["batch_size"] * value) / (1.0 + rate * problem.alpha)
        yield w


def tuned(problem: Problem, curve: str, epsilon: float, quick: bool) -> dict[str, Any]:
    """Return the options that do best on the validation part of one split."""
    options = grid(problem, curve, quick)
    if len(options) == 1:
        return options[0]
    data, best = split(problem.name, 1000), None
    for candidate in options:
        value = problem.score_of(weights(problem, curve, epsilon, candidate, 1000, data), *data[2:4])
        if math.isfinite(value) and (best is None or problem.better(value, best[0])):
            best = (value, candidate)
    assert best is not None
    return best[1]


def kept(name: str, arguments: argparse.Namespace, compute: Any) -> Any:
    """Return the stored result of a curve, or compute and store it."""
    path = FOLDER / f"{name}{'-quick' if arguments.quick else ''}.json"
    wanted = arguments.curves is None or name.split("-", 2)[-1] in arguments.curves
    if path.exists() and not (arguments.fresh and wanted):
        return json.loads(path.read_text(encoding="utf-8"))
    start = time.perf_counter()
    result = {"result": compute(), "seeds": arguments.seeds}
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)
    return result


def curve_of_figure_1(problem: Problem, curve: str, arguments: argparse.Namespace) -> dict[str, Any]:
    out = {}
    for epsilon in EPSILONS if curve in PRIVATE else (math.inf,):
        options = tuned(problem, curve, epsilon, arguments.quick)
        scores = []
        for seed in range(1, arguments.seeds + 1 if curve in PRIVATE else 4):
            data = split(problem.name, seed)
            scores.append(problem.score_of(weights(problem, curve, epsilon, options, seed, data), *data[4:]))
        out[f"{epsilon:g}"] = {"scores": scores, "median": float(np.median(scores)), "options": options}
    return out


def figure_1(problems: list[Problem], arguments: argparse.Namespace) -> dict[str, Any]:
    results = {
        problem.name: {
            curve: kept(
                f"1-{problem.name}-{curve}", arguments, lambda p=problem, c=curve: curve_of_figure_1(p, c, arguments)
            )["result"]
            for curve in CURVES
        }
        for problem in problems
    }
    figure, axes = plt.subplots(1, len(problems), figsize=(4.2 * len(problems), 3.9), squeeze=False)
    for axis, problem in zip(axes[0], problems, strict=True):
        medians = []
        for curve, (label, colour, line) in CURVES.items():
            result = results[problem.name][curve]
            if curve not in PRIVATE:
                axis.axhline(result["inf"]["median"], color=colour, linestyle=line, label=label, linewidth=1.2)
                medians.append(result["inf"]["median"])
                continue
            values = [result[f"{epsilon:g}"]["median"] for epsilon in EPSILONS]
            spread = np.array([np.quantile(result[f"{epsilon:g}"]["scores"], (0.1, 0.9)) for epsilon in EPSILONS])
            axis.plot(EPSILONS, values, color=colour, linestyle=line, marker="o", markersize=3.5, label=label)
            axis.fill_between(EPSILONS, spread[:, 0], spread[:, 1], color=colour, alpha=0.12, linewidth=0)
            if curve != "sequential":
                medians += values
        axis.set_xscale("log")
        axis.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
        axis.minorticks_off()
        axis.set_xlabel(r"$\epsilon$  ($\delta = 10^{-3}$)")
        axis.set_ylabel(problem.metric)
        axis.set_title(problem.title)
        room = 0.08 * (max(medians) - min(medians))
        if problem.lower_is_better:  # what diverges is cut off at the top
            low, high = min(medians) - room, float(np.quantile(medians, 0.97)) + 3 * room
        else:
            low, high = max(0.5, float(np.quantile(medians, 0.03)) - 3 * room), max(medians) + room
        worst = [results[problem.name]["sequential"][f"{epsilon:g}"]["median"] for epsilon in EPSILONS]
        if not problem.lower_is_better and low - (high - low) < min(worst) < low:
            low = min(worst) - room
        axis.set_ylim(low, high)
        if not any(low < value < high for value in worst):
            axis.text(
                0.03, 0.93 if problem.lower_is_better else 0.04,
                f"sequential: {min(worst):.3g} to {max(worst):.3g}, off the scale",
                transform=axis.transAxes, fontsize=7.5, color=CURVES["sequential"][1],
            )  # fmt: skip
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncol=len(problems), fontsize=8, frameon=False)
    figure.tight_layout(rect=(0, 0.05 * math.ceil(len(CURVES) / len(problems)), 1, 1))
    finish(figure, "figure1", results, arguments)
    return results


def path_of(problem: Problem, curve: str, epsilon: float, options: dict[str, Any], data: Any) -> list[list[float]]:
    """Return (epoch, objective on the training part, test metric) along one run, from what it released."""
    X, y, _, _, X_test, y_test = data
    with recorded() as releases:
        model = fit(problem, curve, epsilon, options, 1, data)
    points, per_epoch = [], len(releases) / options["epochs"]
    marks = {round(mark) for mark in np.linspace(1, len(releases), 60)}
    for step, w in enumerate(iterates(problem, model, releases, options, len(y)), start=1):
        if step in marks:
            points.append([step / per_epoch, problem.objective(w, X, y), problem.score_of(w, X_test, y_test)])
    return points


def without_privacy(problem: Problem, solver: str, options: dict[str, Any], data: Any) -> list[list[float]]:
    """Return (epoch, objective, duality gap over objective or NaN), each from a run of that many epochs."""
    points = []
    for epochs in (1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50):
        options = {**options, "epochs": epochs} if solver == "sgd" else {}
        model = problem.model(math.inf, 1, solver=solver, solver_options=options or None, max_iter=epochs, tol=1e-12)
        model.fit(*data[:2])
        gap = model.guarantee_.parameters.get("duality gap / objective")
        points.append([epochs, problem.objective(np.ravel(model.coef_), *data[:2]), gap])
    return points


def passes_of_ours(problem: Problem, epsilon: float, data: Any) -> list[list[float]]:
    """Return (passes, objective, test metric); each point is a run that spends the whole budget on so many passes."""
    points = []
    for n_passes in (10, 20, 40, 80, 150, 300):
        model = problem.model(epsilon, 1, solver_options={"n_passes": n_passes}).fit(*data[:2])
        w = np.ravel(model.coef_)
        points.append([n_passes, problem.objective(w, *data[:2]), problem.score_of(w, *data[4:])])
    return points


FIGURE_2 = {"ours": (0.1, 1.0), "paper": (0.1, 1.0), "sgd-pld": (0.1, 1.0), "scd": (math.inf,), "sgd": (math.inf,)}


def figure_2(problems: list[Problem], arguments: argparse.Namespace) -> dict[str, Any]:
    results: dict[str, Any] = {}
    for problem in problems:
        results[problem.name] = {}
        for curve, epsilons in FIGURE_2.items():

            def compute(problem: Problem = problem, curve: str = curve, epsilons: Any = epsilons) -> dict[str, Any]:
                data, out = split(problem.name, 1), {}
                for epsilon in epsilons:
                    if curve == "ours":
                        out[f"{epsilon:g}"] = passes_of_ours(problem, epsilon, data)
                        continue
                    options = tuned(problem, curve, epsilon, arguments.quick)
                    out[f"{epsilon:g}"] = (
                        path_of(problem, curve, epsilon, options, data)
                        if curve in PRIVATE
                        else without_privacy(problem, SOLVERS[curve], options, data)
                    )
                return out

            results[problem.name][curve] = kept(f"2-{problem.name}-{curve}", arguments, compute)["result"]
    figure, axes = plt.subplots(2, len(problems), figsize=(4.2 * len(problems), 6.6), squeeze=False)
    for (upper, lower), problem in zip(axes.T, problems, strict=True):
        result = results[problem.name]
        scd, sgd = np.array(result["scd"]["inf"], float), np.array(result["sgd"]["inf"], float)
        best = scd[:, 1].min() * (1 - 1e-9)
        upper.plot(
            scd[:, 0], scd[:, 2], color="black", linestyle=":", marker="s", markersize=3, label="SCD: duality gap"
        )
        for points, curve in ((scd, "scd"), (sgd, "sgd")):
            label, colour, line = CURVES[curve]
            upper.plot(points[:, 0], points[:, 1] / best - 1, color=colour, linestyle=line, label=label)
        for curve in ("paper", "sgd-pld", "ours"):
            label, colour, _ = CURVES[curve]
            for epsilon, line in (("0.1", "--"), ("1", "-")):
                points = np.array(result[curve][epsilon])
                style = {
                    "color": colour,
                    "linestyle": line,
                    "label": f"{label.split(' (')[0].split(',')[0]}, $\\epsilon$ = {epsilon}",
                }
                if curve == "ours":
                    style |= {"marker": "o", "markersize": 3}
                upper.plot(points[:, 0], points[:, 1] / best - 1, **style)
                lower.plot(points[:, 0], points[:, 2], **style)
        upper.set(
            xscale="log", yscale="log", xlim=(0.1, 400), ylim=(1e-6, 30), xlabel="epochs (passes)", title=problem.title
        )
        upper.set_ylabel("training objective / optimum - 1")
        lower.set(xscale="log", xlim=(0.1, 400), xlabel="epochs (passes)", ylabel=problem.metric)
        pick = min if problem.lower_is_better else max
        reached = [
            pick(points[2] for points in result[curve][epsilon])
            for curve in ("paper", "sgd-pld", "ours")
            for epsilon in ("0.1", "1")
        ]
        span = max(reached) - min(reached)
        low, high = (0.1, 3.0) if problem.lower_is_better else (3.0, 0.1)
        lower.set_ylim(min(reached) - low * span, max(reached) + high * span)
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncol=len(problems), fontsize=8, frameon=False)
    figure.tight_layout(rect=(0, 0.03 * math.ceil(9 / len(problems)), 1, 1))
    finish(figure, "figure2", results, arguments)
    return results


def figure_3(problems: list[Problem], arguments: argparse.Namespace) -> dict[str, Any]:
    """Batch size against clip, for DP-SCD as published, epsilon = 1."""
    results: dict[str, Any] = {}
    for problem in problems:
        if arguments.quick:
            sizes, powers = (200, 500, 2000), np.arange(-5.0, 0.5, 1.0)
        elif problem.lower_is_better:
            sizes, powers = (500, 1000, 2000, 5000), np.arange(-4.5, -1.0, 0.5)
        else:
            sizes, powers = (50, 100, 200, 500, 1000, 2000), np.arange(-5.0, 0.1, 0.5)
        clips = 10.0**powers

        def compute(problem: Problem = problem, sizes: Any = sizes, clips: Any = clips) -> dict[str, Any]:
            values = []
            for clip in clips:
                values.append([])
                for size in sizes:
                    options = {"epochs": problem.epochs, "batch_size": size, "clipping_norm": float(clip)}
                    runs = []
                    for seed in range(1, 2 if arguments.quick or problem.lower_is_better else 4):
                        data = split(problem.name, seed)
                        runs.append(problem.score_of(weights(problem, "paper", 1.0, options, seed, data), *data[4:]))
                    values[-1].append(float(np.median(runs)))
            return {"sizes": list(sizes), "clips": [float(clip) for clip in clips], "values": values}

        results[problem.name] = kept(f"3-{problem.name}-paper", arguments, compute)["result"]
    figure, axes = plt.subplots(1, len(problems), figsize=(4.4 * len(problems), 4.0), squeeze=False)
    for axis, problem in zip(axes[0], problems, strict=True):
        result = results[problem.name]
        values = np.array(result["values"])
        if problem.lower_is_better:
            norm: Any = mpl.colors.Normalize(values.min(), values.min() + 0.4)
            colours = "viridis_r"
        else:
            norm, colours = mpl.colors.Normalize(max(0.5, values.max() - 0.15), values.max()), "viridis"
        axis.imshow(values, origin="lower", aspect="auto", cmap=colours, norm=norm)
        for row, column in np.ndindex(values.shape):
            value = values[row, column]
            text = f"{value:.3f}" if value < 10 else f"{value:.0e}".replace("e+0", "e")
            dark = (norm(value) > 0.5) if problem.lower_is_better else (norm(value) < 0.5)
            axis.text(column, row, text, ha="center", va="center", fontsize=6.5, color="white" if dark else "black")
        axis.set_xticks(range(len(result["sizes"])), [str(size) for size in result["sizes"]])
        axis.set_yticks(range(len(result["clips"])), [f"{clip:.0e}".replace("e-0", "e-") for clip in result["clips"]])
        axis.set_xlabel("batch size L")
        axis.set_ylabel("clip C" + (" in units of the label bound" if problem.lower_is_better else ""))
        axis.set_title(f"{problem.title}\n{problem.metric}", fontsize=10)
    figure.tight_layout()
    finish(figure, "figure3", results, arguments)
    return results


def finish(figure: Any, name: str, results: Any, arguments: argparse.Namespace) -> None:
    name += "-quick" if arguments.quick else ""
    keep_picture(figure, FOLDER / f"{name}.png")
    plt.close(figure)
    (FOLDER / f"{name}.json").write_text(json.dumps(results) + "\n", encoding="utf-8")
    if arguments.docs:
        FIGURES.mkdir(exist_ok=True)
        for suffix in ("png", "json"):
            shutil.copy(FOLDER / f"{name}.{suffix}", FIGURES / f"{name}.{suffix}")


def table(results: dict[str, Any]) -> None:
    """Print the medians of Figure 1 as Markdown."""
    for name, curves in results.items():
        print(f"\n| {PROBLEMS[name].title}, {PROBLEMS[name].metric} | " + " | ".join(f"{e:g}" for e in EPSILONS) + " |")
        print("| --- |" + " --- |" * len(EPSILONS))
        for curve in CURVES:
            cells = [f"{curves[curve].get(f'{e:g}', curves[curve].get('inf'))['median']:.4g}" for e in EPSILONS]
            print(f"| {CURVES[curve][0]} | " + " | ".join(cells) + " |")


@benchmark(
    page="measured/dp_scd.md", only="1,2,3", data=None,
    curves=option(help="with --fresh: compute these again, and no others"), seeds=(10, 2), fresh=False,
)  # fmt: skip
def main(arguments) -> None:
    arguments.curves = arguments.curves.split(",") if arguments.curves else None
    names = (arguments.data or ("phishing" if arguments.quick else ",".join(figure_problems()))).split(",")
    problems = [PROBLEMS[name] for name in names]
    FOLDER.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")  # the published methods warn that their claims do not hold; the labels say it
    for number in arguments.only.split(","):
        results = {"1": figure_1, "2": figure_2, "3": figure_3}[number](problems, arguments)
        if number == "1":
            table(results)
