"""The full tuning grids of Damaskinos et al. (AAAI 2021), Appendix E, and what tuning costs when it is paid for.

    python -m benchmarks.papers.dp_scd.tuning [--quick] [--data phishing,adult,blogfeedback,msd] [--epsilons 1,0.1]
                                          [--methods scd-printed,...] [--seeds 10] [--splits 1]
                                          [--only grid,final,price,clips] [--docs]

Grids: C and the learning rate in 1e-8, 1e-7, ..., 1e4; L in 5, 10, 50, ..., 2000 (the paper's twelfth value, L = 0, is
no batch): 143 configurations of DP-SCD and 1,859 of DP-SGD. The best on the validation part of one split is then run on
the test part with fresh seeds. Every finished row of a grid is a line in benchmarks/results/tuning.jsonl, so that a run
can be stopped and gone on with. ``--docs`` writes tables and pictures; of the grids it shows what is there.
"""

import itertools
import json
import math
import time
import warnings
from functools import lru_cache
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from numpy.typing import NDArray

import sottovoce as sv
from benchmarks.driver import DOCS, EPSILONS, FIGURES, RESULTS, benchmark, keep, keep_picture, option, write_tables
from benchmarks.papers.dp_scd.appendix_e import DELTA, PROBLEMS, Problem, split
from benchmarks.papers.dp_scd.many_runs import Iterates, dp_scd, dp_sgd
from sottovoce.central.sums.samples import sampled_noise
from sottovoce.papers.dp_scd.published import moments_noise
from sottovoce.privacy.accounting import accountant_for
from sottovoce.privacy.calibration import gaussian_mu, least_noise
from sottovoce.privacy.events import Event, GaussianEvent, PoissonSampledEvent, RepeatAndSelectEvent, RepeatedEvent

PAGE = DOCS / "measured" / "dp_scd.md"
POWERS = tuple(10.0**power for power in range(-8, 5))
SIZES = (5, 10, 50, 100, 200, 500, 1000, 1250, 1500, 1750, 2000)
METHODS = {
    "scd-printed": "DP-SCD, printed noise (claim does not hold), last v",
    "sgd-printed": "DP-SGD, printed noise, last w", "scd-sound": "DP-SCD, sound noise, secret duals, averaged",
    "sgd-sound": "DP-SGD, sound noise, averaged", "scd-visible": "DP-SCD, sound noise, visible duals, last v",
}  # fmt: skip
GRID_SPLIT = 1000  # the seed of the split that options are chosen on; runs that are reported have the seeds 1, 2, ...


TRIALS = (1, 3, 10, 30, 100, 300)  # expected numbers of configurations that a search tries
PRICE_SPLITS = (1000, 1001, 1002)
SEARCHES = 400  # searches that are drawn from the runs of each split
VALIDATION = 0.25


@lru_cache(maxsize=1024)
def noise_of_trial(rate: float, steps: int, epsilon: float, trials: int) -> float:
    """Return the noise with which the best of a random number of runs, ``trials`` expected, keeps the budget."""

    def make(noise: float) -> Event:
        run = RepeatedEvent(PoissonSampledEvent(rate, GaussianEvent(noise)), steps)
        return RepeatAndSelectEvent(run, float(trials), 1.0)

    return least_noise(make, accountant_for(make(1.0)), epsilon, DELTA)


def noise_of(method: str, n: int, size: int, epochs: int, epsilon: float, trials: int = 1) -> float:
    """Return the noise over the sensitivity, for one run or for a run of a search that is paid for."""
    rate = min(1.0, size / n)
    if trials > 1:
        return noise_of_trial(rate, max(1, round(epochs / rate)), epsilon, trials)
    if method == "scd-visible":  # each row is in one Gaussian mechanism an epoch, and nothing is amplified
        return math.sqrt(epochs) / gaussian_mu(epsilon, DELTA)
    if method == "scd-printed":
        return moments_noise(rate, epochs * math.ceil(n / size), epsilon, DELTA)
    steps = max(1, round(epochs / rate))
    if method == "sgd-printed":
        return moments_noise(rate, steps, epsilon, DELTA)
    mu = gaussian_mu(epsilon, DELTA)
    return math.sqrt(steps) / mu if rate == 1.0 else sampled_noise((), rate, steps, epsilon, DELTA, mu)


