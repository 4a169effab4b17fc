"""A forecast of a pipeline is about what the pipeline fits: its scaler pays, its other steps do not matter."""

import importlib

import pytest
from sklearn.preprocessing import Normalizer, PolynomialFeatures

import sottovoce as sv
from sottovoce.exceptions import ParameterError
from sottovoce.forecasting import trials

module = importlib.import_module("sottovoce.forecasting.forecast")
BUDGET = {"epsilon": 1.0, "delta": 1e-6}
KNOWN = {"accuracy_without_noise": 0.85}


@pytest.fixture(autouse=True)
def few_rows(monkeypatch):
    monkeypatch.setattr(trials, "_MOST_ROWS", 600)
    monkeypatch.setattr(trials, "_JUDGES", 1000)
    monkeypatch.setattr(trials, "_RUNS", 2)
    monkeypatch.setattr(module, "_COUNTS", (1000, 100_000))


def told(steps, n=4000, d=5, known=KNOWN, **changed):
    return sv.forecast(sv.DPPipeline(steps, **{**BUDGET, **changed}), n, d, **known)


def model(**parameters):
    return sv.DPLogisticRegression(classes=[0, 1], **parameters)


@pytest.mark.parametrize(
    ("changed", "known", "last"),
    [
        ({}, KNOWN, model()),
        ({"adjacency": "add-remove", "n_public": 4000}, KNOWN, model()),
        ({"max_rows_per_group": 2}, KNOWN, model()),
        ({"scaler_share": 0.3}, KNOWN, sv.DPLinearSVC(classes=["a", "b"])),
        ({}, {"r2_without_noise": 0.6}, sv.DPRidge(label_bounds=(0, 10))),
    ],
)
def test_more_budget_or_rows_never_promise_less(changed, known, last):
    steps = [("scale", sv.DPScaler()), ("model", last)]
    little, found, much = (told(steps, known=known, **changed, epsilon=epsilon) for epsilon in (0.05, 1.0, 20.0))
    assert little.expected.score < found.expected.score <= much.expected.score + 0.01
    assert abs(much.expected.score - next(iter(known.values()))) < 0.03
    assert (found.n_samples, found.n_features, found.estimator) == (4000, 5, "DPPipeline")
    assert found.expected.low <= found.expected.score <= found.expected.high


def test_without_a_scaler_it_is_that_of_the_model():
    alone = sv.forecast(model(data_norm=1.0, **BUDGET), 4000, 5, **KNOWN).expected
    assert told([("norm", Normalizer()), ("model", model(data_norm=1.0))]).expected == alone


def test_the_columns_after_the_steps_count():
    steps = [("more", PolynomialFeatures(2)), ("scale", sv.DPScaler()), ("model", model())]
    assert told(steps, n=1000, d=20).expected.score < told(steps[1:], n=1000, d=20).expected.score


@pytest.mark.parametrize("steps", [[], None, 3, [("scale", sv.DPScaler())], [("scale", 3), ("model", model())]])
def test_steps_that_are_none_are_refused_in_words(steps):
    with pytest.raises(ParameterError, match="step"):
        told(steps)


def test_a_pipeline_that_ends_in_another_model_is_refused():
    with pytest.raises(ParameterError, match="or a DPPipeline that ends in one, for a forecast; got DPLasso"):
        told([("scale", sv.DPScaler()), ("model", sv.DPLasso(label_bounds=(0, 1), radius=1.0))])
