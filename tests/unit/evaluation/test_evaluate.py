import json
import math
import re
import traceback
from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, OneHotEncoder
from sklearn.svm import LinearSVC

import sottovoce as sv
from sottovoce.exceptions import AccountingError, BudgetError, DataError, ParameterError
from sottovoce.report import verify_receipt
from support.noise import forbid_noise
from support.pairs import by_pairs

BUDGET = {"epsilon": 1.0, "random_state": 0}
FIT = {"epsilon": 2.0, "delta": 1e-6, "data_norm": 3**0.5, "random_state": 0}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (6000, 3))
    z = X @ [2.0, -1.0, 0.5] + 0.4 * rng.normal(size=6000)
    return X, np.where(z > 0.0, "yes", "no"), np.digitize(z, [-0.7, 0.7]), np.clip(z, -4.0, 4.0)


@pytest.fixture(scope="module")
def models(data):
    X, y, classes, z = (part[:3000] for part in data)
    return {
        "logistic": sv.DPLogisticRegression(**FIT, classes=["no", "yes"]).fit(X, y),
        "svm": sv.DPLinearSVC(**FIT, classes=["no", "yes"]).fit(X, y),
        "several": sv.DPLogisticRegression(**FIT, classes=[0, 1, 2]).fit(X, classes),
        "several svm": sv.DPLinearSVC(**FIT, classes=[0, 1, 2]).fit(X, classes),
        "ridge": sv.DPRidge(**FIT, label_bounds=(-4.0, 4.0)).fit(X, z),
        "sklearn": make_pipeline(Normalizer(), LogisticRegression()).fit(X, y),
        "sklearn svm": LinearSVC().fit(X, y),
        "sklearn several": LogisticRegression().fit(X, classes),
        "sklearn ridge": LinearRegression().fit(X, z),
        "dummy": DummyClassifier().fit(X, y),
    }


def labels_of(name, data):
    _, y, classes, z = data
    return z if "ridge" in name else classes if "several" in name else y


NAMES = [
    "logistic", "svm", "several", "several svm", "ridge", "sklearn", "sklearn svm", "sklearn several", "sklearn ridge",
]  # fmt: skip


@pytest.mark.parametrize(("name", "delta"), by_pairs(NAMES, [0.0, 1e-6]))
def test_every_kind_of_model(name, delta, models, data):
    model, X, y = models[name], data[0][3000:], labels_of(name, data)[3000:]
    bounds = {"label_bounds": (-4.0, 4.0)} if name == "sklearn ridge" else {}
    found = sv.evaluate(model, X, y, **BUDGET, delta=delta, **bounds)
    exact = model.score(X, y)
    value = found.r2 if "ridge" in name else found.accuracy
    low, high = found.intervals["r2" if "ridge" in name else "accuracy"]
    assert value == pytest.approx(exact, abs=0.15 if "ridge" in name else 0.03)  # a square weighs more than a row
    assert low <= exact <= high
    assert found.n_rows == pytest.approx(3000, abs=100)
    assert (found.guarantee_.epsilon, found.guarantee_.delta) == (1.0, delta)
    for measure in ("accuracy", "auc", "log_loss", "brier", "mse", "rmse", "mae", "r2", "precision", "recall"):
        assert (getattr(found, measure) is None) == (measure in found.why_not)
    shown = [heading for heading, _ in found.rows()]
    assert ("accuracy" in shown) != ("R^2" in shown)
    assert "<table>" in found._repr_html_()
    for measure in ("precision", "recall"):  # of one class of two: which one is said wherever the figure is
        heading = f"{measure} of yes" if found.plan.n_classes == 2 else measure
        assert (heading in shown) == (f"{heading}<br>" in found.to_html()) == ("ridge" not in name)


