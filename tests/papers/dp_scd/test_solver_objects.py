"""A solver object goes where a name goes: clone, text, plan, search, model files, receipts, ledgers."""

import dataclasses
import math

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone

import sottovoce as sv
from sottovoce.central.plan import Plan
from sottovoce.exceptions import ParameterError
from sottovoce.papers import dp_scd
from sottovoce.papers.dp_scd import Minibatch, Primal, Published, Sequential
from sottovoce.privacy.accounting import accountant_for
from sottovoce.report import verify_receipt

rng = np.random.default_rng(0)
X = rng.normal(size=(200, 4))
X /= np.linalg.norm(X, axis=1, keepdims=True)
Y = np.where(X[:, 0] > 0, 1, 0)
PUBLIC = {"epsilon": 1.0, "delta": 1e-5, "data_norm": 1.0, "classes": [0, 1], "random_state": 0}


def logistic(solver, **changed):
    return sv.DPLogisticRegression(solver=solver, **(PUBLIC | changed))


def test_a_clone_has_the_same_solver_and_its_text_is_python():
    model = logistic(Sequential(batch_size=7))
    copied = clone(model)
    assert copied.get_params()["solver"] == Sequential(batch_size=7)
    assert "solver=Sequential(batch_size=7, clipping_norm=0.001, epochs=3)" in repr(model).replace("\n", "").replace(
        " " * 39, " "
    )
    np.testing.assert_array_equal(model.fit(X, Y).coef_, copied.fit(X, Y).coef_)
    with pytest.raises(dataclasses.FrozenInstanceError):
        model.solver.epochs = 4


@pytest.mark.parametrize("kind", dp_scd.SOLVERS)
def test_every_option_of_a_plan_is_a_field_of_its_object(kind):
    given, plan = kind(), sv.plan(logistic(kind()), 200, 4)
    assert type(plan) is kind and given.facts is None and plan.facts.n_samples == 200
    assert plan.solver == f"papers.dp_scd.{kind.__name__}"
    common = {field.name for field in dataclasses.fields(Plan)}
    assert given.options().keys() == {field.name for field in dataclasses.fields(kind)} - common
    assert plan.options() == given.options()


def test_an_unknown_option_is_refused_where_it_is_written():
    with pytest.raises(TypeError, match="batch_size"):
        Primal(batch_size=3)


def test_options_go_into_the_object():
    with pytest.raises(ParameterError, match=r"solver_options must be None: solver=Published\(.*\) has its options"):
        logistic(Published(), solver_options={"epochs": 2}).plan(200, 4)


@pytest.mark.parametrize("solver", ["paper-scd", "seq-scd", "primal-scd", "minibatch-scd", "sequential", Published])
def test_what_is_no_object_is_refused_in_words(solver):
    with pytest.raises(ParameterError, match=r"solver must be one of 'auto', 'scd'.*solver object"):
        logistic(solver).plan(200, 4)


def test_without_privacy_it_trains_as_every_solver_does():
    model = logistic(Sequential(), epsilon=math.inf).fit(X, Y)
    assert model.guarantee_.parameters["solver"] == "sdca (no privacy)"
    assert model.guarantee_.statement().startswith("NOT PRIVATE")


@pytest.mark.filterwarnings("ignore::sottovoce.exceptions.SottovoceWarning")
@pytest.mark.usefixtures("coarse_losses")
@pytest.mark.parametrize("solver", [Minibatch(epochs=2.0), Published(batch_size=50), Sequential(), Primal(epochs=2)])
def test_a_stored_model_predicts_and_is_verified_by_whoever_has_the_class(tmp_path, solver):
    model = logistic(solver).fit(X, Y)
    path = tmp_path / "model.json"
    sv.save_model(model, path)
    again, _ = sv.load_model(path)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert verify_receipt(path, solvers=dp_scd.SOLVERS).passed
    assert not verify_receipt(path).passed
    sv.save_model(again, tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == path.read_text()
    name = type(solver).__name__
    with pytest.raises(ParameterError, match=rf"the object 'papers\.dp_scd\.{name}'.* give the object itself"):
        again.fit(X, Y)


@pytest.mark.filterwarnings("ignore::sottovoce.exceptions.SottovoceWarning")
def test_a_ledger_is_charged_with_what_holds_and_not_with_what_is_claimed(tmp_path):
    ledger = sv.Ledger(f"sqlite:///{tmp_path / 'budget.db'}")
    ledger.create("people", epsilon=100.0, delta=1e-4)
    model = logistic(Published(batch_size=20), ledger=ledger, dataset="people", random_state=None).fit(X, Y)
    (record,) = ledger.history("people")
    assert record.event == model.guarantee_.event
    assert accountant_for(record.event).epsilon(record.event, 1e-5) == model.guarantee_.epsilon > 1.5
    assert record.plan["solver"] == "papers.dp_scd.Published"


def test_a_search_may_choose_among_objects():
    space = {"solver": [Primal(epochs=2), Primal(epochs=4)]}
    search = sv.DPSearchCV(
        sv.DPLogisticRegression(data_norm=1.0, classes=[0, 1]),
        space,
        epsilon=2.0,
        delta=1e-5,
        n_iter=2.0,
        random_state=0,
    ).fit(X, Y)
    assert search.best_params_["solver"] in space["solver"]
    assert search.guarantee_.parameters["solver"] == "papers.dp_scd.Primal"


@pytest.mark.filterwarnings("ignore::sottovoce.exceptions.SottovoceWarning")
@pytest.mark.parametrize("solver", [Sequential(batch_size=50), Published(batch_size=50)])
def test_places_of_public_rows_that_are_not_there_are_never_read(solver):
    """Memory behind the table was: what lies there is nobody's row, or no memory at all."""
    for n_public, make in ((1, np.asarray), (199, csr_array), (201, np.asarray), (10_000, csr_array)):
        model = logistic(solver, n_public=n_public, accept_delta=0.01)
        assert np.isfinite(model.fit(make(X), Y).coef_).all() and model.plan(200, 4).n_samples == n_public
