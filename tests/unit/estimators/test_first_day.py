"""What a new user does on the first day: a large delta, many fits of one table, a fitted scaler before the model."""

import gc
import itertools
import math
import re
import threading
import warnings
import weakref
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.feature_selection import SelectFromModel
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, cross_val_score
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
from support.pairs import by_pairs
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


def once_and_again(first, second):
    """Fit once in silence and again with a warning; other warnings are errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first()
    with pytest.warns(PrivacyWarning, match=AGAIN):
        second()


@pytest.mark.parametrize(
    "make",
    [
        lambda X: X,
        lambda X: pd.DataFrame(X, columns=["a", "b", "c"]),
        sp.csr_array,
        sp.csr_matrix,
        lambda X: X.astype(np.float32),
        lambda X: np.asfortranarray(X),
    ],
    ids=["array", "frame", "csr", "csr_matrix", "float32", "columns first"],
)
def test_the_second_fit_of_a_table_warns(make):
    X = make(fresh())
    y = np.random.default_rng(6).integers(0, 2, N)
    once_and_again(lambda: model().fit(X, y), lambda: model(epsilon=0.5).fit(X, y))


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


def test_the_receipt_of_a_charged_fit_names_the_entry(tmp_path):
    X = fresh()
    ledger = Ledger(f"sqlite:///{tmp_path}/l.db")
    ledger.create("people", epsilon=10.0, delta=1e-3)
    charged = model(ledger=ledger, dataset="people").fit(X, labels(X))
    assert charged.guarantee_.charge == {
        "ledger": charged.charge_.ledger,
        "dataset": "people",
        "charge": charged.charge_.charge,
        "entry": charged.charge_.hash,
    }
    assert ledger.head() == charged.guarantee_.charge["entry"]
    assert "people" in dict(charged.guarantee_.rows())["ledger"]


def test_folds_of_a_grid_search_are_fits_of_one_table():
    X = fresh()
    with pytest.warns(PrivacyWarning) as caught:
        GridSearchCV(model(), {"data_norm": [1.0, 2.0]}, cv=2).fit(X, labels(X))
    (one,) = caught  # of five fits
    assert AGAIN in str(one.message) and one.filename == __file__  # it points at the line of the user
    X = fresh()
    with pytest.warns(PrivacyWarning, match=AGAIN):
        cross_val_score(model(), X, labels(X), cv=3)


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
        with _callers.fit_without_ledger(X, lambda: True):
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
    "copy": np.copy,
    "columns first": np.asfortranarray,
    "columns chosen": lambda X: X[:, [2, 0]],
    "frame": lambda X: pd.DataFrame(X, columns=["a", "b", "c"]),
    "frame of some columns": lambda X: pd.DataFrame(X, columns=["a", "b", "c"])[["b", "c"]],
    "frame of objects": lambda X: pd.DataFrame(X, columns=["a", "b", "c"], dtype=object),
    "polars": lambda X: pl.DataFrame(X, schema=["a", "b", "c"]),
    "list": lambda X: X.tolist(),
}


@pytest.mark.parametrize(("first", "second"), by_pairs(list(FORMS), list(FORMS)))
def test_copies_and_columns_of_a_table_are_that_table(first, second):
    X = fresh()
    y = labels(X)
    once_and_again(lambda: model().fit(FORMS[first](X), y), lambda: model().fit(FORMS[second](X), y))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model().fit(FORMS[first](X), y)  # said once
        model().fit(FORMS[second](fresh()), y)  # other people


@pytest.mark.parametrize("form", FORMS)
def test_no_receipt_tells_whether_two_tables_are_equal(form):
    """Only whoever holds both is told; what a receipt counts follows from which objects were handed over."""
    counts = []
    for second in (np.copy, lambda X: fresh()):
        X = fresh()
        tables = [FORMS[form](X), FORMS[form](second(X))]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            counts.append([model().fit(tables[place], labels(X)).guarantee_.fits for place in (0, 1, 0, 1)])
    assert counts[0] == counts[1]


def test_constants_row_numbers_and_few_rows_are_no_table():
    for n in (8, N):
        column = np.stack([np.ones(n), np.arange(n), np.linspace(0, n - 1, n)[::-1], np.zeros(n)], axis=1)
        seen = [model().fit(np.hstack([column, fresh(n)]) if n == N else column.copy(), np.arange(n) % 2)
                for _ in range(2)]  # fmt: skip
        assert [one.guarantee_.fits for one in seen] == [None, None]


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("make", [lambda X: X, lambda X: pd.DataFrame(X, columns=["a", "b", "c"])])
def test_fits_of_a_search_are_counted_wherever_they_run(make, n_jobs):
    X = fresh()
    searched = GridSearchCV(model(), {"data_norm": [1.0, 2.0]}, cv=3, n_jobs=n_jobs).fit(make(X), labels(X))
    assert searched.best_estimator_.guarantee_.fits == 7


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


@pytest.mark.parametrize(
    ("steps", "named"),
    [
        ([StandardScaler()], ['"standardscaler" (StandardScaler)']),
        ([Normalizer()], []),
        ([FunctionTransformer(np.abs)], []),
        ([PolynomialFeatures(1)], []),
        (["passthrough"], []),
        ([Normalizer(), MinMaxScaler(), SimpleImputer()],
         ['"minmaxscaler" (MinMaxScaler)', '"simpleimputer" (SimpleImputer)']),
        ([ColumnTransformer([("scale", StandardScaler(), [0])], remainder="passthrough")],
         ['"columntransformer" (ColumnTransformer)']),
        ([ColumnTransformer([("scale", Normalizer(), [0])], remainder="passthrough")], []),
        ([FeatureUnion([("a", Normalizer()), ("b", StandardScaler())])], ['"featureunion" (FeatureUnion)']),
        ([make_pipeline(Normalizer(), StandardScaler())], ['"pipeline" (Pipeline)']),
        ([make_pipeline(Normalizer())], []),
    ],
    ids=range(11),
)  # fmt: skip
def test_fitted_steps_are_named(steps, named):
    X = fresh()
    pipeline = make_pipeline(*steps, model())
    if named:
        with pytest.warns(PrivacyWarning, match=re.escape(", ".join(named)) + " learned from the data"):
            pipeline.fit(X, labels(X))
    else:
        pipeline.fit(X, labels(X))  # warnings are errors
    receipt = pipeline[-1].guarantee_
    lines = [line for line in receipt.not_covered if line.startswith("what the steps before the model")]
    assert lines == [
        f"what the steps before the model in its pipeline learned from the data: {', '.join(named)}"
    ] * bool(named)
    assert receipt.parameters.get("fitted before it in a pipeline", []) == named


def test_within_a_grid_search_and_for_a_search():
    X = fresh()
    grid = GridSearchCV(make_pipeline(StandardScaler(), model()), {"dplogisticregression__data_norm": [1.0]}, cv=2)
    with pytest.warns(PrivacyWarning, match="learned from the data"):
        grid.fit(X, labels(X))
    assert "StandardScaler" in grid.best_estimator_[-1].guarantee_.not_covered[0]
    search = sv.DPSearchCV(
        sv.DPLogisticRegression(data_norm=2.0, classes=[0, 1]), {"alpha": [1e-3]}, epsilon=1.0, delta=1e-5
    )
    with pytest.warns(PrivacyWarning, match="learned from the data"):
        pipeline = make_pipeline(StandardScaler(), search).fit(X, labels(X))
    assert "StandardScaler" in pipeline[-1].guarantee_.not_covered[0]


@pytest.mark.parametrize("learns", [True, False])
@pytest.mark.parametrize("steps", [[], [StandardScaler()]])
def test_what_scales_the_labels_is_named_like_a_step(learns, steps):
    """Mean and spread of y leave exactly, with each prediction, and the receipt said nothing of it."""
    X, y = fresh(), np.arange(N) / N
    ridge = sv.DPRidge(epsilon=1.0, delta=1e-5, data_norm=2.0, label_bounds=(-2, 2))
    scaler = StandardScaler() if learns else FunctionTransformer(np.sqrt, np.square)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        whole = TransformedTargetRegressor(make_pipeline(*steps, ridge), transformer=scaler).fit(X, y)
    receipt = whole.regressor_[-1].guarantee_
    named = ['"standardscaler" (StandardScaler)'] * len(steps) + ['"transformer of y" (StandardScaler)'] * learns
    assert receipt.parameters.get("fitted before it in a pipeline", []) == named
    assert any("learned from the data" in str(one.message) for one in told) == bool(named)
    assert verify_receipt(receipt).passed


def test_a_model_that_selects_is_not_behind_the_steps_after_it():
    """The private model is a step itself: only what stands before it counts."""
    X = fresh()
    selector = SelectFromModel(model(), threshold=-np.inf)
    pipeline = make_pipeline(Normalizer(), selector, StandardScaler(), model(epsilon=math.inf)).fit(X, labels(X))
    assert "fitted before it in a pipeline" not in pipeline[1].estimator_.guarantee_.parameters
    pipeline = make_pipeline(StandardScaler(), SelectFromModel(model(), threshold=-np.inf), model(epsilon=math.inf))
    with pytest.warns(PrivacyWarning, match=r"standardscaler. .StandardScaler. learned"):
        pipeline.fit(X, labels(X))
    named = pipeline[1].estimator_.guarantee_.parameters["fitted before it in a pipeline"]
    assert named == ['"standardscaler" (StandardScaler)']
    assert pipeline[-1].guarantee_.not_covered == ("everything: no noise was added",)


def test_the_guide_says_what_happens():
    guide = (Path(__file__).parents[3] / "docs/guide/pipelines.md").read_text(encoding="utf-8")
    room = {}
    for block in re.findall(r"```python\n(.*?)```", guide, re.DOTALL):
        exec(compile(block, "pipelines.md", "exec"), room)
    X = fresh()
    with pytest.warns(PrivacyWarning, match="learned from the data"):
        scaled = room["make_pipeline"](room["StandardScaler"](), room["private"]).fit(X, labels(X))
    line = scaled[-1].guarantee_.not_covered[0]
    assert line in " ".join(guide.replace("*", "").split())
    formula = room["FunctionTransformer"](lambda X: X / 100)
    room["make_pipeline"](formula, room["Normalizer"](), room["private"]).fit(fresh(), labels(X))


def test_a_support_vector_machine_says_what_to_use_for_probabilities():
    model = sv.DPLinearSVC(epsilon=1.0, delta=1e-5, data_norm=1.0, classes=[0, 1])
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError, match="Use DPLogisticRegression for probabilities"):
        _ = model.predict_proba
