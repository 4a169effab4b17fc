"""Several receipts: what differs between two, compared along the whole curve, and what all cost together."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sottovoce._plain_data import plain
from sottovoce._shown import rounded_up
from sottovoce._validation import number
from sottovoce.exceptions import AccountingError, ParameterError
from sottovoce.privacy.accounting import accountant_for
from sottovoce.privacy.events import compose
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.report.reading import fingerprint
from sottovoce.report.verdict import digits, flat_parameters, verdict_of

_DELTAS: Final = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10)
_SINGLE: Final = ("adjacency", "unit", "seeded", "mechanism", "accountant", "proof", "version", "day")
_SAME: Final = 1e-6  # relative; accountants on a grid may differ by less
_ASSUMED = (
    "all receipts are about the same people: for different people nothing adds up",
    "these are all: what was released beside them is not in the sum",
    "what was run, and with which budget, was fixed before the first run. If a later run was chosen after looking at "
    "results of earlier ones, this sum need not hold: only a ledger, charged before each run, bounds that "
    "(docs/privacy/ledger.md)",
)


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
    curve : tuple of CurveRow
    differences : tuple of Difference
        First of verdict and promise, then of all else; of releases, assumptions and exceptions those that one lacks.
    """

    promise: str
    reasons: tuple[str, ...]
    curve: tuple[CurveRow, ...]
    differences: tuple[Difference, ...]

    @property
    def is_same(self) -> bool:
        """Whether nothing differs."""
        return self.promise == "the same" and not (self.reasons or self.differences)

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
            "differences": plain(self.differences),
        }

    def rows(self) -> list[tuple[str, str]]:
        """Return (heading, text) pairs for a readable table."""
        return [
            ("promise", "\n".join((self.summary(), *self.reasons))),
            *([("epsilon at delta", "\n".join(map(_pair, self.curve)))] if self.curve else []),
            *((change.entry, _arrow(change)) for change in self.differences),
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
    before, after = _entries(a), _entries(b)
    pairs = (Difference(key[0], before.get(key), after.get(key)) for key in before | after)
    return ReceiptDifference(
        promise="not comparable" if apart else _compared(a, b, curve),
        reasons=apart or _caveats(a, b),
        curve=curve,
        differences=tuple(pair for pair in pairs if pair.before != pair.after),
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
    which = "first" if a.seeded else "second"
    seed = f"the noise of the {which} can be repeated from a seed: it is not private against whoever knows the seed, "
    told = {
        f"{seed}whatever its epsilon": a.seeded != b.seeded,
        "the second rests on facts that the first does not name": {*b.assumptions} - {*a.assumptions},
        "the first rests on facts that the second does not name": {*a.assumptions} - {*b.assumptions},
        "the first covers releases that the second does not name": {*a.releases} - {*b.releases},
        "the second excepts what the first does not": {*b.not_covered} - {*a.not_covered},
    }
    return tuple(text for text, holds in told.items() if holds)


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


def _entries(one: Guarantee) -> dict[tuple[str, str], str]:
    """Return what a receipt says: texts of single entries, and each item of a list under its own name."""
    told = {
        "verdict": verdict_of(one).headline, "promised epsilon": rounded_up(one.epsilon, 6),
        "promised delta": rounded_up(one.delta, 6),
        **{name: str(getattr(one, name)) for name in _SINGLE}, **dict(one.ties()),
        **{f"parameter {name}": digits(value) for name, value in flat_parameters(one.parameters).items()},
    }  # fmt: skip
    lists = {"released": one.releases, "taken as public or true": one.assumptions, "not covered": one.not_covered}
    single = {(name, ""): text for name, text in told.items()}
    return single | {(name, item): item for name, items in lists.items() for item in items}


def _arrow(change: Difference) -> str:
    if change.before is None:
        return f"+ {change.after}"
    if change.after is None:
        return f"- {change.before}"
    return f"{change.before}\n-> {change.after}"


def _pair(row: CurveRow) -> str:
    mark = "" if _close(row) else " (less)" if row.after < row.before else " (MORE)"
    return f"{row.delta:.4g}: {rounded_up(row.before, 4)} -> {rounded_up(row.after, 4)}{mark}"


@dataclass(frozen=True)
class ReceiptSum:
    """What several runs cost together.

    Attributes
    ----------
    epsilon, delta : float
        The promise of all together.
    adjacency, unit : str
    accountant : str
        Who composed the events.
    fingerprints : tuple of str
        Of the receipts, in their order.
    caveats : tuple of str
        What makes the sum worth less than it looks.
    assumed : tuple of str
    """

    epsilon: float
    delta: float
    adjacency: str
    unit: str
    accountant: str
    fingerprints: tuple[str, ...]
    caveats: tuple[str, ...]
    assumed: tuple[str, ...] = _ASSUMED

    def statement(self) -> str:
        """Return the promise of all together as one sentence."""
        n = len(self.fingerprints)
        runs, are = ("1 run", "is") if n == 1 else (f"{n} runs", "are")
        if math.isinf(self.epsilon):
            return f"NOT PRIVATE: together {runs} keep to no epsilon at delta = {self.delta:.6g}."
        return (
            f"Together {runs} {are} ({rounded_up(self.epsilon, 6)}, {rounded_up(self.delta, 6)})-differentially "
            f"private for {self.unit}, adjacency {self.adjacency}."
        )

    def to_dict(self) -> dict[str, object]:
        """Return the sum as plain data for JSON; infinity is the string ``"inf"``."""
        return {"format": "sottovoce-receipt-sum", "version": 1, "statement": self.statement(), **plain(self)}

    def rows(self) -> list[tuple[str, str]]:
        """Return (heading, text) pairs for a readable table."""
        return [
            ("sum", self.statement()),
            ("accountant", self.accountant),
            ("receipts (SHA-256)", "\n".join(self.fingerprints)),
            *([("mind", "\n".join(self.caveats))] if self.caveats else []),
            ("assumed", "\n".join(self.assumed)),
        ]


def sum_receipts(receipts: Sequence[Guarantee], *, delta: float | None = None) -> ReceiptSum:
    """Add receipts up.

    Parameters
    ----------
    receipts : sequence of Guarantee
        About the same people, for the same unit and adjacency; each of them once.
    delta : float or None, default=None
        At which to state the sum; None takes the largest of the receipts. Where the events can only be added up one by
        one, each run gets an equal part of it.

    Returns
    -------
    ReceiptSum

    Raises
    ------
    ParameterError
        If there is none, one is given twice, or units or adjacencies differ.
    AccountingError
        If no accountant can state the sum at this delta.
    """
    receipts = tuple(receipts)
    if not receipts:
        raise ParameterError("receipts must hold at least one receipt; got none.")
    for place, receipt in enumerate(receipts):
        if not isinstance(receipt, Guarantee):
            raise ParameterError(f"receipts[{place}] must be a Guarantee; got {type(receipt).__name__}.")
    prints = tuple(map(fingerprint, receipts))
    _refuse_twice(prints)
    for name in ("adjacency", "unit"):
        found = sorted({getattr(receipt, name) for receipt in receipts})
        if len(found) > 1:
            raise ParameterError(
                f"receipts of different {name} do not add up: {', '.join(map(repr, found))}. Add up those of each by "
                f"themselves; for one sum, fit again with the same {name}."
            )
    largest = max(receipt.delta for receipt in receipts)
    delta = number("delta", largest if delta is None else delta, at_least=0.0, below=1.0)
    epsilon, accountant = _composed(receipts, delta)
    return ReceiptSum(
        epsilon, delta, receipts[0].adjacency, receipts[0].unit, accountant, prints, _catches(receipts, prints)
    )


def _refuse_twice(prints: Sequence[str]) -> None:
    for place, one in enumerate(prints):
        first = prints.index(one)
        if first != place:
            raise ParameterError(
                f"receipts {first + 1} and {place + 1} are the same receipt (fingerprint {one[:16]}...): one run was "
                "paid for once. Name it once."
            )


def _composed(receipts: Sequence[Guarantee], delta: float) -> tuple[float, str]:
    """Return the epsilon of all events together, and who accounted it: jointly where an accountant can, else added."""
    event = compose(*(receipt.event for receipt in receipts))
    each = sum(receipt.epsilon_at(delta / len(receipts)) for receipt in receipts)
    try:
        joint = accountant_for(event)
        together = joint.epsilon(event, delta)
    except AccountingError:
        return each, "each run at an equal part of delta, added up"
    return (together, joint.name) if together <= each else (each, "each run at an equal part of delta, added up")


def _catches(receipts: Sequence[Guarantee], prints: Sequence[str]) -> tuple[str, ...]:
    seeded = [one[:16] for one, receipt in zip(prints, receipts, strict=True) if receipt.seeded]
    named = sorted({receipt.charge["dataset"] for receipt in receipts if receipt.charge is not None})
    uncharged = sum(receipt.charge is None for receipt in receipts)
    told = {
        f"the noise of {', '.join(seeded)} can be repeated from a seed: no promise against whoever knows it": seeded,
        f"the ledgers name different data sets: {', '.join(map(repr, named))}": len(named) > 1,
        f"{uncharged} of {len(receipts)} name no entry of a ledger": uncharged,
    }
    return tuple(text for text, holds in told.items() if holds)
