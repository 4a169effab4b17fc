"""What somebody writes down in Python about a column, as the section of a schema file."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

from sottovoce.exceptions import SchemaError

__all__ = ["section_of"]


def section_of(name: object, entry: object) -> Mapping[str, Any]:
    """Return the section of a schema file for ``(low, high)``, a list of categories, or a dict of a section's keys.

    Raises SchemaError if it is none of them, or could be two of them.
    """
    if isinstance(entry, Mapping):
        kinds = {"bounds": "numeric", "categories": "categorical"}
        kind = next((kind for key, kind in kinds.items() if key in entry), None)
        return entry if "type" in entry or kind is None else {"type": kind, **entry}
    if isinstance(entry, (list, tuple)):
        if len(entry) != 2 or not all(map(_is_number, entry)):
            return {"type": "categorical", "categories": list(entry), "unknown": "ignore"}
        if isinstance(entry, tuple):
            return {"type": "numeric", "bounds": entry}
        raise SchemaError(
            f"columns[{name!r}] = {entry!r} could be bounds or two categories. Write a tuple, {tuple(entry)!r}, for "
            f"the bounds of a number, or {{'categories': {entry!r}}} for two codes."
        )
    raise SchemaError(
        f"columns[{name!r}] must be bounds such as (17, 90), a list of categories such as ['F', 'M'], or a dict with "
        f"the keys of a schema file; got {entry!r}."
    )


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
