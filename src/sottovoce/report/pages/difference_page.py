"""The differences between two receipts as one HTML page."""

from collections.abc import Sequence
from typing import Final

from sottovoce._version import __version__
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.report.difference import Difference, diff_receipts
from sottovoce.report.pages._document import document, element, section, table, verdict
from sottovoce.report.reading import fingerprint
from sottovoce.report.verdict import rounded_up

_VERDICTS: Final = {
    "the same": ("good", "The same promise"),
    "stronger": ("good", "A stronger promise"),
    "weaker": ("bad", "A weaker promise"),
    "crossing": ("warn", "Stronger at some deltas, weaker at others"),
    "not comparable": ("warn", "Not comparable"),
}


def difference_page(a: Guarantee, b: Guarantee, *, names: tuple[str, str] = ("first receipt", "second receipt")) -> str:
    """Return the differences between two receipts as one self-contained HTML file.

    Parameters
    ----------
    a, b : Guarantee
        Before and after.
    names : (str, str)
        What to call them, such as the names of their files.

    Returns
    -------
    str
        As `receipt_page`: without scripts and without anything from elsewhere.
    """
    found = diff_receipts(a, b)
    colour, headline = _VERDICTS[found.promise]
    reasons = [element("ul", *(element("li", reason) for reason in found.reasons))] if found.reasons else []
    # a stronger curve with a catch is no good news
    colour = "warn" if reasons and colour == "good" else colour
    curve = [(f"{row.delta:.4g}", rounded_up(row.before, 4), rounded_up(row.after, 4)) for row in found.curve]
    parts = [
        section("headline", "Promise", _changes("What is promised", found.headline, names)),
        section(
            "curve",
            "Cost of the events",
            table("Epsilon at each delta, accounted anew", ("delta", *names), curve, figures=2)
            if curve
            else "Not compared: the promises are about different things.",
        ),
        section(
            "items", "Releases, assumptions, exceptions", _changes("One has, the other has not", found.items, names)
        ),
        section("entries", "Mechanism and parameters", _changes("What differs", found.entries, names)),
    ]
    return document(
        title=f"Two receipts compared: {names[0]} and {names[1]}",
        lead=(
            element("p", "Two receipts compared", class_="kicker"),
            element("h1", f"{names[0]} and {names[1]}"),
            verdict(colour, headline, element("p", found.summary()), *reasons),
        ),
        first=parts,
        foot=f"Page made by sottovoce {__version__}. Fingerprints: {fingerprint(a)} and {fingerprint(b)}.",
    )


def _changes(caption: str, changes: Sequence[Difference], names: tuple[str, str]) -> str:
    if not changes:
        return "No difference."
    rows = [
        (one.entry, *("(none)" if value is None else value for value in (one.before, one.after))) for one in changes
    ]
    return table(caption, ("entry", *names), rows)
