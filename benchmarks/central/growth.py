"""How a whole default fit grows with rows, columns, classes and epsilon: seconds of one processor, and exponents.

    python -m benchmarks.central.growth [--docs] [--quick] [--only n,d,classes,epsilon] [--runs 3]

One number grows on a geometric grid while the others stay, on made-up tables of rows of norm 1 in float32. An exponent
is the slope of a line through the larger half of a grid, on logarithms, by least squares. Where columns grow, "newton"
and "scd" are fitted too. A fit stands beside the least that it could take: X'X once, and two reads of the rows a pass.
"""

import os
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import sottovoce as sv
from benchmarks.central.speed import dense_matrix, read
from benchmarks.driver import benchmark, best_of, timed
from sottovoce.exceptions import PrivacyWarning

GRIDS: dict[str, tuple[dict[str, Any], tuple[float, ...]]] = {  # what stays, and what grows
    "n": ({"d": 20, "classes": 2, "epsilon": 1.0}, (1000, 4000, 16_000, 64_000, 256_000, 1_024_000)),
    "d": ({"n": 20_000, "classes": 2, "epsilon": 1.0}, (20, 60, 180, 540, 1000, 2000, 4000)),
    "classes": ({"n": 20_000, "d": 20, "epsilon": 1.0}, (2, 4, 8, 16, 32, 64)),
    "epsilon": ({"n": 100_000, "d": 20, "classes": 2}, (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)),
}
QUICK = {"n": (1000, 4000), "d": (20, 60), "classes": (2, 4), "epsilon": (0.1, 1.0)}
UNSEEN = 5000  # rows that are only predicted


def grown(name: str, runs: int, quick: bool) -> Iterator[tuple[Any, ...]]:
    """Yield what each fit took while one number grows; by each solver of two classes where that is columns."""
    stays, values = GRIDS[name]
    for value in QUICK[name] if quick else values:
        facts = {**stays, name: value}
        X, _ = dense_matrix(facts["n"] + UNSEEN, facts["d"])
        rng = np.random.default_rng(1)
        scores = X @ rng.standard_normal((facts["d"], facts["classes"]), dtype=np.float32)
        y = np.argmax(scores + 0.5 * rng.standard_normal(scores.shape, dtype=np.float32), axis=1)
        X, y, X_unseen, y_unseen = X[UNSEEN:], y[UNSEEN:], X[:UNSEEN], y[:UNSEEN]
        few = 1 if X.size > 1e7 else runs
        product = best_of(lambda X=X: X.T @ X, few, time.process_time)
        reading = best_of(lambda X=X: read(X, 0, len(X)), few, time.process_time)
        known: dict[str, str] = {}
        for solver in ("auto", "newton", "scd") if name == "d" else ("auto",):
            if solver in known.values():
                continue
            model = sv.DPLogisticRegression(
                epsilon=facts["epsilon"], delta=1e-6, data_norm=1.0, classes=list(range(facts["classes"])),
                random_state=0, solver=solver,
            )  # fmt: skip
            model.fit(X[:1000], y[:1000])  # compiles
            seconds = min(
                timed(lambda model=model, X=X, y=y: model.fit(X, y), time.process_time)[1] for _ in range(few)
            )
            known[solver] = took = str(model.guarantee_.parameters["solver"])
            passes = int(np.max(model.n_iter_))
            least = product + 2.0 * passes * reading
            accuracy = 100.0 * float(model.score(X_unseen, y_unseen))
            yield (
                name, value, took, "yes" if solver == "auto" else "", passes, 1e3 * seconds, seconds / least, accuracy
            )  # fmt: skip


def exponents(rows: list[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Yield the slope of each line on logarithms, of its larger half."""
    for name, which in (*((name, "auto") for name in GRIDS), ("d", "newton"), ("d", "scd")):
        line = [(row[1], row[5]) for row in rows if row[0] == name and (row[3] if which == "auto" else row[2] == which)]
        line = line[len(line) // 2 :]
        if len(line) > 1:
            yield name, which, f"{line[0][0]:,} to {line[-1][0]:,}", float(np.polyfit(*np.log(line).T, 1)[0])


@benchmark(page="measured/large_tables.md", only=",".join(GRIDS), runs=(3, 1))
def main(run) -> None:
    warnings.simplefilter("ignore", PrivacyWarning)  # one table is fitted again and again
    os.environ["SOTTOVOCE_NUM_THREADS"] = "1"
    head = (
        "grows", "to|,", "solver", "default", "passes", "CPU ms|.1f", "over X'X and 2 reads a pass|.1f",
        "accuracy, %|.1f",
    )  # fmt: skip
    with threadpool_limits(1):
        found = (row for name in run.only.split(",") for row in grown(name, run.runs, run.quick))
        rows = run.table("a whole default fit", head, found, mark="growth")
    run.table("exponents", ("grows", "solver", "where", "exponent|.2f"), exponents(rows), mark="exponents")
