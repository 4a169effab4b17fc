"""The look of the pages: one style sheet, without images or fonts from anywhere, for screen, dark screen and paper."""

from __future__ import annotations

import base64
import hashlib
from typing import Final

__all__ = ["CONTRASTS", "DARK", "LIGHT", "content_security_policy", "style_sheet"]

LIGHT: Final = {
    "paper": "#ffffff",
    "sheet": "#f4f5f7",
    "ink": "#1b1f24",
    "soft": "#4d5661",
    "line": "#c6ccd4",
    "edge": "#7a828d",
    "link": "#0b57a4",
    "curve": "#0b57a4",
    "mark": "#a33b00",
    "shade": "#e4ebf3",
    "good": "#0f5c2e",
    "good-back": "#e5f3ea",
    "warn": "#7a4300",
    "warn-back": "#fdf1dd",
    "bad": "#96161a",
    "bad-back": "#fce8e6",
}
DARK: Final = {
    "paper": "#15181c",
    "sheet": "#1f242a",
    "ink": "#e8eaed",
    "soft": "#b3bac3",
    "line": "#3d444d",
    "edge": "#7f8894",
    "link": "#8ab9f1",
    "curve": "#8ab9f1",
    "mark": "#ffab70",
    "shade": "#232c37",
    "good": "#7fd6a0",
    "good-back": "#13291c",
    "warn": "#f2c078",
    "warn-back": "#2f2413",
    "bad": "#ff9d97",
    "bad-back": "#351a1a",
}
# (foreground, background, least ratio): WCAG 2.2 asks 4.5 for text and 3 for graphics and borders of fields
CONTRASTS: Final = (
    *((ink, back, 4.5) for ink in ("ink", "soft", "link") for back in ("paper", "sheet")),
    ("ink", "shade", 4.5),
    ("soft", "shade", 4.5),
    *((kind, f"{kind}-back", 4.5) for kind in ("good", "warn", "bad")),
    *(("ink", f"{kind}-back", 4.5) for kind in ("good", "warn", "bad")),
    ("mark", "paper", 4.5),
    ("mark", "shade", 4.5),
    ("curve", "paper", 3.0),
    ("curve", "shade", 3.0),
    ("edge", "paper", 3.0),
    ("edge", "shade", 3.0),
)


def _variables(colours: dict[str, str]) -> str:
    return " ".join(f"--{name}: {value};" for name, value in colours.items())


