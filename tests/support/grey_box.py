"""One table of the solvers of central estimators and of trainings of parties, with neighbouring tables for each.

A new solver is a row of it. Grey box, public numbers, receipts, what a fit counts and what audits leave behind follow
the table: `contracts/`. Shared with ``benchmarks/audit/grey_box.py``.
"""

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np
import scipy.sparse as sp

import sottovoce as sv
from sottovoce.losses import Hinge, Logistic, SmoothedHinge
from sottovoce.papers.dp_scd import Minibatch
from sottovoce.privacy.calibration import least_scale
from sottovoce.vertical import (
    InProcessParties,
    Party,
    VerticalLasso,
    VerticalLogisticRegression,
    VerticalRidge,
    VerticalSparseLogisticRegression,
)
from support.crossing import recorded
from support.replay import GreyBox, grey_box
from support.solvers import solved

SIZES = (5, 64, 65, 130, 257)
WIDTHS = (1, 3, 8, 9, 17, 33, 100)  # the narrow kernels, the vector ones, and what is left of a vector
KINDS = ("gauss", "unit", "aligned", "zeros", "huge", "above")
ALL = ("zero-out", "add-remove", "replace-one")
NORMS = (1.0, 1.0, 0.01, 1e10, 1e-30)
NOT_REPLACED = ("zero-out", "add-remove")
FIXED = ("zero-out", "replace-one")


@dataclass(frozen=True)
class Case:
    """A solver of a central estimator.

    ``given``: parameters of the constructor.
    ``in_place``: a row that is zeroed out keeps its place in its batch.
    ``reached``: what the largest ratio of a few pairs exceeds: how near the stated sensitivity is to what happens.
    """

    name: str
    kind: type
    given: dict[str, Any] = field(default_factory=dict)
    adjacencies: tuple[str, ...] = ALL
    in_place: bool = False
    reached: float = 0.999

    @property
    def is_sampled(self) -> bool:
        """Whether steps use Poisson samples: the noise of each rate and budget takes seconds to calibrate."""
        return self.given.get("solver_options") is _BATCHES or isinstance(self.given.get("solver"), Minibatch)

    @property
    def is_regression(self) -> bool:
        """Whether labels are numbers."""
        return "label_bounds" in self.given

    @property
    def is_bounded(self) -> bool:
        """Whether entries are bounded, not rows."""
        return "data_bound" in self.given

    @property
    def precision(self) -> Any:
        """In which fast cases have their rows, in turn: solvers are there with several losses."""
        return (np.float32, np.float64)[CASES.index(self) % 2]

    def public(self, rng: np.random.Generator, norms: tuple[float, ...] = NORMS, **given: Any) -> dict[str, Any]:
        """Return parameters of the constructor: some given, those of the case, and others as users choose them."""
        dear = self.is_sampled or self.name.startswith("Published") or "epsilon" in given
        epsilon = 1.0 if dear else float(rng.choice([0.1, 1.0, 8.0]))
        public = {"epsilon": epsilon, "delta": 1e-6, "fit_intercept": bool(rng.random() < 0.6), **given, **self.given}
        if not self.is_bounded:
            public = {"data_norm": float(rng.choice(norms)),
                      "alpha": float(rng.choice([1e-6, 1e-2, 1.0])), **public}  # fmt: skip
        return public

    def run(self, given: dict[str, Any]) -> Callable[..., dict[str, Any]]:
        """Return a function that fits on a table, and on the persons of its rows, and returns all that is shown."""

        def run(X: Any, y: Any, groups: Any = None) -> dict[str, Any]:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", sv.exceptions.SottovoceWarning)
                model = self.kind(**given).fit(X, y, **({} if groups is None else {"groups": groups}))
            receipt = model.guarantee_
            return {
                "model": [model.coef_, model.intercept_, model.n_iter_],
                "event": receipt.event,
                "receipt": repr([receipt.epsilon, receipt.parameters, receipt.assumptions]),
            }

        return run


