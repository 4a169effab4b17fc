"""Partitions through a schema: the same numbers as one machine's, for any cut; errors name file and row as there."""

import os
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from sottovoce.cluster.encoded import EncodedRows
from sottovoce.cluster.parquet import partitions_of
from sottovoce.exceptions import TableError
from sottovoce.tables import CategoricalColumn, Encoder, NumericColumn, Schema, read_table

AGE, TOWN = NumericColumn("age", bounds=(0, 100)), CategoricalColumn("town", categories=("ulm", "bonn", "jena"))
SICK = CategoricalColumn("sick", categories=("no", "yes"))
MANY = CategoricalColumn("code", categories=tuple(f"c{k}" for k in range(40)))
DENSE = Encoder(Schema((AGE, TOWN, SICK), target="sick"))
SPARSE = Encoder(Schema((AGE, MANY, SICK), target="sick"))


def people(n, seed):
    rng = np.random.default_rng(seed)
    return pa.table({
        "age": rng.uniform(0, 100, n), "town": rng.choice(["ulm", "bonn", "jena"], n),
        "code": [f"c{k}" for k in rng.integers(0, 40, n)], "sick": rng.choice(["no", "yes"], n), "note": ["x"] * n,
    })  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    pq.write_table(people(700, 0), tmp_path / "a.parquet", row_group_size=100)
    pq.write_table(people(330, 1), tmp_path / "b.parquet", row_group_size=50)
    pq.write_table(people(0, 2), tmp_path / "c.parquet")
    return tmp_path


def opened(folder, encoder, partitions, *, memory_limits=(0,), **where):
    return partitions_of(EncodedRows(folder, encoder), memory_limits, partitions, **where)


def dense(matrix):
    return matrix.toarray() if sp.issparse(matrix) else matrix


def test_a_log_knows_files_by_name_and_date_however_they_are_cut(folder):
    def known():
        return {stamp for source in opened(folder, DENSE, 5) for stamp in source.stamps}

    before = known()
    assert len(before) == 2  # the third file has no row
    assert before == {stamp for source in opened(folder, DENSE, 1) for stamp in source.stamps}
    os.utime(folder / "a.parquet", ns=(0, 1))
    assert known() != before


@pytest.mark.parametrize("encoder", [DENSE, SPARSE])
@pytest.mark.parametrize("partitions", [1, 2, 5, 1000])
def test_the_cut_changes_nothing(folder, encoder, partitions):
    sources = pickle.loads(pickle.dumps(opened(folder, encoder, partitions)))
    assert len(sources) == min(partitions, 7 + 7)
    loaded = [source.load(None) for source in sources]
    assert [source.n_rows for source in sources] == [rows.raw.shape[0] for rows in loaded]
    assert [source.first_row for source in sources] == [0, *np.cumsum([rows.n_rows for rows in loaded])[:-1]]
    whole = [read_table(folder / name) for name in ("a.parquet", "b.parquet")]
    np.testing.assert_array_equal(
        np.vstack([dense(rows.raw) for rows in loaded]), np.vstack([dense(encoder.features(table)) for table in whole])
    )
    labels = np.concatenate([rows.labels for rows in loaded])
    np.testing.assert_array_equal(labels, np.concatenate([encoder.labels(table) for table in whole]))
    assert all(rows.raw.dtype == np.float64 and sp.issparse(rows.raw) == encoder.sparse for rows in loaded)


@pytest.mark.parametrize("encoder", [DENSE, SPARSE])
def test_on_scratch_disk_the_rows_are_the_same(folder, encoder, tmp_path):
    (kept,), (small,) = opened(folder, encoder, 1), opened(folder, encoder, 1, memory_limits=[2000, 2000])
    assert (kept.storage, small.storage) == ("memory", "scratch")
    in_memory, on_disk = kept.load(None), small.load(tmp_path)
    assert in_memory.digest == on_disk.digest
    np.testing.assert_array_equal(in_memory.labels, on_disk.labels)
    read = np.vstack([dense(block) for _, block in on_disk.raw.blocks(1)])
    np.testing.assert_array_equal(read, dense(in_memory.raw))
    on_disk.close()


def test_the_digest_is_that_of_the_rows(folder):
    def digests():
        return [source.load(None).digest for source in opened(folder, SPARSE, 3)]

    before = digests()
    assert before == digests()
    assert len(set(before)) == 3
    table = pq.read_table(folder / "a.parquet").to_pylist()
    table[650]["sick"] = "no" if table[650]["sick"] == "yes" else "yes"
    pq.write_table(pa.Table.from_pylist(table), folder / "a.parquet", row_group_size=100)
    after = digests()
    assert [one == other for one, other in zip(before, after, strict=True)] == [True, False, True]


def test_a_file_that_changed_is_refused(folder):
    source = opened(folder, DENSE, 1)[0]
    pq.write_table(people(700, 5), folder / "a.parquet", row_group_size=100)
    with pytest.raises(TableError, match=r"a\.parquet: the file is not the one that was opened"):
        source.load(None)


def test_a_path_that_leads_nowhere_at_a_worker(folder):
    source = opened(folder, DENSE, 1)[0]
    (folder / "b.parquet").unlink()
    with pytest.raises(
        TableError, match=r"b\.parquet: a worker on .* finds no such file\. A path must lead to the same"
    ):
        source.load(None)


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("age", None, None),
        ("sick", "perhaps", "'perhaps' is not"),
        ("town", "rome", "'rome' is not"),
        ("sick", None, "missing"),
    ],
)
def test_errors_name_file_and_row_as_on_one_machine(folder, column, value, said):
    rows = people(330, 1).to_pylist()
    rows[207][column] = value
    pq.write_table(pa.Table.from_pylist(rows), folder / "b.parquet", row_group_size=50)

    def message(read):
        try:
            read()
        except TableError as error:
            return str(error)
        return None

    def one_machine():
        table = read_table(folder / "b.parquet")
        return DENSE.features(table), DENSE.labels(table)

    there = message(lambda: [source.load(None) for source in opened(folder, DENSE, 6)])
    assert there == message(one_machine)
    assert there is None if said is None else "b.parquet, row 208, column" in there


def test_what_is_no_such_table_is_refused_before_a_value_is_read(folder):
    pq.write_table(people(10, 0).drop_columns(["town"]), folder / "d.parquet")
    with pytest.raises(TableError, match=r"d\.parquet.*'town'"):
        opened(folder, DENSE, 2)
    (folder / "d.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(TableError, match=r"d\.parquet: cannot be read as Parquet: "):
        opened(folder, DENSE, 2)
    for name in "abd":
        (folder / f"{name}.parquet").unlink()
    with pytest.raises(TableError, match=r"c\.parquet: the table has columns, but no row of data"):
        opened(folder, DENSE, 2)