_RULES: Final = """
* { box-sizing: border-box; }
html { background: var(--sheet); color: var(--ink); }
html { font: 1rem/1.5 system-ui, "Segoe UI", "Liberation Sans", sans-serif; }
body { margin: 0; }
main, header, footer { max-width: 52rem; margin: 0 auto; padding: 0 2.5rem; background: var(--paper); }
header { padding-top: 2.5rem; padding-bottom: .5rem; }
main { padding-top: .5rem; padding-bottom: 1rem; }
main > section:first-child h2 { margin-top: 0; }
footer { padding-top: .5rem; padding-bottom: 2.5rem; color: var(--soft); font-size: .875rem; }
h1, h2, h3 { line-height: 1.25; font-weight: 650; break-after: avoid; overflow-wrap: anywhere; }
h1 { font-size: 1.75rem; margin: .25rem 0 1.25rem; }
h2 { font-size: 1.25rem; margin: 2.25rem 0 .75rem; padding-top: .75rem; border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.5rem 0 .5rem; }
p, ul, ol { margin: .5rem 0; }
li { margin: .25rem 0; }
p, li, td, dd, figcaption { overflow-wrap: anywhere; }
a { color: var(--link); }
a:focus-visible, [tabindex]:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
.skip { position: absolute; left: -100rem; }
.skip:focus { left: 1rem; top: 1rem; padding: .5rem 1rem; background: var(--paper); }
.kicker { margin: 0; color: var(--soft); text-transform: uppercase; letter-spacing: .08em; font-size: .8125rem; }
.verdict { padding: 1rem 1.25rem; border-left: .5rem solid; break-inside: avoid; }
.verdict p { margin: .25rem 0; color: var(--ink); }
.verdict .headline { font-size: 1.375rem; font-weight: 700; line-height: 1.3; color: inherit; }
.good { color: var(--good); background: var(--good-back); border-color: var(--good); }
.warn { color: var(--warn); background: var(--warn-back); border-color: var(--warn); }
.bad { color: var(--bad); background: var(--bad-back); border-color: var(--bad); }
.soft { color: var(--soft); }
.part { margin-top: 3rem; padding: .5rem .75rem; background: var(--shade); font-size: 1.25rem; border: 0; }
.text { white-space: pre-line; }
nav ul { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; list-style: none; padding: 0; font-size: .9375rem; }
table { width: 100%; border-collapse: collapse; margin: .75rem 0; font-size: .9375rem; }
caption { text-align: left; font-weight: 600; padding: .25rem 0; }
th, td { text-align: left; vertical-align: top; padding: .4rem .75rem .4rem 0; border-bottom: 1px solid var(--line); }
thead th { border-bottom: 2px solid var(--edge); }
tbody th { font-weight: 500; }
td.figure, th.figure { text-align: right; font-variant-numeric: tabular-nums; }
td.figure { white-space: nowrap; }
td.figure, th.figure { padding-right: 0; padding-left: .75rem; }
tr { break-inside: avoid; }
thead { display: table-header-group; }
.narrow { width: auto; min-width: 20rem; }
.scroll { overflow-x: auto; }
.scroll table { min-width: 32rem; }
.facts th { width: 12rem; color: var(--soft); }
figure { margin: 1rem 0; break-inside: avoid; }
svg { width: 100%; height: auto; max-width: 40rem; display: block; }
svg text { font: 13px system-ui, "Segoe UI", "Liberation Sans", sans-serif; fill: var(--soft); }
svg .frame { fill: none; stroke: var(--edge); }
svg .grid { stroke: var(--line); stroke-width: 1; }
svg .area { fill: var(--shade); }
svg .curve { fill: none; stroke: var(--curve); stroke-width: 2.5; }
svg .chance { fill: none; stroke: var(--edge); stroke-dasharray: 5 4; }
svg .mark { fill: var(--mark); }
svg .marked { fill: var(--mark); font-weight: 600; }
figcaption { font-size: .9375rem; color: var(--soft); }
code, pre { font: .875rem/1.45 ui-monospace, "DejaVu Sans Mono", Consolas, monospace; }
code { overflow-wrap: anywhere; }
pre { background: var(--sheet); border: 1px solid var(--line); padding: .75rem; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; }
.events, .events ul { list-style: none; padding-left: 1.25rem; border-left: 2px solid var(--line); }
.events { padding-left: .75rem; }
.decision, section[aria-labelledby=decision] { break-inside: avoid; }
.decision th { width: 12rem; height: 3rem; vertical-align: bottom; font-weight: 500; }
.decision td { border-bottom: 1px solid var(--edge); vertical-align: bottom; }
.box { display: inline-block; width: 1em; height: 1em; border: 1.5px solid var(--edge); }
.box { margin-right: .4em; vertical-align: -.15em; }
.choices { margin-right: 1.5rem; display: inline-block; }
@media (max-width: 40rem) {
  main, header, footer { padding-left: 1rem; padding-right: 1rem; }
  h1 { font-size: 1.375rem; }
  .facts th, .decision th { width: 8rem; }
}
@media print {
  @page { size: A4; margin: 18mm 16mm; }
  html { background: #fff; font-size: 10pt; }
  main, header, footer { max-width: none; padding: 0; }
  nav, .skip { display: none; }
  table, pre, li { break-inside: avoid; }
  .long { break-inside: auto; }
  .scroll { overflow: visible; }
  .scroll table { min-width: 0; }
  .annex { break-before: page; }
  h2 { margin-top: 1.25rem; }
  a { color: inherit; text-decoration: none; }
  svg { max-width: 14cm; }
  .verdict, .good, .warn, .bad, .part, svg { print-color-adjust: exact; }
}
"""


def style_sheet() -> str:
    """Return the style sheet."""
    return (
        f":root {{ color-scheme: light dark; {_variables(LIGHT)} }}\n"
        f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {_variables(DARK)} }} }}" + _RULES
    )


def content_security_policy() -> str:
    """Return a policy under which this style sheet applies and nothing else is loaded, run or sent."""
    digest = base64.b64encode(hashlib.sha256(style_sheet().encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
