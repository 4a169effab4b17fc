"""One small private training for each estimator, solver and mechanism, and a report of each kind of device."""

from collections.abc import Callable
from typing import Any

import numpy as np

import sottovoce as sv
from sottovoce import vertical
from sottovoce.local import Protocol, Randomizer
from sottovoce.papers.ldp import BernsteinProtocol, bernstein_reports
from support.solvers import by_name

N = 120
_rng = np.random.default_rng(0)
X = _rng.uniform(-0.5, 0.5, (N, 3))
Y = np.where(X[:, 0] + 0.2 * X[:, 1] > 0, 1, 0)
_NUMBERS = np.clip(X[:, 0] - X[:, 2], -1.0, 1.0)
_BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-4}
_CLASSES: dict[str, Any] = {**_BUDGET, "classes": [0, 1]}
_BALL: dict[str, Any] = {"data_bound": 0.5, "radius": 1.0, "n_steps": 5}


def _central() -> dict[str, Callable[[], Any]]:
    made: dict[str, Callable[[], Any]] = {}
    for solver in ("auto", "scd", "Minibatch", "Published", "sgd", "Sequential", "Primal", "newton"):
        logistic = sv.DPLogisticRegression(**_CLASSES, data_norm=1.0, solver=by_name(solver))
        made[f"DPLogisticRegression, {solver}"] = lambda logistic=logistic: logistic.fit(X, Y)
    bounds = (-1.0, 1.0)
    for solver in ("auto", "scd", "adassp", "refinement", "constant"):
        ridge = sv.DPRidge(**_BUDGET, data_norm=1.0, label_bounds=bounds, solver=solver)
        made[f"DPRidge, {solver}"] = lambda ridge=ridge: ridge.fit(X, _NUMBERS)
    search = sv.DPSearchCV(
        sv.DPLogisticRegression(classes=[0, 1], data_norm=1.0), {"alpha": [1e-3, 1e-2]}, **_BUDGET, n_iter=2
    )
    return {
        **made,
        "DPLinearSVC": lambda: sv.DPLinearSVC(**_CLASSES, data_norm=1.0).fit(X, Y),
        "DPLasso": lambda: sv.DPLasso(**_BUDGET, **_BALL, label_bounds=bounds).fit(X, _NUMBERS),
        "DPSparseLogisticRegression": lambda: sv.DPSparseLogisticRegression(**_CLASSES, **_BALL).fit(X, Y),
        "DPSearchCV": lambda: search.fit(X, Y),
    }


def _vertical() -> dict[str, Callable[[], Any]]:
    def parties() -> Any:
        facts = {"data_norm": {"party1": 0.8, "party2": 0.5}, "data_bound": {"party1": 0.5, "party2": 0.5}}
        return vertical.split_columns(X, [2, 1], **facts)

    made: dict[str, Callable[[], Any]] = {}
    logistic = vertical.VerticalLogisticRegression(**_CLASSES)
    made["VerticalLogisticRegression"] = lambda: logistic.fit(parties(), Y)
    for aggregation in ("local", "global"):
        sparse = vertical.VerticalSparseLogisticRegression(
            **_CLASSES, radius=1.0, n_steps=3, aggregation=aggregation, labels_public=aggregation == "global"
        )
        made[f"VerticalSparseLogisticRegression, {aggregation}"] = lambda sparse=sparse: sparse.fit(parties(), Y)
    bounds = (-1.0, 1.0)
    return {
        **made,
        "VerticalRidge": lambda: vertical.VerticalRidge(**_BUDGET, label_bounds=bounds).fit(parties(), _NUMBERS),
        "VerticalLinearSVC": lambda: vertical.VerticalLinearSVC(**_CLASSES).fit(parties(), Y),
        "VerticalLasso": lambda: vertical.VerticalLasso(**_BUDGET, label_bounds=bounds, radius=1.0, n_steps=3).fit(
            parties(), _NUMBERS
        ),
    }


def _reports() -> dict[str, Callable[[], bytes]]:
    protocol = Protocol(n_features=3, epsilon=2.0)
    polynomial = BernsteinProtocol(loss="hinge", n_features=3, epsilon=64.0, delta=1e-5, degree=2)
    return {
        "Randomizer": lambda: Randomizer(protocol).report(X[0], 1),
        "bernstein_reports": lambda: bernstein_reports(polynomial, X[:1], [1]).tobytes(),
    }


FITS = {**_central(), **_vertical()}
REPORTS = _reports()
