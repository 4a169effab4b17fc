"""Read options that hold more than a number or a text: parsers of Typer's, which names the option in its errors."""

from __future__ import annotations

import typer

_MOST = 8  # numbers beside each other


def number_or_auto(text: str) -> float | str:
    return text if text == "auto" else _number(text, float)


def whole_or_auto(text: str) -> float | str:
    return text if text == "auto" else _number(text, int)


def _number(text: str, kind: type[float]) -> float:
    try:
        return kind(text)
    except ValueError:
        raise typer.BadParameter(f"must be a number or auto; got {text!r}.") from None


def weights(text: str) -> dict[str, float]:
    """Return the weights of ``no=1,yes=3`` by class; the last = counts."""
    found: dict[str, float] = {}
    for item in text.split(","):
        name, _, value = item.rpartition("=")
        try:
            weight = float(value)
        except ValueError:
            name = ""
        if not name.strip() or name.strip() in found:
            raise typer.BadParameter(f"must be one weight for each class, such as no=1,yes=3; got {text!r}.")
        found[name.strip()] = weight
    return found


def numbers(text: str) -> tuple[float, ...]:
    try:
        values = tuple(map(float, text.split(",")))
    except ValueError:
        raise typer.BadParameter(f"must be numbers with commas between them; got {text!r}.") from None
    if len(values) > _MOST or len(set(values)) < len(values):
        raise typer.BadParameter(f"must be at most {_MOST} different numbers; got {text!r}.")
    return values
