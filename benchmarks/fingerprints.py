"""Fingerprints of models and receipts: to show that a change which should only move code changed no result.

    python -m benchmarks.fingerprints --out before.json
    python -m benchmarks.fingerprints --out after.json          (with the changed code)
    python -m benchmarks.fingerprints --compare before.json after.json

Small seeded fits of every estimator, solver and mechanism, collections of local reports, plans and audits. For each
one: the SHA-256 of the model's numbers as bytes, that of the receipt or plan, and the bytes that crossed between
parties. Only public names are used. A receipt counts without its day and version, and without the names and hashes of
a ledger's entries. Fingerprints of two machines may differ in the last bit; compare those of one machine.
"""

import argparse
import json
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from hashlib import sha256
from itertools import cycle
from pathlib import Path
from typing import Any
from unittest import mock

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # sums of several threads may differ in the last bit

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp

import sottovoce as sv
from sottovoce import audit, local, report, vertical
from sottovoce.papers import dp_scd
from sottovoce.papers import frank_wolfe as bfw
from sottovoce.papers import ldp as bernstein
from support.replay import grey_box
from support.solvers import solved

N = 240
BUDGET: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-5, "random_state": 0}
EXACT: dict[str, Any] = {"epsilon": np.inf, "delta": 1e-5, "random_state": 0, "max_iter": 200}
ADJACENCIES: dict[str, dict[str, Any]] = {
    "zero-out": {"adjacency": "zero-out"},
    "add-remove": {"adjacency": "add-remove", "n_public": 250},
    "replace-one": {"adjacency": "replace-one"},
}
NOT_KEPT = ("day", "sottovoce", "checksum")  # of a receipt

_rng = np.random.default_rng(20)
X = _rng.uniform(-0.5, 0.5, (N, 3))
WIDE = _rng.uniform(-0.2, 0.2, (N, 21)) * (_rng.random((N, 21)) < 0.7)
Y = np.where(X[:, 0] + 0.2 * X[:, 1] + 0.1 * _rng.normal(size=N) > 0.0, 1, 0)
THREE = np.array(["a", "b", "c"])[np.digitize(X[:, 0] - X[:, 2], [-0.2, 0.2])]
NUMBERS = np.clip(X[:, 0] - X[:, 2] + 0.1 * _rng.normal(size=N), -1.0, 1.0)
FORMS: dict[str, Callable[[Any], Any]] = {
    "float64": np.array,
    "float32": lambda table: table.astype(np.float32),
    "csr": lambda table: sp.csr_array(np.where(np.abs(table) < 0.1, 0.0, table)),
}


@dataclass(frozen=True)
class Found:
    """What one fit gave: numbers of the model, receipts or plans, bytes that crossed."""

    model: Any = None
    receipt: Any = None
    crossed: dict[str, int] | None = None


Fits = Iterator[tuple[str, Callable[[], Found]]]

# --- fingerprints -------------------------------------------------------------------------------------------------


def fingerprint(found: Found) -> dict[str, Any]:
    return {
        "model": None if found.model is None else sha256(b"".join(pieces(found.model))).hexdigest(),
        "receipt": None if found.receipt is None else sha256(canonical(found.receipt).encode()).hexdigest(),
        "bytes": found.crossed,
    }


def pieces(value: Any) -> Iterator[bytes]:
    """Go through a nested value in a fixed order: numbers as little-endian doubles, after their shape."""
    if is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Mapping):
        for key in sorted(value, key=str):
            yield f"{key}=".encode()
            yield from pieces(value[key])
    elif isinstance(value, (list, tuple)):
        yield f"[{len(value)}]".encode()
        for item in value:
            yield from pieces(item)
    elif isinstance(value, bytes):
        yield value
    elif value is None or isinstance(value, str):
        yield repr(value).encode()
    else:
        numbers = np.asarray(value)
        yield str(numbers.shape).encode()
        yield numbers.astype("<f8").tobytes() if numbers.dtype.kind in "bfiu" else repr(numbers.tolist()).encode()


def canonical(value: Any) -> str:
    """Return receipts, plans and other public facts as text."""
    return json.dumps(plain(value), sort_keys=True, ensure_ascii=True)


def plain(value: Any) -> Any:
    """Return what JSON can hold; a receipt without what changes from day to day."""
    if isinstance(value, sv.Guarantee):
        kept = {name: entry for name, entry in value.to_dict().items() if name not in NOT_KEPT}
        said = kept.get("ledger", "")  # a text may go on with which fit of its table it was
        ledger = said["dataset"] if isinstance(said, Mapping) else said.partition(";")[0]
        return plain(kept | ({"ledger": ledger} if said else {}))
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in (sorted(value, key=str) if isinstance(value, (set, frozenset)) else value)]
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist())
    if isinstance(value, float):
        return repr(value)  # all digits, infinities too
    return value if value is None or isinstance(value, (str, int, bool)) else str(value)


