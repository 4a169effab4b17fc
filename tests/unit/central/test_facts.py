"""The public facts of a run: checked once, and what differs in one argument shares no plan."""

import gc
import math
import weakref

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.central.plan import TrainingFacts
from sottovoce.central.solvers.newton import NewtonPlan
from sottovoce.estimators.base import LEFT_OUT, planned
from sottovoce.exceptions import ParameterError
from sottovoce.losses import Logistic
from sottovoce.privacy.adjacency import Adjacency

FACTS = {
    "loss": Logistic(), "n_samples": 1000, "n_features": 5, "n_models": 2, "alpha": 1e-3, "constant": 0.2,
    "epsilon": 1.0, "delta": 1e-5, "adjacency": Adjacency.ZERO_OUT, "label_bound": None,
}  # fmt: skip


def facts(**changed):
    return TrainingFacts(**{**FACTS, **changed})


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
        facts(**{name: value})


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


def all_of(plan):
    return type(plan), repr((plan.facts, plan.options(), plan.choice)), plan.event


def test_what_differs_in_one_argument_shares_no_plan():
    assert OTHERS.keys() == {*logistic().get_params()} - {*LEFT_OUT}
    changes = [{name: value} for name, values in OTHERS.items() for value in values]
    extra = {"adjacency": {"n_public": 1000}}
    models = [logistic(), *(logistic(**change, **extra.get(next(iter(change)), {})) for change in changes)]
    plans = [planned(model, 1000, 5, 1) for model in models]
    assert len({id(plan) for plan in plans}) == len(plans)
    assert [all_of(plan) for plan in plans] == [all_of(model.plan_for(1000, 5, 1)) for model in models]


def test_what_differs_in_one_size_shares_no_plan_and_another_seed_does():
    sizes = [(1000, 5, 1), (1001, 5, 1), (1000, 6, 1), (1000, 5, 3)]
    plans = [planned(logistic(), *each) for each in sizes]
    assert [(plan.n_samples, plan.n_features, plan.n_models) for plan in plans] == sizes
    assert [planned(logistic(random_state=None), *each) for each in sizes] == plans
    assert all(planned(logistic(), *each) is plan for each, plan in zip(sizes, plans, strict=True))


def test_what_is_shared_holds_nothing_of_a_fit():
    X = np.random.default_rng(0).uniform(-0.5, 0.5, (200, 3))
    model = logistic(intercept_scaling=0.7).fit(X, np.arange(200) % 2)
    gone = [weakref.ref(model), weakref.ref(X), weakref.ref(model.coef_)]
    del model, X
    gc.collect()
    assert [one() for one in gone] == [None] * 3