@pytest.mark.parametrize("name", ["logistic", "several", "ridge"])
def test_the_receipt_verifies(name, models, data, tmp_path):
    X, y = data[0][3000:], labels_of(name, data)[3000:]
    for options in ({}, {"delta": 1e-6, "adjacency": "replace-one"}, {"adjacency": "add-remove", "n_public": 5000}):
        receipt = sv.evaluate(models[name], X, y, epsilon=1.0, **options).guarantee_
        path = tmp_path / "receipt.json"
        path.write_text(receipt.to_json(), encoding="utf-8")
        checked = verify_receipt(path)
        assert checked.passed, checked.rows()
        assert "held out" in str(receipt.assumptions)


def test_the_receipt_belongs_to_the_model(models, data, tmp_path):
    from sottovoce.estimators.persistence import save_model

    receipt = sv.evaluate(models["logistic"], data[0][3000:], data[1][3000:], epsilon=1.0).guarantee_
    path = tmp_path / "receipt.json"
    path.write_text(receipt.to_json(), encoding="utf-8")
    for name, right in (("logistic", True), ("svm", False)):
        save_model(models[name], tmp_path / "model.json")
        assert verify_receipt(path, model=tmp_path / "model.json").passed is right


def test_rows_of_every_kind_are_evaluated(models, data):
    """Missing and unknown labels, NaN and infinity: counted, left out, and no word about it."""
    X, y = data[0][3000:].copy(), data[1][3000:].astype(object)
    X[:100, 1], X[100:200, 0] = math.nan, math.inf
    y[200:300], y[300:400], y[400:500] = None, "perhaps", math.nan
    objects = X.astype(object)
    objects[:100, 1] = np.datetime64("2026-11-29")
    tables = objects, pd.DataFrame(objects), X, pd.DataFrame(X), sp.csr_array(X)
    for name, table in [("svm", X), ("sklearn", X), *(("logistic", table) for table in tables)]:
        found = sv.evaluate(models[name], table, y, **BUDGET)
        assert found.n_left_out == pytest.approx(500, abs=60)
        assert "most of all rows" not in repr(found)
        assert found.accuracy == pytest.approx(models[name].score(X[500:], y[500:].astype(str)), abs=0.03)
    labels = data[3][3000:].astype(object)
    labels[:50], labels[50:100], X = math.nan, "many", data[0][3000:]
    assert sv.evaluate(models["ridge"], X, labels, **BUDGET).n_left_out == pytest.approx(100, abs=40)


@pytest.mark.parametrize("name", NAMES)
def test_hardly_any_rows_are_evaluated_where_their_number_is_secret(name, models, data):
    """A refusal would tell a table with one row from one with none. No figure is told of what noise hides."""
    bounds = {"label_bounds": (-4.0, 4.0)} if name == "sklearn ridge" else {}
    for n in (0, 1, 3, 9, 27):
        some, plan = (data[0][:n], labels_of(name, data)[:n]), {"adjacency": "add-remove", "n_public": 1000, **bounds}
        found = sv.evaluate(models[name], *some, epsilon=1.0, random_state=n, **plan)
        assert abs(found.n_rows) + abs(found.n_left_out) < 100
        assert all(low <= high for low, high in found.intervals.values())
        json.dumps(found.to_dict(), allow_nan=False)
        told = repr(found) + found.to_html().partition("<script")[0]
        assert not re.search(r"\bnan\b|about\W+-\d|most of all rows", told)
    if not name.startswith("sklearn"):
        with pytest.raises(DataError, match="a list without rows, which does not tell its columns"):
            sv.evaluate(models[name], [], [], epsilon=1.0, **plan)