def _case(name, kind, solver="", options=None, adjacencies=ALL, in_place=False, reached=0.999, **given):
    if solver:
        given |= solved(solver, options or {})
    if kind in (sv.DPRidge, sv.DPLasso):
        given = {"label_bounds": (-1.0, 1.0), **given}
    else:
        given = {"classes": [-1.0, 1.0], **given}
    return Case(name, kind, given, adjacencies, in_place, reached)


_BATCHES = {"batch_size": 20.0, "epochs": 2.0}
_WHOLE = {"batch_size": 1e9, "epochs": 6.0}
_BALL: dict[str, Any] = {"data_bound": 1.0, "n_steps": 8}
CASES = (
    _case("scd, logistic", sv.DPLogisticRegression, "scd", {"n_passes": 8}),
    _case("scd, hinge", sv.DPLinearSVC, "scd", {"n_passes": 8}),
    _case("scd, ridge", sv.DPRidge, "scd", {"n_passes": 8}),
    _case("Minibatch, logistic", sv.DPLogisticRegression, "Minibatch", _BATCHES, NOT_REPLACED),
    _case("Minibatch, ridge", sv.DPRidge, "Minibatch", _BATCHES, NOT_REPLACED),
    _case("sgd, logistic", sv.DPLogisticRegression, "sgd", _BATCHES, NOT_REPLACED),
    _case("sgd, all rows, hinge", sv.DPLinearSVC, "sgd", _WHOLE),
    _case("sgd, all rows, ridge", sv.DPRidge, "sgd", _WHOLE),
    _case("Primal, logistic", sv.DPLogisticRegression, "Primal", {"epochs": 3}, reached=0.35),
    _case("Primal, ridge", sv.DPRidge, "Primal", {"epochs": 3}),
    _case("Sequential, logistic", sv.DPLogisticRegression, "Sequential", {"batch_size": 7}, FIXED, True, 0.05),
    _case("Sequential, ridge", sv.DPRidge, "Sequential", {"batch_size": 7}, FIXED, True, 0.05),
    _case("Published, logistic", sv.DPLogisticRegression, "Published", {"batch_size": 20, "epochs": 3}, FIXED,
          True, 0.5),
    _case("Published, ridge", sv.DPRidge, "Published", {"batch_size": 20, "epochs": 3}, FIXED, True, 0.9),
    _case("adassp", sv.DPRidge, "adassp"),
    _case("adassp, labels not clipped", sv.DPRidge, "adassp", {"clip_labels": False}, reached=0.9),
    _case("Frank-Wolfe, LASSO", sv.DPLasso, radius=1.0, reached=0.7, **_BALL),
    _case("Frank-Wolfe, logistic", sv.DPSparseLogisticRegression, radius=5.0, reached=0.2, **_BALL),
    _case("multinomial-scd", sv.DPLogisticRegression, "multinomial-scd", {"n_passes": 8}, reached=0.7,
          classes=[-1.0, 0.0, 1.0]),
    _case("multinomial-scd with steps", sv.DPLogisticRegression, "multinomial-scd", {"steps": True}, reached=0.7,
          classes=[-1.0, 0.0, 1.0]),
    _case("gd", sv.DPLogisticRegression, "gd"),
    _case("momentum", sv.DPLogisticRegression, "momentum", reached=0.7),
    _case("one-step", sv.DPLogisticRegression, "one-step", {"n_passes": 5}),
    _case("refinement", sv.DPRidge, "refinement", {"n_passes": 8}),
    _case("newton, logistic", sv.DPLogisticRegression, "newton", {"n_passes": 5}),
    _case("newton, hinge", sv.DPLinearSVC, "newton", {"n_passes": 5}),
    _case("auto norm, newton", sv.DPLogisticRegression, "newton", {"n_passes": 5}, data_norm="auto"),
    _case("auto norm, scd", sv.DPLogisticRegression, "scd", {"n_passes": 8}, data_norm="auto"),
    _case("auto norm, refinement", sv.DPRidge, "refinement", {"n_passes": 8}, data_norm="auto"),
    _case("auto norm, multinomial", sv.DPLogisticRegression, "multinomial-scd", {"n_passes": 8},
          classes=[-1.0, 0.0, 1.0], data_norm="auto"),
    _case("constant", sv.DPRidge, "constant", fit_intercept=True, reached=-1.0),  # a label is replaced by an equal one
    _case("scd, one against the rest", sv.DPLogisticRegression, "scd", {"n_passes": 8}, classes=[-1.0, 0.0, 1.0]),
    _case("newton, one against the rest", sv.DPLinearSVC, "newton", {"n_passes": 5}, classes=[-1.0, 0.0, 1.0]),
    _case("momentum, ridge", sv.DPRidge, "momentum"),
)  # fmt: skip


