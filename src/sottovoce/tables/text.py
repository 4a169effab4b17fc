"""CSV text as tables of some ten thousand rows, one after another.

Arrow parses whole lines, some at a time. What its own reader does not do is done before: compression that is damaged
behind its first stream, bytes that are no text, comments, cells over several lines, and the number of each line.
"""

from __future__ import annotations

import codecs
import re
import stat
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final

import numpy as np

from sottovoce._optional import pa
from sottovoce._validation import in_order, whole_number
from sottovoce.central.data.scratch import ScratchFile
from sottovoce.exceptions import TableError
from sottovoce.tables.addresses import file_here, first_line, unreadable
from sottovoce.tables.layout import Layout
from sottovoce.tables.table import BatchedTable, likely_cause

BLOCK_BYTES = 1 << 20  # read and parsed at once
COMPRESSIONS: Final = {".gz": "gzip", ".bz2": "bz2"}
_PIPE_IN_MEMORY = 1 << 22
_LONGEST_LINE: Final = 1 << 23
_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
_LONGEST_START: Final = 4
_BINARY_STARTS: Final = (
    (b"\x1f\x8b", "is compressed with gzip: name it with .gz at the end"),
    (b"BZh", "is compressed with bzip2: name it with .bz2 at the end"),
    (b"PAR1", 'is a Parquet file: name it with .parquet at the end, or give format="parquet"'),
    (b"PK\x03\x04", "is a zip archive or a spreadsheet: unpack it, or export it as CSV"),
    (b"\xff\xfe", "is UTF-16 text: save it as UTF-8"),
    (b"\xfe\xff", "is UTF-16 text: save it as UTF-8"),
)


@dataclass(frozen=True, slots=True)
class _Lines:
    """Some whole lines of a file, one after another; ``first`` is the number of the first of them, from 1."""

    raw: bytes
    first: int

    def numbered(self) -> Iterator[tuple[int, bytes]]:
        """Yield the lines that are not blank, with their numbers."""
        return ((number, text) for number, text in enumerate(self.raw.splitlines(), self.first) if text)


