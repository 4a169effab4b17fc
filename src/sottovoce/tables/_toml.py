"""Write the entries of a schema as TOML, with comments where a draft needs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tomlkit
from tomlkit.items import Item, Table

_WIDTH = 100


def toml_text(
    entries: Mapping[str, Any],
    *,
    heading: Sequence[str] = (),
    comments: Mapping[tuple[str, ...], str] | None = None,
    proposals: Mapping[str, str] | None = None,
) -> str:
    """Return the entries of a schema as the text of a TOML file.

    ``entries``: as from ``Schema.to_dict``.
    ``heading``: lines of comment at the start.
    ``comments``: comments behind single lines; ``("columns", "age", "bounds")`` is such a path.
    ``proposals``: lines at the end of the sections of columns, as comments: they say nothing until somebody removes the
      mark.
    """
    comments = comments or {}
    document = tomlkit.document()
    for line in heading:
        document.add(tomlkit.comment(line))
    if heading:
        document.add(tomlkit.nl())
    for key, value in entries.items():
        if not isinstance(value, Mapping):
            document.add(key, _commented(_item(value), comments.get((key,))))
    if "table" in entries:
        document.add(tomlkit.nl())
        document.add("table", _section(entries["table"], ("table",), comments))
    columns = tomlkit.table(is_super_table=True)
    for name, section in entries["columns"].items():
        added = _section(section, ("columns", name), comments)
        if proposals and name in proposals:
            added.add(tomlkit.comment(proposals[name]))
        columns.add(name, added)
    document.add(tomlkit.nl())
    document.add("columns", columns)
    return tomlkit.dumps(document)


def toml_key(name: str) -> str:
    """Return ``name`` as a key in a TOML file: between quotes where it needs them."""
    return tomlkit.key(name).as_string()


def _section(entries: Mapping[str, Any], path: tuple[str, ...], comments: Mapping[tuple[str, ...], str]) -> Table:
    section = tomlkit.table()
    for key, value in entries.items():
        section.add(key, _commented(_item(value), comments.get((*path, key))))
    return section


def _item(value: Any) -> Item:
    if isinstance(value, Mapping):
        inline = tomlkit.inline_table()
        inline.update(value)
        return inline
    if isinstance(value, list):
        return _array(value)
    item: Item = tomlkit.item(value)
    return item


def _array(values: list[Any]) -> Item:
    """Return a list on one line, or on several that are not much wider than ``_WIDTH`` where it is long."""
    array = tomlkit.array()
    array.extend(values)
    if len(array.as_string()) <= _WIDTH:
        return array
    array = tomlkit.array()
    line: list[Any] = []
    width = 0
    for value in values:
        line.append(value)
        width += len(tomlkit.item(value).as_string()) + 2
        if width >= _WIDTH - 10:
            array.add_line(*line)
            line, width = [], 0
    if line:
        array.add_line(*line)
    array.add_line(indent="")
    return array


def _commented(item: Item, comment: str | None) -> Item:
    return item if comment is None else item.comment(comment)
