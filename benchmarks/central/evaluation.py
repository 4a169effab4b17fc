"""Private evaluation: how near the measures are to the exact ones, and how often their intervals cover.

    python -m benchmarks.central.evaluation [--quick] [--docs] [--only simulated,real] [--runs 400]

Simulated: two classes with normal scores of a calibrated model, four classes, a regression. Real: a model is trained on
three quarters of a table with epsilon = 1, delta = 1e-6, and evaluated on the rest. "Error" is the root mean square of
the difference to the exact value on the same rows. For coverage of the population, n rows are drawn anew for each run:
from the law of the simulation, or with replacement from the rest of the table, whose exact value is then that of the
population.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit
from sklearn import metrics

import sottovoce as sv
from benchmarks.common import parts_at_hand
from benchmarks.driver import DOCS, benchmark, write_tables
from benchmarks.sets import CHOSEN_ON, CONFIRMED_ON, is_regression, split
from sottovoce._plain_data import digest
from sottovoce.evaluation.evaluating import evaluation_plan, released_tables, score_rows
from sottovoce.evaluation.evaluation import Evaluation, released
from sottovoce.evaluation.plan import EvaluationPlan, evaluation_receipt
from sottovoce.evaluation.tables import MOST_LOSS, ScoredRows
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.randomness import Streams

BINARY = ("accuracy", "balanced_accuracy", "auc", "log_loss", "brier", "precision", "recall")
SEVERAL = ("accuracy", "balanced_accuracy", "log_loss", "brier", "precision")
NUMBERS = ("mse", "rmse", "mae", "r2")
LEFT_OUT = {"real": ("madelon", "farm_ads", "news20", "msd_sample", "german", "digits", "mnist_4v9")}  # small or slow
POPULATION = 2_000_000
CUT = 8.0


class Source(NamedTuple):
    """Where rows come from: n of them at a time, and all of them."""

    name: str
    task: str
    n_classes: int
    bounds: tuple[float, float] | None
    draw: Callable[[np.random.Generator, int], ScoredRows]
    whole: ScoredRows


def exact(task: str, rows: ScoredRows) -> dict[str, float]:
    """Return the exact measures of rows, by scikit-learn."""
    y, z = rows.labels, rows.scores
    if task == "regression":
        mse = metrics.mean_squared_error(y, z)
        return {
            "mse": mse, "rmse": mse**0.5, "mae": metrics.mean_absolute_error(y, z), "r2": metrics.r2_score(y, z),
        }  # fmt: skip
    said = (z > 0.0) if task.startswith("binary") else z
    average = "binary" if task.startswith("binary") else "macro"
    found = {
        "accuracy": metrics.accuracy_score(y, said),
        "balanced_accuracy": metrics.recall_score(y, said, average="macro", zero_division=0.0),
        "precision": metrics.precision_score(y, said, average=average, zero_division=np.nan),
        "recall": metrics.recall_score(y, said, average=average, zero_division=0.0),
    }
    if task.startswith("binary"):
        own = np.where(y > 0.0, z, -z)
        found |= {"auc": metrics.roc_auc_score(y, z), "log_loss": float(np.mean(np.logaddexp(0.0, -own)))}
        return found | {"brier": float(np.mean(expit(-own) ** 2))}
    assert rows.losses is not None
    return found | {"log_loss": float(rows.losses[0].mean()), "brier": float(rows.losses[1].mean())}


def made_up(name: str, prevalence: float, apart: float, scale: float) -> Source:
    """Return two classes with normal scores."""

    def draw(rng: np.random.Generator, n: int) -> ScoredRows:
        y = rng.random(n) < prevalence
        z = scale * (rng.normal(size=n) + apart * (y - 0.5)) + np.log(prevalence / (1.0 - prevalence))
        return ScoredRows(y.astype(float), np.clip(z, -CUT, CUT), np.zeros(n, bool))

    return Source(name, "binary, probabilities", 2, None, draw, draw(np.random.default_rng(0), POPULATION))


def made_up_classes(n_classes: int = 4) -> Source:
    """Return several classes with probabilities from normal scores."""

    def draw(rng: np.random.Generator, n: int) -> ScoredRows:
        y = rng.integers(n_classes, size=n)
        scores = rng.normal(size=(n, n_classes)) + 1.5 * np.eye(n_classes)[y]
        chances = np.exp(1.5 * scores)
        chances /= chances.sum(axis=1, keepdims=True)
        own = chances[np.arange(n), y]
        losses = np.minimum(-np.log(own), MOST_LOSS), (chances**2).sum(axis=1) - 2.0 * own + 1.0
        return ScoredRows(y.astype(float), chances.argmax(axis=1).astype(float), np.zeros(n, bool), losses)

    whole = draw(np.random.default_rng(0), POPULATION // 4)
    return Source("4 classes", "classes, probabilities", n_classes, None, draw, whole)


def made_up_numbers() -> Source:
    """Return a regression with normal residuals."""

    def draw(rng: np.random.Generator, n: int) -> ScoredRows:
        said = np.clip(rng.normal(0.0, 1.0, n), -5.0, 5.0)
        return ScoredRows(np.clip(said + rng.normal(0.1, 0.6, n), -5.0, 5.0), said, np.zeros(n, bool))

    return Source("regression", "regression", 0, (-5.0, 5.0), draw, draw(np.random.default_rng(0), POPULATION))


def real(name: str) -> Source:
    """Return the rest of a real table, scored by a model of three quarters of it."""
    data = split(name, 0)
    kind: Any = sv.DPRidge if is_regression(name) else sv.DPLogisticRegression
    model = kind(epsilon=1.0, delta=1e-6, random_state=0, **data.public).fit(data.X, data.y)
    plan = evaluation_plan(model, len(data.y_test), epsilon=1.0)
    rows = score_rows(plan, model, data.X_test, data.y_test)

    def draw(rng: np.random.Generator, n: int) -> ScoredRows:
        at = rng.integers(len(rows.labels), size=n)
        losses = None if rows.losses is None else (rows.losses[0][at], rows.losses[1][at])
        return ScoredRows(rows.labels[at], rows.scores[at], rows.left_out[at], losses)

    return Source(name, plan.task, plan.n_classes, plan.label_bounds, draw, rows)


def evaluated(source: Source, rows: ScoredRows, epsilon: float, delta: float, seed: int) -> Evaluation:
    """Return an evaluation of rows that are scored already."""
    plan = EvaluationPlan(
        task=source.task, n_classes=source.n_classes, label_bounds=source.bounds, epsilon=epsilon, delta=delta,
        adjacency=Adjacency.ZERO_OUT, n_samples=len(rows.labels),
    )  # fmt: skip
    driven = released_tables(plan, rows, Streams(seed))
    tables, event = driven.result, driven.event
    receipt = evaluation_receipt(plan, evaluated="", event=event, seeded=True, counts=digest(released(None, tables)))
    return Evaluation(plan, None, tables, receipt)


def measured(source: Source, n: int, epsilon: float, runs: int, delta: float = 0.0) -> dict[str, dict[str, float]]:
    """Return error, median width, and coverage of population and of the same rows, of each measure."""
    names = NUMBERS if source.task == "regression" else BINARY if source.task.startswith("binary") else SEVERAL
    truth = exact(source.task, source.whole)
    seen: dict[str, list[tuple[float, float, float, float]]] = {name: [] for name in names}
    for seed in range(runs):
        rows = source.draw(np.random.default_rng(1_000 + seed), n)
        found, same = evaluated(source, rows, epsilon, delta, seed), exact(source.task, rows)
        for name in names:
            low, high = found.intervals[name]
            value = getattr(found, name)
            seen[name].append((value - same[name], high - low, low <= truth[name] <= high, low <= same[name] <= high))
    out = {}
    for name, lines in seen.items():
        error, width, population, sample = np.array(lines).T
        out[name] = {
            "value": truth[name], "error": float(np.sqrt(np.nanmean(error**2))), "bias": float(np.nanmean(error)),
            "within .01": float(np.mean(np.abs(error) < 0.01)), "width": float(np.median(width)),
            "population": float(population.mean()), "sample": float(sample.mean()),
        }  # fmt: skip
    return out


def sources(parts: tuple[str, ...], quick: bool) -> Iterator[Source]:
    """Yield what is evaluated."""
    if "simulated" in parts:
        yield made_up("balanced", 0.5, 1.7, 1.3)
        yield made_up("5 % positive", 0.05, 1.7, 1.0)
        if not quick:
            yield made_up("30 %, weak scores", 0.3, 0.6, 0.3)
            yield made_up("nearly separated", 0.5, 4.0, 2.0)
            yield made_up_classes()
            yield made_up_numbers()
    if "real" in parts:
        for name in ("phishing",) if quick else (*CHOSEN_ON, *CONFIRMED_ON):
            if name not in LEFT_OUT["real"]:
                yield real(name)


def _tables(found: list[dict[str, Any]]) -> dict[str, tuple[tuple[str, ...], list[tuple[str, ...]]]]:
    errors, coverage = [], []
    for source in dict.fromkeys(line["source"] for line in found):
        mine = [line for line in found if line["source"] == source]
        main_ones = ("r2", "mae", "rmse") if mine[0]["measure"] in NUMBERS else ("accuracy", "auc", "log_loss", "brier")
        for n, epsilon in dict.fromkeys((line["n"], line["epsilon"]) for line in mine):
            here = {line["measure"]: line for line in mine if (line["n"], line["epsilon"]) == (n, epsilon)}
            if n == 10_000 and epsilon == 0.5:
                cells = [
                    f"{name} {here[name]['value']:.3f} ± {here[name]['error']:.4f}"
                    for name in main_ones
                    if name in here
                ]
                errors.append((source, ", ".join(cells)))
            worst = min(here.values(), key=lambda line: line["population"])
            most = max(here.values(), key=lambda line: line["population"])
            mean, same = (float(np.mean([line[of] for line in here.values()])) for of in ("population", "sample"))
            coverage.append(
                (source, f"{n:,}", f"{epsilon:g}", f"{mean:.3f}", f"{worst['population']:.3f} ({worst['measure']})",
                 f"{most['population']:.3f} ({most['measure']})", f"{same:.3f}")
            )  # fmt: skip
    return {
        "errors": (("rows", "exact value ± error at n = 10,000, epsilon = 0.5"), errors),
        "coverage": (
            ("rows", "n", "epsilon", "covered, mean", "least", "most", "exact value of the same rows"),
            coverage,
        ),
    }


FIGURES_OF = ("value", "error", "bias", "|.| < .01", "width", "population", "sample")


@benchmark(page="measured/evaluation.md", only="simulated,real", runs=(400, 10))
def main(run) -> None:
    parts = tuple(part for part in parts_at_hand(("simulated",), ("real",)) if part in run.only.split(","))
    sizes = [(1_000, 1.0), (10_000, 0.5)] + ([] if run.quick else [(10_000, 0.1), (10_000, 2.0)])
    found = []
    for source in sources(parts, run.quick):
        here = [
            {"source": source.name, "n": n, "epsilon": epsilon, "measure": name, **line}
            for n, epsilon in sorted(sizes)
            for name, line in measured(source, n, epsilon, run.runs).items()
        ]
        head = ("n|,", "epsilon", "measure", *(f"{name}|.4f" for name in FIGURES_OF))
        run.table(source.name, head, [tuple(line.values())[1:] for line in here])
        found += here
    if run.docs and not run.quick:
        write_tables(DOCS / run.page, _tables(found))
