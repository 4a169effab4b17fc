"""Several receipts: what all cost together."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sottovoce._plain_data import plain
from sottovoce._shown import rounded_up
from sottovoce._validation import number
from sottovoce.exceptions import AccountingError, ParameterError
from sottovoce.privacy.accounting import accountant_for
from sottovoce.privacy.events import compose
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.report.reading import fingerprint

_ASSUMED = (
    "all receipts are about the same people: for different people nothing adds up",
    "these are all: what was released beside them is not in the sum",
    "what was run, and with which budget, was fixed before the first run. If a later run was chosen after looking at "
    "results of earlier ones, this sum need not hold: only a ledger, charged before each run, bounds that "
    "(docs/privacy/ledger.md)",
)


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
    for place, one in enumerate(prints):
        if (first := prints.index(one)) != place:
            raise ParameterError(
                f"receipts {first + 1} and {place + 1} are the same receipt (fingerprint {one[:16]}...): one run was "
                "paid for once. Name it once."
            )
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
