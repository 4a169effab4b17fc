"""The canonical form of identifiers: one text a row, the same for every type a party may hold them in.

=====================================  =================================================
given                                  canonical
=====================================  =================================================
text                                   itself: not trimmed, case and zeros kept
bytes                                  their UTF-8 text
a whole number of any width            its digits: 17 is ``"17"``, and so is not ``"017"``
a float without a fraction             that whole number: 17.0 is ``"17"``
None, NaN, NaT, pandas.NA, ``""``      missing
=====================================  =================================================

pandas makes floats of whole numbers when a cell is empty; that is why floats are read at all. Those of 2**53 and above
are refused: they may have been rounded, to the number of another person. Everything else (booleans, dates, lists) is
refused with its position. No message holds an identifier.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from sottovoce._entries import entries, is_missing
from sottovoce._optional import loaded, pa
from sottovoce.exceptions import DataError, ParameterError

_TEXT: Final = "large_string"
_ARROW_READS_WHOLE: Final = (str, bytes, (int, np.integer))  # of objects of one kind
_AS_TEXT: Final = "Give text or whole numbers."
_UNICODE: Final = "is not a valid Unicode text. Decode it before, or give it in hexadecimal digits."


def canonical_identifiers(name: str, identifiers: object) -> Any:
    """Return the identifiers of one party in canonical form: Arrow's large strings, null where one is missing.

    They are a list or tuple, a numpy array (masked ones too), a pandas Series, Index or array, an Arrow array, or
    anything that hands itself over as one Arrow column (a polars Series). ``name`` is what they were given as: a
    `DataError` about an entry that cannot be an identifier names its position, ``name[row]``, and its type, never the
    entry.
    """
    texts = _texts(name, _column(name, identifiers))
    return pa.compute.if_else(pa.compute.equal(texts, ""), pa.scalar(None, _TEXT), texts)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class UsableIdentifiers:
    """The identifiers that one party can be aligned by: present and not repeated."""

    texts: Any  # in canonical form. Private.
    rows: npt.NDArray[np.int64]  # the row of each. Private.
    # all rows, those without an identifier, and those whose identifier stands in another row too: for the eyes of the
    # party
    n_rows: int
    missing: int
    repeated: int
    shared: int  # identifiers that repeat

    def rows_of(self, people: Any) -> npt.NDArray[np.int64] | None:
        """Return the rows of these people, texts in a list or in canonical form; None if it lacks one."""
        texts = people if isinstance(people, pa.Array) else pa.array(people, _TEXT)
        places = pa.compute.index_in(texts, value_set=self.texts)
        return None if places.null_count else self.rows[places.to_numpy(zero_copy_only=False)]

    def remarks(self) -> list[str]:
        """Return, in words for the owner, which rows no alignment can take; empty if it can take all."""
        found = [f"{self.missing:,} of {self.n_rows:,} rows have no identifier"] if self.missing else []
        if self.repeated:
            found.append(
                f"{self.repeated:,} of {self.n_rows:,} rows share {self.shared:,} identifier(s); a person has one row"
            )
        return [f"{each}: every alignment leaves them out." for each in found]


def usable_identifiers(name: str, identifiers: object) -> UsableIdentifiers:
    """Return those identifiers of one party that stand in one row; see `canonical_identifiers`."""
    texts = canonical_identifiers(name, identifiers)
    coded = texts.dictionary_encode()
    codes = coded.indices.fill_null(-1).to_numpy().astype(np.int64)
    uses = np.append(np.bincount(codes[codes >= 0], minlength=len(coded.dictionary)), 0)  # the last is for -1
    rows = np.flatnonzero(uses[codes] == 1)
    repeated, shared = int((uses[codes] > 1).sum()), int((uses > 1).sum())
    return UsableIdentifiers(texts.take(rows), rows, len(texts), int(texts.null_count), repeated, shared)


# The errors of other libraries quote the data: they are suppressed before our own is raised, or it would show them as
# its context.


def _column(name: str, given: Any) -> Any:
    """Return the identifiers as an Arrow array of whatever type comes first."""
    shape = getattr(given, "shape", None)
    if shape is not None and len(shape) != 1:
        raise ParameterError(f"{name} must have one dimension, one identifier a row; got the shape {tuple(shape)}.")
    if isinstance(given, pa.Array):
        return given
    if isinstance(given, pa.ChunkedArray):
        return given.combine_chunks()
    pandas = loaded("pandas")
    own = () if pandas is None else (pandas.Series, pandas.Index, pandas.api.extensions.ExtensionArray)
    if isinstance(given, (np.ndarray, *own)):
        return _from_numpy(name, entries(given, name))
    if hasattr(given, "__arrow_c_stream__"):
        with suppress(Exception):  # whatever the other library raises
            return pa.chunked_array(given).combine_chunks()
    if isinstance(given, Sequence) and not isinstance(given, (str, bytes, bytearray, memoryview)):
        return _from_objects(name, given)
    raise ParameterError(
        f"{name} must be a list or an array with one identifier a row; got an object of type {type(given).__name__}."
    )


def _from_numpy(name: str, values: npt.NDArray[Any]) -> Any:
    kind, width = values.dtype.kind, values.dtype.itemsize
    if kind in "iuSU" or (kind == "f" and width <= 8):
        with suppress(UnicodeError):  # the slow way tells the row
            return pa.array(values.astype(values.dtype.newbyteorder("="), copy=False), from_pandas=True)
    return _from_objects(name, values)


def _from_objects(name: str, values: Any) -> Any:
    """Return the column of a list or of an array of objects: of one kind at once, else one after the other."""
    # neither numpy.array nor astype: they make one type of [1, "a"] or [True, 2], and numbers of dates
    objects = np.fromiter(values, dtype=object, count=len(values))
    if _is_of_one_kind(objects):
        # the slow way tells the row, or knows the number
        with suppress(UnicodeError, OverflowError, pa.ArrowException):
            return pa.array(objects, from_pandas=True)
    return _one_by_one(name, objects)


def _is_of_one_kind(objects: npt.NDArray[np.object_]) -> bool:
    kinds = {type(value) for value in objects if not is_missing(value)}
    if not kinds or bool in kinds:
        return False
    return any(all(issubclass(kind, one) for kind in kinds) for one in _ARROW_READS_WHOLE)


def _one_by_one(name: str, values: Iterable[object]) -> Any:
    return pa.array([_text(name, row, value) for row, value in enumerate(values)], _TEXT)


def _text(name: str, row: int, value: Any) -> str | None:
    """Return the canonical form of one object, None for a missing one."""
    if is_missing(value):
        return None
    if isinstance(value, (str, bytes)):
        try:
            text = value.decode() if isinstance(value, bytes) else str(value)
            text.encode()  # lone surrogates have no bytes
        except UnicodeError:
            raise DataError(f"{name}[{row}] {_UNICODE}") from None
        return text
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        if int(value).bit_length() > 1024:
            raise DataError(f"{name}[{row}] is a number of more than 1024 bits. {_AS_TEXT}")
        return str(int(value))
    if isinstance(value, (float, np.floating)):
        bits = np.finfo(type(value)).nmant + 1
        if not (np.abs(value) < 2.0**bits and value == np.floor(value)):
            raise _not_whole(name, row, bits)
        return str(int(value))
    raise DataError(f"{name}[{row}] is of type {type(value).__name__}, which identifies nobody. {_AS_TEXT}")


def _texts(name: str, column: Any) -> Any:
    """Return an Arrow array as text, null where missing."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        words = column.dictionary
        return _texts(name, (_texts(name, words) if _is_text(words.type) else words).take(column.indices))
    if pa.types.is_floating(kind):
        return _texts_of_floats(name, column, {16: 11, 32: 24, 64: 53}[kind.bit_width])
    if pa.types.is_integer(kind) or pa.types.is_null(kind):
        return column.cast(_TEXT)
    if _is_text(kind) or _is_binary(kind):
        with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return (column.cast(pa.large_binary()) if _is_binary(kind) else column).cast(_TEXT)
        return _one_by_one(name, column.to_pylist())  # tells the row that is not UTF-8; views, in older Arrow
    row = pa.compute.index(column.is_valid(), True).as_py()
    if row >= 0:
        raise DataError(f"{name}[{row}] is of type {kind}, which identifies nobody. {_AS_TEXT}")
    return pa.nulls(len(column), _TEXT)


def _texts_of_floats(name: str, column: Any, bits: int) -> Any:
    values = column.to_numpy(zero_copy_only=False).astype(np.float64)
    missing = np.isnan(values)
    whole = (np.abs(values) < 2.0**bits) & (values == np.floor(values))
    fits = missing | whole
    if not fits.all():
        raise _not_whole(name, int(np.argmin(fits)), bits)
    return pa.array(np.where(missing, 0.0, values).astype(np.int64), mask=missing).cast(_TEXT)


def _not_whole(name: str, row: int, bits: int) -> DataError:
    return DataError(
        f"{name}[{row}] is a float, and no whole number below 2**{bits}: it has a fraction, is infinite, or may have "
        "been rounded to the number of another person. Read the column as text or as whole numbers (pandas: "
        'dtype="Int64").'
    )


def _is_text(kind: Any) -> bool:
    return any(test(kind) for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view))


def _is_binary(kind: Any) -> bool:
    tests = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary)
    return any(test(kind) for test in tests)