class CsvText:
    """The columns of a CSV file, and its rows.

    Only the start of the file is read when it is opened; then it is read from the start to the end as often as it is
    asked. A pipe gives its bytes once: up to 4 MiB of them are kept in memory, more in a private file without a name.

    ``skip_rows``: lines to skip at the start.
    ``names``: of the columns, for a file without a header.
    ``may_lack``: one of them that may be absent.
    ``scratch``: the folder of that file; None: where temporary files are.

    Raises TableError if the start of the file is not that of a table.
    """

    def __init__(
        self, path: Path, layout: Layout, *, skip_rows: int, names: Sequence[str] | None, may_lack: str | None,
        scratch: str | Path | None = None,
    ) -> None:  # fmt: skip
        self._path, self._file = path, file_here(path)
        self._piped = _piped(path, scratch)
        self._stamp = self._file.stamp() if self._piped is None else ()
        self._delimiter = layout.delimiter or ("\t" if ".tsv" in path.suffixes else ",")
        within = rf'"((?:[^"]++|"")*+)("|$)([^{re.escape(self._delimiter)}]*)'
        self._cell = re.compile(rf"(?:{within}|([^{re.escape(self._delimiter)}]*))({re.escape(self._delimiter)}|$)")
        # a comment becomes a blank line, so that lines keep their numbers
        comment = None if layout.comment is None else re.escape(layout.comment.encode())
        self._comments = None if comment is None else re.compile(rb"(?m)^" + comment + rb"[^\n]*")
        self._skipped = whole_number("skip_rows", skip_rows, at_least=0)
        with closing(self._numbered()) as numbered:
            number, start = next(numbered, (0, b""))
        if not number:
            raise TableError(f"{path}: the file holds no data.")
        cells, is_open = self._cells(start)
        if is_open:
            raise TableError(f"{path}: the first line ends within quotes. Write each name or cell in one line.")
        if layout.header:
            self._skipped, self.names = number, [name.strip() for name in cells]
        else:
            self.names = self._given_names(len(cells), names, may_lack, number)

    def rows(self, most_rows: int) -> BatchedTable:
        """Return the rows, at most so many at a time."""
        return BatchedTable(
            pa.schema([(name, pa.string()) for name in self.names]), str(self._path), self._read, most_rows=most_rows,
            size=self._stamp[0] if self._piped is None else len(self._piped), line=self._line,
            # all columns are looked at where one of them is decoded
            counted=self.names[:1],
        )  # fmt: skip

    def _line(self, row: int) -> str:
        """Return where a row stands in the file, which is read again: it is called for errors only."""
        with suppress(TableError, StopIteration):  # the file has gone: the row is what can be told
            return f"line {next(islice(self._numbered(), row, None))[0]}"
        return f"row {row + 1}"

    def _numbered(self) -> Generator[tuple[int, bytes]]:
        for lines in self._lines():
            yield from lines.numbered()

    def _read(self, columns: Sequence[str]) -> Iterator[Any]:
        self._file.refuse_changed(self._stamp)
        for lines in self._lines():
            yield self._parsed(lines, columns)
        self._file.refuse_changed(self._stamp)

    # ------------------------------------------------------------------ from bytes to whole lines

    def _lines(self) -> Iterator[_Lines]:
        """Yield the lines behind the skipped ones, some at a time: decompressed, checked, without a mark of UTF-8.

        Raises TableError if the file is missing, empty, binary, truncated, not UTF-8, or has too few lines.
        """
        left = self._skipped
        for lines in self._whole_lines():
            raw, number = lines.raw, lines.first
            if b"\0" in raw:  # a line that is skipped tells a binary file as well as others
                at = number + _line_ends(raw[: raw.index(b"\0")])
                raise self._fault(at, "a NUL byte: this is a binary file, or damaged. Give CSV, or a Parquet file.")
            raw = raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
            if skipped := [end.end() for end in islice(_LINE_END.finditer(raw), left)]:
                raw, left, number = raw[skipped[-1] :], left - len(skipped), number + len(skipped)
            if self._comments is not None:
                # no \r and \n may meet where a comment was
                raw = self._comments.sub(b"", _LINE_END.sub(b"\n", raw))
            try:
                _ = raw.isascii() or raw.decode()
            except UnicodeDecodeError as error:
                raise self._fault(
                    number + _line_ends(raw[: error.start]),
                    f"the byte 0x{raw[error.start]:02x} is not UTF-8: this is a binary file, or text in another "
                    "encoding. Save it as UTF-8 (in Excel: CSV UTF-8), or type: iconv -f ENCODING -t UTF-8 OLD.csv > "
                    "NEW.csv, where ENCODING is what the file was written in, on Windows mostly WINDOWS-1252 in "
                    "Western Europe, WINDOWS-1251 for Cyrillic, SHIFT_JIS in Japan and GB18030 in China.",
                ) from None
            if raw:
                yield _Lines(raw, number)
        if left:
            there = self._skipped - left
            raise TableError(f"{self._path}: skip_rows = {self._skipped}, but the file has only {there} lines.")

    def _whole_lines(self) -> Iterator[_Lines]:
        """Yield decompressed bytes up to an end of a line; the last line gets one."""
        held: list[bytes] = []
        number = 1
        for block in self._decompressed():
            # a \r that ends the block may be half of a line end
            cut = max(block.rfind(b"\n"), block.rfind(b"\r", 0, max(0, len(block) - 1))) + 1
            held.append(block[:cut] if cut else block)
            if sum(map(len, held)) > _LONGEST_LINE + BLOCK_BYTES:
                raise self._fault(
                    number,
                    f"the line has more than {_LONGEST_LINE >> 20} MiB: this is no table of rows in lines, or damaged. "
                    "Correct the line, or give a Parquet file.",
                )
            if cut:
                lines = _Lines(b"".join(held), number)
                yield lines
                number, held = number + _line_ends(lines.raw), [block[cut:]]
        if rest := b"".join(held):
            # a quote that is open at the end runs over the line end, and is seen by that
            yield _Lines(rest if rest.endswith(b"\r") else rest + b"\n", number)

    def _decompressed(self) -> Iterator[bytes]:
        """Yield the decompressed bytes; the first block is long enough to tell what the file is."""
        compression, first = COMPRESSIONS.get(self._path.suffix.lower()), True
        try:
            with self._path.open("rb") if self._piped is None else pa.BufferReader(self._piped) as file:
                opened = file if compression is None else pa.CompressedInputStream(file, compression)
                while block := opened.read(max(BLOCK_BYTES, _LONGEST_START) if first else BLOCK_BYTES):
                    if first and (found := next((why for what, why in _BINARY_STARTS if block.startswith(what)), None)):
                        raise TableError(f"{self._path}: the file {found}.")
                    first = False
                    yield block
        except (OSError, pa.ArrowException) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise unreadable(self._path, error) from None
            raise TableError(
                f"{self._path}: cannot be decompressed: {first_line(error)} The file is damaged, or not what its name "
                "says. Copy it again."
            ) from None
        if first:
            raise TableError(f"{self._path}: the file is empty.")

    # ------------------------------------------------------------------ from lines to cells

    def _parsed(self, lines: _Lines, columns: Sequence[str]) -> Any:
        """Return these columns of some lines; raise the error about the first of them that is no row."""
        quoted = b'"' in lines.raw
        # a quoted cell may hold line ends, which is looked for in every column
        wanted = list(self.names if quoted else columns)
        try:
            data = pa.csv.read_csv(
                pa.BufferReader(lines.raw),
                # one block: a row may be of any length
                read_options=pa.csv.ReadOptions(
                    use_threads=False, block_size=len(lines.raw) + 1, column_names=self.names
                ),
                parse_options=pa.csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=quoted),
                convert_options=pa.csv.ConvertOptions(
                    column_types=dict.fromkeys(wanted, pa.string()), include_columns=wanted, check_utf8=False
                ),
            )
        except pa.ArrowInvalid:  # its words repeat cells
            raise next(self._faults(lines), self._fault(lines.first, "cannot be read as CSV from here on.")) from None
        if quoted and any(map(_may_hold_line_ends, data.columns)) and (fault := next(self._faults(lines), None)):
            raise fault
        return data.select(columns) if quoted else data

    def _cells(self, line: bytes) -> tuple[list[str], bool]:
        """Return the cells of a line, and whether the last one begins with a quote that is not closed in it."""
        text, cells = line.decode(), list[str]()
        if '"' not in text:
            return text.split(self._delimiter), False
        for found in self._cell.finditer(text):
            within, closed, rest, bare, end = found.groups()
            cells.append(bare if within is None else within.replace('""', '"') + rest)
            if not end:
                return cells, closed == ""
        raise AssertionError("the pattern of a cell fits any text")

    def _faults(self, lines: _Lines) -> Iterator[TableError]:
        """Yield the errors about lines that are no row.

        A cell that runs over several lines is mostly a quote that is never closed, which would swallow rows.
        """
        names = self.names
        for number, text in lines.numbered():
            cells, is_open = self._cells(text)
            if is_open and len(cells) <= len(names):
                yield TableError(
                    f"{self._path}, line {number}, column {names[len(cells) - 1]!r}: the quoted cell runs over several "
                    "lines. Close the quote, or remove the line break."
                )
            elif len(cells) != len(names):
                remedy = (likely_cause(names) if len(names) == 1 else "") or (
                    ' Correct the line, put cells that hold the delimiter between quotes (""), or give delimiter="...".'
                    + " If each line has one more, name it in the first line." * (len(cells) == len(names) + 1)
                )
                yield self._fault(number, f"{len(cells)} cells instead of {len(names)}.{remedy}")

    def _fault(self, number: int, what: str) -> TableError:
        return TableError(f"{self._path}, line {number}: {what}")

    def _given_names(self, count: int, names: Sequence[str] | None, may_lack: str | None, number: int) -> list[str]:
        """Return the names of the columns of a file without a header, whose first line has ``count`` cells."""
        if names is None:
            return [f"column_{position + 1}" for position in range(count)]
        names = in_order("names", names)
        if count == len(names):
            return list(names)
        if may_lack in names and count == len(names) - 1:
            return [name for name in names if name != may_lack]
        raise self._fault(
            number,
            f"{count} cells, but the schema describes {len(names)} columns. A file without a header needs one section "
            'a column, in its order; write type = "ignore" for those to leave out. If the cells are separated '
            'otherwise, give delimiter="...".',
        )


def _piped(path: Path, scratch: str | Path | None) -> Any:
    """Return the bytes of a pipe; None of a file."""
    try:
        if stat.S_ISREG(mode := path.stat().st_mode) or stat.S_ISDIR(mode):
            return None
        with path.open("rb") as pipe:
            if len(start := pipe.read(_PIPE_IN_MEMORY + 1)) <= _PIPE_IN_MEMORY:
                return start
            file = ScratchFile(scratch)
            for block in chain([start], iter(lambda: pipe.read(BLOCK_BYTES), b"")):
                file.write(np.frombuffer(block, np.uint8))
            return file.map()
    except OSError as error:
        raise unreadable(path, error) from None


def _line_ends(raw: bytes) -> int:
    ends = raw.count(b"\n")
    return ends + raw.count(b"\r") - raw.count(b"\r\n") if b"\r" in raw else ends


def _may_hold_line_ends(texts: Any) -> bool:
    held = [chunk.buffers()[2] for chunk in texts.chunks]
    return any(mark in text.to_pybytes() for text in held if text is not None for mark in (b"\n", b"\r"))