def configurations(method: str) -> list[tuple[float, float]]:
    """Return the pairs of clip and learning rate (0 where there is none)."""
    return list(itertools.product(POWERS, POWERS if method.startswith("sgd") else (0.0,)))


def runs(
    problem: Problem,
    method: str,
    epsilon: float,
    size: int,
    pairs: list[tuple[float, float]],
    seed: int,
    data: Any,
    trials: int = 1,
) -> NDArray[Any]:
    """Return the weights of a run with each pair, one a column."""
    X, y = data[:2]
    noise = noise_of(method, len(y), size, problem.epochs, epsilon, trials)
    clips, rates = np.array(pairs).T
    common = (problem.loss, X, y.astype(np.float32), problem.alpha, problem.epochs, size, clips)
    found: Iterates
    if method.startswith("sgd"):
        found = dp_sgd(*common, rates, noise, seed)
    else:
        found = dp_scd(*common, noise, seed, visible_duals=method != "scd-sound")
    return found.averaged if method.endswith("sound") else found.last


class Log:
    """The finished rows of all grids: a file of JSON lines."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        self.rows = {line["key"]: line for line in map(json.loads, lines)}

    def get(self, key: str, compute: Any) -> dict[str, Any]:
        """Return a row, computed and written down if it is not there."""
        if key not in self.rows:
            start = time.process_time()
            row = {"key": key, **compute()}
            row["cpu"] = round(time.process_time() - start, 1)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            self.rows[key] = row
            print(f"{key}: {row['cpu']} s of CPU", flush=True)
        return self.rows[key]


def scores_of(problem: Problem, weights: NDArray[Any], X: NDArray[Any], y: NDArray[Any]) -> list[float]:
    """Return the metric of each column; what diverged is as bad as can be."""
    worst = 1e30 if problem.lower_is_better else 0.0
    found = [problem.score_of(w.astype(np.float64), X, y) for w in weights.T]
    return [float(f"{value:.6g}") if math.isfinite(value) else worst for value in found]


def grid_row(
    log: Log, problem: Problem, method: str, epsilon: float, size: int, seed: int = GRID_SPLIT, trials: int = 1
) -> dict[str, Any]:
    """Return validation and test metric of every configuration with one size of batches."""

    def compute() -> dict[str, Any]:
        data = split(problem.name, seed)
        weights = runs(problem, method, epsilon, size, configurations(method), seed, data, trials)
        return {
            "validation": scores_of(problem, weights, *data[2:4]),
            "test": scores_of(problem, weights, *data[4:]),
        }

    more = "" if (seed, trials) == (GRID_SPLIT, 1) else f" seed {seed} trials {trials}"
    return log.get(f"grid {problem.name} {method} {epsilon:.6g} {size}{more}", compute)


def best_of(
    log: Log, problem: Problem, method: str, epsilon: float, sizes: tuple[int, ...], splits: tuple[int, ...]
) -> dict[str, float]:
    """Return the configuration that does best on the validation part, on average over some splits."""
    found = []
    for size in sizes:
        values = np.mean(
            [grid_row(log, problem, method, epsilon, size, seed)["validation"] for seed in splits], axis=0
        ).tolist()
        found += [(value, size, *pair) for value, pair in zip(values, configurations(method), strict=True)]
    value, size, clip, rate = (min if problem.lower_is_better else max)(found, key=lambda item: item[0])
    return {"validation": value, "size": size, "clip": clip, "rate": rate}


def final(
    log: Log,
    problem: Problem,
    method: str,
    epsilon: float,
    sizes: tuple[int, ...],
    seeds: int,
    splits: tuple[int, ...] = (GRID_SPLIT,),
) -> dict[str, Any]:
    """Return the test metric of the chosen configuration over fresh seeds."""
    chosen = best_of(log, problem, method, epsilon, sizes, splits)

    def compute() -> dict[str, Any]:
        scores = []
        for seed in range(1, seeds + 1):
            data = split(problem.name, seed)
            pair = [(chosen["clip"], chosen["rate"])]
            weights = runs(problem, method, epsilon, int(chosen["size"]), pair, seed, data)
            scores += scores_of(problem, weights, *data[4:])
        return {"chosen": chosen, "scores": scores}

    return log.get(f"final {problem.name} {method} {epsilon:.6g} {len(splits)} splits {seeds} seeds", compute)


CLIPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)  # in units of the labels
CLIP_SIZES = (50, 100, 200, 500, 1000, 2000)


def clip_rows(log: Log, problem: Problem, sizes: tuple[int, ...]) -> dict[int, list[float]]:
    """Return the test metric of Algorithm 1 by clip, for each size of batches, epsilon = 1, one seed."""

    def compute(size: int) -> dict[str, Any]:
        data = split(problem.name, GRID_SPLIT)
        weights = runs(problem, "scd-printed", 1.0, size, [(clip, 0.0) for clip in CLIPS], GRID_SPLIT, data)
        return {"test": scores_of(problem, weights, *data[4:])}

    return {size: log.get(f"clips {problem.name} {size}", lambda size=size: compute(size))["test"] for size in sizes}


def untuned(log: Log, problem: Problem, epsilon: float, seeds: int) -> list[float]:
    """Return the test metric of this library's default over fresh seeds, on the rows that the others train on."""

    def compute() -> dict[str, Any]:
        scores = []
        for seed in range(1, seeds + 1):
            data = split(problem.name, seed)
            weights = np.ravel(problem.model(epsilon, seed).fit(*data[:2]).coef_)
            scores.append(problem.score_of(weights, *data[4:]))
        return {"scores": scores}

    found: list[float] = log.get(f"default {problem.name} {epsilon:.6g} {seeds} seeds", compute)["scores"]
    return found


