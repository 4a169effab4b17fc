"""Every estimator, solver and mechanism once: what must run with the oldest and with the newest dependencies."""

import math

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import sottovoce as sv
from sottovoce.local import Aggregator, Protocol, Randomizer
from support.receipts import PRIVATE, receipts, table

X, Y = table(120)
X, Y = X[:, :3] - 0.5, (Y > 0.25).astype(int)


@pytest.mark.slow  # unit/report/test_receipt_forgeries.py checks the same receipts among the fast tests
@pytest.mark.parametrize("name", PRIVATE)
def test_every_training_and_collection(name):
    for receipt in receipts(name):
        assert sv.Guarantee.from_json(receipt.to_json()) == receipt


@pytest.mark.parametrize("make", [sp.csr_array, sp.csr_matrix, pd.DataFrame, np.asfortranarray, np.float32])
def test_every_kind_of_table(make):
    model = sv.DPLogisticRegression(epsilon=math.inf, data_norm=1.0, classes=[0, 1]).fit(make(X), Y)
    assert np.mean(model.predict(make(X)) == Y) > 0.9


def test_a_table_on_disk(tmp_path):
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=Y)
    frame.to_parquet(tmp_path / "table.parquet")
    table = sv.ParquetTable(tmp_path / "table.parquet", target="y")
    model = sv.DPLogisticRegression(epsilon=1.0, delta=1e-4, data_norm=1.0, classes=[0, 1]).fit(table)
    assert len(model.predict(frame[["a", "b", "c"]])) == len(X)


def test_from_reports_to_a_model():
    protocol = Protocol(n_features=3, epsilon=8.0)
    device = Randomizer(protocol)
    aggregator = Aggregator(protocol)
    aggregator.add([device.report(x, 2 * y - 1) for x, y in zip(X, Y.tolist(), strict=True)])
    assert len(aggregator.fit().predict(X)) == len(X)


def test_a_ledger(tmp_path):
    ledger = sv.Ledger(f"sqlite:///{tmp_path / 'budget.db'}")
    ledger.create("people", epsilon=3.0, delta=1e-3)
    sv.DPLogisticRegression(
        epsilon=1.0, delta=1e-4, data_norm=1.0, classes=[0, 1], ledger=ledger, dataset="people"
    ).fit(X, Y)
    assert ledger.verify().ok
    assert [charge.state for charge in ledger.history("people")] == ["committed"]
