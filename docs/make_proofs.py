"""Write docs/privacy/mechanisms.csv from receipts of real, tiny fits: ``python docs/make_proofs.py``.

Neighbours are those that a plan accepts.
"""

import csv
import io
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import sottovoce as sv
from sottovoce.exceptions import SottovoceError
from sottovoce.local import Aggregator, NumericFeature, Protocol, Randomizer
from sottovoce.papers import dp_scd
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.privacy.events import Event, PoissonSampledEvent, RepeatAndSelectEvent
from sottovoce.vertical import VerticalLasso, VerticalLogisticRegression, split_columns

ROOT = Path(__file__).parent.parent
TABLE = ROOT / "docs" / "privacy" / "mechanisms.csv"
HEAD = ("what trains", "neighbours", "unit", "released", "event", "proof")
UNITS = {
    "one row of the table, label included": "row",
    "one person: their rows at all parties are replaced together, the label included": "person",
}
TRIAL = "of the best trial: "  # before each release of a search; once is enough
# how an event is called in the table
KINDS = {
    "GaussianEvent": "Gaussian",
    "BoundedRangeEvent": "exponential mechanism",
    "RandomizedResponseEvent": "randomised response",
    "PureEvent": "pure",
    "NonPrivateEvent": "no promise",
}
BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "random_state": 0}
LABELS: dict[str, Any] = {"label_bounds": (-1.0, 1.0)}
BALL: dict[str, Any] = {"radius": 1.0, "n_steps": 2}


def table() -> tuple[Any, Any, Any]:
    """Return rows of norm at most 1, classes and numbers."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, X[:, 0] > 0, X[:, 0].clip(-1, 1)


def central() -> Iterator[tuple[str, Callable[..., Any], bool]]:
    """Yield name, estimator of an adjacency, and whether labels are numbers, for one table."""

    def logistic(solver: Any) -> Callable[..., Any]:
        return lambda **facts: sv.DPLogisticRegression(
            solver=solver, classes=[False, True], data_norm=1.0, **BUDGET, **facts
        )

    def ridge(solver: str) -> Callable[..., Any]:
        return lambda **facts: sv.DPRidge(solver=solver, data_norm=1.0, **LABELS, **BUDGET, **facts)

    for name in ("newton", "one-step", "scd", "sgd", "gd", "momentum"):
        yield f'`solver="{name}"`', logistic(name), False
    for kind in dp_scd.SOLVERS:
        yield f"`solver={kind.__name__}()`", logistic(kind()), False
    for name in ("refinement", "adassp", "constant", "momentum"):
        yield f'`solver="{name}"`{", numbers" if name == "momentum" else ""}', ridge(name), True
    yield "`DPLasso`", lambda **facts: sv.DPLasso(data_bound=1.0, **BALL, **LABELS, **BUDGET, **facts), True


def beside() -> Iterator[tuple[str, Callable[..., Any], Any]]:
    """Yield name, what can be tried under an adjacency, and receipt, for what is done to one table beside training."""
    X, y, _ = table()
    model = sv.DPLogisticRegression(classes=[False, True], data_norm=1.0, **BUDGET).fit(X, y)

    def scaler(**facts: Any) -> Any:
        return sv.DPScaler(**BUDGET, **facts)

    def search(**facts: Any) -> Any:
        searched = sv.DPLogisticRegression(classes=[False, True], data_norm=1.0, **facts)
        return sv.DPSearchCV(searched, {"alpha": [1e-4, 1e-2]}, **BUDGET)

    def evaluate(**facts: Any) -> Any:
        return sv.evaluate(model, X, y, epsilon=1.0, random_state=0, **facts).guarantee_

    yield "`DPScaler`", lambda **facts: scaler(**facts).plan(200, 4), scaler().fit(X).guarantee_
    yield "`DPSearchCV`", lambda **facts: search(**facts).plan(200, 4), search().fit(X, y).guarantee_
    yield "`evaluate`", evaluate, evaluate()


def apart() -> Iterator[tuple[str, Any]]:
    """Yield name and receipt of what is trained over several organisations, and from reports of devices."""
    X, y, numbers = table()
    columns, holders = {"clinic": [0, 1], "bank": [2, 3]}, ("clinic", "bank")
    for name in ("local-models", "secure"):
        parties = split_columns(X, columns, data_norm=dict.fromkeys(holders, 1.0))
        engine = {"engine": "in-process"} if name == "secure" else {}
        split = VerticalLogisticRegression(classes=[False, True], mechanism=name, **engine, **BUDGET)
        yield f'`mechanism="{name}"`', split.fit(parties, y).guarantee_
    for name in ("local", "secure"):
        parties = split_columns(X, columns, data_bound=dict.fromkeys(holders, 1.0))
        engine = {"engine": "in-process"} if name == "secure" else {}
        sparse = VerticalLasso(aggregation=name, **engine, **BALL, **LABELS, **BUDGET)
        yield f'`aggregation="{name}"`', sparse.fit(parties, numbers).guarantee_

    protocol = Protocol.create(
        features=[NumericFeature("age", 18, 90)], classes=["no", "yes"], epsilon=1.0, n_expected=200
    )
    device, aggregator = Randomizer(protocol), Aggregator(protocol)
    aggregator.add([device.report({"age": 20 + i % 60}, "yes" if i % 2 else "no") for i in range(200)])
    yield "`sottovoce.local`", aggregator.fit().guarantee_


def neighbours(attempt: Callable[..., Any], receipt: Any) -> str:
    """Return the adjacencies that are not refused; the one of the receipt first."""
    able = [receipt.adjacency]
    for adjacency in Adjacency:
        if adjacency.value not in able:
            secret = {"n_public": 200} if adjacency is Adjacency.ADD_REMOVE else {}
            try:
                attempt(adjacency=adjacency.value, **secret)
            except SottovoceError:
                continue
            able.append(adjacency.value)
    return ", ".join(able)


def kinds(event: Event) -> str:
    """Return in words what kinds of release an event is made of."""
    found: dict[str, None] = {}
    for release, _ in event.releases():
        if isinstance(release, PoissonSampledEvent):
            found["Gaussian on Poisson samples"] = None
        elif isinstance(release, RepeatAndSelectEvent):
            found[f"best of a random number of trials ({kinds(release.event)})"] = None
        else:
            found[KINDS.get(type(release).__name__, type(release).__name__)] = None
    return ", ".join(found)


def row(name: str, able: str, receipt: Any) -> tuple[str, ...]:
    """Return a row of the table."""
    page, unit = receipt.proof.removeprefix("docs/privacy/"), UNITS.get(receipt.unit, receipt.unit)
    released = "; ".join(receipt.releases).replace(f"; {TRIAL}", "; ")
    return name, able, unit, released, kinds(receipt.event), f"[{page}]({page})"


def rows() -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table."""
    X, classes, numbers = table()
    for name, make, regression in central():
        receipt = make().fit(X, numbers if regression else classes).guarantee_
        yield row(name, neighbours(lambda make=make, **facts: make(**facts).plan(200, 4), receipt), receipt)
    for name, attempt, receipt in beside():
        yield row(name, neighbours(attempt, receipt), receipt)
    for name, receipt in apart():
        yield row(name, receipt.adjacency, receipt)


def written() -> str:
    """Return the text of the table."""
    text = io.StringIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        csv.writer(text, lineterminator="\n").writerows((HEAD, *rows()))
    return text.getvalue()


if __name__ == "__main__":
    TABLE.write_text(written(), encoding="utf-8")