def searched(
    log: Log, problem: Problem, method: str, epsilon: float, trials: int, sizes: tuple[int, ...], *, paid: bool
) -> list[float]:
    """Return the test metric of what searches choose from the grid at random, each of ``trials`` configurations.

    A search that is paid for tries a random number of configurations, geometric with that mean; each run has less
    budget, and its score has noise. One that is not tries exactly so many, each with the whole budget and its exact
    score.
    """
    rng, found = np.random.default_rng(trials), []
    for seed in PRICE_SPLITS:
        rows = [grid_row(log, problem, method, epsilon, size, seed, trials if paid else 1) for size in sizes]
        validation = np.concatenate([row["validation"] for row in rows])
        test = np.concatenate([row["test"] for row in rows])
        noise = score_noise(problem, epsilon, trials, seed) if paid and trials > 1 else 0.0
        for _ in range(SEARCHES):
            tried = rng.integers(len(test), size=rng.geometric(1.0 / trials) if paid else trials)
            found.append(float(test[tried[np.argmax(validation[tried] + noise * rng.standard_normal(len(tried)))]]))
    return found


def score_noise(problem: Problem, epsilon: float, trials: int, seed: int) -> float:
    """Return the standard deviation of the noise of a score in a search (`DPSearchCV`)."""
    data = split(problem.name, seed)
    model = problem.model(1.0, 0).set_params(epsilon=None, delta=None, random_state=None)
    search = sv.DPSearchCV(
        model, {"alpha": [problem.alpha]}, epsilon=epsilon, delta=DELTA, n_iter=trials, validation_size=VALIDATION
    )
    plan = sv.plan(search, n_samples=len(data[1]) + len(data[3]), n_features=data[0].shape[1])
    return float(plan.score_noise)


def price(
    log: Log, problem: Problem, epsilon: float, sizes: tuple[int, ...], trials: tuple[int, ...], seeds: int
) -> dict[str, Any]:
    """Return median and spread of the test metric by number of configurations, tuning paid for and not."""
    out: dict[str, Any] = {"default": untuned(log, problem, epsilon, seeds)}
    for method, paid in itertools.product(("scd-sound", "sgd-sound"), (True, False)):
        out[f"{method}, {'paid' if paid else 'not paid'}"] = {
            str(k): [
                float(q)
                for q in np.quantile(searched(log, problem, method, epsilon, k, sizes, paid=paid), (0.5, 0.1, 0.9))
            ]
            for k in trials
        }
    return out


