"""Reading tables: the formats, and what cells hold. Files that are no table are in `test_bad_files.py`."""

import bz2
import csv
import gzip
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.exceptions import ParameterError, TableError
from sottovoce.tables import Layout, Table, read_table
from sottovoce.tables.reading import file_format


def write(tmp_path: Path, content: str) -> Path:
    path = tmp_path / "table.csv"
    path.write_text(content)
    return path


def numbers(table: Table, name: str) -> list[float]:
    return table.cells(name).numbers(("",))[0].tolist()


# ----------------------------- format


def test_a_name_that_does_not_tell_the_format_needs_the_option() -> None:
    assert file_format("a9a.bz2", chosen="csv") == "csv"
    with pytest.raises(ParameterError, match=r"format must be one of 'csv', 'parquet'; got 'xls'"):
        file_format("a.xls", chosen="xls")


@pytest.mark.parametrize("chosen", [None, "csv", "parquet"])
@pytest.mark.parametrize("name", ["people", "people.parquet", "people.csv", "people.svm"])
def test_a_folder_is_no_table_whatever_its_name_is(tmp_path: Path, name: str, chosen: str | None) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(TableError, match=r"it is a folder\. Give a file in it; .*ParquetTable"):
        read_table(tmp_path / name, format=chosen)


# ----------------------------- CSV

CELLS = ["", "007", "NA", "true", "-2.5e1", " x ", 'q, "r"', ";", "\t", "'", "é€", "2020-01-01", "|", "a" * 99]
PACKED: dict[str, Callable[[bytes], bytes]] = {
    "t.csv": bytes, "t.csv.gz": gzip.compress, "t.txt.bz2": bz2.compress, "t.DATA": bytes,
    "t.tsv.gz": gzip.compress,
}  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(
    data=st.data(), name=st.sampled_from([*PACKED]), header=st.booleans(), delimiter=st.sampled_from([None, ";", "\t"])
)
def test_a_table_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, data: Any, name: str, header: bool, delimiter: str | None
) -> None:
    """Whatever is in its cells and between its lines; and each row knows its line."""
    end, mark, skipped = (data.draw(st.sampled_from(each)) for each in (("\n", "\r\n", "\r"), ("", "\ufeff"), (0, 2)))
    rows = data.draw(st.lists(st.tuples(*[st.sampled_from(CELLS)] * 3), min_size=1, max_size=6))
    named = ("a", " b ", "é c") if header else None
    lines, places = ["title, of one cell"] * skipped, []
    for row in [*([named] if named else []), *rows]:
        lines += data.draw(st.lists(st.sampled_from(["", "#no, data", "#"]), max_size=2))
        written = io.StringIO()
        csv.writer(written, delimiter=delimiter or ("\t" if "tsv" in name else ","), lineterminator="").writerow(row)
        lines.append(written.getvalue())
        places.append(f"line {len(lines)}")
    path = tmp_path_factory.mktemp("written") / name
    path.write_bytes(PACKED[name]((mark + end.join(lines) + data.draw(st.sampled_from(["", end]))).encode()))
    layout = Layout(header=header, delimiter=delimiter, comment="#")
    table = read_table(path, layout=layout, skip_rows=skipped)
    assert table.column_names == (("a", "b", "é c") if header else ("column_1", "column_2", "column_3"))
    assert [tuple(row.values()) for row in table.data.to_pylist()] == rows
    assert [table.line(row) for row in range(len(rows))] == places[header:]
    texts, codes = table.cells(table.column_names[1]).spelled()
    assert [texts[code] for code in codes] == [row[1].strip() for row in rows]


def test_a_comment_between_line_ends_of_two_kinds_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"\r#\n#\r#\na,b\n1,2\n")
    table = read_table(path, layout=Layout(comment="#"))
    assert (table.column_names, table.n_rows, table.line(0)) == (("a", "b"), 1, "line 6")


def test_a_file_without_header_may_lack_the_target_only(tmp_path: Path) -> None:
    path = write(tmp_path, "1,2\n")
    layout = Layout(header=False)
    table = read_table(path, layout=layout, names=("a", "y", "b"), may_lack="y")
    assert table.column_names == ("a", "b")
    with pytest.raises(TableError, match=r"line 1: 2 cells, but the schema describes 3 columns"):
        read_table(path, layout=layout, names=("a", "y", "b"))
    with pytest.raises(TableError, match=r"line 1: 2 cells, but the schema describes 4 columns"):
        read_table(path, layout=layout, names=("a", "y", "b", "c"), may_lack="y")


