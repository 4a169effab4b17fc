"""CSV text as tables of some ten thousand rows, one after another."""

from __future__ import annotations

import contextlib
import csv
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import islice
from typing import Any

from sottovoce._optional import pa
from sottovoce._validation import in_order, whole_number
from sottovoce.exceptions import TableError
from sottovoce.tables.addresses import file_here
from sottovoce.tables.layout import Layout
from sottovoce.tables.table import Table, likely_cause, refuse_repeated_names
from sottovoce.tables.text import Lines, Source, first_line, text_lines


class CsvText:
    """The columns of a CSV file, and its rows, some at a time.

    Only the start of the file is read when it is opened. Each call of `tables` reads it from the start to the end.

    ``skip_rows``: see `text_lines`.
    ``names``: of the columns, for a file without a header.
    ``may_lack``: one of them that may be absent.
    ``most_rows``: of a table.

    Raises TableError if the start of the file is not that of a table.
    """

    def __init__(
        self, source: Source, layout: Layout, delimiter: str, *, skip_rows: int, names: Sequence[str] | None,
        may_lack: str | None, most_rows: int,
    ) -> None:  # fmt: skip
        self._source, self._delimiter, self._most_rows = source, delimiter, most_rows
        self._file = file_here(source.path)
        self._stamp = self._file.stamp() if source.kept is None else ()
        lines = partial(text_lines, source, comment=layout.comment)
        skip_rows = whole_number("skip_rows", skip_rows, at_least=0)
        self.size: int = self._stamp[0] if source.kept is None else len(source.kept)
        self._path = source.path
        with closing(_numbered(lines(skip_rows=skip_rows))) as numbered:
            number, start = next(numbered, (0, b""))
        if not number:
            raise TableError(f"{self._path}: the file holds no data.")
        try:
            cells = self._cells(start)
        except csv.Error as error:
            raise TableError(f"{self._path}: the first line cannot be read as CSV: {error}.") from None
        if cells[-1].endswith("\n"):
            raise TableError(f"{self._path}: the first line ends within quotes. Write each name or cell in one line.")
        self._rows = partial(lines, skip_rows=number if layout.header else skip_rows)
        if layout.header:
            self.names = [name.strip() for name in cells]
        else:
            self.names = self._given_names(cells, names, may_lack, number)
        self.counted = self.names[:1]  # all columns are looked at where one of them is decoded
        refuse_repeated_names(self.names, str(self._path))
        header = pa.schema([(name, pa.string()) for name in self.names]).empty_table()
        self.header = Table(header, str(self._path), self.line)

    def tables(self, columns: Sequence[str]) -> Iterator[Table]:
        first_row = 0
        for lines, data in self._parsed(columns):
            for lo in range(0, data.num_rows, self._most_rows):
                piece = data.slice(lo, self._most_rows)
                yield Table(piece, str(self._path), partial(_line_of, lines, lo, first_row), first_row)
                first_row += piece.num_rows

    def line(self, row: int) -> str:
        """Return where a row stands in the file, which is read again: it is called for errors only."""
        with contextlib.suppress(TableError, StopIteration):  # the file has gone: the row is what can be told
            return f"line {next(islice(_numbered(self._rows()), row, None))[0]}"
        return f"row {row + 1}"

    def _parsed(self, columns: Sequence[str]) -> Iterator[tuple[Lines, Any]]:
        """Yield some lines of the file and their cells in these columns, until its end."""
        self._file.refuse_changed(self._stamp)
        for lines in self._rows():
            quoted = b'"' in lines.raw
            try:
                # a quoted cell may hold line ends, which is looked for in every column
                data = self._parse(lines.raw, self.names if quoted else columns)
            except pa.ArrowInvalid as error:
                whole = TableError(f"{self._path}: cannot be read as CSV: {first_line(error)}")
                raise next(self._faults(lines), whole) from None
            if quoted and any(map(_may_hold_line_ends, data.columns)) and (fault := next(self._faults(lines), None)):
                raise fault
            yield lines, data.select(columns) if quoted else data
        self._file.refuse_changed(self._stamp)

    def _parse(self, raw: bytes, columns: Sequence[str]) -> Any:
        return pa.csv.read_csv(
            pa.BufferReader(raw),
            # one block: a row may be of any length
            read_options=pa.csv.ReadOptions(use_threads=False, block_size=len(raw) + 1, column_names=self.names),
            parse_options=pa.csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=b'"' in raw),
            convert_options=pa.csv.ConvertOptions(
                column_types=dict.fromkeys(columns, pa.string()), include_columns=list(columns), check_utf8=False
            ),
        )

    def _cells(self, line: bytes) -> list[str]:
        """Return the cells of a line. A quote that is not closed in it leaves a line end in the last cell.

        Raises csv.Error for a quoted cell beyond the module's limit, which Arrow reads.
        """
        text = line.decode()
        if '"' not in text:
            return text.split(self._delimiter)
        return next(csv.reader([text + "\n"], delimiter=self._delimiter))

    def _faults(self, lines: Lines) -> Iterator[TableError]:
        """Yield the errors about lines that are no row.

        A cell that runs over several lines is mostly a quote that is never closed, which would swallow rows.
        """
        for number, text in lines.numbered():
            try:
                cells = self._cells(text)
            except csv.Error:
                continue
            place = f"{self._path}, line {number}"
            if cells[-1].endswith("\n") and len(cells) <= len(self.names):
                yield TableError(
                    f"{place}, column {self.names[len(cells) - 1]!r}: the quoted cell runs over several lines. Close "
                    "the quote, or remove the line break."
                )
            elif len(cells) != len(self.names):
                remedy = (likely_cause(self.names) if len(self.names) == 1 else "") or (
                    ' Correct the line, put cells that hold the delimiter between quotes (""), or give delimiter="...".'
                    + " If each line has one more, name it in the first line." * (len(cells) == len(self.names) + 1)
                )
                yield TableError(f"{place}: {len(cells)} cells instead of {len(self.names)}.{remedy}")

    def _given_names(
        self, cells: Sequence[str], names: Sequence[str] | None, may_lack: str | None, number: int
    ) -> list[str]:
        """Return the names of the columns of a file without a header, ``cells`` being those of its first line."""
        if names is None:
            return [f"column_{position + 1}" for position in range(len(cells))]
        names = in_order("names", names)
        if len(cells) == len(names):
            return list(names)
        if may_lack in names and len(cells) == len(names) - 1:
            return [name for name in names if name != may_lack]
        raise TableError(
            f"{self._path}, line {number}: {len(cells)} cells, but the schema describes {len(names)} columns. A "
            'file without a header needs one section a column, in its order; write type = "ignore" for those to leave '
            'out. If the cells are separated otherwise, give delimiter="...".'
        )


def _numbered(some: Iterator[Lines]) -> Generator[tuple[int, bytes]]:
    for lines in some:
        yield from lines.numbered()


def _line_of(lines: Lines, skipped: int, first_row: int, row: int) -> str:
    number = next(islice(lines.numbered(), skipped + row, None), None)
    return f"row {first_row + row + 1}" if number is None else f"line {number[0]}"


def _may_hold_line_ends(texts: Any) -> bool:
    held = [chunk.buffers()[2] for chunk in texts.chunks]
    return any(mark in text.to_pybytes() for text in held if text is not None for mark in (b"\n", b"\r"))
