"""Fits charge the ledger: before the data are read, once, what their plan says; models do not carry the ledger."""

import json
import warnings

import numpy as np
import pytest
from sklearn.base import clone

import sottovoce as sv
from sottovoce.estimators.persistence import model_from_json, model_to_json
from sottovoce.exceptions import AccountingError, BudgetError, DataError, LedgerError, ParameterError
from sottovoce.ledger import Ledger
from sottovoce.ledger.ledger import Charge
from sottovoce.vertical import Party, VerticalLasso, VerticalLogisticRegression, VerticalRidge, split_columns

RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, (300, 3))
Y = np.where(X[:, 0] > 0, 1, 0)
T = X[:, 0]
SPEND = {"epsilon": 0.5, "delta": 1e-6}
CLASSIFIER = {"data_norm": 1.0, "classes": [0, 1], **SPEND}
RIDGE = {"data_norm": 1.0, "label_bounds": (-1, 1), **SPEND}


@pytest.fixture
def ledger(tmp_path):
    made = Ledger(f"sqlite:///{tmp_path / 'budget.db'}")
    made.create("people", epsilon=3.0, delta=1e-5)
    return made


def models():
    return {
        "ridge": (sv.DPRidge(**RIDGE), T),
        "adassp": (sv.DPRidge(solver="adassp", **RIDGE), T),
        "logistic": (sv.DPLogisticRegression(**CLASSIFIER), Y),
        "objective": (sv.DPLogisticRegression(solver="objective", **CLASSIFIER), Y),
        "minibatch": (sv.DPLogisticRegression(solver="minibatch-scd", **CLASSIFIER), Y),
        "svm": (sv.DPLinearSVC(**CLASSIFIER), Y),
        "lasso": (sv.DPLasso(data_bound=1.0, radius=1.0, label_bounds=(-1, 1), **SPEND), T),
        "sparse": (sv.DPSparseLogisticRegression(data_bound=1.0, radius=1.0, classes=[0, 1], **SPEND), Y),
        "search": (
            sv.DPSearchCV(sv.DPRidge(data_norm=1.0, label_bounds=(-1, 1)), {"alpha": [1e-3, 1e-2]}, n_iter=3, **SPEND),
            T,
        ),
    }


@pytest.mark.parametrize("name", models())
def test_a_fit_is_one_charge_of_its_plan(ledger, name):
    model, y = models()[name]
    planned = sv.plan(model, *X.shape)
    model.set_params(ledger=ledger, dataset="people").fit(X, y)
    (record,) = ledger.history("people")
    assert (record.state, record.event, record.seeded) == ("committed", planned.event, False)
    assert record.committed_event == model.guarantee_.event
    assert (record.delta, record.adjacency) == (planned.delta, planned.adjacency)
    assert record.plan["estimator"] == type(model).__name__
    assert record.plan["n_samples"] == 300 and record.plan["epsilon"] == 0.5
    assert isinstance(model.charge_, Charge) and model.charge_.hash == ledger.head()
    assert ledger.spent("people")[0] <= 0.5  # at the budget's delta, which is larger than the fit's
    assert ledger.verify(model.charge_.hash).ok


def test_a_fit_without_a_ledger_has_no_charge():
    assert sv.DPRidge(**RIDGE).fit(X, T).charge_ is None


def test_an_address_serves_as_well_as_an_object_and_clones_charge_again(ledger):
    model = clone(sv.DPRidge(ledger=ledger.url, dataset="people", **RIDGE).fit(X, T))
    model.fit(X, T)
    assert [record.state for record in ledger.history("people")] == ["committed"] * 2


def test_a_seeded_fit_is_charged_and_marked(ledger):
    sv.DPRidge(ledger=ledger, dataset="people", random_state=0, **RIDGE).fit(X, T)
    (record,) = ledger.history("people")
    assert record.seeded and not record.is_private and record.counts


class Watched:
    """A table that tells whether its values were looked at; its size is public."""

    shape = X.shape
    ndim = 2

    def __init__(self):
        self.looks = 0

    def __len__(self):
        return len(X)

    def __array__(self, dtype=None, copy=None):
        self.looks += 1
        return np.array(X, dtype=dtype)


