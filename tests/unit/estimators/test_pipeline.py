"""DPPipeline: one budget, one charge, one receipt; what learns without noise is refused in words."""

import math
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    PolynomialFeatures,
    StandardScaler,
)

import sottovoce as sv
from sottovoce.central.data.streamed import ScratchTable
from sottovoce.estimators import pipeline_plan
from sottovoce.estimators.base import model_digest
from sottovoce.estimators.persistence import load_model, save_model
from sottovoce.estimators.pipeline_plan import model_epsilon, scaler_share
from sottovoce.estimators.search_plan import margins_of
from sottovoce.exceptions import AccountingError, DataError, ParameterError, PrivacyWarning
from sottovoce.privacy.accounting import accountant_for
from sottovoce.privacy.events import GaussianEvent

RNG = np.random.default_rng(0)
X = np.column_stack([RNG.normal(1990.0, 10.0, 3_000), RNG.normal(0.002, 0.001, 3_000), RNG.normal(0.0, 500.0, 3_000)])
SIGNAL = (X[:, 0] - 1990.0) / 10.0 + (X[:, 1] - 0.002) / 0.001
Y = np.where(SIGNAL > 0.0, "yes", "no")
CLASSES = {"classes": ["no", "yes"]}
BUDGET = {"epsilon": 1.0, "delta": 1e-6}


def pipeline(*between, model=None, scaler=None, **changed):
    model = sv.DPLogisticRegression(**CLASSES) if model is None else model
    steps = [("scale", sv.DPScaler() if scaler is None else scaler), *between, ("model", model)]
    return sv.DPPipeline(steps, **(BUDGET | {"random_state": 0} | changed))


@pytest.mark.parametrize(
    ("step", "remedy"),
    [
        (StandardScaler(), "DPScaler, which pays"),
        (SimpleImputer(), "a public rule for missing values"),
        (OneHotEncoder(), "SchemaEncoder, with public categories"),
        (PCA(2), "a step that treats each row by itself"),
        (TfidfVectorizer(), r"a HashingVectorizer: make_pipeline\(HashingVectorizer"),
        (ColumnTransformer([("a", Normalizer(), [0]), ("b", PCA(1), [1])]), r"in place of its 'b' \(PCA\) a step"),
    ],
    ids=lambda one: type(one).__name__ if not isinstance(one, str) else "",
)
def test_steps_that_learn_without_noise_are_refused(step, remedy, noise_is_forbidden):
    with pytest.raises(ParameterError, match=f"the step 'bad' .* learns from the data without noise.*Use {remedy}"):
        pipeline(("bad", step)).fit(X, Y)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (pipeline(epsilon=None), "epsilon is missing"),
        (pipeline(delta=2.0), "delta must be"),
        (pipeline(max_rows_per_group=1), "groups is missing"),
        (pipeline(scaler_share=1.0), "scaler_share must be"),
        (pipeline(adjacency="add-remove"), "n_public is missing"),
        (pipeline(model=StandardScaler()), "the last step 'model' must be one of sottovoce's models"),
        (pipeline(model=sv.DPLogisticRegression(epsilon=1.0)), "epsilon of the step 'model' must be None"),
        (pipeline(scaler=sv.DPScaler(delta=1e-6)), "delta of the step 'scale' must be None"),
        (pipeline(scaler=sv.DPScaler(adjacency="replace-one")), "adjacency of the step 'scale' is 'replace-one'"),
        (pipeline(("two", sv.DPScaler())), "at most one step may be a DPScaler; got 2"),
        (pipeline(("two", sv.DPLinearSVC(**CLASSES))), "the step 'two' .* learns from the data"),
        (sv.DPPipeline([], **BUDGET), "steps is empty"),
        (sv.DPPipeline("steps", **BUDGET), "steps must be a list"),
        (pipeline(("unit", Normalizer()), model=sv.DPLasso(label_bounds=(0, 1), radius=1.0)), "data_bound is missing"),
        (pipeline(("bad", FunctionTransformer(lambda X: X[:, 7]))), "the step 'bad' .* fails on a row of ones"),
    ],
)
def test_parameters_are_checked_before_noise(made, message, noise_is_forbidden):
    with pytest.raises(ParameterError, match=message):
        made.fit(X, Y)


