"""What is a list in a public argument is a list: what has no order, or is gone once it was looked at, is refused."""

import contextlib
import datetime
from collections import UserDict
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sottovoce as sv
from sottovoce import local, vertical
from sottovoce.exceptions import SottovoceError
from sottovoce.tables import CategoricalColumn, DateColumn, Layout, NumericColumn, Schema, read_table
from support.noise import NoiseOpenedError

pytestmark = pytest.mark.usefixtures("noise_is_forbidden")

N = 30
X = np.random.default_rng(0).uniform(-0.5, 0.5, (N, 2))
Y, T = np.where(X[:, 0] > 0, "b", "a"), np.clip(X[:, 0], 0.0, 1.0)
FACTS = {"epsilon": 1.0, "delta": 1e-5}
NORM = {**FACTS, "data_norm": 1.0}
LOCAL = {"epsilon": 1.0, "n_features": 2}
RIDGE = {**NORM, "label_bounds": (0, 1)}
MODEL = sv.DPRidge(**RIDGE, random_state=0).fit(X, T)
PARTIES = vertical.split_columns(X, {"a": [0], "b": [1]}, data_norm={"a": 1.0, "b": 1.0})
NUMBERS = [NumericColumn("x", bounds=(0, 1)), NumericColumn("y", bounds=(0, 1))]
FEATURES = [local.NumericFeature("x", 0, 1), local.NumericFeature("y", 0, 1)]
HELD = [vertical.Party(X, name=name, ids=range(N)) for name in "ab"]
TEXTS, PAIR = ["a", "b"], [0.0, 1.0]
DAYS = [datetime.date(2020, 1, 1), datetime.date(2021, 1, 1)]
STEPS = [("scale", sv.DPScaler()), ("model", sv.DPRidge(data_norm=1.0, label_bounds=(0, 1)))]
LISTS: dict[str, tuple[Callable[[Any], Any], list[Any]]] = {
    "classes": (lambda v: sv.DPLogisticRegression(**NORM, classes=v).fit(X, Y), TEXTS),
    "classes of parties": (lambda v: vertical.VerticalLinearSVC(**FACTS, classes=v).fit(PARTIES, Y), TEXTS),
    "classes of reports": (lambda v: local.Protocol(**LOCAL, classes=v), TEXTS),
    "label_bounds": (lambda v: sv.DPRidge(**NORM, label_bounds=v).fit(X, T), PAIR),
    "label_bounds of parties": (lambda v: vertical.VerticalRidge(**FACTS, label_bounds=v).fit(PARTIES, T), PAIR),
    "label_bounds of reports": (lambda v: local.Protocol(**LOCAL, task="regression", label_bounds=v), PAIR),
    "label_bounds of evaluations": (lambda v: sv.evaluate(MODEL, X, T, epsilon=1.0, label_bounds=v), PAIR),
    "bounds of a scaler": (lambda v: sv.DPScaler(**FACTS, bounds=v).fit(X), PAIR),
    "bounds of a column": (lambda v: NumericColumn("x", bounds=v), PAIR),
    "bounds of dates": (lambda v: DateColumn("x", bounds=v), DAYS),
    "bins": (lambda v: NumericColumn("x", bounds=(0, 9), bins=v), [1.0, 2.0]),
    "categories": (lambda v: CategoricalColumn("x", categories=v), TEXTS),
    "categories of reports": (lambda v: local.CategoricalFeature("x", v), TEXTS),
    "features of reports": (lambda v: local.Protocol(epsilon=1.0, features=v), FEATURES),
    "missing": (lambda v: Layout(missing=v), TEXTS),
    "columns of a schema": (Schema, NUMBERS),
    "names": (lambda v: read_table("table.csv", layout=Layout(header=False), names=v), TEXTS),
    "features": (lambda v: sv.ParquetTable("table.parquet", features=v), TEXTS),
    "path": (sv.ParquetTable, ["table.parquet", "table.parquet"]),
    "steps": (lambda v: sv.DPPipeline(v, **FACTS).fit(X, T), STEPS),
    "param_distributions": (lambda v: sv.DPSearchCV(STEPS[1][1], {"alpha": v}, **FACTS).fit(X, T), [0.1, 1.0]),
    "parties": (vertical.InProcessParties, HELD),
    "parties to align": (vertical.align, HELD),
    "columns": (lambda v: vertical.split_columns(X, {"a": v}), [0, 1]),
    "budget": (lambda v: vertical.Party(X, name="a", budget=v), [1.0, 1e-6]),
    "protocols": (lambda v: vertical.Party(X, name="a", protocols=v), []),
}
ROWS: dict[str, Callable[[Any], Any]] = {
    "y": lambda v: sv.DPRidge(**RIDGE).fit(X, v),
    "y of classifiers": lambda v: sv.DPLogisticRegression(**NORM, classes=range(1, N + 1)).fit(X, v),
    "y of evaluations": lambda v: sv.evaluate(MODEL, X, v, epsilon=1.0, label_bounds=(0, 1)),
    "y of parties": lambda v: vertical.Party(X, name="a", y=v),
    "y of trainings": lambda v: vertical.VerticalRidge(**FACTS, label_bounds=(0, 1)).fit(PARTIES, v),
    "groups": lambda v: sv.DPRidge(**RIDGE, max_rows_per_group=1).fit(X, T, groups=v),
    "groups of evaluations": lambda v: sv.evaluate(
        MODEL, X, T, groups=v, epsilon=1.0, label_bounds=(0, 1), max_rows_per_group=1
    ),
    "sample_weight": lambda v: sv.DPRidge(**RIDGE, max_sample_weight=1.0).fit(X, T, sample_weight=v),
    "ids": lambda v: vertical.Party(X, name="a", ids=v),
}
UNORDERED: dict[str, Callable[[list[Any]], Any]] = {
    "mapping": dict.fromkeys, "other mapping": lambda v: UserDict(dict.fromkeys(v)),
    "keys": lambda v: dict.fromkeys(v).keys(), "set": set, "frozen set": frozenset,
}  # fmt: skip
ONCE = {"iterator": iter, "generator": lambda v: (one for one in v), "text": lambda _: "ab", "bytes": lambda _: b"ab"}


@pytest.fixture(autouse=True)
def tables(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"a": X[:, 0], "b": X[:, 1]}), "table.parquet")
    (tmp_path / "table.csv").write_text("1,2\n3,4\n")


@pytest.mark.parametrize("name", LISTS)
def test_a_public_list_has_an_order_that_stays(name):
    call, good = LISTS[name]
    for ordered in (list, tuple):
        with contextlib.suppress(NoiseOpenedError):  # every check is passed
            call(ordered(good))
    for kind, bad in {**UNORDERED, **ONCE}.items():
        if (name, kind) != ("path", "text"):
            with pytest.raises(SottovoceError, match=rf"{name.split()[0]}\b.* must be .*(list|pair|day|labels).*; got"):
                call(bad(good))


@pytest.mark.parametrize("name", ROWS)
def test_one_entry_a_row_stands_in_the_order_of_the_rows(name):
    call, good = ROWS[name], list(range(1, N + 1))
    for ordered in (list, tuple, np.array, pd.Series):
        with contextlib.suppress(NoiseOpenedError):
            call(ordered(good))
    for unordered in UNORDERED.values():
        with pytest.raises(SottovoceError, match=rf"^{name.split()[0]}\b.* must .*row.*; got [^0-9]*$"):
            call(unordered(good))
    for once in ONCE.values():
        with pytest.raises((SottovoceError, TypeError, ValueError)):
            call(once(good))
