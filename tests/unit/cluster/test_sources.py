"""Partitions of Parquet files, as they are and through a schema: what a worker reads, keeps and refuses."""

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from sottovoce.central.data.row_memory import RowMemory
from sottovoce.cluster import sources
from sottovoce.cluster.sources import STORAGES, RowsDigest, Source, bytes_a_row, partitions_of, storage_for
from sottovoce.exceptions import ParameterError, TableError
from sottovoce.tables import CategoricalColumn, NumericColumn, ParquetTable, Schema, read_table

AGE, TOWN = NumericColumn("age", bounds=(0, 100)), CategoricalColumn("town", categories=("ulm", "bonn", "jena"))
SICK = CategoricalColumn("sick", categories=("no", "yes"))
MANY = CategoricalColumn("code", categories=tuple(f"c{k}" for k in range(40)))
DENSE = Schema((AGE, TOWN, SICK), target="sick")
SPARSE = Schema((AGE, MANY, SICK), target="sick")
NUMBERS: dict[str, Any] = {"features": ["age", "cost"], "target": "sick"}
KINDS = [NUMBERS, DENSE, SPARSE]


def people(n: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table({
        "age": rng.uniform(0, 100, n), "cost": rng.integers(0, 9, n), "town": rng.choice(["ulm", "bonn", "jena"], n),
        "code": [f"c{k}" for k in rng.integers(0, 40, n)], "sick": rng.choice(["no", "yes"], n), "note": ["x"] * n,
    })  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    for name, n_rows, size in (("a", 700, 100), ("b", 330, 50), ("c", 0, 1)):
        pq.write_table(people(n_rows, n_rows), folder / f"{name}.parquet", row_group_size=size, compression="none")
    return folder


def opened(
    path: Path, kind: Any, partitions: int | None = 1, storage: str | None = None, limits: tuple[int, ...] = (0, 0),
    **options: Any,
) -> list[Source]:  # fmt: skip
    said = {"schema": kind} if isinstance(kind, Schema) else kind
    return partitions_of(ParquetTable(path, **said | options), limits, partitions, storage)


def loaded(path: Path, kind: Any, *where: Any, scratch: Path | None = None, **options: Any) -> list[Any]:
    """Read partitions as workers do, to which they were sent."""
    return [pickle.loads(pickle.dumps(source)).load(scratch) for source in opened(path, kind, *where, **options)]


def digests(*given: Any, **options: Any) -> list[str]:
    return [each.digest for each in loaded(*given, **options)]


def rows_of(held: Any) -> np.ndarray:
    blocks = (
        [held.raw] if isinstance(held.raw, np.ndarray) or sp.issparse(held.raw) else [b for _, b in held.raw.blocks(1)]
    )
    return np.concatenate([block.toarray() if sp.issparse(block) else block for block in blocks])


def whole(folder: Path, kind: Any) -> tuple[np.ndarray, np.ndarray]:
    """Read all files on one machine."""
    if not isinstance(kind, Schema):
        table = pa.concat_tables(pq.read_table(folder / f"{name}.parquet") for name in "ab")
        return np.transpose([table["age"], table["cost"]]).astype(np.float32), np.array(table["sick"].to_pylist())
    tables = [read_table(folder / f"{name}.parquet") for name in "ab"]
    X = [kind.features(table) for table in tables]
    rows = sp.vstack(X).toarray() if kind.sparse else np.vstack(X)
    return rows, np.concatenate([kind.labels(table) for table in tables])


@pytest.mark.parametrize("partitions", [1, 2, 5, 1000])
@pytest.mark.parametrize("kind", KINDS, ids=["numbers", "dense", "sparse"])
def test_the_rows_are_those_of_the_files_however_they_are_cut_and_kept(
    folder: Path, tmp_path: Path, kind: Any, partitions: int
) -> None:
    scratch, seen = tmp_path / "scratch", []
    scratch.mkdir()
    X, y = whole(folder, kind)
    for storage in STORAGES if kind is NUMBERS else STORAGES[:2]:
        some = opened(folder, kind, partitions, storage)
        held = loaded(folder, kind, partitions, storage, scratch=scratch)
        assert len(some) == len(held) == min(partitions, 7 + 7)
        np.testing.assert_array_equal(np.concatenate([rows_of(each) for each in held]), X)
        np.testing.assert_array_equal(np.concatenate([each.labels for each in held]), y)
        for source, each in zip(some, held, strict=True):
            assert (source.shape, source.dtype) == (each.raw.shape, each.raw.dtype) and source.has_labels
            if storage == "memory":
                assert sp.issparse(each.raw) == (kind is SPARSE)
                assert kind is SPARSE or source.n_bytes == each.raw.nbytes
                continue
            memory = each.raw.row_memory(each.n_rows)
            assert type(memory) is not RowMemory and source.n_bytes == 0
            assert each.raw.feature_names == (("age", "cost") if kind is NUMBERS else kind.feature_names)
            memory.close()
            each.close()
        assert [source.first_row for source in some] == np.cumsum([0, *(each.n_rows for each in held[:-1])]).tolist()
        assert list(scratch.iterdir()) == []
        seen.append([each.digest for each in held])
    assert all(other == seen[0] for other in seen) and len(set(seen[0])) == len(seen[0])


def test_the_digest_sees_values_labels_names_and_types(tmp_path: Path) -> None:
    def written(k: int, **other: Any) -> Path:
        columns = {"a": [1.0, 2.0], "b": [3.0, 4.0], "y": [0, 1]} | other
        pq.write_table(pa.table(columns), tmp_path / f"{k}.parquet")
        return tmp_path / f"{k}.parquet"

    last = float(np.nextafter(np.float32(4.0), np.float32(5.0)))
    tables = [written(0), written(1, b=[3.0, last]), written(2, y=[1, 1]), written(3, y=pa.array([0, 1], pa.int32()))]
    target = {"target": "y"}
    found = [digests(path, target)[0] for path in tables]
    for options in ({"features": ["b", "a"]}, {"dtype": "float64"}, {"features": ["a", "b"], "target": None}):
        found += digests(tables[0], target, **options)
    assert len(set(found)) == 7
    assert digests(written(4), target) == found[:1]


def test_the_digest_does_not_depend_on_blocks() -> None:
    X = np.random.default_rng(0).normal(size=(900, 3))
    at_once, pieces = RowsDigest(("a",), X.shape, X.dtype), RowsDigest(("a",), X.shape, X.dtype)
    at_once.add(X)
    for block in np.array_split(X, 7):
        pieces.add(block)
    assert at_once.value == pieces.value


@pytest.mark.parametrize("kind", KINDS, ids=["numbers", "dense", "sparse"])
def test_a_file_that_changed_or_is_not_there_is_refused_before_a_row_is_read(folder: Path, kind: Any) -> None:
    some = opened(folder, kind, 3)
    before = [source.load(None).digest for source in some]
    path = folder / "a.parquet"
    known = path.stat()
    changed = pq.read_table(path).to_pylist()
    changed[650]["age"], changed[651]["age"] = changed[651]["age"], changed[650]["age"]
    pq.write_table(pa.Table.from_pylist(changed), path, row_group_size=100, compression="none")
    with pytest.raises(TableError, match=r"a\.parquet: the file is not the one that was opened"):
        some[1].load(None)
    os.utime(path, ns=(known.st_atime_ns, known.st_mtime_ns))  # the same size and date: the rows tell
    assert path.stat().st_size == known.st_size
    after = [source.load(None).digest for source in some]
    assert [one == other for one, other in zip(before, after, strict=True)] == [True, False, True]
    (folder / "b.parquet").unlink()
    with pytest.raises(TableError, match=r"b\.parquet: a worker on .* finds no such file.*path must lead .*s3://"):
        some[2].load(None)


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("age", None, None), ("sick", "perhaps", "'perhaps' is not"), ("town", "rome", "'rome' is not"),
        ("sick", None, "missing"),
    ],
)  # fmt: skip
def test_errors_name_file_and_row_as_on_one_machine(folder: Path, column: str, value: Any, said: str | None) -> None:
    rows = people(330, 1).to_pylist()
    rows[207][column] = value
    pq.write_table(pa.Table.from_pylist(rows), folder / "b.parquet", row_group_size=50)

    def message(read: Any) -> str | None:
        try:
            read()
        except TableError as error:
            return str(error)
        return None

    there = message(lambda: loaded(folder, DENSE, 6))
    assert there == message(lambda: whole(folder, DENSE))
    assert there is None if said is None else "b.parquet, row 208, column" in str(there)
    if (column, value) == ("sick", None):
        assert "row 907 has no label" in str(message(lambda: loaded(folder, NUMBERS, 6)))


