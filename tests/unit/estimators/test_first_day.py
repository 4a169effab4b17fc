"""What a new user does on the first day: a large delta, many fits of one table, a fitted scaler before the model."""

import gc
import itertools
import math
import re
import threading
import warnings
import weakref
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.feature_selection import SelectFromModel
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, Normalizer, PolynomialFeatures, StandardScaler
from typer.testing import CliRunner

import sottovoce as sv
from sottovoce import vertical
from sottovoce._validation import refuse_large_delta, warn_of_large_delta
from sottovoce.cli import app
from sottovoce.estimators import _callers
from sottovoce.exceptions import ParameterError, PrivacyWarning
from sottovoce.ledger import Ledger
from sottovoce.report import receipt_page, verify_receipt
from sottovoce.report.verdict import verdict_of
from support.receipts import classifier, joint, lasso, reports, ridge, searched

N = 400
BUDGET = {"epsilon": 1.0, "delta": 1e-5, "data_norm": 2.0}


_TABLES = itertools.count(5)


def fresh(n=N):
    return np.random.default_rng(next(_TABLES)).uniform(0.0, 1.0, (n, 3))


def labels(X):
    return (np.asarray(X)[:, 0] > 0.5).astype(int)


def model(**options):
    return sv.DPLogisticRegression(**{**BUDGET, "classes": [0, 1]} | options)


# --- delta ------------------------------------------------------------------------------------------------------------

KINDS = {
    "ridge": ridge,
    "lasso": lasso,
    "classifier": lambda **options: classifier(sv.DPLinearSVC, **options),
    "sparse": lambda **options: classifier(sv.DPSparseLogisticRegression, data_bound=1.0, radius=2.0, **options),
    "search": searched,
    "vertical": lambda **options: joint(vertical.VerticalRidge, **options),
    "vertical lasso": lambda **options: joint(vertical.VerticalLasso, aggregation="local", **options),
}  # all of them on 400 rows: 1 / n = 0.0025, 1 / sqrt(n) = 0.05


@pytest.mark.parametrize("kind", KINDS)
def test_a_delta_of_one_in_n_warns(kind):
    with pytest.warns(PrivacyWarning, match=r"delta=0.0025 is not below 1 / n = 0.0025 for the public n = 400"):
        fitted = KINDS[kind](delta=1 / N)
    assert verdict_of(fitted.guarantee_).kind == "weak"
    assert "delta is not below 1 in 400" in receipt_page(fitted.guarantee_)
    quiet = KINDS[kind](delta=0.99 / N)  # warnings are errors
    assert verdict_of(quiet.guarantee_).kind != "weak" or quiet.guarantee_.delta > 1e-3


@pytest.mark.parametrize("kind", KINDS)
def test_a_delta_of_one_in_the_root_of_n_has_to_be_said_twice(kind, monkeypatch):
    with pytest.raises(ParameterError, match=re.escape("say it twice: accept_delta=0.05")):
        KINDS[kind](delta=0.05)
    with pytest.raises(ParameterError, match="say it twice"):
        KINDS[kind](delta=0.05, accept_delta=0.06)
    with pytest.warns(PrivacyWarning, match=r"delta=0.05 is not below 1 / n"):
        fitted = KINDS[kind](delta=0.05, accept_delta=0.05)
    assert fitted.guarantee_.delta == 0.05


def test_the_public_number_of_rows_counts():
    with pytest.raises(ParameterError, match="public n = 1000000"):
        model(adjacency="add-remove", n_public=10**6, delta=0.01).fit(fresh(), labels(fresh()))
    with pytest.warns(PrivacyWarning, match="for the public n = 300:"):
        model(adjacency="add-remove", n_public=300, delta=0.01).plan(10**9, 3)
    with pytest.raises(ParameterError, match="accept_delta must be"):
        model(accept_delta=2.0).plan(10, 3)
    assert model(epsilon=math.inf, delta=0.9).plan(1000, 3).is_private is False


