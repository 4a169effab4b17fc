"""The published JSON Schema against the receipts of every kind of mechanism, made from real plans without a fit."""

import copy
import json
import math
from pathlib import Path

import numpy as np
import pytest
from jsonschema import Draft202012Validator

import sottovoce as sv
from sottovoce.central.core import replay
from sottovoce.estimators.base import Circumstances
from sottovoce.estimators.search import search_receipt
from sottovoce.local.fits.receipts import local_receipt
from sottovoce.privacy.events import (
    KINDS,
    BoundedRangeEvent,
    ComposedEvent,
    GaussianEvent,
    NonPrivateEvent,
    NothingReleased,
    PoissonSampledEvent,
    PureEvent,
    RandomizedResponseEvent,
    RepeatAndSelectEvent,
    RepeatedEvent,
)
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.report import receipt_page
from sottovoce.vertical import VerticalLogisticRegression, VerticalSparseLogisticRegression, split_columns
from sottovoce.vertical.coordinator.plan import VerticalSolution
from sottovoce.vertical.estimators.choices import MECHANISMS
from support.solvers import EVERY, by_name

SCHEMA = json.loads((Path(__file__).parents[3] / "docs/receipt.schema.json").read_text(encoding="utf-8"))
VALIDATOR = Draft202012Validator(SCHEMA)
BUDGET = {"epsilon": 1.0, "delta": 1e-5}
CLASSES = {"classes": ["no", "yes"]}


def central(estimator, n_samples=2000):
    """Return the receipt that a fit of this plan would get."""
    if hasattr(estimator, "classes"):
        estimator.classes_ = np.array(estimator.classes or [])
    plan = estimator.plan(n_samples, 5)
    return estimator.receipt(plan, replay(plan.asks), Circumstances(seeded=False))


def search():
    made = sv.DPSearchCV(sv.DPLogisticRegression(data_norm=2.0, **CLASSES), {"alpha": [1e-4, 1e-2]}, **BUDGET, n_iter=3)
    best = copy.deepcopy(made.estimator)
    best.classes_ = np.array(CLASSES["classes"])
    plan = made.plan(2000, 5)
    trial = central(sv.DPLogisticRegression(epsilon=0.1, delta=1e-7, data_norm=2.0, **CLASSES))
    return search_receipt(plan, best, trial, plan.event, Circumstances(seeded=False))


def vertical(estimator, party=None):
    rng = np.random.default_rng(0)
    bounds = {"data_norm": dict.fromkeys(("party1", "party2"), 1.5)}
    if isinstance(estimator, VerticalSparseLogisticRegression):
        bounds = {"data_bound": dict.fromkeys(("party1", "party2"), 1.0)}
    parties = split_columns(rng.uniform(0.0, 1.0, (200, 4)), [2, 2], **bounds)
    estimator.classes_ = np.array(estimator.classes)
    plan = estimator._plan(parties, "party1")
    solution = VerticalSolution(scorer=None, event=plan.event, n_rounds=1)
    promised = None if party else plan.promised_epsilon
    return estimator._receipt(plan, solution, plan.event, promised, False, party)


def local(shuffled_delta=None):
    return local_receipt(16 * "0", "cap", 4.0, 1000, public_rows=False, shuffled_delta=shuffled_delta)


