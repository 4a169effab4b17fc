"""Rows, labels and row memory on scratch disk: the same numbers as in memory, and nothing left behind."""

import errno
import gc
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from sottovoce.central.data.scratch import ScratchFile, check_room
from sottovoce.central.data.streamed import BLOCK_BYTES, ScratchTable
from sottovoce.exceptions import DataError, ParameterError, StorageError


def batches(X, y=None, size=97):
    for lo in range(0, X.shape[0], size):
        yield X[lo : lo + size], None if y is None else y[lo : lo + size]


def dense(seed=0, n=1000, d=5):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, d))
    return X, np.where(X @ np.arange(1, d + 1) + rng.normal(size=n) > 0, "yes", "no")


def csr(seed=0, n=1000, d=40):
    X = sp.random(n, d, 0.1, format="csr", random_state=seed)
    X.data -= 0.5
    return sp.csr_array(X), np.where(np.asarray(X.sum(axis=1)).ravel() > 0.0, 1, 0)


def open_files():
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.is_dir() else 0


def joined(table):
    parts = [block for _, block in table.blocks(1)]
    return sp.vstack(parts).toarray() if sp.issparse(parts[0]) else np.concatenate(parts)


@pytest.mark.parametrize("made", [dense, csr])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_and_labels_come_back_as_they_were_written_in_each_pass(tmp_path, made, dtype):
    X, y = made()
    table = ScratchTable.write(batches(X, y), X.shape[1], dtype, tmp_path)
    whole = (X.toarray() if sp.issparse(X) else X).astype(dtype)
    assert table.shape == X.shape and table.dtype == dtype and table.has_labels
    for _ in range(2):
        np.testing.assert_array_equal(joined(table), whole)
    np.testing.assert_array_equal(table.labels(), y)
    np.testing.assert_array_equal(table.row(513), whole[513])
    assert {block.dtype for _, block in table.blocks(1)} == {np.dtype(dtype)}


def test_a_block_is_of_bounded_size_whatever_the_batch_is():
    X = np.zeros((BLOCK_BYTES // 80 + 5, 20))
    table = ScratchTable.write([(X, None)], 20)
    sizes = [block.nbytes for _, block in table.blocks(1)]
    assert len(sizes) == 3 and max(sizes) <= BLOCK_BYTES
    wide = sp.csr_array(np.ones((2 * BLOCK_BYTES // 1200, 100)))
    table = ScratchTable.write([(wide, None)], 100)
    assert max(block.data.nbytes + block.indices.nbytes for _, block in table.blocks(1)) <= BLOCK_BYTES


def test_entries_given_twice_are_added_up_as_in_memory():
    twice = sp.csr_array((np.array([0.25, 0.5]), np.array([3, 3]), np.array([0, 2])), shape=(1, 5))
    assert joined(ScratchTable.write([(twice, None)], 5))[0, 3] == 0.75


@pytest.mark.parametrize("made", [dense, csr])
def test_an_entry_that_is_not_finite_is_named_by_its_row_and_column(made):
    X, _ = made()
    where = (700, 3) if not sp.issparse(X) else (int(np.searchsorted(X.indptr, 2000, "right")) - 1, X.indices[2000])
    if sp.issparse(X):
        X.data[2000] = np.nan
    else:
        X[where] = np.nan
    with pytest.raises(DataError, match=f"NaN: row {where[0]}, column {where[1]}"):
        list(ScratchTable.write(batches(X), X.shape[1]).finite_blocks())


def test_rows_that_do_not_fit_are_refused():
    table = ScratchTable(3)
    with pytest.raises(ParameterError, match="3 features"):
        table.add(np.zeros((2, 4)))
    with pytest.raises(ParameterError, match="without labels"):
        ScratchTable.write([(np.zeros((2, 3)), None)], 3).labels()


def test_nothing_has_a_name_on_the_disk_and_room_is_given_back(tmp_path):
    X, y = dense()
    table = ScratchTable.write(batches(X, y), X.shape[1], folder=tmp_path)
    memory = table.row_memory(len(y))
    memory.fill("dual", 1.0)
    assert list(tmp_path.iterdir()) == []
    files = open_files()
    memory.close()
    table.close()
    assert open_files() == max(0, files - 3)
    with pytest.raises(ValueError, match="closed"):
        joined(table)


def test_a_file_that_nobody_knows_any_more_is_closed_without_a_warning():
    ScratchFile().write(np.ones(3))
    gc.collect()  # a ResourceWarning would be an error


def test_a_writer_that_fails_half_way_gives_its_room_back(tmp_path):
    X, y = dense()

    def failing():
        yield X, y
        raise KeyboardInterrupt

    before = open_files()
    with pytest.raises(KeyboardInterrupt):
        ScratchTable.write(failing(), X.shape[1], folder=tmp_path)
    assert open_files() == before


class _FullDisk:
    """A file on a disk that takes some bytes and no more."""

    def __init__(self, file, room):
        self._file, self._room = file, room

    def write(self, data):
        if not self._room:
            raise OSError(errno.ENOSPC, "No space left on device")
        taken = min(len(data), self._room)
        self._room -= taken
        return self._file.write(data[:taken])

    def __getattr__(self, name):
        return getattr(self._file, name)


def test_a_full_disk_is_told_in_words():
    file = ScratchFile()
    file._file = _FullDisk(file._file, 1000)
    with pytest.raises(StorageError, match=r"No space left on device.*scratch="):
        file.write(np.zeros(1000))


def test_a_short_write_goes_on_where_it_stopped():
    file = ScratchFile()

    class Short(_FullDisk):
        def write(self, data):
            return self._file.write(data[:7])

    file._file = Short(file._file, 0)
    file.write(np.arange(50.0))
    np.testing.assert_array_equal(file.read(0, 50, np.float64), np.arange(50.0))


def test_room_is_refused_from_public_sizes_before_anything_is_written(tmp_path):
    check_room(1000, tmp_path, "the table")
    with pytest.raises(StorageError, match=r"the table takes up to 1e\+09 GB of scratch disk"):
        check_room(10**18, tmp_path, "the table")
    with pytest.raises(StorageError, match="no scratch file can be made"):
        check_room(1, tmp_path / "missing", "the table")
