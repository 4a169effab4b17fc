"""Accuracy against the bound on the rows: by hand, the largest norm, and what ``data_norm="auto"`` finds.

    python -m benchmarks.central.data_norm [--seeds 5] [--epsilon 1] [--confirm] [--long] [--docs] [--quick]

Default models at delta = 1e-5, trained on at most 5,000 rows of each table: test accuracy, or R^2 of numbers.
``--confirm`` takes the other tables. ``--long`` compares predictions of "auto" that shorten rows with those that do
not. ``--docs`` writes tables and picture of docs/measured/data/data_norm.
"""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_digits, load_svmlight_file
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

import sottovoce as sv
from benchmarks import sets
from benchmarks.common import data_folder, parts_at_hand
from benchmarks.driver import FIGURES, benchmark, keep_picture, option
from benchmarks.sets import Whole

MULTIPLES = (0.01, 0.1, 0.3, 1.0, 1.5, 2.0, 3.0, 10.0, 30.0)  # of the median norm
MOST_ROWS = 5000
DELTA = 1e-5


def _uniform(shift: float, *, far: float = 0.0) -> Whole:
    """Make up rows; a share of them, ``far``, a thousand times as long as they should be."""
    rng = np.random.default_rng(7)
    X = rng.uniform(-1.0, 1.0, (20_000, 10))
    margins = X @ rng.standard_normal(10) + 0.5 * rng.standard_normal(len(X))
    X[rng.random(len(X)) < far] *= 1000.0
    return Whole(X + shift, (margins > 0.0).astype(int), {"classes": [0, 1]})


def _cancer(*, standardised: bool) -> Whole:
    X, y = load_breast_cancer(return_X_y=True)
    return Whole((X - X.mean(axis=0)) / X.std(axis=0) if standardised else X, y, {"classes": [0, 1]})


def _digits() -> Whole:
    X, y = load_digits(return_X_y=True)
    return Whole(X, y, {"classes": list(range(10))})


def _as_found(file: str, n_features: int) -> Whole:
    X, y = load_svmlight_file(str(data_folder() / f"{file}.bz2"), n_features=n_features)
    return Whole(X, y, {"classes": sorted(set(y.tolist()))})


def _blogs() -> Whole:
    X, y, public = sets.RAW["blogfeedback"]()
    return Whole(sets.logarithms(X), y, public)


def _set(name: str) -> Whole:
    whole = sets.whole(name)
    return Whole(whole.X, whole.y, {key: value for key, value in whole.public.items() if key != "data_norm"})


MADE_UP: dict[str, Callable[[], Whole]] = {
    "uniform, centred": lambda: _uniform(0.0), "uniform, 5 added": lambda: _uniform(5.0),
    "uniform, 5 % of the rows far too long": lambda: _uniform(0.0, far=0.05),
    "breast cancer, raw": lambda: _cancer(standardised=False),
    "breast cancer, standardised": lambda: _cancer(standardised=True), "digits, pixels": _digits,
}  # fmt: skip
CHOSEN: dict[str, Callable[[], Whole]] = {
    "german, scaled": lambda: _set("german"), "a9a, 0 and 1": lambda: _as_found("a9a", 123),
    "w8a, 0 and 1": lambda: _as_found("w8a", 300),
    "houses, raw": sets.RAW["cal_housing"],
    "houses, scaled": lambda: _set("cal_housing"), "blogs, logarithms": _blogs,
}  # fmt: skip
CONFIRMED: dict[str, Callable[[], Whole]] = {
    "adult, encoded": lambda: _set("adult"), "bank, encoded": lambda: _set("bank"),
    "credit, encoded": lambda: _set("credit"), "skin, 0 to 255": sets.RAW["skin"], "skin, scaled": lambda: _set("skin"),
    "madelon, raw": lambda: _as_found("madelon", 500), "mnist 4 and 9, pixels": lambda: _as_found("mnist_4v9", 784),
    "proteins, raw": sets.RAW["casp"], "proteins, scaled": lambda: _set("casp"),
    "songs, raw": sets.RAW["msd_sample"],
}  # fmt: skip
TABLES = MADE_UP | CHOSEN | CONFIRMED
PICTURED = (
    "uniform, centred", "uniform, 5 added", "breast cancer, raw", "breast cancer, standardised", "digits, pixels",
    "houses, raw",
)  # fmt: skip


@cache
def table(name: str) -> Whole:
    return TABLES[name]()


def split(name: str, seed: int) -> tuple[Any, Any, Any, Any]:
    """Return a training part and a test part of at most `MOST_ROWS` rows each, and the norms of the former."""
    X, y, public = table(name)
    strata = y if "classes" in public else None
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.25, random_state=seed, stratify=strata)
    return X[:MOST_ROWS], y[:MOST_ROWS], X_test[:MOST_ROWS], y_test[:MOST_ROWS]


def norms_of(X: Any) -> Any:
    return np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel()) if sp.issparse(X) else np.linalg.norm(X, axis=1)


