"""The public facts of a run: checked once, and what differs in one of them shares no plan."""

import math
from dataclasses import fields

import pytest

from sottovoce.central.plan import TrainingFacts, plan_of
from sottovoce.central.solvers.accelerated import AcceleratedPlan
from sottovoce.central.solvers.newton import NewtonPlan
from sottovoce.central.solvers.sgd import SGDPlan
from sottovoce.exceptions import ParameterError
from sottovoce.losses import Logistic, SmoothedHinge, Squared
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


# another value of each fact and option; or one that is equal, and yet not the same: a receipt shows it as written
OTHER_FACTS = {
    "loss": [Squared(), SmoothedHinge(1.0), type("Logistic", (Logistic,), {})()], "n_samples": [1001],
    "n_features": [6], "n_models": [1], "alpha": [2e-3], "constant": [0.0, -0.0, 1.0, 1], "epsilon": [2.0, 2, 1],
    "delta": [1e-7], "adjacency": [Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE], "label_bound": [2.0, 2],
    "weight_bound": [2.0, 2], "max_rows_per_group": [1, 2], "releases_norm": [True], "objective": ["accuracy"],
}  # fmt: skip
OTHER_OPTIONS = {
    AcceleratedPlan: {"n_passes": [5, 6], "calibration_share": [0.0, -0.0, 0.1]},
    NewtonPlan: {"n_passes": [5, 6], "calibration_share": [0.0, -0.0, 0.1]},
    SGDPlan: {"learning_rate": [1.0, 1], "clipping_norm": [0.5], "batch_size": [20.0, 20], "epochs": [2.0, 2]},
}


def test_what_differs_in_one_fact_shares_no_plan():
    assert OTHER_FACTS.keys() == {field.name for field in fields(TrainingFacts)}
    given = [facts(), *(facts(**{name: value}) for name, values in OTHER_FACTS.items() for value in values)]
    plans = [plan_of(AcceleratedPlan, each, calibration_share=0.0) for each in given]
    assert [repr(plan.facts) for plan in plans] == [repr(each) for each in given]
    assert len({id(plan) for plan in (*plans, plan_of(NewtonPlan, facts()))}) == len(plans) + 1


@pytest.mark.parametrize("kind", OTHER_OPTIONS)
def test_what_differs_in_one_option_shares_no_plan(kind):
    changed = [{}, *({name: value} for name, values in OTHER_OPTIONS[kind].items() for value in values)]
    assert OTHER_OPTIONS[kind].keys() == {field.name for field in fields(kind)} - {"facts", "choice"}
    plans = [plan_of(kind, facts(), **one, choice=why) for one in changed for why in ("a", "b", ["no hash"], [])]
    assert len({id(plan) for plan in plans}) == len(plans) and plan_of(kind, facts(), choice="a") is plans[0]
    for change, plan in zip(changed, plans[::4], strict=True):
        assert repr(plan.options() | change) == repr(plan.options())
