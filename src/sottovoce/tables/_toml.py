"""Schemas as TOML: what an entry may be, and how it is written, with comments where a draft needs them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from datetime import date
from typing import Any, Final

import tomlkit

from sottovoce._validation import nearest
from sottovoce.exceptions import ParameterError, SchemaError

_WIDTH: Final = 100


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
    rounded = not hasattr(described, "categories")  # which may be of either kind
    return {
        one.name: dict(value) if one.name == "aliases" else _plain(value, rounded)
        for one in fields(described)
        if one.name != "name" and (value := getattr(described, one.name)) != one.default
    }


def _plain(value: Any, rounded: bool) -> Any:
    if isinstance(value, tuple):
        return [_plain(one, rounded) for one in value]
    if isinstance(value, float) and rounded:
        return plain_number(value)
    return value.isoformat() if isinstance(value, date) else value


def plain_number(value: float) -> int | float:
    """Return a whole float as an int, so that it is written as 17 and not as 17.0."""
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def toml_text(
    entries: Mapping[str, Any],
    heading: Sequence[str] = (),
    comment: Callable[..., str] = lambda *path: "",
    proposal: Callable[[str], str] = lambda name: "",
) -> str:
    """Return the entries of a schema as the text of a TOML file.

    ``comment``: what is said behind a line, by its path, such as ``"columns", "age", "bounds"``.
    ``proposal``: what the section of a column ends with, as a comment: it says nothing until the mark is removed.
    """

    def part(title: str, path: tuple[str, ...], section: Mapping[str, Any], end: str = "") -> str:
        lines = [title] if title else []
        for key, value in section.items():
            lines.append(f"{toml_key(key)} = {toml_value(value)}{_comment(comment(*path, key))}")
        return "\n".join(lines) + end

    parts = ["\n".join(f"# {line}".rstrip() for line in heading)] if heading else []
    parts.append(part("", (), {key: value for key, value in entries.items() if key not in ("table", "columns")}))
    if "table" in entries:
        parts.append(part("[table]", ("table",), entries["table"]))
    for name, section in entries["columns"].items():
        end = _comment(proposal(name)).replace(" ", "\n", 1)
        parts.append(part(f"[columns.{toml_key(name)}]", ("columns", name), section, end))
    return "\n\n".join(parts) + "\n"


def _comment(text: str) -> str:
    return f" # {text}" if text else ""


def toml_key(name: str) -> str:
    """Return ``name`` as a key in a TOML file: between quotes where it needs them."""
    return tomlkit.key(name).as_string()


def toml_value(value: Any) -> str:
    """Return a value; a list on one line, or on several that are not much wider than ``_WIDTH`` where it is long."""
    if isinstance(value, Mapping):
        inline = tomlkit.inline_table()
        inline.update(value)
        return str(inline.as_string())
    if not isinstance(value, list):
        return str(tomlkit.item(value).as_string())
    texts, rows = [toml_value(one) for one in value], list[str]()
    if sum(map(len, texts)) + 2 * len(texts) <= _WIDTH:
        return f"[{', '.join(texts)}]"
    for text in texts:
        if rows and len(rows[-1]) + 2 < _WIDTH - 10:
            rows[-1] += f", {text}"
        else:
            rows.append(text)
    return "\n".join(["[", *(f"    {row}," for row in rows), "]"])
