"""The cells of one column, read as numbers, dates, texts or names, each of which still knows its file and its line."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from sottovoce._optional import pa
from sottovoce.exceptions import TableError
from sottovoce.tables.notation import NumberNotation, number_notations_of, seconds_of

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

SHOWN: Final = 5  # values, in a message
_REPR: Final = reprlib.Repr()
_REPR.maxstring = 100
_A_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_A_DAY: Final = 86_400


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
        encoded = self.plain().dictionary_encode(null_encoding="encode").combine_chunks()
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.chunk(0)
        place_of: dict[str | None, int] = {}
        # " a" and "a" are two values and one text
        places = [place_of.setdefault(spell(value), len(place_of)) for value in encoded.dictionary.to_pylist()]
        return list(place_of), np.array(places, dtype=np.int64)[encoded.indices.to_numpy(zero_copy_only=False)]

    def numbers(self, missing: Collection[str], notation: NumberNotation | None = None) -> tuple[Floats, Mask]:
        """Return the cells as finite float64 numbers, and the mask of the missing ones (0 among the numbers).

        ``missing``: the spellings of a missing value.
        ``notation``: how texts are written, if not with a decimal point alone.

        Raises TableError if a cell that is not missing is not a number, or is NaN or infinite; naming the first such
        line.
        """
        read, absent = self._texts_throughout(missing) if notation is None else None, np.zeros(len(self), np.bool_)
        if read is None:
            values, gone = self._marked(missing)
            absent = np.array(gone, dtype=np.bool_)
            if pa.types.is_string(values.type):
                read = self._numbers_of(pa.compute.if_else(gone, pa.scalar("0"), values), notation)
            else:
                values = pa.compute.cast(values, pa.int8()) if pa.types.is_boolean(values.type) else values
                read = pa.compute.if_else(gone, pa.scalar(0.0), pa.compute.cast(values, pa.float64(), safe=False))
        numbers = np.array(read.to_numpy(), dtype=np.float64)
        bad = np.flatnonzero(~np.isfinite(numbers))
        if bad.size:
            raise self.error(
                int(bad[0]),
                f"{numbers[bad[0]]:g} is not a finite number",
                "Remove the row, or write a marker for a missing value and list it under missing in [table].",
            )
        return numbers, absent

    def seconds(self, missing: Collection[str], form: str | None) -> tuple[Codes, Mask]:
        """Return the cells as seconds since 1970 of the clock that was read, and the mask of the missing ones (0).

        Raises TableError if a cell that is not missing is no date; naming the first such line.
        """
        if self.is_dated:
            values, kind = self.values, self.values.type
            if pa.types.is_timestamp(kind) and kind.tz is not None:
                values = pa.compute.local_timestamp(values)
            whole = pa.compute.cast(values, pa.int32() if pa.types.is_date32(kind) else pa.int64())
            counts = np.array(pa.compute.fill_null(whole, 0), dtype=np.int64)
            # whole numbers: Arrow's own conversion takes dates beyond its range for others
            seconds = counts * _A_DAY if pa.types.is_date32(kind) else counts // _A_SECOND[getattr(kind, "unit", "ms")]
            return seconds, np.array(pa.compute.is_null(values), dtype=np.bool_)
        texts, places = self.spelled()
        gone = np.array([text is None or text in missing for text in texts], dtype=np.bool_)
        each, fits = seconds_of(pa.compute.fill_null(pa.array(texts, pa.string()), ""), form)
        absent = gone[places]
        bad = np.flatnonzero(~absent & ~fits[places])
        if bad.size:
            how = "as 2020-12-31" if form is None else f"in the format {form!r}"
            raise self.error(
                int(bad[0]),
                f"{shown(texts[places[bad[0]]])} is not a date {how}",
                "Correct the cell, give the column its format in the schema, or list the text under missing in "
                "[table].",
            )
        return np.where(absent, 0, each[places]), absent

    @property
    def kind(self) -> Any:
        """The type of the cells: of a dictionary, that of its values."""
        kind = self.values.type
        return kind.value_type if pa.types.is_dictionary(kind) else kind

    @property
    def is_dated(self) -> bool:
        """Whether the cells are dates or times of a date by their type."""
        return bool(pa.types.is_date(self.values.type) or pa.types.is_timestamp(self.values.type))

    def identifiers(self, missing: Collection[str]) -> Any:
        """Return the cells as they were read, texts without outer white space, and null where one is missing.

        ``missing``: the spellings of a missing value; one that is a number stands for that number among numbers.
        """
        values, absent = self._marked(missing)
        return pa.compute.if_else(absent, pa.scalar(None, values.type), values)

    def _marked(self, missing: Collection[str]) -> tuple[Any, Any]:
        """Return the cells, texts without outer white space, and which of them are missing."""
        values = self.plain()
        if pa.types.is_string(values.type):
            values = asked = pa.compute.utf8_trim_whitespace(values)
            markers = pa.array(list(missing), pa.string())
        elif pa.types.is_boolean(values.type):
            return values, pa.compute.is_null(values)
        else:
            asked = pa.compute.cast(values, pa.float64(), safe=False)
            markers = pa.array([each for each in map(number_of, missing) if each is not None], pa.float64())
        return values, pa.compute.or_(pa.compute.is_null(values), pa.compute.is_in(asked, value_set=markers))

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
        kind = self.kind
        if not (is_text(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind)):
            raise TableError(
                f"{self.source}, column {self.name!r}: values of type {kind} do not say whose row it is. Give texts or "
                "whole numbers."
            )

    def plain(self) -> Any:
        """Return the values with dictionaries decoded and all kinds of text as one; refuse what is not a cell."""
        kind = self.kind
        values = pa.compute.cast(self.values, kind)  # decoded
        if is_text(kind) or pa.types.is_null(kind):
            return pa.compute.cast(values, pa.string())
        known = pa.types
        if known.is_boolean(kind) or known.is_integer(kind) or known.is_floating(kind) or known.is_decimal(kind):
            return values
        raise TableError(
            f"{self.source}, column {self.name!r}: values of type {kind} are neither numbers nor text. "
            + ('Give it type = "date"' if self.is_dated else "Convert the column before")
            + ', or type = "ignore" in the schema.'
        )

    def _texts_throughout(self, missing: Collection[str]) -> Any:
        """Return the numbers of texts that are all numbers, as most columns are; None of others."""
        # a marker that is a number itself is one with white space beside it too
        values = self.plain()
        if pa.types.is_string(values.type) and not values.null_count and set(map(number_of, missing)) <= {None}:
            with suppress(pa.ArrowInvalid):
                return pa.compute.cast(values, pa.float64())
        return None

    def _numbers_of(self, texts: Any, notation: NumberNotation | None) -> Any:
        read = texts
        if notation is not None:
            read = notation.plain(texts)
            if read.null_count:
                bad = np.flatnonzero(np.array(pa.compute.is_null(read)))
                raise self._bad_number(int(bad[0]), texts, notation)
        try:
            return pa.compute.cast(read, pa.float64())
        except pa.ArrowInvalid:
            row = next((row for row, text in enumerate(texts.to_pylist()) if number_of(text) is None), 0)
            raise self._bad_number(row, texts, notation) from None

    def _bad_number(self, row: int, texts: Any, notation: NumberNotation | None) -> TableError:
        text = texts[row].as_py()
        remedy = "Correct the cell, or list its text under missing in [table] of the schema."
        ways = [way for way in number_notations_of([text]) if way != notation]
        if ways:
            others, said = ((way or NumberNotation()).said() for way in (ways[0], notation))
            written = f"as {said} has it" if said else "with a decimal point"
            remedy = (
                f"Write numbers {written}, or {f'say {others} in' if others else f'take {said} out of'} the column's "
                "section of the schema if all are written so."
            )
        so = "" if notation is None else " as its section says that numbers are written"
        return self.error(row, f"{shown(text)} is not a number{so}", remedy)


def shown(text: str | None) -> str:
    """Return a cell as a message shows it: the middle of a long one is left out."""
    return _REPR.repr(text)


def is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def spell(value: object) -> str | None:
    """Return a value as a text of CSV has it."""
    if value is None:
        return None
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)


def number_of(text: str) -> float | None:
    """Return the number that a text spells, as cells are read: Python's own takes 1_000 and digits of any script."""
    try:
        return float(text) if text.isascii() and "_" not in text else None
    except ValueError:
        return None
