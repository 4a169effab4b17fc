"""Files that are no table: one law for all. Each is refused with file, place and remedy, and nothing is written."""

import bz2
import gzip
import io
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from sottovoce.exceptions import TableError
from sottovoce.tables import Layout, Schema, read_table

REASON = {"categories": ["x", "y"], "unknown": "error"}
SCHEMA = Schema.from_columns({"a": (0, 10), "b": REASON, "c": ["no", "yes"]}, target="c")
HEAD, GOOD = b"a,b,c\n", b"1,x,no\n2,y,yes\n3,x,no\n"


def parquet(columns: dict[str, object], **options: object) -> bytes:
    sink = io.BytesIO()
    pa.parquet.write_table(pa.table(columns), sink, **options)
    return sink.getvalue()


def twice() -> bytes:
    sink = io.BytesIO()
    pa.parquet.write_table(pa.Table.from_arrays([pa.array(["no"])] * 4, names=[*"abcb"]), sink)
    return sink.getvalue()


def latin() -> bytes:
    offsets, texts = (pa.py_buffer(raw) for raw in (b"\0\0\0\0\x0c\0\0\0", b"Lovelacecaf\xe9"))
    return parquet({"a": [1], "b": pa.Array.from_buffers(pa.string(), 1, [None, offsets, texts]), "c": ["no"]})


FRAME: dict[str, object] = {"a": [1, 2], "b": ["x", "y"], "c": ["no", "yes"]}
PARQUET = parquet(FRAME)
HUGE = b'"Lovelace' + b"x" * 140_000 + b'"'
DAMAGED = bytearray(parquet({name: cells * 5000 for name, cells in FRAME.items()}, compression="gzip"))  # type: ignore[operator]
DAMAGED[60:90] = bytes(30)

