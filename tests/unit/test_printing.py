"""What is printed of a receipt, a plan or a forecast is read at a glance: ten lines, the promise first."""

import numpy as np
import pytest

import sottovoce as sv

X = np.random.default_rng(0).uniform(-0.5, 0.5, (200, 3))
Y = (X[:, 0] > 0).astype(int)
BUDGET = {"epsilon": 1.0, "delta": 1e-6}
MODELS = [
    sv.DPLogisticRegression(classes=[0, 1], **BUDGET),
    sv.DPLogisticRegression(classes=[0, 1], epsilon=np.inf),
    sv.DPLogisticRegression(classes=[0, 1], solver="newton", random_state=0, **BUDGET),
    sv.DPLinearSVC(classes=[0, 1], adjacency="add-remove", n_public=200, **BUDGET),
    sv.DPRidge(label_bounds=(0, 1), max_rows_per_group=2, **BUDGET),
    sv.DPLasso(label_bounds=(0, 1), radius=1.0, data_bound=0.5, **BUDGET),
    sv.DPSparseLogisticRegression(classes=[0, 1], radius=1.0, data_bound=0.5, **BUDGET),
]


@pytest.fixture(params=[60, 100, 200])
def width(request, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(request.param))
    return request.param


@pytest.mark.parametrize("model", MODELS, ids=lambda model: f"{type(model).__name__} {model.adjacency}")
def test_ten_lines(model, width):
    groups = {} if model.max_rows_per_group is None else {"groups": np.arange(200) // 2}
    plan, receipt = model.plan(200, 3), model.fit(X, Y, **groups).guarantee_
    for printed in (str(plan), str(receipt)):
        first, *others = printed.split("\n")
        assert len(others) < 10
        assert all(len(line) <= width for line in others[:-1])
        assert ("differential" in first) == plan.is_private
    assert str(receipt).startswith(f"statement: {receipt.statement()}\n")
    unit = "person" if groups else "row"
    assert unit in str(plan).split("\n")[0] or not plan.is_private


@pytest.mark.parametrize(
    "planned",
    [
        sv.DPScaler(**BUDGET),
        sv.DPPipeline([("scale", sv.DPScaler()), ("model", sv.DPRidge(label_bounds=(0, 1)))], **BUDGET),
        sv.DPSearchCV(sv.DPLogisticRegression(classes=[0, 1]), {"alpha": [1e-5, 1e-3]}, **BUDGET),
    ],
    ids=lambda planned: type(planned).__name__,
)
def test_other_plans(planned, width):
    first, *others = str(planned.plan(200, 3)).split("\n")
    assert "differentially private for one row" in first
    assert len(others) < 10 and all(len(line) <= width for line in others)


def test_a_forecast_and_a_solver_object(width):
    from sottovoce.papers.dp_scd import Minibatch

    told = sv.forecast(sv.DPRidge(label_bounds=(0, 1), data_norm=1.0, **BUDGET), 2000, 5, r2_without_noise=0.5)
    assert told.sentence in str(told).split("\n")[0] and len(str(told).split("\n")) <= 10
    assert str(Minibatch(epochs=2.0)) == "Minibatch(batch_size=None, epochs=2.0)"
