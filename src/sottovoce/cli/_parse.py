"""Read options that hold more than one value."""

from __future__ import annotations

from sottovoce._validation import bounds
from sottovoce.exceptions import ParameterError

__all__ = ["parse_alpha", "parse_bounds", "parse_classes"]


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
