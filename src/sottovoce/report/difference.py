"""What differs between two receipts: the promise first, compared along its whole curve."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sottovoce._plain_data import plain
from sottovoce.exceptions import ParameterError
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.report.verdict import digits, flat_parameters, rounded_up, verdict_of

_DELTAS: Final = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10)
_SAME: Final = 1e-6  # relative; accountants on a grid may differ by less


@dataclass(frozen=True)
class CurveRow:
    """What the two events cost at one delta."""

    delta: float
    before: float
    after: float


@dataclass(frozen=True)
class Difference:
    """One entry that is not the same; None on the side that lacks it."""

    entry: str
    before: str | None
    after: str | None


@dataclass(frozen=True)
class ReceiptDifference:
    """What differs between receipt a ("before") and receipt b ("after").

    Attributes
    ----------
    promise : {"the same", "stronger", "weaker", "crossing", "not comparable"}
        What b promises against a, by the costs of their events at all deltas of `curve`, where a smaller epsilon is
        stronger, and by whether the noise can be repeated from a seed.
    reasons : tuple of str
        Why they cannot be compared, or what a bare comparison of the curves leaves out.
    headline : tuple of Difference
        Verdict, promised epsilon, delta, adjacency, unit, seed: what differs of them.
    curve : tuple of CurveRow
    entries : tuple of Difference
        Mechanism, accountant, proof, version, day, model, schema, ledger, signature and parameters that differ.
    items : tuple of Difference
        Releases, assumptions and exceptions that one has and the other has not.
    """

    promise: str
    reasons: tuple[str, ...]
    headline: tuple[Difference, ...]
    curve: tuple[CurveRow, ...]
    entries: tuple[Difference, ...]
    items: tuple[Difference, ...]

    @property
    def is_same(self) -> bool:
        """Whether nothing differs."""
        return self.promise == "the same" and not (self.reasons or self.headline or self.entries or self.items)

    def summary(self) -> str:
        """Return the comparison of the promises in one sentence."""
        return {
            "the same": "The two events cost the same at every delta compared.",
            "stronger": "A stronger promise: the second costs more at no delta compared, and less at some, or only the "
            "noise of the first can be repeated from a seed.",
            "weaker": "A WEAKER promise: the second costs less at no delta compared, and more at some, or only its own "
            "noise can be repeated from a seed.",
            "crossing": "Neither is stronger throughout: it depends on delta, or on who knows a seed.",
            "not comparable": "The two promises are about different things and cannot be compared.",
        }[self.promise]

    def to_dict(self) -> dict[str, object]:
        """Return the comparison as plain data for JSON; infinity is the string ``"inf"``."""
        return {
            "format": "sottovoce-receipt-difference",
            "version": 1,
            "promise": self.promise,
            "summary": self.summary(),
            "reasons": list(self.reasons),
            "curve": plain(self.curve),
            "differences": plain((*self.headline, *self.entries, *self.items)),
        }

    def rows(self) -> list[tuple[str, str]]:
        """Return (heading, text) pairs for a readable table."""
        return [
            ("promise", "\n".join((self.summary(), *self.reasons))),
            *((change.entry, _arrow(change)) for change in self.headline),
            *([("epsilon at delta", "\n".join(map(_pair, self.curve)))] if self.curve else []),
            *((change.entry, _arrow(change)) for change in (*self.entries, *self.items)),
        ]


def diff_receipts(a: Guarantee, b: Guarantee) -> ReceiptDifference:
    """Compare two receipts.

    Parameters
    ----------
    a, b : Guarantee
        Before and after.

    Returns
    -------
    ReceiptDifference
        Promises are compared only where unit and adjacency are the same. Both events are accounted again at the deltas
        1e-3, ..., 1e-10 and at both promised ones: equal headlines can hide different curves.
    """
    for name, value in (("a", a), ("b", b)):
        if not isinstance(value, Guarantee):
            raise ParameterError(f"{name} must be a Guarantee; got {type(value).__name__}.")
    apart = _apart(a, b)
    curve = () if apart else _curve(a, b)
    return ReceiptDifference(
        promise="not comparable" if apart else _compared(a, b, curve),
        reasons=apart or _caveats(a, b),
        headline=_changed(
            ("verdict", verdict_of(a).headline, verdict_of(b).headline),
            ("promised epsilon", rounded_up(a.epsilon, 6), rounded_up(b.epsilon, 6)),
            ("promised delta", rounded_up(a.delta, 6), rounded_up(b.delta, 6)),
            ("adjacency", a.adjacency, b.adjacency),
            ("unit", a.unit, b.unit),
            ("seeded", digits(a.seeded), digits(b.seeded)),
        ),
        curve=curve,
        entries=(
            *_changed(
                ("mechanism", a.mechanism, b.mechanism),
                ("accountant", a.accountant, b.accountant),
                ("proof", a.proof, b.proof),
                ("version", a.version, b.version),
                ("day", str(a.day), str(b.day)),
            ),
            *_ties(a, b),
            *_parameters(a, b),
        ),
        items=(
            *_items("released", a.releases, b.releases),
            *_items("taken as public or true", a.assumptions, b.assumptions),
            *_items("not covered", a.not_covered, b.not_covered),
        ),
    )


def _apart(a: Guarantee, b: Guarantee) -> tuple[str, ...]:
    reasons = []
    if a.adjacency != b.adjacency:
        reasons.append(f"neighbours differ: {a.adjacency} and {b.adjacency}; equal epsilons do not mean the same")
    if a.unit != b.unit:
        reasons.append(f"the units of protection differ: {a.unit!r} and {b.unit!r}")
    return tuple(reasons)


def _caveats(a: Guarantee, b: Guarantee) -> tuple[str, ...]:
    """Return what the curves of two comparable receipts leave out."""
    caveats = []
    if a.seeded != b.seeded:
        caveats.append(
            f"the noise of the {'first' if a.seeded else 'second'} can be repeated from a seed: it is not private "
            "against whoever knows the seed, whatever its epsilon"
        )
    if set(b.assumptions) - set(a.assumptions):
        caveats.append("the second rests on facts that the first does not name")
    if set(a.assumptions) - set(b.assumptions):
        caveats.append("the first rests on facts that the second does not name")
    if set(a.releases) - set(b.releases):
        caveats.append("the first covers releases that the second does not name")
    if set(b.not_covered) - set(a.not_covered):
        caveats.append("the second excepts what the first does not")
    return tuple(caveats)


def _curve(a: Guarantee, b: Guarantee) -> tuple[CurveRow, ...]:
    deltas = sorted({*_DELTAS, a.delta, b.delta}, reverse=True)
    return tuple(CurveRow(delta, a.epsilon_at(delta), b.epsilon_at(delta)) for delta in deltas)


def _compared(a: Guarantee, b: Guarantee, curve: Sequence[CurveRow]) -> str:
    less = any(row.after < row.before and not _close(row) for row in curve) or (a.seeded and not b.seeded)
    more = any(row.after > row.before and not _close(row) for row in curve) or (b.seeded and not a.seeded)
    if less and more:
        return "crossing"
    return "stronger" if less else "weaker" if more else "the same"


def _close(row: CurveRow) -> bool:
    return row.before == row.after or math.isclose(row.before, row.after, rel_tol=_SAME)


def _changed(*entries: tuple[str, str, str]) -> tuple[Difference, ...]:
    return tuple(Difference(*entry) for entry in entries if entry[1] != entry[2])


def _ties(a: Guarantee, b: Guarantee) -> list[Difference]:
    """Return what differs of model, schema, ledger and signature; None on the side whose format has no such entry."""
    return _either("", dict(a.ties()), dict(b.ties()))


def _parameters(a: Guarantee, b: Guarantee) -> list[Difference]:
    first, second = (
        {name: digits(value) for name, value in flat_parameters(one.parameters).items()} for one in (a, b)
    )  # fmt: skip
    return _either("parameter ", first, second)


def _either(what: str, before: Mapping[str, str], after: Mapping[str, str]) -> list[Difference]:
    both = {name: (before.get(name), after.get(name)) for name in {**before, **after}}
    return [Difference(f"{what}{name}", one, other) for name, (one, other) in both.items() if one != other]


def _items(entry: str, before: Sequence[str], after: Sequence[str]) -> list[Difference]:
    return [
        *(Difference(entry, item, None) for item in before if item not in after),
        *(Difference(entry, None, item) for item in after if item not in before),
    ]


def _arrow(change: Difference) -> str:
    if change.before is None:
        return f"+ {change.after}"
    if change.after is None:
        return f"- {change.before}"
    return f"{change.before}\n-> {change.after}"


def _pair(row: CurveRow) -> str:
    mark = "" if _close(row) else " (less)" if row.after < row.before else " (MORE)"
    return f"{row.delta:.4g}: {rounded_up(row.before, 4)} -> {rounded_up(row.after, 4)}{mark}"
