"""Read options that hold more than one value."""

from __future__ import annotations

from collections.abc import Callable

from sottovoce.exceptions import ParameterError


def parse_number_or_auto(option: str, text: str | None, *, kind: Callable[[str], float] = float) -> float | str | None:
    """Return the number of ``1e-4``, or ``auto``, or None where nothing was given."""
    if text in (None, "auto"):
        return text
    try:
        return kind(text)
    except ValueError:
        raise ParameterError(f"{option} must be a number or auto; got {text!r}.") from None


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
    try:
        values = tuple(map(float, text.split(",")))
    except ValueError:
        raise ParameterError(f"{option} must be numbers with commas between them; got {text!r}.") from None
    if len(values) > at_most or len(set(values)) < len(values):
        raise ParameterError(f"{option} must be at most {at_most} different numbers; got {text!r}.")
    return values
