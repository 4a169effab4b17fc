"""Pairs of neighbouring tables, and the fits that are recorded on the one and replayed on the other.

Shared by the grey-box tests and by ``benchmarks/grey_box.py``.
"""

import math
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

import sottovoce as sv
from sottovoce.audit import GreyBox, grey_box

SIZES = (5, 64, 65, 130, 257)
WIDTHS = (1, 3, 8, 9, 17, 33, 100)  # the narrow kernels, the vector ones, and what is left of a vector
KINDS = ("gauss", "unit", "aligned", "zeros", "huge", "above")
ALL = ("zero-out", "add-remove", "replace-one")
NOT_REPLACED = ("zero-out", "add-remove")
FIXED = ("zero-out", "replace-one")


@dataclass(frozen=True)
class Case:
    """A solver of a central estimator.

    Attributes
    ----------
    name : str
    kind : type
        Of the estimator.
    given : dict
        Parameters of the constructor.
    adjacencies : tuple of str
    in_place : bool
        A row that is zeroed out keeps its place in its batch.
    """

    name: str
    kind: type
    given: dict[str, Any] = field(default_factory=dict)
    adjacencies: tuple[str, ...] = ALL
    in_place: bool = False

    @property
    def is_regression(self) -> bool:
        """Whether labels are numbers."""
        return "label_bounds" in self.given

    @property
    def is_bounded(self) -> bool:
        """Whether entries are bounded, not rows."""
        return "data_bound" in self.given


def _case(name, kind, solver="", options=None, adjacencies=ALL, in_place=False, **given):
    if solver:
        given |= {"solver": solver, "solver_options": options or {}}
    if kind in (sv.DPRidge, sv.DPLasso):
        given = {"label_bounds": (-1.0, 1.0), **given}
    else:
        given = {"classes": [-1.0, 1.0], **given}
    return Case(name, kind, given, adjacencies, in_place)


_BATCHES = {"batch_size": 20.0, "epochs": 2.0}
_WHOLE = {"batch_size": 1e9, "epochs": 6.0}
_BALL: dict[str, Any] = {"data_bound": 1.0, "n_steps": 8}
CASES = (
    _case("scd, logistic", sv.DPLogisticRegression, "scd", {"n_passes": 8}),
    _case("scd, hinge", sv.DPLinearSVC, "scd", {"n_passes": 8}),
    _case("scd, ridge", sv.DPRidge, "scd", {"n_passes": 8}),
    _case("minibatch-scd, logistic", sv.DPLogisticRegression, "minibatch-scd", _BATCHES, NOT_REPLACED),
    _case("minibatch-scd, ridge", sv.DPRidge, "minibatch-scd", _BATCHES, NOT_REPLACED),
    _case("sgd, logistic", sv.DPLogisticRegression, "sgd", _BATCHES, NOT_REPLACED),
    _case("sgd, all rows, hinge", sv.DPLinearSVC, "sgd", _WHOLE),
    _case("sgd, all rows, ridge", sv.DPRidge, "sgd", _WHOLE),
    _case("primal-scd, logistic", sv.DPLogisticRegression, "primal-scd", {"epochs": 3}),
    _case("primal-scd, ridge", sv.DPRidge, "primal-scd", {"epochs": 3}),
    _case("seq-scd, logistic", sv.DPLogisticRegression, "seq-scd", {"batch_size": 7}, FIXED, in_place=True),
    _case("seq-scd, ridge", sv.DPRidge, "seq-scd", {"batch_size": 7}, FIXED, in_place=True),
    _case("paper-scd, logistic", sv.DPLogisticRegression, "paper-scd", {"batch_size": 20, "epochs": 3}, FIXED,
          in_place=True),
    _case("paper-scd, ridge", sv.DPRidge, "paper-scd", {"batch_size": 20, "epochs": 3}, FIXED, in_place=True),
    _case("adassp", sv.DPRidge, "adassp"),
    _case("adassp, labels not clipped", sv.DPRidge, "adassp", {"clip_labels": False}),
    _case("objective, logistic", sv.DPLogisticRegression, "objective", None, NOT_REPLACED),
    _case("objective, hinge", sv.DPLinearSVC, "objective", None, NOT_REPLACED),
    _case("Frank-Wolfe, LASSO", sv.DPLasso, radius=1.0, **_BALL),
    _case("Frank-Wolfe, logistic", sv.DPSparseLogisticRegression, radius=5.0, **_BALL),
)  # fmt: skip


def shown(model: Any) -> dict[str, Any]:
    """Return what a fitted estimator shows to the world: coefficients, and what its receipt says of the run."""
    receipt = model.guarantee_
    return {
        "coef": model.coef_,
        "intercept": model.intercept_,
        "steps": model.n_iter_,
        "parameters": repr(receipt.parameters),
        "event": repr(receipt.event),
        "assumptions": repr(receipt.assumptions),
    }


