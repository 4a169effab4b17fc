"""What people see: text of strangers, which cannot move a cursor or pass for our own words, and objects as tables."""

import html
import json
import math
import re
import shutil
from collections.abc import Iterable
from decimal import ROUND_CEILING, Context, Decimal
from typing import Final

_LONGEST: Final = 60
# control characters but for tabs and ends of lines; soft hyphens, marks and overrides of direction, separators of lines
# and paragraphs, joiners, tags, halves of letters: whatever a terminal obeys, or nobody sees
_HIDDEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe00-\ufe0f"
    "\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)
QUOTED: Final = r'"(?:[^"\\]|\\(?:["\\bfnrt]|u[0-9a-f]{4}))*"'  # what `quoted` makes, as a pattern
_MOST_LINES = 10


def shown(text: str) -> str:
    """Return text with every such character as JSON writes it: what was JSON still is the same JSON."""
    return _HIDDEN.sub(_escaped, text)


def in_one_line(text: str) -> str:
    return shown(text.replace("\n", "\\n"))


def quoted(name: object) -> str:
    """Return a name that somebody chose, for a sentence of ours: in quotation marks, in one line, and not long."""
    text = str(name)
    return shown(json.dumps(text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…", ensure_ascii=False))


def is_class_name(name: object) -> bool:
    """Tell whether a text can be the name of a class, and not much else."""
    return isinstance(name, str) and name.isidentifier() and len(name) <= _LONGEST


def _escaped(found: re.Match[str]) -> str:
    return json.dumps(found[0])[1:-1].replace("\x7f", "\\u007f")


def html_table(rows: Iterable[tuple[str, str]]) -> str:
    """Return (heading, text) pairs as a table of two columns."""
    cells = "".join(
        f"<tr><th style='text-align:left;vertical-align:top'>{html.escape(name)}</th>"
        f"<td style='text-align:left;white-space:pre-line;overflow-wrap:anywhere'>{html.escape(text)}</td></tr>"
        for name, text in rows
    )
    return f"<table>{cells}</table>"


def rounded_up(value: float, significant: int = 3) -> str:
    """Return an upper bound in few digits, rounded up."""
    if not math.isfinite(value):
        return "∞" if value == math.inf else str(value)
    up = Context(prec=significant, rounding=ROUND_CEILING).plus(Decimal(repr(float(value))))
    return f"{float(up):.{significant}g}"


def ten_lines(rows: Iterable[tuple[str, str]], more: str) -> str:
    """Return (heading, text) pairs as at most ten lines: the first in full, those after it no wider than the terminal.

    ``more``: the last line, which says where all of it is.
    """
    width = max(60, shutil.get_terminal_size((100, 24)).columns)
    lines: list[str] = []
    for name, text in rows:
        first, *others = text.split("\n")
        line = f"{name}: {first}" + (f" (and {len(others)} more)" if others else "")
        lines.append(line if len(line) <= width or not lines else line[: width - 3] + "...")
    return "\n".join([*lines[: _MOST_LINES - 1], more])