SEARCHES_SHOWN = {  # label, colour, line
    "scd-sound, paid": ("DP-SCD, tuning paid for", "#2ca02c", "-"),
    "sgd-sound, paid": ("DP-SGD, tuning paid for", "#1f77b4", "-"),
    "scd-sound, not paid": ("DP-SCD, tuning not counted", "#2ca02c", ":"),
    "sgd-sound, not paid": ("DP-SGD, tuning not counted", "#1f77b4", ":"),
}


def draw_prices(found: dict[str, Any], path: Path) -> None:
    """Draw test metric against the number of configurations."""
    figure, axes = plt.subplots(1, len(found), figsize=(5.4 * len(found), 4.2), squeeze=False)
    for axis, (title, result) in zip(axes[0], found.items(), strict=True):
        for name, (label, colour, line) in SEARCHES_SHOWN.items():
            trials = [int(k) for k in result[name]]
            middle = [values[0] for values in result[name].values()]
            axis.plot(trials, middle, color=colour, linestyle=line, marker="o", markersize=3, label=label)
        level = float(np.median(result["default"]))
        axis.axhline(level, color="#d62728", label="this library's default, nothing tuned")
        axis.set(xscale="log", xlabel="configurations tried", ylabel="test accuracy", title=title)
        low = min(values[0] for name in SEARCHES_SHOWN for values in result[name].values())
        axis.set_ylim(low - 0.01, level + 0.08 * (level - low))
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncol=2, fontsize=8, frameon=False)
    figure.tight_layout(rect=(0, 0.16, 1, 1))
    keep_picture(figure, path)
    plt.close(figure)


def draw_clips(found: dict[int, list[float]], path: Path) -> None:
    """Draw the test error against the size of batches, a line for each clip, as Figure 3 of the paper does."""
    figure, axis = plt.subplots(figsize=(6.2, 4.0))
    lines = [(clip, [column[k] for column in found.values()]) for k, clip in enumerate(CLIPS) if 0.05 <= clip <= 5.0]
    for (clip, line), colour in zip(lines, mpl.colormaps["viridis"](np.linspace(0.0, 0.9, len(lines))), strict=True):
        axis.plot(list(found), line, color=colour, marker="o", markersize=3, label=f"C = {clip:g}")
    axis.set(xscale="log", xlabel="batch size L", ylabel="test mean squared error, years squared", ylim=(112, 133))
    axis.set_xticks(list(found), [str(size) for size in found])
    axis.minorticks_off()
    axis.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    axis.set_title("DP-SCD as published, epsilon = 1, made-up years of songs", fontsize=10)
    figure.tight_layout()
    keep_picture(figure, path)
    plt.close(figure)


def short(value: float) -> str:
    """Return a power of ten in few letters."""
    return f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e")


def table_of(log: Log, problem: Problem, epsilons: tuple[float, ...], splits: int) -> list[tuple[str, ...]]:
    """Return a row for each method: median of the test metric, and what was chosen."""
    rows = []
    for method, name in METHODS.items():
        cells = [name]
        for epsilon in epsilons:
            wanted = f"final {problem.name} {method} {epsilon:.6g} {splits} splits"
            row = next((row for key, row in log.rows.items() if key.startswith(wanted)), None)
            if row is None:
                cells.append("not run")
                continue
            chosen = row["chosen"]
            options = [
                f"{chosen['size']:.0f}", short(chosen["clip"]), *([short(chosen["rate"])] if chosen["rate"] else []),
            ]  # fmt: skip
            cells.append(f"{np.median(row['scores']):.4g} ({', '.join(options)})")
        if len(cells) > cells.count("not run") + 1:
            rows.append(tuple(cells))
    return rows


