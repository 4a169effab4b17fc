"""Read options that hold more than one value."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sottovoce._validation import bounds
from sottovoce.exceptions import ParameterError

__all__ = ["parse_alpha", "parse_bounds", "parse_by_party", "parse_classes", "parse_numbers", "parse_sizes"]


def parse_alpha(option: str, text: str | None) -> float | str | None:
    """Return the number of ``1e-4``, or ``auto``, or None where nothing was given.

    Raises
    ------
    ParameterError
        If it is neither.
    """
    if text is None or text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise ParameterError(f"{option} must be a number or auto; got {text!r}.") from None


def parse_classes(option: str, text: str) -> tuple[int, ...]:
    """Return the whole numbers of ``-1,1``.

    Raises
    ------
    ParameterError
        If an item is not a whole number.
    """
    try:
        return tuple(int(item) for item in text.split(","))
    except ValueError:
        raise ParameterError(f"{option} must be whole numbers with commas between them; got {text!r}.") from None


def parse_bounds(option: str, text: str) -> tuple[float, float]:
    """Return the pair of ``0,100``.

    Raises
    ------
    ParameterError
        If these are not two finite numbers, the lower one first.
    """
    try:
        values = [float(item) for item in text.split(",")]
    except ValueError:
        raise ParameterError(f"{option} must be two numbers with a comma between them; got {text!r}.") from None
    return bounds(option, values)


def parse_numbers(option: str, text: str, *, at_most: int) -> tuple[float, ...]:
    """Return the different numbers of ``1,2,4``.

    Raises
    ------
    ParameterError
        If an item is not a number, one comes twice, or there are more than ``at_most``.
    """
    try:
        values = tuple(float(item) for item in text.split(","))
    except ValueError:
        raise ParameterError(f"{option} must be numbers with commas between them; got {text!r}.") from None
    if len(values) > at_most or len(set(values)) < len(values):
        raise ParameterError(f"{option} must be at most {at_most} different numbers; got {text!r}.")
    return values


def parse_sizes(option: str, text: str) -> tuple[int, ...]:
    """Return the numbers of columns of ``66,57``.

    Raises
    ------
    ParameterError
        If an item is not a whole number above 0.
    """
    try:
        sizes = tuple(int(item) for item in text.split(","))
    except ValueError:
        sizes = ()
    if not sizes or min(sizes) < 1:
        raise ParameterError(f"{option} must be whole numbers >= 1 with commas between them; got {text!r}.")
    return sizes


def parse_by_party(option: str, given: Sequence[str], names: Collection[str]) -> dict[str, str]:
    """Return the value of each party from ``NAME=VALUE``, repeated; a VALUE alone is that of every party.

    Raises
    ------
    ParameterError
        If a name is no party, or a value is given twice.
    """
    values: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if equals and name not in names:
            raise ParameterError(f"{option} {text}: no party is named {name!r}; there are {', '.join(names)}.")
        for party in (name,) if equals else names:
            if party in values:
                raise ParameterError(f"{option} {text}: party {party!r} has {values[party]!r} already. Give it once.")
            values[party] = value if equals else text
    return values