def test_limits_of_delta():
    refuse_large_delta(0.9999, 1, None)
    refuse_large_delta(math.nextafter(0.1, 0.0), 100, None)
    with pytest.raises(ParameterError, match="publishes 10 of the 100 rows"):
        refuse_large_delta(0.1, 100, None)
    with pytest.raises(ParameterError, match=r"1 / n = 0\.01\.$"):
        refuse_large_delta(0.1, 100, None, acceptable=False)
    warn_of_large_delta(0.0099, 100)
    with pytest.warns(PrivacyWarning, match="such as 1e-03"):
        warn_of_large_delta(0.01, 100)


def test_the_central_epsilon_of_shuffled_reports():
    with pytest.warns(PrivacyWarning, match="delta=0.01 is not below 1 / n = 0.005"):
        reports(shuffled=True, delta=0.01)
    with pytest.raises(ParameterError, match="or more for the public n = 200"):
        reports(shuffled=True, delta=0.1)


def test_the_command_line_asks_twice(tmp_path):
    (tmp_path / "t.csv").write_text("y,a,b\n" + "".join(f"{k % 2},{k % 2}.5,1\n" for k in range(100)))
    (tmp_path / "t.toml").write_text(
        'format = "sottovoce-schema"\nversion = 1\ntarget = "y"\n[columns]\ny = {type = "numeric", bounds = [0, 1]}\n'
        'a = {type = "numeric", bounds = [0, 2]}\nb = {type = "numeric", bounds = [0, 2]}\n'
    )
    facts = ["--model", "ridge", "--epsilon", "1", "--schema", str(tmp_path / "t.toml")]
    fit = ["fit", str(tmp_path / "t.csv"), *facts, "--out", str(tmp_path / "m.json"), "--quiet"]
    plan = ["plan", *facts, "--n-samples", "100"]
    for command in (fit, plan):
        result = CliRunner().invoke(app, [*command, "--delta", "0.1"])
        assert result.exit_code == 2 and "--accept-delta 0.1" in " ".join(result.output.split())
        with warnings.catch_warnings():
            warnings.simplefilter("always")  # as for a user
            result = CliRunner().invoke(app, [*command, "--delta", "0.1", "--accept-delta", "0.1"])
        assert result.exit_code == 0
        assert "warning: delta=0.1 is not below 1 / n" in " ".join(result.output.split())
    assert CliRunner().invoke(app, ["receipt", "verify", str(tmp_path / "m.json")]).exit_code == 0


# --- several fits of one table ----------------------------------------------------------------------------------------

AGAIN = r"this table was fitted privately before"