# --- central ------------------------------------------------------------------------------------------------------

LOGISTIC = partial(sv.DPLogisticRegression, classes=[0, 1], data_norm=1.0)
SVC = partial(sv.DPLinearSVC, classes=[0, 1], data_norm=1.0)
RIDGE = partial(sv.DPRidge, label_bounds=(-1.0, 1.0), data_norm=1.0)
LASSO = partial(sv.DPLasso, label_bounds=(-1.0, 1.0), data_bound=0.5, radius=1.0)
SPARSE = partial(sv.DPSparseLogisticRegression, classes=[0, 1], data_bound=0.5, radius=1.0)
KINDS = {"logistic": (LOGISTIC, Y), "svc": (SVC, Y), "ridge": (RIDGE, NUMBERS)}
BALLS = {"lasso": (LASSO, NUMBERS), "sparse": (SPARSE, Y)}
# solver: its estimators, its adjacencies, options that differ from the default ones
SOLVERS: dict[str, tuple[tuple[str, ...], tuple[str, ...], dict[str, Any]]] = {
    "auto": (tuple(KINDS), tuple(ADJACENCIES), {"n_passes": 7}),
    "scd": (tuple(KINDS), tuple(ADJACENCIES), {"n_passes": 5}),
    "Minibatch": (tuple(KINDS), ("zero-out", "add-remove"), {"batch_size": 50.0, "epochs": 2.0}),
    "Published": (tuple(KINDS), ("zero-out", "replace-one"), {"batch_size": 40, "clipping_norm": 0.02, "epochs": 3}),
    "sgd": (tuple(KINDS), ("zero-out", "add-remove"), {"batch_size": 60.0, "epochs": 3.0, "clipping_norm": 0.5}),
    "Sequential": (tuple(KINDS), ("zero-out", "replace-one"), {"batch_size": 20, "clipping_norm": 0.01, "epochs": 2}),
    "Primal": (tuple(KINDS), tuple(ADJACENCIES), {"block_size": 2, "epochs": 3, "learning_rate": 0.5}),
    "adassp": (("ridge",), tuple(ADJACENCIES), {"clip_labels": False}),
    "refinement": (("ridge",), tuple(ADJACENCIES), {"n_passes": 5}),
    "newton": (("logistic", "svc"), tuple(ADJACENCIES), {"n_passes": 5}),
}


def outcome(model: Any, table: Any) -> Found:
    """Return everything of a fitted central model, predictions included."""
    shown = {
        name: getattr(model, name)
        for name in ("coef_", "intercept_", "n_iter_", "classes_", "least_squares_", "standard_errors_")
        if hasattr(model, name)
    }
    for name in ("predict", "decision_function", "predict_proba"):
        if hasattr(model, name):
            shown[name] = getattr(model, name)(table)
    if shown.get("least_squares_") is not None:
        shown["intervals"] = model.confidence_intervals(0.9)
    return Found(shown, model.guarantee_)


def trained(make: Callable[..., Any], table: Any, labels: Any, **given: Any) -> Found:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return outcome(make(**given).fit(table, labels), table)


def solver_fits() -> Fits:
    """Each solver with its estimators and forms of a table, the rest in turn."""
    for solver, (kinds, allowed, options) in SOLVERS.items():
        turns, intercepts = cycle(allowed), cycle((True, False, True))
        for kind in kinds:
            make, labels = KINDS[kind]
            base = {**BUDGET, **solved(solver)}
            for form, changed in FORMS.items():
                adjacency = next(turns)
                given = {**base, **ADJACENCIES[adjacency], "fit_intercept": next(intercepts)}
                yield (
                    f"{kind}, {solver}, {form}, {adjacency}, intercept {given['fit_intercept']}",
                    partial(trained, make, changed(X), labels, **given),
                )
            yield f"{kind}, {solver}, options", partial(trained, make, X, labels, **BUDGET, **solved(solver, options))
            for form in ("float64", "csr"):
                yield f"{kind}, {solver}, wide {form}", partial(trained, make, FORMS[form](WIDE), labels, **base)
            if kind != "ridge":
                yield (
                    f"{kind}, {solver}, 3 classes",
                    partial(trained, make, X, THREE, **base, **{"classes": ["a", "b", "c"]}),
                )
            if solver in ("auto", "sgd"):
                for form, changed in FORMS.items():
                    yield (
                        f"{kind}, {solver}, no noise, {form}",
                        partial(trained, make, changed(X), labels, **EXACT, solver=solver),
                    )


