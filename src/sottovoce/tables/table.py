"""Tables whose every cell still knows where it came from: in memory, or in a file that is read some rows at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from sottovoce._entries import entries, is_missing
from sottovoce._optional import loaded, pa
from sottovoce._validation import nearest
from sottovoce.exceptions import TableError
from sottovoce.tables.cells import SHOWN, Cells, Mask, number_of, shown, spell
from sottovoce.tables.layout import Layout

KEPT_BYTES = 1 << 24
_LONGEST: Final = 8192  # bits of a number that Python writes in decimal digits
_HEADLESS: Final = " The first line seems to hold data, not names: give header=False, or header = false in [table]."


@dataclass(frozen=True, slots=True)
class Table:
    """The columns of one file or frame.

    Parameters
    ----------
    data : pyarrow.Table
        The cells.
    source : str
        Name of the file, for messages.
    line : callable
        Maps row numbers of this table, counted from 0, to texts such as ``"line 17"``.
    first_row : int, default=0
        Which row of the file is the first of this table: not 0 in a batch of a larger one.
    """

    data: Any
    source: str
    line: Callable[[int], str] = field(repr=False)
    first_row: int = 0

    @classmethod
    def of_rows(cls, data: Any, source: str, first_row: int = 0) -> Table:
        """Take some rows of a file that has no lines: in messages rows are counted from 1."""
        return cls(data, source, lambda row: f"row {first_row + row + 1}", first_row)

    @classmethod
    def from_frame(cls, frame: Any, *, source: str = "the frame") -> Table:
        """Take the columns of a pandas, polars or pyarrow frame; in messages rows are counted from 0.

        Where each cell has a type of its own (objects of pandas), cells are read as from CSV: as texts.

        Raises
        ------
        TableError
            If ``frame`` is not a frame, or has two columns of one name.
        """
        pandas = loaded("pandas")
        if pandas is not None and isinstance(frame, pandas.DataFrame):
            if any(name is not None for name in frame.index.names):
                frame = frame.reset_index()
            return cls.from_columns(
                [*map(str, frame.columns)], (frame.iloc[:, k] for k in range(frame.shape[1])), source
            )
        with _no_table(f"{source} of type {type(frame).__name__}"):
            data = frame if isinstance(frame, pa.Table) else pa.table(frame)
        refuse_repeated_names(data.column_names, source)
        return cls(data, source, "row {}".format)

    @classmethod
    def from_columns(cls, names: Sequence[str], columns: Iterable[Any], source: str = "the array") -> Table:
        """Take columns of pandas or arrays of numbers, texts or objects; NaN is missing, objects are read as from CSV.

        Raises TableError if one is of a type that no column has, or two have one name.
        """
        arrays: list[Any] = []
        for name, column in zip(names, columns, strict=True):
            with _no_table(f"{source}, column {name!r}, of type {column.dtype}"):
                arrays.append(_column(column))
        refuse_repeated_names(names, source)
        return cls(pa.table(arrays, names=list(names)), source, "row {}".format)

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of the columns, in the order of the file."""
        return tuple(self.data.column_names)

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return int(self.data.num_rows)

    def __contains__(self, name: object) -> bool:
        return name in self.data.column_names

    def cells(self, name: str) -> Cells:
        """Return the column ``name``.

        Raises
        ------
        TableError
            If there is no such column; the message names the nearest one and the likely causes.
        """
        if name not in self:
            names, cause = self.column_names, likely_cause(self.column_names)
            some = ", ".join(map(shown, names[:SHOWN])) + (", ..." if len(names) > SHOWN else "")
            # what may be somebody's row is not repeated
            near = "." if cause else f" ({some}).{nearest(name, names)}"
            raise TableError(
                f"{self.source}: there is no column {name!r} among its {len(names)}{near}"
                f"{cause or ' Add the column to the table, or correct its name where you wrote it.'}"
            )
        return Cells(name, self.data.column(name), self.source, self.line)

    def column(self, name: str) -> list[Any]:
        """Return the cells of a column as they are in the file; true, false and nulls as in CSV."""
        said = {True: "true", False: "false", None: ""}
        return [said[cell] if cell is None or isinstance(cell, bool) else cell for cell in self.data[name].to_pylist()]

    def text(self, chosen: Mask, layout: Layout) -> str:
        """Return some rows as CSV that reads the same with this layout.

        Columns of lists and the like are left out: no cell of CSV holds them, and no schema uses them.

        Raises
        ------
        TableError
            If a column has a type that is neither text, number nor time.
        """
        buffer = pa.BufferOutputStream()
        options = pa.csv.WriteOptions(
            include_header=layout.header, delimiter=layout.delimiter or ",", quoting_style="needed"
        )
        written = self.data.select([field.name for field in self.data.schema if not pa.types.is_nested(field.type)])
        try:
            pa.csv.write_csv(written.filter(pa.array(chosen)), buffer, options)
        except pa.ArrowException as error:
            raise TableError(
                f"{self.source}: rows cannot be written as CSV: {str(error).partition(chr(10))[0]}. Drop the column."
            ) from None
        return bytes(buffer.getvalue()).decode()