def stored(X: Any) -> Any:
    """Return rows in the form that goes with their precision: each form of a loss is a second or more of compiling.

    All forms of a kernel are met in `contracts/test_sensitivity.py`.
    """
    return sp.csr_array(X) if X.dtype == np.float32 else X


def form_of(loss: Any) -> tuple[Any, Any]:
    """Return storage and precision in which fast cases try a kernel with a loss, or so many classes: one of the four.

    So a kernel meets each form, with another loss, and few are compiled that no other test asks for.
    """
    if isinstance(loss, (Hinge, SmoothedHinge)):
        return (sp.csr_array, np.float64) if isinstance(loss, Hinge) else (np.asarray, np.float32)
    return (np.asarray, np.float64) if isinstance(loss, Logistic) or loss in (2, 21) else (sp.csr_array, np.float32)


def rows_of(kind: str, n: int, d: int, dtype: Any, rng: np.random.Generator) -> Any:
    """Return a table whose rows are at, above or far from norm 1, or as awkward as their precision allows."""
    X = rng.standard_normal((n, d))
    if kind == "aligned":
        X = np.outer(rng.choice([-1.0, 1.0], n), rng.standard_normal(d))
    if kind == "zeros":
        X[:] = 0.0
    if kind == "huge":
        X *= 10.0 ** (rng.uniform(-38, 36, (n, 1)) if dtype == np.float32 else rng.uniform(-300, 300, (n, 1)))
    if kind in ("unit", "aligned", "above"):
        X /= np.linalg.norm(X, axis=1, keepdims=True)
    if kind == "above":
        X *= rng.choice([1.0, 1.0000001, 1.5, 100.0], (n, 1))
    return X.astype(dtype)


def special_row(d: int, dtype: Any, rng: np.random.Generator) -> Any:
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


def neighbour(
    X: Any, y: Any, row: int, adjacency: str, in_place: bool, another: Callable[[], tuple[Any, Any]]
) -> tuple[Any, Any, dict[str, Any]]:
    """Return the table in which one row is another, is left out in its place, or is not there, and its facts."""
    facts: dict[str, Any] = {"sampled": (row,)}
    X_other, y_other = X.copy(), y.copy()
    if adjacency == "replace-one":
        X_other[row], y_other[row] = another()
    elif in_place:
        facts["left_out"] = row
    else:
        X_other, y_other = np.delete(X, row, 0), np.delete(y, row)
        facts["absent"] = row
    return X_other, y_other, facts