def special_fits() -> Fits:
    """Parameters and kinds of tables that `solver_fits` leaves at their defaults."""
    whole = {"solver": "sgd", "solver_options": {"batch_size": float(N)}, "adjacency": "replace-one"}
    for kind, (make, labels) in KINDS.items():
        yield f"{kind}, sgd, replace-one", partial(trained, make, X, labels, **BUDGET, **whole)
        yield f"{kind}, alpha auto", partial(trained, make, X, labels, **BUDGET, alpha="auto")
        yield f"{kind}, no noise, alpha auto", partial(trained, make, X, labels, **EXACT, alpha="auto")
        scaled = {"intercept_scaling": 1.0, "alpha": 1e-2, "data_norm": 0.5}
        yield f"{kind}, scaled", partial(trained, make, X, labels, **BUDGET, **scaled)
        yield f"{kind}, from disk", partial(from_disk, make, labels, solver="scd")
    yield (
        "logistic, generator",
        lambda: trained(LOGISTIC, X, Y, **(BUDGET | {"random_state": np.random.default_rng(5)})),
    )
    for kind, (make, labels) in {"logistic": (LOGISTIC, THREE), "svc": (SVC, THREE)}.items():
        yield f"{kind}, no noise, 3 classes", partial(trained, make, X, labels, **EXACT, classes=["a", "b", "c"])
        yield f"{kind}, classes from y", partial(trained, make, X, labels, **BUDGET, classes=None)


def ball_fits() -> Fits:
    """Central estimators on the l1 ball."""
    for kind, (make, labels) in BALLS.items():
        intercepts = cycle((True, False))
        for form, changed in FORMS.items():
            for adjacency, public in ADJACENCIES.items():
                given = {**BUDGET, **public, "fit_intercept": next(intercepts), "n_steps": 15}
                yield (
                    f"{kind}, {form}, {adjacency}, intercept {given['fit_intercept']}",
                    partial(trained, make, changed(X), labels, **given),
                )
            yield f"{kind}, wide {form}", partial(trained, make, changed(WIDE), labels, **BUDGET)
            yield f"{kind}, no noise, {form}", partial(trained, make, changed(X), labels, **EXACT)
        yield f"{kind}, from disk", partial(from_disk, make, labels, mapped=True)
    three = {"classes": ["a", "b", "c"]}
    yield "sparse, 3 classes", partial(trained, SPARSE, X, THREE, **BUDGET, **three)
    yield "sparse, no noise, 3 classes", partial(trained, SPARSE, X, THREE, **EXACT, **three)


