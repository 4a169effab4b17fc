"""Which rows belong to one person, and which of them are used."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce._validation import refuse_masked
from sottovoce.exceptions import DataError, ParameterError

__all__ = ["kept_rows", "person_codes", "rows_by_person"]


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
    shape = getattr(groups, "shape", (len(groups),) if hasattr(groups, "__len__") else ())
    if tuple(shape) != (n_samples,):
        raise ParameterError(f"groups must hold one person for each of {n_samples} rows; got the shape {tuple(shape)}.")
    refuse_masked("groups", groups)
    try:
        # a list of strings and a NaN is no array of strings: that NaN would be somebody's name
        return _codes(np.array(groups, object) if isinstance(groups, (list, tuple)) else np.asarray(groups))
    except TypeError as error:
        raise DataError(f"groups must hold numbers or strings, one for each row: {error}.") from error


def _codes(groups: NDArray[Any]) -> NDArray[np.int64]:
    """Return numbers in the order of first appearance."""
    codes = np.full(len(groups), -1, np.int64)
    if groups.dtype.kind == "O":
        numbers: dict[Any, int] = {}
        for row, person in enumerate(groups.tolist()):
            if not _is_missing(person):
                codes[row] = numbers.setdefault(person, len(numbers))
        return codes
    there = np.flatnonzero(~(np.isnat(groups) if groups.dtype.kind in "mM" else groups != groups))
    _, first, found = np.unique(groups[there], return_index=True, return_inverse=True)
    places = np.empty(len(first), np.int64)
    places[np.argsort(first)] = np.arange(len(first))
    codes[there] = places[found]
    return codes


def _is_missing(person: Any) -> bool:
    try:
        return person is None or bool(person != person)  # NaN and NaT
    except TypeError:  # pandas.NA, which has no truth
        return True


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


def rows_by_person(
    codes: NDArray[np.int64], at_most: int, chance: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """Return the places of the rows that `kept_rows` keeps, person after person, and where each person begins.

    The second ends with the number of rows: person p has the rows ``places[starts[p]:starts[p + 1]]``.
    """
    places = np.flatnonzero(kept_rows(codes, at_most, chance))
    places = places[np.argsort(codes[places], kind="stable")]
    ordered = codes[places]
    first = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(places) else np.zeros(0, np.int64)
    return places, np.append(first, len(places)).astype(np.int64)
