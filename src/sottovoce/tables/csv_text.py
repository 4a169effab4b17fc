"""CSV text as tables of some ten thousand rows, one after another."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any

from sottovoce._optional import pa
from sottovoce.exceptions import TableError
from sottovoce.tables.layout import Layout
from sottovoce.tables.table import Table, refuse_repeated_names
from sottovoce.tables.text import Lines, TextFile, first_line

__all__ = ["CsvText"]

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BLANK = b"\r\n"
_Line = Callable[[int], str]


class CsvText:
    """The columns of a CSV file, and its rows, some at a time.

    Only the start of the file is read when it is opened. Each call of `tables` reads it from the start to the end.

    ``names``: of the columns, for a file without a header.
    ``may_lack``: one of them that may be absent.
    ``most_rows``: of a table.

    Raises TableError if the start of the file is not that of a table.
    """

    def __init__(
        self,
        file: TextFile,
        layout: Layout,
        delimiter: str,
        names: Sequence[str] | None,
        may_lack: str | None,
        most_rows: int,
    ) -> None:
        self._file, self._layout, self._delimiter, self._most_rows = file, layout, delimiter, most_rows
        self._path = file.source.path
        self._comment = None if layout.comment is None else re.escape(layout.comment.encode()) + rb"[^\r\n]*"
        self._started: Iterator[Lines] | None = self._content()
        start = next(self._started, None)
        if start is None:
            raise TableError(f"{self._path}: the file holds no data.")
        cells = self._cells_of_first_line(start.raw)
        if layout.header:
            self.names = [name.strip() for name in cells]
        else:
            self.names = self._given_names(start, cells, names, may_lack)
        refuse_repeated_names(self.names, str(self._path))
        self._start: Lines | None = start
        self._columns = self.names

    @property
    def header(self) -> Any:
        return pa.schema([(name, pa.string()) for name in self.names]).empty_table()

    def only(self, names: Collection[str]) -> None:
        """Give no other columns from now on; all of them are looked at."""
        self._columns = [name for name in self.names if name in names]

    def tables(self) -> Iterator[Table]:
        if self._started is None or self._start is None:
            self._file.source.refuse_changed()
            content = self._content()
            start = next(content)
        else:
            content, start = self._started, self._start
        self._started = self._start = None
        first_row = 0
        for lines in self._data(start, content):
            if not lines.raw:
                continue
            data = self._parsed(lines).select(self._columns)
            for lo in range(0, data.num_rows, self._most_rows):
                piece = data.slice(lo, self._most_rows)
                yield Table(piece, str(self._path), partial(_line_of, lines, lo, first_row), first_row)
                first_row += piece.num_rows
        self._file.source.refuse_changed()
        if first_row == 0:
            raise TableError(f"{self._path}: the table has a header, but no row of data.")

    def line(self, row: int) -> str:
        """Return where a row stands in the file, which is read again: it is called for errors only."""
        left = row
        try:
            if self._file.source.again:
                content = self._content()
                for lines in self._data(next(content), content):
                    if (number := lines.number_of(left, bool)) is not None:
                        return f"line {number}"
                    left -= lines.count(bool)
        except (TableError, StopIteration):  # the file has gone: the row is the best that can be told
            pass
        return f"row {row + 1}"

    def _content(self) -> Iterator[Lines]:
        """Yield the lines from the first one that is neither blank nor a comment; comments are made blank."""
        begun, after_newline = False, True
        for lines in self._file.lines():
            raw = lines.raw
            if self._comment is not None:
                raw = re.sub((rb"(?m)^" if after_newline else rb"(?<=\n)") + self._comment, b"", raw)
                after_newline = lines.raw.endswith(b"\n")
            first = lines.first
            if not begun:
                stripped = raw.lstrip(_BLANK)
                first = Lines(raw[: len(raw) - len(stripped)], first).stop
                raw = stripped
            if raw:
                begun = True
                yield Lines(raw, first)

    def _data(self, start: Lines, content: Iterator[Lines]) -> Iterator[Lines]:
        if self._layout.header:
            end = _LINE_END.search(start.raw)
            start = Lines(start.raw[end.end() :], start.first + 1) if end else Lines(b"", start.first)
        yield start
        yield from content

    def _cells_of_first_line(self, raw: bytes) -> list[str]:
        text = _LINE_END.split(raw, maxsplit=1)[0].decode()
        try:
            return next(csv.reader([text], delimiter=self._delimiter))
        except csv.Error as error:
            raise TableError(f"{self._path}: the first line cannot be read as CSV: {error}.") from None

    def _given_names(
        self, start: Lines, cells: Sequence[str], names: Sequence[str] | None, may_lack: str | None
    ) -> list[str]:
        """Return the names of the columns of a file without a header, ``cells`` being those of its first line."""
        if names is None:
            return [f"column_{position + 1}" for position in range(len(cells))]
        if len(cells) == len(names):
            return list(names)
        if may_lack in names and len(cells) == len(names) - 1:
            return [name for name in names if name != may_lack]
        raise TableError(
            f"{self._path}, line {start.first}: {len(cells)} cells, but the schema describes {len(names)} columns. A "
            'file without a header needs one section a column, in its order; write type = "ignore" for those to leave '
            'out. If the cells are separated otherwise, give delimiter="...".'
        )

    def _parsed(self, lines: Lines) -> Any:
        """Return whole lines as an Arrow table; refuse the first row that has other cells, or is not one line."""
        line = partial(_line_of, lines, 0, 0)
        quoted = b'"' in lines.raw
        ragged: list[Any] = []
        try:
            only = None if quoted else self._columns
            data = _parse(lines.raw, self.names, self._delimiter, ragged, "error", only)
        except pa.ArrowInvalid as error:
            if not ragged:
                raise TableError(f"{self._path}: cannot be read as CSV: {first_line(error)}") from None
            row = ragged[0].number - 1
            if quoted:
                before = _parse(lines.raw, self.names, self._delimiter, [], "skip").slice(0, row)
                self._refuse_line_breaks(before, line)
                self._refuse_broken_row(ragged[0], line)
            raise TableError(
                f"{self._path}, {line(row)}: {ragged[0].actual_columns} cells instead of {ragged[0].expected_columns}. "
                'Correct the line, put cells that hold the delimiter between quotes (""), or give delimiter="...".'
            ) from None
        if quoted:
            self._refuse_line_breaks(data, line)
        return data

    def _refuse_line_breaks(self, data: Any, line: _Line) -> None:
        """Refuse a cell that runs over several lines: mostly a quote that is never closed, which would swallow rows."""
        broken = [
            (pa.compute.index(pa.compute.match_substring_regex(column, "[\r\n]"), True).as_py(), place)
            for place, column in enumerate(data.columns)
        ]
        rows = [found for found in broken if found[0] >= 0]
        if rows:
            row, place = min(rows)
            raise self._line_break(line(row), place)

    def _refuse_broken_row(self, row: Any, line: _Line) -> None:
        """Refuse a row of too few or too many cells for the line break in one of them, where there is one."""
        text = row.text.encode()
        if not re.search(rb"[\r\n]", text):
            # the lines may end within the quotes: then one more line is swallowed by them
            again: list[Any] = []
            try:
                _parse(text + b"\n.", self.names, self._delimiter, again, "error")
            except pa.ArrowInvalid:
                text = again[0].text.encode() if again else text
        if not re.search(rb"[\r\n]", text):
            return
        try:
            cells = _parse(text, list(map(str, range(row.actual_columns))), self._delimiter, [], "error")
        except pa.ArrowInvalid:
            return
        place = next(
            (place for place, cell in enumerate(cells.slice(0, 1).columns) if re.search("[\r\n]", cell[0].as_py())),
            None,
        )
        if place is not None and place < len(self.names):
            raise self._line_break(line(row.number - 1), place)

    def _line_break(self, where: str, place: int) -> TableError:
        return TableError(
            f"{self._path}, {where}, column {self.names[place]!r}: the quoted cell runs over several lines. Close the "
            "quote, or remove the line break."
        )


def _parse(raw: bytes, names: Sequence[str], delimiter: str, ragged: list[Any], then: str, only: Any = None) -> Any:
    """Return the lines as an Arrow table of texts, of some columns; rows of other cells are added to ``ragged``."""

    def handle(row: Any) -> str:
        ragged.append(row)
        return then

    return pa.csv.read_csv(
        pa.BufferReader(raw),
        # one thread and one block: only then does a ragged row know its number, and a row may be of any length
        read_options=pa.csv.ReadOptions(use_threads=False, block_size=len(raw) + 1, column_names=list(names)),
        parse_options=pa.csv.ParseOptions(
            delimiter=delimiter, newlines_in_values=b'"' in raw, invalid_row_handler=handle
        ),
        convert_options=pa.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), include_columns=only),
    )


def _line_of(lines: Lines, skipped: int, first_row: int, row: int) -> str:
    number = lines.number_of(skipped + row, bool)
    return f"row {first_row + row + 1}" if number is None else f"line {number}"