def pair_of(case: Case, adjacency: str, rng: np.random.Generator, *, every_form: bool = False) -> tuple[Any, ...]:
    """Return two neighbouring tables, and what a replay has to know of them; the row that differs is any of them."""
    n, d, dtype = int(rng.choice(SIZES)), int(rng.choice(WIDTHS)), rng.choice([np.float32, np.float64])
    dtype = dtype if every_form else case.precision
    n = 65 if case.is_sampled else n
    X, row = rows_of(rng.choice(KINDS), n, d, dtype, rng), int(rng.choice([0, n // 2, n - 1]))
    y = rng.uniform(-1.0, 1.0, n) if case.is_regression else rng.choice([-1.0, 1.0], n)
    if rng.random() < 0.4:
        y[:] = 1.0  # one class, all labels at the bound
    X[row], y[row] = special_row(d, dtype, rng), rng.choice([-1.0, 1.0])

    def another() -> tuple[Any, Any]:
        new = rng.choice([-1.0, 1.0]) * X[row] if rng.random() < 0.5 else special_row(d, dtype, rng)
        return new, rng.choice([-1.0, 1.0])

    X_other, y_other, facts = neighbour(X, y, row, adjacency, case.in_place, another)
    any_form = sp.csr_array if rng.random() < 0.3 else np.asarray
    form = any_form if every_form else stored
    return (form(X), y), (form(X_other), y_other), facts


def compared(case: Case, adjacency: str, rng: np.random.Generator, seed: int, *, every_form: bool = False) -> GreyBox:
    """Record a fit on one table and replay it on a neighbour, with public numbers as users give them."""
    table, other, facts = pair_of(case, adjacency, rng, every_form=every_form)
    given = case.public(rng, adjacency=adjacency, n_public=len(table[1]))
    return grey_box(case.run(given), table, other, seed=seed, **facts)


# --- persons ----------------------------------------------------------------------------------------------------------

PERSON_CASES = tuple(
    case for case in CASES if case.name.split(",")[0] not in
    ("Minibatch", "Primal", "Sequential", "Published")
    and case.name not in ("sgd, logistic", "multinomial-scd with steps", "one-step")
)  # fmt: skip
MOST_ROWS = (1, 2, 5, 70)  # of a person, that are used: 70 are more than a block of a kernel


def persons_of(case: Case, adjacency: str, most: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """Return two tables (X, y, groups) that differ in one person, whose rows conspire."""
    n, d, dtype, _ = int(rng.choice([65, 130, 257])), int(rng.choice(WIDTHS)), case.precision, rng.choice(2)
    X, groups = rows_of(rng.choice(KINDS), n, d, dtype, rng), rng.integers(0, rng.choice([1, 9, n]), n).astype(float)
    y = rng.uniform(-1.0, 1.0, n) if case.is_regression else rng.choice([-1.0, 1.0], n)
    groups[rng.random(n) < 0.1] = np.nan
    own = min(n - 1, int(rng.choice([1, most, most + 3])))
    # the last rows where they are missing in the other table: coins are drawn row by row
    mine = np.arange(n - own, n) if adjacency == "add-remove" else rng.choice(n, own, replace=False)
    row, label = special_row(d, dtype, rng), rng.choice([-1.0, 1.0])
    groups[mine], X[mine], y[mine] = 1000.0, row, label
    if rng.random() < 0.3:  # not all alike
        X[mine] = rows_of("unit", own, d, dtype, rng)
    table = stored(X), y, groups
    if adjacency == "add-remove":
        return table, (stored(X[: n - own]), y[: n - own], groups[: n - own])
    X, y, groups = X.copy(), y.copy(), groups.copy()
    if adjacency == "zero-out":
        groups[mine] = np.nan
    else:
        X[mine], y[mine] = rng.choice([-1.0, 1.0]) * row, -label
        groups[mine] = rng.choice([1000.0, np.nan], own, p=[0.8, 0.2])
    return table, (stored(X), y, groups)


def persons_compared(case: Case, adjacency: str, rng: np.random.Generator, seed: int) -> GreyBox:
    """Record a fit with groups, and replay it on a table in which one person is another, or is not there."""
    most = int(rng.choice(MOST_ROWS))
    table, other = persons_of(case, adjacency, most, rng)
    given = case.public(rng, NORMS[:3], adjacency=adjacency, n_public=len(table[1]), max_rows_per_group=most)
    return grey_box(case.run(given), table, other, seed=seed)


# --- parties ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Joint:
    """A training of several parties, of which the first holds the labels; one person is replaced at all of them."""

    name: str
    kind: type
    given: dict[str, Any]
    names: tuple[str, ...] = ("clinic", "bank")
    nonnegative: bool = False

    @property
    def trains_exactly(self) -> bool:
        """Whether the label holder trains a model of its own columns beside, within its own walls."""
        return "mechanism" in self.given


_LABELS = {"classes": [-1.0, 1.0]}
_NUMBERS = {"label_bounds": (-1.0, 1.0)}
_NAMED: dict[str, Any] = {"mechanism": "local-models"}
_STEPS: dict[str, Any] = {"n_steps": 5, "radius": 2.0}
JOINT = (
    Joint("`local-models`, logistic", VerticalLogisticRegression, {**_NAMED, **_LABELS}),
    Joint("`local-models`, logistic, entries >= 0", VerticalLogisticRegression, {**_NAMED, **_LABELS},
          nonnegative=True),
    Joint("`local-models`, ridge", VerticalRidge, {**_NAMED, **_NUMBERS}),
    Joint("`local-models`, ridge, labels public", VerticalRidge, {**_NAMED, **_NUMBERS, "labels_public": True}),
    Joint("Frank-Wolfe, `local`", VerticalLasso, {**_STEPS, **_NUMBERS}),
    Joint("Frank-Wolfe, one party", VerticalSparseLogisticRegression, {**_STEPS, **_LABELS, "labels_public": True},
          ("clinic",)),
)  # fmt: skip


def joint_fit(joint: Joint, given: dict[str, Any]) -> Callable[..., dict[str, Any]]:
    """Return a function that trains, and returns every message and what is public of the model."""

    def run(tables: tuple[Any, ...], y: Any) -> dict[str, Any]:
        parties = InProcessParties([
            Party(X, name=name, data_norm=1.0, data_bound=1.0, nonnegative=joint.nonnegative)
            for name, X in zip(joint.names, tables, strict=True)
        ])  # fmt: skip
        with recorded(parties) as record, warnings.catch_warnings():
            warnings.simplefilter("ignore", sv.exceptions.SottovoceWarning)
            model = joint.kind(**given).fit(parties, y)
        out = {
            # the coordinator sits at the label holder: what goes there from it does not leave
            "messages": [
                crossing.message.encode().replace(model.model_.encode(), b"the model")
                for crossing in record
                if crossing.uplink or crossing.party != joint.names[0]
            ],
            "events": {name: receipt.event for name, receipt in model.party_guarantees_.items()},
        }
        if joint.trains_exactly:  # the statement holds if they are published
            out["parts"] = [part.coef for name, part in model.parts_.items() if name != joint.names[0]]
        if hasattr(model, "n_nonzero_"):
            out["model"] = [model.coef_, model.intercept_]
        return out

    return run


@contextmanager
def calibrated_once() -> Iterator[None]:
    """Search for the noise of joint plans once for the same events and budget: it takes seconds."""
    known: dict[Any, float] = {}

    def remembered(make_event, epsilon, delta):
        key = (repr(make_event(1.0)), epsilon, delta)
        if key not in known:
            known[key] = least_scale(make_event, epsilon, delta)
        return known[key]

    with mock.patch("sottovoce.vertical.coordinator.frank_wolfe.least_scale", remembered):
        yield


def jointly_compared(joint: Joint, rng: np.random.Generator, seed: int) -> GreyBox:
    """Record a joint training and replay it with one person replaced."""
    n, dtype = int(rng.choice([5, 40, 65])), rng.choice([np.float32, np.float64])
    row, tables, others = int(rng.choice([0, n // 2, n - 1])), [], []
    for d in (int(rng.choice([1, 3, 9, 17])) for _ in joint.names):
        # the label holder trains on its own columns without noise too, which may fail where these are extreme
        exact = not tables and joint.trains_exactly
        X = rows_of("unit" if exact else rng.choice(KINDS), n, d, dtype, rng)
        X[row] = np.eye(d)[0] if exact else special_row(d, dtype, rng)
        other = X.copy()
        other[row] = -X[row] if exact or rng.random() < 0.5 else special_row(d, dtype, rng)
        if joint.nonnegative:
            X, other = np.abs(X), np.abs(other)
        tables.append(stored(X))
        others.append(stored(other))
    y = rng.uniform(-1.0, 1.0, n) if "label_bounds" in joint.given else rng.choice([-1.0, 1.0], n)
    y_other = y.copy()
    if not joint.given.get("labels_public"):
        y_other[row] = rng.choice([-1.0, 1.0])
    given = {"epsilon": float(rng.choice([0.5, 4.0])), "delta": 1e-6, **joint.given}
    return grey_box(joint_fit(joint, given), (tables, y), (others, y_other), seed=seed)