def test_what_is_no_such_table_is_refused_before_a_value_is_read(folder: Path) -> None:
    pq.write_table(people(10, 0).drop_columns(["town"]), folder / "d.parquet")
    with pytest.raises(TableError, match=r"d\.parquet.*'town'"):
        opened(folder, DENSE)
    (folder / "d.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(TableError, match=r"d\.parquet: cannot be read as Parquet: "):
        opened(folder, DENSE)
    for name in "abd":
        (folder / f"{name}.parquet").unlink()
    with pytest.raises(TableError, match=r"c\.parquet: the table has columns, but no row of data"):
        opened(folder, DENSE)


def test_how_many_partitions_and_where_they_are_kept(folder: Path) -> None:
    assert len(opened(folder, NUMBERS, None)) == len(opened(folder, NUMBERS, 12))  # 6 a worker
    assert {source.storage for source in opened(folder, NUMBERS)} == {"memory"}
    dtype = np.dtype(np.float32)
    assert bytes_a_row(3, dtype) == 68
    assert storage_for(900, 3, dtype, [2 * 900 * 34, 2 * 900 * 34]) == "memory"
    assert storage_for(900, 3, dtype, [2 * 900 * 34, 2 * 900 * 34 - 2]) == "scratch"
    assert storage_for(900, 3, dtype, [1, 0]) == "memory"  # a worker without a limit
    assert {source.storage for source in opened(folder, SPARSE, limits=(1000,))} == {"scratch"}
    with pytest.raises(ParameterError, match="storage must be one of 'memory', 'scratch'; got 'disk'"):
        opened(folder, NUMBERS, storage="disk")
    with pytest.raises(ParameterError, match="partitions must be a whole number >= 1"):
        opened(folder, NUMBERS, 0)


def test_rows_are_found_in_the_process_that_holds_them(folder: Path) -> None:
    source, other = opened(folder, NUMBERS, 2)
    assert sources.held(source) is None
    held = sources.load(pickle.loads(pickle.dumps(source)), None)
    assert sources.held(source) is held
    assert sources.held(other) is None
    del held
    assert sources.held(source) is None


def test_a_look_needs_no_copy_of_the_rows(folder: Path) -> None:
    (source,) = opened(folder, NUMBERS)
    looked = source.opened(None)
    assert looked.raw is source.table
    np.testing.assert_array_equal(looked.labels, whole(folder, NUMBERS)[1])
