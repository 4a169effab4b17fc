"""What every page is made of: HTML that is safe by construction, the look of it, frame, sections, tables and lists.

What is not markup made here is text, and text is escaped. The style sheet names no images or fonts from anywhere; it is
for screen, dark screen and paper.
"""

import base64
import hashlib
import html
import json
import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Final

_VOID: Final = frozenset({"meta", "link", "br", "hr"})
# control characters, halves of surrogate pairs, and marks that reorder the letters around them: shown, never obeyed
_INVISIBLE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff]"
)
_LONG: Final = 12  # rows; a table of more may be cut between two pages, a shorter one is kept whole
LIGHT: Final = {
    "paper": "#ffffff", "sheet": "#f4f5f7", "ink": "#1b1f24", "soft": "#4d5661", "line": "#c6ccd4", "edge": "#7a828d",
    "link": "#0b57a4", "curve": "#0b57a4", "mark": "#a33b00", "shade": "#e4ebf3", "good": "#0f5c2e",
    "good-back": "#e5f3ea", "warn": "#7a4300", "warn-back": "#fdf1dd", "bad": "#96161a", "bad-back": "#fce8e6",
}  # fmt: skip
DARK: Final = {
    "paper": "#15181c", "sheet": "#1f242a", "ink": "#e8eaed", "soft": "#b3bac3", "line": "#3d444d", "edge": "#7f8894",
    "link": "#8ab9f1", "curve": "#8ab9f1", "mark": "#ffab70", "shade": "#232c37", "good": "#7fd6a0",
    "good-back": "#13291c", "warn": "#f2c078", "warn-back": "#2f2413", "bad": "#ff9d97", "bad-back": "#351a1a",
}  # fmt: skip


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


def document(
    *,
    title: str,
    lead: Sequence[Markup],
    first: Sequence[Markup],
    foot: str,
    annex_title: str = "",
    annex: Sequence[Markup] = (),
    data: Sequence[Markup] = (),
) -> str:
    """Return a whole page; ``lead`` holds its h1, ``first`` and ``annex`` hold sections."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=content_security_policy()),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", title),
        element("style", Markup(style_sheet())),
    )
    parts = list(first)
    if annex:
        heading = element("h2", annex_title, id="annex", class_="part")
        parts.append(element("div", heading, *annex, class_="annex"))
    links = [
        element("li", element("a", Markup(found[2]), href=f"#{found[1]}"))
        for part in parts
        if (found := re.match(r'<[^>]*><h2 id="([a-z-]+)"[^>]*>([^<]*)</h2>', part))
    ]
    body = element(
        "body",
        element("a", "Skip to the content", class_="skip", href="#content"),
        element("header", *lead, element("nav", element("ul", *links), aria_label="Sections")),
        element("main", *parts, id="content", tabindex=-1),
        element("footer", element("p", foot)),
        *data,
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def section(name: str, heading: str, *content: str) -> Markup:
    """Return a section with a heading of the second rank; what is no markup is a paragraph."""
    parts = (part if isinstance(part, Markup) else element("p", part) for part in content)
    return element("section", element("h2", heading, id=name), *parts, aria_labelledby=name)


def verdict(colour: str, headline: str, *content: str, label: str = "Verdict") -> Markup:
    """Return what a page says first, in one of the colours "good", "warn" and "bad"."""
    heading = element("p", headline, class_="headline")
    return element("section", heading, *content, class_=f"verdict {colour}", aria_label=label)


def figure(drawing: Markup, caption: str) -> Markup:
    return element("figure", drawing, element("figcaption", caption))


def listed(items: Sequence[str], none: str) -> Markup:
    """Return a list; ``none`` stands for an empty one."""
    if not items:
        return element("p", none)
    return element("ul", *(element("li", item, class_="text") for item in items))


def fact_table(caption: str, rows: Sequence[tuple[str, str]], *, class_: str = "facts") -> Markup:
    """Return a table of two columns; the first one holds the headings of the rows."""
    if len(rows) > _LONG:
        class_ += " long"
    body = (
        element("tr", element("th", name, scope="row", class_="text"), element("td", value, class_="text"))
        for name, value in rows
    )
    return element("table", element("caption", caption), element("tbody", *body), class_=class_)


def table(
    caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]], *, figures: int = 0, class_: str | None = None
) -> Markup:
    """Return a table with headings of columns and rows; the last ``figures`` columns hold numbers."""
    first = len(heads) - figures
    kinds = [None if place < first else "figure" for place in range(len(heads))]
    head = (element("th", name, scope="col", class_=kind) for name, kind in zip(heads, kinds, strict=True))
    body = (
        element(
            "tr",
            element("th", row[0], scope="row"),
            *(element("td", cell, class_=kind) for cell, kind in zip(row[1:], kinds[1:], strict=True)),
        )
        for row in rows
    )
    whole = element(
        "table",
        element("caption", caption),
        element("thead", element("tr", *head)),
        element("tbody", join(body)),
        class_=class_,
    )
    if len(heads) < 4:
        return whole
    return element("div", whole, class_="scroll", role="region", aria_label=caption, tabindex=0)


def _variables(colours: dict[str, str]) -> str:
    return " ".join(f"--{name}: {value};" for name, value in colours.items())


def _rules() -> str:
    return Path(__file__).with_name("page.css").read_text(encoding="utf-8")


def svg_rules(selector: str) -> str:
    """Return the rules for what is in a drawing, and its colours, for one that stands by itself in ``selector``."""
    drawn = [rule.removeprefix("svg") for rule in _rules().splitlines() if rule.startswith("svg ") and "{" in rule]
    rules = "\n".join(f"{selector}{rule}" for rule in drawn if not rule.startswith(" {"))
    return (
        f"{selector} {{ {_variables(LIGHT)} }}\n"
        f"@media screen and (prefers-color-scheme: dark) {{ {selector} {{ {_variables(DARK)} }} }}\n"
        f"{selector} .paper {{ fill: var(--paper); }}\n{rules}"
    )


@cache
def style_sheet() -> str:
    """Return the style sheet: the colours, and the rules in ``page.css``."""
    rules = _rules()
    return (
        f":root {{ color-scheme: light dark; {_variables(LIGHT)} }}\n"
        f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {_variables(DARK)} }} }}\n{rules}"
    )


def content_security_policy() -> str:
    """Return a policy under which this style sheet applies and nothing else is loaded, run or sent."""
    digest = base64.b64encode(hashlib.sha256(style_sheet().encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
