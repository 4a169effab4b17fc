"""Tables of numbers, as users give them: columns that hold something else are named, and no cell is ever shown."""

import re
from collections.abc import Iterator, Mapping
from collections.abc import Set as AnySet
from contextlib import contextmanager
from itertools import chain
from os import PathLike
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sottovoce._entries import TIMES, numbers_of
from sottovoce.exceptions import DataError

# names of types in numpy, pandas, polars and Arrow
_NUMBER: Final = re.compile(r"(sparse\[)?(u?int\d|float|halffloat|double|bool|decimal|null)", re.IGNORECASE)
_NO_TABLE: Final = "X must be a table: rows of one length, with one value in each column."
_LATER: Final = {"LazyFrame": "X.collect()", "DuckDBPyRelation": "X.df()"}  # queries, which hold no rows yet
_READ_AS_NUMBER: Final = re.compile(r"date|time|duration|complex", re.IGNORECASE)


class _CellError(DataError, TypeError):
    """Of cells, which scikit-learn refuses so, and with these words."""


def refuse_by_type(X: Any) -> None:
    """Refuse names that two columns have, and times and complex numbers, which numpy would read as numbers."""
    refuse_same_names(X)
    kinds = [getattr(X, "dtype", None), *(kind for _, kind in typed_columns(X))]
    if any(_READ_AS_NUMBER.search(str(kind)) for kind in kinds):
        refuse_texts(X)


def refuse_no_table(X: Any) -> None:
    """Refuse, by its type alone, what holds no rows, or holds them in a way that numpy cannot read as a table."""
    kind, remedy = type(X).__name__, None
    if getattr(getattr(X, "dtype", None), "names", None):
        kind, remedy = "a structured array", "numpy.lib.recfunctions.structured_to_unstructured(X)"
    elif kind in _LATER:
        remedy = _LATER[kind]
    elif isinstance(X, Mapping) and not hasattr(X, "shape"):  # a sparse matrix by its keys is one, too
        remedy = "pandas.DataFrame(X)"
    elif isinstance(X, (str, PathLike)):
        remedy = "the rows of the file, as pandas.read_csv returns them"
    elif isinstance(X, AnySet) or not any(hasattr(X, name) for name in ("__len__", "shape", "__array__")):
        remedy = "an array, a data frame or a list of rows"
    if remedy:
        raise DataError(f"{_NO_TABLE} Got {kind}; give {remedy}.")


@contextmanager
def one_dimension_refused() -> Iterator[None]:
    """Tell what scikit-learn refuses for its dimension without the cells, which it repeats."""
    try:
        yield
    except ValueError as error:
        if not str(error).startswith("Expected 2D"):
            raise
        raise DataError(f"{_NO_TABLE} Reshape your data: X.reshape(-1, 1) is one column.") from None


def refuse_by_cell(X: Any) -> None:
    """Refuse days and durations of numpy among objects, which it reads as numbers too: a fit has paid for this look."""
    objects = [X[name] for name, kind in typed_columns(X) if str(kind).lower() == "object"]
    if str(getattr(X, "dtype", "")) == "object" or isinstance(X, (list, tuple)):
        objects = [as_array(X, object).ravel()]
    if any(issubclass(kind, TIMES) for kind in set(map(type, chain(*objects)))):
        refuse_texts(X, by_cell=True)


def refuse_same_names(X: Any) -> None:
    """Refuse a data frame with two columns of one name."""
    names = [name for name, _ in typed_columns(X)]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"X has {names.count(twice)} columns named {twice!r}. Give each column a name of its own.")


def refuse_texts(X: Any, *, by_cell: bool = False) -> None:
    """Refuse a table with columns whose type is no number; where columns have no types, by their cells if at all."""
    typed, dtype = typed_columns(X), getattr(X, "dtype", np.dtype(object))
    letter = getattr(dtype, "kind", "")
    by_cell = by_cell and not typed and letter == "O"
    suspects = [(repr(name), str(kind)) for name, kind in typed if not _NUMBER.match(str(kind))]
    if letter in tuple("SUMmc"):
        suspects = [("all", str(dtype))]
    elif by_cell:
        suspects = list(_other_cells(X))
    if suspects:
        raise (_CellError if by_cell else DataError)(
            f"X has columns whose type is no number: {', '.join(f'{name} ({kind})' for name, kind in suspects)}. "
            "sottovoce.SchemaEncoder makes numbers of texts and dates by public rules (categories and bounds that you "
            "give, not counted ones); or leave the columns out."
            f"{' Complex data not supported.' * any('complex' in kind for _, kind in suspects)}"
            f"{' The argument must be a string or a number.' * by_cell}"
        ) from None


def as_array(X: Any, dtype: Any = None) -> NDArray[Any]:
    """Return lists of rows as an array, or refuse rows of several lengths and cells that hold several values."""
    try:
        array = np.asarray(X, dtype)
    except ValueError:
        raise DataError(_NO_TABLE) from None
    if (
        array.ndim == 1
        and isinstance(X, (list, tuple))
        and any(isinstance(row, (list, tuple, Mapping)) for row in array)
    ):
        raise DataError(_NO_TABLE)  # objects can be lists
    return array


def typed_columns(X: Any) -> list[tuple[Any, Any]]:
    """Return name and type of each column of a data frame of pandas, polars or Arrow; none of anything else."""
    if type(X).__name__ in _LATER:
        return []
    if hasattr(X, "schema") and hasattr(X, "column_names"):
        return list(zip(X.column_names, X.schema.types, strict=True))
    names = getattr(X, "columns", None)
    return [] if names is None or not hasattr(X, "dtypes") else list(zip(names, X.dtypes, strict=True))


def _other_cells(X: Any) -> Iterator[tuple[str, str]]:
    """Go through the columns that hold what is no number: the place of each, and types of such cells."""
    cells = as_array(X, object)
    for place, column in enumerate(cells.T if cells.ndim == 2 else ()):
        odd = [cell for cell in column[np.isnan(numbers_of(column))] if not isinstance(cell, (float, np.floating))]
        if kinds := {type(cell).__name__ for cell in odd if cell is not None}:
            yield str(place), " or ".join(sorted(kinds))
