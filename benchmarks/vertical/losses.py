"""Losses of vertical training without noise: what the sigmoid loss is good for.

    python -m benchmarks.vertical.losses [--quick] [--docs]

Three parties share the columns, dealt at random. Some training labels are made wrong, accuracy is on true ones of the
test part, medians of 5 seeds; penalty 1e-4 everywhere. ``--quick``: phishing, one seed. ``--docs`` writes the table.
Tables of ADMM on the same page (groups, the absolute loss, rounds) are of the product until decision 23.
"""

import math
import statistics
import warnings
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from benchmarks.common import data_folder
from benchmarks.driver import benchmark
from benchmarks.sets import split
from sottovoce.vertical import VerticalLinearSVC, VerticalLogisticRegression, split_columns

SETS: Final = ("phishing", "mushrooms", "a9a")
ALPHA: Final = 1e-4
MODELS: Final = {
    "logistic": lambda: VerticalLogisticRegression(epsilon=math.inf, alpha=ALPHA),
    "hinge": lambda: VerticalLinearSVC(epsilon=math.inf, alpha=ALPHA),
    "sigmoid": lambda: VerticalLinearSVC(epsilon=math.inf, loss="sigmoid", alpha=ALPHA),
}
CASES: Final = (
    "as they are", "20 % flipped", "30 % flipped", "the surest 10 % flipped", "the surest 10 % of one class",
)  # fmt: skip

Table = NDArray[np.float64]


def dense(X: Any) -> Table:
    return np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)


def dealt(name: str, seed: int) -> tuple[Table, Table, Table, Table, list[int]]:
    """Return training and test part with labels -1 and +1, the columns in random order, and how many each party has."""
    s = split(name, seed)
    order = np.random.default_rng(seed).permutation(s.X.shape[1])
    d = len(order)
    positive = max(np.unique(s.y))
    signs = (np.where(np.asarray(y) == positive, 1.0, -1.0) for y in (s.y, s.y_test))
    return (dense(s.X)[:, order], dense(s.X_test)[:, order], *signs, [d // 3, d // 3, d - 2 * (d // 3)])


def made_wrong(case: str, y: Table, sure: Table, rng: np.random.Generator) -> Table:
    """Return the labels of a case; ``sure`` is how sure a model of the true labels is of each."""
    wrong = np.zeros(len(y), dtype=bool)
    if case in ("20 % flipped", "30 % flipped"):
        wrong = rng.random(len(y)) < float(case.split()[0]) / 100
    elif case == "the surest 10 % flipped":
        wrong = sure > np.quantile(sure, 0.9)
    elif case == "the surest 10 % of one class":
        wrong = (y > 0) & (sure > np.quantile(sure[y > 0], 0.9))
    return np.where(wrong, -y, y)


def labels(names: tuple[str, ...], seeds: int) -> dict[str, Any]:
    """Return test accuracies by set, case and loss, one a seed."""
    found: dict[str, Any] = {}
    for name in names:
        for seed in range(seeds):
            X, X_test, y, y_test, sizes = dealt(name, seed)
            parties, others = split_columns(X, sizes), split_columns(X_test, sizes)
            sure = y * MODELS["logistic"]().fit(parties, y).decision_function(parties)
            for case in CASES:
                given = made_wrong(case, y, sure, np.random.default_rng(100 + seed))
                for loss, make in MODELS.items():
                    score = make().fit(parties, given).score(others, y_test)
                    found.setdefault(name, {}).setdefault(case, {}).setdefault(loss, []).append(score)
        print(f"labels, {name}: done", flush=True)
    return found


def tables(found: dict[str, Any]) -> dict[str, tuple[tuple[str, ...], list[tuple[str, ...]]]]:
    wrong = []
    for name, cases in found["labels"].items():
        for case, by_loss in cases.items():
            middle = {loss: statistics.median(scores) for loss, scores in by_loss.items()}
            best = max(round(value, 3) for value in middle.values())
            wrong.append((name, case, *(_cell(middle[loss], best) for loss in MODELS)))
    return {"wrong labels": (("set", "training labels", *MODELS), wrong)}


def _cell(value: float, best: float) -> str:
    return f"**{value:.3f}**" if round(value, 3) == best else f"{value:.3f}"


@benchmark(page="measured/vertical_solvers.md")
def main(run) -> None:
    data_folder()
    warnings.simplefilter("ignore", ConvergenceWarning)
    names, seeds = (SETS[:1], 1) if run.quick else (SETS, 5)
    found = {"seeds": seeds, "labels": labels(names, seeds)}
    run.tables(tables(found))
    run.keep("vertical_losses", found)
