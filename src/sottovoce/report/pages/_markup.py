"""HTML that is safe by construction: what is not markup made here is text, and text is escaped."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable
from typing import Final

_VOID: Final = frozenset({"meta", "link", "br", "hr"})
# control characters, halves of surrogate pairs, and marks that reorder the letters around them: shown, never obeyed
_INVISIBLE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff]"
)


class Markup(str):
    """Text that is HTML already; only this module makes some."""

    __slots__ = ()


def text(value: str) -> Markup:
    """Return ``value`` escaped for an element or a quoted attribute; what would be invisible is spelt out."""
    if isinstance(value, Markup):
        return value
    return Markup(html.escape(_INVISIBLE.sub(lambda found: f"\\u{ord(found[0]):04x}", value)))


def join(parts: Iterable[str], between: str = "") -> Markup:
    """Return the parts one after the other, each escaped unless it is markup."""
    return Markup(text(between).join(text(part) for part in parts))


def element(name: str, /, *children: str, **attributes: str | float | None) -> Markup:
    """Return an element; ``class_`` and ``aria_label`` mean class and aria-label, and None leaves an attribute out."""
    shown = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Markup(f"<{name}{shown}>")
    return Markup(f"<{name}{shown}>{join(children)}</{name}>")


def data_block(identifier: str, data: object) -> Markup:
    """Return ``data`` as JSON in an element that no browser runs and that no text in it can close."""
    content = json.dumps(data, allow_nan=False, indent=1)  # ASCII
    for sign in "<>&":
        content = content.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(f'<script type="application/json" id="{text(identifier)}">\n{content}\n</script>')
