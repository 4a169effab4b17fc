"""Predictions and scores where the rows are: the same bits as in memory, as arrays of Dask's."""

import pickle
from functools import cache

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.base import clone

import sottovoce as sv
from sottovoce.cluster.sources import Source
from sottovoce.cluster.table import DaskTable
from sottovoce.exceptions import ClusterError, DataError, ParameterError
from support.dask_workers import dask_workers
from support.pooled_table import inline

pytest.importorskip("distributed")

N, D = 9000, 101
X = np.random.default_rng(0).uniform(-1.0, 1.0, (N, D)).astype(np.float32)
NAMES = [f"x{k}" for k in range(D)]
FRAME = pd.DataFrame(X, columns=NAMES)
BINARY = np.where(X[:, 0] + X[:, 1] > 0.0, "yes", "no")
THREE = np.argmax(X[:, :3], axis=1)
NUMBER = X @ np.linspace(-1.0, 1.0, D) + 0.1
PUBLIC = {"epsilon": 5.0, "delta": 1e-7, "data_norm": 5.0, "random_state": 0, "solver": "scd"}


@pytest.fixture(scope="module")
def client():
    with dask_workers(2) as client:
        yield client


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("files") / "t.parquet"
    columns = dict(zip(NAMES, X.T, strict=True))
    pq.write_table(pa.table({**columns, "binary": BINARY, "three": THREE, "number": NUMBER}), path, row_group_size=1100)
    return path


def opened(client, path, target, **options):
    return DaskTable.from_parquet(client, path, target=target, **{"features": NAMES, "partitions": 4, **options})


CASES = {
    "two classes": (sv.DPLogisticRegression(**PUBLIC, classes=["no", "yes"]), "binary", BINARY),
    "three classes": (sv.DPLogisticRegression(**PUBLIC, classes=[0, 1, 2]), "three", THREE),
    "svc": (sv.DPLinearSVC(**PUBLIC, classes=["no", "yes"]), "binary", BINARY),
    "ridge": (sv.DPRidge(**PUBLIC, label_bounds=(-2.0, 2.0)), "number", NUMBER),
}


@cache
def fitted(case):
    model, target, y = CASES[case]
    return model.fit(FRAME, y), target, y


@pytest.mark.parametrize(("case", "storage"), [*((case, "memory") for case in CASES), ("three classes", "scratch")])
def test_the_same_bits_as_in_memory(client, path, case, storage):
    model, target, y = fitted(case)
    with opened(client, path, target, storage=storage) as table:
        for method in ("predict", "decision_function", "predict_proba", "predict_log_proba"):
            if not hasattr(model, method) or (case == "svc" and "proba" in method):
                continue
            expected, lazy = getattr(model, method)(FRAME), getattr(model, method)(table)
            assert (lazy.shape, lazy.dtype) == (expected.shape, expected.dtype)
            assert lazy.chunks[0] == tuple(source.n_rows for source in table.partitions.sources)
            np.testing.assert_array_equal(lazy.compute(), expected)
        assert model.score(table) == pytest.approx(model.score(FRAME, y), rel=1e-12, abs=0)
        assert model.score(sv.ParquetTable(path, features=NAMES, target=target)) == model.score(FRAME, y)


def test_arrays_are_lazy_and_need_the_client_of_the_table(client, path):
    model, target, _ = fitted("ridge")
    with opened(client, path, target) as table:
        lazy = model.predict(table)
    with pytest.raises(ParameterError, match="the DaskTable is closed"):
        model.predict(table)
    with pytest.raises(ClusterError, match="rows of a DaskTable are read by workers of its cluster alone"):
        lazy.compute(scheduler="synchronous")
    np.testing.assert_array_equal(lazy.compute(), model.predict(FRAME))  # read again: nobody holds the rows now


def test_what_workers_get_of_a_model_has_no_seed_and_no_ledger(client, path, monkeypatch):
    model, target, _ = fitted("ridge")
    sent, search = [], sv.DPSearchCV(sv.DPRidge(), {}, random_state=0)
    search.best_estimator_, search.n_features_in_, search.feature_names_in_ = model, len(NAMES), np.array(NAMES, object)
    monkeypatch.setattr(DaskTable, "counted", lambda _, judge, how: sent.append(judge.model) or [(2, 0.0, 1.0, 0.5)])
    with opened(client, path, target) as table:
        assert model.score(table) == search.score(table) == 0.5
    assert model.random_state == search.random_state == 0 and sent[1].random_state is None
    for one in (sent[0], sent[1].best_estimator_):
        assert one.random_state is None and one.ledger is None and one.dataset is None and "charge_" not in vars(one)
    pickle.dumps(sent)


def test_refusals_in_words(client, path, tmp_path):
    model, target, y = fitted("two classes")
    with opened(client, path, "three") as table:
        with pytest.raises(ParameterError, match="y and sample_weight must be left out"):
            model.score(table, y)
        with pytest.raises(DataError, match="labels of the table are of type int64, the classes of the model"):
            model.score(table)
    with opened(client, path, None) as table, pytest.raises(ParameterError, match="names no target: make it with"):
        model.score(table)
    with opened(client, path, target, features=NAMES[::-1]) as table, pytest.raises(ValueError, match="feature names"):
        model.predict(table)
    holed = FRAME.assign(binary=BINARY)
    holed.loc[[7000, 8990], "x3"] = np.nan
    holed.to_parquet(tmp_path / "holed.parquet", row_group_size=1100)
    with opened(client, tmp_path / "holed.parquet", target) as table:
        for ask in (lambda: model.predict(table).compute(), lambda: model.score(table)):
            with pytest.raises(DataError, match="Input X contains NaN: row 7000, column 'x3'"):
                ask()


def test_rows_are_looked_at_where_they_are_held(client, path, monkeypatch):
    """No file is opened once more, and no row is among the tasks."""
    model, target, _ = fitted("ridge")
    with opened(client, path, target, partitions=9) as table:
        monkeypatch.setattr(Source, "opened", None)
        lazy = model.predict(table)
        np.testing.assert_array_equal(lazy.compute(), model.predict(FRAME))
        assert max(len(pickle.dumps(value)) for value in dict(lazy.dask).values()) < 20_000
        assert model.score(table) == pytest.approx(model.score(FRAME, NUMBER), rel=1e-12)


def test_r_squared_of_special_labels(client):
    model = clone(CASES["ridge"][0]).fit(X, NUMBER)
    for labels in (np.full(300, 0.5), 1e6 + NUMBER[:300]):
        with DaskTable(client, inline(X[:300], labels, (100, 200))) as table:
            assert model.score(table) == pytest.approx(model.score(X[:300], labels), rel=1e-9)


def test_an_evaluation_is_refused_before_its_charge(client, path, tmp_path):
    ledger = sv.Ledger(f"sqlite:///{tmp_path / 'budget.db'}")
    ledger.create("people", epsilon=3.0, delta=1e-5)
    with opened(client, path, "binary") as table, pytest.raises(ParameterError, match="give a ParquetTable"):
        sv.evaluate(fitted("svc")[0], table, epsilon=0.1, ledger=ledger, dataset="people")
    assert ledger.history("people") == []
