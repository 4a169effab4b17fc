"""Reading tables: the formats, and that what cannot be a table is refused with its line and a remedy."""

import bz2
import gzip
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

from sottovoce.exceptions import ParameterError, TableError
from sottovoce.tables import Layout, Table, file_format, read_table


def write(tmp_path: Path, content: str | bytes, name: str = "table.csv") -> Path:
    path = tmp_path / name
    raw = content.encode() if isinstance(content, str) else content
    if name.endswith(".gz"):
        raw = gzip.compress(raw)
    elif name.endswith(".bz2"):
        raw = bz2.compress(raw)
    path.write_bytes(raw)
    return path


def numbers(table: Table, name: str) -> list[float]:
    return table.cells(name).numbers(("",))[0].tolist()


# ----------------------------- format


@pytest.mark.parametrize(
    ("name", "kind"),
    [("a.csv", "csv"), ("a.DATA", "csv"), ("a.tsv.gz", "csv"), ("a.b.txt.bz2", "csv"), ("a.parquet", "parquet")],
)
def test_the_name_tells_the_format(name: str, kind: str) -> None:
    assert file_format(name) == kind


def test_a_name_that_does_not_tell_the_format_needs_the_option() -> None:
    with pytest.raises(TableError, match=r'a9a\.bz2: the name does not tell the format .*format="csv"'):
        file_format("a9a.bz2")
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


@pytest.mark.parametrize("name", ["table.csv", "table.csv.gz", "table.csv.bz2", "table.data", "table.txt.gz"])
def test_csv_is_read_plain_and_compressed(tmp_path: Path, name: str) -> None:
    table = read_table(write(tmp_path, 'a, b ,c\n1, x y,3\n-2.5e1,"q, ""r""",\n', name))
    assert table.column_names == ("a", "b", "c")
    assert numbers(table, "a") == [1.0, -25.0]
    assert table.cells("b").spelled()[0] == ["x y", 'q, "r"']
    values, absent = table.cells("c").numbers(("",))
    assert (values.tolist(), absent.tolist()) == ([3.0, 0.0], [False, True])


def test_cells_stay_text(tmp_path: Path) -> None:
    table = read_table(write(tmp_path, "a\n007\nNA\ntrue\n2020-01-01\n"))
    assert table.cells("a").spelled()[0] == ["007", "NA", "true", "2020-01-01"]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line_ends_byte_order_mark_and_blank_lines(tmp_path: Path, end: str) -> None:
    text = end.join(["", "a,b", "", "1,2", "", "", "3,4"])
    table = read_table(write(tmp_path, b"\xef\xbb\xbf" + text.encode()))
    assert (table.column_names, numbers(table, "a"), numbers(table, "b")) == (("a", "b"), [1.0, 3.0], [2.0, 4.0])
    assert [table.line(row) for row in range(2)] == ["line 4", "line 7"]


def test_a_header_can_be_absent(tmp_path: Path) -> None:
    path = write(tmp_path, "1,2\n3,4\n")
    layout = Layout(header=False)
    assert read_table(path, layout=layout).column_names == ("column_1", "column_2")
    table = read_table(path, layout=layout, names=("a", "b"))
    assert (numbers(table, "a"), numbers(table, "b")) == ([1.0, 3.0], [2.0, 4.0])
    assert table.line(0) == "line 1"


def test_a_file_without_header_may_lack_the_target_only(tmp_path: Path) -> None:
    path = write(tmp_path, "1,2\n")
    layout = Layout(header=False)
    table = read_table(path, layout=layout, names=("a", "y", "b"), may_lack="y")
    assert table.column_names == ("a", "b")
    with pytest.raises(TableError, match=r"line 1: 2 cells, but the schema describes 3 columns"):
        read_table(path, layout=layout, names=("a", "y", "b"))
    with pytest.raises(TableError, match=r"line 1: 2 cells, but the schema describes 4 columns"):
        read_table(path, layout=layout, names=("a", "y", "b", "c"), may_lack="y")


def test_comments_and_skipped_lines_count_as_lines(tmp_path: Path) -> None:
    path = write(tmp_path, "title\n|comment\na,b\n|1,2\n3,|4\n|\n5,6\n")
    table = read_table(path, layout=Layout(comment="|"), skip_rows=1)
    assert numbers(table, "a") == [3.0, 5.0]
    assert [table.line(row) for row in range(2)] == ["line 5", "line 7"]


def test_the_delimiter_is_a_choice_and_a_tab_for_tsv(tmp_path: Path) -> None:
    assert numbers(read_table(write(tmp_path, "a;b\n1;2\n"), layout=Layout(delimiter=";")), "b") == [2.0]
    assert numbers(read_table(write(tmp_path, "a\tb\n1\t2\n", "t.tsv.gz")), "b") == [2.0]


