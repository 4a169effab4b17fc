"""Parquet read in blocks: the same numbers, the same model, and clear errors."""

import dataclasses
import math
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.base import clone

import sottovoce as sv
from sottovoce.central import parallel
from sottovoce.central.data import row_memory
from sottovoce.exceptions import DataError, ParameterError, StorageError, TableError
from sottovoce.privacy.mechanisms.gaussian import GridGaussian
from sottovoce.tables import parquet
from support.pairs import by_pairs

rng = np.random.default_rng(0)
N, D = 17_000, 7  # several of the 8,192-row pieces that the largest eigenvalue is summed over
X = rng.normal(size=(N, D)).astype(np.float32)
X /= 1.1 * np.linalg.norm(X, axis=1, keepdims=True)
Y = np.where(X[:, 0] + 0.1 * rng.normal(size=N) > 0, 1, -1)
NAMES = [f"x{k}" for k in range(D)]
PUBLIC = {"epsilon": 1.0, "delta": 1e-6, "data_norm": 1.0, "random_state": 0, "solver_options": {"n_passes": 4}}


def columns(X=X, **more):
    return {f"x{k}": X[:, k] for k in range(X.shape[1])} | more


def write(path, columns, **options):
    pq.write_table(pa.table(columns), path, **options)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The same table in one row group, in many, and in three files."""
    folder = tmp_path_factory.mktemp("parquet")
    write(folder / "whole.parquet", columns(y=Y))
    write(folder / "cut.parquet", columns(y=Y), row_group_size=777)
    (folder / "parts").mkdir()
    for number, rows in enumerate((slice(0, 1), slice(1, 9000), slice(9000, N))):
        write(folder / "parts" / f"{number}.parquet", columns(X[rows], y=Y[rows]), row_group_size=5000)
    return folder


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of 300 rows, on several threads however small they are."""
    monkeypatch.setattr(parquet, "_BLOCK_BYTES", 300 * D * 4)
    monkeypatch.setattr(parallel, "_SMALL", 1)


ESTIMATORS = [
    sv.DPLogisticRegression(**PUBLIC, classes=[-1, 1]),
    sv.DPLogisticRegression(**PUBLIC, classes=[-1, 0, 1]),
    sv.DPLinearSVC(**PUBLIC, classes=[-1, 0, 1]),
    sv.DPRidge(**PUBLIC, label_bounds=(-2, 1)),
]


FILES = ["whole.parquet", "cut.parquet", "parts"]


@pytest.mark.parametrize(("estimator", "name", "threads"), by_pairs(ESTIMATORS, FILES, ["1", "3"]))
def test_the_released_model_is_the_same_bit_by_bit(folder, estimator, threads, name, small_blocks, monkeypatch):
    plain = clone(estimator).fit(X, Y)
    monkeypatch.setenv("SOTTOVOCE_NUM_THREADS", threads)
    table = sv.ParquetTable(folder / name, target="y")
    streamed = clone(estimator).fit(table)
    np.testing.assert_array_equal(streamed.coef_, plain.coef_)
    np.testing.assert_array_equal(streamed.intercept_, plain.intercept_)
    # the table names its columns and the array does not: the models differ in that alone
    without_model = (dataclasses.replace(one.guarantee_, model=None) for one in (streamed, plain))
    assert len(set(map(sv.Guarantee.to_json, without_model))) == 1
    np.testing.assert_allclose(streamed.predict(table), plain.predict(X), rtol=1e-12)
    assert streamed.score(table, table.labels()) == pytest.approx(plain.score(X, Y))


def test_double_precision_and_a_given_y(folder, small_blocks):
    table = sv.ParquetTable(folder / "cut.parquet", features=NAMES, dtype="float64")
    model = sv.DPLogisticRegression(**PUBLIC, classes=[-1, 1])
    streamed, plain = clone(model).fit(table, Y), clone(model).fit(X.astype(np.float64), Y)
    np.testing.assert_array_equal(streamed.coef_, plain.coef_)
    np.testing.assert_allclose(streamed.predict_proba(table), plain.predict_proba(X.astype(float)), rtol=1e-12)


def test_blocks_are_the_rows_in_order(folder, small_blocks, monkeypatch):
    table = sv.ParquetTable(folder / "parts", features=["x3", "x0"], target="y")
    assert (table.shape, len(table), table.dtype, table.feature_names) == ((N, 2), N, np.float32, ("x3", "x0"))
    made, read, found = [], table._read, []
    monkeypatch.setattr(table, "_read", lambda n_threads: (made.append(1) or block for block in read(n_threads)))
    for one in table.blocks():
        found.append(one)
        assert len(made) <= len(found) + 1  # the reader is at most one block ahead of the one in use
    places, blocks = zip(*found, strict=True)
    assert [place.start for place in places[1:]] == [place.stop for place in places[:-1]]
    assert len(blocks) > 3
    assert all(block.flags.c_contiguous for block in blocks)
    np.testing.assert_array_equal(np.concatenate(blocks), X[:, [3, 0]])
    np.testing.assert_array_equal(table.labels(), Y)
    np.testing.assert_array_equal(table.row(9001), X[9001, [3, 0]])