def write_docs(log: Log) -> None:
    """Write the tables and the picture of what was run into the page."""
    tables: dict[str, Any] = {}
    for name in ("phishing", "adult", "blogfeedback"):
        problem = PROBLEMS[name]
        ran = tuple(
            epsilon
            for epsilon in EPSILONS
            if any(row.startswith(f"final {name} ") and f" {epsilon:.6g} 1 splits" in row for row in log.rows)
        )
        head = (f"{problem.title}, {problem.metric}", *(f"epsilon = {epsilon:g}" for epsilon in ran))
        if ran:
            tables[f"full grids, {name}"] = head, table_of(log, problem, ran, 1)
    columns = {name: table_of(log, PROBLEMS[name], (1.0,), 3) for name in ("phishing", "adult")}
    rows = [(*one, other[1]) for one, other in zip(*columns.values(), strict=True)]
    tables["full grids, three splits"] = ("test accuracy, epsilon = 1", *columns), rows
    clips = clip_rows(log, PROBLEMS["msd"], CLIP_SIZES)
    tables["clips"] = (
        ("C, years", *(f"L = {size}" for size in clips)),
        [(f"{clip:g}", *(f"{column[k]:.1f}" for column in clips.values())) for k, clip in enumerate(CLIPS)],
    )
    draw_clips(clips, FIGURES / "dp_scd_clips.png")
    keep("dp_scd_clips", {"clips": CLIPS, "test mean squared error by L": clips}, FIGURES)
    found = {}
    for problem in (PROBLEMS["phishing"],):
        found[problem.title] = result = price(log, problem, 1.0, SIZES, TRIALS, 10)
        rows = [
            (label, *(f"{middle:.3f} ({low:.3f} to {high:.3f})" for middle, low, high in result[name].values()))
            for name, (label, _, _) in SEARCHES_SHOWN.items()
        ]
        level = result["default"]
        rows.append((
            "default, nothing tuned", f"{np.median(level):.3f} ({min(level):.3f} to {max(level):.3f})",
            *[""] * (len(TRIALS) - 1),
        ))  # fmt: skip
        tables["price of tuning"] = (f"{problem.title}, configurations", *map(str, TRIALS)), rows
    draw_prices(found, FIGURES / "dp_scd_tuning.png")
    keep("dp_scd_tuning", found, FIGURES)
    write_tables(PAGE, tables)


@benchmark(
    page="measured/dp_scd.md", data="phishing", epsilons="1", methods=",".join(METHODS), only="grid,final",
    seeds=(10, 2), splits=option(1, help="splits that options are chosen on; the paper has one"),
    sizes=option(help="only these sizes of batches"),
)  # fmt: skip
def main(arguments) -> None:
    sizes = (500, 2000) if arguments.quick else SIZES
    if arguments.sizes:
        sizes = tuple(int(value) for value in arguments.sizes.split(","))
    trials = (1, 10) if arguments.quick else TRIALS
    seeds = arguments.seeds
    splits = PRICE_SPLITS[: arguments.splits]
    epsilons = tuple(float(value) for value in arguments.epsilons.split(","))
    problems = [PROBLEMS[name] for name in arguments.data.split(",")]
    warnings.simplefilter("ignore")
    log = Log(RESULTS / f"tuning{'-quick' if arguments.quick else ''}.jsonl")
    if arguments.docs:
        write_docs(log)
        return
    for problem, epsilon, method in itertools.product(problems, epsilons, arguments.methods.split(",")):
        if "grid" in arguments.only:
            for size in sizes:
                for seed in splits:
                    grid_row(log, problem, method, epsilon, size, seed)
        if "final" in arguments.only:
            row = final(log, problem, method, epsilon, sizes, seeds, splits)
            print(f"{problem.name}, epsilon {epsilon:g}, {method}: {np.median(row['scores']):.4f} {row['chosen']}")
    if "clips" in arguments.only:
        for problem in problems:
            print(clip_rows(log, problem, CLIP_SIZES[:1] if arguments.quick else CLIP_SIZES))
    if "price" in arguments.only or arguments.quick:
        for problem, epsilon in itertools.product(problems, epsilons):
            print(price(log, problem, epsilon, sizes, trials, seeds))
