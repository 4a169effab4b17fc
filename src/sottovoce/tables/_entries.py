"""Checks shared by everything that is read from a schema file."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from datetime import date
from typing import Any

from sottovoce._validation import nearest
from sottovoce.exceptions import ParameterError, SchemaError


def refuse_unknown_keys(where: str, entries: object, allowed: Collection[str]) -> None:
    """Refuse ``entries`` unless it is a mapping whose keys are all in ``allowed``."""
    if not isinstance(entries, Mapping):
        raise SchemaError(f"{where} must be a table of keys and values; got {entries!r}.")
    for key in entries:
        if key not in allowed:
            raise SchemaError(
                f"{where} has the unknown key {key!r}.{nearest(str(key), allowed)} Allowed keys: {', '.join(allowed)}."
            )


@contextmanager
def schema_errors() -> Iterator[None]:
    """Tell what the checks of arguments refuse as an error of a schema."""
    try:
        yield
    except ParameterError as error:
        raise SchemaError(str(error)) from None


def said(described: Any) -> dict[str, Any]:
    """Return the fields of a description that differ from their defaults, as they stand in a schema file."""
    return {
        one.name: _plain(getattr(described, one.name))
        for one in fields(described)
        if one.name != "name" and getattr(described, one.name) != one.default
    }


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(map(_plain, value))
    return value.isoformat() if isinstance(value, date) else value


def plain_number(value: float) -> int | float:
    """Return a whole float as an int, so that it is written as 17 and not as 17.0."""
    return int(value) if value.is_integer() and abs(value) < 2**53 else value