CELL = "Miller, Ann"
ROWS = [[0.5, 0.25, CELL], [0.25, 0.5, 0.125]]
ODD_ROWS = {
    "objects": np.array(ROWS, object), "a list": ROWS, "a frame": pd.DataFrame(ROWS), "ragged": [ROWS[0], [0.25, 0.5]],
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "rows"),
    by_pairs(["foreign", "fitted steps", "unknown category", "own steps", "fit of own steps"], list(ODD_ROWS)),
)
def test_no_error_shows_a_cell(kind, rows, data):
    """Words of others do: could not convert string to float; found unknown categories."""
    own = sv.DPLogisticRegression(data_norm=1.0, classes=["no", "yes"])
    whole = sv.DPLogisticRegression(**FIT, classes=["no", "yes"])
    X, y = (data[0], data[1]) if kind != "unknown category" else (np.round(data[0]).astype(object), data[1])
    model = {
        "foreign": LogisticRegression(), "fitted steps": make_pipeline(Normalizer(), whole),
        "unknown category": make_pipeline(OneHotEncoder(), LogisticRegression()),
    }.get(kind, sv.DPPipeline([("n", Normalizer()), ("m", own)], epsilon=2.0, delta=1e-6))  # fmt: skip
    left_out = rows == "a list" and kind not in ("unknown category", "fit of own steps")  # the row with the cell
    with nullcontext() if left_out else pytest.raises((DataError, ParameterError)) as caught:
        if kind == "fit of own steps":
            model.fit(ODD_ROWS[rows], ["no", "yes"])
        else:
            sv.evaluate(model.fit(X, y), ODD_ROWS[rows], ["no", "yes"], **BUDGET)
    assert left_out or CELL not in "".join(traceback.format_exception(caught.value))


def test_no_warning_of_a_model_tells_of_a_row():
    rows = np.arange(60.0)[:, None] % 3.0
    encoder = OneHotEncoder(categories=[[0.0, 1.0, 2.0]], drop="first", handle_unknown="ignore")
    model = make_pipeline(encoder, LogisticRegression()).fit(rows, rows[:, 0] > 1.0)
    rows[7] = 9.0
    assert sv.evaluate(model, rows, rows[:, 0] > 1.0, epsilon=1.0).guarantee_.epsilon == 1.0