def test_it_learns_what_a_bound_for_all_columns_cannot_show():
    fitted = pipeline().fit(X, Y)
    raw = sv.DPLogisticRegression(data_norm=2_100.0, **BUDGET, **CLASSES, random_state=0).fit(X, Y)
    assert fitted.score(X, Y) > 0.95 > 0.8 > raw.score(X, Y)
    assert list(fitted.classes_) == ["no", "yes"]
    assert fitted.predict_proba(X).shape == (len(X), 2)
    np.testing.assert_allclose(np.exp(fitted.predict_log_proba(X)), fitted.predict_proba(X))
    np.testing.assert_array_equal(fitted.decision_function(X) > 0.0, fitted.predict(X) == "yes")
    assert not hasattr(pipeline(model=sv.DPRidge(label_bounds=(-5, 5))), "predict_proba")


def quotients(X):
    return np.clip(np.nan_to_num(1.0 / X + np.log(X)), -1.0, 1.0)


@pytest.mark.parametrize("entry", [0.0, -1.0, 1.7e308])
@pytest.mark.parametrize("step", [FunctionTransformer(quotients), Normalizer("l1")], ids=lambda one: type(one).__name__)
def test_no_warning_of_a_step_tells_of_a_row(step, entry):
    """In a fit in memory and on disk, and in an evaluation."""
    table, private = np.abs(X[:300]) + 1.0, sv.DPLogisticRegression(**CLASSES, data_norm=2.0)
    table[7] = entry
    with warnings.catch_warnings():
        warnings.filterwarnings("error", category=RuntimeWarning)
        fitted = sv.DPPipeline([("step", step), ("model", private)], **BUDGET).fit(table, Y[:300])
        for rows in (table, ScratchTable.write([(table, Y[:300])], 3)):
            clone(fitted).fit(rows, Y[:300])
            sv.evaluate(fitted, rows, Y[:300], epsilon=1.0)


@pytest.mark.parametrize(
    "model",
    [
        sv.DPLogisticRegression(**CLASSES),
        sv.DPLogisticRegression(classes=["maybe", "no", "yes"]),
        sv.DPLogisticRegression(**CLASSES, solver="sgd"),
        sv.DPLinearSVC(**CLASSES),
        sv.DPSparseLogisticRegression(**CLASSES, radius=3.0),
    ],
    ids=lambda model: f"{type(model).__name__} {getattr(model, 'solver', '')}",
)
def test_the_budget_is_kept_and_used(model):
    made = pipeline(model=model)
    plan = made.plan(*X.shape)
    spent = accountant_for(plan.event).epsilon(plan.event, plan.delta)
    assert 0.9 < spent <= 1.0
    fitted = made.fit(X, Y)
    assert fitted.guarantee_.epsilon == 1.0
    assert fitted.guarantee_.epsilon_at(1e-6) <= 1.0
    assert all(step.guarantee_ is fitted.guarantee_ for _, step in fitted.steps_)


def test_a_model_gets_what_is_left_by_bisection():
    """Also where the profile of the model is no Gaussian one, and where Gaussian DP would promise too much."""
    plan = pipeline(scaler_share=0.3).plan(*X.shape)

    def twice(own):
        return GaussianEvent(1.0 / (2.0 * own))

    left = model_epsilon(plan.scaler, 1.0, 1e-6, twice)
    for own, kept in ((left, True), (1.01 * left, False)):
        event = pipeline_plan.compose(plan.scaler.event, twice(own))
        assert (accountant_for(event).epsilon(event, 1e-6) <= 1.0) is kept
    with pytest.raises(AccountingError, match="leaves nothing to the model"):
        model_epsilon(plan.scaler, 1.0, 1e-6, lambda own: GaussianEvent(1e-3))


