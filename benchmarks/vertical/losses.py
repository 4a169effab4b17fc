"""Losses, groups and solvers of vertical training without noise: what sigmoid loss and group LASSO are good for.

    python -m benchmarks.vertical.losses [--quick] [--only labels,groups,rounds,absolute] [--docs]

Three parties share the columns, dealt at random. *Labels*: some training labels are made wrong, accuracy is on true
ones of the test part, medians of 5 seeds; penalty 1e-4 everywhere. *Groups*: three more parties hold the same columns
of other people, which say nothing; whose columns does a model need? Medians of 3 seeds. *Rounds*: to the least
objective of the sigmoid loss, one seed. *Absolute*: how near the least objective of the absolute loss ADMM is, by its
penalty parameter; one seed, 3,000 rows at most. ``--only`` keeps what the
last run found for the rest. ``--quick``: phishing, one seed. ``--docs`` writes tables and a picture.
"""

import json
import math
import statistics
import warnings
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from matplotlib import pyplot as plt
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from benchmarks.common import DOCS, data_folder, keep, keep_picture, make_parser, show, write_tables
from benchmarks.sets import split
from sottovoce.losses import Absolute
from sottovoce.vertical import VerticalLinearSVC, VerticalLogisticRegression, VerticalRidge, split_columns
from sottovoce.vertical.protocols.exact.plan import label_unit

PAGE: Final = DOCS / "measured" / "vertical_solvers.md"
SETS: Final = ("phishing", "mushrooms", "a9a")
ALPHA: Final = 1e-4
MODELS: Final = {
    "logistic": lambda: VerticalLogisticRegression(epsilon=math.inf, alpha=ALPHA),
    "hinge": lambda: VerticalLinearSVC(epsilon=math.inf, alpha=ALPHA),
    "sigmoid": lambda: VerticalLinearSVC(epsilon=math.inf, loss="sigmoid", alpha=ALPHA),
}
CASES: Final = (
    "as they are",
    "20 % flipped",
    "30 % flipped",
    "the surest 10 % flipped",
    "the surest 10 % of one class",
)
STRENGTHS: Final = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005)  # alpha of the group LASSO
SOLVERS: Final[dict[str, dict[str, Any]]] = {
    "L-BFGS": {"solver": "lbfgs"},
    "ADMM, sharing (default)": {"solver": "admm"},
    "ADMM, sharing, relaxation 1.6": {"solver": "admm", "solver_options": {"relaxation": 1.6}},
    "ADMM, proximal": {"solver": "admm", "solver_options": {"admm_form": "proximal"}},
    "ADMM, printed": {"solver": "admm", "solver_options": {"admm_form": "printed"}},
}
ROUNDS: Final = 300
NUMBERS: Final = ("cal_housing", "blogfeedback", "casp", "msd_sample")
FACTORS: Final = (0.1, 0.4, 1.6, 6.4)  # of ADMM's penalty parameter, over the unit of the labels

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


def groups(name: str, seeds: int) -> list[dict[str, Any]]:
    """Return what each party's coefficients come to by strength, with groups and without."""
    found = []
    for seed in range(seeds):
        X, X_test, y, y_test, sizes = dealt(name, seed)
        rng = np.random.default_rng(200 + seed)
        X, X_test = (np.hstack([part, rng.permutation(part)]) for part in (X, X_test))
        parties, others = split_columns(X, sizes * 2), split_columns(X_test, sizes * 2)
        for alpha in STRENGTHS:
            for kind, chosen in (("group LASSO", "party"), ("LASSO", None)):
                model = VerticalLogisticRegression(
                    epsilon=math.inf, alpha=alpha, l1_ratio=1.0, groups=chosen, tol=1e-4, max_iter=ROUNDS
                ).fit(parties, y)
                norms = [float(np.linalg.norm(part.coef)) for part in model.parts_.values()]
                found.append({
                    "set": name, "seed": seed, "alpha": alpha, "kind": kind, "norms": norms,
                    "accuracy": model.score(others, y_test), "rounds": model.n_rounds_,
                    "needed": sum(norm > 0.0 for norm in norms[:3]), "strangers": sum(norm > 0.0 for norm in norms[3:]),
                })  # fmt: skip
    print(f"groups, {name}: done", flush=True)
    return found


