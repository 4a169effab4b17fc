"""Tables read some rows at a time: the same cells, lines and refusals wherever the blocks of a file end."""

import bz2
import gzip
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sottovoce.exceptions import TableError
from sottovoce.tables import Layout, Table, read_table
from sottovoce.tables.reading import open_table


def rows_of(table: Table) -> list[tuple[Any, ...]]:
    """Return each row with its line."""
    return [(table.line(number), *row.values()) for number, row in enumerate(table.data.to_pylist())]


def outcome(read: Callable[[], list[tuple[Any, ...]]]) -> object:
    try:
        return read()
    except TableError as error:
        return str(error)


def batched(path: Path, **options: Any) -> list[tuple[Any, ...]]:
    table = open_table(path, **options)
    found, first = [], 0
    for batch in table:
        assert batch.first_row == first
        first += batch.n_rows
        found += rows_of(batch)
    return found


# ----------------------------- CSV

CONTENTS = [
    b"a,b\n1,2\n3,4\n",
    b"a,b\r\n1,2\r\n\r\n3,4\r\n",
    b"\xef\xbb\xbf\r\n\na,b\n\n1,caf\xc3\xa9\n\xe2\x82\xac,2",
    b'a,b\n1,"x, ""y"""\n2,5" pipe\n',
    b'a,b\n1,2\n3,"4\n5,6\n',
    b'a,b,c\n1,"x\ny",3\n4,5,6\n',
    b'a,b,c\n1,2,3\n1,2\n1,"x\ny",3\n',
    b'a,b,c\n1,2,3\n1,"x\ny",3\n1,2\n',
    b'a,b\n1,"x\r\ny"\n',
    b"a,b\n1,2\n\n3\n4,5\n", b"a,b\n1,2\n3,\x00\n", b"a,b\n1,2\n3,caf\xe9\n", b"a,b\n1,2\n3,caf\xc3", b"a,b\n", b"a,b",
    b"", b"\n\r\n", b"\x1f\x8b\x08abc", b"a\r1\r2\r", b"a,b\r1,2\r\r3,4",
]  # fmt: skip


@settings(max_examples=500, deadline=None)
@given(
    content=st.sampled_from(CONTENTS)
    | st.lists(
        st.sampled_from([b"a", b"1", b",", b'"', b"\n", b"\r\n", b"\r", b"#", b" ", "é€".encode(), b"\n1,2\n"])
    ).map(b"".join),
    size=st.integers(1, 20),
    most_rows=st.integers(1, 3),
    skip_rows=st.sampled_from([0, 0, 0, 2]),
    comment=st.sampled_from([None, "#"]),
    header=st.booleans(),
)
@example(content=b'a,1\n"\n,1\n', size=1, most_rows=2, skip_rows=0, comment=None, header=True)
@example(content=b'a,1\n1,"1\n,1\n', size=1, most_rows=2, skip_rows=0, comment=None, header=True)
@example(content=b"1\r1\r#1\n", size=5, most_rows=2, skip_rows=0, comment="#", header=False)
def test_any_text_is_read_alike_in_any_blocks(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, size: int, most_rows: int, skip_rows: int,
    comment: str | None, header: bool,
) -> None:  # fmt: skip
    path = tmp_path_factory.mktemp("any") / "t.csv"
    path.write_bytes(content)
    options: Any = {"layout": Layout(header=header, comment=comment), "skip_rows": skip_rows}
    whole = outcome(lambda: rows_of(read_table(path, **options)))
    with mock.patch("sottovoce.tables.text.BLOCK_BYTES", size):
        assert outcome(lambda: batched(path, **options, most_rows=most_rows)) == whole
        assert outcome(lambda: rows_of(open_table(path, **options).whole())) == whole


@pytest.mark.parametrize("suffix", ["", ".gz", ".bz2"])
def test_rows_are_counted_and_read_again(tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sottovoce.tables.text.BLOCK_BYTES", 64)
    raw = b"a,b\n" + b"".join(b"%d,x\n" % row for row in range(1000))
    pack: Any = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress}[suffix]
    path = tmp_path / f"t.csv{suffix}"
    path.write_bytes(pack(raw))
    table = open_table(path)
    assert (table.column_names, table.n_rows, next(iter(table)) is next(iter(table))) == (("a", "b"), 1000, True)
    assert "a" in table
    for _ in range(2):
        assert [int(cell) for batch in table for cell in batch.column("a")] == list(range(1000))


