"""A fit is planned once, from public facts, before a value of the data is read."""

from fractions import Fraction

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.evaluation.evaluating import evaluation_plan
from sottovoce.exceptions import ParameterError, PrivacyWarning
from sottovoce.ledger import Ledger
from sottovoce.privacy.accounting import accountant_for

rng = np.random.default_rng(0)
X = rng.uniform(-1.0, 1.0, (60, 3))
Y = np.where(X[:, 0] > 0, "yes", "no")
PUBLIC = {"epsilon": 1.0, "delta": 1e-5}
CLASSES = {"classes": ["no", "yes"]}
MODELS = {
    "ridge": (sv.DPRidge(**PUBLIC, data_norm=2.0, label_bounds=(-1.0, 1.0)), X[:, 0]),
    "lasso": (sv.DPLasso(**PUBLIC, data_bound=1.0, radius=1.0, label_bounds=(-1.0, 1.0)), X[:, 0]),
    "classifier": (sv.DPLogisticRegression(**PUBLIC, data_norm=2.0, **CLASSES), Y),
    "sparse": (sv.DPSparseLogisticRegression(**PUBLIC, data_bound=1.0, radius=1.0, **CLASSES), Y),
    "without noise": (sv.DPLinearSVC(epsilon=np.inf, data_norm=2.0, **CLASSES), Y),
    "scaler": (sv.DPScaler(**PUBLIC), Y),
    "pipeline": (
        sv.DPPipeline([("scale", sv.DPScaler()), ("model", sv.DPLinearSVC(data_norm=2.0, **CLASSES))], **PUBLIC),
        Y,
    ),
    "search": (sv.DPSearchCV(sv.DPLinearSVC(data_norm=2.0, **CLASSES), {"alpha": [1e-3]}, **PUBLIC, n_iter=2), Y),
}


@pytest.fixture
def planned(monkeypatch):
    """The public facts that the model of a test was planned for."""

    def watch(model):
        seen, plan_for = [], type(model).plan_for

        def watched(self, *facts):
            seen.append(facts)
            return plan_for(self, *facts)

        monkeypatch.setattr(type(model), "plan_for", watched)
        return seen

    return watch


@pytest.mark.parametrize(
    ("name", "charged"),
    [*((name, False) for name in MODELS), *((name, True) for name in MODELS if "noise" not in name)],
)
def test_a_fit_is_planned_once(name, charged, planned, tmp_path):
    model, y = MODELS[name]
    charged = charged and model.epsilon < np.inf  # no ledger has a budget for a fit without noise
    ledger = Ledger(f"sqlite:///{tmp_path}/l.db")
    ledger.create("people", epsilon=10.0, delta=1e-3)
    seen = planned(model)
    model.set_params(**{"ledger": ledger, "dataset": "people"} if charged else {"ledger": None, "dataset": None})
    model.fit(X.copy(), y)
    assert seen == [(60, 3, 1)]
    if charged:  # once, and the receipt names the entry
        assert {entry.charge for entry in ledger.history("people") if entry.charge} == {model.charge_.charge}
        assert 0.5 < ledger.spent("people")[0] <= 1.0
        assert model.guarantee_.charge == {
            "ledger": model.charge_.ledger, "dataset": "people", "charge": model.charge_.charge,
            "entry": ledger.head(),
        }  # fmt: skip


def test_it_is_planned_again_where_the_labels_tell_what_was_not_known(planned):
    three = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.3, 0.3])]
    model = sv.DPLogisticRegression(**PUBLIC, data_norm=2.0)
    seen = planned(model)
    with pytest.warns(PrivacyWarning, match="classes were read"):
        model.fit(X.copy(), three)
    assert seen == [(60, 3, 1), (60, 3, 3)]


def test_parameters_are_checked_without_a_table(planned, noise_is_forbidden):
    model, _ = MODELS["ridge"]
    seen = planned(model)
    with pytest.raises(ParameterError, match="tol must be"):
        sv.DPRidge(**model.get_params() | {"tol": -1.0}).fit(["no table"], None)
    assert seen == [(1, 1, 1)]


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.longdouble, Fraction])
@pytest.mark.parametrize(
    ("solver", "option", "value"),
    [
        *((solver, "calibration_share", share) for solver in ("scd", "newton") for share in (0.01, 0.1, 0.3)),
        ("sgd", "clipping_norm", 0.1), ("sgd", "learning_rate", 0.3), ("sgd", "epochs", 7.3),
    ],
)  # fmt: skip
def test_an_option_is_planned_with_in_double_precision_whatever_its_type_is(kind, solver, option, value):
    given = kind(value)
    whole = {"batch_size": kind(60_000.0)} if solver == "sgd" else {}
    plan, same = (
        sv.DPLogisticRegression(**PUBLIC, data_norm=2.0, **CLASSES, solver=solver, solver_options=options).plan(60, 3)
        for options in ({option: given, **whole}, {option: float(given), **whole})
    )
    assert plan.summary() == same.summary()
    assert plan.event == same.event
    assert accountant_for(plan.event).epsilon(plan.event, PUBLIC["delta"]) <= PUBLIC["epsilon"] * (1.0 + 1e-9)


def test_what_a_subclass_plans_by_has_its_say_in_each_fit():
    class Other(sv.DPLogisticRegression):
        times = 1.0

        def _facts(self, n_samples, *, private):
            facts = super()._facts(n_samples, private=private)
            return facts | {"alpha": self.times * facts["alpha"]}

    model, found = Other(**PUBLIC, **CLASSES, data_norm=2.0, random_state=0), []
    for model.times in (1.0, 1e3):
        found.append(model.fit(X, Y).coef_)
    assert not np.array_equal(*found)


def test_classes_that_a_receipt_cannot_read_back_are_refused():
    model = sv.DPLogisticRegression(**PUBLIC, data_norm=2.0, classes=np.array([0, 2**63], np.uint64))
    with pytest.raises(ParameterError, match="classes must be"):
        model.plan(60, 3)


@pytest.mark.parametrize("kind", [np.int8, np.uint16, np.int32, np.int64])
def test_rows_of_a_person_are_counted_without_end_whatever_the_type_of_their_number_is(kind):
    def shown(most):
        persons = {**PUBLIC, "max_rows_per_group": most}
        models = sv.DPRidge(**persons, data_norm=2.0, label_bounds=(-1.0, 1.0)), sv.DPScaler(**persons)
        fitted = sv.DPLogisticRegression(**PUBLIC, data_norm=2.0, **CLASSES).fit(X, Y)
        plans = [
            evaluation_plan(fitted, 60, epsilon=1.0, delta=delta, max_rows_per_group=most) for delta in (0.0, 1e-6)
        ]
        return repr([*(model.plan(60, 3).summary() for model in models), *(plan.mechanisms for plan in plans)])

    assert shown(kind(100)) == shown(100)