def rounds(name: str) -> list[dict[str, Any]]:
    """Return rounds to near the least objective of the sigmoid loss, labels 20 % flipped."""
    X, _, y, _, sizes = dealt(name, 0)
    given = made_wrong("20 % flipped", y, y, np.random.default_rng(100))
    runs = {}
    for solver, options in SOLVERS.items():
        model = VerticalLinearSVC(
            epsilon=math.inf, loss="sigmoid", alpha=ALPHA, max_iter=ROUNDS, tol=1e-12, **options
        ).fit(split_columns(X, sizes), given)
        runs[solver] = np.array(model.history_.objective), np.array(model.history_.stationarity)
    least = min(float(values.min()) for values, _ in runs.values())
    return [
        {
            "solver": solver,
            **{f"{level:g}": _first(values, least, level) for level in (1e-2, 1e-3, 1e-6)},
            "end": float(values[-1]) / least - 1.0,
            "rise": max(0.0, float(np.diff(values).max())) / least,
            "measure": float(measure[-1] / measure[0]),
        }
        for solver, (values, measure) in runs.items()
    ]


def absolute(names: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return how far from the least objective found the absolute loss is after 100, 200 and 400 rounds of ADMM."""
    found = []
    for name in names:
        s = split(name, 0)
        X, y = dense(s.X)[:3000], np.asarray(s.y, dtype=np.float64)[:3000]
        d, unit = X.shape[1], label_unit(Absolute(), y)
        runs = {}
        for factor in FACTORS:
            model = VerticalRidge(
                epsilon=math.inf, loss="absolute", alpha=ALPHA / unit, max_iter=400, tol=1e-12,
                solver_options={"admm_penalty": factor / unit},
            ).fit(split_columns(X, [d // 3, d // 3, d - 2 * (d // 3)]), y)  # fmt: skip
            runs[factor] = np.array(model.history_.objective)
        least = min(float(values.min()) for values in runs.values())
        for factor, values in runs.items():
            gaps = {str(t): float(values[min(t, len(values)) - 1]) / least - 1.0 for t in (100, 200, 400)}
            found.append({"set": name, "factor": factor, **gaps})
        print(f"absolute, {name}: done", flush=True)
    return found


def _first(values: Table, least: float, level: float) -> int | None:
    near = np.flatnonzero(values <= least * (1.0 + level))
    return int(near[0]) + 1 if len(near) else None


def median_of(rows: list[dict[str, Any]], what: str) -> float:
    return statistics.median(row[what] for row in rows)


def tables(found: dict[str, Any]) -> dict[str, tuple[tuple[str, ...], list[tuple[str, ...]]]]:
    wrong = []
    for name, cases in found["labels"].items():
        for case, by_loss in cases.items():
            middle = {loss: statistics.median(scores) for loss, scores in by_loss.items()}
            best = max(round(value, 3) for value in middle.values())
            wrong.append((name, case, *(_cell(middle[loss], best) for loss in MODELS)))
    chosen = []
    for name in dict.fromkeys(row["set"] for row in found["groups"]):
        for alpha in STRENGTHS:
            here = [row for row in found["groups"] if (row["set"], row["alpha"]) == (name, alpha)]
            cells: list[str] = []
            for kind in ("group LASSO", "LASSO"):
                rows = [row for row in here if row["kind"] == kind]
                cells += [
                    f"{median_of(rows, 'needed'):g} of 3", f"{median_of(rows, 'strangers'):g} of 3",
                    f"{median_of(rows, 'accuracy'):.3f}",
                ]  # fmt: skip
            chosen.append((name, f"{alpha:g}", *cells))
    head = ("parties kept", "strangers kept", "accuracy")
    least = [
        (
            row["solver"],
            *(f"{row[level]}" if row[level] else f"more than {ROUNDS}" for level in ("0.01", "0.001", "1e-06")),
            f"{row['measure']:.1e}",
            f"{row['rise']:.0e}" if row["rise"] > 1e-12 else "none",
        )
        for row in found["rounds"]
    ]
    return {
        "wrong labels": (("set", "training labels", *MODELS), wrong),
        "groups": (
            ("set", "alpha", f"group LASSO: {head[0]}", *head[1:], f"LASSO: {head[0]}", *head[1:]),
            chosen,
        ),
        "absolute": (
            ("set", *(f"{factor:g}" for factor in FACTORS)),
            [
                (
                    name,
                    *(
                        " / ".join(f"{row[t]:.0e}" for t in ("100", "200", "400"))
                        for row in found["absolute"]
                        if row["set"] == name
                    ),
                )
                for name in dict.fromkeys(row["set"] for row in found["absolute"])
            ],
        ),
        "sigmoid rounds": (
            ("solver", "rounds to 1e-2", "to 1e-3", "to 1e-6", "measure at the end / at the start", "largest rise"),
            least,
        ),
    }


def _cell(value: float, best: float) -> str:
    return f"**{value:.3f}**" if round(value, 3) == best else f"{value:.3f}"


def draw(found: dict[str, Any]) -> Any:
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2))
    name = next(iter(found["labels"]))
    colours = {"logistic": "#1f77b4", "hinge": "#2ca02c", "sigmoid": "#d62728"}
    for place, (loss, colour) in enumerate(colours.items()):
        scores = [found["labels"][name][case][loss] for case in CASES]
        at = np.arange(len(CASES)) + 0.2 * (place - 1)
        left.plot(at, [statistics.median(each) for each in scores], "o", color=colour, label=loss)
        left.vlines(at, [min(each) for each in scores], [max(each) for each in scores], color=colour)
    left.set_xticks(
        range(len(CASES)), [case.replace(" flipped", "\nflipped").replace(" of ", "\nof ") for case in CASES]
    )
    left.tick_params(axis="x", labelsize=7)
    left.set_ylabel("test accuracy on true labels")
    left.set_title(f"{name}: wrong training labels", fontsize=10)
    left.legend(frameon=False)
    name = found["groups"][0]["set"]
    rows = [r for r in found["groups"] if (r["set"], r["seed"], r["kind"]) == (name, 0, "group LASSO")]
    for party in range(6):
        norms = [row["norms"][party] for row in rows]
        colour = "#1f77b4" if party < 3 else "#ff7f0e"
        label = {0: "columns of these people", 3: "columns of strangers"}.get(party)
        right.plot([row["alpha"] for row in rows], norms, "o-", color=colour, label=label, linewidth=1.3)
    right.set_xscale("log")
    right.set_xlabel("alpha")
    right.set_ylabel("length of a party's coefficients")
    right.set_title(f"{name}: group LASSO, one group a party", fontsize=10)
    right.legend(frameon=False)
    for axes in (left, right):
        axes.grid(alpha=0.3)
    figure.tight_layout()
    return figure


def main() -> None:
    parser = make_parser(__doc__, docs=True)
    parser.add_argument("--only", default="labels,groups,rounds,absolute", help="parts that are run, with commas")
    options = parser.parse_args()
    data_folder()
    warnings.simplefilter("ignore", ConvergenceWarning)
    names, seeds = (SETS[:1], 1) if options.quick else (SETS, 5)
    parts: dict[str, Callable[[], Any]] = {
        "labels": lambda: labels(names, seeds),
        "groups": lambda: [row for name in names[:2] for row in groups(name, min(seeds, 3))],
        "rounds": lambda: rounds(names[0]),
        "absolute": lambda: absolute(NUMBERS[:1] if options.quick else NUMBERS),
    }
    chosen = options.only.split(",")
    kept = DOCS / "figures" / "vertical_losses.json"
    found = json.loads(kept.read_text(encoding="utf-8")) if set(chosen) < set(parts) else {}
    found |= {"seeds": seeds} | {part: run() for part, run in parts.items() if part in chosen}
    made = tables(found)
    for title, (head, rows) in made.items():
        show(title, head, rows)
    if not options.quick:
        keep("vertical_losses", found)
    if options.docs:
        write_tables(PAGE, made)
        keep("vertical_losses", found, DOCS / "figures")
        keep_picture(draw(found), DOCS / "figures" / "vertical_losses.png")


if __name__ == "__main__":
    main()