def from_disk(make: Callable[..., Any], labels: Any, *, mapped: bool = False, **given: Any) -> Found:
    """Fit a Parquet table with the labels in the file, or the memory map that is made from it."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "people.parquet"
        columns = {f"x{place}": X[:, place] for place in range(X.shape[1])}
        pq.write_table(pa.table({**columns, "y": labels}), path)
        table = sv.ParquetTable(path, target="y")
        fitted: Any = table.to_npy(Path(folder) / "people.npy") if mapped else table
        found = outcome(make(**BUDGET, **given).fit(fitted, labels if mapped else None), fitted)
    return replace(found, model=[found.model, table.shape])


def search_fits() -> Fits:
    """Go through searches of each estimator."""
    common = {**BUDGET, "n_iter": 3}
    alphas = {"alpha": [1e-3, 1e-2], "fit_intercept": [True, False]}
    plain_logistic = sv.DPLogisticRegression(classes=[0, 1], data_norm=1.0)
    yield "search", partial(searched, plain_logistic, alphas, Y, **common)
    svc = sv.DPLinearSVC(classes=[0, 1], data_norm=1.0, adjacency="replace-one")
    yield "search, svc", partial(searched, svc, {"alpha": [1e-3, 1e-2]}, Y, **common)
    ridge = sv.DPRidge(label_bounds=(-1.0, 1.0), data_norm=1.0, adjacency="add-remove", n_public=250)
    space = {"alpha": [1e-3, 1e-2], "solver": ["scd", "adassp"]}
    yield "search, ridge", partial(searched, ridge, space, NUMBERS, **common, validation_size=0.3)


def searched(estimator: Any, space: Any, labels: Any, **given: Any) -> Found:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search = sv.DPSearchCV(estimator, space, **given).fit(X, labels)
    chosen = [search.best_score_, sorted((name, str(value)) for name, value in search.best_params_.items())]
    best = outcome(search.best_estimator_, X)
    return Found([best.model, chosen, search.predict(X)], [search.guarantee_, best.receipt])


def plans() -> Fits:
    """Go through plans: what fits would spend, before any data are read."""
    for solver, (kinds, allowed, options) in SOLVERS.items():
        for kind in kinds:
            for adjacency in allowed:
                for number, given in enumerate((None, options)):
                    estimator = KINDS[kind][0](**BUDGET, **ADJACENCIES[adjacency], **solved(solver, given))
                    yield f"plan: {kind}, {solver}, {adjacency}, {number}", partial(planned, estimator)
    for kind, (make, _) in BALLS.items():
        yield f"plan: {kind}", partial(planned, make(**BUDGET))
    for epsilon in (0.01, 0.5, 30.0, np.inf):
        yield f"plan: epsilon {epsilon}", partial(planned, LOGISTIC(epsilon=epsilon, delta=1e-7))
    search = sv.DPSearchCV(sv.DPRidge(label_bounds=(-1, 1), data_norm=1.0), {"alpha": [1e-3]}, epsilon=1.0, delta=1e-6)
    yield "plan: search", partial(planned, search)


def planned(estimator: Any) -> Found:
    plan = sv.plan(estimator, n_samples=N, n_features=12)  # as many rows as the fits: their noise is calibrated
    return Found(None, [plan.summary(), plan.event.to_dict()])


# --- ledger and receipts ------------------------------------------------------------------------------------------


def ledger_fits() -> Fits:
    """Fits that charge a ledger: what it keeps of them, and what is left."""
    scale = {"adassp": RIDGE(**BUDGET, solver="adassp"), "ball": LASSO(**BUDGET), "scd": RIDGE(**BUDGET)}
    for composition, names in {"mixed": tuple(scale), "gaussian": ("scd",), "basic": ("scd", "ball")}.items():
        yield f"ledger, {composition}", partial(charged, composition, [scale[name] for name in names], X, NUMBERS)
    parts = vertical.VerticalLogisticRegression(**BUDGET, classes=[0, 1])
    yield "ledger, vertical", lambda: charged("mixed", [parts], split(2), Y, adjacency="replace-one")
    yield "ledger, renyi", partial(charged, "renyi", [RIDGE(**BUDGET, solver="sgd")], X, NUMBERS)


def charged(composition: str, estimators: list[Any], table: Any, labels: Any, **public: Any) -> Found:
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ledger = sv.Ledger(f"sqlite:///{folder}/budget.db", who="somebody")
        seeded = {"allow_nonprivate": True}
        ledger.create("people", epsilon=50.0, delta=1e-3, composition=composition, **seeded, **public)
        for estimator in estimators:
            estimator.set_params(ledger=ledger, dataset="people").fit(table, labels)
        records = [
            (entry.state, entry.event.to_dict(), entry.delta, entry.adjacency.value, entry.seeded, entry.plan)
            for entry in ledger.history("people")
        ]
        left = [ledger.spent("people"), ledger.remaining("people"), ledger.verify().ok]
    return Found(left, [records, [estimator.guarantee_ for estimator in estimators]])


def receipt_pages() -> Fits:
    """Pages, curves, sums and differences that are made from receipts."""
    ridge = RIDGE(**BUDGET)
    for name, other in {"logistic": LOGISTIC(**BUDGET), "sparse": SPARSE(**BUDGET), "no noise": SVC(**EXACT)}.items():
        yield f"receipt pages, {name}", partial(pages, ridge, other)


def pages(first: Any, second: Any) -> Found:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        a, b = (
            replace(model.fit(X, labels).guarantee_, day="2026-01-01", version="0", fits=None)
            for model, labels in ((first, NUMBERS), (second, Y))
        )
    curve = report.privacy_curve(b)
    return Found(curve, [report.receipt_page(b), report.sum_receipts([replace(a, unit=b.unit), b]).rows(), b.rows()])


# --- vertical -----------------------------------------------------------------------------------------------------

V_LOGISTIC = partial(vertical.VerticalLogisticRegression, classes=[0, 1])
V_SVC = partial(vertical.VerticalLinearSVC, classes=[0, 1])
V_RIDGE = partial(vertical.VerticalRidge, label_bounds=(-1.0, 1.0))
V_LASSO = partial(vertical.VerticalLasso, label_bounds=(-1.0, 1.0), radius=1.0)
V_SPARSE = partial(vertical.VerticalSparseLogisticRegression, classes=[0, 1], radius=1.0)
V_KINDS = {"logistic": (V_LOGISTIC, Y), "svc": (V_SVC, Y), "ridge": (V_RIDGE, NUMBERS)}
V_BALLS = {"lasso": (V_LASSO, NUMBERS), "sparse": (V_SPARSE, Y)}
V_PAPER = partial(bfw.PublishedLasso, label_bounds=(-1.0, 1.0), radius=1.0)
SIZES = {2: [2, 1], 3: [1, 1, 1]}
# mechanism: its estimators with secret labels, its options
MECHANISMS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "local-models": (tuple(V_KINDS), {"label_share": 0.6, "combination": 0.5}),
}


def split(parties: int, table: Any = X, studied: Sequence[Any] = ()) -> Any:
    names = [f"party{place + 1}" for place in range(parties)]
    sizes = SIZES[parties] if table.shape[1] == 3 else [table.shape[1] - 2 * (parties - 1), *[2] * (parties - 1)]
    return vertical.split_columns(
        table, sizes, data_norm=dict.fromkeys(names, 0.8), data_bound=dict.fromkeys(names, 0.5),
        protocols=dict.fromkeys(names, studied),
    )  # fmt: skip


def together(make: Callable[..., Any], labels: Any, parties: int = 2, table: Any = X, **given: Any) -> Found:
    """Fit parties in one process, and score, compare and recombine."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return joint(make(**given), split(parties, table, [bfw.PROTOCOL]), labels)


