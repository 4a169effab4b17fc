"""What objects show of themselves: a table in a notebook, ten lines when they are printed."""

import html
import shutil
from collections.abc import Iterable, Mapping

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


def plan_rows(
    what: str, summary: Mapping[str, object], *, unit: str, private: bool, hint: str = ""
) -> list[tuple[str, str]]:
    """Return the summary of a plan as (heading, text) pairs, in plain words first, ``hint`` after them."""
    promise = (
        f"{what} would be ({_shown(summary['epsilon'])}, {_shown(summary['delta'])})-differentially private for {unit}"
        if private
        else f"{what} would add no noise: nothing is promised to anybody"
    )
    size = f"The table has {summary['n_samples']:,} rows and {summary['n_features']:,} columns."
    words = " ".join(part for part in (f"{promise}.", size, "No data were read.", hint) if part)
    return [("in short", words), *((name, _shown(value)) for name, value in summary.items())]


def _shown(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


class ShownPlan:
    """What a plan shows of itself: `_rows` in a notebook, ten of them when it is printed."""

    def _rows(self) -> list[tuple[str, str]]:
        raise NotImplementedError

    def __str__(self) -> str:
        return ten_lines(self._rows(), "all of it: .summary()")

    def _repr_html_(self) -> str:
        return html_table(self._rows())
