"""One value a row, as users give them: read entry by entry, so that nothing read of one depends on another.

``numpy.asarray`` finds one type for all that a list or a nullable column holds: one missing name makes doubles of all
names, and one text makes texts of all labels. That changes what is read of everybody because of one person's entry,
which no sensitivity covers. Here the type of the container decides, or nothing but the entry itself.
"""

from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AnySet
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce._numerics import Vector
from sottovoce._optional import loaded
from sottovoce.exceptions import DataError, ParameterError

TIMES = (np.datetime64, np.timedelta64)  # numpy makes numbers of them, of days or of nanoseconds


def entries(given: Any, name: str = "y") -> NDArray[Any]:
    """Return one value a row as an array of its own type, or of objects, among which None is missing.

    An array of numpy without a mask keeps its type. All that can hold several kinds of entries, or miss some, becomes
    objects whether it does or not: lists, masked arrays, extension types of pandas, Arrow, polars. What Dask has is
    computed. Raises DataError if it is no column; that follows from its shape.
    """
    if hasattr(given, "compute"):
        given = given.compute()
    pandas = loaded("pandas")
    if pandas is not None:
        if isinstance(given, pandas.DataFrame) and given.shape[1] == 1:
            given = given.iloc[:, 0]
        if isinstance(given, (pandas.Series, pandas.Index)):
            given = given.array if pandas.api.types.is_extension_array_dtype(given.dtype) else given.to_numpy()
        if isinstance(given, pandas.Categorical):  # its own conversion makes doubles of whole numbers where some miss
            kinds = np.array([*entries(given.categories), None], object)
            return np.asarray(kinds[given.codes])
        if isinstance(given, pandas.api.extensions.ExtensionArray):
            return _hidden(given.to_numpy(dtype=object), given.isna())
    if isinstance(given, np.ma.MaskedArray):
        given = _hidden(np.asarray(given).astype(object), np.ma.getmaskarray(given))
    elif hasattr(given, "to_pylist"):  # Arrow
        given = given.to_pylist()
    elif hasattr(given, "to_list"):  # polars
        given = given.to_list()
    refuse_no_column(given, name)
    if isinstance(given, Collection) and not (hasattr(given, "__array__") or isinstance(given, (str, bytes))):
        given = np.fromiter(given, object, len(given))
    array: NDArray[Any] = np.asarray(given)
    if array.dtype.kind == "T":  # texts of variable length, some of which may be missing
        array = array.astype(object)
    if array.ndim == 1:
        return array
    from sklearn.utils.validation import column_or_1d

    try:
        return np.asarray(column_or_1d(array, warn=True))
    except ValueError as error:
        raise DataError(str(error)) from None


def refuse_no_column(given: Any, name: str) -> None:
    """Refuse, by its type alone, what is no column, and an array of what is neither number nor text, date or object."""
    many = any(hasattr(given, known) for known in ("__len__", "__array__", "compute"))
    one = getattr(given, "ndim", 1) == 0 or not many
    if one or isinstance(given, (Mapping, AnySet, str, bytes)):
        raise DataError(f"{name} must be a list, a column or an array, one entry a row; got {type(given).__name__}.")
    if getattr(getattr(given, "dtype", None), "kind", "") in ("c", "V"):
        raise ParameterError(f"{name} must hold numbers or strings, one for each row; got an array of {given.dtype}.")


def _hidden(values: NDArray[Any], where: NDArray[np.bool_]) -> NDArray[Any]:
    kept = values.copy()
    kept[where] = None
    return kept


def is_missing(value: Any) -> bool:
    """Tell whether an entry is None, NaN, NaT, pandas.NA or masked."""
    if value is None or value is np.ma.masked:
        return True
    if isinstance(value, (float, np.floating)):
        return bool(np.isnan(value))
    if isinstance(value, TIMES):
        return bool(np.isnat(value))
    pandas = loaded("pandas")
    return pandas is not None and (value is pandas.NA or value is pandas.NaT)


def numbers_of(values: NDArray[Any]) -> Vector:
    """Return entries of any shape as doubles; NaN where one is no number or beyond the doubles."""
    if values.dtype.kind in "biuf":
        with np.errstate(over="ignore"):
            return values.astype(np.float64)
    numbers = np.full(values.size, np.nan)
    for place, entry in enumerate(values.ravel().tolist() if values.dtype.kind in "OSU" else ()):
        with suppress(Exception):  # of whatever kind somebody else's cell raises: a refusal would tell of it
            numbers[place] = np.nan if isinstance(entry, TIMES) else float(entry)
    return numbers.reshape(values.shape)


def places_in(classes: Iterable[Any], values: NDArray[Any]) -> NDArray[np.int64]:
    """Return the place of each entry in a list of classes; -1 where it is none of them."""
    places = {label: place for place, label in enumerate(classes)}
    found = np.full(len(values), -1, np.int64)
    for row, label in enumerate(values.tolist()):
        with suppress(Exception):  # what is no key is no label: a list, a duration of numpy
            found[row] = places.get(label, -1)
    return found


def listed(classes: Iterable[Any]) -> NDArray[Any]:
    """Return classes in their order, as an array.

    Raises TypeError or ValueError if one type cannot hold them as they are: texts among numbers, or whole numbers that
    a double rounds; or if they read back from a receipt as another type, as whole numbers from 2^63 on.
    """
    given = list(classes)
    made = np.asarray(given)
    if made.dtype.kind == "u" and made.max(initial=0) >= 2**63:
        raise ValueError("classes beyond whole numbers of 64 bits with a sign")
    if made.ndim != 1 or any(a != b for a, b in zip(made.tolist(), given, strict=True)):
        raise ValueError("classes of several types")
    return made
