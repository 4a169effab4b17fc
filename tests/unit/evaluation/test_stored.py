"""Evaluation of a table on disk: scored block by block, kept on disk, and the same figures bit by bit."""

import numpy as np
import pytest
import scipy.sparse as sp

import sottovoce as sv
from sottovoce.central.data import streamed
from sottovoce.central.data.streamed import ScratchTable
from sottovoce.evaluation import tables

N = 9_000


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Several blocks and several pieces of few rows."""
    monkeypatch.setattr(streamed, "BLOCK_BYTES", 700 * 4 * 8)
    monkeypatch.setattr(tables, "_AT_ONCE", 2_000)


def table(X, y):
    return ScratchTable.write(((X[lo : lo + 1001], y[lo : lo + 1001]) for lo in range(0, N, 1001)), X.shape[1])


def trained(kind, X, y):
    given = {"epsilon": 1.0, "delta": 1e-7, "data_norm": 2.0, "random_state": 0}
    if kind == "regression":
        return sv.DPRidge(**given, label_bounds=(-3.0, 3.0)).fit(X, y)
    maker = sv.DPLinearSVC if kind == "scores" else sv.DPLogisticRegression
    return maker(**given, classes=np.unique(y)).fit(X, y)


@pytest.mark.parametrize("kind", ["probabilities", "scores", "regression", "several", "sparse"])
def test_figures_are_those_of_the_table_in_memory(kind):
    draw = np.random.default_rng(7)
    X = draw.uniform(-1.0, 1.0, (N, 4))
    if kind == "sparse":
        X = sp.csr_array(np.where(draw.random(X.shape) < 0.3, X, 0.0))
    z = X @ np.array([2.0, -1.0, 0.5, 0.0]) + draw.normal(size=N)
    y = z if kind == "regression" else np.digitize(z, [-1.0, 1.0]) if kind == "several" else np.where(z > 0, "b", "a")
    model = trained(kind, X[:3_000], y[:3_000])
    given = {"epsilon": 1.0, "random_state": 3}
    whole, stored = sv.evaluate(model, X, y, **given), sv.evaluate(model, table(X, y), **given)
    assert whole.to_json() == stored.to_json()


def test_rows_that_cannot_be_read_are_left_out_as_in_memory():
    draw = np.random.default_rng(8)
    X = draw.uniform(-1.0, 1.0, (N, 2))
    y = np.where(X[:, 0] > 0, "b", "a")
    model = trained("probabilities", X[:3_000], y[:3_000])
    X[[5, N - 1], [0, 1]] = np.nan, np.inf
    y[17] = "?"
    given = {"epsilon": 5.0, "random_state": 3}
    whole, stored = sv.evaluate(model, X, y, **given), sv.evaluate(model, table(X, y), **given)
    assert whole.to_json() == stored.to_json()
