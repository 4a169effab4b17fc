"""A table in memory whose every cell still knows the file, the column and the line that it came from."""

from __future__ import annotations

import reprlib
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sottovoce._entries import entries, is_missing
from sottovoce._optional import loaded, pa
from sottovoce._validation import nearest
from sottovoce.exceptions import TableError
from sottovoce.tables.layout import Layout
from sottovoce.tables.notation import DateNotation, NumberNotation, number_notations_of

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

SHOWN = 5
_REPR = reprlib.Repr()
_REPR.maxstring = 100
_LONGEST = 8192  # bits of a number that Python writes in decimal digits


@dataclass(frozen=True, slots=True)
class Cells:
    """One column of a table, read as numbers or as distinct texts."""

    name: str  # name of the column
    values: Any  # the cells as they were read: text from CSV, typed values from Parquet and from frames
    source: str  # name of the file, for messages
    line: Callable[[int], str]  # maps row numbers, counted from 0, to texts such as ``"line 17"``

    def __len__(self) -> int:
        return len(self.values)

    def error(self, row: int, what: str, remedy: str) -> TableError:
        """Return the error that ``what`` is wrong in ``row`` (counted from 0), and what to do about it."""
        return TableError(f"{self.source}, {self.line(row)}, column {self.name!r}: {what}. {remedy}")

    def spelled(self) -> tuple[list[str | None], Codes]:
        """Return the distinct texts, without outer white space and as they first occur, and which one each row holds.

        None stands for a null (Parquet and frames only). Numbers are spelled as in JSON, whole floats without the
        point, so that a column of codes reads the same from CSV, Parquet and a frame.
        """
        if len(self) == 0:
            return [], np.zeros(0, dtype=np.int64)
        values = self.plain()
        encoded = values.dictionary_encode(null_encoding="encode").combine_chunks()
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.chunk(0)
        place_of: dict[str | None, int] = {}
        # " a" and "a" are two values and one text
        places = [place_of.setdefault(_spell(value), len(place_of)) for value in encoded.dictionary.to_pylist()]
        return list(place_of), np.array(places, dtype=np.int64)[encoded.indices.to_numpy(zero_copy_only=False)]

    def numbers(self, missing: Collection[str], notation: NumberNotation | None = None) -> tuple[Floats, Mask]:
        """Return the cells as finite float64 numbers, and the mask of the missing ones (0 among the numbers).

        ``missing``: the spellings of a missing value.
        ``notation``: how texts are written, if not with a decimal point alone.

        Raises TableError if a cell that is not missing is not a number, or is NaN or infinite; naming the first such
        line.
        """
        values = self.plain()
        if pa.types.is_string(values.type):
            values, absent = self._numbers_of_texts(values, missing, notation)
        else:
            absent = pa.compute.is_null(values)
            if pa.types.is_boolean(values.type):
                values = pa.compute.cast(values, pa.int8())
            values = pa.compute.cast(values, pa.float64(), safe=False)
            if any(marker.lower() == "nan" for marker in missing):
                absent = pa.compute.or_(absent, pa.compute.fill_null(pa.compute.is_nan(values), False))
            values, absent = pa.compute.if_else(absent, pa.scalar(0.0), values), absent.to_numpy()
        numbers = np.array(values.to_numpy(), dtype=np.float64)
        bad = np.flatnonzero(~np.isfinite(numbers))
        if bad.size:
            raise self.error(
                int(bad[0]),
                f"{numbers[bad[0]]:g} is not a finite number",
                "Remove the row, or write a marker for a missing value and list it under missing in [table].",
            )
        return numbers, np.array(absent, dtype=np.bool_)

    def seconds(self, missing: Collection[str], notation: DateNotation) -> tuple[Codes, Mask]:
        """Return the cells as seconds since 1970 of the clock that was read, and the mask of the missing ones (0).

        Raises TableError if a cell that is not missing is no date; naming the first such line.
        """
        values = self.values.combine_chunks() if isinstance(self.values, pa.ChunkedArray) else self.values
        if self.is_dated:
            if pa.types.is_timestamp(values.type) and values.type.tz is not None:
                values = pa.compute.local_timestamp(values)
            absent = pa.compute.is_null(values).to_numpy(zero_copy_only=False)
            whole = pa.compute.floor_temporal(pa.compute.cast(values, pa.timestamp("us"), safe=False), unit="second")
            seconds = pa.compute.cast(pa.compute.cast(whole, pa.timestamp("s")), pa.int64())
            return np.array(pa.compute.fill_null(seconds, 0).to_numpy()), absent
        texts, places = self.spelled()
        column = pa.array(texts, pa.string())
        gone = np.array([text is None or text in missing for text in texts], dtype=np.bool_)
        each, fits = notation.seconds(pa.compute.fill_null(column, ""))
        absent = gone[places]
        bad = np.flatnonzero(~absent & ~fits[places])
        if bad.size:
            form = "as 2020-12-31" if notation.format is None else f"in the format {notation.format!r}"
            raise self.error(
                int(bad[0]),
                f"{shown(texts[places[bad[0]]])} is not a date {form}",
                "Correct the cell, give the column its format in the schema, or list the text under missing in "
                "[table].",
            )
        return np.where(absent, 0, each[places]), absent

    @property
    def is_dated(self) -> bool:
        """Whether the cells are dates or times of a date by their type."""
        return bool(pa.types.is_date(self.values.type) or pa.types.is_timestamp(self.values.type))

    def identifiers(self, missing: Collection[str]) -> Any:
        """Return the cells as identifiers: texts without outer white space, null where missing; other types as read.

        ``missing``: the spellings of a missing value.
        """
        values = self.plain()
        if not pa.types.is_string(values.type):
            return values
        values = pa.compute.utf8_trim_whitespace(values)
        absent = pa.compute.is_in(values, value_set=pa.array(list(missing), type=pa.string()))
        return pa.compute.if_else(absent, pa.scalar(None, pa.string()), values)

    def named(self, missing: Collection[str]) -> npt.NDArray[np.object_]:
        """Return the cells as names of whom a row is about, exactly as they were read; None where missing.

        As numbers of numpy, large whole numbers beside a null would become fractions, and two people one.

        ``missing``: the spellings of a missing value.
        """
        self.refuse_as_names()
        encoded = self.identifiers(missing).dictionary_encode().unify_dictionaries()
        chunks = encoded.chunks
        names = np.array([*(chunks[0].dictionary.to_pylist() if chunks else ()), None], dtype=object)
        codes = [pa.compute.fill_null(chunk.indices, -1).to_numpy(zero_copy_only=False) for chunk in chunks]
        named: npt.NDArray[np.object_] = names[np.concatenate(codes) if codes else np.zeros(0, np.int64)]
        return named

    def refuse_as_names(self) -> None:
        """Refuse cells of a type that names nobody; their values are not looked at."""
        kind = self.values.type.value_type if pa.types.is_dictionary(self.values.type) else self.values.type
        if not (is_text(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind)):
            raise TableError(
                f"{self.source}, column {self.name!r}: values of type {kind} do not say whose row it is. Give texts or "
                "whole numbers."
            )

    def plain(self) -> Any:
        """Return the values with dictionaries decoded and all kinds of text as one; refuse what is not a cell."""
        kind = self.values.type
        values = self.values
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
            values = pa.compute.cast(values, kind)
        if is_text(kind):
            return pa.compute.cast(values, pa.string())
        if (
            pa.types.is_boolean(kind)
            or pa.types.is_integer(kind)
            or pa.types.is_floating(kind)
            or pa.types.is_decimal(kind)
        ):
            return values
        if pa.types.is_null(kind):
            return pa.compute.cast(values, pa.string())
        raise TableError(
            f"{self.source}, column {self.name!r}: values of type {kind} are neither numbers nor text. "
            + ('Give it type = "date"' if self.is_dated else "Convert the column before")
            + ', or type = "ignore" in the schema.'
        )

    def _numbers_of_texts(
        self, texts: Any, missing: Collection[str], notation: NumberNotation | None
    ) -> tuple[Any, Any]:
        # most columns are numbers throughout; a marker that is a number itself is one with white space beside it too
        if notation is None and not texts.null_count and set(map(number_of, missing)) <= {None}:
            try:
                return pa.compute.cast(texts, pa.float64()), np.zeros(len(texts), np.bool_)
            except pa.ArrowInvalid:
                pass
        values = pa.compute.utf8_trim_whitespace(texts)
        absent = pa.compute.or_(
            pa.compute.is_null(values), pa.compute.is_in(values, value_set=pa.array(list(missing), type=pa.string()))
        )
        values = pa.compute.if_else(absent, pa.scalar("0"), values)
        read = values
        if notation is not None:
            read = notation.plain(values)
            if read.null_count:
                bad = np.flatnonzero(pa.compute.is_null(read).to_numpy())
                raise self._bad_number(int(bad[0]), values, notation)
        try:
            return pa.compute.cast(read, pa.float64()), absent.to_numpy()
        except pa.ArrowInvalid:
            raise self._bad_number(self._first_bad_number(values), values, notation) from None

    def _first_bad_number(self, texts: Any) -> int:
        start, stop = 0, len(texts)
        while stop - start > 1:
            middle = (start + stop) // 2
            try:
                pa.compute.cast(texts.slice(start, middle - start), pa.float64())
            except pa.ArrowInvalid:
                stop = middle
            else:
                start = middle
        return start

    def _bad_number(self, row: int, texts: Any, notation: NumberNotation | None) -> TableError:
        text = texts[row].as_py()
        remedy = "Correct the cell, or list its text under missing in [table] of the schema."
        ways = [way for way in number_notations_of([text]) if way != notation]
        if ways:
            others, said = (_entries(way or NumberNotation()) for way in (ways[0], notation))
            written = f"as {said} has it" if said else "with a decimal point"
            remedy = (
                f"Write numbers {written}, or {f'say {others} in' if others else f'take {said} out of'} the column's "
                "section of the schema if all are written so."
            )
        so = "" if notation is None else " as its section says that numbers are written"
        return self.error(row, f"{shown(text)} is not a number{so}", remedy)


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
        try:
            pandas = loaded("pandas")
            if pandas is not None and isinstance(frame, pandas.DataFrame):
                if any(name is not None for name in frame.index.names):
                    frame = frame.reset_index()
                columns = [_column(frame.iloc[:, place]) for place in range(frame.shape[1])]
                data = pa.table(columns, names=[str(name) for name in frame.columns])
            else:
                data = frame if isinstance(frame, pa.Table) else pa.table(frame)
        except (TypeError, ValueError, pa.ArrowException) as error:
            raise TableError(
                f"{source} of type {type(frame).__name__} cannot be read as a table: {error}. "
                "Give a pandas, polars or pyarrow table."
            ) from None
        refuse_repeated_names(data.column_names, source)
        return cls(data, source, "row {}".format)

    @classmethod
    def from_array(cls, array: npt.NDArray[Any], names: Sequence[str], *, source: str = "the array") -> Table:
        """Take the columns of an array of numbers, texts or objects; NaN is missing, and objects are read as from CSV.

        Raises
        ------
        TableError
            If the array is of a type that no column has.
        """
        try:
            columns = {name: _column(array[:, k]) for k, name in enumerate(names)}
        except (TypeError, ValueError, pa.ArrowException) as error:
            raise TableError(f"{source} cannot be read: {error}.") from None
        return cls(pa.table(columns), source, "row {}".format)

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
            names = self.column_names
            some = ", ".join(map(shown, names[:SHOWN])) + (", ..." if len(names) > SHOWN else "")
            raise TableError(
                f"{self.source}: there is no column {name!r} among its {len(names)} ({some})."
                f"{nearest(name, names)}"
                f"{likely_cause(names) or ' Add the column to the table, or correct its name in the schema.'}"
            )
        return Cells(name, self.data.column(name), self.source, self.line)

    def column(self, name: str) -> list[Any]:
        """Return the cells of a column as they are in the file; true, false and nulls as in CSV."""
        said = {True: "true", False: "false", None: ""}
        return [said[cell] if cell is None or isinstance(cell, bool) else cell for cell in self.data[name].to_pylist()]

    def text(self, chosen: Mask, layout: Layout) -> str:
        """Return some rows as CSV that reads the same with this layout.

        Raises
        ------
        TableError
            If a column has a type that is neither text, number nor time.
        """
        buffer = pa.BufferOutputStream()
        options = pa.csv.WriteOptions(
            include_header=layout.header, delimiter=layout.delimiter or ",", quoting_style="needed"
        )
        try:
            pa.csv.write_csv(self.data.filter(pa.array(chosen)), buffer, options)
        except pa.ArrowException as error:
            raise TableError(
                f"{self.source}: rows cannot be written as CSV: {str(error).partition(chr(10))[0]}. Drop the column."
            ) from None
        return bytes(buffer.getvalue()).decode()


def _entries(notation: NumberNotation) -> str:
    return ", ".join(f'{name} = "{mark}"' for name, mark in notation.entries().items())


def shown(text: str | None) -> str:
    """Return a cell as a message shows it: the middle of a long one is left out."""
    return _REPR.repr(text)


def is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


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
    return _spell(cell)


def _spell(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def refuse_repeated_names(names: Sequence[str], source: str) -> None:
    if len(set(names)) < len(names):
        name = Counter(names).most_common(1)[0][0]
        raise TableError(f"{source}: two columns are named {name!r}.{likely_cause(names) or ' Rename one of them.'}")


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
        return " The first line seems to hold data, not names: give header=False, or header = false in [table]."
    return " Name each column, or give skip_rows=1 for a line above the names." if names.count("") > 1 else ""


def number_of(text: str) -> float | None:
    """Return the number that a text spells, as Python reads it."""
    try:
        return float(text)
    except ValueError:
        return None