@pytest.mark.parametrize("name", ["ridge", "logistic", "lasso", "search"])
def test_what_does_not_fit_is_refused_before_the_data_are_looked_at(ledger, name):
    model, y = models()[name]
    table = Watched()
    model.set_params(epsilon=4.0, ledger=ledger, dataset="people")
    with pytest.raises(BudgetError, match=r"budget of epsilon=3\.0"):
        model.fit(table, y)
    assert table.looks == 0 and ledger.history("people") == []
    model.set_params(epsilon=0.5).fit(table, y)
    assert table.looks > 0 and len(ledger.history("people")) == 1


def test_the_charge_is_there_when_the_data_are_looked_at(ledger):
    states = []

    class Spy(Watched):
        def __array__(self, dtype=None, copy=None):
            states.append([record.state for record in ledger.history("people")])
            return super().__array__(dtype, copy)

    sv.DPRidge(ledger=ledger, dataset="people", **RIDGE).fit(Spy(), T)
    assert states and all(state == ["reserved"] for state in states)


def test_bad_data_cost_nothing_and_a_crash_after_the_noise_costs_all(ledger, monkeypatch):
    model = sv.DPRidge(ledger=ledger, dataset="people", **RIDGE)
    broken = X.copy()
    broken[3, 1] = np.nan
    with pytest.raises(DataError, match="NaN"):
        model.fit(broken, T)
    with pytest.raises(DataError):
        model.fit(X, 9.0 * T)
    assert [record.state for record in ledger.history("people")] == ["cancelled"] * 2
    assert ledger.spent("people")[0] == 0.0
    from sottovoce.central.scd.accelerated import AcceleratedPlan

    solve = AcceleratedPlan.solve

    def interrupted(self, *arguments):
        solve(self, *arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(AcceleratedPlan, "solve", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        model.fit(X, T)
    assert "counts as spent" in caught.value.__notes__[0]
    assert ledger.history("people")[-1].state == "reserved" and ledger.spent("people")[0] > 0.3


def test_a_run_that_cost_more_than_its_plan_is_not_handed_out(ledger, monkeypatch):
    from dataclasses import replace

    from sottovoce.central.scd.accelerated import AcceleratedPlan
    from sottovoce.privacy.events import RepeatedEvent

    solve = AcceleratedPlan.solve

    def dearer(self, *arguments):
        solution = solve(self, *arguments)
        return replace(solution, event=RepeatedEvent(solution.event, 2))

    monkeypatch.setattr(AcceleratedPlan, "solve", dearer)
    model = sv.DPRidge(ledger=ledger, dataset="people", **RIDGE)
    with pytest.raises(AccountingError, match="cost more than was reserved"):
        model.fit(X, T)
    assert not hasattr(model, "coef_")
    assert ledger.history("people")[0].state == "reserved"


def test_without_noise(ledger):
    model = sv.DPRidge(**{**RIDGE, "epsilon": np.inf}, ledger=ledger, dataset="people")
    with pytest.raises(BudgetError, match="without protection"):
        model.fit(X, T)
    ledger.create("public", epsilon=1.0, delta=1e-6, allow_nonprivate=True)
    model.set_params(dataset="public").fit(X, T)
    assert ledger.history("public")[0].state == "committed"
    assert not ledger.history("public")[0].is_private and ledger.spent("public")[0] == 0.0


def test_adjacencies_must_fit(ledger):
    model = sv.DPRidge(adjacency="replace-one", ledger=ledger, dataset="people", **RIDGE)
    with pytest.raises(AccountingError, match="'replace-one' gives no guarantee for 'zero-out'"):
        model.fit(X, T)
    ledger.create("replaced", epsilon=3.0, delta=1e-5, adjacency="replace-one")
    model.set_params(dataset="replaced").fit(X, T)
    alone = ledger.spent("replaced")[0]
    ledger.create("replaced too", epsilon=3.0, delta=1e-5, adjacency="replace-one")
    model.set_params(dataset="replaced too", adjacency="zero-out").fit(X, T)
    assert ledger.spent("replaced too")[0] > 1.9 * alone


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"dataset": None}, ParameterError, "dataset is missing"),
        ({"ledger": None}, ParameterError, "ledger is missing"),
        ({"ledger": 3}, ParameterError, "ledger must be a Ledger or its address"),
        ({"dataset": 3}, ParameterError, "dataset must be the name"),
        ({"dataset": "others"}, LedgerError, "'others' is not in this ledger"),
        ({"ledger": "sqlite:///none/typo.db"}, LedgerError, "there is no ledger"),
        ({"classes": None}, ParameterError, "classes is missing"),
    ],
)
def test_bad_input(ledger, changed, error, message):
    table = Watched()
    model = sv.DPLogisticRegression(**{**CLASSIFIER, "ledger": ledger, "dataset": "people", **changed})
    search = sv.DPSearchCV(
        sv.DPLogisticRegression(data_norm=1.0, classes=changed.get("classes", [0, 1])),
        {"alpha": [1e-3]},
        **{"ledger": ledger, "dataset": "people", **SPEND, **{k: v for k, v in changed.items() if k != "classes"}},
    )
    for estimator in (model, search):
        with pytest.raises(error, match=message):
            estimator.fit(table, Y)
    assert table.looks == 0 and ledger.history("people") == []


