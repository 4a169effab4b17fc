"""Private training over columns at several parties: what the other columns are worth at a person's epsilon.

    python -m benchmarks.vertical.private [--quick] [--only a9a,wide,svc,ridge] [--seeds 5] [--docs]

One person's rows at all parties are replaced together; delta = 1e-5; medians over seeds. Beside the mechanisms: the
label holder's own exact model, and all columns without noise. Sets:

* a9a: 66 columns and the labels at party 1, 57 at party 2; row bounds sqrt(8) and sqrt(6), the raw attributes of each.
* wide: the set of `convergence.py`, moved to [0, 1], rows of parties 2 and 3 scaled to norm sqrt(d) / 2.
* svc: linear SVM on a9a. ridge: BlogFeedback, 50 columns and the target at party 1, 230 at party 2.

``--quick``: a9a, epsilon = 1, two seeds. ``--docs`` writes the tables into the appendix.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from benchmarks.common import blogfeedback, data_folder
from benchmarks.driver import benchmark
from benchmarks.vertical.data import a9a_parties, wide_set
from sottovoce.vertical import VerticalLinearSVC, VerticalLogisticRegression, VerticalRidge, split_columns
from sottovoce.vertical.estimators.choices import MECHANISMS

EPSILONS = (0.5, 1.0, 2.0, 4.0)
DELTA = 1e-5

# mechanism, what is said of it, options, labels_public; those that this version has not are left out
RUNS: tuple[tuple[str, str, dict[str, Any], bool], ...] = (
    ("local-models", "local-models (default)", {}, False),
    ("local-models", "local-models, public labels", {}, True),
)


class Task(NamedTuple):
    """A set split among parties, and the estimator for it."""

    estimator: Any
    options: dict[str, Any]
    X: Any
    y: Any
    X_test: Any
    y_test: Any
    sizes: tuple[int, ...]
    facts: Mapping[str, Mapping[str, Any]]
    mechanisms: tuple[str, ...] = tuple(MECHANISMS)


def a9a(estimator: Any = VerticalLogisticRegression) -> Task:
    """LIBSVM a9a, rows as they are."""
    data = a9a_parties(data_folder())
    facts = {
        "data_norm": {"party1": math.sqrt(8.0), "party2": math.sqrt(6.0)},
        "nonnegative": {"party1": True, "party2": True},
    }
    options = {"classes": [-1.0, 1.0]}
    return Task(estimator, options, data.X, data.y, data.X_test, data.y_test, (66, 57), facts)


def wide() -> Task:
    """Return the wide set in [0, 1], the rows of parties 2 and 3 scaled to one norm (each row by itself)."""
    data = wide_set(data_folder())
    norms = {"party2": 0.5 * math.sqrt(2000.0), "party3": 0.5 * math.sqrt(1000.0)}
    facts = {"data_norm": norms, "nonnegative": dict.fromkeys(norms, True)}
    X, X_test = 0.5 * (data.X + 1.0), 0.5 * (data.X_test + 1.0)
    for table in (X, X_test):
        for place, norm in ((slice(2000, 4000), norms["party2"]), (slice(4000, 5000), norms["party3"])):
            table[:, place] *= norm / np.linalg.norm(table[:, place], axis=1, keepdims=True)
    options = {"classes": [-1.0, 1.0]}
    return Task(
        VerticalLogisticRegression, options, X, data.y, X_test, data.y_test, (2000, 2000, 1000), facts,
        ("local-models",),
    )  # fmt: skip


def svc() -> Task:
    """Return a9a for the linear SVM."""
    return a9a(VerticalLinearSVC)._replace(mechanisms=("local-models",))


def ridge() -> Task:
    """BlogFeedback, rows of norm 1 over all columns, so at most 1 at each party; target in [0, 8]."""
    X, y, X_test, y_test, _ = blogfeedback(0, scale_columns=True)
    facts = {"data_norm": {"party1": 1.0, "party2": 1.0}}
    return Task(
        VerticalRidge, {"label_bounds": (0.0, 8.0)}, X, y, X_test, y_test, (50, X.shape[1] - 50), facts,
        ("local-models",),
    )  # fmt: skip


TASKS = {"a9a": a9a, "wide": wide, "svc": svc, "ridge": ridge}


def measured(name: str, epsilons: tuple[float, ...], seeds: int) -> dict[str, Any]:
    """Return the measures of all runs on one set, by epsilon; all with their medians."""
    task = TASKS[name]()
    train = split_columns(task.X, task.sizes, **task.facts)
    test = split_columns(task.X_test, task.sizes, **task.facts)
    exact = task.estimator(epsilon=math.inf, **task.options).fit(train, task.y).compare(test, task.y_test)
    out: dict[str, Any] = {"party 1 alone": dict(exact.local), "all columns, no noise": dict(exact.joint), "runs": {}}
    train = split_columns(task.X, task.sizes, **task.facts)
    for mechanism, label, options, labels_public in RUNS:
        if mechanism not in MECHANISMS or mechanism not in task.mechanisms:
            continue
        by_epsilon: dict[str, Any] = {}
        for epsilon in epsilons:
            found = []
            for seed in range(seeds):
                model = task.estimator(
                    epsilon=epsilon, delta=DELTA, mechanism=mechanism, mechanism_options=options,
                    labels_public=labels_public, random_state=seed, **task.options,
                )  # fmt: skip
                found.append(dict(model.fit(train, task.y).compare(test, task.y_test).joint))
            by_epsilon[f"{epsilon:g}"] = {
                "seeds": found,
                **{measure: float(np.median([one[measure] for one in found])) for measure in found[0]},
            }
        out["runs"][label] = by_epsilon
        print(f"{name}, {label}: done", flush=True)
    return out


def table(name: str, result: dict[str, Any], epsilons: tuple[float, ...]) -> Any:
    measures = list(result["party 1 alone"])

    def cell(values: Mapping[str, float]) -> str:
        return " / ".join(
            f"{100 * values[measure]:.2f} %" if measure == "accuracy" else f"{values[measure]:.4f}"
            for measure in measures
        )

    rows = [(label, *[cell(result[label])] * len(epsilons)) for label in ("party 1 alone", "all columns, no noise")]
    for label, run in result["runs"].items():
        rows.append((label, *(cell(run[f"{epsilon:g}"]) for epsilon in epsilons)))
    return (f"{name}: test {' / '.join(measures)}", *(f"{epsilon:g}" for epsilon in epsilons)), rows


@benchmark(page="measured/vertical_private.md", only=(",".join(TASKS), "a9a"), seeds=(5, 2))
def main(run) -> None:
    epsilons = (1.0,) if run.quick else EPSILONS
    for name in run.only.split(","):
        result = measured(name, epsilons, run.seeds)
        title = f"{name}, by epsilon, delta = {DELTA:g}, medians of {run.seeds} seeds"
        run.table(title, *table(name, result, epsilons), mark=name)
        run.keep(f"vertical_private_{name}", result)
