"""Accuracy against the bound on the rows: by hand, the largest norm, and what ``data_norm="auto"`` finds.

    python -m benchmarks.central.data_norm [--seeds 5] [--epsilon 1] [--rule] [--confirm] [--docs] [--quick]

Default models at delta = 1e-5, trained on at most 5,000 rows of each table: test accuracy, or R^2 of numbers.
``--rule`` compares shares of the rows that keep the released bound, on the tables that rules are chosen on;
``--confirm`` takes the other tables. ``--docs`` writes tables and picture of docs/measured/data/data_norm.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_digits, load_svmlight_file
from sklearn.model_selection import train_test_split

import sottovoce as sv
from benchmarks import sets
from benchmarks.common import DOCS, data_folder, keep, keep_picture, make_parser, parts_at_hand, show, write_tables
from sottovoce.central import released_norm

MULTIPLES = (0.01, 0.1, 0.3, 1.0, 1.5, 2.0, 3.0, 10.0, 30.0)  # of the median norm
SHARES = (0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 1.0)
MOST_ROWS = 5000
DELTA = 1e-5


class Table(NamedTuple):
    """Rows, labels, and what is public of the labels."""

    X: Any
    y: Any
    public: dict[str, Any]


def _uniform(shift: float, *, far: float = 0.0) -> Table:
    """Make up rows; a share of them, ``far``, a thousand times as long as they should be."""
    rng = np.random.default_rng(7)
    X = rng.uniform(-1.0, 1.0, (20_000, 10))
    margins = X @ rng.standard_normal(10) + 0.5 * rng.standard_normal(len(X))
    X[rng.random(len(X)) < far] *= 1000.0
    return Table(X + shift, (margins > 0.0).astype(int), {"classes": [0, 1]})


def _cancer(*, standardised: bool) -> Table:
    X, y = load_breast_cancer(return_X_y=True)
    return Table((X - X.mean(axis=0)) / X.std(axis=0) if standardised else X, y, {"classes": [0, 1]})


def _digits() -> Table:
    X, y = load_digits(return_X_y=True)
    return Table(X, y, {"classes": list(range(10))})


def _as_found(file: str, n_features: int) -> Table:
    X, y = load_svmlight_file(str(data_folder() / f"{file}.bz2"), n_features=n_features)
    return Table(X, y, {"classes": sorted(set(y.tolist()))})


def _numbers(file: str, target: int, bounds: tuple[float, float], *, skip: int = 0, unit: float = 1.0) -> Table:
    D = np.loadtxt(data_folder() / f"{file}.bz2", delimiter=",", skiprows=skip)
    return Table(np.delete(D, target, axis=1), D[:, target] / unit, {"label_bounds": bounds})


def _skin() -> Table:
    D = np.loadtxt(data_folder() / "skin_nonskin.txt.bz2")
    return Table(D[:, :3], D[:, 3], {"classes": [1.0, 2.0]})


def _blog() -> Table:
    D = np.loadtxt(data_folder() / "blogfeedback_train.csv.bz2", delimiter=",")
    y = np.clip(np.log1p(D[:, -1]), 0.0, 8.0)
    return Table(np.sign(D[:, :-1]) * np.log1p(np.abs(D[:, :-1])), y, {"label_bounds": (0.0, 8.0)})


def _set(name: str) -> Table:
    whole = sets.whole(name)
    return Table(whole.X, whole.y, {key: value for key, value in whole.public.items() if key != "data_norm"})


MADE_UP: dict[str, Callable[[], Table]] = {
    "uniform, centred": lambda: _uniform(0.0),
    "uniform, 5 added": lambda: _uniform(5.0),
    "uniform, 5 % of the rows far too long": lambda: _uniform(0.0, far=0.05),
    "breast cancer, raw": lambda: _cancer(standardised=False),
    "breast cancer, standardised": lambda: _cancer(standardised=True),
    "digits, pixels": _digits,
}
CHOSEN: dict[str, Callable[[], Table]] = {
    "german, scaled": lambda: _set("german"),
    "a9a, 0 and 1": lambda: _as_found("a9a", 123),
    "w8a, 0 and 1": lambda: _as_found("w8a", 300),
    "houses, raw": lambda: _numbers("cal_housing.data", 8, (0.0, 5.1), unit=1e5),
    "houses, scaled": lambda: _set("cal_housing"),
    "blogs, logarithms": _blog,
}
CONFIRMED: dict[str, Callable[[], Table]] = {
    "adult, encoded": lambda: _set("adult"),
    "bank, encoded": lambda: _set("bank"),
    "credit, encoded": lambda: _set("credit"),
    "skin, 0 to 255": _skin,
    "skin, scaled": lambda: _set("skin"),
    "madelon, raw": lambda: _as_found("madelon", 500),
    "mnist 4 and 9, pixels": lambda: _as_found("mnist_4v9", 784),
    "proteins, raw": lambda: _numbers("casp.csv", 0, (0.0, 21.0), skip=1),
    "proteins, scaled": lambda: _set("casp"),
    "songs, raw": lambda: _numbers("msd_sample.csv", 0, (1920.0, 2012.0)),
}
TABLES = MADE_UP | CHOSEN | CONFIRMED
PICTURED = (
    "uniform, centred", "uniform, 5 added", "breast cancer, raw", "breast cancer, standardised", "digits, pixels",
    "houses, raw",
)  # fmt: skip


@cache
def table(name: str) -> Table:
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
    """Return scores and bounds of all seeds, by table and bound."""
    found: dict[str, Any] = {}
    for name in names:
        found[name] = {str(norm): [fitted(name, seed, epsilon, norm) for seed in range(seeds)] for norm in bounds}
        print(name, {norm: round(mean(cells), 3) for norm, cells in found[name].items()}, flush=True)
    return found


def mean(cells: list[tuple[float, float]]) -> float:
    return float(np.mean([score for score, _ in cells]))


def rule(names: list[str], seeds: int, epsilon: float) -> dict[str, Any]:
    """Compare shares of the rows that keep the bound."""
    results: dict[str, Any] = {name: {} for name in names}
    taken = released_norm._KEPT
    for share in SHARES:
        released_norm._KEPT = share  # type: ignore[misc]
        for name in names:
            results[name][str(share)] = [fitted(name, seed, epsilon, "auto") for seed in range(seeds)]
        print(share, {name: round(mean(results[name][str(share)]), 3) for name in names}, flush=True)
    released_norm._KEPT = taken  # type: ignore[misc]
    rows = [(name, *(f"{mean(cells):.3f}" for cells in results[name].values())) for name in names]
    means = np.mean([[mean(cells) for cells in results[name].values()] for name in names], axis=0)
    rows.append(("mean", *(f"{value:.4f}" for value in means)))
    show(f"score by the share that is kept, epsilon {epsilon:g}, {seeds} splits", ("table", *map(str, SHARES)), rows)
    return results


def rows_of(results: dict[str, Any]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return head and lines of the table of the page."""
    head = ("table", *(f"{norm:g}" for norm in MULTIPLES), "largest norm", "auto", "bound that auto took")
    lines = []
    for name, cells in results.items():
        took = [bound for _, bound in cells["auto"]]
        scores = (f"{mean(cells[str(norm)]):.3f}" for norm in (*MULTIPLES, "largest", "auto"))
        lines.append((name, *scores, f"{min(took):.2g} to {max(took):.2g}"))
    means = [
        np.mean([mean(cells[str(norm)]) for cells in results.values()]) for norm in (*MULTIPLES, "largest", "auto")
    ]
    lines.append(("mean", *(f"{value:.3f}" for value in means), ""))
    return head, lines


