"""Parquet that a schema describes, from disk and on a cluster: the model of rows in memory, and what is refused."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.exceptions import ParameterError, SchemaError, TableError
from sottovoce.ledger import Ledger
from sottovoce.tables import Schema, read_table
from support.commands import incomes

distributed = pytest.importorskip("distributed")
from sottovoce.cluster import DaskTable  # noqa: E402

COLUMNS = {"age": (17, 90), "work": ["private", "state"], "income": {"categories": ["low", "high"]}}
SCHEMA = Schema.from_columns(COLUMNS, target="income")
BY_PERSON = Schema.from_columns(COLUMNS, target="income", unit="id", max_rows_per_unit=2)


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(n_workers=2, processes=False, protocol="tcp", dashboard_address=":0") as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture
def path(tmp_path: Path) -> Path:
    incomes(3000).assign(id=np.arange(3000) // 2).to_parquet(tmp_path / "people.parquet", row_group_size=250)
    return tmp_path / "people.parquet"


def fitted(kind: type, table: object, y: object = None, **options: object):
    given = {"epsilon": 1.0, "delta": 1e-5, "data_norm": 2**0.5, "classes": ["low", "high"], "random_state": 3}
    return kind(**given | options).fit(table, y)


@pytest.mark.parametrize("kind", [sv.DPLinearSVC, sv.DPLogisticRegression])
def test_the_model_is_that_of_one_machine_however_the_table_is_cut(client, path, kind):
    table = read_table(path)
    here = fitted(kind, SCHEMA.features(table), SCHEMA.labels(table))
    for partitions in (1, 7):
        with DaskTable.from_parquet(client, path, schema=SCHEMA, partitions=partitions) as rows:
            assert rows.feature_names == SCHEMA.feature_names
            there = fitted(kind, rows)
        assert there.coef_.tolist() == here.coef_.tolist()
        assert there.guarantee_.statement() == here.guarantee_.statement()
    rows = sv.ParquetTable(path, schema=SCHEMA)
    on_disk = fitted(kind, rows)
    assert on_disk.coef_.tolist() == here.coef_.tolist()
    assert on_disk.score(rows) == here.score(SCHEMA.features(table), SCHEMA.labels(table))
    np.testing.assert_array_equal(rows.to_npy(path.with_suffix(".npy")), SCHEMA.features(table))


def test_people_are_those_of_the_unit(client, path):
    table = read_table(path)
    more = {"solver": "newton", "max_rows_per_group": 2}
    here = sv.DPLogisticRegression(
        epsilon=1.0, delta=1e-5, data_norm=2**0.5, classes=["low", "high"], random_state=3, **more
    ).fit(BY_PERSON.features(table), BY_PERSON.labels(table), groups=BY_PERSON.groups(table))
    with DaskTable.from_parquet(client, path, schema=BY_PERSON) as rows:
        there = fitted(sv.DPLogisticRegression, rows, **more)
    on_disk = fitted(sv.DPLogisticRegression, rows := sv.ParquetTable(path, schema=BY_PERSON), **more)
    assert there.coef_.tolist() == on_disk.coef_.tolist() == here.coef_.tolist()
    scaled = sv.DPScaler(epsilon=1.0, delta=1e-5, max_rows_per_group=2).fit(rows).transform(rows)
    for table in (rows, scaled):
        assert table.groups().tolist() == BY_PERSON.groups(read_table(path)).tolist()
        with pytest.raises(ParameterError, match="max_rows_per_group is missing"):
            fitted(sv.DPLogisticRegression, table)


@pytest.mark.parametrize("where", ["on disk", "on a cluster"])
def test_a_cell_that_breaks_the_schema_is_told_after_the_charge(client, path, where):
    people = incomes(3000)
    people.loc[2600, "work"] = "sailor"
    people.to_parquet(path, row_group_size=250)
    strict = Schema.from_columns(COLUMNS | {"work": {"categories": ["private", "state"]}}, target="income")
    ledger = Ledger(f"sqlite:///{path.parent / 'book.db'}")
    ledger.create("people", epsilon=5.0, delta=1e-3, adjacency="zero-out", allow_nonprivate=True)  # for the seed
    with (
        nullcontext(sv.ParquetTable(path, schema=strict))
        if where == "on disk"
        else DaskTable.from_parquet(client, path, schema=strict) as rows,
        pytest.raises(TableError, match=r"people\.parquet, row 2601, column 'work': 'sailor' is not"),
    ):
        fitted(sv.DPLinearSVC, rows, ledger=ledger, dataset="people")
    assert ledger.spent("people")[0] > 0.5


def test_what_does_not_go_together_is_refused(client, path):
    for given in ({"features": ["age"]}, {"target": "income"}, {"dtype": "float64"}):
        with pytest.raises(ParameterError, match="are for a table without a schema"):
            DaskTable.from_parquet(client, path, schema=SCHEMA, **given)
    with pytest.raises(SchemaError, match="confirmed = false"):
        DaskTable.from_parquet(client, path, schema=replace(SCHEMA, confirmed=False))
    with pytest.raises(TableError, match="there is no column 'income'"):
        incomes(10).drop(columns="income").to_parquet(path)
        DaskTable.from_parquet(client, path, schema=SCHEMA)