def test_the_share_follows_public_facts():
    assert scaler_share(1.0, 1e-6, 10**6, 10, 1.0) == scaler_share(math.inf, 0.0, 100, 10, 1.0) == 0.03
    assert scaler_share(1.0, 1e-5, 426, 30, 1.0) == 0.3
    middle = scaler_share(1.0, 1e-5, 1_347, 64, 1.0)
    assert 0.03 < middle < 0.3 and scaler_share(1.0, 1e-5, 1_347, 64, math.sqrt(2.0)) > middle
    assert pipeline(scaler_share=0.2).plan(*X.shape).scaler.share == 0.2


def test_where_columns_are_hidden_the_model_gets_everything():
    plan = pipeline(epsilon=1e-3, model=sv.DPLinearSVC(**CLASSES, data_norm=2_000.0)).plan(100, 400)
    assert plan.scaler.rounds == () and plan.model_epsilon == 1e-3
    assert plan.event == plan.model.event


@pytest.mark.parametrize(
    "between",
    [
        [("unit", Normalizer())],
        [("squares", PolynomialFeatures(2, include_bias=False)), ("unit", Normalizer())],
        [("log", FunctionTransformer(np.arcsinh)), ("unit", Normalizer())],
        [("some", ColumnTransformer([("unit", Normalizer(), [0, 1])]))],
        [("nothing", "passthrough")],
        [("nothing", None)],
    ],
    ids=lambda steps: "-".join(type(step).__name__ for _, step in steps),
)
def test_steps_that_learn_nothing_are_taken(between):
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="(?!this table was fitted privately before|noise was drawn)")
        fitted = pipeline(*between, model=sv.DPLogisticRegression(**CLASSES, data_norm=2.0)).fit(X, Y)
    assert fitted.score(X, Y) > 0.8
    width = fitted.steps_[-1][1].n_features_in_
    assert fitted.guarantee_.parameters["n_features"] == width
    others = [f'"{name}" ({type(step).__name__})' for name, step in between if step not in (None, "passthrough")]
    assert fitted.guarantee_.parameters["pipeline"]["steps that learn nothing"] == others
    assert sum("treats each row by itself" in line for line in fitted.guarantee_.assumptions) == len(others)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))