def draw(results: dict[str, Any], epsilon: float) -> None:
    """Draw the scores against the bound."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

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
    keep_picture(figure, DOCS / "figures" / "data_norm.png")


def main() -> None:
    parser = make_parser(__doc__, docs=True)
    parser.add_argument("--seeds", type=int, default=None, help="default 5; 1 with --quick")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--only", default=None, help="tables, separated by semicolons")
    parser.add_argument("--rule", action="store_true")
    parser.add_argument("--confirm", action="store_true")
    given = parser.parse_args()
    seeds = given.seeds or (1 if given.quick else 5)
    real = tuple(CONFIRMED) if given.confirm else tuple(CHOSEN)
    names = list(parts_at_hand(() if given.confirm else tuple(MADE_UP), () if given.quick else real))
    names = given.only.split(";") if given.only else names
    if given.rule:
        keep(f"data-norm-rule-{given.epsilon:g}", rule(names, seeds, given.epsilon))
        return
    results = measured(names, seeds, given.epsilon, (*MULTIPLES, "largest", "auto"))
    head, lines = rows_of(results)
    show(f"score by data_norm over the median norm, epsilon {given.epsilon:g}", head, lines, width=160)
    keep(f"data-norm-{'confirmed-' * given.confirm}{given.epsilon:g}", results)
    if given.docs:
        mark = f"{'confirmed' if given.confirm else 'chosen'} {given.epsilon:g}"
        write_tables(DOCS / "measured" / "data_norm.md", {mark: (head, lines)})
        if not given.confirm and given.epsilon == 1.0:
            draw(results, given.epsilon)


if __name__ == "__main__":
    main()
