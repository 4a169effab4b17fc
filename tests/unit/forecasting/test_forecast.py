"""The forecast: more rows and more epsilon are better, nobody's budget is touched, and it says so in words."""

import importlib
import json
import math
from xml.etree import ElementTree

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.exceptions import ParameterError
from sottovoce.forecasting import trials
from sottovoce.ledger import Ledger

module = importlib.import_module("sottovoce.forecasting.forecast")
PUBLIC = {"delta": 1e-6, "data_norm": 3.0, "classes": ["no", "yes"]}


@pytest.fixture(autouse=True)
def few_rows(monkeypatch):
    monkeypatch.setattr(trials, "_MOST_ROWS", 400)
    monkeypatch.setattr(trials, "_JUDGES", 1000)
    monkeypatch.setattr(trials, "_RUNS", 2)
    monkeypatch.setattr(module, "_COUNTS", (100, 1000, 10_000, 100_000))


def logistic(epsilon=1.0, **changed):
    return sv.DPLogisticRegression(**{"epsilon": epsilon, **PUBLIC, **changed})


def test_noise_costs_less_with_more_rows_and_more_epsilon():
    told = {"accuracy_without_noise": 0.9}
    small, more, looser = (
        sv.forecast(logistic(epsilon), n, 10, **told) for epsilon, n in ((0.1, 1000), (0.1, 20_000), (2.0, 1000))
    )
    assert small.expected.price > more.expected.price + 0.01
    assert small.expected.price > looser.expected.price + 0.01
    assert looser.rows_for_a_point < small.rows_for_a_point
    for found in (small, more, looser):
        one = found.expected
        assert 0.5 <= one.low <= one.score <= one.high <= 1.0
        assert one.score == pytest.approx(0.9 - one.price)


def test_mu_n_decides_also_where_rows_are_stood_for_by_fewer():
    """A million rows cost what they are worth, not what the made-up ones would."""
    from sottovoce.privacy.accounting import gaussian_epsilon
    from sottovoce.privacy.calibration import gaussian_mu

    mu = gaussian_mu(1.0, 1e-6)
    fewer = gaussian_epsilon(mu * 400 / 4000, 1e-6)
    prices = [
        sv.forecast(logistic(epsilon), n, 10, accuracy_without_noise=0.9).expected.price
        for n, epsilon in ((400, 1.0), (4000, fewer))
    ]
    assert prices[0] == pytest.approx(prices[1], abs=0.03)
    assert min(prices) > 0.005
    assert sv.forecast(logistic(fewer), 400, 10, accuracy_without_noise=0.9).expected.price > 2 * max(prices)


def test_without_a_figure_three_populations_are_shown():
    found = sv.forecast(logistic(), 500, 5)
    assert found == sv.forecast(logistic(), 500, 5)  # the same question has the same answer
    assert list(found.rows) == ["weakly", "as usual", "strongly"]
    assert found.expected is found.rows["as usual"]
    levels = [row.without_noise for row in found.rows.values()]
    assert levels == sorted(levels)
    assert "nobody said how well labels can be predicted" in found.sentence


def test_more_classes_and_class_weights():
    weights = {"a": 1, "b": 2, "c": 1}
    model = sv.DPLinearSVC(epsilon=4.0, delta=1e-6, data_norm=1.0, classes=["a", "b", "c"], class_weight=weights)
    found = sv.forecast(model, 400, 6, accuracy_without_noise=0.8)
    assert found.assumed["classes"] == 3
    assert 1 / 3 <= found.expected.score <= 0.8


@pytest.mark.parametrize("epsilon", [1e-9, 1e6])
def test_the_ends_of_what_epsilon_may_be(epsilon):
    found = sv.forecast(logistic(epsilon), 300, 3, accuracy_without_noise=0.9)
    assert 0.5 <= found.expected.low <= found.expected.score <= found.expected.high <= 1.0
    ElementTree.fromstring(found.picture())


