"""The parts that every page is made of: the frame, sections, tables, lists."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from sottovoce.report.pages._markup import Markup, element, join
from sottovoce.report.pages.style import content_security_policy, style_sheet

_LONG: Final = 12  # rows; a table of more may be cut between two pages, a shorter one is kept whole


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
        element(
            "main",
            *parts,
            id="content",
            tabindex=-1,
        ),
        element("footer", element("p", foot)),
        *data,
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def section(name: str, heading: str, *content: str) -> Markup:
    """Return a section with a heading of the second rank; what is no markup is a paragraph."""
    parts = (part if isinstance(part, Markup) else element("p", part) for part in content)
    return element("section", element("h2", heading, id=name), *parts, aria_labelledby=name)


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
