"""Weights of rows: public ones by class, and private ones within a public bound."""

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sottovoce._entries import entries, numbers_of
from sottovoce._numerics import Vector
from sottovoce._validation import number
from sottovoce.exceptions import DataError, ParameterError

__all__ = ["checked_class_weights", "checked_sample_weights", "largest_weight", "weight_of_one"]

_LEAST, _MOST = 1e-6, 1e6  # that a bound may be: weights beyond hide all other rows, or none
_NEGLIGIBLE: Final = 1e-100  # of the largest weight: less is 0, and quotients by weights cannot overflow


def checked_class_weights(given: object, classes: NDArray[Any] | None) -> dict[Any, float] | None:
    """Return the weight of each class by its name, checked, in the order of ``classes`` where these are known.

    Names are compared as the classes are written: ``"1"``, which is what a model file makes of a key 1, is the class 1.
    Raises ParameterError if they are none, or not for just these classes.
    """
    if given is None:
        return None
    if isinstance(given, str) and given == "balanced":
        raise ParameterError(
            "class_weight='balanced' would count the rows of each class, which is a question about the data that costs "
            "budget. Give public weights: class_weight={'no': 1.0, 'yes': 3.0}."
        )
    if not isinstance(given, Mapping) or not given:
        raise ParameterError(f"class_weight must be a dict from classes to public weights, or None; got {given!r}.")
    weights = {name: number(f"class_weight[{name!r}]", weight, at_least=0.0) for name, weight in given.items()}
    if not _LEAST <= max(weights.values()) <= _MOST:
        raise ParameterError(
            f"the largest weight of class_weight must be within [{_LEAST:g}, {_MOST:g}]; got {dict(given)!r}."
        )
    if classes is None:
        return weights
    by_name = {_plain_name(name, classes): weight for name, weight in weights.items()}
    names = [_plain_name(name, classes) for name in classes]
    if len(by_name) != len(weights) or set(by_name) != set(names):
        raise ParameterError(
            f"class_weight must have one weight for each class, 1 where a class is to count as it is: the classes are "
            f"{classes.tolist()!r}; got {dict(given)!r}."
        )
    return {name: by_name[key] for name, key in zip(classes.tolist(), names, strict=True)}


def largest_weight(by_class: Mapping[Any, float] | None, max_sample_weight: object) -> float | None:
    """Return the public bound on the weight of a row, the product of both; None where neither is given."""
    if by_class is None and max_sample_weight is None:
        return None
    most = 1.0 if max_sample_weight is None else _checked_bound(max_sample_weight)
    return most if by_class is None else most * max(by_class.values())


def checked_sample_weights(given: Any, n_samples: int, max_sample_weight: object) -> Vector:
    """Return private weights over their public bound: those beyond are clipped to it, negative ones to 0.

    A refusal of those beyond would answer an exact question about them, for an analyst who chooses the bound. Raises
    DataError if one of them is no finite number.
    """
    most = _checked_bound(max_sample_weight)
    values = numbers_of(entries(given) if len(getattr(given, "shape", (0,))) == 1 else np.asarray(given))
    if values.shape != (n_samples,):
        raise DataError(f"sample_weight must hold one number for each of {n_samples} rows; got {values.shape}.")
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        what = "NaN, or what is no number" if math.isnan(values[bad[0]]) else "infinity"
        raise DataError(
            f"Input sample_weight contains {what}: row {int(bad[0])} ({bad.size} row(s) in all). Replace missing "
            "weights by a public constant before fit."
        )
    return without_negligible(np.clip(values, 0.0, most) / most)


def weight_of_one(max_sample_weight: object) -> float:
    """Return what a row of weight 1 has over the public bound."""
    most = _checked_bound(max_sample_weight)
    return min(1.0, most) / most


def without_negligible(shares: Vector) -> Vector:
    """Return the shares of the largest weight with those that are next to nothing made 0."""
    return np.where(shares < _NEGLIGIBLE, 0.0, shares)


def _checked_bound(given: object) -> float:
    remedy = "It is a public bound on a row's weight; never compute it from the data. Larger weights are clipped to it."
    return number("max_sample_weight", given, at_least=_LEAST, at_most=_MOST, remedy=remedy)


def _plain_name(name: Any, classes: NDArray[Any]) -> object:
    """Return a class or a key as what it is compared by."""
    if classes.dtype.kind not in "iuf":
        return str(name)
    try:
        return float(name)
    except (TypeError, ValueError):
        return str(name)