def test_a_large_table_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sottovoce.tables.table.KEPT_BYTES", 100)
    path = tmp_path / "t.csv"
    path.write_text("a\n" + "1\n" * 500)
    table = open_table(path)
    assert (table.n_rows, next(iter(table)) is next(iter(table))) == (500, False)
    assert sum(batch.n_rows for batch in table) == sum(batch.n_rows for batch in table) == 500


def test_a_file_that_changes_between_two_readings_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a\n1\n")
    table = open_table(path)
    assert [batch.n_rows for batch in table] == [1]
    path.write_text("a\n1\n2\n")
    with pytest.raises(TableError, match=r"t\.csv: the file is not the one that was opened"):
        list(table)


@pytest.mark.parametrize("kind", ["csv", "quoted", "parquet"])
def test_some_columns_are_enough(tmp_path: Path, kind: str) -> None:
    path = tmp_path / ("t.parquet" if kind == "parquet" else "t.csv")
    data = pa.table({"a": [1, 2, 3], "b": ["x", "y", "z"], "c": [4, 5, 6], "b.c": [7, 8, 9]})
    if kind == "parquet":
        pa.parquet.write_table(data, path)
    else:
        pa.csv.write_csv(data, path, pa.csv.WriteOptions(quoting_style="needed" if kind == "quoted" else "none"))
    table = open_table(path, most_rows=2)
    for _ in range(2):
        batches = list(table.batches(["c", "a", "b.c"]))
        assert {batch.column_names for batch in batches} == {("a", "c", "b.c")}
        assert [int(cell) for batch in batches for cell in batch.column("c")] == [4, 5, 6]
        assert [int(cell) for batch in batches for cell in batch.column("b.c")] == [7, 8, 9]
    assert table.column_names == ("a", "b", "c", "b.c")
    if kind != "parquet":
        path.write_text(path.read_text() + "1,x\n")
        with pytest.raises(TableError, match=r"line 5: 2 cells instead of 4"):
            list(open_table(path).batches(["a"]))


# ----------------------------- pipes


def pipe(path: Path, raw: bytes) -> threading.Thread:
    """Write to a named pipe, once it is read."""
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(raw,))
    writer.start()
    return writer


@pytest.mark.parametrize("in_memory", [1 << 22, 10])
def test_a_pipe_is_a_table(tmp_path: Path, in_memory: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sottovoce.tables.text._PIPE_IN_MEMORY", in_memory)
    monkeypatch.setattr("sottovoce.tables.text.BLOCK_BYTES", 3)
    path, expected = tmp_path / "t.csv.gz", [("line 2", "1", "2"), ("line 4", "3", "4")]
    writer = pipe(path, gzip.compress(b"a,b\n1,2\n\n3,4\n"))
    table = open_table(path)
    writer.join()
    for _ in range(3):
        assert [row for batch in table for row in rows_of(batch)] == expected
    assert (table.n_rows, rows_of(table.whole())) == (2, expected)
    os.mkfifo(tmp_path / "t.parquet")
    with pytest.raises(TableError, match=r"t\.parquet: a Parquet file is read from its end\. Give a file"):
        open_table(tmp_path / "t.parquet")


def test_a_file_behind_a_pipe_has_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sottovoce.tables.text._PIPE_IN_MEMORY", 10)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    writer = pipe(tmp_path / "t.csv", b"a,b\n" + b"1,2\n" * 1000)
    table = open_table(tmp_path / "t.csv")
    writer.join()
    assert table.n_rows == 1000
    assert list((tmp_path / "temporary").iterdir()) == []
    first, second = iter(table), iter(table)  # of which each has a place of its own
    assert [rows_of(a) == rows_of(b) for a, b in zip(first, second, strict=True)] == [True]


# ----------------------------- Parquet


@pytest.mark.parametrize("row_group_size", [64, 1000])
def test_parquet_is_read_some_rows_at_a_time(tmp_path: Path, row_group_size: int) -> None:
    data = pa.table({"i": range(1000), "s": pa.array([f"v{row % 7}" for row in range(1000)]).dictionary_encode()})
    path = tmp_path / "t.parquet"
    pa.parquet.write_table(data, path, row_group_size=row_group_size)
    assert open_table(path, most_rows=100).n_rows == 1000
    table = open_table(path, most_rows=100)
    batches = list(table)
    assert max(batch.n_rows for batch in batches) <= 100
    assert [batch.first_row for batch in batches] == np.cumsum([0, *(batch.n_rows for batch in batches[:-1])]).tolist()
    assert pa.concat_tables(batch.data for batch in batches).to_pydict() == data.to_pydict()
    assert batches[1].line(3) == f"row {batches[1].first_row + 4}"
