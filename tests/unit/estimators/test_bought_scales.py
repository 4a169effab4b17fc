"""What a fit released serves later ones, and pipelines become files: whatever stands before the model."""

import numpy as np
import pandas as pd
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import sottovoce as sv
from sottovoce.exceptions import ParameterError
from sottovoce.report import verify_receipt
from sottovoce.tables import ParquetTable
from support.pairs import by_pairs

RNG = np.random.default_rng(4)
N = 3000
X = np.column_stack([RNG.normal(1990, 10, N), RNG.normal(0.002, 0.001, N), RNG.lognormal(3, 1, N)])
Y = np.where(X @ [0.1, 1000.0, 0.0] > 201, "yes", "no")
FRAME = pd.DataFrame(X, columns=["year", "share", "pay"]).assign(sex=RNG.choice(["F", "M"], N))
FACTS = {"year": (1900, 2100), "share": (0, 1), "pay": {"bounds": (0, 1e6), "scale": "log"}, "sex": ["F", "M"]}
MODELS = {
    "logistic": lambda: sv.DPLogisticRegression(classes=["no", "yes"]),
    "svc": lambda: sv.DPLinearSVC(classes=["no", "yes"]),
    "sparse": lambda: sv.DPSparseLogisticRegression(classes=["no", "yes"], radius=3.0),
    "ridge": lambda: sv.DPRidge(label_bounds=(0, 1)),
    "lasso": lambda: sv.DPLasso(label_bounds=(0, 1), radius=3.0),
}


def pipeline(*steps, model="logistic", **options):
    named = [(f"step{k}", step) for k, step in enumerate(steps)]
    return sv.DPPipeline([*named, ("model", MODELS[model]())], **{"epsilon": 1.0, "delta": 1e-6} | options)


def assert_alike(found, wanted):
    if found.dtype == np.float64:
        np.testing.assert_allclose(found, wanted, atol=1e-9)
    else:
        assert np.mean(found != wanted) < 1e-3  # a score may be 0 to the last digit


def labels(model):
    return (Y == "yes").astype(float) if model in ("ridge", "lasso") else Y


@pytest.fixture(scope="module")
def first():
    return pipeline(sv.DPScaler()).fit(X, Y)


@pytest.mark.parametrize("model", MODELS)
def test_a_frozen_scaler_costs_nothing_again(first, model, tmp_path):
    frozen = FrozenEstimator(first["step0"])
    fitted = pipeline(frozen, model=model, random_state=3).fit(X, labels(model))
    assert fitted.plan(*X.shape).model_epsilon == 1.0  # all of the budget is the model's
    receipt = fitted.guarantee_
    said = "FrozenEstimator, with a receipt of its own: epsilon=1, delta=1e-06, which add up with this one"
    assert any(said in line and "by what it released" in line for line in receipt.assumptions)
    assert fitted["step0"].guarantee_ is first.guarantee_  # it keeps the receipt of who paid
    assert np.array_equal(fitted["step0"].scale_, first["step0"].scale_)
    path = tmp_path / "model.json"
    sv.save_model(fitted, path)
    checked = verify_receipt(path)
    assert checked.passed, checked.rows()
    loaded, _ = sv.load_model(path)
    assert_alike(loaded.predict(X), fitted.predict(X))
    # as if the scaled rows had been a table of their own, with the public bound that the cut gives
    bound = {
        name: getattr(fitted["model"], name) for name in ("data_norm", "data_bound") if hasattr(fitted["model"], name)
    }
    alone = MODELS[model]().set_params(epsilon=1.0, delta=1e-6, **bound)
    assert alone.fit(first["step0"].transform(X), labels(model)).guarantee_.event == receipt.event


def test_a_frozen_scaler_is_the_same_wherever_rows_are(tmp_path):
    frame = FRAME.drop(columns="sex")
    frame.assign(y=Y).to_parquet(tmp_path / "t.parquet")
    table = ParquetTable(tmp_path / "t.parquet", target="y", dtype="float64")
    frozen = FrozenEstimator(pipeline(sv.DPScaler()).fit(frame, Y)["step0"])
    here, there = (pipeline(frozen, random_state=3).fit(*given) for given in ((frame, Y), (table,)))
    assert np.array_equal(here["model"].coef_, there["model"].coef_)


def test_a_scaler_that_nobody_paid_for_or_for_other_columns_is_refused(first):
    for step in (sv.DPScaler(), StandardScaler().fit(X)):
        with pytest.raises(
            ParameterError, match=r"the step 'step0' \(FrozenEstimator\) learns from the data without noise"
        ):
            pipeline(FrozenEstimator(step)).fit(X, Y)
    with pytest.raises(ParameterError, match=r"the step 'step0' was fitted on 3 columns, and here are 2"):
        pipeline(FrozenEstimator(first["step0"])).fit(X[:, :2], Y)


BEFORE = [
    (), (sv.DPScaler(),), ("encoder",), ("encoder", sv.DPScaler()), ("encoder", "passthrough"), (None, "encoder"),
    ("encoder", sv.DPScaler(), None),
]  # fmt: skip


@pytest.mark.parametrize(("before", "model"), by_pairs(range(len(BEFORE)), ("logistic", "ridge")))
def test_a_pipeline_is_displayed_saved_loaded_and_verified(before, model, tmp_path):
    steps = [sv.SchemaEncoder(FACTS) if step == "encoder" else step for step in BEFORE[before]]
    encoded = any(isinstance(step, sv.SchemaEncoder) for step in steps)
    table = FRAME if encoded else FRAME.drop(columns="sex")
    fitted = pipeline(*steps, model=model).fit(table, labels(model))
    assert repr(fitted) and fitted._repr_html_() and not hasattr(fitted, "coef_") and dir(fitted)
    path = tmp_path / "model.json"
    sv.save_model(fitted, path)
    loaded, schema = sv.load_model(path)
    read = sv.SchemaEncoder(schema).transform(table) if encoded else table
    assert (schema is None) is not encoded
    assert_alike(loaded.predict(read), fitted.predict(table))
    checked = verify_receipt(path)
    assert checked.passed, checked.rows()


def test_other_steps_are_no_file(tmp_path):
    fitted = pipeline(FunctionTransformer(np.tanh)).fit(X, Y)
    with pytest.raises(
        ParameterError, match=r"only a SchemaEncoder at the start, a scaler and a model become one model"
    ):
        sv.save_model(fitted, tmp_path / "model.json")
