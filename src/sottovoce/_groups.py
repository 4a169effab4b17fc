"""Which rows belong to one person, and which of them are used."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce._entries import entries
from sottovoce._warnings import warn_of_privacy
from sottovoce.exceptions import ParameterError


def person_codes(groups: Any, n_samples: int) -> NDArray[np.int64]:
    """Return a number for the person of each row; -1 where there is none.

    Raises ParameterError if there is not one for each row, or an array is of a type that names nobody: that follows
    from public facts.

    ``groups``: of shape (n_samples,); private. Numbers, strings, whatever can be a key; None, NaN, NaT and what a mask
        hides are missing. So is, each by itself, what cannot be a name: what is no key, such as a list, and a
        floating-point number that may have been rounded to another person's (2^53 and more in double precision). A
        refusal would answer a question about it.
    """
    shape = getattr(groups, "shape", (0,))
    names = entries(groups, "groups") if len(shape) == 1 else np.empty(shape)
    if names.shape != (n_samples,):
        raise ParameterError(f"groups must hold one person for each of {n_samples} rows; got the shape {names.shape}.")
    if names.dtype.kind == "f":
        warn_of_privacy(
            f"groups is an array of {names.dtype.name}: a number of {_first_rounded(names.dtype):g} or more may have "
            "been rounded and is nobody's name, so that its row is not used. If there can be such names, read them as "
            'text or as whole numbers (pandas: dtype="Int64").'
        )
    return _codes(names)


def _codes(groups: NDArray[Any]) -> NDArray[np.int64]:
    """Return numbers in the order of first appearance."""
    codes = np.full(len(groups), -1, np.int64)
    if groups.dtype.kind == "O":
        numbers: dict[Any, int] = {}
        for row, person in enumerate(groups.tolist()):
            if _is_name(person):
                codes[row] = numbers.setdefault(person, len(numbers))
        return codes
    if groups.dtype.kind == "f":
        there = np.flatnonzero(np.abs(groups) < _first_rounded(groups.dtype))
    else:
        there = np.flatnonzero(groups == groups)  # not NaT
    _, first, found = np.unique(groups[there], return_index=True, return_inverse=True)
    places = np.empty(len(first), np.int64)
    places[np.argsort(first)] = np.arange(len(first))
    codes[there] = places[found]
    return codes


def _is_name(person: Any) -> bool:
    if isinstance(person, (float, np.floating)):
        kind = type(person) if isinstance(person, np.floating) else float  # also of classes that are derived from it
        return bool(np.abs(person) < _first_rounded(kind))
    try:
        return person is not None and hash(person) is not None and bool(person == person)  # not NaT
    except Exception:  # pandas.NA, which has no truth, and whatever is no key: nobody, as a refusal would tell of it
        return False


def _first_rounded(kind: Any) -> float:
    return float(2.0 ** (np.finfo(kind).nmant + 1))


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