class BatchedTable:
    """The columns of a file or a query whose rows are read some at a time, in order, as often as they are asked for.

    ``for table in batched`` gives tables of at most 65,536 rows and about 1 MiB of text. Each knows its first row
    (``first_row``), and its messages name the lines of the file. Opening reads the start of the file. One that changes
    between two readings is refused. A table of at most 16 MiB is kept by the first reading of `n_rows`.

    ``schema``: of Arrow. ``source``: the name, for messages. ``most_rows``: of a table.
    ``read``: reads all rows once, these columns of them, as tables of Arrow.
    ``size``: the bytes of the file. ``counted``: the columns that are read of a large one to count its rows.
    ``line``: maps row numbers, counted from 0, to texts such as ``"line 17"``.
    """

    def __init__(
        self, schema: Any, source: str, read: Callable[[Sequence[str]], Iterator[Any]], *, most_rows: int, size: float,
        counted: Sequence[str], line: Callable[[int], str] = lambda row: f"row {row + 1}",
    ) -> None:  # fmt: skip
        refuse_repeated_names(schema.names, source)
        self.header, self.source = Table(schema.empty_table(), source, line), source
        self._read, self._most_rows, self._size, self._counted = read, most_rows, size, counted
        self._n_rows: int | None = None
        self._kept: list[Table] | None = None
        self.told: Callable[[int], object] = lambda rows: None  # gets how many rows more were read

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of the columns, in the order of the file."""
        return self.header.column_names

    def __contains__(self, name: object) -> bool:
        return name in self.header

    def cells(self, name: str) -> Cells:
        """Return the column ``name`` without a cell: its type, and the error that there is no such column."""
        return self.header.cells(name)

    @property
    def n_rows(self) -> int:
        """The number of rows. The first time the file is read for it, and refused where it is no table.

        No value is looked at: what a cell means is not asked.
        """
        if self._n_rows is None:
            is_large = self._size > KEPT_BYTES
            kept: list[Table] | None = None if is_large else []
            held = count = 0
            for table in self._tables(self._counted if is_large else self.column_names):
                count += table.n_rows
                held += table.data.nbytes
                if kept is not None:
                    kept = None if held > KEPT_BYTES else [*kept, table]
            self._n_rows, self._kept = count, kept
        return self._n_rows

    def _tables(self, columns: Sequence[str]) -> Iterator[Table]:
        first_row = 0
        for data in self._read(columns):
            for lo in range(0, data.num_rows, self._most_rows):
                piece = data.slice(lo, self._most_rows)
                yield Table(piece, self.source, lambda row, first=first_row: self.header.line(first + row), first_row)  # type: ignore[misc]
                first_row += piece.num_rows
                self.told(piece.num_rows)
        if not first_row:
            raise TableError(f"{self.source}: the table has columns, but no row of data.")

    def __iter__(self) -> Iterator[Table]:
        return self.batches(self.column_names)

    def batches(self, names: Collection[str]) -> Iterator[Table]:
        """Give these columns alone, and maybe others: the others need not be decoded."""
        if self._kept is None:
            yield from self._tables([name for name in self.column_names if name in names])
            return
        for table in self._kept:
            yield table
            self.told(table.n_rows)

    def whole(self) -> Table:
        """Return all rows as one table in memory."""
        return replace(self.header, data=pa.concat_tables(table.data for table in self))


@contextmanager
def _no_table(what: str) -> Iterator[None]:
    try:
        yield
    except (TypeError, ValueError, pa.ArrowException):  # whose words repeat cells
        raise TableError(f"{what} cannot be read as a table. Give a pandas, polars or pyarrow table.") from None


def _column(given: Any) -> Any:
    """Return a column as Arrow has it, of its own type; no type is found among cells that have types of their own."""
    if str(given.dtype) == "category":
        codes, kinds = given.cat.codes.to_numpy(), given.cat.categories.to_series()
        return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), _column(kinds))
    if given.dtype != object and not isinstance(given, np.ma.MaskedArray):
        return pa.array(np.ascontiguousarray(given) if isinstance(given, np.ndarray) else given, from_pandas=True)
    return pa.array([_written(cell) for cell in entries(given).tolist()], pa.string())


def _written(cell: Any) -> str | None:
    if is_missing(cell):
        return None
    if isinstance(cell, np.generic):
        cell = cell.item()
    if isinstance(cell, str):
        return cell if cell.isascii() else cell.encode(errors="backslashreplace").decode()  # no lone surrogates
    if isinstance(cell, int) and cell.bit_length() > _LONGEST:
        return hex(cell)
    return spell(cell)


def refuse_repeated_names(names: Sequence[str], source: str) -> None:
    if len(set(names)) < len(names):
        cause = likely_cause(names)
        named = "alike" if cause == _HEADLESS else repr(Counter(names).most_common(1)[0][0])
        raise TableError(f"{source}: two columns are named {named}.{cause or ' Rename one of them.'}")


def likely_cause(names: Sequence[str]) -> str:
    """Return how a file was probably misread, as the names of its columns tell, and the remedy; nothing else: ""."""
    if names and names[0].startswith("sep="):
        return ' The first line is for Excel alone: give skip_rows=1 and delimiter="...".'
    for character, spelled in ((";", "';'"), ("\t", "a tab"), ("|", "'|'"), (",", "','")):
        if len(names) == 1 and character in names[0]:
            return f' The cells seem to be separated by {spelled}: give delimiter="...".'
    may_be_years = len(set(names)) == len(names)
    numbers = [
        name for place, name in enumerate(names) if number_of(name) is not None and name != str(place)
    ]  # as pandas counts
    if any(name is names[0] or not (may_be_years and name.isdecimal()) for name in numbers):
        return _HEADLESS
    return " Name each column, or give skip_rows=1 for a line above the names." if names.count("") > 1 else ""
