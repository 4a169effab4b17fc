"""Who wins over columns at several parties: the label holder alone, local models, noisy ADMM, all columns.

    python -m benchmarks.vertical.weights [--quick] [--only phishing,a9a] [--seeds 5] [--docs]

Columns in whole attributes are dealt in order or at random to 2, 3 and 5 parties; epsilon .5, 1, 4; labels public or
secret; delta = 1e-5. At most 20,000 people train, and as many test; medians over seeds. "before": the other parties'
scores times .6 / (M - 1), which was the default; "hindsight": the best weights for the people of the test, which nobody
has. Classes: accuracy and log loss; numbers: mean squared error over the variance.

Rules (the weights, and what ``mechanism="auto"`` takes) were chosen on `CHOSEN` and are confirmed on `CONFIRMED`.
Figures are kept by set, and a set whose figures are kept is not measured again. ``--docs`` writes the tables into the
guide, and all cells beside its pictures. ``--quick``: one made-up set, one seed.
"""

import json
import sys
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge

from benchmarks.common import DOCS, RESULTS, keep, make_parser, show
from benchmarks.vertical.divided import Divided, divided, made_alike, made_up
from sottovoce.vertical import VerticalLogisticRegression, VerticalRidge, split_columns
from sottovoce.vertical.coordinator.plan import SumOfScores, Term

PAGE: Final = DOCS / "guide" / "vertical_private.md"
FIGURES: Final = DOCS / "figures"
MADE_UP: Final = {
    "independent, 1,500": (1_500, 30, False), "independent, 20,000": (20_000, 30, False),
    "correlated, 1,500": (1_500, 30, True), "correlated, 20,000": (20_000, 30, True),
}  # fmt: skip
MADE_UP_NUMBERS: Final = {"numbers, 2,000": (2_000, 12), "numbers, 20,000": (20_000, 60)}
CHOSEN: Final = ("phishing", "mushrooms", "german", "w8a", "skin", *MADE_UP, "msd_sample", *MADE_UP_NUMBERS)
CONFIRMED: Final = ("a9a", "bank", "credit", "madelon", "mnist_4v9", "blogfeedback", "cal_housing", "casp")
EPSILONS: Final = (0.5, 1.0, 4.0)
COUNTS: Final = (2, 3, 5)
DELTA: Final = 1e-5
MOST: Final = 20_000
LABELS: Final = {True: "public", False: "secret"}
METHODS: Final = ("party 1 alone", "before", "local-models", "noisy-admm", "hindsight", "all columns")


def table(name: str, n_parties: int, seed: int, at_random: bool) -> Divided:
    """Return a set as the parties hold it."""
    if name in MADE_UP:
        n, d, correlated = MADE_UP[name]
        return made_alike(n, d, n_parties, seed, correlated=correlated)
    if name in MADE_UP_NUMBERS:
        n, d = MADE_UP_NUMBERS[name]
        return made_up(n, d, n_parties, seed, regression=True)
    return divided(name, n_parties, seed, at_random=at_random, most=MOST)


def divisions(name: str) -> Iterator[tuple[int, bool]]:
    """Yield numbers of parties and whether columns are dealt at random; made-up columns are in no order."""
    for n_parties in COUNTS:
        for at_random in (False,) if name in {**MADE_UP, **MADE_UP_NUMBERS} else (False, True):
            if not (name == "skin" and n_parties > 3):  # it has three columns
                yield n_parties, at_random