def fit(case: Case, given: dict[str, Any]):
    """Return a function that fits on a table and returns what is shown."""

    def run(X: Any, y: Any) -> dict[str, Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sv.exceptions.SottovoceWarning)
            return shown(case.kind(**given).fit(X, y))

    return run


def lengths(X):
    """Return the norms of rows whose squares may leave the doubles."""
    largest = np.abs(X).max(axis=1, keepdims=True)
    largest[largest == 0.0] = 1.0
    return np.linalg.norm(X / largest, axis=1, keepdims=True) * largest


def rows_of(kind, n, d, dtype, rng):
    """Return a table whose rows are at, above or far from norm 1, or as awkward as their precision allows."""
    X = rng.standard_normal((n, d))
    if kind == "aligned":
        X = np.outer(rng.choice([-1.0, 1.0], n), rng.standard_normal(d))
    if kind == "zeros":
        X[:] = 0.0
    if kind == "huge":
        X *= 10.0 ** (rng.uniform(-38, 36, (n, 1)) if dtype == np.float32 else rng.uniform(-300, 300, (n, 1)))
    if kind in ("unit", "aligned", "above"):
        X /= lengths(X)
    if kind == "above":
        X *= rng.choice([1.0, 1.0000001, 1.5, 100.0], (n, 1))
    return X.astype(dtype)


def special_row(d, dtype, rng):
    """Return one row that is as bad as it can be."""
    v = rng.standard_normal(d)
    unit = v / np.linalg.norm(v)
    return (
        np.eye(d)[rng.integers(d)],
        np.full(d, d**-0.5),
        np.sign(v) / math.sqrt(d),
        unit * rng.choice([1.0, 1.0 + 1e-7, 1.0 - 1e-8]),
        v * 1e30,
        unit * 1e-30,
        np.full(d, -0.0),
        v * 10.0 ** rng.uniform(-37, 37, d),
    )[rng.integers(8)].astype(dtype)


@dataclass(frozen=True)
class Pair:
    """Two neighbours, and what a replay has to know of them."""

    table: tuple[Any, Any]
    neighbour: tuple[Any, Any]
    facts: dict[str, Any]
    n: int


def pair_of(case: Case, adjacency: str, rng: np.random.Generator) -> Pair:
    """Return two neighbouring tables; the row that differs is any of them."""
    n, d, dtype = int(rng.choice(SIZES)), int(rng.choice(WIDTHS)), rng.choice([np.float32, np.float64])
    X, row = rows_of(rng.choice(KINDS), n, d, dtype, rng), int(rng.choice([0, n // 2, n - 1]))
    y = rng.uniform(-1.0, 1.0, n) if case.is_regression else rng.choice([-1.0, 1.0], n)
    if rng.random() < 0.4:
        y[:] = 1.0  # one class, all labels at the bound
    X[row], y[row] = special_row(d, dtype, rng), rng.choice([-1.0, 1.0])
    X_other, y_other, facts = X.copy(), y.copy(), {"sampled": (row,)}
    if adjacency == "replace-one":
        X_other[row] = rng.choice([-1.0, 1.0]) * X[row] if rng.random() < 0.5 else special_row(d, dtype, rng)
        y_other[row] = rng.choice([-1.0, 1.0])
    elif case.in_place:
        facts["left_out"] = row
    else:
        X_other, y_other = np.delete(X, row, 0), np.delete(y, row)
        facts["absent"] = row
    if rng.random() < 0.3:
        X, X_other = sp.csr_array(X), sp.csr_array(X_other)
    return Pair((X, y), (X_other, y_other), facts, n)


def compared(case: Case, adjacency: str, rng: np.random.Generator, seed: int) -> tuple[GreyBox, dict[str, Any]]:
    """Record a fit on one table and replay it on a neighbour, with public numbers as users give them."""
    pair = pair_of(case, adjacency, rng)
    given: dict[str, Any] = {
        "epsilon": float(rng.choice([0.1, 1.0, 8.0])), "delta": 1e-6, "adjacency": adjacency, "n_public": pair.n,
        "fit_intercept": bool(rng.random() < 0.6), **case.given,
    }  # fmt: skip
    if not case.is_bounded:
        given |= {"data_norm": float(rng.choice([1.0, 1.0, 0.01, 1e10, 1e-30])),
                  "alpha": float(rng.choice([1e-6, 1e-2, 1.0]))}  # fmt: skip
    return grey_box(fit(case, given), pair.table, pair.neighbour, seed=seed, **pair.facts), given