@pytest.mark.parametrize(
    "model",
    [
        sv.DPLogisticRegression(**CLASSES),
        sv.DPLogisticRegression(classes=["maybe", "no", "yes"]),
        sv.DPLinearSVC(**CLASSES),
        sv.DPSparseLogisticRegression(**CLASSES, radius=3.0),
        sv.DPRidge(label_bounds=(-5.0, 5.0)),
        sv.DPLasso(label_bounds=(-5.0, 5.0), radius=3.0),
    ],
    ids=lambda model: f"{type(model).__name__} {len(getattr(model, 'classes', ()))}",
)
def test_the_cut_goes_wherever_a_pipeline_goes(model, tmp_path):
    """Into one model, its file, blocks of a table on disk, evaluations, and what scikit-learn can hold."""
    is_regression = hasattr(model, "label_bounds")
    frame = pd.DataFrame(X, columns=["year", "share", "balance"])
    fitted = pipeline(model=model, scaler=sv.DPScaler(cut=1.0)).fit(frame, SIGNAL if is_regression else Y)
    far = pd.concat([frame, 1e6 * frame, -1e6 * frame])
    folded = fitted.folded()
    save_model(folded, tmp_path / "model.json")
    loaded, _ = load_model(tmp_path / "model.json")
    assert loaded.guarantee_ == fitted.guarantee_ and model_digest(loaded) == fitted.guarantee_.model
    parquet = tmp_path / "far.parquet"
    far.to_parquet(parquet, index=False)
    method = "predict" if is_regression else "decision_function"
    wanted = getattr(fitted, method)(far)
    uncut = far.to_numpy() @ np.atleast_2d(folded.coef_).T + folded.intercept_
    assert np.abs(np.squeeze(uncut) - np.squeeze(wanted)).max() > 100.0  # coefficients alone are another model
    for one in (folded, loaded, fitted.to_sklearn(), loaded.to_sklearn()):
        np.testing.assert_allclose(getattr(one, method)(far), wanted, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(
        getattr(loaded, method)(sv.ParquetTable(parquet, dtype="float64")), wanted, rtol=1e-8, atol=1e-8
    )
    np.testing.assert_allclose(
        np.squeeze(margins_of(loaded, np.ascontiguousarray(far))).clip(-5, 5), wanted.clip(-5, 5), atol=1e-8
    )
    sparse = sp.csr_array(np.where(np.abs(far) > 1.0, far, 0.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it has no names
        np.testing.assert_allclose(
            getattr(loaded, method)(sparse), getattr(loaded, method)(sparse.toarray()), rtol=1e-8, atol=1e-8
        )
    for gone in ("coef_", "intercept_"):
        assert not hasattr(fitted, gone)
        with pytest.raises(AttributeError, match=r"folded\(\) has those in the units of the table"):
            getattr(fitted, gone)
    assert fitted._repr_html_()
    again = loaded.set_params(epsilon=1.0, delta=1e-6, random_state=0)
    assert again.fit(frame, SIGNAL if is_regression else Y).column_bounds_ is None


def test_a_sparse_table_is_cut_where_its_zeros_stay():
    sparse = sp.csr_array(np.where(np.abs(X) > 1.0, X, 0.0))
    fitted = pipeline(scaler=sv.DPScaler(with_centering=False, cut=0.5)).fit(sparse, Y)
    folded = fitted.folded()
    for table in (sparse, sparse.toarray()):
        np.testing.assert_allclose(folded.decision_function(table), fitted.decision_function(sparse), atol=1e-9)


def test_without_a_cut_there_is_nothing_but_coefficients():
    fitted = pipeline(scaler=sv.DPScaler(cut=math.inf)).fit(X, Y)
    model = fitted.folded()
    assert model.column_bounds_ is None
    np.testing.assert_allclose(model.decision_function(X), fitted.decision_function(X), rtol=1e-9)
    near = X[np.linalg.norm(fitted[:-1].transform(X), axis=1) <= fitted[-1].row_bound_]
    np.testing.assert_allclose(near @ model.coef_[0] + model.intercept_[0], fitted.decision_function(near), rtol=1e-9)


def test_a_model_whose_solver_shortens_rows_has_behind_a_scaler_the_bound_that_all_cut_rows_keep():
    for options, wanted in (
        ({"model": sv.DPRidge(label_bounds=(-5.0, 5.0))}, 4.0 * math.sqrt(3)),
        ({"scaler": sv.DPScaler(cut=2.0)}, 2.0 * math.sqrt(3)),
        ({"scaler": sv.DPScaler(cut=math.inf)}, "auto"),
        ({"scaler": sv.DPScaler(cut=1e200)}, "auto"),
        ({"model": sv.DPLogisticRegression(**CLASSES, solver="sgd")}, "auto"),
        ({"model": sv.DPLogisticRegression(classes=["maybe", "no", "yes"])}, "auto"),
        ({"model": sv.DPLogisticRegression(**CLASSES, data_norm=2.0)}, 2.0),
    ):
        receipt = pipeline(**options).fit(X, SIGNAL if "label_bounds" in str(options) else Y).guarantee_
        assert receipt.parameters["arguments"]["data_norm"] == wanted


def test_parameters_by_name_clone_and_search_tools():
    made = pipeline()
    assert made.get_params()["model__alpha"] == 1e-5  # as scikit-learn's pipeline has it
    made.set_params(model__alpha=1e-3, scale__bounds=([1900, 0, -2000], [2100, 0.01, 2000]), model__data_norm=3.0)
    fitted = clone(made).fit(X, Y)
    assert fitted.named_steps.model.alpha == 1e-3 and fitted.named_steps["scale"].bounds[1] == [2100, 0.01, 2000]
    assert fitted.named_steps.model.data_norm == 3.0
    assert made.named_steps.model.epsilon is None  # constructor parameters are never written
    assert fitted.steps[-1][1].epsilon is None
    assert cross_val_score(made, X, Y, cv=2).min() > 0.8


def test_it_is_read_like_scikit_learns_pipeline_and_its_steps_are_fitted_by_its_fit_alone():
    made, frame = pipeline(), pd.DataFrame(X, columns=["year", "share", "balance"])
    framed = clone(made).set_output(transform="pandas").fit(frame, Y)
    assert isinstance(made, Pipeline) and len(made) == 2 and made["model"] is made[-1] is made.steps[1][1]
    assert not any(hasattr(step, "guarantee_") for _, step in made.fit(X, Y).steps)
    assert made["model"] is made.named_steps.model is made.steps_[1][1] and type(made[:-1]) is Pipeline
    np.testing.assert_array_equal(made[-1].predict(made[:-1].transform(X)), framed.predict(frame))
    assert list(framed[:-1].transform(frame).columns) == list(framed[-1].feature_names_in_) == list(frame)
    for last in (made[-1], StandardScaler(), "passthrough"):
        for gone in ("fit_transform", "fit_predict", "transform", "get_feature_names_out", "set_callbacks"):
            with pytest.raises(AttributeError, match="a DPPipeline ends in a private model"):
                getattr(sv.DPPipeline([("scale", sv.DPScaler()), ("last", last)]), gone)


def test_a_pipeline_that_fails_is_charged_and_leaves_the_earlier_fit(tmp_path):
    fitted = pipeline().fit(X, Y)
    before = fitted.guarantee_
    broken = X.copy()
    broken[3, 2] = np.inf
    with pytest.raises(DataError, match="column 2"):
        fitted.fit(broken, Y)
    assert fitted.guarantee_ is before and fitted.score(X, Y) > 0.9


def test_classes_read_from_the_data_are_told():
    with pytest.warns(PrivacyWarning, match="classes were read from y") as seen:
        fitted = pipeline(model=sv.DPLogisticRegression()).fit(X, Y)
    assert len([one for one in seen if "classes were read" in str(one.message)]) == 1
    assert any("READ FROM THE DATA" in line for line in fitted.guarantee_.assumptions)


@pytest.mark.parametrize("n_categories", [3, 40])
def test_columns_of_many_categories_are_scaled(n_categories):
    """Such rows are sparse by themselves; where a scaler moves columns they are not."""
    rng = np.random.default_rng(0)
    names = [f"c{k:02}" for k in range(n_categories)]
    table = pd.DataFrame({"age": rng.integers(18, 90, 900), "place": rng.choice(names, 900)})
    y = np.where(table["age"] > 50, "yes", "no")
    facts = {"age": (18, 90), "place": names}

    def fitted(encoder):
        steps = [
            ("encode", encoder),
            ("scale", sv.DPScaler()),
            ("model", sv.DPLogisticRegression(classes=["no", "yes"])),
        ]
        return sv.DPPipeline(steps, epsilon=1.0, delta=1e-6, random_state=0).fit(table, y)

    by_itself, dense = fitted(sv.SchemaEncoder(facts)), fitted(sv.SchemaEncoder(facts, sparse_output=False))
    np.testing.assert_array_equal(by_itself["model"].coef_, dense["model"].coef_)
    np.testing.assert_array_equal(by_itself.predict(table), dense.predict(table))


def test_persons_are_the_unit_of_every_step(monkeypatch):
    seen, release = [], sv.DPScaler.release

    def released(self, X, plan, streams, persons=None):
        seen.append(persons)
        return release(self, X, plan, streams, persons)

    monkeypatch.setattr(sv.DPScaler, "release", released)
    groups = np.repeat(np.arange(1_500), 2)
    fitted = pipeline(max_rows_per_group=1).fit(X, Y, groups=groups)
    assert fitted.guarantee_.unit.startswith("one person")
    np.testing.assert_array_equal(seen[0], groups)


def test_texts_are_made_numbers_before_the_pipeline():
    steps = [("words", HashingVectorizer(n_features=16)), ("model", sv.DPLogisticRegression(**CLASSES))]
    with pytest.raises(ParameterError, match=r"make_pipeline\(HashingVectorizer\(\), DPPipeline\(\.\.\.\)\)"):
        sv.DPPipeline(steps, **BUDGET).fit(["good film", "bad plot"] * 100, ["yes", "no"] * 100)
