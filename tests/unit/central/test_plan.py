"""The frozen plan: public facts in, noise and event out, and the run keeps to it."""

import gc
import math
import weakref

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.central.plan import TrainingFacts
from sottovoce.central.solvers.newton import NewtonPlan
from sottovoce.estimators.base import LEFT_OUT, _planned, planned
from sottovoce.exceptions import AccountingError, ParameterError, PrivacyWarning
from sottovoce.losses import Logistic
from sottovoce.papers.dp_scd import Minibatch, Published
from sottovoce.privacy.accounting import accountant_for
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.privacy.calibration import gaussian_mu

rng = np.random.default_rng(0)
X = rng.normal(size=(200, 5))
X /= np.linalg.norm(X, axis=1, keepdims=True)
SIGN = np.where(X[:, 0] > 0, 1, -1)


def logistic(**changed):
    return sv.DPLogisticRegression(
        **{"epsilon": 1.0, "delta": 1e-5, "data_norm": 1.0, "classes": [-1, 1], "random_state": 0, **changed}
    )


def test_a_run_that_spends_more_than_its_plan_gets_no_receipt(monkeypatch):
    twice = property(lambda split: 2 * split.whole)
    monkeypatch.setattr("sottovoce.central.split.Split.steps", twice, raising=False)
    with pytest.raises(AccountingError, match=r"more than the epsilon=1\.0 of this receipt"):
        logistic().fit(X, SIGN)


def test_plan_needs_an_estimator_of_ours():
    with pytest.raises(ParameterError, match="estimator must be one of sottovoce's estimators; got int"):
        sv.plan(3, 10, 2)


def test_plan_summary_says_what_is_spent():
    summary = sv.plan(logistic(), 1000, 5).summary()
    assert summary["epsilon"] == 1.0
    assert summary["mu (Gaussian DP) of the whole run"] == pytest.approx(gaussian_mu(1.0, 1e-5))
    assert "noise multiplier" in summary["event"]
    assert "\n" not in summary["event"]
    assert sv.plan(logistic(solver=Minibatch()), 1000, 5).summary()["noise multiplier of a step"] > 0.5


def test_no_noise_says_so():
    receipt = logistic(epsilon=math.inf, alpha=1e-3).fit(X, SIGN).guarantee_
    assert receipt.epsilon == math.inf
    assert receipt.statement().startswith("NOT PRIVATE: this model was trained without noise")
    assert receipt.epsilon_at(1e-5) == math.inf
    assert not receipt.is_private
    assert receipt.not_covered == ("everything: no noise was added",)


PAPER = {"batch_size": 20, "clipping_norm": 0.05, "epochs": 5}


class TestPaper:
    """The published algorithm: its receipt states what holds, not what was claimed."""

    def fit(self, **changed):
        with pytest.warns(PrivacyWarning, match="its claim of epsilon=1 does not hold, the receipt states epsilon="):
            return logistic(solver=Published(**PAPER), **changed).fit(X, SIGN)

    def test_receipt(self):
        model = self.fit()
        plan = sv.plan(model, *X.shape)
        receipt = model.guarantee_
        # every row is in exactly 5 Gaussian mechanisms with the published multiplier
        held = accountant_for(plan.event)
        assert held.mu(plan.event) == pytest.approx(math.sqrt(5) / plan.noise_multiplier)
        assert receipt.epsilon == held.epsilon(plan.event, 1e-5) > 1.5
        assert receipt.parameters["epsilon claimed by the paper's accounting"] == 1.0
        assert model.n_iter_ == 50

    def test_moments_accountant_of_the_paper(self):
        """The multiplier is the one that Abadi et al.'s accountant with 128 moments asks for."""
        from sottovoce.papers.dp_scd.published import MomentsAccountant
        from sottovoce.privacy.events import GaussianEvent, PoissonSampledEvent, RepeatedEvent

        plan = sv.plan(logistic(solver=Published(**PAPER)), *X.shape)
        claimed = RepeatedEvent(PoissonSampledEvent(0.1, GaussianEvent(plan.noise_multiplier)), 50)
        assert MomentsAccountant().epsilon(claimed, 1e-5) == pytest.approx(1.0, rel=5e-3)


@pytest.mark.parametrize("epsilon", [1.0, math.inf])
def test_a_notebook_shows_a_plan_in_plain_words_first(epsilon):
    shown = sv.plan(logistic(epsilon=epsilon), 1000, 5)._repr_html_()
    first = shown.partition("</tr>")[0]
    assert ("no noise" if math.isinf(epsilon) else "private for one row of the table") in first
    assert "The table has 1,000 rows and 5 columns." in first
    assert ("sottovoce.forecast" in first) == math.isfinite(epsilon)
    assert "<th" in shown.partition("alpha")[0]


def test_a_plan_for_persons_says_so_in_a_notebook():
    assert "private for one person" in sv.plan(logistic(max_rows_per_group=3), 1000, 5)._repr_html_()


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
    "class_weight": [{-1: 1.0, 1: 2.0}, {-1: 2.0, 1: 2.0}], "classes": [[1, 2], [-1.0, 1.0], ["-1", "1"], np.arange(2)],
    "solver": ["scd", "sgd", "newton", NewtonPlan(), NewtonPlan(n_passes=5)],
    "solver_options": [{}, {"calibration_share": 0.0}, {"calibration_share": -0.0}],
}  # fmt: skip


def test_what_differs_in_one_argument_or_size_shares_no_plan():
    assert OTHERS.keys() == {*logistic().get_params()} - {*LEFT_OUT}
    models = [logistic(**{"n_public": 1000, name: one}) for name in ("adjacency", "n_public") for one in OTHERS[name]]
    models += [logistic(**{name: one}) for name in OTHERS for one in OTHERS[name] if name != "adjacency"]
    sizes = [(1000, 5, 1), (1001, 5, 1), (1000, 6, 1), (1000, 5, 3)]
    asked = [*((logistic(), *size) for size in sizes), *((model, *sizes[0]) for model in models)]
    plans = [planned(*each) for each in asked]
    assert len({id(plan) for plan in plans}) == len(plans)
    made = [model.plan_for(*size) for model, *size in asked]
    for each in (lambda plan: (type(plan), plan.event), lambda plan: repr((plan.facts, plan.options(), plan.choice))):
        assert list(map(each, plans)) == list(map(each, made))
    assert planned(logistic(random_state=None), *sizes[0]) is plans[0]


def test_what_is_shared_holds_nothing_of_a_fit():
    table = X.copy()
    model = logistic(intercept_scaling=0.7, random_state=None).fit(table, SIGN)
    gone = [weakref.ref(model), weakref.ref(table), weakref.ref(model.coef_)]
    del model, table
    gc.collect()
    assert [one() for one in gone] == [None] * 3
    before = _planned.cache_info().currsize  # where the number of rows is secret, nothing is kept of it
    planned(logistic(adjacency="add-remove", n_public=1000), 987, 5, 1)
    assert _planned.cache_info().currsize == before