def test_too_many_skipped_lines_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"skip_rows = 4, but the file has only 3 lines"):
        read_table(write(tmp_path, "a\nb\nc"), skip_rows=4)
    with pytest.raises(ParameterError, match=r"skip_rows must be a whole number >= 0; got -1"):
        read_table(write(tmp_path, "a\nb\nc"), skip_rows=-1)


# ----------------------------- cells


def test_a_row_is_named_where_the_file_cannot_be_read_again(tmp_path: Path) -> None:
    path = write(tmp_path, "a\n1\nx\n")
    table = read_table(path)
    path.unlink()
    with pytest.raises(TableError, match=r"table\.csv, row 2, column 'a': 'x' is not a number"):
        table.cells("a").numbers(())


# ----------------------------- Parquet and frames


def frame() -> pd.DataFrame:
    return pd.DataFrame({
        "i": [1, 2, 3], "f": [0.5, None, 2.0], "s": ["a", " b", None], "c": pd.Categorical(["u", "v", "u"]),
        "t": [True, False, True],
    })  # fmt: skip


def tables(tmp_path: Path) -> list[Table]:
    path = tmp_path / "year=2020" / "t.parquet"
    path.parent.mkdir(exist_ok=True)
    frame().to_parquet(path)
    polars = pl.DataFrame(
        {"i": [1, 2, 3], "f": [0.5, None, 2.0], "s": ["a", " b", None], "c": ["u", "v", "u"], "t": [True, False, True]}
    )
    return [read_table(path), Table.from_frame(frame()), Table.from_frame(polars), Table.from_frame(pa.table(polars))]


@pytest.mark.parametrize("name", ["visits:2024.parquet", "s3:a.parquet", "a%20b.parquet", "[a]*?x=1.parquet"])
def test_a_name_of_a_parquet_file_is_no_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    frame().to_parquet(tmp_path / name)
    assert read_table(name).n_rows == read_table(tmp_path / name).n_rows == len(frame())


def test_parquet_and_frames_give_the_same_cells(tmp_path: Path) -> None:
    for table in tables(tmp_path):
        assert table.column_names == ("i", "f", "s", "c", "t")
        assert numbers(table, "i") == [1.0, 2.0, 3.0]
        values, absent = table.cells("f").numbers(())
        assert (values.tolist(), absent.tolist()) == ([0.5, 0.0, 2.0], [False, True, False])
        assert numbers(table, "t") == [1.0, 0.0, 1.0]
        spelled = [["1", "2", "3"], ["0.5", None, "2"], ["a", "b", None], ["u", "v", "u"], ["true", "false", "true"]]
        for name, expected in zip("ifsct", spelled, strict=True):
            texts, places = table.cells(name).spelled()
            assert [texts[place] for place in places] == expected


def test_rows_are_counted_from_one_in_a_file_and_from_zero_in_a_frame(tmp_path: Path) -> None:
    lines = [table.line(1) for table in tables(tmp_path)]
    assert lines == ["row 2", "row 1", "row 1", "row 1"]


def test_nan_in_parquet_is_refused_unless_it_is_a_marker() -> None:
    table = Table.from_frame(pa.table({"x": [1.0, float("nan")]}))
    with pytest.raises(TableError, match=r"the frame, row 1, column 'x': nan is not a finite number"):
        table.cells("x").numbers(("",))
    values, absent = table.cells("x").numbers(("", "NaN"))
    assert (values.tolist(), absent.tolist()) == ([1.0, 0.0], [False, True])


def test_chunks_with_different_dictionaries_agree() -> None:
    chunks = [pa.array(["a", "b"]).dictionary_encode(), pa.array(["b", "c"]).dictionary_encode()]
    for values in (pa.chunked_array(chunks), pa.chunked_array([["a", "b"], ["b", "c"]])):
        texts, places = Table.from_frame(pa.table({"x": values})).cells("x").spelled()
        assert [texts[place] for place in places] == ["a", "b", "b", "c"]


def test_a_parquet_file_has_no_lines_to_skip(tmp_path: Path) -> None:
    pa.parquet.write_table(pa.table({"a": [1]}), tmp_path / "none.parquet")
    with pytest.raises(ParameterError, match=r"skip_rows is for text tables"):
        read_table(tmp_path / "none.parquet", skip_rows=1)


def test_what_is_no_frame_is_refused() -> None:
    with pytest.raises(TableError, match=r"the frame of type int cannot be read as a table"):
        Table.from_frame(3)
    with pytest.raises(TableError, match=r"two columns are named 'a'"):
        Table.from_frame(pa.table([pa.array([1]), pa.array([2])], names=["a", "a"]))