def test_persons_of_several_rows_cost_more():
    told = {"accuracy_without_noise": 0.9}
    rows, persons = (sv.forecast(logistic(max_rows_per_group=most), 400, 5, **told) for most in (None, 8))
    assert persons.expected.price > rows.expected.price + 0.01


def test_ridge_is_told_in_r2():
    model = sv.DPRidge(epsilon=1.0, delta=1e-6, data_norm=1.0, label_bounds=(0.0, 100.0))
    found = sv.forecast(model, 1000, 5, r2_without_noise=0.6, label_spread=0.2)
    assert found.metric == "R2"
    assert found.expected.score < 0.6
    assert "R2 =" in found.sentence
    assert "%" not in found.sentence


def test_a_secret_number_of_rows_is_replaced_by_the_public_one():
    model = logistic(adjacency="add-remove", n_public=2000)
    assert sv.forecast(model, 999, 5, accuracy_without_noise=0.9).n_samples == 2000


def test_nobodys_budget_is_touched(tmp_path):
    ledger = Ledger(f"sqlite:///{tmp_path}/ledger.db")
    ledger.create("people", epsilon=1.0, delta=1e-5)
    model = logistic(ledger=ledger, dataset="people")
    before = model.get_params()
    sv.forecast(model, 300, 3, accuracy_without_noise=0.9)
    assert model.get_params() == before
    assert not hasattr(model, "coef_")
    assert ledger.history("people") == []
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 3))
    logistic().fit(X, np.where(X[:, 0] > 0, "yes", "no"))  # warnings are errors: it is the first fit to this table


def test_picture_and_notebook_are_well_formed():
    found = sv.forecast(logistic(), 300, 3, accuracy_without_noise=0.9)
    drawing = ElementTree.fromstring(found.picture())
    assert len(drawing.findall(".//{*}path[@class='curve']")) == 2
    shown = found._repr_html_()
    assert found.sentence.replace("'", "&#x27;") in shown
    assert "<svg" in shown
    assert json.loads(json.dumps(found.to_dict()))["expected"]["as told"]["without_noise"] == 0.9
    assert [one.epsilon for one in found.by_epsilon][4] == 1.0
    assert found.by_rows[4].score == found.by_epsilon[4].score == found.expected.score


@pytest.mark.parametrize(
    ("model", "changed", "words"),
    [
        (logistic(math.inf), {}, "epsilon must be finite for a forecast"),
        (logistic(), {"accuracy_without_noise": 0.4}, "accuracy_without_noise must be .*guessing"),
        (logistic(), {"accuracy_without_noise": 0.9, "largest_class": 0.95}, "accuracy_without_noise must be"),
        (logistic(), {"largest_class": 0.3}, "largest_class must be"),
        (logistic(), {"r2_without_noise": 0.5}, "r2_without_noise is not for DPLogisticRegression"),
        (
            sv.DPRidge(epsilon=1.0, delta=1e-6, data_norm=1.0, label_bounds=(0, 1)),
            {"largest_class": 0.5},
            "largest_class is not for DPRidge",
        ),
        (
            sv.DPRidge(epsilon=1.0, delta=1e-6, data_norm=1.0, label_bounds=(0, 1)),
            {"label_spread": 0.0},
            "label_spread must be",
        ),
        (logistic(data_norm=None), {}, "data_norm is missing"),
        (sv.DPLasso(epsilon=1.0, delta=1e-6), {}, "estimator must be DPLogisticRegression, DPLinearSVC or DPRidge"),
        ("model", {}, "got str"),
        (logistic(), {"n_samples": 9}, "n_samples must be a whole number >= 10; got 9"),
    ],
)  # fmt: skip
def test_what_cannot_be_foreseen_is_refused_in_words(model, changed, words):
    with pytest.raises(ParameterError, match=words):
        sv.forecast(model, **{"n_samples": 1000, "n_features": 5, **changed})
