"""Read options that hold more than one value."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sottovoce._validation import bounds
from sottovoce.exceptions import ParameterError

_T = TypeVar("_T")


def parse_number_or_auto(
    option: str, text: str | None, *, word: str = "auto", kind: Callable[[str], float] = float
) -> float | str | None:
    """Return the number of ``1e-4``, or the word that stands for one, or None where nothing was given."""
    if text is None or text == word:
        return text
    try:
        return kind(text)
    except ValueError:
        raise ParameterError(f"{option} must be a number or {word}; got {text!r}.") from None


def parse_classes(option: str, text: str | None) -> tuple[int, ...] | None:
    """Return the whole numbers of ``-1,1``, or None where nothing was given.

    Raises ParameterError if an item is not a whole number.
    """
    return None if text is None else _items(option, text, int, "whole numbers with commas between them")


def parse_bounds(option: str, text: str | None) -> tuple[float, float] | None:
    """Return the pair of ``0,100``, or None where nothing was given.

    Raises ParameterError if these are not two finite numbers, the lower one first.
    """
    return (
        None if text is None else bounds(option, _items(option, text, float, "two numbers with a comma between them"))
    )


def parse_weights(option: str, text: str | None) -> dict[str, float] | None:
    """Return the weights of ``no=1,yes=3`` by class, or None where nothing was given; the last = counts."""
    if text is None:
        return None
    weights: dict[str, float] = {}
    for item in text.split(","):
        name, _, value = item.rpartition("=")
        try:
            weight = float(value)
        except ValueError:
            name = ""
        if not name.strip() or name.strip() in weights:
            raise ParameterError(f"{option} must be one weight for each class, such as no=1,yes=3; got {text!r}.")
        weights[name.strip()] = weight
    return weights


def parse_numbers(option: str, text: str, *, at_most: int) -> tuple[float, ...]:
    """Return the different numbers of ``1,2,4``."""
    values = _items(option, text, float, "numbers with commas between them")
    if len(values) > at_most or len(set(values)) < len(values):
        raise ParameterError(f"{option} must be at most {at_most} different numbers; got {text!r}.")
    return values


def _items(option: str, text: str, kind: Callable[[str], _T], wanted: str) -> tuple[_T, ...]:
    try:
        return tuple(kind(item) for item in text.split(","))
    except ValueError:
        raise ParameterError(f"{option} must be {wanted}; got {text!r}.") from None
