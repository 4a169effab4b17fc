"""What every page is made of: templates in which all text is escaped, and the look of them.

What is no markup of a template is text: it is escaped, and what nobody would see in it is spelt out. The style sheet
names no images or fonts from anywhere; it is for screen, dark screen and paper.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sottovoce._shown import rounded_up, shown
from sottovoce._version import __version__
from sottovoce.report.verdict import one_in

if TYPE_CHECKING:
    from jinja2 import Environment

_PACKAGE: Final = Path(__file__).parents[2]
_HEADING: Final = re.compile(r'<h2 id="([a-z-]+)">([^<]*)</h2>')
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


@cache
def templates() -> Environment:
    """Return the templates of this package; their names are paths in it."""
    import jinja2  # nobody waits for it who makes no page
    from markupsafe import Markup

    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_PACKAGE), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
        finalize=lambda value: value if isinstance(value, Markup) else shown(str(value)),
    )  # fmt: skip
    made.policies["json.dumps_kwargs"] = {"allow_nan": False, "indent": 1}  # ASCII, and no sign that ends a block
    made.filters |= {"headings": _HEADING.findall, "one_in": one_in, "rounded_up": rounded_up}
    return made


def page(template: str, *, title: str, kicker: str, data: dict[str, object] | None = None, **facts: Any) -> str:
    """Return a whole page.

    ``template``: that of its content, which extends ``document.html``.
    ``kicker``: what kind of page it is, above the title.
    ``data``: by their names, blocks of JSON that no browser runs and that no text in them can close.
    """
    return templates().get_template(template).render(
        title=title, kicker=kicker, data=data or {}, version=__version__, style=style_sheet(),
        policy=content_security_policy(), **facts,
    )  # fmt: skip


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