def seed_of_all(name: str, n_parties: int, at_random: bool, seed: int) -> dict[str, dict[str, Any]]:
    """Return the measures of all methods on one division, by epsilon and labels."""
    data = table(name, n_parties, seed, at_random)
    train = split_columns(np.hstack(data.blocks), data.sizes, **data.facts)
    test = split_columns(np.hstack(data.blocks_test), data.sizes, **data.facts)
    make = VerticalRidge if data.is_regression else VerticalLogisticRegression
    everything = _measures(data, _all_columns(data))
    out: dict[str, dict[str, Any]] = {}
    for epsilon in EPSILONS:
        for public, label in LABELS.items():
            options: dict[str, Any] = {
                "epsilon": epsilon, "delta": DELTA, "labels_public": public, "random_state": seed, **data.public
            }  # fmt: skip
            model = make(**options).fit(train, data.y)
            cell = {"party 1 alone": _measures(data, model.local_decision_function(test))}
            cell["local-models"] = _measures(data, model.decision_function(test))
            terms, others = model.scorer_.terms, model.plan_.facts.others
            unit = 0.6 / len(others) * (_half_range(data) if data.is_regression else 1.0)
            model.scorer_ = SumOfScores({**terms, **{other: Term(unit, terms[other].centre) for other in others}})
            cell["before"] = _measures(data, model.decision_function(test))
            model.recombine(test, data.y_test)
            cell["hindsight"] = _measures(data, model.decision_function(test))
            if not data.is_regression:
                noisy = make(**options, mechanism="noisy-admm").fit(train, data.y)
                cell["noisy-admm"] = _measures(data, noisy.decision_function(test))
            cell["all columns"] = everything
            out[f"{epsilon:g} {label}"] = cell
    return out


def _half_range(data: Divided) -> float:
    low, high = data.public["label_bounds"]
    return 0.5 * float(high - low)


def _all_columns(data: Divided) -> Any:
    """Return the scores of the test people by exact training on all columns."""
    X, X_test = np.hstack(data.blocks), np.hstack(data.blocks_test)
    if data.is_regression:
        return Ridge(alpha=1.0).fit(X, data.y).predict(X_test)
    return LogisticRegression(C=1.0, max_iter=300).fit(X, data.y == data.public["classes"][1]).decision_function(X_test)


def _measures(data: Divided, scores: Any) -> tuple[float, float]:
    """Return the error that is shown first and the loss; for numbers both are the error over the variance."""
    if data.is_regression:
        error = float(np.mean((data.y_test - scores) ** 2) / np.var(data.y_test))
        return error, error
    margins = np.where(data.y_test == data.public["classes"][1], scores, -scores)
    return float(np.mean(margins > 0)), float(np.logaddexp(0.0, -margins).mean())


def measured(name: str, seeds: int) -> list[dict[str, Any]]:
    """Return the cells of a set, medians over seeds; kept figures are read."""
    path = RESULTS / f"{_kept(name)}.json"
    if path.exists():
        return json.loads(path.read_text(encoding="utf-8"))  # type: ignore[no-any-return]
    cells = []
    for n_parties, at_random in divisions(name):
        runs = [seed_of_all(name, n_parties, at_random, seed) for seed in range(seeds)]
        for key, first in runs[0].items():
            epsilon, labels = key.split()
            found = {
                method: [round(float(np.median([run[key][method][k] for run in runs])), 5) for k in (0, 1)]
                for method in METHODS
                if method in first
            }
            deal = "at random" if at_random else "in order"
            cells.append(
                {"set": name, "parties": n_parties, "deal": deal, "epsilon": float(epsilon), "labels": labels, **found}
            )  # fmt: skip
        print(f"{name}, {n_parties} parties, {'at random' if at_random else 'in order'}", file=sys.stderr, flush=True)
    keep(_kept(name), cells)
    return cells


def _kept(name: str) -> str:
    return f"vertical_weights_{name.replace(', ', '_').replace(',', '')}"


def main() -> None:
    parser = make_parser(__doc__, docs=True)
    parser.add_argument("--only", default=None)
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    if arguments.quick:
        found = seed_of_all("independent, 1,500", 3, False, 0)
        rows = [(key, *(f"{cell[method][0]:.3f}" for method in METHODS)) for key, cell in found.items()]
        show("independent columns, 1,500 people, 3 parties: accuracy", ("epsilon, labels", *METHODS), rows)
        return
    names = arguments.only.split(";") if arguments.only else (*CHOSEN, *CONFIRMED)
    for name in names:
        measured(name, arguments.seeds)


if __name__ == "__main__":
    main()