def kinds():
    for solver in EVERY:
        if solver in ("adassp", "refinement", "constant"):
            yield (
                solver,
                lambda solver=solver: central(sv.DPRidge(**BUDGET, data_norm=2.0, label_bounds=(0, 1), solver=solver)),
            )
        else:
            yield (
                solver,
                lambda solver=solver: central(
                    sv.DPLogisticRegression(**BUDGET, data_norm=2.0, **CLASSES, solver=by_name(solver))
                ),
            )
    yield "no noise", lambda: central(sv.DPLogisticRegression(epsilon=math.inf, delta=1e-5, data_norm=2.0, **CLASSES))
    yield "lasso", lambda: central(sv.DPLasso(**BUDGET, data_bound=1.0, label_bounds=(0, 1), radius=2.0))
    yield "search", search
    for mechanism in MECHANISMS:
        yield (
            f"vertical {mechanism}",
            lambda mechanism=mechanism: vertical(VerticalLogisticRegression(**BUDGET, **CLASSES, mechanism=mechanism)),
        )
    yield "one party", lambda: vertical(VerticalLogisticRegression(**BUDGET, **CLASSES), party="party2")
    yield "vertical sparse", lambda: vertical(VerticalSparseLogisticRegression(**BUDGET, **CLASSES, radius=2.0))
    yield "local", local
    yield "shuffled", lambda: local(shuffled_delta=1e-6)


@pytest.mark.parametrize("make", [make for _, make in kinds()], ids=[name for name, _ in kinds()])
def test_receipts_of_every_kind_follow_the_schema_and_become_pages(make):
    made = make()
    VALIDATOR.validate(json.loads(made.to_json()))
    page = receipt_page(made)
    assert page.count("<h2 ") == 12


EVENTS = [
    NothingReleased(),
    NonPrivateEvent(),
    GaussianEvent(3.0),
    GaussianEvent(math.inf),
    RandomizedResponseEvent(1.0),
    PureEvent(1.0),
    BoundedRangeEvent(0.1),
    PoissonSampledEvent(0.1, GaussianEvent(3.0)),
    RepeatedEvent(GaussianEvent(3.0), 4),
    RepeatAndSelectEvent(GaussianEvent(3.0), 4.0),
    ComposedEvent((GaussianEvent(3.0), PureEvent(1.0))),
]


def receipt(event):
    return Guarantee(
        epsilon=math.inf, delta=1e-5, adjacency="zero-out", unit="u", mechanism="m", releases=("r",), event=event,
        assumptions=(), not_covered=(), seeded=False, accountant="a", proof="p", version="0", parameters={"a": None},
    ).to_dict()  # fmt: skip


def test_every_kind_of_event_is_described():
    assert {event.kind for event in EVENTS} == set(KINDS)
    for event in EVENTS:
        VALIDATOR.validate(json.loads(json.dumps(receipt(event))))
    described = {entry["properties"]["kind"]["const"] for entry in SCHEMA["$defs"].values() if "properties" in entry}
    assert described == set(KINDS)


def test_the_schema_is_one_and_names_what_a_receipt_has():
    Draft202012Validator.check_schema(SCHEMA)
    data = receipt(GaussianEvent(3.0))
    assert list(SCHEMA["properties"]) == SCHEMA["required"] == list(data)
    for name, entry in SCHEMA["properties"].items():
        assert name == "event" or len(entry["description"]) > 10


@pytest.mark.parametrize(
    "change",
    [
        {"version": 1}, {"version": 3}, {"day": "today"}, {"model": "0"}, {"ledger": None}, {"schema": "x"},
        {"signature": {}}, {"checksum": None}, {"epsilon": -1.0}, {"epsilon": "infinite"}, {"delta": 1.0},
        {"adjacency": "person"},
        {"unit": 3}, {"releases": "all"}, {"seeded": 0}, {"parameters": []}, {"approved": True},
        {"event": {"kind": "new"}},
        {"event": {"kind": "gaussian", "noise_multiplier": -1.0}}, {"event": {"kind": "gaussian"}},
        {"event": {"kind": "poisson-sampled", "sampling_rate": 0.1, "event": {"kind": "pure", "epsilon": 1.0}}},
        {"event": {"kind": "repeated", "count": 2.5, "event": {"kind": "nothing"}}},
    ],
    ids=str,
)  # fmt: skip
def test_what_is_no_receipt_does_not_follow_the_schema(change):
    assert not VALIDATOR.is_valid(receipt(GaussianEvent(3.0)) | change)
    assert not VALIDATOR.is_valid({key: value for key, value in receipt(GaussianEvent(3.0)).items() if key != "unit"})