def test_a_row_longer_than_a_block_is_read(tmp_path: Path) -> None:
    width = 3_000_000
    table = read_table(write(tmp_path, "a,b\n" + "x" * 6 * width + ",1\ny,2\n"))
    assert numbers(table, "b") == [1.0, 2.0]


def test_too_many_skipped_lines_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"skip_rows = 4, but the file has only 3 lines"):
        read_table(write(tmp_path, "a\nb\nc"), skip_rows=4)
    with pytest.raises(ParameterError, match=r"skip_rows must be a whole number >= 0; got -1"):
        read_table(write(tmp_path, "a\nb\nc"), skip_rows=-1)


# ----------------------------- cells


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("abc", r"line 4, column 'b': 'abc' is not a number\. Correct the cell, or list its text under missing"),
        ("1.000,5", r"line 4, column 'b': '1\.000,5' is not a number\. Write numbers with a decimal point"),
        ("1_000", r"line 4, column 'b': '1_000' is not a number"),
        ("0x10", r"line 4, column 'b': '0x10' is not a number"),
        ("?", r"line 4, column 'b': '\?' is not a number"),
        ("nan", r"line 4, column 'b': nan is not a finite number\. .*missing in \[table\]"),
        ("-inf", r"line 4, column 'b': -inf is not a finite number"),
        ("1e999", r"line 4, column 'b': inf is not a finite number"),
    ],
)
def test_a_cell_that_is_no_finite_number_is_named(tmp_path: Path, cell: str, message: str) -> None:
    table = read_table(
        write(tmp_path, f'a,b\n1,2\n\n3,"{cell}"\n4,zzz\n' if cell == "abc" else f'a,b\n1,2\n\n3,"{cell}"\n')
    )
    with pytest.raises(TableError, match=message):
        table.cells("b").numbers(("",))


def test_a_row_is_named_where_the_file_cannot_be_read_again(tmp_path: Path) -> None:
    path = write(tmp_path, "a\n1\nx\n")
    table = read_table(path)
    path.unlink()
    with pytest.raises(TableError, match=r"table\.csv, row 2, column 'a': 'x' is not a number"):
        table.cells("a").numbers(())


def test_missing_markers_are_compared_without_white_space(tmp_path: Path) -> None:
    values, absent = read_table(write(tmp_path, "a,b\n1, ? \n2, 7\n3,\n")).cells("b").numbers(("?", ""))
    assert (values.tolist(), absent.tolist()) == ([0.0, 7.0, 0.0], [True, False, True])


# ----------------------------- Parquet and frames


def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "i": [1, 2, 3],
            "f": [0.5, None, 2.0],
            "s": ["a", " b", None],
            "c": pd.Categorical(["u", "v", "u"]),
            "t": [True, False, True],
        }
    )


def tables(tmp_path: Path) -> list[Table]:
    path = tmp_path / "year=2020" / "t.parquet"
    path.parent.mkdir(exist_ok=True)
    frame().to_parquet(path)
    polars = pl.DataFrame(
        {"i": [1, 2, 3], "f": [0.5, None, 2.0], "s": ["a", " b", None], "c": ["u", "v", "u"], "t": [True, False, True]}
    )
    return [read_table(path), Table.from_frame(frame()), Table.from_frame(polars), Table.from_frame(pa.table(polars))]


def test_parquet_and_frames_give_the_same_cells(tmp_path: Path) -> None:
    for table in tables(tmp_path):
        assert table.column_names == ("i", "f", "s", "c", "t")
        assert numbers(table, "i") == [1.0, 2.0, 3.0]
        values, absent = table.cells("f").numbers(())
        assert (values.tolist(), absent.tolist()) == ([0.5, 0.0, 2.0], [False, True, False])
        assert numbers(table, "t") == [1.0, 0.0, 1.0]
        for name, expected in [
            ("i", ["1", "2", "3"]),
            ("f", ["0.5", None, "2"]),
            ("s", ["a", "b", None]),
            ("c", ["u", "v", "u"]),
            ("t", ["true", "false", "true"]),
        ]:
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


def test_nested_values_and_dates_are_refused() -> None:
    table = Table.from_frame(pa.table({"x": [[1], [2]], "d": pd.to_datetime(["2020-01-01", "2020-01-02"])}))
    with pytest.raises(TableError, match=r"column 'x': values of type list<.*> are neither numbers nor text"):
        table.cells("x").numbers(())
    with pytest.raises(TableError, match=r"column 'd': values of type timestamp.* Give it type = \"date\", or"):
        table.cells("d").spelled()


def test_what_is_no_frame_is_refused() -> None:
    with pytest.raises(TableError, match=r"the frame of type int cannot be read as a table"):
        Table.from_frame(3)
    with pytest.raises(TableError, match=r"two columns are named 'a'"):
        Table.from_frame(pa.table([pa.array([1]), pa.array([2])], names=["a", "a"]))
