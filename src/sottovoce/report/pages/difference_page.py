"""The differences between two receipts as one HTML page."""

from collections.abc import Sequence
from typing import Final

from sottovoce.privacy.guarantee import Guarantee
from sottovoce.report.difference import Difference, diff_receipts
from sottovoce.report.pages._document import page
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
    return page(
        "report/pages/difference.html",
        title=f"{names[0]} and {names[1]}",
        kicker="Two receipts compared",
        found=found,
        colour="warn" if found.reasons and colour == "good" else colour,  # a stronger curve with a catch
        headline=headline,
        curve=[(f"{row.delta:.4g}", rounded_up(row.before, 4), rounded_up(row.after, 4)) for row in found.curve],
        entries=_entries,
        names=tuple(names),
        fingerprints=(fingerprint(a), fingerprint(b)),
    )


def _entries(changes: Sequence[Difference]) -> list[tuple[str, ...]]:
    return [(one.entry, *("(none)" if side is None else side for side in (one.before, one.after))) for one in changes]