def test_views_are_the_same_table_where_they_overlap():
    X = fresh(2 * N)
    y = labels(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model().fit(X[:N], y[:N])
        model().fit(X[N:], y[N:])  # other people
    with pytest.warns(PrivacyWarning, match=AGAIN):
        model().fit(X[N // 2 : N], y[N // 2 : N])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model().fit(X, y)  # said once for each table


def test_no_warning_without_noise_with_a_ledger_and_for_other_tables(tmp_path):
    X = fresh()
    y = labels(X)
    ledger = Ledger(f"sqlite:///{tmp_path}/l.db")
    ledger.create("people", epsilon=10.0, delta=1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            model(epsilon=math.inf).fit(X, y)
            model(ledger=ledger, dataset="people").fit(X, y)
            model().fit(fresh(), y)
        searched(n_iter=5.0)  # its trials are one run
        model().plan(N, 3)
        with pytest.raises(ParameterError):
            model(data_norm=-1.0).fit(X, y)
        model().fit(X, y)  # the first one that counts


def test_nothing_is_kept_alive():
    X = fresh()
    before = len(_callers._OWNERS)
    model().fit(X, labels(X))
    seen = weakref.ref(X)
    assert len(_callers._OWNERS) == before + 1
    del X
    gc.collect()
    assert seen() is None and len(_callers._OWNERS) == before


def test_of_twenty_threads_one_is_warned(monkeypatch):
    X = fresh()
    told = []
    monkeypatch.setattr(_callers, "warn_of_privacy", told.append)

    def fit():
        with _callers.fit_without_ledger(_callers.callers(X), lambda: True):
            pass

    threads = [threading.Thread(target=fit) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    fitted = model().fit(X, labels(X))  # warns if no thread came after another one
    assert fitted.guarantee_.fits == 21
    assert len(told) == 1


FORMS = {
    "array": lambda X: X,
    "csr": sp.csr_array,
    "frame": lambda X: pd.DataFrame(X, columns=["a", "b", "c"]),
    "frame of objects": lambda X: pd.DataFrame(X, columns=["a", "b", "c"], dtype=object),
    "polars": lambda X: pl.DataFrame(X, schema=["a", "b", "c"]),
    "list": lambda X: X.tolist(),
}


@pytest.mark.parametrize("form", FORMS)
def test_an_object_is_that_table_and_nothing_tells_whether_two_are_equal(form):
    """What is counted and warned of follows from which objects were handed over."""
    said = []
    for second in (np.copy, lambda X: fresh()):
        X = fresh()
        tables, told = [FORMS[form](X), FORMS[form](second(X))], []
        for place in (0, 1, 0, 1, 0):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                fits = model().fit(tables[place], labels(X)).guarantee_.fits
            told.append((fits, any(AGAIN in str(one.message) for one in caught)))
        said.append(told)
    assert said[0] == said[1]
    once = [(None, False)] * 2
    assert said[0] == once + ([(None, False)] * 3 if form == "list" else [(2, True), (2, True), (3, False)])


@pytest.mark.parametrize(("form", "n_jobs"), [("array", 1), ("frame", 2)])
def test_fits_of_a_search_are_counted_wherever_they_run(form, n_jobs):
    X = fresh()
    with pytest.warns(PrivacyWarning) as caught:
        searched = GridSearchCV(model(), {"data_norm": [1.0, 2.0]}, cv=3, n_jobs=n_jobs).fit(FORMS[form](X), labels(X))
    assert searched.best_estimator_.guarantee_.fits == 7
    (one,) = caught  # of the fits of this process, and it points at the line of the user
    assert AGAIN in str(one.message) and one.filename == __file__


@pytest.mark.parametrize("kind", ["pipeline", "search", "scaler", "model"])
def test_a_receipt_says_which_fit_it_is_and_holds_together(kind, tmp_path):
    X = fresh()
    y = labels(X)
    make = {
        "pipeline": lambda: sv.DPPipeline(
            [("s", sv.DPScaler()), ("m", sv.DPLogisticRegression(classes=[0, 1]))], epsilon=1.0, delta=1e-5
        ),
        "search": lambda: sv.DPSearchCV(
            sv.DPLogisticRegression(classes=[0, 1], data_norm=2.0), {"alpha": [1e-3, 1e-2]}, epsilon=4.0, delta=1e-5,
            n_iter=2,
        ),
        "scaler": lambda: sv.DPScaler(epsilon=1.0, delta=1e-5),
        "model": model,
    }[kind]  # fmt: skip
    receipts = [make().fit(X, y).guarantee_ for _ in range(3)]
    assert [one.fits for one in receipts] == [None, 2, 3]
    ledger = dict(receipts[2].rows())["ledger"]
    assert ledger == "no ledger was charged; fit 3 of this table in one run"
    assert receipts[0].to_dict()["ledger"] == "no ledger was charged"
    path = tmp_path / "receipt.json"
    path.write_text(receipts[2].to_json())
    checked = verify_receipt(path)
    assert checked.passed, checked.rows()
    assert checked.guarantee == receipts[2]
    assert verdict_of(receipts[0]).kind != "weak"
    assert (verdict_of(receipts[2]).kind, "fit 3 of the same table" in verdict_of(receipts[2]).explanation) == (
        "weak", True,
    )  # fmt: skip
    fitted = make().fit(X, y)
    parts = [getattr(fitted, "best_estimator_", fitted), *(part for _, part in getattr(fitted, "steps_", ()))]
    assert all(part.guarantee_ is fitted.guarantee_ for part in parts)


@pytest.mark.parametrize("fits", [0, -1, 1.5, True, "2", 10**9])
def test_a_receipt_counts_in_whole_numbers(fits):
    receipt = model().fit(X := fresh(), labels(X)).guarantee_
    with pytest.raises(ParameterError, match="fits must be a whole number where no ledger was charged"):
        replace(receipt, fits=fits)


# --- fitted steps before the model ------------------------------------------------------------------------------------


SCALER, SCALED = StandardScaler(), '"standardscaler" (StandardScaler)'
SELECTS = SelectFromModel(model(), threshold=-np.inf)
SEARCH = sv.DPSearchCV(sv.DPLogisticRegression(data_norm=2.0, classes=[0, 1]), {"alpha": [1e-3]}, epsilon=1, delta=1e-5)
RIDGE = sv.DPRidge(epsilon=1.0, delta=1e-5, data_norm=2.0, label_bounds=(-2, 2))
STEPS = [
    ([SCALER], [SCALED]),
    ([Normalizer()], []),
    ([FunctionTransformer(np.abs)], []),
    ([PolynomialFeatures(1)], []),
    (["passthrough"], []),
    ([MinMaxScaler(), SimpleImputer()], ['"minmaxscaler" (MinMaxScaler)', '"simpleimputer" (SimpleImputer)']),
    ([ColumnTransformer([("one", SCALER, [0])])], ['"columntransformer" (ColumnTransformer)']),
    ([ColumnTransformer([("one", Normalizer(), [0])], remainder="passthrough")], []),
    ([FeatureUnion([("a", Normalizer()), ("b", SCALER)])], ['"featureunion" (FeatureUnion)']),
    ([make_pipeline(Normalizer(), SCALER)], ['"pipeline" (Pipeline)']),
    ([make_pipeline(Normalizer())], []),
]
# what is fitted, where the private model is in it, and which steps before that learned from the data
FITTED = [
    *((make_pipeline(*steps, model()), lambda made: made[-1], named) for steps, named in STEPS),
    (
        GridSearchCV(make_pipeline(SCALER, model()), {"dplogisticregression__data_norm": [1.0]}, cv=2),
        lambda made: made.best_estimator_[-1], [SCALED],
    ),
    (make_pipeline(SCALER, SEARCH), lambda made: made[-1], [SCALED]),
    # a private model that is a step itself: only what stands before it counts
    (make_pipeline(Normalizer(), SELECTS, SCALER, model(epsilon=math.inf)), lambda made: made[1].estimator_, []),
    (make_pipeline(SCALER, SELECTS, model(epsilon=math.inf)), lambda made: made[1].estimator_, [SCALED]),
    # what scales the labels: their mean and spread leave exactly, with each prediction
    *(
        (
            TransformedTargetRegressor(make_pipeline(*steps, RIDGE), transformer=scaler),
            lambda made: made.regressor_[-1], [SCALED] * len(steps) + named,
        )
        for steps in ([], [SCALER])
        for scaler, named in (
            (SCALER, ['"transformer of y" (StandardScaler)']), (FunctionTransformer(np.sqrt, np.square), [])
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize(("whole", "find", "named"), FITTED, ids=range(len(FITTED)))
def test_fitted_steps_are_named(whole, find, named):
    X = fresh()
    y = np.arange(N) / N if isinstance(whole, TransformedTargetRegressor) else labels(X)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        receipt = find(clone(whole).fit(X, y)).guarantee_
    said = [str(one.message) for one in told if "learned from the data before" in str(one.message)]
    assert {text.partition(" learned")[0] for text in said} == {", ".join(named)} - {""}
    lines = [line for line in receipt.not_covered if line.startswith("what the steps before the model")]
    assert lines == [
        f"what the steps before the model in its pipeline learned from the data: {', '.join(named)}"
    ] * bool(named)
    assert receipt.parameters.get("fitted before it in a pipeline", []) == named
    assert verify_receipt(receipt).passed


def test_a_support_vector_machine_says_what_to_use_for_probabilities():
    model = sv.DPLinearSVC(epsilon=1.0, delta=1e-5, data_norm=1.0, classes=[0, 1])
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError, match="Use DPLogisticRegression for probabilities"):
        _ = model.predict_proba