def test_integers_and_booleans_are_numbers(tmp_path):
    kinds = {
        "i": np.array([1, -2, 3], np.int8),
        "u": np.array([7, 8, 9], np.uint64),
        "b": np.array([True, False, True]),
        "h": np.array([0.5, 1.5, -2.0], np.float16),
    }
    table = sv.ParquetTable(write(tmp_path / "a.parquet", kinds), dtype="float64")
    (_, block), *_ = table.blocks()
    np.testing.assert_array_equal(block, [[1, 7, 1, 0.5], [-2, 8, 0, 1.5], [3, 9, 1, -2]])


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())])
def test_text_labels(tmp_path, kind):
    words = np.where(Y > 0, "yes", "no")
    path = write(tmp_path / "a.parquet", columns(word=pa.array(words).cast(kind)), row_group_size=6000)
    table = sv.ParquetTable(path, target="word")
    np.testing.assert_array_equal(table.labels(), words)
    model = sv.DPLinearSVC(**PUBLIC, classes=["no", "yes"]).fit(table)
    np.testing.assert_array_equal(model.coef_, sv.DPLinearSVC(**PUBLIC, classes=[-1, 1]).fit(X, Y).coef_)


@pytest.mark.parametrize("value", [None, math.nan, -math.inf, 1e300])
def test_a_missing_number_is_named(tmp_path, value, small_blocks, noise_is_forbidden):
    height = pa.array([value if row in (1500, 1700) else 0.1 for row in range(N)])
    table = sv.ParquetTable(write(tmp_path / "a.parquet", columns(height=height, y=Y)), target="y")
    kind = "NaN" if value is None or math.isnan(value) else "infinity"
    with pytest.raises(
        DataError, match=rf"Input X contains {kind}: row 1500, column 'height' \(2 row.*public constant"
    ):
        sv.DPLinearSVC(**PUBLIC, classes=[-1, 1]).fit(table)
    with pytest.raises(DataError, match=rf"Input X contains {kind}: row 1500, column 'height'\."):
        table.to_npy(tmp_path / "a.npy")
    assert not (tmp_path / "a.npy").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"features": ["x0", "X1"]}, r"there is no column 'X1' among its 9 \('x0'.*Did you mean 'x1'\?"),
        ({"features": ["x0"], "target": "z"}, "there is no column 'z'"),
        ({}, r"column 'word': values of type string are not numbers\..*encode text and categories first"),
        ({"features": []}, "features must name at least one column"),
        ({"features": ["x0", "x0"]}, "features must not repeat a column"),
        ({"features": ["x0", "y"], "target": "y"}, "target 'y' is also among features"),
        ({"dtype": "int8"}, "dtype must be one of 'float32', 'float64'; got 'int8'"),
    ],
)
def test_arguments(tmp_path, arguments, message):
    path = write(tmp_path / "a.parquet", columns(y=Y, word=np.full(N, "a")))
    with pytest.raises((ParameterError, TableError), match=message):
        sv.ParquetTable(path, **arguments)


def test_bad_files(tmp_path):
    pq.write_table(pa.Table.from_arrays([pa.array([1.0])] * 2, names=["a", "a"]), tmp_path / "twice.parquet")
    one, two = (write(tmp_path / f"{name}.parquet", {name: [1.0]}) for name in "ab")
    (tmp_path / "folder").mkdir()
    for path, error, message in [
        (tmp_path / "folder", TableError, r"holds no file with the ending \.parquet"),
        ([], ParameterError, "at least one Parquet file"),
        (tmp_path / "twice.parquet", TableError, "two columns are named 'a'"),
        ([one, two], TableError, r"b\.parquet: there is no column 'a'"),
    ]:
        with pytest.raises(error, match=message):
            sv.ParquetTable(path)


def test_labels_that_are_not_there(tmp_path, folder):
    path = write(tmp_path / "a.parquet", {"a": [1.0, 2.0, 3.0], "y": pa.array([1, None, None])})
    with pytest.raises(TableError, match=r"column 'y': row 1 has no label\. Drop"):
        sv.ParquetTable(path, target="y").labels()
    with pytest.raises(ParameterError, match="y is missing, and the ParquetTable names no target"):
        sv.DPLinearSVC(**PUBLIC, classes=[-1, 1]).fit(sv.ParquetTable(path, features=["a"]))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        sv.DPLinearSVC(**PUBLIC, classes=[-1, 1]).fit(sv.ParquetTable(folder / "parts", target="y"), Y[:-1])
    with pytest.raises(TableError, match=r"column 'y': values of type timestamp.* cannot be labels"):
        day = np.array(["2020-01-01"], "datetime64[s]")
        sv.ParquetTable(write(tmp_path / "day.parquet", {"a": [1.0], "y": day}), target="y")


def append(path):
    write(path, columns(np.vstack([X, X[:1]]), y=np.append(Y, 1)))


def replace(path):
    other = path.with_name("other")
    write(other, columns(X[::-1], y=Y))
    other.replace(path)


