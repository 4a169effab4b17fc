"""What objects show of themselves in a notebook."""

import html
from collections.abc import Iterable, Mapping

__all__ = ["html_table", "plan_rows"]


def html_table(rows: Iterable[tuple[str, str]]) -> str:
    """Return (heading, text) pairs as a table of two columns."""
    cells = "".join(
        f"<tr><th style='text-align:left;vertical-align:top'>{html.escape(name)}</th>"
        f"<td style='text-align:left;white-space:pre-line'>{html.escape(text)}</td></tr>"
        for name, text in rows
    )
    return f"<table>{cells}</table>"


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
