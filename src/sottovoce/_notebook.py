"""What objects show of themselves: a table in a notebook, ten lines when they are printed."""

import html
import shutil
from collections.abc import Iterable

_MOST_LINES = 10


def html_table(rows: Iterable[tuple[str, str]]) -> str:
    """Return (heading, text) pairs as a table of two columns."""
    cells = "".join(
        f"<tr><th style='text-align:left;vertical-align:top'>{html.escape(name)}</th>"
        f"<td style='text-align:left;white-space:pre-line;overflow-wrap:anywhere'>{html.escape(text)}</td></tr>"
        for name, text in rows
    )
    return f"<table>{cells}</table>"


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
