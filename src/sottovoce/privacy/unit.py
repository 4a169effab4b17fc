"""Whom a guarantee speaks of: one row, or one person with all their rows."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sottovoce._validation import refuse_masked, whole_number
from sottovoce.exceptions import DataError, ParameterError

__all__ = ["ROW_UNIT", "checked_max_rows", "kept_rows", "person_codes", "unit_of"]

ROW_UNIT: Final = "one row of the table, label included"
_MOST_ROWS: Final = 2**20  # of one person; sums of terms stay exact, and nobody has as many


def unit_of(max_rows_per_group: int | None) -> str:
    """Return the unit in words; None is one row."""
    if max_rows_per_group is None:
        return ROW_UNIT
    rows = "row is" if max_rows_per_group == 1 else "rows are"
    return f"one person: all rows of one group, of which at most {max_rows_per_group} {rows} used, labels included"


def checked_max_rows(value: object) -> int:
    """Return the public bound on the rows of a person, or refuse it."""
    remedy = (
        "It is the public number of rows that are used of one person; of those who have more, so many are drawn at "
        "random. Never compute it from the data."
    )
    return whole_number("max_rows_per_group", value, at_least=1, at_most=_MOST_ROWS, remedy=remedy)


def person_codes(groups: Any, n_samples: int) -> NDArray[np.int64]:
    """Return a number for the person of each row; -1 where there is none.

    Parameters
    ----------
    groups : array-like of shape (n_samples,)
        Private. Numbers or strings; None, NaN and NaT are missing.
    n_samples : int

    Raises
    ------
    ParameterError
        If there is not one for each row: that follows from shapes alone.
    DataError
        If they cannot be compared, or hide under a mask.
    """
    import pandas as pd

    shape = getattr(groups, "shape", (len(groups),) if hasattr(groups, "__len__") else ())
    if tuple(shape) != (n_samples,):
        raise ParameterError(f"groups must hold one person for each of {n_samples} rows; got the shape {tuple(shape)}.")
    refuse_masked("groups", groups)
    try:
        # a list of strings and a NaN is no array of strings: that NaN would be somebody's name
        codes, _ = pd.factorize(np.array(groups, object) if isinstance(groups, (list, tuple)) else groups)
    except TypeError as error:
        raise DataError(f"groups must hold numbers or strings, one for each row: {error}.") from error
    return np.asarray(codes, np.int64)


def kept_rows(codes: NDArray[np.int64], at_most: int, chance: np.random.Generator) -> NDArray[np.bool_]:
    """Return which rows are used: ``at_most`` of each person, drawn at random, and none without a person.

    Each row gets a coin of its own, whatever the other rows are, and a person keeps the rows of the smallest coins.
    """
    order = np.lexsort((chance.random(len(codes)), codes))
    ordered = codes[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(codes) else np.zeros(0, np.int64)
    place = np.arange(len(codes)) - np.repeat(starts, np.diff(np.r_[starts, len(codes)]))
    kept = np.empty(len(codes), bool)
    kept[order] = (place < at_most) & (ordered >= 0)
    return kept
