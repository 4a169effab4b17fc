"""The public facts of a run: checked once, and what differs in one argument shares no plan."""

import gc
import math
import weakref

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.central.plan import TrainingFacts
from sottovoce.central.solvers.newton import NewtonPlan
from sottovoce.estimators.base import LEFT_OUT, _planned, planned
from sottovoce.exceptions import ParameterError
from sottovoce.losses import Logistic
from sottovoce.privacy.adjacency import Adjacency

FACTS = {
    "loss": Logistic(), "n_samples": 1000, "n_features": 5, "n_models": 2, "alpha": 1e-3, "constant": 0.2,
    "epsilon": 1.0, "delta": 1e-5, "adjacency": Adjacency.ZERO_OUT, "label_bound": None,
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_samples", 0), ("n_samples", 2**53 + 1), ("n_samples", 10.0), ("n_features", 0), ("n_models", 0),
        ("alpha", -1e-9), ("alpha", math.nan), ("constant", -0.1), ("constant", math.inf), ("epsilon", 0.0),
        ("epsilon", math.nan), ("delta", 1.0), ("delta", None), ("label_bound", 0.0), ("label_bound", math.nan),
    ],
)  # fmt: skip
def test_facts_that_make_no_sense_are_refused(name, value):
    with pytest.raises(ParameterError, match=name):
        TrainingFacts(**{**FACTS, name: value})


# another value of each argument; or one that is equal, and yet not the same: a receipt shows it as written
OTHERS = {
    "epsilon": [2.0, 2, 1], "delta": [1e-7], "accept_delta": [0.5], "fit_intercept": [False], "max_iter": [7],
    "tol": [1, 1.0], "verbose": [1, True], "adjacency": ["add-remove", Adjacency.REPLACE_ONE],
    "n_public": [900, 1000], "max_rows_per_group": [1, 2], "data_norm": [2.0, 1, "auto"], "alpha": [1, 1.0, 1e-3],
    "intercept_scaling": [1, 2.0], "max_sample_weight": [2.0, 2], "objective": ["accuracy"],
    "class_weight": [{0: 1.0, 1: 2.0}, {0: 2.0, 1: 2.0}], "classes": [[1, 2], [0.0, 1.0], ["0", "1"], np.arange(2)],
    "solver": ["scd", "sgd", "newton", NewtonPlan(), NewtonPlan(n_passes=5)],
    "solver_options": [{}, {"calibration_share": 0.0}, {"calibration_share": -0.0}],
}  # fmt: skip


def logistic(**changed):
    fixed = {"epsilon": 1.0, "delta": 1e-5, "data_norm": 1.0, "classes": [0, 1], "random_state": 3}
    return sv.DPLogisticRegression(**{**fixed, **changed})


def test_what_differs_in_one_argument_or_size_shares_no_plan():
    assert OTHERS.keys() == {*logistic().get_params()} - {*LEFT_OUT}
    models = [logistic(**{"n_public": 1000, name: one}) for name in ("adjacency", "n_public") for one in OTHERS[name]]
    models += [logistic(**{name: one}) for name in OTHERS for one in OTHERS[name] if name != "adjacency"]
    sizes = [(1000, 5, 1), (1001, 5, 1), (1000, 6, 1), (1000, 5, 3)]
    asked = [*((logistic(), *size) for size in sizes), *((model, *sizes[0]) for model in models)]
    plans = [planned(*each) for each in asked]
    assert len({id(plan) for plan in plans}) == len(plans)
    for plan, (model, *size) in zip(plans, asked, strict=True):
        made = model.plan_for(*size)
        assert type(plan) is type(made) and plan.event == made.event
        assert repr((plan.facts, plan.options(), plan.choice)) == repr((made.facts, made.options(), made.choice))
    assert planned(logistic(random_state=None), *sizes[0]) is plans[0]


def test_what_is_shared_holds_nothing_of_a_fit():
    X = np.random.default_rng(0).uniform(-0.5, 0.5, (200, 3))
    model = logistic(intercept_scaling=0.7).fit(X, np.arange(200) % 2)
    gone = [weakref.ref(model), weakref.ref(X), weakref.ref(model.coef_)]
    del model, X
    gc.collect()
    assert [one() for one in gone] == [None] * 3
    before = _planned.cache_info().currsize  # where the number of rows is secret, nothing is kept of it
    planned(logistic(adjacency="add-remove", n_public=1000), 987, 5, 1)
    assert _planned.cache_info().currsize == before
