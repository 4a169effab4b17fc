"""The public facts of a run: checked once, shown by every plan; and the unit in which solvers see rows."""

import math
from dataclasses import fields

import numpy as np
import pytest

from sottovoce.central.data.lengths import make_rows
from sottovoce.central.data.rows import RowUnit
from sottovoce.central.parallel import Team
from sottovoce.central.plan import TrainingFacts, plan_of
from sottovoce.central.solvers.accelerated import AcceleratedPlan
from sottovoce.central.solvers.newton import NewtonPlan
from sottovoce.central.solvers.sgd import SGDPlan
from sottovoce.estimators._solvers import make_plan
from sottovoce.exceptions import ParameterError
from sottovoce.losses import Logistic, SmoothedHinge, Squared
from sottovoce.privacy.adjacency import Adjacency
from support.solvers import EVERY, by_name

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


@pytest.mark.parametrize("solver", sorted(set(EVERY) - {"auto", "multinomial-scd", "gd", "momentum", "one-step"}))
@pytest.mark.parametrize("epsilon", [1.0, math.inf])
def test_a_plan_shows_its_facts(solver, epsilon):
    given = facts(
        epsilon=epsilon,
        loss=Squared() if solver in ("adassp", "refinement", "constant") else Logistic(),
        label_bound=2.0,
    )
    plan = make_plan(by_name(solver), given, tol=1e-3, max_iter=10)
    for field in fields(TrainingFacts):
        assert getattr(plan, "intercept" if field.name == "constant" else field.name) == getattr(given, field.name)
    assert (plan.n_weights, plan.is_private) == (6, epsilon == 1.0)
    assert plan.alpha_scaled == 1e-3 / (1.0 + 0.2**2)


# another value of each fact and option; or one that is equal, and yet not the same: a receipt shows it as written
OTHER_FACTS = {
    "loss": [Squared(), SmoothedHinge(1.0), type("Logistic", (Logistic,), {})()], "n_samples": [1001],
    "n_features": [6], "n_models": [1], "alpha": [2e-3], "constant": [0.0, -0.0, 1.0, 1], "epsilon": [2.0, 2, 1],
    "delta": [1e-7], "adjacency": [Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE], "label_bound": [2.0, 2],
    "weight_bound": [2.0, 2], "max_rows_per_group": [1, 2], "releases_norm": [True],
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


@pytest.mark.parametrize("constant", [0.0, 0.5])
def test_weights_and_coefficients_predict_the_same(constant):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (20, 3))
    unit, team = RowUnit(2.0, constant), Team(1, None)
    rows = make_rows(X, data_norm=2.0, constant=constant, names=None, team=team)
    weights = rng.normal(size=(2, rows.n_weights))
    coef, intercept = unit.to_user(weights)
    for line in range(2):
        np.testing.assert_allclose(rows.margins(weights[line], team), X @ coef[line] + intercept[line], rtol=1e-12)
    assert rows.constant == unit.entry
    assert (rows.scale == unit.scale).all()
    assert (rows.divisor <= 1.0).all()