def joint(model: Any, everybody: Any, labels: Any) -> Found:
    plan = model.plan(everybody)
    model.fit(everybody, labels)
    crossed = {"up": model.uplink_bytes_, "down": model.downlink_bytes_}
    shown = [model.parts_, model.local_part_, model.n_rounds_, getattr(model, "coef_", None), model.history_]
    shown += [getattr(model, name)(everybody) for name in ("decision_function", "predict", "predict_proba")
              if hasattr(model, name)]  # fmt: skip
    shown.append(model.score(everybody, labels))
    if not hasattr(model, "radius"):
        shown += [model.local_decision_function(everybody), plain(model.compare(everybody, labels))]
    if plan.name == "local-models":
        shown.append(model.recombine(everybody, labels).decision_function(everybody))
    receipts = [model.guarantee_, model.party_guarantees_, plan.event.to_dict()]
    return Found(shown, receipts, crossed)


def vertical_fits() -> Fits:
    """Each mechanism with its estimators, two and three parties, labels public and not."""
    for mechanism, (secret, options) in MECHANISMS.items():
        budget = {**BUDGET, "mechanism": mechanism}
        for kind, (make, labels) in V_KINDS.items():
            for parties in SIZES:
                for public in (True, False) if kind in secret else (True,):
                    given = {**budget, "labels_public": public, "fit_intercept": parties == 2}
                    name = f"vertical {kind}, {mechanism}, {parties} parties, labels {'public' if public else 'secret'}"
                    yield name, partial(together, make, labels, parties, **given)
            given = {**budget, "labels_public": True, "mechanism_options": options}
            yield f"vertical {kind}, {mechanism}, options", partial(together, make, labels, **given)
        given = {**budget, "labels_public": True, "label_holder": "party2", "alpha": 0.1}
        yield f"vertical logistic, {mechanism}, other holder", partial(together, V_LOGISTIC, Y, **given)


def exact_vertical_fits() -> Fits:
    """Without noise: dense and sparse columns, further losses."""
    for kind, (make, labels) in V_KINDS.items():
        for parties in SIZES:
            base = {**EXACT, "fit_intercept": parties == 2}
            head = f"vertical {kind}, no noise, {parties} parties"
            yield head, partial(together, make, labels, parties, **base)
        yield f"vertical {kind}, csr", partial(together, make, labels, table=FORMS["csr"](WIDE), **EXACT)


def vertical_ball_fits() -> Fits:
    """Vertical estimators on the l1 ball: each mechanism."""
    for kind, (make, labels) in V_BALLS.items():
        for parties in SIZES:
            for public in (True, False):
                given = {**BUDGET, "labels_public": public, "n_steps": 4}
                words = "public" if public else "secret"
                yield (
                    f"vertical {kind}, local, {parties} parties, labels {words}",
                    partial(together, make, labels, parties, **given, fit_intercept=parties == 2),
                )
        yield f"vertical {kind}, no noise", partial(together, make, labels, **(EXACT | {"max_iter": 30}))
        given = {**BUDGET, "labels_public": True}
        yield f"vertical {kind}, local, csr", partial(together, make, labels, table=FORMS["csr"](WIDE), **given)
        shares = {"radius_shares": {"party1": 0.7, "party2": 0.3}, "label_share": 0.4}
        yield f"vertical {kind}, shares", partial(together, make, labels, **BUDGET, **shares, n_steps=4)
    given = {**BUDGET, "labels_public": True, "n_steps": 3, "residual_bound": 0.7}
    yield "vertical lasso, residual bound", partial(together, V_LASSO, NUMBERS, **given)
    for name, options in {"sketch": {"sketch_rows": 150, "sketch_seed": 3}, "sampled": {"sampled_columns": 1}}.items():
        paper = {**BUDGET, "labels_public": True, "n_steps": 4, "mechanism_options": options}
        yield f"vertical lasso, paper, {name}", partial(together, V_PAPER, NUMBERS, **paper)