def test_rows_of_persons(models, data):
    X, y = data[0][3000:], data[1][3000:]
    groups = (np.arange(3000) // 3).astype(object)
    groups[:300] = None
    found = sv.evaluate(models["logistic"], X, y, **BUDGET, groups=groups, max_rows_per_group=2)
    assert found.n_rows == pytest.approx(1800, abs=150)
    assert "one person" in found.guarantee_.unit
    assert "max_rows_per_group = 2" in str(found.guarantee_.assumptions)


def test_one_class_only_in_the_rows(models, data):
    X = data[0][3000:]
    found = sv.evaluate(models["logistic"], X, np.full(3000, "yes"), **BUDGET)
    assert found.recall == pytest.approx(0.5, abs=0.1)
    low, high = found.intervals["auc"]
    assert high - low > 0.2  # the noise hides the other class, and the interval says so


def test_no_rows_that_count(models, data):
    found = sv.evaluate(models["logistic"], data[0][3000:], np.full(3000, "?"), **BUDGET)
    assert found.n_left_out == pytest.approx(3000, abs=30)
    assert "most of all rows: labels must be among 'no', 'yes', and" in repr(found)
    json.dumps(found.to_dict(), allow_nan=False)


@pytest.mark.parametrize("options", [{}, {"delta": 1e-6, "adjacency": "replace-one"}], ids=["pure", "Gaussian"])
def test_an_evaluation_is_one_charge_of_its_plan(options, models, data, tmp_path):
    ledger = sv.Ledger(f"sqlite:///{tmp_path / 'budget.db'}")
    ledger.create("people", epsilon=1.2, delta=1e-5, adjacency=options.get("adjacency", "zero-out"))
    found = sv.evaluate(models["logistic"], data[0], data[1], epsilon=1.0, ledger=ledger, dataset="people", **options)
    (record,) = ledger.history("people")
    assert (record.state, record.event) == ("committed", found.plan.event)
    assert record.committed_event == found.guarantee_.event
    assert found.charge_.charge == record.charge
    assert found.guarantee_.charge["dataset"] == "people"
    with pytest.raises(BudgetError):
        sv.evaluate(models["logistic"], data[0], data[1], epsilon=1.0, ledger=ledger, dataset="people", **options)


def test_the_adjacency_must_be_that_of_the_ledger(models, data, tmp_path):
    ledger = sv.Ledger(f"sqlite:///{tmp_path / 'budget.db'}")
    ledger.create("people", epsilon=3.0, delta=1e-5, adjacency="replace-one")
    with pytest.raises(AccountingError, match="adjacency='replace-one'"):
        sv.evaluate(models["logistic"], data[0], data[1], epsilon=1.0, ledger=ledger, dataset="people")
    assert ledger.history("people") == []


def test_what_cannot_be_read_is_charged(models, data, tmp_path):
    ledger = sv.Ledger(f"sqlite:///{tmp_path / 'budget.db'}")
    ledger.create("people", epsilon=3.0, delta=1e-5)
    texts = pd.DataFrame(data[0]).astype({0: str})  # whether they are numbers is a question about the cells
    with pytest.raises(DataError, match="no number") as caught:
        sv.evaluate(models["logistic"], texts, data[1], epsilon=1.0, ledger=ledger, dataset="people")
    assert ledger.history("people")[0].state == "reserved"
    assert "counts as spent" in str(caught.value.__notes__)


def test_curves_belong_to_two_classes(models, data):
    found = sv.evaluate(models["several"], data[0], data[2], **BUDGET)
    for curve in (found.roc, found.calibration):
        with pytest.raises(ParameterError, match="two classes"):
            curve()
    with pytest.raises(ParameterError, match="auc"):
        found.interval("auc")
    assert found.interval("accuracy", 0.5)[0] > found.interval("accuracy")[0]
    assert found.confusion.shape == (3, 3)
    assert found.confusion.min() >= 0.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": math.inf}, "epsilon"),
        ({"epsilon": None}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"delta": -0.1}, "delta"),
        ({"delta": 0.2}, "delta"),
        ({"adjacency": "next door"}, "adjacency"),
        ({"adjacency": "add-remove"}, "n_public"),
        ({"n_public": 0}, "n_public"),
        ({"groups": np.zeros(6000)}, "max_rows_per_group is missing"),
        ({"max_rows_per_group": 2}, "groups is missing"),
        ({"groups": np.zeros(6000), "max_rows_per_group": 0}, "max_rows_per_group"),
        ({"label_bounds": (0, 1)}, "label_bounds"),
        ({"ledger": "sqlite:///nowhere.db"}, "dataset is missing"),
        ({"random_state": "seed"}, "random_state"),
    ],
)
def test_bad_arguments(options, message, models, data, monkeypatch):
    forbid_noise(monkeypatch)
    with pytest.raises(ParameterError, match=message):
        sv.evaluate(models["logistic"], data[0], data[1], **{"epsilon": 1.0, **options})


def test_bad_models_and_tables(models, data, monkeypatch):
    forbid_noise(monkeypatch)
    X, y = data[0], data[1]
    with pytest.raises(ParameterError, match="method predict"):
        sv.evaluate("model", X, y, epsilon=1.0)
    with pytest.raises(ParameterError, match="fit it first"):
        sv.evaluate(sv.DPLogisticRegression(), X, y, epsilon=1.0)
    with pytest.raises(ParameterError, match="label_bounds is missing"):
        sv.evaluate(models["sklearn ridge"], X, data[3], epsilon=1.0)
    with pytest.raises(ParameterError, match="y is missing"):
        sv.evaluate(models["logistic"], X, epsilon=1.0)
    with pytest.raises(ValueError, match="inconsistent"):
        sv.evaluate(models["logistic"], X, y[:-1], epsilon=1.0)
    with pytest.raises(ValueError, match="features"):
        sv.evaluate(models["logistic"], X[:, :2], y, epsilon=1.0)
    with pytest.raises((DataError, ValueError)):
        sv.evaluate(models["logistic"], np.full(X.shape, "text"), y, epsilon=1.0)
