"""Write the entries of a schema as TOML, with comments where a draft needs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tomlkit

_WIDTH = 100


def toml_text(
    entries: Mapping[str, Any],
    *,
    heading: Sequence[str] = (),
    comments: Mapping[tuple[str, ...], str] | None = None,
    proposals: Mapping[str, str] | None = None,
) -> str:
    """Return the entries of a schema as the text of a TOML file.

    ``comments``: behind single lines, by paths such as ``("columns", "age", "bounds")``.
    ``proposals``: at the end of the sections of columns, as comments: they say nothing until the mark is removed.
    """
    known = comments or {}

    def lines(path: tuple[str, ...], section: Mapping[str, Any]) -> list[str]:
        written = {key: f"{toml_key(key)} = {toml_value(value)}" for key, value in section.items()}
        return [text + (f" # {known[*path, key]}" if (*path, key) in known else "") for key, text in written.items()]

    top = {key: value for key, value in entries.items() if key not in ("table", "columns")}
    parts = [[f"# {line}".rstrip() for line in heading]] if heading else []
    parts.append(lines((), top))
    if "table" in entries:
        parts.append(["[table]", *lines(("table",), entries["table"])])
    for name, section in entries["columns"].items():
        proposed = [f"# {proposals[name]}"] if proposals and name in proposals else []
        parts.append([f"[columns.{toml_key(name)}]", *lines(("columns", name), section), *proposed])
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


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
    texts = [toml_value(one) for one in value]
    if sum(map(len, texts)) + 2 * len(texts) <= _WIDTH:
        return f"[{', '.join(texts)}]"
    rows: list[list[str]] = [[]]
    width = 0
    for text in texts:
        if width >= _WIDTH - 10:
            rows, width = [*rows, []], 0
        rows[-1].append(text)
        width += len(text) + 2
    return "\n".join(["[", *(f"    {', '.join(row)}," for row in rows), "]"])