def alignment_fits() -> Fits:
    """Parties that are brought into one order by identifiers first."""
    for duplicates in ("error", "drop"):
        yield f"aligned, exact, {duplicates}", partial(aligned, duplicates)


def aligned(duplicates: str) -> Found:
    rng = np.random.default_rng(1)
    order = rng.permutation(N)[: N - 30]
    people = np.array([f"p{place:03d}" for place in range(N)])
    others = people[order].copy()
    if duplicates == "drop":
        others[:4] = others[4]
    first = vertical.Party(X[:, :2], ids=people, name="clinic", y=Y, data_norm=0.8)
    second = vertical.Party(X[order, 2:], ids=others, name="bank", data_norm=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        both = vertical.align([first, second], duplicates=duplicates)
        labels = both.parties["clinic"].y
        found = joint(V_LOGISTIC(**BUDGET), both, labels)
    return replace(found, model=[found.model, labels, list(both.parties["bank"].ids), both.report.n_common])


# --- local --------------------------------------------------------------------------------------------------------

RECORDS = [
    {"age": float(20 + 50 * (row[0] + 0.5)), "work": ("private", "public", "none")[place % 3], "size": row[1]}
    if place % 11
    else {"age": None, "work": None, "size": row[1]}
    for place, row in enumerate(X)
]


def features() -> list[Any]:
    return [
        local.NumericFeature("age", 20, 70, missing=True),
        local.CategoricalFeature("work", ["private", "public"], missing=True),
        local.NumericFeature("size", -0.5, 0.5),
    ]


def protocols() -> dict[str, tuple[Any, Any, Any]]:
    """Return protocols, with the records and labels that their devices hold."""
    number = {"label_bounds": (-1.0, 1.0), "task": "regression"}
    make = partial(local.Protocol, epsilon=8.0)
    return {
        "numbers": (make(n_features=3), X, 2 * Y - 1),
        "numbers, slack": (make(n_features=3, completion="slack", classes=[0, 1], scale=0.9), X, Y),
        "numbers, hinge": (make(n_features=3, loss="hinge", intercept=0.0, completion="slack"), X, 2 * Y - 1),
        "numbers, squared": (make(n_features=3, task="classification", loss="squared"), X, 2 * Y - 1),
        "numbers, sizes": (make(n_features=3, K=256, m=20, b=0.5), X, 2 * Y - 1),
        "numbers, degree 0": (make(n_features=3, degree=0), X, 2 * Y - 1),
        "numbers, regression": (make(n_features=3, **number), X, NUMBERS),
        "numbers, expected": (local.Protocol.create(n_expected=300, n_features=3, epsilon=0.5), X, 2 * Y - 1),
        "records": (make(features=features(), classes=["no", "yes"]), RECORDS, np.where(Y == 1, "yes", "no")),
        "records, regression": (make(features=features(), **number), RECORDS, NUMBERS),
    }


def reports_of(protocol: Any, records: Any, labels: Any, *, tokens: bool) -> list[bytes]:
    """Return the reports of devices whose operating system is a seeded generator."""
    with mock.patch("os.urandom", np.random.default_rng(3).bytes):
        device = local.Randomizer(protocol)
        give = (f"token {place}".encode() if tokens else None for place in range(len(labels)))
        return [
            device.report(record, label.item(), token=token)
            for record, label, token in zip(records, labels, give, strict=True)
        ]


def local_fits() -> Fits:
    """Every protocol with the fits that its reports allow."""
    least = {"default": {}, "degree 0": {"degree": 0}, "alpha": {"degree": 1, "alpha": 0.05}}
    least["shuffled"] = {"shuffled": True, "delta": 1e-6}
    for name, (protocol, records, labels) in protocols().items():
        chosen = {**least, "public rows": {"public_rows": records[:50]}}
        if protocol.degree == 0:
            chosen = {key: given for key, given in chosen.items() if given.get("degree", 0) in (0, "auto")}
        yield f"local {name}", partial(collected, protocol, records, labels, chosen)
    protocol, records, labels = protocols()["numbers"]
    yield "local numbers, tokens", partial(collected, protocol, records, labels, least, tokens=True)


def collected(protocol: Any, records: Any, labels: Any, chosen: dict[str, Any], tokens: bool = False) -> Found:
    """Collect at two servers, merge, and fit in each way."""
    reports = reports_of(protocol, records, labels, tokens=tokens)
    half = len(reports) // 2
    server, other = (local.Aggregator(protocol) for _ in range(2))
    server.add([*reports[:half], b"no report"])
    other.add(b"".join(reports[half:]))
    server.merge(other)
    models, receipts = {}, {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, given in chosen.items():
            model = server.fit(**given)
            models[name] = [model.weights, model.coef_, model.intercept_, model.degree, model.predict(records)]
            models[name] += [model.decision_function(records), model.score(records, labels)]
            receipts[name] = [model.guarantee_, model.loss, plain(model.quality_)]
    sums = [server.to_bytes(), reports, plain(server.health())]
    return Found([models, canonical(sums[2]), *sums[:2]], [receipts, protocol.to_json(), protocol.columns])


def bernstein_fits() -> Fits:
    """Bernstein reports of each loss and noise, and the fits to them."""
    for loss in ("hinge", "logistic", "hinge by mixture", "absolute"):
        for noise in ("tight", "printed"):
            for degree in (1, 2):
                yield (
                    f"bernstein {loss}, {noise}, degree {degree}",
                    partial(polynomial, loss=loss, noise=noise, degree=degree, beta=0.25 if degree == 1 else 0.5),
                )
    yield "bernstein, data_norm", partial(polynomial, loss="logistic", data_norm=0.7)
    yield (
        "bernstein, theorem",
        lambda: Found(None, [bernstein.theorem_choice(alpha, 3, 1.0, 1e-6) for alpha in (0.5, 0.3)]),
    )


def polynomial(**given: Any) -> Found:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        protocol = bernstein.BernsteinProtocol(n_features=3, epsilon=40.0, delta=1e-5, **given)
        random_bytes = np.random.default_rng(4).bytes
        reports = bernstein.bernstein_reports(protocol, X, 2.0 * Y - 1.0, random_bytes=random_bytes)
        model = bernstein.fit_reports(protocol, reports, random_state=0)
    shown = [model.coef_, model.predict(X), model.gradient_std_, model.noise_error_]
    return Found([shown, reports], [model.guarantee_, protocol.id.hex(), protocol.true_epsilon])


def local_plans() -> Fits:
    """Go through plans of collections: what these would give and cost."""
    for n, d, epsilon in ((100, 3, 1.0), (5000, 5, 1.0), (100_000, 8, 4.0)):
        yield (
            f"local plan, {n}, {d}, {epsilon}",
            lambda n=n, d=d, epsilon=epsilon: Found(None, local.plan_collection(n, d, epsilon).to_dict()),
        )
        yield (
            f"local accuracy, {n}, {d}, {epsilon}",
            lambda n=n, d=d, epsilon=epsilon: Found(None, local.predict_accuracy_range(n, d, epsilon, draws=4)),
        )
    protocol = local.Protocol(features=features(), classes=["no", "yes"], epsilon=2.0)
    yield "local accuracy, records", lambda: Found(None, local.predict_accuracy_range(3000, protocol=protocol, draws=3))


# --- audits -------------------------------------------------------------------------------------------------------


def audits() -> Fits:
    """Lower bounds from seeded scores, canaries, pairs, and replays of fits."""
    rng = np.random.default_rng(7)
    scores, others = rng.normal(1.5, 1.0, 2000), rng.normal(0.0, 1.0, 2000)
    bound = audit.epsilon_lower_bound
    yield "audit: bounds", lambda: Found([bound(scores, others, delta=1e-3, gaussian=g) for g in (False, True)])
    yield "audit: one run", one_run
    yield "audit: detectable", lambda: Found([audit.detectable_epsilon(1.0, 1e-5, 500, gaussian=g) for g in (0, 1)])
    for adjacency in ("replace-one", "add-remove"):
        yield (
            f"audit: pairs, {adjacency}",
            lambda adjacency=adjacency: Found(
                [
                    audit.worst_case_pairs(n_features=3, data_norm=1.0, classes=[0, 1], adjacency=adjacency),
                    audit.worst_case_pairs(n_features=3, data_bound=1.0, label_bounds=(-1, 1), adjacency=adjacency),
                ]
            ),
        )
    fits = {
        "logistic": partial(LOGISTIC, epsilon=1.0, delta=1e-5, adjacency="replace-one"),
        "adassp": partial(RIDGE, epsilon=1.0, delta=1e-5, adjacency="replace-one", solver="adassp"),
        "Primal": partial(LOGISTIC, epsilon=1.0, delta=1e-5, adjacency="replace-one", solver=dp_scd.Primal()),
        "lasso": partial(LASSO, epsilon=1.0, delta=1e-5, adjacency="replace-one"),
        "sparse": partial(SPARSE, epsilon=1.0, delta=1e-5, adjacency="replace-one"),
    }
    for name, make in fits.items():
        yield f"audit: grey box, {name}", partial(replayed, make)
    seeded = sv.DPRidge(**BUDGET, data_norm=1.0, label_bounds=(-1.0, 1.0))
    yield "audit: estimator that repeats", partial(audited, seeded)


def one_run() -> Found:
    table = audit.canary_table(60, labels=(0, 1), random_state=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        coef = LOGISTIC(epsilon=20.0, delta=1e-5, random_state=0).fit(table.X, table.y).coef_
    return Found([table, coef, table.lower_bound(coef, delta=1e-5), audit.one_run_lower_bound(100, 40, 38, delta=1e-5)])


def replayed(make: partial[Any]) -> Found:
    """Replay a fit on the table with another last row."""
    table, labels = X[:40], NUMBERS[:40] if "label_bounds" in make.keywords else Y[:40]
    other = np.vstack([table[:-1], -table[-1:]])

    def run(X: Any, y: Any) -> Any:
        model = make().fit(X, y)
        return [model.coef_, model.intercept_]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = grey_box(run, (table, labels), (other, labels), seed=3)
    return Found([found.n_releases, found.largest, found.fault, found.refusal, found.shown])


def audited(estimator: Any) -> Found:
    pairs = audit.worst_case_pairs(n_features=3, data_norm=1.0, label_bounds=(-1, 1))[:1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = audit.audit_estimator(estimator, pairs, epsilon=2.0, delta=1e-5, n_runs=100, n_pilot=100)
    return Found([found.lower_bound, found.detectable, found.repeats, found.pair, found.attack, found.statement()])


# --- all of them --------------------------------------------------------------------------------------------------

SECTIONS: dict[str, Callable[[], Fits]] = {
    "central solvers": solver_fits, "central, special": special_fits, "central, l1 ball": ball_fits,
    "searches": search_fits, "plans": plans, "ledger": ledger_fits, "receipt pages": receipt_pages,
    "vertical": vertical_fits, "vertical, no noise": exact_vertical_fits, "vertical, l1 ball": vertical_ball_fits,
    "alignment": alignment_fits, "local": local_fits, "bernstein": bernstein_fits, "local plans": local_plans,
    "audits": audits,
}  # fmt: skip


def take(only: str) -> tuple[dict[str, Any], list[str]]:
    """Return the fingerprints of the sections whose name holds ``only``, and what failed."""
    taken: dict[str, Any] = {}
    failed = []
    for section, fits in SECTIONS.items():
        if only not in section:
            continue
        start, before = time.perf_counter(), len(taken)
        for name, fit in fits():
            assert name not in taken, name
            try:
                taken[name] = fingerprint(fit())
            except Exception as error:
                taken[name] = {"error": f"{type(error).__name__}: {error}"}
                failed.append(f"{name}: {taken[name]['error']}")
        print(f"{section:<20} {len(taken) - before:>4} {time.perf_counter() - start:6.1f} s", file=sys.stderr)
    return taken, failed


def compare(first: Path, second: Path) -> list[str]:
    """Return what differs between two files, a line each."""
    a, b = (json.loads(path.read_text(encoding="utf-8")) for path in (first, second))
    lines = [f"{name}: only in {first}" for name in a if name not in b]
    lines += [f"{name}: only in {second}" for name in b if name not in a]
    for name in a:
        if name in b and a[name] != b[name]:
            parts = sorted(part for part in {*a[name], *b[name]} if a[name].get(part) != b[name].get(part))
            lines.append(f"{name}: {', '.join(parts)}")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="write the fingerprints to this file instead of the terminal")
    parser.add_argument("--only", default="", help="sections whose name holds this text")
    parser.add_argument("--compare", nargs=2, type=Path, metavar=("A", "B"), help="list what differs, and fit nothing")
    given = parser.parse_args()
    if given.compare:
        lines = compare(*given.compare)
        print("\n".join(lines) or "nothing differs")
        return int(bool(lines))
    taken, failed = take(given.only)
    text = json.dumps(taken, indent=1) + "\n"
    if given.out:
        given.out.write_text(text, encoding="utf-8")
    else:
        print(text, end="")
    print("\n".join([f"{len(taken)} fits, {len(failed)} failed", *failed]), file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