# name of the file, its bytes, what the message says of the place, and of the remedy
BAD: dict[str, tuple[str, bytes, str, str]] = {
    "empty": ("t.csv", b"", "", "the file is empty"),
    "blank lines alone": ("t.csv", b"\n\r\n\n", "", "the file holds no data"),
    "header alone": ("t.csv", HEAD, "", "columns, but no row of data"),
    "header and a blank line": ("t.csv", HEAD + b"\n", "", "columns, but no row of data"),
    "header without end": ("t.csv", HEAD.rstrip(), "", "columns, but no row of data"),
    "semicolons": ("t.csv", (HEAD + GOOD).replace(b",", b";"), "", 'separated by \';\': give --delimiter'),
    "first line of Excel": ("t.csv", b"sep=;\n" + (HEAD + GOOD).replace(b",", b";"), "", "--skip-rows 1 and --delim"),
    "name over two lines": ("t.csv", b'"a\nb",b,c\n' + GOOD, "", "the first line ends within quotes"),
    "tabs": ("t.csv", (HEAD + GOOD).replace(b",", b"\t"), "", 'separated by a tab: give --delimiter'),
    "bars": ("t.csv", (HEAD + GOOD).replace(b",", b"|"), "", "separated by '|'"),
    "commas in a tsv": ("t.tsv", HEAD + GOOD, "", "separated by ',': give --delimiter"),
    "a line above the names": ("t.csv", b",,\n" + HEAD + GOOD, "", "or give --skip-rows 1"),
    "twice a number, no header": ("t.csv", b"1,1,x\n2,2,y\n", "", "names: give --no-header"),
    "no header": ("t.csv", GOOD, "", "header = false in [table]"),
    "a column is missing": ("t.csv", b"a,B,c\n1,x,no\n", "", "Did you mean 'B'?"),
    "duplicate names": ("t.csv", b"a,b,c,b\n1,x,no,y\n", "", "two columns are named 'b'. Rename one"),
    "duplicate names but for spaces": ("t.csv", b"a,b,c, b\n1,x,no,y\n", "", "two columns are named 'b'"),
    "too few cells": ("t.csv", HEAD + GOOD + b"4,x\n", "line 5", "2 cells instead of 3. Correct the line"),
    "too many cells": ("t.csv", HEAD + b"1,x,no,\n" + GOOD, "line 2", "or give --delimiter"),
    "ragged behind blank lines": ("t.csv", HEAD + b"\r\n\n" + GOOD + b"\n4\n", "line 8", "1 cells instead of 3"),
    "ragged in a later block": ("t.csv", HEAD + GOOD * 100_000 + b"4\n", "line 300002", "1 cells instead of 3"),
    "decimal comma": ("t.csv", HEAD + GOOD + b'"2,5",x,no\n', "line 5", "Write numbers with a decimal point"),
    "decimal comma without quotes": ("t.csv", HEAD + b"2,5,x,no\n", "line 2", "If each line has one more, name it"),
    "text for a number": ("t.csv", HEAD + GOOD + b"many,x,no\n", "line 5", "'many' is not a number"),
    "underscores": ("t.csv", HEAD + b"1_000,x,no\n1_000,x,no\n", "line 2", "or list its text under missing"),
    "hexadecimal": ("t.csv", HEAD + b"\n0x10,x,no\n", "line 3, column 'a'", "'0x10' is not a number"),
    "beyond all numbers": ("t.csv", HEAD + b"-1e999,x,no\n", "line 2", "-inf is not a finite number"),
    "thousands": ("t.csv", HEAD + b"1 000,x,no\n", "line 2", "'1 000' is not a number"),
    "not finite": ("t.csv", HEAD + GOOD + b"inf,x,no\n", "line 5", "is not a finite number"),
    "unknown category": ("t.csv", HEAD + GOOD + b"1,z,no\n", "line 5", "'z' is not among the 2 categories"),
    "missing label": ("t.csv", HEAD + GOOD + b"1,x,\n", "line 5", "the label is missing"),
    "unknown label": ("t.csv", HEAD + GOOD + b"1,x,maybe\n", "line 5", "'maybe' is not among"),
    "quote left open": ("t.csv", HEAD + GOOD + b'4,"x,no\n5,x,no\n', "line 5, column 'b'", "Close the quote"),
    "quote left open at the end": ("t.csv", HEAD + GOOD + b'4,x,"', "line 5", "Close the quote"),
    "quote over many blocks": ("t.csv", HEAD + b'1,"x,no\n' + GOOD * 200_000, "line 2", "Close the quote"),
    "line end in a cell": ("t.csv", HEAD + GOOD + b'4,"x\ny",no\n', "line 5, column 'b'", "remove the line break"),
    "NUL": ("t.csv", HEAD + GOOD + b"4,\0,no\n", "line 5", "a NUL byte"),
    "NUL in a later block": ("t.csv", HEAD + GOOD * 100_000 + b"\0", "line 300002", "a NUL byte"),
    "Latin-1": ("t.csv", HEAD + GOOD + b"4,caf\xe9,no\n", "line 5", "Save it as UTF-8"),
    "cut within a letter": ("t.csv", HEAD + GOOD + b"4,x,\xc3", "line 5", "type: iconv -f ENCODING -t UTF-8"),
    "Windows in France": ("t.csv", HEAD + "1,café,no\n".encode("cp1252"), "line 2", "WINDOWS-1252 in Western Europe"),
    "Windows in Japan": ("t.csv", HEAD + "1,東京,no\n".encode("shift_jis"), "line 2", "SHIFT_JIS in Japan"),
    "Windows in Bulgaria": ("t.csv", HEAD + "1,София,no\n".encode("cp1251"), "line 2", "WINDOWS-1251 for Cyrillic"),
    "UTF-16 little": ("t.csv", (HEAD + GOOD).decode().encode("utf-16"), "", "UTF-16 text: save it as UTF-8"),
    "UTF-16 big": ("t.csv", b"\xfe\xff" + (HEAD + GOOD).decode().encode("utf-16-be"), "", "UTF-16 text"),
    "UTF-16 without mark": ("t.csv", (HEAD + GOOD).decode().encode("utf-16-le"), "line 1", "a NUL byte"),
    "byte order mark and no data": ("t.csv", b"\xef\xbb\xbf", "", "no data"),
    "mixed line ends, ragged": ("t.csv", b"a,b,c\r\n1,x,no\n2,y,yes\r3,x\r\n", "line 4", "2 cells instead of 3"),
    "huge field, then ragged": ("t.csv", HEAD + b"1," + b"x" * 5_000_000 + b"\n", "line 2", "2 cells instead of 3"),
    "huge quoted field": ("t.csv", HEAD + b'1,"' + b"x" * 3_000_000 + b'",no\n', "line 2", "is not among"),
    "a line without end": ("t.csv", HEAD + b"1," + b"x" * (10 << 20), "line 2", "more than 8 MiB: this is no table"),
    "ragged beside a huge cell": ("t.csv", HEAD + b"Lovelace,x,no," + HUGE + b"\n", "line 2", "4 cells instead of 3"),
    "huge cell in a late ragged line": ("t.csv", HEAD + GOOD * 9**5 + HUGE + b",x\n", "line 177149", "2 cells instead"),
    "a row for names": ("t.csv", b"39,Lovelace,1\n", "", "first line seems to hold data, not names: give --no-header"),
    "a row for names twice": ("t.csv", b"39,39,Lovelace\n", "", "two columns are named alike"),
    "a row for names, semicolons": ("t.csv", b"39;Lovelace;1\n", "", "separated by ';': give --delimiter"),
    "Latin-1 in Parquet": ("t.parquet", latin(), "column 'b'", "a cell is not UTF-8 text"),
    "gzip as csv": ("t.csv", gzip.compress(HEAD + GOOD), "", "name it with .gz"),
    "bzip2 as csv": ("t.csv", bz2.compress(HEAD + GOOD), "", "name it with .bz2"),
    "zip as csv": ("t.csv", b"PK\x03\x04rest", "", "a spreadsheet: unpack it, or export it as CSV"),
    "Parquet as csv": ("t.csv", PARQUET, "", "name it with .parquet"),
    "csv as gzip": ("t.csv.gz", HEAD + GOOD, "", "cannot be decompressed"),
    "csv as bzip2": ("t.csv.bz2", HEAD + GOOD, "", "cannot be decompressed"),
    "gzip cut short": ("t.csv.gz", gzip.compress(HEAD + GOOD * 999)[:-20], "", "Copy it again"),
    "bzip2 cut short": ("t.csv.bz2", bz2.compress(HEAD + GOOD * 999)[:-20], "", "Copy it again"),
    "rows behind damage": ("t.csv.bz2", bz2.compress(HEAD + GOOD) + b"#" + bz2.compress(GOOD), "", "be decompressed"),
    "csv as Parquet": ("t.parquet", HEAD + GOOD, "", "cannot be read as Parquet"),
    "empty Parquet": ("t.parquet", b"", "", "the file is empty"),
    "truncated Parquet": ("t.parquet", PARQUET[:-40], "", "cannot be read as Parquet"),
    "damaged Parquet": ("t.parquet", bytes(DAMAGED), "", "cannot be read as Parquet"),
    "Parquet without rows": ("t.parquet", parquet({n: [] for n in "abc"}), "", "columns, but no row of data"),
    "Parquet with duplicate names": ("t.parquet", twice(), "", "two columns are named 'b'. Rename one"),
    "an empty stream": ("t.csv.bz2", bz2.compress(HEAD) + bz2.compress(b"") + bz2.compress(GOOD), "", "decompressed"),
    "Parquet in gzip": ("t.parquet.gz", gzip.compress(PARQUET), "", "compressed inside. Unpack it first"),
    "nested Parquet": ("t.parquet", parquet({**FRAME, "a": [[1], [2]]}), "", 'type = "ignore"'),
    "Parquet without a column": ("t.parquet", parquet({"a": [1], "b": ["x"]}), "", "no column 'c'"),
    "a workbook": ("t.xlsx", b"PK\x03\x04", "", "This is a workbook: save the sheet as CSV"),
    "SQLite": ("t.db", b"SQLite format 3", "", "t.db 'SELECT ...' > table.csv"),
    "nothing known": ("t.sav", b"$FL2", "", "anything else has to be saved as one"),
    "DuckDB by its name": ("t.duckdb", b"", "", "t.duckdb, with a table or a query"),
    "LIBSVM in bzip2": ("t.svm.bz2", b"1 1:2\n", "", "LIBSVM text, which has no named columns, is read in Python"),
}  # fmt: skip


