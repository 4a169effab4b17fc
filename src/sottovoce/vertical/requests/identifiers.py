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
_AS_TEXT: Final = "Give text or whole numbers."


def canonical_identifiers(name: str, identifiers: object) -> Any:
    """Return the identifiers of one party in canonical form: Arrow's large strings, null where one is missing.

    They are a list or tuple, a numpy array (masked ones too), a pandas Series, Index or array, an Arrow array, or
    anything that hands itself over as one Arrow column (a polars Series). ``name`` is what they were given as: a
    `DataError` about an entry that cannot be an identifier names its position, ``name[row]``, and its type, never the
    entry.
    """
    return pa.array([_text(name, row, value) for row, value in enumerate(_listed(name, identifiers))], _TEXT)


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


def _listed(name: str, given: Any) -> Iterable[Any]:
    """Return the identifiers one by one, in whatever type they come; None where an array misses one."""
    shape = getattr(given, "shape", None)
    if shape is not None and len(shape) != 1:
        raise ParameterError(f"{name} must have one dimension, one identifier a row; got the shape {tuple(shape)}.")
    pandas = loaded("pandas")
    own = () if pandas is None else (pandas.Series, pandas.Index, pandas.api.extensions.ExtensionArray)
    if isinstance(given, (np.ndarray, *own)):
        return _of(entries(given, name))
    if not isinstance(given, (pa.Array, pa.ChunkedArray)) and hasattr(given, "__arrow_c_stream__"):
        with suppress(Exception):  # whatever the other library raises
            given = pa.chunked_array(given)
    if isinstance(given, (pa.Array, pa.ChunkedArray)):
        kind = given.type.value_type if pa.types.is_dictionary(given.type) else given.type
        return _of(np.asarray(given.cast(kind))) if pa.types.is_floating(kind) else list(given.to_pylist())
    if isinstance(given, Sequence) and not isinstance(given, (str, bytes, bytearray, memoryview)):
        return given
    raise ParameterError(
        f"{name} must be a list or an array with one identifier a row; got an object of type {type(given).__name__}."
    )


def _of(values: npt.NDArray[Any]) -> Iterable[Any]:
    """Return entries; no float becomes a wider one, because how far its whole numbers go is part of its type."""
    return values.tolist() if values.dtype.kind in "iuSU" or values.dtype == np.float64 else values


def _text(name: str, row: int, value: Any) -> str | None:
    """Return the canonical form of one object, None for a missing one."""
    if isinstance(value, (str, bytes)):
        try:
            text = value.decode() if isinstance(value, bytes) else str(value)
            text.encode()  # lone surrogates have no bytes
        except UnicodeError:
            raise DataError(
                f"{name}[{row}] is not a valid Unicode text. Decode it before, or give it in hexadecimal digits."
            ) from None
        return text or None
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        if int(value).bit_length() > 1024:
            raise DataError(f"{name}[{row}] is a number of more than 1024 bits. {_AS_TEXT}")
        return str(int(value))
    if is_missing(value):
        return None
    if isinstance(value, (float, np.floating)):
        number: Any = value
        bits = 53 if isinstance(value, float) else np.finfo(type(value)).nmant + 1
        if not (abs(number) < 2.0**bits and number % 1 == 0):
            raise DataError(
                f"{name}[{row}] is a float, and no whole number below 2**{bits}: it has a fraction, is infinite, or "
                "may have been rounded to the number of another person. Read the column as text or as whole numbers "
                '(pandas: dtype="Int64").'
            )
        return str(int(number))
    raise DataError(f"{name}[{row}] is of type {type(value).__name__}, which identifies nobody. {_AS_TEXT}")