CHANGES = [append, replace, lambda path: os.utime(path, ns=(1, 1)), lambda path: path.unlink()]


@pytest.mark.parametrize(("change", "moment"), by_pairs(CHANGES, ["before fit", "between passes"]))
def test_a_file_that_changes_is_refused(tmp_path, change, moment, monkeypatch):
    path = write(tmp_path / "a.parquet", columns(y=Y))
    table = sv.ParquetTable(path, target="y")
    if moment == "before fit":
        change(path)
    else:
        original = GridGaussian.release
        calls = []

        def release(self, ticks, noise):
            calls.append(1)
            if len(calls) == 2:
                change(path)
            return original(self, ticks, noise)

        monkeypatch.setattr(GridGaussian, "release", release)
    with pytest.raises(TableError, match=r"a\.parquet: (the file is not the one that was opened|cannot read the file)"):
        sv.DPLinearSVC(**PUBLIC, classes=[-1, 1]).fit(table, Y)


def test_a_file_that_changes_within_a_pass_is_refused(tmp_path, small_blocks):
    path = write(tmp_path / "a.parquet", columns())
    table = sv.ParquetTable(path)
    with pytest.raises(TableError, match="is not the one that was opened"):
        for _ in table.blocks():
            os.utime(path, ns=(1, 1))


def test_to_npy(folder, tmp_path, small_blocks):
    table = sv.ParquetTable(folder / "cut.parquet", target="y")
    mapped = table.to_npy(tmp_path / "x.npy")
    assert isinstance(mapped, np.memmap)
    assert not mapped.flags.writeable
    np.testing.assert_array_equal(mapped, X)
    # a solver that needs random access
    model = sv.DPLinearSVC(epsilon=math.inf, data_norm=1.0, alpha=1e-2, random_state=0, classes=[-1, 1])
    np.testing.assert_array_equal(clone(model).fit(mapped, table.labels()).coef_, clone(model).fit(X, Y).coef_)
    with pytest.raises(ParameterError, match="a file to read from"):
        table.to_npy(folder / "cut.parquet")
    with pytest.raises(ParameterError, match="does not exist"):
        table.to_npy(tmp_path / "nowhere" / "x.npy")


def test_other_columns_at_prediction_are_named(folder):
    model = sv.DPLinearSVC(**PUBLIC, classes=[-1, 1]).fit(sv.ParquetTable(folder / "whole.parquet", target="y"))
    assert list(model.feature_names_in_) == NAMES
    with pytest.raises(ValueError, match=r"(?s)feature names.*x6"):
        model.predict(sv.ParquetTable(folder / "whole.parquet", features=NAMES[:-1]))
    with pytest.raises(ValueError, match="order"):
        model.predict(sv.ParquetTable(folder / "whole.parquet", features=NAMES[::-1]))


@pytest.mark.parametrize("labels", [Y, Y.astype(np.float32), np.where(Y > 0, "yes", "no")])
def test_labels_come_piece_by_piece_as_they_do_at_once(tmp_path, monkeypatch, labels):
    monkeypatch.setattr(parquet, "_LABEL_ROWS", 1000)
    table = sv.ParquetTable(write(tmp_path / "t.parquet", columns(y=labels), row_group_size=7000), target="y")
    blocks = list(table.label_blocks())
    assert len(blocks) >= 17 and [place.start for place, _ in blocks[1:]] == [place.stop for place, _ in blocks[:-1]]
    np.testing.assert_array_equal(np.concatenate([block for _, block in blocks]), table.labels())


def test_what_is_remembered_of_rows_is_on_the_disk_that_is_named(folder, tmp_path):
    table = sv.ParquetTable(folder / "cut.parquet", target="y", row_memory="disk", scratch=tmp_path)
    memory = table.row_memory(10)
    assert type(memory).__name__ == "OnDisk" and list(tmp_path.iterdir()) == []
    memory.close()
    assert type(sv.ParquetTable(folder / "cut.parquet").row_memory(10)).__name__ == "RowMemory"
    with pytest.raises(ParameterError, match=r"row_memory must be one of 'memory', 'disk'"):
        sv.ParquetTable(folder / "cut.parquet", row_memory="tape")
    for kept in ("disk", "memory"):
        with pytest.raises(StorageError, match="no scratch file can be made there"):
            sv.ParquetTable(folder / "cut.parquet", row_memory=kept, scratch=tmp_path / "missing")


@pytest.mark.parametrize("model", ESTIMATORS[:2])
def test_a_fit_that_remembers_rows_on_disk_keeps_none_in_memory(folder, small_blocks, monkeypatch, model):
    plain = clone(model).fit(X, Y)
    monkeypatch.setattr(row_memory.RowMemory, "zeros", None)
    monkeypatch.setattr(row_memory.RowMemory, "set", None)
    monkeypatch.setattr(sv.ParquetTable, "labels", None)  # of all rows at once
    table = sv.ParquetTable(folder / "cut.parquet", target="y", row_memory="disk")
    np.testing.assert_array_equal(clone(model).fit(table).coef_, plain.coef_)
