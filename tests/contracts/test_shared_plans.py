"""Fits share a plan where every public fact and option is the same; that their models are, `test_core` asks."""

from dataclasses import MISSING, fields, replace

import pytest

from sottovoce.central.plan import TrainingFacts, plan_of
from sottovoce.central.solvers.accelerated import AcceleratedPlan
from sottovoce.central.solvers.frank_wolfe import FrankWolfePlan
from sottovoce.central.solvers.momentum import MomentumPlan
from sottovoce.central.solvers.newton import NewtonPlan
from sottovoce.central.solvers.sgd import SGDPlan
from sottovoce.losses import Huber, Logistic, Squared
from sottovoce.privacy.adjacency import Adjacency

FACTS = TrainingFacts(
    loss=Logistic(), n_samples=1000, n_features=4, n_models=1, alpha=1e-3, constant=0.0, epsilon=1.0, delta=1e-6,
    adjacency=Adjacency.ZERO_OUT, label_bound=2.0,
)  # fmt: skip
# another value of each fact; or one that is equal, and yet not the same: a receipt shows it as it was written
OTHER_FACTS = {
    "loss": [Squared(), Huber(1.0), Huber(2.0), type("Logistic", (Logistic,), {})()], "n_samples": [1001],
    "n_features": [5], "n_models": [2], "alpha": [2e-3], "constant": [-0.0, 1.0, 1], "epsilon": [2.0, 2, 1],
    "delta": [1e-7], "adjacency": [Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE], "label_bound": [None, 3.0, 2],
    "weight_bound": [2.0, 3.0, 2], "max_rows_per_group": [1, 2], "releases_norm": [True],
}  # fmt: skip
OTHER_OPTIONS = {
    AcceleratedPlan: {"n_passes": [5, 6], "calibration_share": [0.0, -0.0, 0.1], "proved": [True]},
    NewtonPlan: {"n_passes": [5, 6], "calibration_share": [0.0, -0.0, 0.1]},
    SGDPlan: {"learning_rate": [1.0, 1], "clipping_norm": [0.5], "batch_size": [20.0, 20], "epochs": [2.0, 2]},
    FrankWolfePlan: {"radius": [2.0, 2], "n_steps_given": [5], "constraint": ["simplex"]},
}


def test_what_differs_in_one_fact_shares_no_plan():
    assert OTHER_FACTS.keys() == {field.name for field in fields(TrainingFacts)}
    facts = [FACTS, *(replace(FACTS, **{name: value}) for name, values in OTHER_FACTS.items() for value in values)]
    plans = [plan_of(AcceleratedPlan, each, calibration_share=0.0) for each in facts]
    assert [repr(plan.facts) for plan in plans] == [repr(each) for each in facts]
    plans += [plan_of(kind, FACTS) for kind in (MomentumPlan, NewtonPlan)]
    assert len({id(plan) for plan in plans}) == len(plans)


@pytest.mark.parametrize("kind", OTHER_OPTIONS)
def test_what_differs_in_one_option_shares_no_plan(kind):
    given = {field.name: 1.0 for field in fields(kind) if field.default is MISSING}
    changed = [{}, *({name: value} for name, values in OTHER_OPTIONS[kind].items() for value in values)]
    assert OTHER_OPTIONS[kind].keys() == {field.name for field in fields(kind)} - {"facts", "choice"}
    plans = [plan_of(kind, FACTS, **given | change, choice=why) for change in changed for why in ("a", "b")]
    assert len({id(plan) for plan in plans}) == len(plans)
    assert plan_of(kind, FACTS, **given, choice="a") is plans[0]
    for change, plan in zip(changed[1:], plans[2::2], strict=True):
        assert repr(plan.options() | change) == repr(plan.options())


def test_an_option_without_a_hash_shares_nothing():
    one, other = (plan_of(MomentumPlan, FACTS, choice=["no hash"]) for _ in range(2))
    assert one is not other and one.event == other.event