def fitted(name: str, seed: int, epsilon: float, norm: Any) -> tuple[float, float]:
    """Return the score of a default model and the bound that it used, over the median norm."""
    X, y, X_test, y_test = split(name, seed)
    kind = sv.DPRidge if "label_bounds" in table(name).public else sv.DPLogisticRegression
    norms = norms_of(X)
    given = norm if norm == "auto" else float(np.max(norms) if norm == "largest" else norm * np.median(norms))
    model = kind(epsilon=epsilon, delta=DELTA, data_norm=given, **table(name).public).fit(X, y)
    return float(model.score(X_test, y_test)), model.data_norm_ / float(np.median(norms))


def measured(names: list[str], seeds: int, epsilon: float, bounds: tuple[Any, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in names:
        found[name] = {str(norm): [fitted(name, seed, epsilon, norm) for seed in range(seeds)] for norm in bounds}
        print(name, {norm: round(mean(cells), 3) for norm, cells in found[name].items()}, flush=True)
    return found


def of_long_rows(names: list[str], seeds: int, epsilon: float) -> Iterator[tuple[Any, ...]]:
    """Yield for a table how many held-out rows are beyond the bound, and scores and log loss with and without it."""
    for name in names:
        found = []
        for X, y, X_test, y_test in (split(name, seed) for seed in range(seeds)):
            kind = sv.DPRidge if "label_bounds" in table(name).public else sv.DPLogisticRegression
            model = kind(epsilon=epsilon, delta=DELTA, **table(name).public).fit(X, y)
            cells = [float((norms_of(X_test) > model.row_bound_).mean())]
            for bound in (None, model.row_bound_):
                model.row_bound_ = bound
                cells.append(float(model.score(X_test, y_test)))
                shares = None if kind is sv.DPRidge else np.clip(model.predict_proba(X_test), 1e-15, 1.0)
                cells.append(np.nan if shares is None else log_loss(y_test, shares, labels=model.classes_))
            found.append(cells)
        yield name, *np.mean(found, axis=0)


def mean(cells: list[tuple[float, float]]) -> float:
    return float(np.mean([score for score, _ in cells]))


NORMS = (*MULTIPLES, "largest", "auto")


def rows_of(results: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    for name, cells in results.items():
        took = [bound for _, bound in cells["auto"]]
        yield name, *(mean(cells[str(norm)]) for norm in NORMS), f"{min(took):.2g} to {max(took):.2g}"
    yield "mean", *(np.mean([mean(cells[str(norm)]) for cells in results.values()]) for norm in NORMS), None


def draw(results: dict[str, Any], epsilon: float) -> None:
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(2, 3, figsize=(11, 6), layout="constrained", sharex=True)
    for name, axis in zip(PICTURED, axes.ravel(), strict=True):
        cells = results[name]
        axis.semilogx(
            MULTIPLES, [mean(cells[str(norm)]) for norm in MULTIPLES], "o-", color="#4477aa", label="a number"
        )
        took = [bound for _, bound in cells["auto"]]
        axis.plot(took, [score for score, _ in cells["auto"]], "x", color="#cc3311", label='"auto", each split')
        axis.axhline(mean(cells["auto"]), color="#cc3311", linewidth=0.8, linestyle=":")
        axis.set_ylim((0.45, 1.02) if "classes" in table(name).public else (-0.5, 0.5))  # else noise looks large
        axis.set_title(name, fontsize=10)
        axis.grid(alpha=0.3)
    axes[0, 0].legend(fontsize=8, loc="lower left")
    figure.supxlabel("data_norm over the median norm of a row")
    figure.supylabel(f"test accuracy, or R$^2$ (epsilon {epsilon:g})")
    keep_picture(figure, FIGURES / "data_norm.png")


@benchmark(
    page="measured/data_norm.md", seeds=(5, 1), epsilon=1.0, only=option(help="tables, separated by semicolons"),
    confirm=False, long=False,
)  # fmt: skip
def main(run) -> None:
    real = tuple(CONFIRMED) if run.confirm else tuple(CHOSEN)
    names = list(parts_at_hand(() if run.confirm else tuple(MADE_UP), () if run.quick else real))
    names = run.only.split(";") if run.only else names
    if run.long:
        head = (
            "table",
            "beyond|.3f",
            *(f"{what}, {how}|.3f" for how in ("whole", "short") for what in ("score", "loss")),
        )
        run.table(f"long rows, epsilon {run.epsilon:g}", head, of_long_rows(names, run.seeds, run.epsilon))
        return
    results = measured(names, run.seeds, run.epsilon, NORMS)
    mark = f"{'confirmed' if run.confirm else 'chosen'} {run.epsilon:g}"
    columns = (*(f"{norm:g}" for norm in MULTIPLES), "largest norm", "auto")
    head = ("table", *(f"{column}|.3f" for column in columns), "bound that auto took")
    run.table(f"score by data_norm over the median norm, epsilon {run.epsilon:g}", head, rows_of(results), mark=mark)
    if run.docs and not run.confirm and run.epsilon == 1.0:
        draw(results, run.epsilon)