def test_the_estimator_of_a_search_has_no_ledger_of_its_own(ledger):
    inner = sv.DPRidge(data_norm=1.0, label_bounds=(-1, 1), ledger=ledger, dataset="people")
    with pytest.raises(ParameterError, match="ledger of the estimator must be None"):
        sv.DPSearchCV(inner, {"alpha": [1e-3]}, **SPEND).fit(X, T)


def test_model_files_name_the_entry_and_not_the_place_of_the_ledger(ledger):
    ledger.create("volunteers", epsilon=1.0, delta=1e-5)
    model = sv.DPRidge(ledger=ledger, dataset="volunteers", **RIDGE).fit(X, T)
    text = model_to_json(model)
    assert ledger.url not in text and model.charge_.hash in text
    assert json.loads(text)["guarantee"]["ledger"]["dataset"] == "volunteers"
    assert not {"ledger", "dataset"} & set(json.loads(text)["parameters"])
    loaded, _ = model_from_json(text)
    assert (loaded.ledger, loaded.dataset) == (None, None)
    assert (loaded.predict(X) == model.predict(X)).all()


def parties():
    return [Party(X[:, :2], name="a", data_norm=1.0), Party(X[:, 2:], name="b", data_norm=1.0)]


@pytest.mark.parametrize("mechanism", ["local-models", "noisy-features", "noisy-admm"])
def test_vertical_fits_are_charged_once_for_all_parties(ledger, mechanism):
    ledger.create("aligned", epsilon=3.0, delta=1e-5, adjacency="replace-one")
    model = VerticalLogisticRegression(classes=[0, 1], mechanism=mechanism, **SPEND)
    model.set_params(ledger=ledger, dataset="aligned").fit(parties(), Y)
    (record,) = ledger.history("aligned")
    assert (record.state, record.event) == ("committed", model.plan_.event)
    assert record.plan["parties"] == {"a": 2, "b": 1} and model.charge_.hash == ledger.head()
    assert clone(model).ledger.spent("aligned") == ledger.spent("aligned")


@pytest.mark.parametrize("aggregation", ["local", "global"])
def test_sparse_vertical_fits_are_charged_once_for_all_parties(ledger, aggregation):
    ledger.create("aligned", epsilon=3.0, delta=1e-5, adjacency="replace-one")
    held = split_columns(X, {"a": [0, 1], "b": [2]}, data_bound={"a": 0.5, "b": 0.5})
    model = VerticalLasso(label_bounds=(-1, 1), radius=2.0, aggregation=aggregation, n_steps=3, **SPEND)
    model.set_params(ledger=ledger, dataset="aligned").fit(held, T)
    (record,) = ledger.history("aligned")
    assert (record.state, record.event) == ("committed", model.plan_.event)
    assert ledger.spent("aligned")[0] > 0.4


def test_vertical_fits_that_do_not_fit(ledger):
    ledger.create("aligned", epsilon=0.1, delta=1e-5, adjacency="replace-one")
    model = VerticalRidge(label_bounds=(-1, 1), ledger=ledger, dataset="aligned", **SPEND)
    with pytest.raises(BudgetError):
        model.fit(parties(), T)
    with pytest.raises(AccountingError, match="'replace-one' gives no guarantee for 'zero-out'"):
        model.set_params(dataset="people").fit(parties(), T)
    ledger.create("more", epsilon=1.0, delta=1e-5, adjacency="replace-one")
    with pytest.raises(DataError, match="one label for each"):
        model.set_params(dataset="more").fit(parties(), T[:-1])
    assert [record.state for record in ledger.history("more")] == ["cancelled"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(parties(), T)
    assert ledger.history("more")[-1].state == "committed"