def fitted(tmp_path: Path, table: Path) -> str:
    """Return what the command says, which fails and leaves no file behind."""
    from sottovoce.cli.app import app

    schema = tmp_path / "schema.toml"
    schema.write_text(SCHEMA.to_toml())
    before = sorted(tmp_path.rglob("*"))
    line = ["fit", table, "--schema", schema, "--model", "logistic", "--epsilon", 1, "--delta", 1e-3, "--out",
            tmp_path / "model.json", "--report", tmp_path / "page.html", "--random-state", 0]  # fmt: skip
    done = CliRunner().invoke(app, list(map(str, line)))
    assert done.exit_code == 2, done.output
    assert sorted(tmp_path.rglob("*")) == before
    return done.output


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_refused_with_its_place_and_a_remedy(tmp_path: Path, name: str) -> None:
    file, content, place, remedy = BAD[name]
    path = tmp_path / file
    path.write_bytes(content)
    said = fitted(tmp_path, path)
    assert str(path) in said
    assert f"{path}, {place}" in said if place else True
    assert remedy in said
    assert "Lovelace" not in said  # who is in a row, which nobody is charged for yet
    assert "Traceback" not in said and len(said) < 1000


@pytest.mark.parametrize("place", range(5))
def test_a_nul_is_refused_in_any_line(tmp_path: Path, place: int) -> None:
    lines = [b"skipped", b"# said", b"a,b", b"1,2", b"# said"]
    lines[place] += b"\0"
    (tmp_path / "t.csv").write_bytes(b"\n".join(lines))
    with pytest.raises(TableError, match=rf"t\.csv, line {place + 1}: a NUL byte"):
        read_table(tmp_path / "t.csv", layout=Layout(comment="#"), skip_rows=1)


def _folder(path: Path) -> None:
    path.mkdir()


def _without_rights(path: Path) -> None:
    path.write_bytes(HEAD + GOOD)
    path.chmod(0)


@pytest.mark.parametrize(
    ("make", "remedy"),
    [
        (lambda path: None, "No such file or directory. Check the path"),
        (_folder, "it is a folder. Give a file in it"),
        pytest.param(
            _without_rights, "Permission denied",
            marks=pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file"),
        ),
        (lambda path: path.symlink_to(path), "Too many levels of symbolic links"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("file", ["t.csv", "t.parquet"])
def test_a_path_that_cannot_be_read_is_told(
    tmp_path: Path, file: str, make: Callable[[Path], None], remedy: str
) -> None:
    make(tmp_path / file)
    said = fitted(tmp_path, tmp_path / file)
    assert f"{tmp_path / file}: cannot read the file: {remedy}" in said
