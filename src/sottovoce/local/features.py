"""The features of a protocol: what one value of a record becomes, by public facts alone, on the device.

Every feature fills its columns with numbers whose squares add up to at most 1, so the norm of a whole row is at most
the square root of the number of features, whatever the record.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from numbers import Real
from typing import Any, ClassVar, Final

from sottovoce._validation import in_order, number
from sottovoce.exceptions import DataError, ParameterError

_MOST_TEXT: Final = 1000


@dataclass(frozen=True)
class NumericFeature:
    """A number between public bounds, scaled to [-1, 1].

    A value beyond a bound is moved to the bound.

    Parameters
    ----------
    name : str
    low, high : float
        Public bounds, low < high.
    missing : bool, default=False
        True adds a column that is 1 where the value is missing (None or NaN), and the number's own column is 0 there.
        False refuses a record whose value is missing; then no report is sent, which whoever waits for it may notice.
    """

    kind: ClassVar[str] = "numeric"

    name: str
    low: float
    high: float
    missing: bool = False

    def __post_init__(self) -> None:
        _check(self.name, self.missing)
        low = number(f"low of feature {self.name!r}", self.low) + 0.0  # no negative zero
        high = number(f"high of feature {self.name!r}", self.high) + 0.0
        if not (low < high and math.isfinite(high - low) and math.isfinite(high + low) and high - low > 0.0):
            raise ParameterError(f"feature {self.name!r} must have bounds low < high; got {low!r} and {high!r}.")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that this feature fills."""
        return (self.name, f"{self.name}=missing") if self.missing else (self.name,)

    def encode(self, value: object) -> tuple[tuple[int, float], ...]:
        """Return (column, number) pairs of the columns that are not 0."""
        if value is None or (isinstance(value, Real) and value != value):
            if self.missing:
                return ((1, 1.0),)
            raise DataError(
                f"feature {self.name!r} is missing. Give a number, or declare the feature with missing=True."
            )
        if isinstance(value, bool) or not isinstance(value, Real):
            raise DataError(f"feature {self.name!r} must be a number; got {value!r}.")
        return ((0, scaled(value, self.low, self.high)),)

    def to_json(self) -> dict[str, Any]:
        """Return the feature as an object of the protocol's text."""
        return {"type": self.kind, **vars(self)}


@dataclass(frozen=True)
class CategoricalFeature:
    """One of a public list of categories, encoded as one column a category, of which one is 1.

    A value that is not in the list is 0 in all columns: it counts as none of the categories.

    Parameters
    ----------
    name : str
    categories : sequence of str
        Public.
    missing : bool, default=False
        True adds a column that is 1 where the value is missing (None, NaN or an empty text). False refuses a record
        whose value is missing, as for `NumericFeature`.
    """

    kind: ClassVar[str] = "categorical"

    name: str
    categories: tuple[str, ...]
    missing: bool = False

    def __post_init__(self) -> None:
        _check(self.name, self.missing)
        listed = in_order(f"categories of feature {self.name!r}", self.categories, "a list of texts")
        object.__setattr__(self, "categories", listed)
        for category in self.categories:
            _check_text(f"category of feature {self.name!r}", category)
        if not self.categories or len(set(self.categories)) < len(self.categories):
            raise ParameterError(f"categories of feature {self.name!r} must be one or more different texts.")

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that this feature fills."""
        names = tuple(f"{self.name}={category}" for category in self.categories)
        return (*names, f"{self.name}=missing") if self.missing else names

    def encode(self, value: object) -> tuple[tuple[int, float], ...]:
        """Return (column, number) pairs of the columns that are not 0."""
        if value is None or (isinstance(value, str) and value == "") or (isinstance(value, Real) and value != value):
            if self.missing:
                return ((len(self.categories), 1.0),)
            raise DataError(f"feature {self.name!r} is missing. Give a category, or declare it with missing=True.")
        if not isinstance(value, str):
            raise DataError(f"feature {self.name!r} must be a text; got {value!r}. Its categories are texts.")
        return ((self.categories.index(value), 1.0),) if value in self.categories else ()

    def to_json(self) -> dict[str, Any]:
        """Return the feature as an object of the protocol's text."""
        return {"type": self.kind, **vars(self)}


Feature = NumericFeature | CategoricalFeature

_KINDS: Final[dict[str, type[Feature]]] = {kind.kind: kind for kind in (NumericFeature, CategoricalFeature)}


def feature_from_json(entry: object) -> Feature:
    name = entry.get("type") if isinstance(entry, Mapping) else None
    if not isinstance(entry, Mapping) or not isinstance(name, str) or name not in _KINDS:
        raise ParameterError(f"a feature must be an object of type 'numeric' or 'categorical'; got {entry!r}.")
    keys = {"type", *(field.name for field in fields(_KINDS[name]))}
    if set(entry) != keys:
        raise ParameterError(f"a {name} feature must have exactly the keys {sorted(keys)}; got {sorted(entry)}.")
    return _KINDS[name](**{key: value for key, value in entry.items() if key != "type"})


def scaled(value: Any, low: float, high: float) -> float:
    # compared before it is a float: a whole number may be beyond the doubles
    inside = low if value <= low else high if value >= high else float(value)
    return ((inside - low) - (high - inside)) / (high - low)


def is_text(value: object) -> bool:
    """Tell whether a value is a text that is not empty and that every program can write: no half of a pair."""
    return isinstance(value, str) and value != "" and not any(0xD800 <= ord(letter) <= 0xDFFF for letter in value)


def _check(name: object, missing: object) -> None:
    _check_text("feature name", name)
    if not isinstance(missing, bool):
        raise ParameterError(f"missing of feature {name!r} must be True or False; got {missing!r}.")


def _check_text(what: str, text: object) -> None:
    if not (is_text(text) and len(str(text)) <= _MOST_TEXT):
        raise ParameterError(f"{what} must be a text of 1 to {_MOST_TEXT} characters; got {text!r}.")
