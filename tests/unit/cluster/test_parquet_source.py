"""Partitions of Parquet files: what a worker reads, keeps and refuses."""

import os
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sottovoce.central.data.row_memory import InMemory
from sottovoce.cluster import sources
from sottovoce.cluster.digest import RowsDigest
from sottovoce.cluster.parquet import STORAGES, ParquetSource, bytes_a_row, partitions_of, storage_for
from sottovoce.exceptions import ParameterError, TableError
from sottovoce.tables.parquet import ParquetTable

X = np.random.default_rng(0).uniform(-1.0, 1.0, (900, 3)).astype(np.float32)
Y = (X.sum(axis=1) > 0.0).astype(np.int64)


def write(path, x=X, y=Y, names=("a", "b", "c")):
    columns = {name: x[:, k] for k, name in enumerate(names)}
    pq.write_table(pa.table({**columns, "y": y}), path, row_group_size=50, compression="none")
    return path


@pytest.fixture
def files(tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    for part in range(3):
        rows = slice(300 * part, 300 * part + 300)
        write(folder / f"{part}.parquet", X[rows], Y[rows])
    return folder


def made(path, partitions=None, storage=None, limits=(0, 0), target="y", **options) -> list[ParquetSource]:
    return partitions_of(ParquetTable(path, target=target, **options), limits, partitions, storage)


def rows_of(loaded):
    raw = loaded.raw
    return raw if isinstance(raw, np.ndarray) else np.concatenate([block for _, block in raw.blocks(1)])


@pytest.mark.parametrize("storage", STORAGES)
def test_workers_hold_the_rows_of_the_files(files, tmp_path, storage):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    some = [pickle.loads(pickle.dumps(source)) for source in made(files, partitions=4, storage=storage)]
    loaded = [source.load(scratch) for source in some]
    np.testing.assert_array_equal(np.concatenate([rows_of(each) for each in loaded]), X)
    np.testing.assert_array_equal(np.concatenate([each.labels for each in loaded]), Y)
    assert [source.first_row for source in some] == np.cumsum([0, *(each.n_rows for each in loaded[:-1])]).tolist()
    for each in loaded:
        if storage != "memory":
            memory = each.raw.row_memory(each.n_rows)
            assert not isinstance(memory, InMemory)
            memory.close()
            assert each.raw.feature_names == ("a", "b", "c")
        each.close()
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("partitions", [1, 5])
def test_the_digest_is_that_of_the_rows_wherever_they_are_kept(files, partitions):
    digests = [[s.load(None).digest for s in made(files, partitions=partitions, storage=way)] for way in STORAGES]
    assert digests[0] == digests[1] == digests[2]
    assert len(set(digests[0])) == partitions


def test_the_digest_sees_values_labels_names_and_types(tmp_path):
    one = X.copy()
    one[899, 2] = np.nextafter(one[899, 2], np.float32(2.0))
    other = Y.copy()
    other[0] = 1 - other[0]
    tables = [
        write(tmp_path / "0.parquet"),
        write(tmp_path / "1.parquet", one),
        write(tmp_path / "2.parquet", y=other),
        write(tmp_path / "3.parquet", names=("a", "c", "b")),
        write(tmp_path / "4.parquet", y=Y.astype(np.int32)),
    ]
    digests = [made(path, partitions=1)[0].load(None).digest for path in tables]
    digests.append(made(tables[0], partitions=1, dtype="float64")[0].load(None).digest)
    digests.append(made(tables[0], features=["a", "b", "c"], limits=[0], target=None)[0].load(None).digest)
    assert len(set(digests)) == 7
    assert made(write(tmp_path / "5.parquet"), partitions=1)[0].load(None).digest == digests[0]


def test_the_digest_does_not_depend_on_blocks():
    whole, pieces = RowsDigest(("a",), X.shape, X.dtype), RowsDigest(("a",), X.shape, X.dtype)
    whole.add(X)
    for block in np.array_split(X, 7):
        pieces.add(block)
    assert whole.value == pieces.value


def test_a_file_that_changed_is_refused_before_a_row_is_read(files):
    some = [pickle.loads(pickle.dumps(source)) for source in made(files, partitions=3)]
    before = some[1].load(None)
    path = files / "1.parquet"
    known = path.stat()
    write(path, -X[300:600], Y[300:600])
    with pytest.raises(TableError, match=r"1\.parquet: the file is not the one that was opened"):
        some[1].load(None)
    os.utime(path, ns=(known.st_atime_ns, known.st_mtime_ns))  # the same size and date: the rows tell
    assert path.stat().st_size == known.st_size
    assert some[1].load(None).digest != before.digest
    some[0].load(None)


def test_a_worker_that_does_not_see_the_file_says_so(files):
    source = made(files, partitions=3)[2]
    (files / "2.parquet").unlink()
    with pytest.raises(TableError, match=r"2\.parquet: a worker on .* finds no such file.*s3://"):
        source.load(None)


def test_a_missing_label_is_refused_by_its_row_of_the_whole(tmp_path):
    path = write(tmp_path / "a.parquet", y=pa.array(Y, mask=np.arange(900) == 777))
    with pytest.raises(TableError, match="row 777 has no label"):
        made(path, partitions=18)[15].load(None)


def test_how_many_partitions_and_where_they_are_kept(files):
    assert len(made(files)) == 12  # 6 a worker
    assert len(made(files, partitions=100)) == 18  # row groups
    assert {source.storage for source in made(files)} == {"memory"}
    assert bytes_a_row(3, X.dtype) == 68
    assert storage_for(900, 3, X.dtype, [2 * 900 * 34, 2 * 900 * 34]) == "memory"
    assert storage_for(900, 3, X.dtype, [2 * 900 * 34, 2 * 900 * 34 - 2]) == "scratch"
    assert storage_for(900, 3, X.dtype, [1, 0]) == "memory"  # a worker without a limit
    assert {source.storage for source in made(files, limits=[1000])} == {"scratch"}
    with pytest.raises(ParameterError, match="storage must be one of 'memory', 'scratch', 'file'"):
        made(files, storage="disk")
    with pytest.raises(ParameterError, match="partitions must be a whole number >= 1"):
        made(files, partitions=0)


def test_rows_are_found_in_the_process_that_holds_them(files):
    source, other = made(files, partitions=2)
    assert sources.held(source) is None
    loaded = sources.load(pickle.loads(pickle.dumps(source)), None)
    assert sources.held(source) is loaded
    assert sources.held(other) is None
    del loaded
    assert sources.held(source) is None


@pytest.mark.parametrize("partitions", [1, 4, 18])
def test_a_log_knows_the_table_however_it_is_cut(files, partitions):
    stamps = {stamp for source in made(files, partitions=partitions) for stamp in source.stamps}
    assert stamps == {(str(path), path.stat().st_mtime_ns) for path in files.iterdir()}


def test_a_look_needs_no_copy_of_the_rows(files):
    source = made(files, partitions=1)[0]
    looked = source.opened(None)
    assert looked.raw is source.table
    np.testing.assert_array_equal(looked.labels, Y)
